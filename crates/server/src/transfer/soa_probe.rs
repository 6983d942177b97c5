//! SOA queries over UDP to one primary: many in flight, distinguished by ID, sent again while there is no answer.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

use wire::NameRef;
use wire::message::{Rcode, header_rcode};
use wire::tsig::{TsigError, TsigKey};

use super::Now;
use super::query::{Authenticity, EdnsUse, OutgoingQuery, QueryKind, UselessAnswer, is_truncated, soa_answer};
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
    /// A response that cannot be verified was reported.
    has_unverified: bool,
}

/// What is known of a probe without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProbeTimeout {
    /// Two queries were not answered; a third one was sent.
    Slow(ZoneId),
    /// No query was answered.
    GivenUp(ZoneId),
}

/// What a response means for its probe, which it ends unless it is [`ProbeOutcome::Unverified`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProbeOutcome {
    Result(ProbeResult),
    /// The answer has no serial.
    Useless(UselessAnswer),
    /// The answer is truncated, or the primary may refuse to answer over UDP alone: the question is repeated over a stream.
    NeedsStream,
    /// RFC 6891 7: the primary does not know EDNS. The question is repeated over a stream, without.
    NeedsNoEdns,
    /// The primary refuses the signature of the query, in a signed response.
    SignatureRefused(TsigError),
    /// RFC 8945 5.4: the response is ignored, as a signed one may still come. This is reported once for each probe.
    Unverified(TsigError),
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
        let probe = self.probes.entry(id).or_insert(Probe { zone, query, number, tries: 1, has_unverified: false });
        Some(probe.query.octets())
    }

    /// Receives a datagram; returns what it means for its probe. Anything else is ignored: it may be forged.
    pub(super) fn receive<'a>(
        &mut self,
        datagram: &[u8],
        apex_of: impl FnOnce(ZoneId) -> Option<NameRef<'a>>,
        now: Now,
    ) -> Option<(ZoneId, ProbeOutcome)> {
        let id = u16::from_be_bytes(*datagram.first_chunk()?);
        let probe = self.probes.get_mut(&id).filter(|probe| probe.query.is_answered_by(datagram))?;
        let zone = probe.zone;
        match probe.query.authenticity(self.key.as_deref(), datagram, now.s.into()) {
            Authenticity::Authentic => (),
            Authenticity::SignedError(error) => {
                self.probes.remove(&id);
                return Some((zone, ProbeOutcome::SignatureRefused(error)));
            }
            Authenticity::Unverified(error) => {
                let is_first = !std::mem::replace(&mut probe.has_unverified, true);
                return is_first.then_some((zone, ProbeOutcome::Unverified(error)));
            }
        }
        let outcome = match apex_of(zone).ok_or(UselessAnswer::NoSoa).and_then(|apex| soa_answer(datagram, apex)) {
            _ if is_truncated(datagram) => ProbeOutcome::NeedsStream,
            _ if probe.query.edns_is_unknown(datagram) => ProbeOutcome::NeedsNoEdns,
            // Knot 3.2 answers for catalogs over TCP only, and refuses over UDP.
            _ if header_rcode(datagram) == Rcode::REFUSED => ProbeOutcome::NeedsStream,
            Ok((serial, expire_s)) => ProbeOutcome::Result(ProbeResult::Answer { serial, expire_s }),
            Err(reason) => ProbeOutcome::Useless(reason),
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

#[cfg(test)]
mod tests {
    use super::*;
    use wire::message::{Flags, Record};
    use wire::tsig::verify_query;
    use wire::{Class, Message, Name, Rtype};

    const ZONE: ZoneId = ZoneId { index: 1, generation: 2 };

    fn key(secret: u8) -> TsigKey {
        let name: Name = "key.example".parse().expect("a literal");
        TsigKey::new("hmac-sha256", name.as_ref(), &[secret; 32]).expect("a known algorithm")
    }

    fn at(ms: u64) -> Now {
        Now { s: 1000 + (ms / 1000) as u32, ms }
    }

    /// A response with this RCODE, and with the SOA record unless it is an error. Whoever has this key signs it at this time.
    fn response(query: &[u8], rcode: Rcode, signed: Option<(&TsigKey, u64)>) -> Vec<u8> {
        let message = Message::parse(query).expect("well-formed");
        let owner = message.questions[0].name.clone();
        let rdata = [&[0, 0][..], &7u32.to_be_bytes(), &[0; 16]].concat();
        let soa = Record { owner, rtype: Rtype::SOA, class: Class::IN, ttl: 1, rdata };
        let answer = if rcode == Rcode::NOERROR { vec![soa] } else { Vec::new() };
        let flags = Flags { response: true, authoritative: true, ..Flags::default() };
        let plain =
            Message { id: message.id, flags, rcode, questions: message.questions, answer, ..Message::default() };
        let mut octets = plain.to_wire();
        match signed.map(|(key, now_s)| (verify_query(query, |_| Some(key), now_s), now_s)) {
            None => (),
            Some((Ok(signer), now_s)) => _ = signer.expect("signed").sign(&mut octets, 0, now_s).expect("short"),
            Some((Err(failure), now_s)) => failure.sign(&mut octets, 0, now_s).expect("short"),
        }
        octets
    }

    /// RFC 8945 5.4: whoever guesses the ID could end checks with an error, and switch off EDNS for the primary.
    #[test]
    fn rfc_8945_5_4_a_signed_probe_waits_for_a_signed_response() {
        let apex: Name = "example.org".parse().expect("a literal");
        let mut prober = SoaProber::new(Some(Arc::new(key(1))), 1);
        let query = prober.start(ZONE, apex.as_ref(), true, at(0)).expect("an ID").to_vec();
        let mut receive = |octets: &[u8]| prober.receive(octets, |_| Some(apex.as_ref()), at(1));
        let unsigned = |rcode| response(&query, rcode, None);
        let ignored = Some((ZONE, ProbeOutcome::Unverified(TsigError::Unsigned)));
        assert_eq!(receive(&unsigned(Rcode::REFUSED)), ignored, "to be logged");
        // BADSIG, as of a primary with another secret (RFC 8945 5.3.2), is unsigned, too.
        for octets in [
            unsigned(Rcode::FORMERR),
            unsigned(Rcode::SERVFAIL),
            unsigned(Rcode::NOERROR),
            response(&query, Rcode::NOTAUTH, Some((&key(2), 1000))),
        ] {
            assert_eq!(receive(&octets), None);
        }
        let answer = ProbeResult::Answer { serial: 7, expire_s: None };
        let signed = response(&query, Rcode::NOERROR, Some((&key(1), 1000)));
        assert_eq!(receive(&signed), Some((ZONE, ProbeOutcome::Result(answer))));
    }

    /// Of what cannot be verified, the reason says whether the key or the clock is wrong.
    #[test]
    fn rfc_8945_5_4_the_tsig_error_of_a_response_is_reported() {
        let apex: Name = "example.org".parse().expect("a literal");
        for (signer, error, rcode, outcome) in [
            (Some((key(2), 1000)), 16, Rcode::NOTAUTH, ProbeOutcome::Unverified as fn(TsigError) -> ProbeOutcome),
            (Some((key(1), 5000)), 18, Rcode::NOTAUTH, ProbeOutcome::SignatureRefused),
        ] {
            let mut prober = SoaProber::new(Some(Arc::new(key(1))), 1);
            let query = prober.start(ZONE, apex.as_ref(), true, at(0)).expect("an ID").to_vec();
            let octets = response(&query, rcode, signer.as_ref().map(|(key, now_s)| (key, *now_s)));
            let found = prober.receive(&octets, |_| Some(apex.as_ref()), at(1));
            assert_eq!(found, Some((ZONE, outcome(TsigError::FromPeer(error)))));
            let is_over = error == 18;
            assert_eq!(prober.give_up_all().is_empty(), is_over);
        }
    }
}
