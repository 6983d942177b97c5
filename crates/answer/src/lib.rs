//! Query bytes to response bytes over the published zones.
//!
//! [`respond`] is the only entry: UDP, TCP, tests, fuzzers and benchmarks call it. It parses the query ([`query`]), decides
//! what kind of response it gets ([`query_decision`]), writes that ([`lookup`], [`chaos`], [`transfer_response`], [`notify`], [`update`]) with its OPT record
//! ([`edns_response`]), and applies response rate limiting ([`rrl`]).
#![forbid(unsafe_code)]
#![allow(rustdoc::private_intra_doc_links)]

mod acknowledgement;
mod acl;
mod additional;
mod alias_limit;
mod chaos;
mod config;
mod cookie;
mod counters;
mod denial;
mod edns;
mod edns_response;
mod find_zone;
mod glue;
mod keepalive;
mod key_ring;
mod lookup;
mod message_writer;
mod name_hash;
mod name_writer;
mod notify;
mod pending_notify;
mod pending_update;
mod published;
mod qname;
mod query;
mod query_decision;
mod referral_cache;
mod refused_request;
mod request;
mod response;
mod response_stream;
mod rrl;
mod served_zone;
mod signed_query;
mod targets;
mod transfer_response;
mod truncation;
mod update;
mod update_acl;
mod worker;
mod zone_acls;
mod zone_cut;
mod zone_map;

use std::sync::Arc;

use wire::HEADER_LEN;

pub use acl::{Acl, AclEntry, Client, TlsRule};
pub use config::{AnswerConfig, RateLimitConfig};
pub use cookie::{ClientCookie, CookieSecrets, ServerCookie};
pub use counters::Counters;
pub use keepalive::has_keepalive;
pub use key_ring::KeyRing;
pub use pending_notify::{PendingNotify, ReceivedNotify};
pub use pending_update::{PendingUpdate, ReceivedUpdate, UpdateResponse};
pub use published::{OccasionalReader, Publisher, Served, Subscriber};
pub use refused_request::{RefusalReason, RefusedRequest};
pub use request::{MAX_UDP, Request, Transport};
pub use response::Response;
pub use response_stream::ResponseStream;
pub use served_zone::{HistoryLimits, MAX_HISTORY, ServedZone, ZoneExtras, ZoneHistory, ZoneState, extend_history};
pub use update_acl::{UpdateAcl, UpdateClient, UpdateEntry, UpdateRights, UpdateRole};
pub use worker::{PREFETCH_BATCH, WorkerState, prefetch};
pub use zone_acls::ZoneAcls;
pub use zone_map::ZoneMap;

use edns_response::{ResponseEdns, write_opt};
use message_writer::{MessageWriter, ResponseStatus};
use query::{Header, Query};
use query_decision::Decision;
use rrl::RrlAction;
use wire::message::{Opcode, Rcode};

/// Answers one query into `out`. Takes no lock, reads no clock, and allocates only for a transfer, NOTIFY or UPDATE, and for the first
/// request of a batch that is refused.
///
/// `out` must hold the longest response of the transport: [`MAX_UDP`] octets for UDP, 65,535 for TCP.
pub fn respond(served: &Arc<Served>, worker: &mut WorkerState, request: Request<'_>, out: &mut [u8]) -> Response {
    let name_end = worker.names.advance(request.message);
    let Some(header) = Header::read(request.message) else {
        worker.counters.ignored += 1;
        return Response::Drop;
    };
    let mut query = Query::new(&request, header);
    let decision = match query.read(worker.names.current(), name_end) {
        Ok(()) => {
            worker.counters.queries += 1;
            if query.is_signed {
                return respond_to_signed(served, worker, &query, out);
            }
            Decision::of(served, worker.names.current(), &query)
        }
        Err(_) if header.opcode == Opcode::NOTIFY => return notify::respond(served, worker, &request, header, out),
        Err(_) if header.opcode == Opcode::UPDATE => return update::respond(served, worker, &request, header, out),
        Err(rcode) => {
            query = query.malformed();
            Decision::refuse(rcode)
        }
    };
    write_response(served, worker, &query, decision, out)
}

/// Answers a well-formed query that has a TSIG record.
#[cold]
fn respond_to_signed(served: &Served, worker: &mut WorkerState, query: &Query<'_>, out: &mut [u8]) -> Response {
    signed_query::respond(served, worker, query, out, |worker, query, out| {
        let decision = Decision::of(served, worker.names.current(), query);
        write_response(served, worker, query, decision, out)
    })
}

/// Writes the response that was decided on, and applies RRL to it.
#[inline(always)]
fn write_response(
    served: &Served,
    worker: &mut WorkerState,
    query: &Query<'_>,
    decision: Decision<'_>,
    out: &mut [u8],
) -> Response {
    let (config, end) = (&*served.config, query.question_end);
    out[HEADER_LEN..end].copy_from_slice(&query.request.message[HEADER_LEN..end]);
    let limit = truncation::max_response_len(config, query).min(out.len());
    let mut message = MessageWriter::new(out, end, limit - edns_response::reserved_len(config, query));
    let mut opt = ResponseEdns::default();
    let status = match decision {
        Decision::Lookup(zone) => lookup::answer(served, worker, query, zone, &mut message, &mut opt),
        Decision::Chaos => chaos::answer(config, worker.names.current(), query.qtype, &mut message),
        Decision::BadVersion => ResponseStatus::empty(Rcode::BADVERS),
        Decision::Refuse(rcode, error) => {
            opt.error = error;
            ResponseStatus::empty(rcode)
        }
        Decision::RefuseClient(reason) => {
            worker.note_refused(query, reason);
            ResponseStatus::empty(Rcode::REFUSED)
        }
        Decision::Transfer(zone) => {
            return transfer_response::respond(served, worker, zone, query, out);
        }
    };
    message.write_header(query, status);
    worker.counters.count(status.rcode, message.truncated);
    message.limit = limit;
    write_opt(&mut message, config, query, status.rcode, &opt);
    let len = message.at;
    limit_rate(served, worker, query, status, len, out)
}

/// Applies RRL to the response of `len` octets in `out`.
#[inline(always)]
fn limit_rate(
    served: &Served,
    worker: &mut WorkerState,
    query: &Query<'_>,
    status: ResponseStatus,
    len: usize,
    out: &mut [u8],
) -> Response {
    let config = &*served.config;
    match worker.rate_limiter.action(config, query, status) {
        RrlAction::Send => Response::Send(len),
        RrlAction::Slip => {
            worker.counters.slipped += 1;
            Response::Send(truncation::truncate(config, query, status.rcode, out))
        }
        RrlAction::Drop => {
            worker.counters.rate_limited += 1;
            Response::Drop
        }
    }
}
