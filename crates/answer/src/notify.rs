//! Answering NOTIFY (RFC 1996 3): whether a client may announce a change of a zone. The listener passes the message on.

use std::net::IpAddr;

use wire::message::Rcode;
use wire::{Class, Name};

use crate::acknowledgement::write_acknowledgement;
use crate::decision::Decision;
use crate::published::Served;
use crate::qname::Qname;
use crate::query::{Header, Query};
use crate::request::{Request, Response};
use crate::served_zone::ServedZone;
use crate::signed_query::{self, ResponseSigner};
use crate::worker::WorkerState;
use crate::write_response;

/// A NOTIFY message from a client that may send it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedNotify {
    /// The apex of the zone.
    pub apex: Name,
    /// The serial that it announces: a hint that nobody vouches for unless it is signed (RFC 1996 3.7).
    pub serial: Option<u32>,
    /// Who sent it.
    pub from: IpAddr,
}

/// An accepted NOTIFY message that must be passed on before it is answered.
pub struct PendingNotify {
    notify: ReceivedNotify,
    /// The length of the response, without TSIG.
    len: usize,
    pub(crate) signer: Option<ResponseSigner>,
    now_s: u32,
}

impl PendingNotify {
    /// Passes the message on and finishes its response, which is in `out`: SERVFAIL if `pass_on` returns false, so that the primary
    /// repeats it. Returns the length of the response.
    pub fn finish(self, out: &mut [u8], pass_on: impl FnOnce(ReceivedNotify) -> bool) -> usize {
        if !pass_on(self.notify) {
            out[3] |= Rcode::SERVFAIL.0 as u8;
        }
        let Some(mut signer) = self.signer else { return self.len };
        signer.sign_in_place(out, self.len, self.now_s.into()).expect("room is reserved for the record")
    }
}

/// Answers a NOTIFY message.
#[cold]
pub(crate) fn respond(
    served: &Served,
    worker: &mut WorkerState,
    request: &Request<'_>,
    header: Header,
    out: &mut [u8],
) -> Response {
    let mut query = Query::new(request, header);
    let Some(serial) = query.read_notify(worker.names.current()) else {
        let query = Query::new(request, header);
        return write_response(served, worker, &query, Decision::refuse(Rcode::FORMERR), out);
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
    if query.edns.is_some_and(|edns| edns.version > 0) {
        return Err(Decision::BadVersion);
    }
    match served.zones.get(qname.wire()).filter(|_| query.qclass == Class::IN) {
        Some(zone) if zone.acls.notify.allows(&query.client()) => Ok(zone),
        // RFC 1996 3.10: the client is no known primary.
        Some(_) => Err(Decision::refuse(Rcode::REFUSED)),
        // RFC 1996 3.11: no zone here.
        None => Err(Decision::refuse(Rcode::NOTAUTH)),
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
