//! Addresses that a client will want next: of mail exchangers, servers and services that stand in the same zone.

use wire::{NameRef, Rtype};
use zone::Zone;
use zone::key::Key;
use zone::rrset::{MAX_POINTER, Node, Place, RECORD_HEAD_LEN, Rrset};

use crate::message::{Message, Section};
use crate::qname::Qname;

/// How many records of a set are looked at: more addresses than of so many names fit in few messages.
const MAX_TARGETS: usize = 32;

/// Adds the addresses of the names that `rrset`, written at `at`, points to, as far as they fit (RFC 1035 3.3, RFC 2782,
/// RFC 9460 4.2).
#[inline]
pub(crate) fn add_addresses(
    zone: &Zone,
    rrset: &Rrset<'_>,
    at: usize,
    dnssec: bool,
    qname: &Qname,
    key: &mut Key,
    message: &mut Message<'_>,
) {
    if !matches!(rrset.rtype, Rtype::NS | Rtype::MX | Rtype::SRV | Rtype::SVCB | Rtype::HTTPS) {
        return;
    }
    let apex = qname.offset(zone.apex_labels());
    let mut addresses = Addresses { zone, apex, dnssec, key, message, added: [0; MAX_TARGETS], len: 0 };
    match rrset.rtype {
        Rtype::SRV => addresses.add_of_services(rrset, at),
        Rtype::SVCB | Rtype::HTTPS => addresses.add_of_bindings(rrset, at, qname),
        _ => addresses.add_of_hosts(rrset, at),
    }
}

/// The addresses for one set.
struct Addresses<'a, 'o> {
    zone: &'a Zone,
    /// Where the apex stands in the message.
    apex: usize,
    dnssec: bool,
    key: &'a mut Key,
    message: &'a mut Message<'o>,
    /// The sets that were added, by address: several records may point to one name.
    added: [usize; MAX_TARGETS],
    len: usize,
}

impl Addresses<'_, '_> {
    /// Of NS and MX records, whose names may be compressed.
    fn add_of_hosts(&mut self, rrset: &Rrset<'_>, at: usize) {
        let mut target = None;
        for (_, offset) in rrset.targets().take(MAX_TARGETS).filter(|(in_zone, _)| *in_zone) {
            let target = target.get_or_insert_with(Qname::new);
            if target.read_written(self.message.out, at + offset).is_some() {
                self.add(target.wire(), at + offset);
            }
        }
    }

    /// RFC 2782: three numbers, then the target.
    fn add_of_services(&mut self, rrset: &Rrset<'_>, at: usize) {
        let mut owner = at + RECORD_HEAD_LEN + 6;
        for rdata in rrset.opaque().take(MAX_TARGETS) {
            self.add(&rdata[6..], owner);
            owner += RECORD_HEAD_LEN + rdata.len();
        }
    }

    /// RFC 9460 2.2: the priority, then the target.
    fn add_of_bindings(&mut self, rrset: &Rrset<'_>, at: usize, qname: &Qname) {
        let mut owner = at + RECORD_HEAD_LEN + 2;
        for rdata in rrset.opaque().take(MAX_TARGETS) {
            match rdata {
                // RFC 9460 2.5.1, 2.5.2: the target "." is the owner itself, or for an alias nothing at all.
                [0, 0, 0, ..] => {}
                [_, _, 0, ..] => self.add(qname.wire(), qname.offset(qname.labels())),
                _ => self.add(&rdata[2..], owner),
            }
            owner += RECORD_HEAD_LEN + rdata.len();
        }
    }

    /// Adds the addresses of the name that `target` begins with, which stands at `owner` in the message.
    fn add(&mut self, target: &[u8], owner: usize) {
        let Ok(name) = NameRef::from_wire(target) else { return };
        if owner > MAX_POINTER || !name.is_at_or_below(self.zone.apex()) {
            return;
        }
        self.key.set(name.wire(), self.zone.apex().wire().len());
        let Some(node) = self.zone.get(self.key.as_bytes()) else { return };
        let Some(first) = address_sets(&node).next().map(|rrset| rrset.address()) else { return };
        if self.added[..self.len].contains(&first) {
            return;
        }
        self.added[self.len] = first;
        self.len += 1;
        // What does not fit is left out: RFC 2181 9 keeps TC for what was asked.
        push_addresses(&node, Place { owner, apex: self.apex }, self.dnssec, self.message);
    }
}

/// Adds the addresses of a node to the additional section; returns whether all of them fit.
///
/// RFC 4035 3.1.1: with their signatures if the zone is their authority; without where those do not fit.
pub(crate) fn push_addresses(node: &Node<'_>, place: Place, dnssec: bool, message: &mut Message<'_>) -> bool {
    let signatures = dnssec && !node.is_occluded();
    let mut is_complete = true;
    for rrset in address_sets(node) {
        let mut push = |signatures| message.push(Section::Additional, &rrset, rrset.ttl, place, signatures).is_ok();
        is_complete &= push(signatures) || signatures && push(false);
    }
    is_complete
}

#[inline]
fn address_sets<'z>(node: &Node<'z>) -> impl Iterator<Item = Rrset<'z>> + use<'z> {
    node.rrsets().filter(|rrset| matches!(rrset.rtype, Rtype::A | Rtype::AAAA) && rrset.count > 0)
}
