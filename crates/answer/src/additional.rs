//! Addresses that a client will want next: of mail exchangers, servers and services that stand in the same zone.

use wire::{NameRef, Rtype};
use zone::Zone;
use zone::canonical_key::CanonicalKey;
use zone::rrset::{MAX_POINTER, MessageOffsets, RECORD_HEAD_LEN, Rrset, ZoneNode};

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
    key: &mut CanonicalKey,
    message: &mut Message<'_>,
) {
    if !matches!(rrset.rtype, Rtype::NS | Rtype::MX | Rtype::SRV | Rtype::SVCB | Rtype::HTTPS) {
        return;
    }
    let apex = qname.offset(zone.apex_labels());
    let mut addresses = Addresses { zone, apex, dnssec, key, message, added: [0; MAX_TARGETS], count: 0 };
    match rrset.rtype {
        Rtype::NS | Rtype::MX => addresses.of_compressed(rrset, at),
        // RFC 2782: three numbers, then the target.
        Rtype::SRV => addresses.of_opaque(rrset, at, 6, qname),
        // RFC 9460 2.2: the priority, then the target.
        _ => addresses.of_opaque(rrset, at, 2, qname),
    }
}

/// The addresses of the targets of one set, each once (RFC 2181 5).
struct Addresses<'a, 'o> {
    zone: &'a Zone,
    /// Where the apex stands in the message.
    apex: usize,
    dnssec: bool,
    key: &'a mut CanonicalKey,
    message: &'a mut Message<'o>,
    /// What was added: the address in memory of the first set of each target.
    added: [usize; MAX_TARGETS],
    count: usize,
}

impl Addresses<'_, '_> {
    fn of_compressed(&mut self, rrset: &Rrset<'_>, at: usize) {
        let mut target = None;
        for (_, offset) in rrset.targets().take(MAX_TARGETS).filter(|(in_zone, _)| *in_zone) {
            let target = target.get_or_insert_with(Qname::new);
            if target.read_written(self.message.out, at + offset).is_some() {
                self.add(target.wire(), at + offset);
            }
        }
    }

    /// Of names that stand behind `skip` octets of the RDATA.
    fn of_opaque(&mut self, rrset: &Rrset<'_>, at: usize, skip: usize, qname: &Qname) {
        let mut owner = at + RECORD_HEAD_LEN + skip;
        for rdata in rrset.opaque().take(MAX_TARGETS) {
            match (rrset.rtype, rdata) {
                (Rtype::SRV, _) => self.add(&rdata[skip..], owner),
                // RFC 9460 2.5.1, 2.5.2: the target "." is the owner itself, or for an alias nothing at all.
                (_, [0, 0, 0, ..]) => {}
                (_, [_, _, 0, ..]) => self.add(qname.wire(), qname.offset(qname.labels())),
                _ => self.add(&rdata[skip..], owner),
            }
            owner += RECORD_HEAD_LEN + rdata.len();
        }
    }

    /// Adds the addresses of the name that `target` begins with, which stands at `owner` of the message.
    fn add(&mut self, target: &[u8], owner: usize) {
        let Ok(name) = NameRef::from_wire(target) else { return };
        if owner > MAX_POINTER || !name.is_at_or_below(self.zone.apex()) {
            return;
        }
        self.key.set(name.wire(), self.zone.apex().wire().len());
        let Some(node) = self.zone.get(self.key.as_bytes()) else { return };
        let Some(first) = address_sets(&node).next() else { return };
        if self.added[..self.count].contains(&first.address()) {
            return;
        }
        self.added[self.count] = first.address();
        self.count += 1;
        // What does not fit is left out: RFC 2181 9 keeps TC for what was asked.
        push_addresses(&node, MessageOffsets { owner, apex: self.apex }, self.dnssec, self.message);
    }
}

/// Adds the addresses of a node to the additional section; returns whether all of it fits, signatures included.
///
/// RFC 4035 3.1.1: with their signatures if the zone is their authority; without where those do not fit.
pub(crate) fn push_addresses(
    node: &ZoneNode<'_>,
    place: MessageOffsets,
    dnssec: bool,
    message: &mut Message<'_>,
) -> bool {
    let signatures = dnssec && !node.is_occluded() && !node.is_cut();
    let mut is_complete = true;
    for rrset in address_sets(node) {
        let mut push = |signatures| message.push(Section::Additional, &rrset, rrset.ttl, place, signatures).is_ok();
        if !push(signatures) {
            is_complete = false;
            if signatures {
                push(false);
            }
        }
    }
    is_complete
}

/// RFC 6672 2.4: what stands below a DNAME is no address of its name.
pub(crate) fn address_sets<'z>(node: &ZoneNode<'z>) -> impl Iterator<Item = Rrset<'z>> + use<'z> {
    let is_hidden = node.is_below_dname();
    node.rrsets().filter(move |rrset| matches!(rrset.rtype, Rtype::A | Rtype::AAAA) && rrset.count > 0 && !is_hidden)
}
