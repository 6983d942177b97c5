//! Denial of existence by NSEC3 records (RFC 5155 7.2), opt-out included.

use wire::Rtype;
use zone::canonical_key::label_count;
use zone::tree::TreeEntry;
use zone::{Nsec3Chain, Nsec3Label, Zone};

use super::{DenialProofs, Denied, MAX_SKIPPED};
use crate::qname::Qname;

/// The hashing that one query has cost.
#[derive(Default)]
pub(crate) struct Nsec3Cost {
    /// SHA-1 digests computed.
    pub(crate) digests: u32,
    /// A proof would have exceeded [`MAX_DIGESTS`] and was left out.
    pub(crate) too_high: bool,
}

/// The only hash algorithm of NSEC3 (RFC 5155 8.2: others are ignored).
const SHA_1: u8 = 1;

/// RFC 9276 3.2: the most SHA-1 digests for one query. Enough for a name error in a zone of 2,500 iterations, the most that
/// RFC 5155 10.3 allows any zone; with 150 iterations enough for proofs of 49 names.
const MAX_DIGESTS: u32 = 3 * 2501;

/// Collects the NSEC3 records that deny something about `qname`.
pub(super) struct Nsec3Prover<'p, 'z> {
    pub(super) proofs: &'p mut DenialProofs<'z>,
    pub(super) zone: &'z Zone,
    pub(super) chain: &'z Nsec3Chain,
    pub(super) qname: &'p Qname,
}

impl<'z> Nsec3Prover<'_, 'z> {
    pub(super) fn prove(&mut self, denied: Denied<'_, 'z>) {
        match denied {
            Denied::Type { labels, .. } => self.prove_nodata(labels),
            Denied::EmptyNonTerminal { .. } => self.prove_nodata(self.qname.labels()),
            // RFC 5155 7.2.2: the closest encloser, and the record that covers its wildcard.
            Denied::Name { encloser_len, .. } => {
                let labels = self.prove_closest_encloser(self.label_count(encloser_len));
                let wildcard = self.hash_wildcard(labels);
                self.add(self.covering(&wildcard));
            }
            // RFC 5155 7.2.6: the next closer name does not exist.
            Denied::WildcardAnswer { encloser_len, .. } => self.deny_next_closer(self.label_count(encloser_len)),
            // RFC 5155 7.2.5: the closest encloser, and the wildcard's own record. Opt-out leaves that out if the wildcard
            // is only the parent of unsigned delegations; then the encloser's proof is enough.
            Denied::WildcardType { encloser_len, .. } => {
                let labels = self.label_count(encloser_len);
                self.prove_closest_encloser(labels);
                let wildcard = self.hash_wildcard(labels);
                self.add(self.matching(&wildcard));
            }
        }
    }

    /// RFC 5155 7.2.3, 7.2.4, 7.2.7: the record of the name, or under opt-out the proof of its closest provable encloser.
    fn prove_nodata(&mut self, labels: usize) {
        let hash = self.hash_suffix(labels);
        match self.matching(&hash) {
            Some(entry) => self.add(Some(entry)),
            None if labels > self.zone.apex_labels() => _ = self.prove_closest_encloser(labels - 1),
            None => {}
        }
    }

    /// RFC 5155 7.2.1: the record of the closest encloser that has one, and the record that covers the next closer name.
    /// Returns the encloser's label count: `labels` or, under opt-out, fewer.
    fn prove_closest_encloser(&mut self, labels: usize) -> usize {
        for labels in (self.zone.apex_labels()..=labels).rev() {
            let hash = self.hash_suffix(labels);
            if let Some(entry) = self.matching(&hash) {
                self.add(Some(entry));
                if labels < self.qname.labels() {
                    self.deny_next_closer(labels);
                }
                return labels;
            }
        }
        self.zone.apex_labels()
    }

    fn deny_next_closer(&mut self, encloser_labels: usize) {
        let next_closer = self.hash_suffix(encloser_labels + 1);
        self.add(self.covering(&next_closer));
    }

    fn add(&mut self, entry: Option<TreeEntry<'z>>) {
        self.proofs.add(self.zone, self.qname, entry);
    }

    /// The label count of an ancestor whose key has `key_len` octets.
    fn label_count(&self, key_len: usize) -> usize {
        self.zone.apex_labels() + label_count(&self.qname.key()[..key_len])
    }

    //----------- hashes -------------------------------------------------------

    /// The hash of the last `labels` labels of the name.
    fn hash_suffix(&mut self, labels: usize) -> Nsec3Label {
        if labels == self.zone.apex_labels() { self.chain.apex_hash() } else { self.hash(&[self.qname.suffix(labels)]) }
    }

    /// The hash of the wildcard directly below the last `labels` labels of the name.
    fn hash_wildcard(&mut self, labels: usize) -> Nsec3Label {
        if labels == self.zone.apex_labels() {
            return self.chain.wildcard_hash();
        }
        self.hash(&[b"\x01*", self.qname.suffix(labels)])
    }

    /// The hash of a name given in parts; a hash of no name once the query costs too much.
    fn hash(&mut self, name: &[&[u8]]) -> Nsec3Label {
        let cost = &mut self.proofs.cost;
        let digests = cost.digests + 1 + u32::from(self.chain.iterations());
        cost.too_high |= digests > MAX_DIGESTS;
        if cost.too_high {
            return [0; _];
        }
        cost.digests = digests;
        self.chain.hash(name)
    }

    //----------- the chain ----------------------------------------------------

    fn matching(&self, hash: &Nsec3Label) -> Option<TreeEntry<'z>> {
        let cursor = self.zone.seek_nsec3(hash);
        cursor.entry().filter(|entry| cursor.is_exact() && self.is_of_chain(entry))
    }

    fn covering(&self, hash: &Nsec3Label) -> Option<TreeEntry<'z>> {
        let mut cursor = self.zone.seek_nsec3(hash);
        let mut entry = cursor.entry();
        for _ in 0..MAX_SKIPPED {
            match entry {
                Some(found) if self.is_of_chain(&found) => return entry,
                Some(_) => entry = cursor.prev(),
                // The last record covers the hashes below the first one.
                None => {
                    cursor = self.zone.last_nsec3();
                    entry = Some(cursor.entry()?);
                }
            }
        }
        None
    }

    /// Whether the record has the algorithm and parameters in use; during a change there are others (RFC 5155 8.2).
    fn is_of_chain(&self, entry: &TreeEntry<'_>) -> bool {
        self.zone.node(entry).rrset(Rtype::NSEC3).is_some_and(|rrset| {
            rrset.nsec3_parameters().any(|rdata| {
                rdata.len() > 5
                    && rdata[0] == SHA_1
                    && rdata[2..4] == self.chain.iterations().to_be_bytes()
                    && rdata[5..].starts_with(self.chain.salt())
                    && rdata[4] as usize == self.chain.salt().len()
            })
        })
    }
}
