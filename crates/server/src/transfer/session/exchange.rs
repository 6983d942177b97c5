//! One query in flight on a session, with the responses received so far.

use std::sync::Arc;

use wire::Name;
use wire::message::{Rcode, header_rcode};
use wire::tsig::{TsigError, TsigKey, TsigVerifier};

use super::super::Now;
use super::super::notify_sender::NotifyId;
use super::super::query::{OutgoingQuery, expire_option, is_truncated, soa_answer};
use super::super::refresh::ProbeResult;
use super::{ExchangeCounts, SessionEvent, SessionLimits, TransferFailure, TransferSink};
use crate::zone_id::ZoneId;

pub(super) struct Exchange<T> {
    zone: ZoneId,
    pub(super) query: OutgoingQuery,
    verifier: Option<Box<TsigVerifier<Arc<TsigKey>>>>,
    purpose: Purpose<T>,
    pub(super) began_ms: u64,
    /// When its last message arrived; at first, when it began.
    pub(super) last_ms: u64,
    pub(super) counts: ExchangeCounts,
}

/// What the responses are for.
pub(super) enum Purpose<T> {
    /// The serial of the zone with this apex.
    Probe(Name),
    /// This NOTIFY.
    Notify(NotifyId),
    Transfer(T),
}

/// How an exchange ended.
pub(super) enum ExchangeEnd {
    Complete,
    Probed(ProbeResult),
    /// RFC 1996 4.8: any answer ends a NOTIFY. The error is that of its signature.
    Notified(Rcode, Option<TsigError>),
    Failed(TransferFailure),
}

impl<T: TransferSink> Exchange<T> {
    pub(super) fn new(
        zone: ZoneId,
        query: OutgoingQuery,
        verifier: Option<TsigVerifier<Arc<TsigKey>>>,
        purpose: Purpose<T>,
        now: Now,
    ) -> Exchange<T> {
        Exchange {
            zone,
            query,
            verifier: verifier.map(Box::new),
            purpose,
            began_ms: now.ms,
            last_ms: now.ms,
            counts: ExchangeCounts::default(),
        }
    }

    /// Takes a response; `None` if more are to come.
    pub(super) fn receive(&mut self, message: &[u8], now: Now) -> Option<ExchangeEnd> {
        self.last_ms = now.ms;
        self.counts.messages += 1;
        self.counts.octets += message.len() as u64;
        match self.read(message, now) {
            Ok(end) => end,
            Err(failure) => Some(ExchangeEnd::Failed(failure)),
        }
    }

    /// The failure of a transfer that takes too long although messages arrive.
    pub(super) fn too_long(&self, limits: &SessionLimits, now: Now) -> Option<ExchangeEnd> {
        let is_too_long = now.ms.saturating_sub(self.began_ms) >= limits.max_transfer_ms;
        is_too_long.then_some(ExchangeEnd::Failed(TransferFailure::TooLong(limits.max_transfer_ms / 60_000)))
    }

    fn read(&mut self, message: &[u8], now: Now) -> Result<Option<ExchangeEnd>, TransferFailure> {
        let rcode = header_rcode(message);
        let verified = self.verifier.as_mut().map_or(Ok(()), |verifier| verifier.verify(message, now.s.into()));
        let tsig_error = match verified {
            // A server without the key cannot sign its error.
            Err(TsigError::Unsigned) if rcode != Rcode::NOERROR => None,
            verified => verified.err(),
        };
        let is_notify = matches!(self.purpose, Purpose::Notify(_));
        if let Some(error) = tsig_error.filter(|_| !is_notify) {
            return Err(error.into());
        }
        if !is_notify && self.query.edns_is_unknown(message) {
            return Err(TransferFailure::NoEdns);
        }
        let sink = match &mut self.purpose {
            Purpose::Probe(apex) => {
                let (serial, expire_s) = soa_answer(message, apex.as_ref())?;
                return Ok(Some(ExchangeEnd::Probed(ProbeResult::Answer { serial, expire_s })));
            }
            Purpose::Notify(_) => return Ok(Some(ExchangeEnd::Notified(rcode, tsig_error))),
            Purpose::Transfer(sink) => sink,
        };
        if rcode != Rcode::NOERROR {
            return Err(TransferFailure::Rcode(rcode));
        }
        if is_truncated(message) {
            return Err(TransferFailure::OutOfProtocol);
        }
        if self.counts.messages == 1 {
            self.counts.expire_s = expire_option(message);
        }
        if !sink.receive(message)? {
            return Ok(None);
        }
        // RFC 8945 5.3.1: the last message is signed.
        self.verifier.as_deref().map_or(Ok(()), TsigVerifier::finish)?;
        Ok(Some(ExchangeEnd::Complete))
    }

    /// Whether the primary will go on sending what is not wanted any more.
    pub(super) fn is_cut_off(&self, end: &ExchangeEnd) -> bool {
        use TransferFailure::{NoEdns, Rcode, Soa};
        match end {
            ExchangeEnd::Failed(failure) => !matches!(failure, Rcode(_) | Soa(_) | NoEdns),
            // The rest of a zone may follow the SOA record that was enough.
            ExchangeEnd::Complete => {
                matches!(&self.purpose, Purpose::Transfer(sink) if sink.current_serial().is_some())
            }
            ExchangeEnd::Probed(_) | ExchangeEnd::Notified(..) => false,
        }
    }

    pub(super) fn has_started(&self) -> bool {
        self.counts.messages > 0
    }

    pub(super) fn into_event(mut self, end: ExchangeEnd, now: Now) -> SessionEvent<T> {
        self.counts.duration_ms = now.ms.saturating_sub(self.began_ms);
        let (zone, counts) = (self.zone, self.counts);
        match (self.purpose, end) {
            (Purpose::Transfer(sink), ExchangeEnd::Failed(failure)) => {
                SessionEvent::Transferred { zone, sink, failure: Some(failure), counts }
            }
            (Purpose::Transfer(sink), _) => SessionEvent::Transferred { zone, sink, failure: None, counts },
            (Purpose::Notify(id), ExchangeEnd::Notified(rcode, tsig_error)) => {
                SessionEvent::Notified { zone, id, response: Some((rcode, tsig_error)) }
            }
            (Purpose::Notify(id), _) => SessionEvent::Notified { zone, id, response: None },
            (Purpose::Probe(_), ExchangeEnd::Probed(result)) => SessionEvent::Probed { zone, result, failure: None },
            (Purpose::Probe(_), ExchangeEnd::Failed(failure)) => {
                SessionEvent::Probed { zone, result: ProbeResult::Refused, failure: Some(failure) }
            }
            (Purpose::Probe(_), _) => SessionEvent::Probed { zone, result: ProbeResult::Refused, failure: None },
        }
    }

    /// The exchange of a session that ended.
    pub(super) fn into_failed(self, failure: TransferFailure, now: Now) -> SessionEvent<T> {
        match self.purpose {
            Purpose::Probe(_) => {
                SessionEvent::Probed { zone: self.zone, result: ProbeResult::Timeout, failure: Some(failure) }
            }
            Purpose::Transfer(_) | Purpose::Notify(_) => self.into_event(ExchangeEnd::Failed(failure), now),
        }
    }
}
