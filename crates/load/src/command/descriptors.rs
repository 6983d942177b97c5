//! The limit of open files.

use std::fmt::Display;

use netio::resource_limits;

use super::CommandError;

/// Descriptors other than those counted: standard streams, signals, polls, the socket of probes.
const OTHER_DESCRIPTORS: u64 = 16;

/// An error if this process may not have this many descriptors besides the usual ones. Its text begins with `what` needs them, and ends
/// with the `alternative` to a higher limit.
pub fn require_descriptors(count: u64, what: impl Display, alternative: &str) -> Result<(), CommandError> {
    let limit = resource_limits::raise_open_files().map_err(CommandError::system("the limit of descriptors"))?;
    let needed = count + OTHER_DESCRIPTORS;
    if needed <= limit {
        return Ok(());
    }
    Err(CommandError::Input(format!(
        "{what} this process may have {limit} descriptors; allow {needed} (`ulimit -n`, LimitNOFILE=){alternative}"
    )))
}
