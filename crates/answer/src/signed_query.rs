//! Answering a query with a TSIG record (RFC 8945): it is verified, and its response is signed.

use std::sync::Arc;

use wire::tsig::{TsigKey, VerificationFailure, verify_query};

use crate::edns_response::reserved_len;
use crate::key_ring::ResponseSigner;
use crate::published::Served;
use crate::query::{Query, VerifiedKey};
use crate::query_decision::Decision;
use crate::refused_request::RefusalReason;
use crate::response::Response;
use crate::truncation::{max_response_len, truncate};
use crate::worker::WorkerState;
use crate::write_response;

/// Answers a well-formed message that has a TSIG record. `answer` answers it once it is verified.
pub(crate) fn respond(
    served: &Served,
    worker: &mut WorkerState,
    query: &Query<'_>,
    out: &mut [u8],
    answer: impl FnOnce(&mut WorkerState, &Query<'_>, &mut [u8]) -> Response,
) -> Response {
    match verify(served, query) {
        Ok(signer) => {
            let key = signer.key().clone();
            let record_len = signer.record_len() as u16;
            let query = Query { key: Some(VerifiedKey { name: key.name(), record_len }), ..*query };
            let room = body_room(served, &query, signer.record_len(), out.len());
            let response = answer(worker, &query, &mut out[..room]);
            sign(served, &query, response, signer, room, out)
        }
        Err(failure) => respond_unverified(served, worker, query, &failure, out),
    }
}

/// Whether a message that has a TSIG record names a key that the server does not have.
pub(crate) fn has_unknown_key(served: &Served, query: &Query<'_>) -> bool {
    let mut is_unknown = false;
    // Without a key, nothing is verified.
    let _ = verify_query(
        query.request.message,
        |name| {
            is_unknown = served.config.keys.find(name).is_none();
            None::<&TsigKey>
        },
        query.request.now_s.into(),
    );
    is_unknown
}

fn verify<'q>(served: &Served, query: &Query<'q>) -> Result<ResponseSigner, VerificationFailure<'q, Arc<TsigKey>>> {
    let request = query.request;
    let key_of = |name: wire::NameRef<'_>| served.config.keys.find(name).cloned();
    verify_query(request.message, key_of, request.now_s.into())
        .map(|signer| signer.expect("the query has a TSIG record"))
}

/// Signs a response of at most `room` octets.
fn sign(
    served: &Served,
    query: &Query<'_>,
    response: Response,
    mut signer: ResponseSigner,
    room: usize,
    out: &mut [u8],
) -> Response {
    match response {
        Response::Send(len) => {
            let len = without_partial_answer(served, query, len, &mut out[..room]);
            let signed = signer.sign_in_place(out, len, query.request.now_s.into());
            Response::Send(signed.expect("room is reserved for the record"))
        }
        Response::Stream(mut stream) => {
            stream.signer = Some(signer);
            Response::Stream(stream)
        }
        Response::Notify(mut pending) => {
            pending.signer = Some(signer);
            Response::Notify(pending)
        }
        Response::Update(mut pending) => {
            pending.response.signer = Some(signer);
            Response::Update(pending)
        }
        Response::Drop => Response::Drop,
    }
}

/// RFC 8945 5.2: the response to a query that fails verification has the error in a TSIG record.
fn respond_unverified(
    served: &Served,
    worker: &mut WorkerState,
    query: &Query<'_>,
    failure: &VerificationFailure<'_, Arc<TsigKey>>,
    out: &mut [u8],
) -> Response {
    worker.note_refused(query, RefusalReason::Signature(failure.error));
    let room = body_room(served, query, failure.record_len(), out.len());
    match write_response(served, worker, query, Decision::refuse(failure.rcode()), &mut out[..room]) {
        Response::Send(len) => {
            let signed = failure.sign_in_place(out, len, query.request.now_s.into());
            Response::Send(signed.expect("room is reserved for the record"))
        }
        other => other,
    }
}

/// The room for the response without its TSIG record. At least that of the question and OPT: together with the record it may
/// exceed 512 octets, but then the query had nearly as many.
fn body_room(served: &Served, query: &Query<'_>, record_len: usize, out_len: usize) -> usize {
    let max = max_response_len(&served.config, query).min(out_len).saturating_sub(record_len);
    max.max(query.question_end + reserved_len(&served.config, query))
}

/// RFC 8945 5.3: a response that is truncated to make room for the TSIG record has the question alone, and RCODE 0.
fn without_partial_answer(served: &Served, query: &Query<'_>, len: usize, out: &mut [u8]) -> usize {
    const TC: u8 = 2;
    if out[2] & TC == 0 {
        return len;
    }
    out[3] &= 0xf0;
    truncate(&served.config, query, wire::message::Rcode::NOERROR, out)
}
