//! Zone transfers (AXFR, IXFR). [`crate::query_decision`] decides who gets one, `zone::axfr` and `zone::ixfr` make the messages.

use wire::message::Rcode;
use wire::{HEADER_LEN, Rtype};
use zone::Zone;
use zone::axfr::AxfrStream;
use zone::encoded_change::EncodedChange;
use zone::ixfr::IxfrStream;
use zone::transfer_stream::TransferStream;

use crate::edns::QueryEdns;
use crate::edns_response::{ResponseEdns, write_opt};
use crate::message_writer::{MessageWriter, ResponseStatus};
use crate::published::Served;
use crate::query::Query;
use crate::query_decision::Decision;
use crate::request::MIN_UDP;
use crate::response::Response;
use crate::response_stream::ResponseStream;
use crate::served_zone::ServedZone;
use crate::truncation::max_response_len;
use crate::worker::WorkerState;
use crate::{limit_rate, write_response};

/// Starts the transfer of a zone, or sends it as one message over UDP. The one part of answering that allocates.
#[cold]
pub(crate) fn respond(
    served: &Served,
    worker: &mut WorkerState,
    served_zone: &ServedZone,
    query: &Query<'_>,
    out: &mut [u8],
) -> Response {
    let zone = served_zone.zone().expect("it was loaded when the transfer was decided on");
    let mut buffer = [0; MIN_UDP];
    let opt = response_opt(served, zone, query, &mut buffer);
    let question = &query.request.message[HEADER_LEN..query.question_end];
    let id = query.header.id;
    // RFC 1995 4: the changes since the version of the client if they are known, else the whole zone.
    let changes = (query.qtype == Rtype::IXFR).then(|| served_zone.changes_since(query.client_serial)).flatten();
    let stream = |changes: Vec<EncodedChange>| IxfrStream::new(zone, changes, id, question, opt);
    if query.request.transport.is_udp() {
        let limit = max_response_len(&served.config, query).min(out.len());
        let len = changes.and_then(|changes| write_one_message(changes, stream, &mut out[..limit]));
        return respond_over_udp(served, worker, zone, len, query, out);
    }
    worker.counters.transfers += 1;
    // Not condensed: the client may need each version for its own secondaries.
    let transfer = match changes.and_then(|changes| stream(changes.to_vec())) {
        Some(stream) => TransferStream::Ixfr(stream),
        None => TransferStream::Axfr(AxfrStream::new(zone.clone(), id, question, opt)),
    };
    Response::Stream(Box::new(ResponseStream::new(transfer)))
}

/// Longer changes are not condensed for a datagram. It bounds the work.
const MAX_CONDENSED: usize = 64 << 10;

/// Writes all changes as one message (RFC 1995 2): as they are, or condensed to one change (RFC 1995 4). Returns its length if it fits.
fn write_one_message(
    changes: &[EncodedChange],
    stream: impl Fn(Vec<EncodedChange>) -> Option<IxfrStream>,
    out: &mut [u8],
) -> Option<usize> {
    stream(changes.to_vec())?.udp_message(out).or_else(|| {
        let octets: usize = changes.iter().map(|change| change.as_bytes().len()).sum();
        let is_worth_it = changes.len() > 1 && octets <= MAX_CONDENSED;
        let change = is_worth_it.then(|| EncodedChange::condense(changes))??;
        stream(vec![change])?.udp_message(out)
    })
}

/// Sends the message with all changes, or the SOA record alone, after which the client retries over TCP (RFC 1995 2).
fn respond_over_udp(
    served: &Served,
    worker: &mut WorkerState,
    zone: &Zone,
    changes_len: Option<usize>,
    query: &Query<'_>,
    out: &mut [u8],
) -> Response {
    let Some(len) = changes_len else {
        return write_response(served, worker, query, Decision::Lookup(zone), out);
    };
    worker.counters.transfers += 1;
    worker.counters.count(Rcode::NOERROR, false);
    let rrl_suffix_len = zone.apex().wire().len() as u8;
    let status = ResponseStatus { rcode: Rcode::NOERROR, authoritative: true, rrl_suffix_len };
    limit_rate(served, worker, query, status, len, out)
}

/// The OPT record of the response; empty for a client without EDNS.
fn response_opt<'b>(served: &Served, zone: &Zone, query: &Query<'_>, buffer: &'b mut [u8; MIN_UDP]) -> &'b [u8] {
    let mut message = MessageWriter::new(buffer, HEADER_LEN, MIN_UDP);
    let mut response = ResponseEdns::default();
    response.describe(served, zone, query);
    // RFC 9250 5.4 asks for padding of all responses. But that of single messages would not hide the length of a transfer, and RFC 9103
    // 7.9.1 and 7.10.3 leave it to a policy of the future.
    let edns = query.edns.map(|edns| QueryEdns { wants_padding: false, ..edns });
    let query = &Query { edns, ..*query };
    write_opt(&mut message, &served.config, query, Rcode::NOERROR, &response);
    let end = message.at;
    &buffer[HEADER_LEN..end]
}
