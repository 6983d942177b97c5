//! How many TCP connections the limit of open files (RLIMIT_NOFILE) allows.

use std::thread;

use tracing::warn;

use crate::control;
use crate::zones::read_pool::MAX_STALLED;

/// Descriptors for the log, the state-dir, configuration files, folders, and what libraries open for a moment.
const OTHER: usize = 64;

/// What the transfer thread has open: connections to primaries, a socket for each primary, one for each source of NOTIFY.
const TRANSFERS: usize = 512;

/// How many descriptors the daemon may need besides its TCP connections.
pub fn reserved(addresses: usize, workers: usize, tcp_workers: usize) -> usize {
    let zone_files = thread::available_parallelism().map_or(1, usize::from) + MAX_STALLED;
    // A TCP thread has an epoll and an eventfd, and accepts a connection before it closes another for it.
    addresses * (workers + tcp_workers) + 3 * tcp_workers + zone_files + control::CLIENTS + TRANSFERS + OTHER
}

/// The configured number of connections, or fewer if the raised limit leaves no room for them.
pub fn max_connections(configured: usize, reserved: usize) -> usize {
    let limit = match netio::resource_limits::raise_open_files() {
        Ok(limit) => usize::try_from(limit).unwrap_or(usize::MAX),
        Err(error) => {
            warn!(%error, "cannot read the limit of open files; it may be too low for `tcp-connections`");
            return configured;
        }
    };
    let possible = limit.saturating_sub(reserved).max(1);
    if possible < configured {
        warn!(
            limit,
            reserved,
            "the limit of open files is too low for {configured} `tcp-connections`: at most {possible} are kept; raise LimitNOFILE= or `ulimit -n`"
        );
    }
    configured.min(possible)
}
