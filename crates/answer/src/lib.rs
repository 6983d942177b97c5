//! Query bytes to response bytes over the published zones.
//!
//! [`respond`] is the only entry: UDP, TCP, tests, fuzzers and benchmarks call it. It parses the query ([`query`]), decides
//! what kind of response it gets ([`decision`]), writes that ([`lookup`], [`chaos`], [`transfer`]) with its OPT record
//! ([`edns`]), and applies response rate limiting ([`rrl`]).
#![forbid(unsafe_code)]
#![allow(rustdoc::private_intra_doc_links)]

mod acl;
mod additional;
mod chaos;
mod config;
mod cookie;
mod counters;
mod decision;
mod denial;
mod edns;
mod find_zone;
mod glue;
mod lookup;
mod message_writer;
mod name_writer;
mod published;
mod qname;
mod query;
mod referral_cache;
mod request;
mod response_status;
mod rrl;
mod served_zone;
mod transfer;
mod truncation;
mod worker;
mod zone_cut;
mod zone_map;

use std::sync::Arc;

use wire::{HEADER_LEN, Rtype};

pub use acl::{Acl, AddressPrefix};
pub use config::{AnswerConfig, RateLimitConfig};
pub use cookie::{ClientCookie, CookieSecrets, ServerCookie};
pub use counters::Counters;
pub use published::{Publisher, Served, Subscriber};
pub use request::{MAX_UDP, Request, Response, Transport};
pub use served_zone::{ServedZone, ZoneState};
pub use worker::WorkerState;
pub use zone_map::ZoneMap;

use decision::Decision;
use edns::{ResponseEdns, write_opt};
use find_zone::find_zone;
use message_writer::MessageWriter;
use query::{Header, Query};
use response_status::ResponseStatus;
use rrl::RrlAction;
use wire::message::Rcode;

/// Answers one query into `out`. Allocates nothing but for a transfer, takes no lock, reads no clock.
///
/// `out` must hold the longest response of the transport: [`MAX_UDP`] octets for UDP, 65,535 for TCP.
pub fn respond(served: &Arc<Served>, worker: &mut WorkerState, request: Request<'_>, out: &mut [u8]) -> Response {
    let Some(header) = Header::read(request.message) else {
        worker.counters.ignored += 1;
        return Response::Drop;
    };
    let mut query = Query::new(header);
    let decision = match query.read(request.message, &mut worker.qname) {
        Ok(()) => {
            worker.counters.queries += 1;
            worker.referral_cache.keep_to(served);
            Decision::of(served, &worker.qname, &request, &query)
        }
        Err(rcode) => {
            query = Query::new(header);
            Decision::refuse(rcode)
        }
    };
    write_response(served, worker, &request, &query, decision, out)
}

/// Prefetches the tree nodes that the answers to these queries start from, where a zone is big enough for cache misses to
/// matter. Call it for a batch before [`respond`], so that the misses overlap.
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
    let zone = find_zone(&served.zones, qname, Rtype::ANY).and_then(ServedZone::zone);
    if let Some(zone) = zone.filter(|zone| zone.is_big()) {
        qname.set_key(zone.apex_labels(), key);
        zone.prefetch(key.as_bytes());
    }
}

/// Writes the response that was decided on, and applies RRL to it.
#[inline(always)]
fn write_response(
    served: &Served,
    worker: &mut WorkerState,
    request: &Request<'_>,
    query: &Query<'_>,
    decision: Decision<'_>,
    out: &mut [u8],
) -> Response {
    let (config, edns) = (&*served.config, query.edns.as_ref());
    let end = query.question_end;
    out[HEADER_LEN..end].copy_from_slice(&request.message[HEADER_LEN..end]);
    let limit = truncation::max_response_len(config, request.transport, edns).min(out.len());
    let reserved = edns::reserved_len(config, request.transport, edns);
    let mut message = MessageWriter::new(out, end, limit - reserved);
    let mut opt = ResponseEdns::default();
    let status = match decision {
        Decision::Lookup(zone) | Decision::Serial(zone) => {
            lookup::answer(served, worker, request, query, zone, &mut message, &mut opt)
        }
        Decision::Chaos => chaos::answer(config, &worker.qname, query.qtype, &mut message),
        Decision::BadVersion => ResponseStatus::empty(Rcode::BADVERS),
        Decision::Refuse(rcode, error) => {
            opt.error = error;
            ResponseStatus::empty(rcode)
        }
        Decision::Transfer(zone) => {
            worker.counters.transfers += 1;
            return transfer::start(zone, config, request, query);
        }
    };
    write_header(&mut message, query, status);
    worker.counters.count(status.rcode, message.truncated);
    message.limit = limit;
    if let Some(edns) = edns {
        write_opt(&mut message, config, request, edns, status.rcode, &opt);
    }
    if query.is_signed {
        write_bad_key(&mut message, request, query);
    }
    let len = message.at;
    match rrl::action(config, &mut worker.rate_limiter, request, query, status) {
        RrlAction::Send => Response::Send(len),
        RrlAction::Slip => {
            worker.counters.slipped += 1;
            Response::Send(truncation::truncate(config, request, query, status.rcode, out))
        }
        RrlAction::Drop => {
            worker.counters.rate_limited += 1;
            Response::Drop
        }
    }
}

#[inline]
fn write_header(message: &mut MessageWriter<'_>, query: &Query<'_>, status: ResponseStatus) {
    let header = &query.header;
    let aa = u8::from(status.authoritative) << 2;
    let tc = u8::from(message.truncated) << 1;
    message.out[..2].copy_from_slice(&header.id);
    message.out[2] = 0x80 | header.opcode.0 << 3 | aa | tc | u8::from(header.rd);
    // RFC 4035 3.1.6: an authoritative server clears AD and CD.
    message.out[3] = status.rcode.0 as u8 & 15;
    message.out[4..6].copy_from_slice(&[0, u8::from(query.has_question())]);
    message.write_counts(false);
}

/// RFC 8945 5.3.2: a query signed with an unknown key gets an unsigned TSIG record with BADKEY, as the last record.
#[cold]
fn write_bad_key(message: &mut MessageWriter<'_>, request: &Request<'_>, query: &Query<'_>) {
    let room = &mut message.out[message.at..message.limit];
    if let Some(len) = wire::tsig::write_badkey_record(request.message, room) {
        message.at += len;
        message.counts[2] += 1;
        message.write_counts(query.edns.is_some());
    }
}
