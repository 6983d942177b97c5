//! What must hold at any time, and in the end.

use std::net::IpAddr;

use wire::message::{Message, Rcode, Record};
use wire::serial::{is_later, of_soa};
use wire::{Name, Rtype};

use super::client::{self, query};
use super::lists::{MEMBERS, Service};
use super::machine::{CLIENT, ReplyTo};
use super::operator::ADDED;
use super::{CATALOG, CATALOG_EDGE, PRIMARY, World, ZONES};

/// Owner, type, TTL and RDATA.
type ZoneRecord = (Name, Rtype, u32, Vec<u8>);

/// RFC 8914 2, 4.25.
const EXTENDED_ERROR: u16 = 15;
const INVALID_DATA: [u8; 2] = [0, 24];

impl World {
    /// Asks a machine without a network.
    fn ask(&mut self, number: usize, name: &str, rtype: Rtype) -> Option<Vec<Message>> {
        let process = self.machines[number].process.as_mut()?;
        let is_stream = rtype == Rtype::AXFR;
        let answers = process.answer(&query(name, rtype), IpAddr::from(CLIENT), is_stream, ReplyTo::Client(0));
        Some(answers.iter().map(|octets| Message::parse(octets).expect("a well-formed answer")).collect())
    }

    /// RFC 8914 4.25: whether a zone is answered with SERVFAIL because it has expired. `None` without a process.
    pub(super) fn is_expired(&mut self, number: usize, zone: &str) -> Option<bool> {
        let answers = self.ask(number, zone, Rtype::SOA)?;
        let is_expired = |answer: &Message| {
            let options = answer.edns.iter().flat_map(|edns| &edns.options);
            let mut errors = options.filter(|option| option.code == EXTENDED_ERROR);
            answer.rcode == Rcode::SERVFAIL && errors.any(|error| error.data.starts_with(&INVALID_DATA))
        };
        Some(answers.iter().any(is_expired))
    }

    /// The serials of each process never go back, and the primary has all that it acknowledged.
    pub(super) fn check_answers(&mut self) -> Result<(), String> {
        for number in 0..self.machines.len() {
            for (zone, name) in ZONES.iter().enumerate() {
                if number != self.primaries[zone]
                    && zone != CATALOG
                    && let Some(is_expired) = self.is_expired(number, name)
                {
                    self.check_expiry(number, name, is_expired)?;
                }
                let Some(answers) = self.ask(number, name, Rtype::SOA) else { continue };
                let Some(record) = answers.first().and_then(|answer| answer.answer.first()) else { continue };
                let serial = of_soa(&record.rdata).ok_or("no SOA record")?;
                // A secondary serves a version before it is on disk; it may have to transfer it again.
                let id = if number == self.primaries[zone] { (number, 0) } else { self.machines[number].id() };
                if let Some(last) = self.serials.insert((id, zone), serial)
                    && is_later(last, serial)
                {
                    return Err(format!("{name} at machine {number}: serial {serial} after {last}"));
                }
            }
        }
        self.check_added_zone()?;
        for number in 0..self.clients.len() {
            let (owner, acknowledged) = (self.clients[number].owner(), self.clients[number].acknowledged);
            let primary = self.primaries[number % 2];
            let Some(answers) = self.ask(primary, &owner, Rtype::TXT) else { continue };
            let Some(answer) = answers.first().filter(|answer| answer.rcode != Rcode::SERVFAIL) else { continue };
            let value = answer.answer.first().map_or(0, |record| client::value_of(&record.rdata));
            if value < acknowledged {
                return Err(format!("update {acknowledged} of {owner} is lost: {value}"));
            }
        }
        Ok(())
    }

    /// The primary serves the added zone if that was acknowledged, and not if its removal was.
    fn check_added_zone(&mut self) -> Result<(), String> {
        let (Some(is_added), Some(answers)) = (self.operator.is_added, self.ask(PRIMARY, ADDED, Rtype::SOA)) else {
            return Ok(());
        };
        match answers.first().is_some_and(|answer| answer.rcode != Rcode::REFUSED) == is_added {
            true => Ok(()),
            false => Err(format!("{ADDED} at the primary: served {}, expected {is_added}", !is_added)),
        }
    }

    /// Where a machine differs from the primary, or does not have the last update of a client.
    pub(super) fn difference(&mut self) -> Option<String> {
        if let Some(client) = self.clients.iter().find(|client| client.is_waiting()) {
            return Some(format!("an update of {} is not answered", client.owner()));
        }
        self.operator.take_reports();
        if self.operator.is_waiting() {
            return Some("a reload is not reported".into());
        }
        for (zone, text) in self.operator.expected() {
            for number in [PRIMARY, CATALOG_EDGE] {
                let found = self.records(number, zone);
                let has_text = |records: &Vec<ZoneRecord>| {
                    let text = text.as_deref().unwrap_or_default().as_bytes();
                    records.iter().any(|record| text.is_empty() || record.3.ends_with(text))
                };
                if found.as_ref().map(has_text) != text.as_ref().map(|_| true) {
                    return Some(format!("{zone} at machine {number}: expected {text:?}, found {found:?}"));
                }
            }
        }
        if let Some(difference) = self.difference_of_members() {
            return Some(difference);
        }
        for (zone, primary) in ZONES.into_iter().zip(self.primaries) {
            let Some(expected) = self.records(primary, zone) else {
                return Some(format!("the primary does not serve {zone}"));
            };
            for number in (0..self.machines.len()).filter(|number| *number != primary) {
                let found = self.records(number, zone);
                if found.as_ref() != Some(&expected) {
                    let [found, expected] = [found.unwrap_or_default(), expected].map(|records| {
                        records.iter().find_map(|record| of_soa(&record.3).filter(|_| record.1 == Rtype::SOA))
                    });
                    return Some(format!("{zone} at machine {number}: serial {found:?} instead of {expected:?}"));
                }
            }
        }
        None
    }

    /// What the edge with the catalogs answers.
    fn rcode(&mut self, name: &str, rtype: Rtype) -> Option<Rcode> {
        self.ask(CATALOG_EDGE, name, rtype)?.first().map(|answer| answer.rcode)
    }

    /// A member of the catalogs that is not served as these say.
    fn difference_of_members(&mut self) -> Option<String> {
        for (number, member) in MEMBERS.iter().enumerate() {
            let expected = self.operator.lists.expected(number);
            let found = match (self.rcode(member, Rtype::SOA), self.rcode(member, Rtype::AXFR)) {
                (Some(Rcode::REFUSED), _) => Service::NotServed,
                (Some(Rcode::NOERROR), Some(Rcode::REFUSED)) => Service::WithoutTransfers,
                (Some(Rcode::NOERROR), Some(Rcode::NOERROR)) => Service::Open,
                rcodes => return Some(format!("{member} is answered with {rcodes:?} instead of {expected:?}")),
            };
            let mut is_equal = || self.records(CATALOG_EDGE, member) == self.records(PRIMARY, member);
            if !expected.contains(&found) || found == Service::Open && !is_equal() {
                return Some(format!("{member} is served as {found:?} instead of {expected:?}"));
            }
        }
        None
    }

    /// All records of a zone.
    fn records(&mut self, number: usize, zone: &str) -> Option<Vec<ZoneRecord>> {
        let answers = self.ask(number, zone, Rtype::AXFR)?;
        let record = |Record { owner, rtype, ttl, rdata, .. }: Record| (owner, rtype, ttl, rdata);
        let mut records: Vec<_> = answers.into_iter().flat_map(|answer| answer.answer).map(record).collect();
        records.sort_by(|a, b| (a.0.to_string(), a.1.0, &a.3).cmp(&(b.0.to_string(), b.1.0, &b.3)));
        (!records.is_empty()).then_some(records)
    }
}
