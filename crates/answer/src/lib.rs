//! Query bytes to answer bytes over the published zones.
//!
//! [`respond`] is the one door: UDP, TCP, tests, fuzzers and benchmarks all come through it.
#![forbid(unsafe_code)]

mod additional;
mod chaos;
pub mod cookie;
mod counters;
mod denial;
mod edns;
mod find;
mod glue;
mod lookup;
mod message;
pub mod published;
mod qname;
mod query;
mod referral_cache;
pub mod rrl;
mod served;

use std::net::IpAddr;
use std::sync::Arc;

use wire::serial::is_later;
use wire::{Class, HEADER_LEN, Rtype};
use zone::Zone;
use zone::axfr::AxfrStream;
use zone::canonical_key::CanonicalKey;

pub use counters::Counters;
pub use published::{Publisher, Subscriber};
pub use served::{Acl, AddressPrefix, AnswerConfig, Served, ServedZone, ZoneMap, ZoneState};

use edns::{Extended, write_opt};
use find::find_zone;
use lookup::{FORMERR, Lookup, NOERROR, NOTAUTH, NOTIMP, Outcome, REFUSED, SERVFAIL};
use message::{Message, Section};
use qname::Qname;
use query::{Header, Query, Refusal};
use referral_cache::ReferralCache;
use rrl::{Alike, RateLimitConfig, Table, Verdict};

/// The largest answer over UDP, whatever client and configuration say: the buffer that UDP workers give.
pub const MAX_UDP: usize = 4096;
/// The smallest limit over UDP (RFC 1035 2.3.4).
const MIN_UDP: usize = 512;

/// What one worker keeps between queries: buffers, counters, rate limits. Never shared.
pub struct WorkerState {
    qname: Qname,
    key: CanonicalKey,
    rates: Table,
    referrals: ReferralCache,
    /// What this worker has done; whoever owns the worker space reads it.
    pub counters: Counters,
}

impl WorkerState {
    /// A worker's worker space.
    pub fn new() -> WorkerState {
        WorkerState {
            qname: Qname::new(),
            key: CanonicalKey::new(),
            rates: Table::default(),
            referrals: ReferralCache::new(),
            counters: Counters::default(),
        }
    }
}

impl Default for WorkerState {
    fn default() -> WorkerState {
        WorkerState::new()
    }
}

/// A query and how it came.
pub struct Request<'a> {
    /// The message as received, without the length prefix of TCP.
    pub message: &'a [u8],
    /// Who asks.
    pub peer: IpAddr,
    /// Over what.
    pub transport: Transport,
    /// Seconds since 1970, from a clock read once per batch.
    pub now_s: u32,
}

/// What a query came over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A datagram; the answer is limited by EDNS and the configuration.
    Udp,
    /// A stream; the answer may have 65,535 octets.
    Tcp {
        /// The idle timeout to announce (RFC 7828), in units of 100 ms.
        idle_ds: u16,
    },
}

/// What to do with a query.
pub enum Response {
    /// Send this many octets of the output buffer.
    Send(usize),
    /// Say nothing.
    Drop,
    /// Stream a zone (RFC 5936); the peer may have it.
    Transfer(Box<AxfrStream>),
}

/// Answers one query into `out`. Allocates nothing but for a transfer, locks nothing, reads no clock.
///
/// `out` must hold the largest answer of the transport: [`MAX_UDP`] octets for UDP, 65,535 for TCP.
pub fn respond(served: &Arc<Served>, worker: &mut WorkerState, request: Request<'_>, out: &mut [u8]) -> Response {
    let Some(header) = Header::read(request.message) else {
        worker.counters.ignored += 1;
        return Response::Drop;
    };
    let query = match query::read(request.message, header, &mut worker.qname) {
        Ok(query) => query,
        Err(refusal) => return refuse(served, worker, &request, refusal, header, out),
    };
    worker.counters.queries += 1;
    worker.referrals.keep_to(served);
    if is_transfer(&query)
        && let Some(transfer) = transfer(served, worker, &request, &query, out)
    {
        return transfer;
    }
    let (outcome, len) = answer(served, worker, &request, &query, out);
    limit(served, worker, &request, Some(&query), outcome, out, len)
}

/// A header alone: the question was not understood or does not matter.
#[cold]
fn refuse(
    served: &Served,
    worker: &mut WorkerState,
    request: &Request<'_>,
    refusal: Refusal,
    header: Header,
    out: &mut [u8],
) -> Response {
    let rcode = match refusal {
        Refusal::Malformed => FORMERR,
        Refusal::Unknown => NOTIMP,
        Refusal::NotAuthoritative => NOTAUTH,
    };
    worker.counters.count_rcode(rcode);
    out[..HEADER_LEN].fill(0);
    out[..2].copy_from_slice(&header.id);
    // RFC 8906 3.1.4: flags that are not known for an operation are clear.
    let rd = refusal == Refusal::Malformed && header.rd;
    out[2] = 0x80 | header.opcode << 3 | u8::from(rd);
    out[3] = rcode;
    limit(served, worker, request, None, Outcome::empty(rcode), out, HEADER_LEN)
}

/// Has the processor fetch what the answers to some queries begin with, if that may be in a big zone. Called before
/// [`respond`] is for the first of them, it makes their waits for memory one.
#[inline]
pub fn prefetch<'m>(served: &Served, worker: &mut WorkerState, messages: impl Iterator<Item = &'m [u8]>) {
    if served.zones.has_big() {
        messages.for_each(|message| prefetch_owner(served, worker, message));
    }
}

fn prefetch_owner(served: &Served, worker: &mut WorkerState, message: &[u8]) {
    let WorkerState { qname, key, .. } = worker;
    if qname.read_question(message, HEADER_LEN).is_none() {
        return;
    }
    if let Some(zone) =
        find_zone(&served.zones, qname, Rtype::ANY).and_then(ServedZone::zone).filter(|zone| zone.is_big())
    {
        key.set(qname.wire(), zone.apex().wire().len());
        zone.prefetch(key.as_bytes());
    }
}

//----------- the ordinary way -------------------------------------------------

/// Writes the answer; returns what it is and its length.
#[inline]
fn answer(
    served: &Served,
    worker: &mut WorkerState,
    request: &Request<'_>,
    query: &Query<'_>,
    out: &mut [u8],
) -> (Outcome, usize) {
    let config = &*served.config;
    let end = query.question_end;
    out[HEADER_LEN..end].copy_from_slice(&request.message[HEADER_LEN..end]);
    let limit = answer_limit(config, request.transport, query).min(out.len());
    let reserved = edns::reserved_len(config, request.transport, query);
    let mut message = Message::new(out, end, limit - reserved);
    let mut extended = Extended::default();
    let outcome = if query.has_bad_version() {
        Outcome::empty(NOERROR)
    } else if query.is_signed {
        // RFC 8945 5.2.1: no key is known here.
        Outcome::empty(NOTAUTH)
    } else if !query.has_question() {
        Outcome::empty(NOERROR)
    } else {
        look_up(served, worker, request, query, &mut message, &mut extended)
    };
    write_header(&mut message, query, outcome);
    worker.counters.count(outcome.rcode, message.truncated, query.has_bad_version());
    message.limit = limit;
    if query.edns.is_some() {
        write_opt(&mut message, config, request, query, &extended);
    }
    if query.is_signed {
        refuse_key(&mut message, request, query);
    }
    (outcome, message.at)
}

/// RFC 8945 5.3.2: a signed query whose key is not known gets an unsigned TSIG record that says so, the last of all.
#[cold]
fn refuse_key(message: &mut Message<'_>, request: &Request<'_>, query: &Query<'_>) {
    let room = &mut message.out[message.at..message.limit];
    if let Some(len) = wire::tsig::write_badkey_record(request.message, room) {
        message.at += len;
        message.counts[2] += 1;
        message.write_counts(query.edns.is_some());
    }
}

fn look_up(
    served: &Served,
    worker: &mut WorkerState,
    request: &Request<'_>,
    query: &Query<'_>,
    message: &mut Message<'_>,
    extended: &mut Extended,
) -> Outcome {
    let WorkerState { qname, key, referrals, counters, .. } = worker;
    match query.qclass {
        Class::IN | Class::ANY => {}
        Class::CH => return chaos::answer(&served.config, qname, query.qtype, message),
        _ => return Outcome::empty(REFUSED),
    }
    // OPT and TSIG are no types to request for; RFC 9824 3.4 says so of NXNAME.
    if matches!(query.qtype, Rtype(0) | Rtype::OPT | Rtype::TSIG | Rtype(128)) {
        return Outcome::empty(FORMERR);
    }
    if is_transfer(query) && !is_told_serial(served, qname, request, query) {
        return Outcome::empty(refuse_transfer(&served.zones, qname));
    }
    let Some(found) = find_zone(&served.zones, qname, query.qtype) else {
        extended.error = Some(edns::NOT_AUTHORITATIVE);
        return Outcome::empty(REFUSED);
    };
    let ZoneState::Loaded(zone) = &found.state else {
        extended.error = Some(edns::NOT_READY);
        return Outcome::empty(SERVFAIL);
    };
    if let Some(edns) = &query.edns {
        extended.zone_version = edns.wants_zone_version.then(|| (zone.apex_labels() as u8, zone.serial()));
        // RFC 7314 2: told to those who ask for the SOA record or a transfer.
        let is_about_zone = matches!(query.qtype, Rtype::SOA | Rtype::IXFR);
        extended.expire_s = (edns.wants_expire && is_about_zone).then(|| zone.expire_s());
    }
    let dnssec = query.edns.is_some_and(|edns| edns.dnssec_ok);
    let qtype = if query.qtype == Rtype::IXFR { Rtype::SOA } else { query.qtype };
    let mut lookup = Lookup::new(&served.zones, qtype, dnssec, qname, key, referrals, message);
    let outcome = lookup.run(zone);
    let (digests, too_costly) = (lookup.proofs.digests, lookup.proofs.exceeded);
    counters.nsec3_digests += u64::from(digests);
    if let Some(error) = failure(message, request, too_costly) {
        message.clear(query.question_end);
        extended.error = Some(error);
        return Outcome::empty(SERVFAIL);
    }
    // RFC 1034 4.3.2, RFC 1035 6.2: nobody is the authority for all classes.
    Outcome { authoritative: outcome.authoritative && query.qclass == Class::IN, ..outcome }
}

/// Why the message that a lookup has written is no answer (RFC 8914).
#[inline]
fn failure(message: &Message<'_>, request: &Request<'_>, too_costly: bool) -> Option<u16> {
    if too_costly {
        return Some(edns::NSEC3_ITERATIONS);
    }
    // No transport has room for more. A referral is of use all the same, what there is of it.
    let has_referral = message.counts[Section::Authority as usize] > 0;
    (message.truncated && request.transport != Transport::Udp && !has_referral).then_some(edns::INVALID_DATA)
}

#[inline]
fn answer_limit(config: &AnswerConfig, transport: Transport, query: &Query<'_>) -> usize {
    match transport {
        Transport::Tcp { .. } => usize::from(u16::MAX),
        // RFC 6891 6.2.3, 6.2.5: what the client takes, at least 512, at most what this server sends.
        Transport::Udp => {
            let asked = query.edns.map_or(MIN_UDP, |edns| usize::from(edns.payload));
            asked.clamp(MIN_UDP, usize::from(config.udp_payload).clamp(MIN_UDP, MAX_UDP))
        }
    }
}

#[inline]
fn write_header(message: &mut Message<'_>, query: &Query<'_>, outcome: Outcome) {
    let header = &query.header;
    let aa = u8::from(outcome.authoritative) << 2;
    let tc = u8::from(message.truncated) << 1;
    message.out[..2].copy_from_slice(&header.id);
    message.out[2] = 0x80 | aa | tc | u8::from(header.rd);
    // RFC 4035 3.1.6: AD and CD are clear in what comes with authority.
    message.out[3] = outcome.rcode;
    message.out[4..6].copy_from_slice(&[0, u8::from(query.has_question())]);
    message.write_counts(false);
}

//----------- transfers --------------------------------------------------------

fn is_transfer(query: &Query<'_>) -> bool {
    matches!(query.qtype, Rtype::AXFR | Rtype::IXFR)
}

/// Whether an IXFR query is answered with the current SOA record alone (RFC 1995 2, 4): over UDP, which tells the client
/// to come over TCP; over TCP to a client that may have the zone and has it already.
fn is_told_serial(served: &Served, qname: &Qname, request: &Request<'_>, query: &Query<'_>) -> bool {
    let is_current = |serial| query.client_serial == serial || is_later(query.client_serial, serial);
    let has_it = || allowed_version(served, qname, request).is_some_and(|zone| is_current(zone.serial()));
    query.qtype == Rtype::IXFR && (request.transport == Transport::Udp || has_it())
}

/// The zone of this name, if the peer may transfer it.
fn allowed_version<'s>(served: &'s Served, qname: &Qname, request: &Request<'_>) -> Option<&'s Zone> {
    let zone = served.zones.get(qname.wire())?;
    zone.zone().filter(|_| zone.allow_transfer.allows(request.peer))
}

/// What becomes of a question for a whole zone, if that is more than an ordinary answer. What `out` has is overwritten.
#[cold]
fn transfer(
    served: &Arc<Served>,
    worker: &mut WorkerState,
    request: &Request<'_>,
    query: &Query<'_>,
    out: &mut [u8],
) -> Option<Response> {
    let is_ordinary =
        query.is_signed || query.has_bad_version() || query.qclass != Class::IN || request.transport == Transport::Udp;
    if is_ordinary || is_told_serial(served, &worker.qname, request, query) {
        return None;
    }
    let version = allowed_version(served, &worker.qname, request)?;
    worker.counters.transfers += 1;
    let question = &request.message[HEADER_LEN..query.question_end];
    // RFC 7314 2: a client that asks for a transfer may ask for this.
    let expire_s = query.edns.filter(|edns| edns.wants_expire).map(|_| version.expire_s());
    let extended = Extended { expire_s, ..Extended::default() };
    let end = write_only_opt(served, request, query, &extended, HEADER_LEN, out);
    let opt = &out[HEADER_LEN..end];
    Some(Response::Transfer(Box::new(AxfrStream::new(version.clone(), query.header.id, question, opt))))
}

/// Why a query for a transfer is not answered with a zone.
fn refuse_transfer(zones: &ZoneMap, qname: &Qname) -> u8 {
    match zones.get(qname.wire()).map(|zone| &zone.state) {
        // RFC 5936 2.2.1: the name is no apex of a zone here.
        None => NOTAUTH,
        Some(ZoneState::Unavailable(_)) => SERVFAIL,
        // Not from this address; or over UDP, where AXFR has no meaning (RFC 5936 4.2).
        Some(ZoneState::Loaded(_)) => REFUSED,
    }
}

//----------- rate limits ------------------------------------------------------

/// Sends an answer unless rate limits say otherwise. There is no query where the query could not be read.
#[inline(always)]
fn limit(
    served: &Served,
    worker: &mut WorkerState,
    request: &Request<'_>,
    query: Option<&Query<'_>>,
    outcome: Outcome,
    out: &mut [u8],
    len: usize,
) -> Response {
    let limits = served.config.rate_limit.as_ref();
    let verdict = limits.map_or(Verdict::Send, |limits| judge(limits, served, worker, request, query, outcome));
    match verdict {
        Verdict::Send => Response::Send(len),
        Verdict::Drop => Response::Drop,
        Verdict::Slip => Response::Send(truncate(served, request, query, out)),
    }
}

/// Judges an answer; TCP and good cookies prove who asks, so those are let through.
#[inline(never)]
fn judge(
    limits: &RateLimitConfig,
    served: &Served,
    worker: &mut WorkerState,
    request: &Request<'_>,
    query: Option<&Query<'_>>,
    outcome: Outcome,
) -> Verdict {
    let has_good_cookie = |query| edns::has_good_cookie(&served.config, request, query);
    if request.transport != Transport::Udp || query.is_some_and(has_good_cookie) {
        return Verdict::Send;
    }
    let suffix = query.map_or(&[][..], |query| query.name_suffix(request.message, outcome.alike_len.into()));
    let verdict = worker.rates.judge(limits, request.peer, Alike { rcode: outcome.rcode, suffix }, request.now_s);
    worker.counters.rate_limited += u64::from(verdict == Verdict::Drop);
    worker.counters.slipped += u64::from(verdict == Verdict::Slip);
    verdict
}

/// Leaves header, question and OPT record of an answer, with TC: the client is to come by TCP. Returns its length.
#[cold]
fn truncate(served: &Served, request: &Request<'_>, query: Option<&Query<'_>>, out: &mut [u8]) -> usize {
    out[2] |= 2;
    out[6..HEADER_LEN].fill(0);
    let Some(query) = query else { return HEADER_LEN };
    write_only_opt(served, request, query, &Extended::default(), query.question_end, out)
}

/// Writes an OPT record at `at` of a message that has no other records, if the query has one; returns where it ends.
#[cold]
fn write_only_opt(
    served: &Served,
    request: &Request<'_>,
    query: &Query<'_>,
    extended: &Extended,
    at: usize,
    out: &mut [u8],
) -> usize {
    let mut message = Message::new(out, at, MIN_UDP);
    write_opt(&mut message, &served.config, request, query, extended);
    message.at
}
