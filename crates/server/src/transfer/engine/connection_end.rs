//! How a connection ended, and what that means for its exchanges.

use super::super::session::{Session, TransferFailure, TransferSink};

/// Why a connection ended.
pub(super) enum ConnectionEnd {
    /// It was not established.
    Unreachable(String),
    /// The primary closed it.
    ClosedByPeer(String),
    /// It stalled, trickles, or sends what is not wanted.
    Broken(TransferFailure),
}

/// What a connection had done when it ended.
pub(super) struct EndedConnection {
    pub(super) failure: TransferFailure,
    pub(super) answered: u64,
    pub(super) in_flight: usize,
    /// Nothing ever came over it, nor from the primary otherwise lately.
    pub(super) is_unreachable: bool,
    /// It stalls or trickles.
    is_slow: bool,
    /// A part of a transfer had arrived.
    is_partial: bool,
}

/// What the end of its connection means for an exchange.
pub(super) enum ExchangeOutcome {
    /// The primary cannot be reached.
    Unreachable,
    /// The exchange failed.
    Failed,
    /// It is tried on another connection, which counts as an attempt or not.
    TryAgain { is_counted: bool },
}

impl EndedConnection {
    /// A primary that `was_heard` lately may need long for the first octet of a huge zone: its other zones do not suffer for that.
    pub(super) fn new<T: TransferSink>(end: ConnectionEnd, session: &Session<T>, was_heard: bool) -> EndedConnection {
        let was_established = !matches!(end, ConnectionEnd::Unreachable(_));
        let failure = match end {
            ConnectionEnd::Unreachable(reason) | ConnectionEnd::ClosedByPeer(reason) => TransferFailure::Closed(reason),
            ConnectionEnd::Broken(failure) => failure,
        };
        let (answered, is_partial) = (session.answered(), session.largest_transfer() > 0);
        let is_slow = matches!(failure, TransferFailure::Stalled(_) | TransferFailure::TooSlow(_));
        let is_unreachable = !was_established || (is_slow && answered == 0 && !is_partial && !was_heard);
        EndedConnection { failure, answered, in_flight: session.in_flight(), is_unreachable, is_slow, is_partial }
    }

    /// Whether one exchange ended it that is known: the others are not to blame, nor is pipelining.
    fn has_culprit(&self) -> bool {
        self.failure == TransferFailure::Unwanted || (self.is_slow && self.is_partial)
    }

    pub(super) fn should_degrade(&self) -> bool {
        self.in_flight > 0 && !self.is_unreachable && !self.has_culprit()
    }

    pub(super) fn outcome_of(&self, has_started: bool) -> ExchangeOutcome {
        let is_innocent = matches!(self.failure, TransferFailure::Unwanted | TransferFailure::OutOfProtocol);
        if self.is_unreachable {
            ExchangeOutcome::Unreachable
        } else if (has_started && !is_innocent) || (self.is_slow && self.in_flight == 1) {
            ExchangeOutcome::Failed
        } else {
            ExchangeOutcome::TryAgain { is_counted: !self.has_culprit() }
        }
    }
}
