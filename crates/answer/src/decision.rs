//! What kind of response a query gets, decided once.

use wire::message::Rcode;
use wire::{Class, Rtype};
use zone::Zone;

use crate::edns::ExtendedError;
use crate::find_zone::find_zone;
use crate::published::Served;
use crate::qname::Qname;
use crate::query::Query;
use crate::request::Request;
use crate::served_zone::ZoneState;
use crate::transfer::{self, TransferPermission};

/// The kind of response that a query gets.
pub(crate) enum Decision<'s> {
    /// No records, and this response code.
    Refuse(Rcode, Option<ExtendedError>),
    /// BADVERS (RFC 6891 6.1.3).
    BadVersion,
    /// The server's version or identity, or REFUSED.
    Chaos,
    /// IXFR answered by the SOA record of this zone alone.
    Serial(&'s Zone),
    /// This zone as a stream of messages.
    Transfer(&'s Zone),
    /// Records that this zone has for the name, or their denial.
    Lookup(&'s Zone),
}

impl<'s> Decision<'s> {
    pub(crate) fn refuse(rcode: Rcode) -> Decision<'s> {
        Decision::Refuse(rcode, None)
    }

    /// Decides what a well-formed query gets.
    #[inline]
    pub(crate) fn of(served: &'s Served, qname: &Qname, request: &Request<'_>, query: &Query<'_>) -> Decision<'s> {
        if query.edns.is_some_and(|edns| edns.version > 0) {
            return Decision::BadVersion;
        }
        if query.is_signed {
            // RFC 8945 5.2.1: this server has no keys.
            return Decision::refuse(Rcode::NOTAUTH);
        }
        if !query.has_question() {
            return Decision::refuse(Rcode::NOERROR);
        }
        match query.qclass {
            Class::IN | Class::ANY => {}
            Class::CH => return Decision::Chaos,
            _ => return Decision::refuse(Rcode::REFUSED),
        }
        match query.qtype {
            // Types that must not be queried for; NXNAME (128) by RFC 9824 3.4.
            Rtype(0) | Rtype::OPT | Rtype::TSIG | Rtype(128) => return Decision::refuse(Rcode::FORMERR),
            Rtype::AXFR | Rtype::IXFR => match transfer::permission(served, qname, request, query) {
                TransferPermission::Granted(zone) => return Decision::Transfer(zone),
                TransferPermission::Denied(rcode) => return Decision::refuse(rcode),
                TransferPermission::SerialOnly => {}
            },
            _ => {}
        }
        let Some(found) = find_zone(&served.zones, qname, query.qtype) else {
            return Decision::Refuse(Rcode::REFUSED, Some(ExtendedError::NotAuthoritative));
        };
        match &found.state {
            ZoneState::Loaded(zone) if query.qtype == Rtype::IXFR => Decision::Serial(zone),
            ZoneState::Loaded(zone) => Decision::Lookup(zone),
            ZoneState::Unavailable(_) => Decision::Refuse(Rcode::SERVFAIL, Some(ExtendedError::NotReady)),
        }
    }
}
