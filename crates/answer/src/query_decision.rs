//! What kind of response a query gets, decided once.

use wire::message::Rcode;
use wire::serial::is_later;
use wire::{Class, Rtype};
use zone::Zone;

use crate::edns::ExtendedError;
use crate::find_zone::find_zone;
use crate::published::Served;
use crate::qname::Qname;
use crate::query::Query;
use crate::refused_request::RefusalReason;
use crate::served_zone::{ServedZone, ZoneState};

/// The kind of response that a query gets.
pub(crate) enum Decision<'s> {
    /// No records, and this response code.
    Refuse(Rcode, Option<ExtendedError>),
    /// REFUSED, and a line in the log.
    RefuseClient(RefusalReason),
    /// BADVERS (RFC 6891 6.1.3).
    BadVersion,
    /// The server's version or identity, or REFUSED.
    Chaos,
    /// The zone, or its changes since the version of the client: over UDP only if there are any.
    Transfer(&'s ServedZone),
    /// Records that this zone has for the name, or their denial. An IXFR query gets the SOA record.
    Lookup(&'s Zone),
}

impl<'s> Decision<'s> {
    pub(crate) fn refuse(rcode: Rcode) -> Decision<'s> {
        Decision::Refuse(rcode, None)
    }

    /// Decides what a well-formed query gets.
    #[inline]
    pub(crate) fn of(served: &'s Served, qname: &mut Qname, query: &Query<'_>) -> Decision<'s> {
        if query.has_bad_version() {
            return Decision::BadVersion;
        }
        if !query.has_question() {
            return Decision::of_cookie_query(served, query);
        }
        match query.qclass {
            Class::IN | Class::ANY => {}
            Class::CH => return Decision::Chaos,
            _ => return Decision::refuse(Rcode::REFUSED),
        }
        match query.qtype {
            // Types that must not be queried for; NXNAME (128) by RFC 9824 3.4.
            Rtype(0) | Rtype::OPT | Rtype::TSIG | Rtype(128) => return Decision::refuse(Rcode::FORMERR),
            Rtype::AXFR | Rtype::IXFR => {
                if let Some(decision) = Decision::of_transfer(served, qname, query) {
                    return decision;
                }
            }
            _ => {}
        }
        let Some(found) = find_zone(&served.zones, qname, query.qtype) else {
            return Decision::Refuse(Rcode::REFUSED, Some(ExtendedError::NotAuthoritative));
        };
        match &found.state {
            ZoneState::Loaded(zone) => Decision::Lookup(zone),
            without_data => Decision::without_data(without_data),
        }
    }

    /// The zone, also one without data, that a NOTIFY or UPDATE message is about; else what its client gets.
    #[cold]
    pub(crate) fn named_zone(
        served: &'s Served,
        qname: &Qname,
        query: &Query<'_>,
    ) -> Result<&'s ServedZone, Decision<'s>> {
        if query.has_bad_version() {
            return Err(Decision::BadVersion);
        }
        match served.zones.get(qname.wire()) {
            Some(zone) if query.qclass == Class::IN => Ok(zone),
            // RFC 1996 3.11, RFC 2136 3.1.2: not the apex of a zone here, or another class.
            _ => Err(Decision::refuse(Rcode::NOTAUTH)),
        }
    }

    /// RFC 7873 5.4: a query without a question asks for a server cookie, or whether the one that it has is valid.
    #[cold]
    fn of_cookie_query(served: &Served, query: &Query<'_>) -> Decision<'s> {
        let has_server_cookie = query.edns.and_then(|edns| edns.cookie).is_some_and(|(_, server)| !server.is_empty());
        let is_wrong = |secrets| has_server_cookie && !query.has_valid_cookie(secrets);
        let rcode =
            if served.config.cookies.as_ref().is_some_and(is_wrong) { Rcode::BADCOOKIE } else { Rcode::NOERROR };
        Decision::refuse(rcode)
    }

    /// SERVFAIL, because the zone is not loaded or has expired (RFC 8914 4.15, 4.25).
    #[cold]
    fn without_data(state: &ZoneState) -> Decision<'s> {
        let is_expired = matches!(state, ZoneState::Expired(_));
        let error = if is_expired { ExtendedError::InvalidData } else { ExtendedError::NotReady };
        Decision::Refuse(Rcode::SERVFAIL, Some(error))
    }

    /// Decides about an AXFR or IXFR query. `None`: it gets the current SOA record alone (RFC 1995 2, 4): if the client may transfer
    /// the zone and has its current version; and over UDP also without changes to send, after which the client retries over TCP.
    #[cold]
    fn of_transfer(served: &'s Served, qname: &Qname, query: &Query<'_>) -> Option<Decision<'s>> {
        let over_udp = query.request.transport.is_udp();
        let found = served.zones.get(qname.wire());
        let client = query.client();
        let allowed = found.filter(|served| served.acls().transfer.allows(&client));
        let allowed = allowed.and_then(|served| Some((&**served, served.zone()?)));
        if query.qtype == Rtype::IXFR {
            let is_current = |serial| query.client_serial == serial || is_later(query.client_serial, serial);
            if allowed.is_some_and(|(_, zone)| is_current(zone.serial())) {
                return None;
            }
            if over_udp {
                let (served, _) = allowed.filter(|_| query.qclass == Class::IN)?;
                return served.changes_since(query.client_serial).map(|_| Decision::Transfer(served));
            }
        }
        Some(match (allowed, found.map(|zone| &zone.state)) {
            (Some((served, _)), _) if !over_udp && query.qclass == Class::IN => Decision::Transfer(served),
            // RFC 5936 2.2.1: the name is not the apex of a zone here.
            (_, None) => Decision::refuse(Rcode::NOTAUTH),
            (None, Some(ZoneState::Loaded(_))) => Decision::RefuseClient(RefusalReason::Transfer),
            // AXFR over UDP is not defined (RFC 5936 4.2).
            (_, Some(ZoneState::Loaded(_))) => Decision::refuse(Rcode::REFUSED),
            (_, Some(without_data)) => Decision::without_data(without_data),
        })
    }
}
