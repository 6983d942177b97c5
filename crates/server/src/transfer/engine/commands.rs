//! What the engine is asked to do.

use std::net::IpAddr;
use std::sync::Arc;

use wire::Name;

use super::super::primary::{PeerConfig, SecondaryLimits};
use super::super::refresh::ZoneVersion;
use super::super::soa_timers::SoaTimers;
use crate::zone_id::ZoneId;

/// What the writer and others ask of the engine.
#[derive(Debug)]
pub enum TransferCommand {
    /// A secondary zone was configured.
    Add {
        /// The zone.
        zone: ZoneId,
        /// Its apex.
        apex: Name,
        /// Its primaries.
        primaries: Arc<[PeerConfig]>,
        /// Its limits.
        limits: SecondaryLimits,
        /// Its stored version.
        version: Option<ZoneVersion>,
    },
    /// The configuration of a zone changed.
    Reconfigure {
        /// The zone.
        zone: ZoneId,
        /// Its primaries.
        primaries: Arc<[PeerConfig]>,
        /// Its limits.
        limits: SecondaryLimits,
    },
    /// The zone is not transferred any more: it was frozen, or has no primaries. What is announced of it goes on.
    EndRefresh(ZoneId),
    /// The zone was removed.
    Remove(ZoneId),
    /// A NOTIFY that the access list permits arrived.
    NotifyReceived {
        /// The zone.
        zone: ZoneId,
        /// The serial of its SOA record, if it has one.
        serial: Option<u32>,
        /// The sender.
        from: IpAddr,
    },
    /// Check the zone now.
    Refresh(ZoneId),
    /// Transfer the whole zone now.
    Retransfer(ZoneId),
    /// A received version was published.
    Published {
        /// The zone.
        zone: ZoneId,
        /// Its serial.
        serial: u32,
        /// The intervals of its SOA record.
        timers: SoaTimers,
        /// The EXPIRE option in its report.
        expire_s: Option<u32>,
    },
    /// A received version was not published.
    Rejected {
        /// The zone.
        zone: ZoneId,
        /// Whether its changes did not fit the version served, or led to another one than that of the primary.
        needs_whole_zone: bool,
    },
    /// The zone was changed while the version was built on what it was before.
    Outdated {
        /// The zone.
        zone: ZoneId,
    },
    /// Report the times of a zone.
    ReportTimers {
        /// The zone.
        zone: ZoneId,
    },
    /// The TLS settings of primaries were replaced.
    TlsReplaced,
    /// A version of any zone was published: send NOTIFY.
    SendNotify {
        /// The zone.
        zone: ZoneId,
        /// Its apex.
        apex: Name,
        /// The RDATA of its SOA record.
        soa: Arc<[u8]>,
        /// The targets.
        targets: Arc<[PeerConfig]>,
    },
}
