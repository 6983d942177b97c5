//! Proofs that something does not exist: NSEC (RFC 4035 3.1.3) and NSEC3 (RFC 5155 7.2).

use sha1::{Digest, Sha1};
use wire::message::Record;
use wire::{Name, Rtype};

use super::Section;
use super::zone::{Node, Zone, child, path};

/// A claim to be proven.
#[expect(clippy::enum_variant_names, reason = "every claim is that something is not there")]
pub enum Claim<'n> {
    /// The name exists, the type does not (RFC 4035 3.1.3.1, RFC 5155 7.2.3, 7.2.4).
    NoType { name: &'n Name },
    /// The name does not exist, nor does a wildcard for it (RFC 4035 3.1.3.2, RFC 5155 7.2.2).
    NoName { name: &'n Name, encloser: &'n Name },
    /// The answer is a wildcard's: no closer match exists (RFC 4035 3.1.3.3, RFC 5155 7.2.6).
    NoCloser { name: &'n Name, encloser: &'n Name },
    /// The same, and the wildcard does not have the type (RFC 4035 3.1.3.4, RFC 5155 7.2.5).
    NoTypeAtWildcard { name: &'n Name, encloser: &'n Name },
    /// The delegation is not signed (RFC 4035 3.1.4, RFC 5155 7.2.7).
    NoDs { cut: &'n Name },
}

/// The records that prove the claim, with their signatures; none in a zone without a chain.
pub fn prove(zone: &Zone, claim: &Claim<'_>) -> Section {
    if let Some(chain) = Nsec3Chain::of(zone) {
        Section { required: chain.prove(claim), allowed: chain.more(claim), ..Section::default() }
    } else if zone.set(&zone.apex, Rtype::NSEC).is_some() {
        Section { required: nsec(zone, claim), ..Section::default() }
    } else {
        Section::default()
    }
}

//----------- NSEC -------------------------------------------------------------

fn nsec(zone: &Zone, claim: &Claim<'_>) -> Vec<Record> {
    match claim {
        Claim::NoType { name } | Claim::NoDs { cut: name } | Claim::NoCloser { name, .. } => nsec_at(zone, name),
        // RFC 4035 3.1.3.2: if one NSEC proves both, it is sent once.
        Claim::NoName { name, encloser } | Claim::NoTypeAtWildcard { name, encloser } => {
            [nsec_at(zone, name), nsec_at(zone, &child(b"*", encloser))].concat()
        }
    }
}

/// The NSEC that matches or covers the name: that of the last owner at or before it in canonical order.
/// An empty non-terminal is covered (RFC 4035 3.1.3.1 with RFC 4034 4.1.1: it has no NSEC of its own).
fn nsec_at(zone: &Zone, name: &Name) -> Vec<Record> {
    let has_nsec = |owner: &&Name| zone.set(owner, Rtype::NSEC).is_some();
    let owner = zone.owners().filter(has_nsec).filter(|owner| *owner <= name).last();
    let owner = owner.expect("the apex has an NSEC and comes before all names of its zone");
    Zone::records(zone.node(owner).expect("an owner has records"), Rtype::NSEC, owner, true)
}

//----------- NSEC3 ------------------------------------------------------------

/// The NSEC3 records of a zone, with their hash parameters.
struct Nsec3Chain<'z> {
    zone: &'z Zone,
    iterations: u16,
    salt: Vec<u8>,
}

impl<'z> Nsec3Chain<'z> {
    /// RFC 5155 4.1, 7.3: NSEC3PARAM at the apex says that there is a complete chain and with which parameters.
    fn of(zone: &'z Zone) -> Option<Nsec3Chain<'z>> {
        let param = &zone.set(&zone.apex, Rtype::NSEC3PARAM)?.rdatas[0];
        let iterations = u16::from_be_bytes([param[2], param[3]]);
        Some(Nsec3Chain { zone, iterations, salt: param[5..].to_vec() })
    }

    fn prove(&self, claim: &Claim<'_>) -> Vec<Record> {
        match claim {
            // RFC 5155 7.2.3, 7.2.4, 7.2.7: the NSEC3 that matches, or, where the name is not in the chain as it is an
            // unsigned delegation in an opt-out span or has only such below it, a closest provable encloser proof.
            Claim::NoType { name } | Claim::NoDs { cut: name } => {
                self.matching(name).unwrap_or_else(|| self.closest_provable_encloser(name).0)
            }
            Claim::NoName { name, .. } => {
                let (proof, encloser) = self.closest_provable_encloser(name);
                [proof, self.at(&child(b"*", &encloser))].concat()
            }
            Claim::NoCloser { name, encloser } => self.at(&next_closer(name, encloser)),
            Claim::NoTypeAtWildcard { name, encloser } => {
                let wildcard = self.matching(&child(b"*", encloser)).unwrap_or_default();
                [self.closest_provable_encloser(name).0, wildcard].concat()
            }
        }
    }

    /// What may be sent besides: where opt-out left the closest encloser or its wildcard out of the chain, nobody can
    /// prove them, and RFC 5155 does not say how hard to try.
    fn more(&self, claim: &Claim<'_>) -> Vec<Record> {
        let (name, encloser, is_wildcard_there) = match claim {
            Claim::NoTypeAtWildcard { name, encloser } => (name, encloser, true),
            Claim::NoName { name, encloser } | Claim::NoCloser { name, encloser } => (name, encloser, false),
            Claim::NoType { .. } | Claim::NoDs { .. } => return Vec::new(),
        };
        let wildcard = child(b"*", encloser);
        let is_left_out = |name: &Name| self.matching(name).is_none();
        if !(is_left_out(encloser) || is_wildcard_there && is_left_out(&wildcard)) {
            return Vec::new();
        }
        let proof = self.closest_provable_encloser(name).0;
        [proof, self.at(&next_closer(name, encloser)), self.at(&wildcard)].concat()
    }

    /// RFC 5155 7.2.1: the NSEC3 of the longest ancestor that has one, and the one that covers the next closer name.
    fn closest_provable_encloser(&self, name: &Name) -> (Vec<Record>, Name) {
        let ancestors = path(&self.zone.apex, name);
        let known = ancestors.iter().rev().skip(1).find_map(|name| Some((self.matching(name)?, name)));
        let (matching, encloser) = known.expect("the apex has an NSEC3");
        ([matching, self.at(&next_closer(name, encloser))].concat(), encloser.clone())
    }

    fn matching(&self, name: &Name) -> Option<Vec<Record>> {
        let owner = self.hashed_owner(name);
        self.zone.hashed.get(&owner).map(|node| nsec3_records(&owner, node))
    }

    /// The NSEC3 that matches or covers the name: the last one at or before its hash, or else the last of the chain
    /// (RFC 5155 3.1.7: the chain is circular). Base32hex preserves the order of the hashes.
    fn at(&self, name: &Name) -> Vec<Record> {
        let hash = self.hashed_owner(name);
        let before = self.zone.hashed.iter().rfind(|(owner, _)| **owner <= hash);
        let (owner, node) = before.or(self.zone.hashed.iter().last()).expect("a chain has a record");
        nsec3_records(owner, node)
    }

    fn hashed_owner(&self, name: &Name) -> Name {
        child(base32hex(&hash(name, self.iterations, &self.salt)).as_bytes(), &self.zone.apex)
    }
}

fn nsec3_records(owner: &Name, node: &Node) -> Vec<Record> {
    Zone::records(node, Rtype::NSEC3, owner, true)
}

/// RFC 5155 1.3: the name one label longer than the closest encloser.
fn next_closer(name: &Name, encloser: &Name) -> Name {
    path(encloser, name).swap_remove(1)
}

/// RFC 5155 5: SHA-1 over the name in lower case and the salt, and then `iterations` times over that and the salt.
pub fn hash(name: &Name, iterations: u16, salt: &[u8]) -> [u8; 20] {
    let first = Sha1::new().chain_update(name.to_lowercase().wire()).chain_update(salt).finalize();
    (0..iterations).fold(first, |hash, _| Sha1::new().chain_update(hash).chain_update(salt).finalize()).into()
}

/// RFC 4648 7, in lower case and without padding; the length is a multiple of five octets.
pub fn base32hex(octets: &[u8]) -> String {
    let digit = |value: u64| char::from(b"0123456789abcdefghijklmnopqrstuv"[value as usize & 31]);
    let group = |group: &[u8]| group.iter().fold(0, |bits, &octet| bits << 8 | u64::from(octet));
    octets.chunks(5).flat_map(|five| (0..8).rev().map(move |place| digit(group(five) >> (5 * place)))).collect()
}

#[test]
fn hashes_are_those_of_rfc_5155_appendix_a() {
    for (name, expected) in [
        ("example.", "0p9mhaveqvm6t7vbl5lop2u3t2rp3tom"),
        ("a.example.", "35mthgpgcu1qg68fab165klnsnk3dpvl"),
        ("*.W.example.", "r53bq7cc2uvmubfu5ocmm6pers9tk9en"),
    ] {
        let name: Name = name.parse().expect("a good name");
        assert_eq!(base32hex(&hash(&name, 12, &[0xaa, 0xbb, 0xcc, 0xdd])), expected);
    }
}
