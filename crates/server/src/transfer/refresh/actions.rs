//! What the scheduler asks its caller to do, and what it is given.

use super::{PrimaryId, SoaTimers, StoredTimers, ZoneId};

/// What the caller must do. Every probe and transfer must be answered by exactly one result, unless its primary is released first; a transfer
/// without a result by [`super::RefreshScheduler::transfer_abandoned`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefreshAction {
    /// Ask for the SOA record, then call [`super::RefreshScheduler::probe_result`].
    Probe {
        /// The zone.
        zone: ZoneId,
        /// The primary to ask.
        primary: PrimaryId,
    },
    /// Transfer the zone, then call [`super::RefreshScheduler::transfer_result`].
    Transfer {
        /// The zone.
        zone: ZoneId,
        /// The primary to transfer from.
        primary: PrimaryId,
        /// The serial to start from; `None` for AXFR.
        from_serial: Option<u32>,
        /// The serial that is served; `None` if any serial is accepted: there is no version, it has expired, or a retransfer was requested.
        not_before: Option<u32>,
    },
    /// RFC 1034 4.3.5: stop serving the zone.
    Expire {
        /// The zone.
        zone: ZoneId,
    },
    /// A primary confirmed the version. An expired zone is served again.
    Refreshed {
        /// The zone.
        zone: ZoneId,
        /// When it is checked next, and when it expires.
        timers: StoredTimers,
    },
    /// A check ended without success; the zone is checked again later.
    CheckFailed {
        /// The zone.
        zone: ZoneId,
        /// The reason.
        reason: CheckFailure,
    },
    /// No zone uses this primary any more: drop what is in flight to it, without results.
    PrimaryUnused(PrimaryId),
}

/// Why a check ended without success.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckFailure {
    /// No primary answered with a SOA record.
    #[error("no primary answered with a SOA record of the zone")]
    NoAnswer,
    /// The highest serial of all primaries is older than the one served.
    #[error("all primaries have an older serial; `zonda zone retransfer` accepts it")]
    OlderSerial,
    /// The primary answers queries, but transfers do not reach it.
    #[error("the primary answers SOA queries, but cannot be reached for transfers")]
    Unreachable,
    /// A transfer failed; it has been reported.
    #[error("the transfer failed")]
    Transfer,
}

/// The result of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeResult {
    /// The SOA record, and the EXPIRE option in seconds (RFC 7314), if there is one.
    Answer {
        /// The serial of the primary.
        serial: u32,
        /// When the primary's own version expires.
        expire_s: Option<u32>,
    },
    /// Another answer: an error, or no SOA record.
    Refused,
    /// No answer to any retransmission.
    Timeout,
    /// It was not sent: the zone was removed meanwhile.
    NotSent,
}

/// The result of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferResult {
    /// A version was received; the caller passes it to the writer, which publishes or rejects it.
    Delivered,
    /// IXFR: the primary has no later version than this serial.
    Current {
        /// The serial of the primary.
        serial: u32,
        /// The EXPIRE option of the response.
        expire_s: Option<u32>,
    },
    /// The primary answered, but not with this zone.
    ZoneFailed,
    /// The primary cannot be reached.
    PrimaryFailed,
    /// The connection ended before the transfer began, for reasons that say nothing about the zone.
    NotStarted,
}

/// The version that a zone has when it is added.
#[derive(Clone, Copy, Debug)]
pub struct ZoneVersion {
    /// Its serial.
    pub serial: u32,
    /// The intervals of its SOA record.
    pub timers: SoaTimers,
    /// The stored times, if it was a secondary before.
    pub stored: Option<StoredTimers>,
}

/// What `zonda zone status` shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefreshStatus {
    /// The serial served or expired; `None` without a version.
    pub serial: Option<u32>,
    /// The highest serial that a primary has reported.
    pub primary_serial: u32,
    /// When the zone expires, in seconds since 1970.
    pub expires_at_s: u32,
    /// When the next check is due; `None` if one is in progress.
    pub check_at_s: Option<u32>,
    /// Whether the zone has expired.
    pub is_expired: bool,
    /// Failed checks in a row.
    pub failures: u8,
    /// Why it waits for its primaries, if none of them can be reached.
    pub problem: Option<String>,
}
