//! Signs a random zone: real NSEC and NSEC3 chains, with dummy signatures.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::prelude::*;
use wire::message::Record;
use wire::{Class, Name, Rtype};

use crate::oracle::denial::{base32hex, hash};
use crate::oracle::zone::{Zone, child, path};

/// How to sign a zone.
#[derive(Clone, Debug)]
pub enum Signing {
    /// Not at all.
    Unsigned,
    /// With NSEC (RFC 4035 2.3).
    Nsec,
    /// With NSEC3 (RFC 5155 7.1).
    Nsec3 { iterations: u16, salt: Vec<u8>, opt_out: bool },
}

/// All ways of signing.
pub fn signings() -> impl Strategy<Value = Signing> {
    let nsec3 = (0..3u16, vec(any::<u8>(), 0..3), any::<bool>())
        .prop_map(|(iterations, salt, opt_out)| Signing::Nsec3 { iterations, salt, opt_out });
    prop_oneof![Just(Signing::Unsigned), Just(Signing::Nsec), nsec3]
}

/// Adds all the records that a signer adds.
pub fn sign(apex: &Name, records: &mut Vec<Record>, signing: &Signing) {
    if let Signing::Unsigned = signing {
        // RFC 4035 2.4: an unsigned zone has no DS records.
        records.retain(|record| record.rtype != Rtype::DS);
        return;
    }
    let mut signer = Signer { apex, ttl: negative_ttl(&records[0]), records };
    signer.add(apex, Rtype::DNSKEY, [b"\x01\x01\x03\x0d".as_slice(), &[5; 32]].concat());
    if let Signing::Nsec3 { iterations, salt, .. } = signing {
        signer.add(apex, Rtype::NSEC3PARAM, nsec3_parameters(0, *iterations, salt));
    }
    let signed = signer.authoritative();
    match signing {
        Signing::Unsigned => {}
        Signing::Nsec => signer.add_nsec(&signed),
        Signing::Nsec3 { iterations, salt, opt_out } => signer.add_nsec3(&signed, *iterations, salt, *opt_out),
    }
    signer.add_signatures(&signed);
}

/// Owners and the types that a signer has in their bitmap.
type Owners = BTreeMap<Name, BTreeSet<Rtype>>;

struct Signer<'a> {
    apex: &'a Name,
    /// RFC 9077 3: of NSEC and NSEC3, the lesser of the SOA's TTL and its minimum.
    ttl: u32,
    records: &'a mut Vec<Record>,
}

fn negative_ttl(soa: &Record) -> u32 {
    soa.ttl.min(u32::from_be_bytes(*soa.rdata.last_chunk().expect("the last field of an SOA")))
}

fn nsec3_parameters(flags: u8, iterations: u16, salt: &[u8]) -> Vec<u8> {
    [&[1, flags], &iterations.to_be_bytes()[..], &[salt.len() as u8], salt].concat()
}

impl Signer<'_> {
    fn add(&mut self, owner: &Name, rtype: Rtype, rdata: Vec<u8>) {
        self.records.push(Record { owner: owner.clone(), rtype, class: Class::IN, ttl: self.ttl, rdata });
    }

    /// RFC 4034 4.1.2: NS and DS at cuts, and everything not below them.
    fn authoritative(&self) -> Owners {
        let zone = Zone::new(self.apex.clone(), self.records);
        let mut owners = Owners::new();
        for record in self.records.iter() {
            let is_cut = zone.is_cut(&record.owner);
            let is_below = record.owner != *self.apex && zone.is_cut_off(&crate::oracle::zone::parent(&record.owner))
                || zone.is_redirected(&record.owner);
            if !is_below && (!is_cut || [Rtype::NS, Rtype::DS].contains(&record.rtype)) {
                owners.entry(record.owner.clone()).or_default().insert(record.rtype);
            }
        }
        owners
    }

    /// RFC 4035 2.3: every owner points to the next one, the last to the apex.
    fn add_nsec(&mut self, owners: &Owners) {
        for ((owner, types), next) in owners.iter().zip(owners.keys().skip(1).chain([self.apex])) {
            let types = types.iter().copied().chain([Rtype::RRSIG, Rtype::NSEC]).collect();
            self.add(owner, Rtype::NSEC, [next.to_lowercase().wire(), &bitmap(&types)].concat());
        }
    }

    /// RFC 5155 7.1: owners and empty non-terminals, without unsigned delegations if they may opt out.
    fn add_nsec3(&mut self, owners: &Owners, iterations: u16, salt: &[u8], opt_out: bool) {
        let mut hashes = BTreeMap::new();
        for (owner, types) in owners {
            let unsigned = *types == BTreeSet::from([Rtype::NS]);
            if opt_out && unsigned {
                continue;
            }
            for ancestor in path(self.apex, owner) {
                hashes.entry(hash(&ancestor, iterations, salt)).or_insert_with(BTreeSet::new);
            }
            let signature = (!unsigned).then_some(Rtype::RRSIG);
            hashes.insert(hash(owner, iterations, salt), types.iter().copied().chain(signature).collect());
        }
        let parameters = nsec3_parameters(u8::from(opt_out), iterations, salt);
        let first = *hashes.keys().next().expect("the apex is there");
        for ((hash, types), next) in hashes.iter().zip(hashes.keys().skip(1).chain([&first])) {
            let rdata = [&parameters, &[20][..], next, &bitmap(types)].concat();
            self.add(&child(base32hex(hash).as_bytes(), self.apex), Rtype::NSEC3, rdata);
        }
    }

    /// RFC 4035 2.2: a signature for every authoritative RRset, which the NS of a cut is not.
    fn add_signatures(&mut self, authoritative: &Owners) {
        let mut signatures = BTreeMap::new();
        for record in self.records.iter() {
            let denial = [Rtype::NSEC, Rtype::NSEC3].contains(&record.rtype);
            let own = authoritative.get(&record.owner).is_some_and(|types| types.contains(&record.rtype));
            if denial || own && (record.rtype != Rtype::NS || record.owner == *self.apex) {
                signatures.insert((record.owner.clone(), record.rtype), self.signature(record));
            }
        }
        self.records.extend(signatures.into_values());
    }

    /// RFC 4034 3.1, with dummy octets as the signature.
    fn signature(&self, record: &Record) -> Record {
        let labels = record.owner.as_ref().label_count() - usize::from(record.owner.as_ref().is_wildcard());
        let signer = self.apex.to_lowercase();
        let rdata = [
            &record.rtype.0.to_be_bytes()[..],
            &[13, labels as u8],
            &record.ttl.to_be_bytes(),
            &[0x70, 0, 0, 0],
            &[0x60, 0, 0, 0],
            b"\x30\x39",
            signer.wire(),
            b"signature",
        ];
        Record { rtype: Rtype::RRSIG, rdata: rdata.concat(), ..record.clone() }
    }
}

/// RFC 4034 4.1.2: blocks of a window number, a length and as many octets of bits.
fn bitmap(types: &BTreeSet<Rtype>) -> Vec<u8> {
    let mut windows: BTreeMap<u8, Vec<u8>> = BTreeMap::new();
    for Rtype(number) in types {
        let [window, bit] = number.to_be_bytes();
        let bits = windows.entry(window).or_default();
        bits.resize(usize::from(bit / 8) + 1, 0);
        bits[usize::from(bit / 8)] |= 0x80 >> (bit % 8);
    }
    windows.into_iter().flat_map(|(window, bits)| [&[window, bits.len() as u8], &bits[..]].concat()).collect()
}
