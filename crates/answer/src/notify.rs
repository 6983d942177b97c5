//! Answering NOTIFY (RFC 1996 3): whether a client may announce a change of a zone. The listener passes the message on.

use wire::Name;
use wire::message::Rcode;

use crate::acknowledgement::write_acknowledgement;
use crate::pending_notify::{PendingNotify, ReceivedNotify};
use crate::published::Served;
use crate::qname::Qname;
use crate::query::{Header, Query};
use crate::query_decision::Decision;
use crate::refused_request::RefusalReason;
use crate::request::Request;
use crate::response::Response;
use crate::served_zone::ServedZone;
use crate::signed_query;
use crate::worker::WorkerState;
use crate::write_response;

/// Answers a NOTIFY message.
#[cold]
pub(crate) fn respond(
    served: &Served,
    worker: &mut WorkerState,
    request: &Request<'_>,
    header: Header,
    out: &mut [u8],
) -> Response {
    let response = respond_uncounted(served, worker, request, header, out);
    worker.counters.notifies_refused += u64::from(!matches!(response, Response::Notify(_)));
    response
}

fn respond_uncounted(
    served: &Served,
    worker: &mut WorkerState,
    request: &Request<'_>,
    header: Header,
    out: &mut [u8],
) -> Response {
    let mut query = Query::new(request, header);
    let Some(serial) = query.read_notify(worker.names.current()) else {
        return write_response(served, worker, &query.malformed(), Decision::refuse(Rcode::FORMERR), out);
    };
    worker.counters.queries += 1;
    let answer = |worker: &mut WorkerState, query: &Query<'_>, out: &mut [u8]| {
        let decision = decide(served, worker.names.current(), query);
        match decision {
            Ok(zone) => accept(served, worker, query, zone.apex().to_owned(), serial, out),
            Err(decision) => write_response(served, worker, query, decision, out),
        }
    };
    if query.is_signed {
        return signed_query::respond(served, worker, &query, out, answer);
    }
    answer(worker, &query, out)
}

/// The zone, also one without data, if the client may announce its changes; else what the client gets.
fn decide<'s>(served: &'s Served, qname: &Qname, query: &Query<'_>) -> Result<&'s ServedZone, Decision<'s>> {
    let zone = Decision::named_zone(served, qname, query)?;
    match zone.acls().notify.allows(&query.client()) {
        true => Ok(zone),
        // RFC 1996 3.10: the client is no known primary.
        false => Err(Decision::RefuseClient(RefusalReason::Notify)),
    }
}

/// Prepares the response to an accepted message.
fn accept(
    served: &Served,
    worker: &mut WorkerState,
    query: &Query<'_>,
    apex: Name,
    serial: Option<u32>,
    out: &mut [u8],
) -> Response {
    let len = write_acknowledgement(served, query, true, out);
    worker.counters.count(Rcode::NOERROR, false);
    let notify = ReceivedNotify { apex, serial, from: query.request.peer };
    Response::Notify(Box::new(PendingNotify { notify, len, signer: None, now_s: query.request.now_s }))
}
