//! Answering UPDATE (RFC 2136, RFC 3007): whether a client may update a zone. The listener passes the message on, and it is answered
//! when it was applied and is on disk, or when a primary has answered it.

use wire::Name;
use wire::message::Rcode;

use crate::acknowledgement::write_acknowledgement;
use crate::pending_update::{PendingUpdate, ReceivedUpdate, UpdateResponse};
use crate::published::Served;
use crate::qname::Qname;
use crate::query::{Header, Query};
use crate::query_decision::Decision;
use crate::refused_request::RefusalReason;
use crate::request::Request;
use crate::response::Response;
use crate::signed_query;
use crate::truncation::max_response_len;
use crate::update_acl::{UpdateClient, UpdateRole};
use crate::worker::WorkerState;
use crate::write_response;

/// Answers an UPDATE message.
#[cold]
pub(crate) fn respond(
    served: &Served,
    worker: &mut WorkerState,
    request: &Request<'_>,
    header: Header,
    out: &mut [u8],
) -> Response {
    let mut query = Query::new(request, header);
    if query.read_update(worker.names.current()).is_none() {
        return write_response(served, worker, &query.malformed(), Decision::refuse(Rcode::FORMERR), out);
    }
    worker.counters.queries += 1;
    let answer = |worker: &mut WorkerState, query: &Query<'_>, out: &mut [u8]| {
        let decision = decide(served, worker.names.current(), query);
        match decision {
            Ok(accepted) => accept(served, query, accepted, out),
            Err(decision) => write_response(served, worker, query, decision, out),
        }
    };
    if query.is_signed && !is_passed_through(served, worker.names.current(), &query) {
        return signed_query::respond(served, worker, &query, out, answer);
    }
    answer(worker, &query, out)
}

/// RFC 8945 5.5: a forwarding server passes on what is signed with a key that it does not have; the primary verifies it.
fn is_passed_through(served: &Served, qname: &Qname, query: &Query<'_>) -> bool {
    let zone = served.zones.get(qname.wire());
    zone.is_some_and(|zone| zone.acls().update.role == UpdateRole::Forward)
        && signed_query::has_unknown_key(served, query)
}

/// A zone that the client may update.
struct AcceptedUpdate {
    apex: Name,
    is_forwarded: bool,
}

/// The zone if the client may update some of it; else what the client gets.
fn decide<'s>(served: &'s Served, qname: &Qname, query: &Query<'_>) -> Result<AcceptedUpdate, Decision<'s>> {
    let zone = Decision::named_zone(served, qname, query)?;
    let acl = &zone.acls().update;
    let (apex, is_forwarded) = (zone.apex().to_owned().to_lowercase(), acl.role == UpdateRole::Forward);
    match acl.role {
        UpdateRole::Ignore => Err(Decision::refuse(Rcode::NOTIMP)),
        // RFC 2136 3.3: nothing of it could be permitted.
        _ if !acl.allows(&query.client()) => Err(Decision::RefuseClient(RefusalReason::Update)),
        UpdateRole::Apply if zone.zone().is_none() => Err(Decision::refuse(Rcode::SERVFAIL)),
        _ => Ok(AcceptedUpdate { apex, is_forwarded }),
    }
}

/// Prepares the response to an accepted message.
fn accept(served: &Served, query: &Query<'_>, accepted: AcceptedUpdate, out: &mut [u8]) -> Response {
    let len = write_acknowledgement(served, query, false, out);
    let (octets, max_len) = (out[..len].to_vec(), max_response_len(&served.config, query));
    let AcceptedUpdate { apex, is_forwarded } = accepted;
    let (message, client) = (query.request.message.into(), UpdateClient::of(&query.client()));
    let update = ReceivedUpdate { apex, message, client, is_forwarded };
    Response::Update(Box::new(PendingUpdate { update, response: UpdateResponse { octets, signer: None, max_len } }))
}
