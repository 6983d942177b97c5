//! Addresses that a client will want next: of mail exchangers, servers and services that stand in the same zone.

use wire::{NameRef, Rtype};
use zone::Zone;
use zone::key::Key;
use zone::rrset::{MAX_POINTER, Node, Place, Rrset};

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
    let apex = qname.offset(zone.apex_labels());
    let mut add = |target: &[u8], owner: usize| add_of(zone, target, Place { owner, apex }, dnssec, key, message);
    match rrset.rtype {
        Rtype::NS | Rtype::MX => add_compressed(zone, rrset, at, dnssec, apex, key, message),
        Rtype::SRV => {
            // RFC 2782: three numbers, then the target.
            let mut owner = at + 12 + 6;
            for rdata in rrset.opaque().take(MAX_TARGETS) {
                add(&rdata[6..], owner);
                owner += 12 + rdata.len();
            }
        }
        Rtype::SVCB | Rtype::HTTPS => {
            // RFC 9460 2.2: the priority, then the target.
            let mut owner = at + 12 + 2;
            for rdata in rrset.opaque().take(MAX_TARGETS) {
                match rdata {
                    // RFC 9460 2.5.1, 2.5.2: the target "." is the owner itself, or for an alias nothing at all.
                    [0, 0, 0, ..] => {}
                    [_, _, 0, ..] => add(qname.wire(), qname.offset(qname.labels())),
                    _ => add(&rdata[2..], owner),
                }
                owner += 12 + rdata.len();
            }
        }
        _ => {}
    }
}

fn add_compressed(
    zone: &Zone,
    rrset: &Rrset<'_>,
    at: usize,
    dnssec: bool,
    apex: usize,
    key: &mut Key,
    message: &mut Message<'_>,
) {
    let mut target = None;
    for (_, offset) in rrset.targets().take(MAX_TARGETS).filter(|(in_zone, _)| *in_zone) {
        let target = target.get_or_insert_with(Qname::new);
        if target.read_written(message.out, at + offset).is_some() {
            add_of(zone, target.wire(), Place { owner: at + offset, apex }, dnssec, key, message);
        }
    }
}

/// Adds the addresses of the name that `target` begins with, which stands at `place.owner` of the message.
fn add_of(zone: &Zone, target: &[u8], place: Place, dnssec: bool, key: &mut Key, message: &mut Message<'_>) {
    let Ok(name) = NameRef::from_wire(target) else { return };
    if place.owner > MAX_POINTER || !name.is_at_or_below(zone.apex()) {
        return;
    }
    key.set(name.wire(), zone.apex().wire().len());
    let Some(node) = zone.get(key.as_bytes()) else { return };
    // What does not fit is left out: RFC 2181 9 keeps TC for what was asked.
    push_addresses(&node, place, dnssec, message);
}

/// Adds the addresses of a node to the additional section; returns whether all of them fit.
///
/// RFC 4035 3.1.1: with their signatures if the zone is their authority; without where those do not fit.
pub(crate) fn push_addresses(node: &Node<'_>, place: Place, dnssec: bool, message: &mut Message<'_>) -> bool {
    let signatures = dnssec && !node.is_occluded();
    let mut is_complete = true;
    for rrset in node.rrsets().filter(|rrset| matches!(rrset.rtype, Rtype::A | Rtype::AAAA) && rrset.count > 0) {
        let mut push = |signatures| message.push(Section::Additional, &rrset, rrset.ttl, place, signatures).is_ok();
        is_complete &= push(signatures) || signatures && push(false);
    }
    is_complete
}
