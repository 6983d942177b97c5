//! SOA queries over UDP to one primary: many in flight, distinguished by ID, sent again while there is no answer.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

use wire::NameRef;
use wire::message::Rcode;
use wire::tsig::TsigKey;

use super::Now;
use super::query::{EdnsUse, OutgoingQuery, QueryKind, header_rcode, is_truncated, soa_answer};
use super::refresh::ProbeResult;
use crate::zone_id::ZoneId;
use fastrand::Rng;

/// The time until an unanswered query is sent again, and at the end given up, in milliseconds: 7 s in all.
const TIMEOUTS_MS: [u64; 3] = [1000, 2000, 4000];

/// The probes in flight to one primary.
pub(super) struct SoaProber {
    key: Option<Arc<TsigKey>>,
    probes: HashMap<u16, Probe>,
    /// When a probe times out, its ID, and its number, since IDs are used again.
    timeouts: BinaryHeap<Reverse<(u64, u16, u32)>>,
    next_number: u32,
    random: Rng,
}

struct Probe {
    zone: ZoneId,
    query: OutgoingQuery,
    number: u32,
    tries: usize,
}

/// What is known of a probe without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProbeTimeout {
    /// Two queries were not answered; a third one was sent.
    Slow(ZoneId),
    /// No query was answered.
    GivenUp(ZoneId),
}

/// The end of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProbeOutcome {
    Result(ProbeResult),
    /// The answer is truncated, or the primary may refuse to answer over UDP alone: the question is repeated over a stream.
    NeedsStream,
    /// RFC 6891 7: the primary does not know EDNS. The question is repeated over a stream, without.
    NeedsNoEdns,
}

impl SoaProber {
    pub(super) fn new(key: Option<Arc<TsigKey>>, seed: u64) -> SoaProber {
        SoaProber {
            key,
            probes: HashMap::new(),
            timeouts: BinaryHeap::new(),
            next_number: 0,
            random: Rng::with_seed(seed),
        }
    }

    /// Starts a probe; returns the datagram to send, or `None` if all IDs are in use, which the scheduler's limit prevents.
    pub(super) fn start(&mut self, zone: ZoneId, apex: NameRef<'_>, uses_edns: bool, now: Now) -> Option<&[u8]> {
        if self.probes.len() >= usize::from(u16::MAX) / 2 {
            return None;
        }
        // At most half of the IDs are in use, so that this ends after two turns on average. RFC 5452 4.3: unpredictable.
        let mut id = self.random.u16(..);
        while self.probes.contains_key(&id) {
            id = self.random.u16(..);
        }
        let key = self.key.as_deref();
        let edns = if uses_edns { EdnsUse::Plain } else { EdnsUse::None };
        let query = OutgoingQuery::with_edns(id, apex, QueryKind::Soa, key, now.s.into(), edns);
        let number = self.next_number;
        self.next_number = number.wrapping_add(1);
        self.timeouts.push(Reverse((now.ms + TIMEOUTS_MS[0], id, number)));
        let probe = self.probes.entry(id).or_insert(Probe { zone, query, number, tries: 1 });
        Some(probe.query.octets())
    }

    /// Receives a datagram; returns the probe that it ends. Anything else is ignored: it may be forged.
    pub(super) fn receive<'a>(
        &mut self,
        datagram: &[u8],
        apex_of: impl FnOnce(ZoneId) -> Option<NameRef<'a>>,
        now: Now,
    ) -> Option<(ZoneId, ProbeOutcome)> {
        let id = u16::from_be_bytes(*datagram.first_chunk()?);
        let probe = self.probes.get(&id).filter(|probe| probe.query.is_answered_by(datagram))?;
        let zone = probe.zone;
        let is_error = header_rcode(datagram) != Rcode::NOERROR;
        // A primary that does not know the key cannot sign its error.
        if probe.query.verify(self.key.as_deref(), datagram, now.s.into()).is_err() && !is_error {
            return None;
        }
        let outcome = match apex_of(zone).and_then(|apex| soa_answer(datagram, apex)) {
            _ if is_truncated(datagram) => ProbeOutcome::NeedsStream,
            _ if probe.query.edns_is_unknown(datagram) => ProbeOutcome::NeedsNoEdns,
            // Knot 3.2 answers for catalogs over TCP only, and refuses over UDP.
            _ if header_rcode(datagram) == Rcode::REFUSED => ProbeOutcome::NeedsStream,
            Some((serial, expire_s)) if !is_error => ProbeOutcome::Result(ProbeResult::Answer { serial, expire_s }),
            _ => ProbeOutcome::Result(ProbeResult::Refused),
        };
        self.probes.remove(&id);
        Some((zone, outcome))
    }

    /// Handles timeouts that are due: sends queries again, until one is to be reported.
    pub(super) fn next_timeout(&mut self, now: Now, mut send: impl FnMut(&[u8])) -> Option<ProbeTimeout> {
        while let Some(Reverse((_, id, number))) = self.timeouts.peek().copied().filter(|entry| entry.0.0 <= now.ms) {
            self.timeouts.pop();
            let Some(probe) = self.probes.get_mut(&id).filter(|probe| probe.number == number) else { continue };
            match TIMEOUTS_MS.get(probe.tries) {
                Some(timeout_ms) => {
                    probe.tries += 1;
                    send(probe.query.octets());
                    self.timeouts.push(Reverse((now.ms + timeout_ms, id, number)));
                    if probe.tries == TIMEOUTS_MS.len() {
                        return Some(ProbeTimeout::Slow(probe.zone));
                    }
                }
                None => return self.probes.remove(&id).map(|probe| ProbeTimeout::GivenUp(probe.zone)),
            }
        }
        None
    }

    /// Ends all probes; returns their zones.
    pub(super) fn give_up_all(&mut self) -> Vec<ZoneId> {
        self.timeouts.clear();
        self.probes.drain().map(|(_, probe)| probe.zone).collect()
    }

    /// When [`SoaProber::next_timeout`] must be called.
    pub(super) fn next_time(&self) -> Option<u64> {
        self.timeouts.peek().map(|Reverse((at_ms, ..))| *at_ms)
    }
}
