//! Who may transfer a zone (AXFR, IXFR), and the start of the transfer.

use wire::message::Rcode;
use wire::serial::is_later;
use wire::{Class, HEADER_LEN, Rtype};
use zone::Zone;
use zone::axfr::AxfrStream;

use crate::config::AnswerConfig;
use crate::edns::{ResponseEdns, write_opt};
use crate::message_writer::MessageWriter;
use crate::published::Served;
use crate::qname::Qname;
use crate::query::Query;
use crate::request::{MIN_UDP, Request, Response, Transport};
use crate::served_zone::ZoneState;

/// Whether a client may transfer a zone.
pub(crate) enum TransferPermission<'s> {
    /// It gets this zone.
    Granted(&'s Zone),
    /// It gets the current SOA record alone (RFC 1995 2, 4): over UDP, after which it retries over TCP; over TCP if it may
    /// transfer the zone and has its current version.
    SerialOnly,
    /// It gets this response code.
    Denied(Rcode),
}

/// Decides about an AXFR or IXFR query.
#[cold]
pub(crate) fn permission<'s>(
    served: &'s Served,
    qname: &Qname,
    request: &Request<'_>,
    query: &Query<'_>,
) -> TransferPermission<'s> {
    let over_udp = request.transport == Transport::Udp;
    let found = served.zones.get(qname.wire());
    let allowed = found.filter(|zone| zone.allow_transfer.allows(request.peer)).and_then(|zone| zone.zone());
    let is_current = |serial| query.client_serial == serial || is_later(query.client_serial, serial);
    if query.qtype == Rtype::IXFR && (over_udp || allowed.is_some_and(|zone| is_current(zone.serial()))) {
        return TransferPermission::SerialOnly;
    }
    match (allowed, found.map(|zone| &zone.state)) {
        (Some(zone), _) if !over_udp && query.qclass == Class::IN => TransferPermission::Granted(zone),
        // RFC 5936 2.2.1: the name is not the apex of a zone here.
        (_, None) => TransferPermission::Denied(Rcode::NOTAUTH),
        (_, Some(ZoneState::Unavailable(_))) => TransferPermission::Denied(Rcode::SERVFAIL),
        // The ACL denies it, or it is AXFR over UDP, which is not defined (RFC 5936 4.2).
        (_, Some(ZoneState::Loaded(_))) => TransferPermission::Denied(Rcode::REFUSED),
    }
}

/// Starts the transfer of `zone`. The one part of answering that allocates.
#[cold]
pub(crate) fn start(zone: &Zone, config: &AnswerConfig, request: &Request<'_>, query: &Query<'_>) -> Response {
    let mut buffer = [0; MIN_UDP];
    let mut message = MessageWriter::new(&mut buffer, HEADER_LEN, MIN_UDP);
    if let Some(edns) = &query.edns {
        let mut response = ResponseEdns::default();
        response.describe(zone, query.qtype, edns);
        write_opt(&mut message, config, request, edns, Rcode::NOERROR, &response);
    }
    let end = message.at;
    let question = &request.message[HEADER_LEN..query.question_end];
    let transfer = AxfrStream::new(zone.clone(), query.header.id, question, &buffer[HEADER_LEN..end]);
    Response::Transfer(Box::new(transfer))
}
