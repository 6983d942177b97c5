//! Starting a zone transfer (AXFR, IXFR). [`crate::decision`] decides who gets one, `zone::axfr` makes its messages.

use wire::HEADER_LEN;
use wire::message::Rcode;
use zone::Zone;
use zone::axfr::AxfrStream;
use zone::transfer_stream::TransferStream;

use crate::edns_response::{ResponseEdns, write_opt};
use crate::message_writer::MessageWriter;
use crate::published::Served;
use crate::query::Query;
use crate::request::{MIN_UDP, Response};
use crate::response_stream::ResponseStream;

/// Starts the transfer of `zone`. The one part of answering that allocates.
#[cold]
pub(crate) fn start(served: &Served, zone: &Zone, query: &Query<'_>) -> Response {
    let config = &served.config;
    let mut buffer = [0; MIN_UDP];
    let mut message = MessageWriter::new(&mut buffer, HEADER_LEN, MIN_UDP);
    let mut response = ResponseEdns::default();
    response.describe(served, zone, query);
    write_opt(&mut message, config, query, Rcode::NOERROR, &response);
    let end = message.at;
    let question = &query.request.message[HEADER_LEN..query.question_end];
    let transfer = AxfrStream::new(zone.clone(), query.header.id, question, &buffer[HEADER_LEN..end]);
    Response::Stream(Box::new(ResponseStream::new(TransferStream::Axfr(transfer))))
}
