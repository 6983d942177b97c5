//! Whether the limit of open files (RLIMIT_NOFILE) suffices, and how many connections it and the memory allow.

use std::thread;

use tracing::warn;

use crate::control;
use crate::listen::QUIC_CONNECTION_MEMORY;
use crate::zones::read_pool::MAX_STALLED;

/// Descriptors for the log, the state-dir, configuration files, folders, and what libraries open for a moment.
const OTHER: usize = 64;

/// What the transfer thread has open: connections to primaries, a socket for each primary, one for each source of NOTIFY.
const TRANSFERS: usize = 512;

/// What is open besides listeners, zone files and clients of the control socket: 12 after a start with a state-dir; twice that leaves room
/// for what is open for a moment.
const AT_LEAST: usize = 24;

/// A limit of open files that is too low to start.
#[derive(Debug, thiserror::Error)]
#[error(
    "the limit of open files is {limit}, but zonda needs at least {needed} with this configuration (help: raise LimitNOFILE= in the unit, or run `ulimit -n {needed}` before you start it)"
)]
pub struct TooFewFiles {
    limit: usize,
    needed: usize,
}

/// The descriptors that the threads of the listeners have open: sockets, and an epoll and an eventfd for each thread for streams,
/// which also accepts a connection before it closes another for it.
fn of_listeners(addresses: usize, workers: usize, stream_workers: usize) -> usize {
    addresses * (workers + stream_workers) + 3 * stream_workers
}

/// How many descriptors the daemon may need besides its TCP connections.
pub fn reserved(addresses: usize, workers: usize, stream_workers: usize) -> usize {
    let zone_files = reading() + MAX_STALLED;
    // A second handle of each UDP socket, for updates that are answered later (`ServerBatch::late_reply`).
    let late_replies = addresses * workers;
    of_listeners(addresses, workers, stream_workers) + late_replies + zone_files + control::CLIENTS + TRANSFERS + OTHER
}

/// How many descriptors a start, a reload and the clients of the control socket need at least. With fewer, any of them may fail.
pub fn needed(addresses: usize, workers: usize, stream_workers: usize) -> usize {
    // A zone file may include another.
    let zone_files = 2 * reading();
    of_listeners(addresses, workers, stream_workers) + zone_files + control::CLIENTS + control::RELOADS + AT_LEAST
}

/// Raises the soft limit of open files to the hard limit, which must allow what is needed.
pub fn raise_limit(needed: usize) -> Result<(), TooFewFiles> {
    match netio::resource_limits::raise_open_files().map(usize::try_from) {
        Ok(Ok(limit)) if limit < needed => Err(TooFewFiles { limit, needed }),
        _ => Ok(()),
    }
}

/// Zone files that are read at once.
fn reading() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// The memory of an idle TCP connection with its share of buffers, in octets: 4.1 KiB of the kernel, up to 1 KiB here.
const CONNECTION_MEMORY: u64 = 8 << 10;
/// The part of the available memory that idle connections may take: those of TCP and TLS, and again those of QUIC.
const MEMORY_PART: u64 = 4;
/// The number of connections where the system does not say what it has.
const FALLBACK: usize = 10_000;

/// The configured number of connections, or fewer if the raised limit of open files leaves no room for them. 0 means as many as
/// that limit and the memory allow.
pub fn max_connections(configured: usize, reserved: usize) -> usize {
    let configured = if configured == 0 { automatic(reserved) } else { configured };
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
            "the limit of open files is too low for {configured} `tcp-connections`: at most {possible} are kept (help: raise LimitNOFILE= or `ulimit -n`)"
        );
    } else if limit <= reserved {
        warn!(
            limit,
            reserved,
            "the limit of open files leaves room for one TCP connection (help: raise LimitNOFILE= or `ulimit -n`)"
        );
    }
    configured.min(possible)
}

/// The configured number of QUIC connections; 0 means as many as the memory allows.
pub fn max_quic_connections(configured: usize) -> usize {
    match configured {
        0 => netio::resource_limits::available_memory()
            .map_or(FALLBACK, |memory| saturated(quic_connections_within(memory))),
        _ => configured,
    }
}

/// The number of QUIC connections that so many octets of available memory allow.
pub fn quic_connections_within(memory: u64) -> u64 {
    (memory / MEMORY_PART / QUIC_CONNECTION_MEMORY).max(1)
}

fn automatic(reserved: usize) -> usize {
    let files = netio::resource_limits::raise_open_files();
    let memory = netio::resource_limits::available_memory();
    match (files, memory) {
        (Ok(files), Ok(memory)) => saturated(connections_within(files, reserved as u64, memory)),
        _ => FALLBACK,
    }
}

/// The number of TCP and TLS connections that a limit of open files, of which some are `reserved`, and so many octets of available memory
/// allow.
pub fn connections_within(files: u64, reserved: u64, memory: u64) -> u64 {
    files.saturating_sub(reserved).min(memory / MEMORY_PART / CONNECTION_MEMORY).max(1)
}

fn saturated(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_limited_by_files_and_by_memory() {
        assert_eq!(connections_within(1 << 20, 1000, 64 << 30), (1 << 20) - 1000);
        assert_eq!(connections_within(1 << 20, 1000, 1 << 30), 32_768);
        assert_eq!(connections_within(900, 1000, 1 << 30), 1);
    }

    /// A UDP socket gets a second descriptor when it first has to reply late.
    #[test]
    fn late_replies_have_their_descriptors() {
        let (addresses, workers, stream_workers) = (3, 4, 2);
        let more = reserved(addresses, workers, stream_workers) - reserved(0, workers, stream_workers);
        assert_eq!(more, addresses * (2 * workers + stream_workers));
    }

    #[test]
    fn quic_connections_are_limited_by_memory() {
        assert_eq!([1, 8 << 30, 12 << 30].map(quic_connections_within), [1, 29_127, 43_690]);
        assert_eq!(max_quic_connections(7), 7);
    }
}
