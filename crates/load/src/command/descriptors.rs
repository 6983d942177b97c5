//! The limit of open files.

use std::fmt::Display;

use netio::resource_limits;

use super::CommandError;

/// Descriptors other than those counted: standard streams, signals, polls, the socket of probes.
const OTHER_DESCRIPTORS: u64 = 16;

/// An error if this process may not have this many descriptors beside [`OTHER_DESCRIPTORS`]. It begins with `what`, and ends with `or`,
/// which is another way to do with fewer.
pub fn require_descriptors(count: u64, what: impl Display, or: &str) -> Result<(), CommandError> {
    let limit = resource_limits::raise_open_files().map_err(CommandError::system("the limit of descriptors"))?;
    let needed = count + OTHER_DESCRIPTORS;
    if needed <= limit {
        return Ok(());
    }
    Err(CommandError::Input(format!(
        "{what} this process may have {limit} descriptors; allow {needed} (`ulimit -n`, LimitNOFILE=){or}"
    )))
}
