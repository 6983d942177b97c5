//! Answering UPDATE (RFC 2136, RFC 3007): whether a client may update a zone. The listener passes the message on, and it is answered
//! when it was applied and is on disk, or when a primary has answered it.

use wire::message::Rcode;
use wire::{Class, HEADER_LEN, Name};

use crate::acknowledgement::write_acknowledgement;
use crate::decision::Decision;
use crate::published::Served;
use crate::qname::Qname;
use crate::query::{Header, Query};
use crate::request::{Request, Response};
use crate::signed_query::{self, ResponseSigner};
use crate::truncation::max_response_len;
use crate::update_acl::{UpdateClient, UpdateRole};
use crate::worker::WorkerState;
use crate::write_response;

/// An UPDATE message from a client that may update the zone, as far as is known without its records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedUpdate {
    /// The apex of the zone, in lower case.
    pub apex: Name,
    /// The message as received, with its TSIG record.
    pub message: Box<[u8]>,
    /// Who sent it.
    pub client: UpdateClient,
    /// Whether it is for the primaries of the zone.
    pub is_forwarded: bool,
}

/// An accepted UPDATE message, and the response that it gets later.
pub struct PendingUpdate {
    /// What to apply or forward.
    pub update: ReceivedUpdate,
    /// How to answer it.
    pub response: UpdateResponse,
}

/// The response to an UPDATE message, but for its RCODE.
pub struct UpdateResponse {
    octets: Vec<u8>,
    pub(crate) signer: Option<ResponseSigner>,
    /// The longest response that the client takes.
    max_len: usize,
}

impl UpdateResponse {
    /// The response with this RCODE, one of those in the header; signed if the message was. `now_s` is in seconds since 1970.
    pub fn finish(self, rcode: Rcode, now_s: u32) -> Vec<u8> {
        let UpdateResponse { mut octets, signer, .. } = self;
        debug_assert!(rcode.0 < 16);
        octets[3] |= rcode.0 as u8 & 15;
        if let Some(mut signer) = signer {
            signer.sign(&mut octets, 0, now_s.into()).expect("the message is short");
        }
        octets
    }

    /// RFC 2136 6.6: the response of a primary, with the ID of the client; `None` if it is no response or too long. A signature
    /// remains valid: it is about the ID in the TSIG record (RFC 8945 5.3.2).
    pub fn relay(&self, mut from_primary: Vec<u8>) -> Option<Vec<u8>> {
        if !(HEADER_LEN..=self.max_len).contains(&from_primary.len()) {
            return None;
        }
        from_primary[..2].copy_from_slice(&self.octets[..2]);
        Some(from_primary)
    }
}

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
        let query = Query::new(request, header);
        return write_response(served, worker, &query, Decision::refuse(Rcode::FORMERR), out);
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
    zone.is_some_and(|zone| zone.acls.update.role == UpdateRole::Forward)
        && signed_query::has_unknown_key(served, query)
}

/// A zone that the client may update.
struct AcceptedUpdate {
    apex: Name,
    is_forwarded: bool,
}

/// The zone if the client may update some of it; else what the client gets.
fn decide<'s>(served: &'s Served, qname: &Qname, query: &Query<'_>) -> Result<AcceptedUpdate, Decision<'s>> {
    if query.edns.is_some_and(|edns| edns.version > 0) {
        return Err(Decision::BadVersion);
    }
    // RFC 2136 3.1.2: not the apex of a zone here, or another class.
    let zone = served.zones.get(qname.wire()).filter(|_| query.qclass == Class::IN);
    let zone = zone.ok_or(Decision::refuse(Rcode::NOTAUTH))?;
    let acl = &zone.acls.update;
    let (apex, is_forwarded) = (zone.apex().to_owned().to_lowercase(), acl.role == UpdateRole::Forward);
    match acl.role {
        UpdateRole::Ignore => Err(Decision::refuse(Rcode::NOTIMP)),
        // RFC 2136 3.3: nothing of it could be permitted.
        _ if !acl.allows(&query.client()) => Err(Decision::refuse(Rcode::REFUSED)),
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
