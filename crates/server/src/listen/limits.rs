//! Limits that are the same for TCP, TLS and QUIC.

use std::time::Duration;

/// Transfers that one client may have in progress on one thread: each may keep a replaced version of its zone in memory.
pub(super) const TRANSFERS_PER_CLIENT: usize = 100;
/// How long a transfer may take whose version has been replaced and is kept in memory for it alone. BIND and Zonda give up a transfer
/// from their primary after the same time.
pub(super) const REPLACED_TRANSFER_MAX: Duration = Duration::from_secs(2 * 3600);
/// The size of the counts of a thread's transfers per client, as a number of transfers.
pub(super) const COUNTED_TRANSFERS: usize = 1024;
/// To free memory, the connection that has the most is closed, of this many that have any and made no progress for the longest.
pub(super) const EVICTION_CANDIDATES: usize = 16;
/// How long a handshake may take, and the PROXY header before it. Early data does not prolong it, as its client may not have the
/// address.
pub(super) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest wait of a thread: idle ones, too, must release replaced zones.
pub(super) const MAX_WAIT: Duration = Duration::from_millis(500);
