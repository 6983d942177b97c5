//! What the engine asks of its surroundings, and what it reports to them.

use std::net::SocketAddr;

use wire::NameRef;

use super::super::link::ConnectionId;
use super::super::primary::{PeerConfig, PrimaryId, SizeLimits};
use super::super::refresh::CheckFailure;
use super::super::session::{ExchangeCounts, TransferFailure, TransferSink};
use super::super::soa_timers::StoredTimers;
use crate::zone_id::ZoneId;

/// What the engine asks of the network and of the writer.
pub trait TransferIo {
    /// What receives the messages of a transfer.
    type Sink: TransferSink;

    /// Sends a datagram from the socket that is connected to this primary.
    fn send_probe(&mut self, primary: PrimaryId, config: &PeerConfig, datagram: &[u8]);
    /// Sends a NOTIFY.
    fn send_notify(&mut self, target: &PeerConfig, datagram: &[u8]);
    /// Nothing more is sent to this primary: its socket for probes may be closed.
    fn forget(&mut self, primary: PrimaryId);
    /// Opens a connection; the result is [`super::TransferEngine::connected`] or [`super::TransferEngine::closed`], never within this call.
    fn connect(&mut self, connection: ConnectionId, config: &PeerConfig);
    /// Closes a connection, of which nothing more is reported.
    fn close(&mut self, connection: ConnectionId);
    /// What is to receive the messages of a transfer.
    fn new_sink(&mut self, transfer: RequestedTransfer<'_>) -> Self::Sink;
    /// Something for the writer.
    fn event(&mut self, event: TransferEvent<Self::Sink>);
}

/// A transfer that is asked for.
#[derive(Clone, Copy, Debug)]
pub struct RequestedTransfer<'a> {
    /// The zone.
    pub apex: NameRef<'a>,
    /// The serial that changes are asked from; `None` for AXFR.
    pub from_serial: Option<u32>,
    /// The serial that is served, of which an earlier one is not worth receiving; `None` if any serial is accepted.
    pub not_before: Option<u32>,
    /// How large the zone may be.
    pub limits: SizeLimits,
}

/// What the writer must know.
pub enum TransferEvent<T> {
    /// A version was received. The writer must answer with [`super::TransferCommand::Published`], [`super::TransferCommand::Rejected`] or
    /// [`super::TransferCommand::Outdated`].
    Received {
        /// The zone.
        zone: ZoneId,
        /// What received it.
        sink: T,
        /// How it went.
        report: TransferReport,
    },
    /// A transfer failed; the version served stays.
    Failed {
        /// The zone.
        zone: ZoneId,
        /// How it went.
        report: TransferReport,
    },
    /// A check found nothing to transfer, for this reason. The zone is checked again later.
    CheckFailed {
        /// The zone.
        zone: ZoneId,
        /// The reason.
        reason: CheckFailure,
        /// Which primary has answered what, if none has answered with a SOA record.
        details: Option<String>,
    },
    /// A primary could not be asked.
    Unreachable {
        /// The primary.
        primary: SocketAddr,
        /// The reason.
        reason: String,
    },
    /// A version was published, or a primary confirmed it: it expires later than before, and is served again if it had expired.
    Refreshed {
        /// The zone.
        zone: ZoneId,
        /// The times to store.
        timers: StoredTimers,
    },
    /// The zone must not be served any more (RFC 1034 4.3.5).
    Expired {
        /// The zone.
        zone: ZoneId,
    },
    /// The times of some zones, for the EXPIRE option (RFC 7314 3.2) and to be stored: the clock was set, or
    /// [`super::TransferCommand::ReportTimers`] has asked for them.
    Timers(Vec<(ZoneId, StoredTimers)>),
}

/// How a transfer went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransferReport {
    /// The primary.
    pub primary: SocketAddr,
    /// The serial that changes were asked from; `None` for AXFR.
    pub from_serial: Option<u32>,
    /// Its counts.
    pub counts: ExchangeCounts,
    /// Records received.
    pub records: u64,
    /// Why it failed.
    pub failure: Option<TransferFailure>,
}
