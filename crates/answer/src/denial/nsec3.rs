//! Denial of existence by NSEC3 records (RFC 5155 7.2), opt-out included.

use wire::Rtype;
use zone::canonical_key::{CanonicalKey, label_count};
use zone::tree::TreeEntry;
use zone::{Nsec3Chain, Nsec3Label, Zone};

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
    chain: &Nsec3Chain,
    qname: &Qname,
    key: &CanonicalKey,
    denied: Denied<'_, 'z>,
) {
    let labels_of = |encloser_len: usize| zone.apex_labels() + label_count(&key.as_bytes()[..encloser_len]);
    match denied {
        Denied::Type { labels, .. } => prove_nodata(proofs, zone, chain, qname, labels),
        Denied::EmptyNonTerminal { .. } => prove_nodata(proofs, zone, chain, qname, qname.labels()),
        // RFC 5155 7.2.2: the closest encloser, and the record that covers its wildcard.
        Denied::Name { encloser_len, .. } => {
            let labels = prove_closest_encloser(proofs, zone, chain, qname, labels_of(encloser_len));
            let wildcard = proofs.nsec3.hash_wildcard(zone, chain, qname, labels);
            proofs.add(zone, qname, covering(zone, chain, &wildcard));
        }
        // RFC 5155 7.2.6: the next closer name does not exist.
        Denied::WildcardAnswer { encloser_len, .. } => {
            let next_closer = proofs.nsec3.hash_suffix(zone, chain, qname, labels_of(encloser_len) + 1);
            proofs.add(zone, qname, covering(zone, chain, &next_closer));
        }
        // RFC 5155 7.2.5: the closest encloser, and the wildcard's own record. Opt-out leaves that out if the wildcard is
        // only the parent of unsigned delegations; then the encloser's proof is enough.
        Denied::WildcardType { encloser_len, .. } => {
            let labels = labels_of(encloser_len);
            prove_closest_encloser(proofs, zone, chain, qname, labels);
            let wildcard = proofs.nsec3.hash_wildcard(zone, chain, qname, labels);
            proofs.add(zone, qname, matching(zone, chain, &wildcard));
        }
    }
}

/// RFC 5155 7.2.3, 7.2.4, 7.2.7: the record of the name, or under opt-out the proof of its closest provable encloser.
fn prove_nodata<'z>(proofs: &mut DenialProofs<'z>, zone: &'z Zone, chain: &Nsec3Chain, qname: &Qname, labels: usize) {
    let hash = proofs.nsec3.hash_suffix(zone, chain, qname, labels);
    match matching(zone, chain, &hash) {
        Some(entry) => proofs.add(zone, qname, Some(entry)),
        None if labels > zone.apex_labels() => {
            prove_closest_encloser(proofs, zone, chain, qname, labels - 1);
        }
        None => {}
    }
}

/// RFC 5155 7.2.1: the record of the closest encloser that has one, and the record that covers the next closer name.
/// Returns the encloser's label count: `labels` or, under opt-out, fewer.
fn prove_closest_encloser<'z>(
    proofs: &mut DenialProofs<'z>,
    zone: &'z Zone,
    chain: &Nsec3Chain,
    qname: &Qname,
    labels: usize,
) -> usize {
    for labels in (zone.apex_labels()..=labels).rev() {
        let hash = proofs.nsec3.hash_suffix(zone, chain, qname, labels);
        if let Some(entry) = matching(zone, chain, &hash) {
            proofs.add(zone, qname, Some(entry));
            if labels < qname.labels() {
                let next_closer = proofs.nsec3.hash_suffix(zone, chain, qname, labels + 1);
                proofs.add(zone, qname, covering(zone, chain, &next_closer));
            }
            return labels;
        }
    }
    zone.apex_labels()
}

impl Nsec3Prover {
    /// The hash of the last `labels` labels of the name.
    fn hash_suffix(&mut self, zone: &Zone, chain: &Nsec3Chain, qname: &Qname, labels: usize) -> Nsec3Label {
        if labels == zone.apex_labels() { chain.apex_hash() } else { self.hash(chain, &[qname.suffix(labels)]) }
    }

    /// The hash of the wildcard directly below the last `labels` labels of the name.
    fn hash_wildcard(&mut self, zone: &Zone, chain: &Nsec3Chain, qname: &Qname, labels: usize) -> Nsec3Label {
        if labels == zone.apex_labels() {
            return chain.wildcard_hash();
        }
        self.hash(chain, &[b"\x01*", qname.suffix(labels)])
    }

    /// The hash of a name given in parts; a hash of no name once the query costs too much.
    fn hash(&mut self, chain: &Nsec3Chain, name: &[&[u8]]) -> Nsec3Label {
        let digests = self.digests + 1 + u32::from(chain.iterations());
        self.too_costly |= digests > MAX_DIGESTS;
        if self.too_costly {
            return [0; _];
        }
        self.digests = digests;
        chain.hash(name)
    }
}

//----------- the chain --------------------------------------------------------

fn matching<'z>(zone: &'z Zone, chain: &Nsec3Chain, hash: &Nsec3Label) -> Option<TreeEntry<'z>> {
    let cursor = zone.seek_nsec3(hash);
    cursor.entry().filter(|entry| cursor.is_exact() && is_of_chain(zone, chain, entry))
}

fn covering<'z>(zone: &'z Zone, chain: &Nsec3Chain, hash: &Nsec3Label) -> Option<TreeEntry<'z>> {
    let mut cursor = zone.seek_nsec3(hash);
    let mut entry = cursor.entry();
    for _ in 0..MAX_SKIPPED {
        match entry {
            Some(found) if is_of_chain(zone, chain, &found) => return entry,
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
fn is_of_chain(zone: &Zone, chain: &Nsec3Chain, entry: &TreeEntry<'_>) -> bool {
    let node = zone.node(entry);
    node.rrset(Rtype::NSEC3).is_some_and(|rrset| {
        rrset.opaque().any(|rdata| {
            rdata.len() > 5
                && rdata[2..4] == chain.iterations().to_be_bytes()
                && rdata[5..].starts_with(chain.salt())
                && rdata[4] as usize == chain.salt().len()
        })
    })
}
