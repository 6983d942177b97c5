//! Denial of existence by NSEC3 records (RFC 5155 7.2), opt-out included.

use sha1::{Digest, Sha1};
use wire::Rtype;
use zone::canonical_key::{CanonicalKey, label_count};
use zone::tree::TreeEntry;
use zone::{Denial, Zone};

use super::{DenialProofs, Denied, MAX_SKIPPED};
use crate::qname::Qname;

/// The hashing that one query has cost.
#[derive(Default)]
pub(crate) struct Nsec3Prover {
    /// SHA-1 digests computed.
    pub(crate) digests: u32,
    /// A proof would have exceeded [`MAX_DIGESTS`] and was left out.
    pub(crate) too_costly: bool,
}

/// RFC 9276 3.2: the most SHA-1 digests for one query. Enough for a name error in a zone of 2,500 iterations, the most that
/// RFC 5155 10.3 allows any zone; with 150 iterations enough for proofs of 49 names.
const MAX_DIGESTS: u32 = 3 * 2501;

/// Collects the NSEC3 records that prove `denied`.
pub(super) fn prove<'z>(
    proofs: &mut DenialProofs<'z>,
    zone: &'z Zone,
    qname: &Qname,
    key: &CanonicalKey,
    denied: Denied<'_, 'z>,
) {
    let labels_of = |encloser_len: usize| zone.apex_labels() + label_count(&key.as_bytes()[..encloser_len]);
    match denied {
        Denied::Type { labels, .. } => prove_nodata(proofs, zone, qname, labels),
        Denied::EmptyNonTerminal { .. } => prove_nodata(proofs, zone, qname, qname.labels()),
        // RFC 5155 7.2.2: the closest encloser, and the record that covers its wildcard.
        Denied::Name { encloser_len, .. } => {
            let labels = prove_closest_encloser(proofs, zone, qname, labels_of(encloser_len));
            let wildcard = proofs.nsec3.hash_wildcard(zone, qname, labels);
            proofs.add(zone, qname, covering(zone, &wildcard));
        }
        // RFC 5155 7.2.6: the next closer name does not exist.
        Denied::WildcardAnswer { encloser_len, .. } => {
            let next_closer = proofs.nsec3.hash_suffix(zone, qname, labels_of(encloser_len) + 1);
            proofs.add(zone, qname, covering(zone, &next_closer));
        }
        // RFC 5155 7.2.5: the closest encloser, and the wildcard's own record. Opt-out leaves that out if the wildcard is
        // only the parent of unsigned delegations; then the encloser's proof is enough.
        Denied::WildcardType { encloser_len, .. } => {
            let labels = labels_of(encloser_len);
            prove_closest_encloser(proofs, zone, qname, labels);
            let wildcard = proofs.nsec3.hash_wildcard(zone, qname, labels);
            proofs.add(zone, qname, matching(zone, &wildcard));
        }
    }
}

/// RFC 5155 7.2.3, 7.2.4, 7.2.7: the record of the name, or under opt-out the proof of its closest provable encloser.
fn prove_nodata<'z>(proofs: &mut DenialProofs<'z>, zone: &'z Zone, qname: &Qname, labels: usize) {
    let hash = proofs.nsec3.hash_suffix(zone, qname, labels);
    match matching(zone, &hash) {
        Some(entry) => proofs.add(zone, qname, Some(entry)),
        None if labels > zone.apex_labels() => {
            prove_closest_encloser(proofs, zone, qname, labels - 1);
        }
        None => {}
    }
}

/// RFC 5155 7.2.1: the record of the closest encloser that has one, and the record that covers the next closer name.
/// Returns the encloser's label count: `labels` or, under opt-out, fewer.
fn prove_closest_encloser<'z>(proofs: &mut DenialProofs<'z>, zone: &'z Zone, qname: &Qname, labels: usize) -> usize {
    for labels in (zone.apex_labels()..=labels).rev() {
        let hash = proofs.nsec3.hash_suffix(zone, qname, labels);
        if let Some(entry) = matching(zone, &hash) {
            proofs.add(zone, qname, Some(entry));
            if labels < qname.labels() {
                let next_closer = proofs.nsec3.hash_suffix(zone, qname, labels + 1);
                proofs.add(zone, qname, covering(zone, &next_closer));
            }
            return labels;
        }
    }
    zone.apex_labels()
}

impl Nsec3Prover {
    /// The hash of the last `labels` labels of the name.
    fn hash_suffix(&mut self, zone: &Zone, qname: &Qname, labels: usize) -> Nsec3Label {
        self.hash(zone, &[qname.suffix(labels)])
    }

    /// The hash of the wildcard directly below the last `labels` labels of the name.
    fn hash_wildcard(&mut self, zone: &Zone, qname: &Qname, labels: usize) -> Nsec3Label {
        self.hash(zone, &[b"\x01*", qname.suffix(labels)])
    }

    /// The hash of the concatenated parts of a name (RFC 5155 5); a hash of no name once the query costs too much.
    fn hash(&mut self, zone: &Zone, name: &[&[u8]]) -> Nsec3Label {
        let Denial::Nsec3 { iterations, salt } = zone.denial() else { unreachable!("the zone has NSEC3 records") };
        let digests = self.digests + 1 + u32::from(*iterations);
        self.too_costly |= digests > MAX_DIGESTS;
        if self.too_costly {
            return [0; _];
        }
        self.digests = digests;
        let mut hasher = Sha1::new();
        name.iter().for_each(|part| hasher.update(part));
        hasher.update(salt);
        let mut digest = hasher.finalize();
        for _ in 0..*iterations {
            digest = Sha1::new().chain_update(digest).chain_update(salt).finalize();
        }
        label(&digest.into())
    }
}

//----------- the chain --------------------------------------------------------

/// The key of an NSEC3 owner: the hash in base32hex (RFC 4648 7), in lower case, and the end of the label.
type Nsec3Label = [u8; 33];

fn label(digest: &[u8; 20]) -> Nsec3Label {
    const DIGITS: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";
    let mut key = [0; 33];
    for (five, eight) in digest.as_chunks::<5>().0.iter().zip(key.as_chunks_mut::<8>().0) {
        let bits = five.iter().fold(0u64, |bits, &octet| bits << 8 | u64::from(octet));
        for (at, digit) in eight.iter_mut().enumerate() {
            *digit = DIGITS[(bits >> (35 - 5 * at) & 31) as usize];
        }
    }
    key
}

fn matching<'z>(zone: &'z Zone, hash: &Nsec3Label) -> Option<TreeEntry<'z>> {
    let cursor = zone.seek_nsec3(hash);
    cursor.entry().filter(|entry| cursor.is_exact() && is_of_chain(zone, entry))
}

fn covering<'z>(zone: &'z Zone, hash: &Nsec3Label) -> Option<TreeEntry<'z>> {
    let mut cursor = zone.seek_nsec3(hash);
    let mut entry = cursor.entry();
    for _ in 0..MAX_SKIPPED {
        match entry {
            Some(found) if is_of_chain(zone, &found) => return entry,
            Some(_) => entry = cursor.prev(),
            // The last record covers the hashes below the first one.
            None => {
                cursor = zone.last_nsec3();
                entry = Some(cursor.entry()?);
            }
        }
    }
    None
}

/// Whether the record has the parameters in use; during a change there are others (RFC 5155 8.2).
fn is_of_chain(zone: &Zone, entry: &TreeEntry<'_>) -> bool {
    let Denial::Nsec3 { iterations, salt } = zone.denial() else { return false };
    let node = zone.node(entry);
    node.rrset(Rtype::NSEC3).is_some_and(|rrset| {
        rrset.opaque().any(|rdata| {
            rdata.len() > 5
                && rdata[2..4] == iterations.to_be_bytes()
                && rdata[5..].starts_with(salt)
                && rdata[4] as usize == salt.len()
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4648 7: base32hex preserves the order of the octets.
    #[test]
    fn base32hex_preserves_order() {
        let digest: [u8; 20] = std::array::from_fn(|at| (at * 13) as u8);
        let key = label(&digest);
        assert_eq!(&key[..8], b"006hk9pk");
        let mut greater = digest;
        greater[19] += 1;
        assert!(label(&greater) > key);
        assert_eq!(key[32], 0);
    }
}
