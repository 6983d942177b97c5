//! The response to an accepted NOTIFY or UPDATE message: NOERROR and no records. It is not rate-limited: the client is allowed to
//! send the message, and a primary of many zones sends many.

use wire::HEADER_LEN;
use wire::message::Rcode;

use crate::edns_response::{ResponseEdns, write_opt};
use crate::message_writer::{MessageWriter, ResponseStatus};
use crate::published::Served;
use crate::query::Query;
use crate::truncation::max_response_len;

/// Writes header, question and OPT into `out`, and returns the length. RFC 2136 2.2: UPDATE has no AA.
pub(crate) fn write_acknowledgement(served: &Served, query: &Query<'_>, authoritative: bool, out: &mut [u8]) -> usize {
    let (config, end) = (&*served.config, query.question_end);
    out[HEADER_LEN..end].copy_from_slice(&query.request.message[HEADER_LEN..end]);
    let limit = max_response_len(config, query).min(out.len());
    let mut message = MessageWriter::new(out, end, limit);
    let rcode = Rcode::NOERROR;
    message.write_header(query, ResponseStatus { authoritative, ..ResponseStatus::empty(rcode) });
    write_opt(&mut message, config, query, rcode, &ResponseEdns::default());
    message.at
}
