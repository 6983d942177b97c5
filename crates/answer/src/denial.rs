//! Proofs that something is not there: NSEC (RFC 4035 3.1.3) and NSEC3 (RFC 5155 7.2).

use sha1::{Digest, Sha1};
use wire::Rtype;
use zone::canonical_key::{CanonicalKey, label_count};
use zone::rrset::ZoneNode;
use zone::tree::{TreeCursor, TreeEntry};
use zone::{Denial, Zone};

use crate::find::find_cover;
use crate::message::{Full, Message, Section};
use crate::qname::Qname;

/// The NSEC or NSEC3 records that an answer needs, each once. Collected on the way, written behind the answers.
pub(crate) struct Proofs<'z> {
    list: [Option<Proof<'z>>; MAX_PROOFS],
    len: usize,
    written: usize,
    /// There were more than fit here, so the answer lacks some.
    overflowed: bool,
    /// SHA-1 digests computed.
    pub(crate) digests: u32,
    /// A hash was left out that would have exceeded [`MAX_DIGESTS`]: the answer lacks proofs.
    pub(crate) exceeded: bool,
}

/// Three for a denial, and one or two for each wildcard among the aliases.
const MAX_PROOFS: usize = 16;

/// RFC 9276 3.2: the most SHA-1 digests for one query. They are enough for a name error in a zone of 2,500 iterations, the
/// most that RFC 5155 10.3 allows any zone, and with 150 iterations for proofs of 49 names.
const MAX_DIGESTS: u32 = 3 * 2501;

#[derive(Clone, Copy)]
struct Proof<'z> {
    zone: &'z Zone,
    entry: TreeEntry<'z>,
    /// Where the apex of the zone stands in the message.
    apex: usize,
}

/// How far back a search goes for the record that covers a name, past what is not of the chain or lacks its record.
const MAX_STEPS: usize = 64;

impl<'z> Proofs<'z> {
    pub(crate) fn new() -> Proofs<'z> {
        Proofs { list: [None; MAX_PROOFS], len: 0, written: 0, overflowed: false, digests: 0, exceeded: false }
    }

    /// Writes what was collected since the last time.
    #[inline]
    pub(crate) fn write(&mut self, message: &mut Message<'_>) -> Result<(), Full> {
        for proof in self.list[self.written..self.len].iter().flatten() {
            let node = proof.zone.node(&proof.entry);
            let rtype = if *proof.zone.denial() == Denial::Nsec { Rtype::NSEC } else { Rtype::NSEC3 };
            let Some(rrset) = node.rrset(rtype) else { continue };
            message.push_entry(Section::Authority, proof.zone, &proof.entry, &rrset, proof.apex, true)?;
        }
        self.written = self.len;
        if self.overflowed || self.exceeded { Err(Full) } else { Ok(()) }
    }

    fn add(&mut self, zone: &'z Zone, qname: &Qname, entry: Option<TreeEntry<'z>>) {
        let Some(entry) = entry else { return };
        let is_same = |proof: &Proof<'_>| std::ptr::eq(proof.entry.value, entry.value);
        if self.list[..self.len].iter().flatten().any(is_same) {
            return;
        }
        match self.list.get_mut(self.len) {
            Some(free) => {
                *free = Some(Proof { zone, entry, apex: qname.offset(zone.apex_labels()) });
                self.len += 1;
            }
            None => self.overflowed = true,
        }
    }

    /// The name is there and the type is not (RFC 4035 3.1.3.1, RFC 5155 7.2.3, 7.2.4).
    pub(crate) fn deny_type(&mut self, zone: &'z Zone, qname: &Qname, entry: &TreeEntry<'z>, node: &ZoneNode<'z>) {
        match zone.denial() {
            Denial::Nsec => self.add(zone, qname, node.rrset(Rtype::NSEC).map(|_| *entry)),
            _ => self.deny_type_nsec3(zone, qname, qname.labels()),
        }
    }

    /// The cut of `cut_labels` labels has no DS records (RFC 4035 3.1.4.1, RFC 5155 7.2.7).
    pub(crate) fn deny_ds(
        &mut self,
        zone: &'z Zone,
        qname: &Qname,
        cut_labels: usize,
        entry: &TreeEntry<'z>,
        node: &ZoneNode<'z>,
    ) {
        match zone.denial() {
            Denial::Nsec => self.add(zone, qname, node.rrset(Rtype::NSEC).map(|_| *entry)),
            _ => self.deny_type_nsec3(zone, qname, cut_labels),
        }
    }

    /// The name is an empty non-terminal; the cursor is at its predecessor.
    pub(crate) fn deny_empty(&mut self, zone: &'z Zone, qname: &Qname, before: TreeCursor<'z>) {
        match zone.denial() {
            Denial::Nsec => self.add(zone, qname, covering_nsec(zone, before)),
            _ => self.deny_type_nsec3(zone, qname, qname.labels()),
        }
    }

    /// Neither the name is there nor a wildcard for it (RFC 4035 3.1.3.2, RFC 5155 7.2.2). `key` may be overwritten.
    pub(crate) fn deny_name(
        &mut self,
        zone: &'z Zone,
        qname: &Qname,
        key: &mut CanonicalKey,
        encloser_len: usize,
        before: TreeCursor<'z>,
    ) {
        key.truncate(encloser_len);
        match zone.denial() {
            Denial::Nsec => {
                self.add(zone, qname, covering_nsec(zone, before));
                key.push_label(b"*");
                self.add(zone, qname, covering_nsec(zone, zone.seek(key.as_bytes())));
            }
            _ => {
                let labels = zone.apex_labels() + label_count(key.as_bytes());
                let labels = self.prove_encloser(zone, qname, labels);
                let wildcard = self.hash(zone, &[b"\x01*", qname.suffix(labels)]);
                self.add(zone, qname, covering_nsec3(zone, &wildcard));
            }
        }
    }

    /// The answer is a wildcard's: the name itself is not there (RFC 4035 3.1.3.3, RFC 5155 7.2.6).
    pub(crate) fn deny_next_closer(
        &mut self,
        zone: &'z Zone,
        qname: &Qname,
        encloser_len: usize,
        key: &CanonicalKey,
        before: TreeCursor<'z>,
    ) {
        match zone.denial() {
            Denial::Nsec => self.add(zone, qname, covering_nsec(zone, before)),
            _ => {
                let labels = zone.apex_labels() + label_count(&key.as_bytes()[..encloser_len]);
                let next_closer = self.hash(zone, &[qname.suffix(labels + 1)]);
                self.add(zone, qname, covering_nsec3(zone, &next_closer));
            }
        }
    }

    /// The name is not there, and the wildcard, whose key this is, does not have the type (RFC 4035 3.1.3.4, RFC 5155 7.2.5).
    pub(crate) fn deny_wildcard_type(
        &mut self,
        zone: &'z Zone,
        qname: &Qname,
        encloser_len: usize,
        key: &CanonicalKey,
        before: TreeCursor<'z>,
    ) {
        match zone.denial() {
            Denial::Nsec => {
                self.add(zone, qname, covering_nsec(zone, before));
                self.add(zone, qname, covering_nsec(zone, zone.seek(key.as_bytes())));
            }
            _ => {
                let labels = zone.apex_labels() + label_count(&key.as_bytes()[..encloser_len]);
                self.prove_encloser(zone, qname, labels);
                // Opt-out leaves out a wildcard that is but the parent of unsigned delegations: the encloser says enough.
                let wildcard = self.hash(zone, &[b"\x01*", qname.suffix(labels)]);
                self.add(zone, qname, matching_nsec3(zone, &wildcard));
            }
        }
    }

    /// RFC 5155 7.2.3, 7.2.4: the record of the name or, where opt-out left it out, the proof of its closest encloser.
    fn deny_type_nsec3(&mut self, zone: &'z Zone, qname: &Qname, labels: usize) {
        match self.matching(zone, qname, labels) {
            Some(entry) => self.add(zone, qname, Some(entry)),
            None if labels > zone.apex_labels() => {
                self.prove_encloser(zone, qname, labels - 1);
            }
            None => {}
        }
    }

    /// RFC 5155 7.2.1: the closest encloser that has a record, and what covers the name one label longer.
    /// Returns how many labels the encloser has: `labels` or, under opt-out, fewer.
    fn prove_encloser(&mut self, zone: &'z Zone, qname: &Qname, labels: usize) -> usize {
        let apex_labels = zone.apex_labels();
        for labels in (apex_labels..=labels).rev() {
            if let Some(entry) = self.matching(zone, qname, labels) {
                self.add(zone, qname, Some(entry));
                if labels < qname.labels() {
                    let next_closer = self.hash(zone, &[qname.suffix(labels + 1)]);
                    self.add(zone, qname, covering_nsec3(zone, &next_closer));
                }
                return labels;
            }
        }
        apex_labels
    }

    /// The NSEC3 entry of the name's last `labels` labels.
    fn matching(&mut self, zone: &'z Zone, qname: &Qname, labels: usize) -> Option<TreeEntry<'z>> {
        matching_nsec3(zone, &self.hash(zone, &[qname.suffix(labels)]))
    }

    /// The hash of the name that these parts make up (RFC 5155 5); where that would cost this query too much, one of no name.
    fn hash(&mut self, zone: &Zone, name: &[&[u8]]) -> HashKey {
        let Denial::Nsec3 { iterations, salt } = zone.denial() else { unreachable!("asked of zones with NSEC3 alone") };
        let digests = self.digests + 1 + u32::from(*iterations);
        self.exceeded |= digests > MAX_DIGESTS;
        if self.exceeded {
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
        encode(&digest.into())
    }
}

/// The entry whose NSEC record covers or matches the name that the cursor was sought for.
fn covering_nsec<'z>(zone: &'z Zone, mut cursor: TreeCursor<'z>) -> Option<TreeEntry<'z>> {
    let mut entry = cursor.entry()?;
    for _ in 0..MAX_STEPS {
        if zone.node(&entry).is_occluded() && zone.node(&entry).rrset(Rtype::NSEC).is_none() {
            // Glue has none; its cut has, and that may be any number of entries before.
            let mut key = CanonicalKey::new();
            entry.copy_key(&mut key);
            (cursor, entry, _) = find_cover(zone, &cursor, key.as_bytes())?;
        }
        if zone.node(&entry).rrset(Rtype::NSEC).is_some() {
            return Some(entry);
        }
        entry = cursor.prev()?;
    }
    None
}

//----------- NSEC3 ------------------------------------------------------------

/// The key of an NSEC3 owner: the hash in base32hex (RFC 4648 7) as a label.
type HashKey = [u8; 33];

/// In lower case, as keys are.
fn encode(digest: &[u8; 20]) -> HashKey {
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

fn matching_nsec3<'z>(zone: &'z Zone, key: &HashKey) -> Option<TreeEntry<'z>> {
    let cursor = zone.seek_nsec3(key);
    cursor.entry().filter(|entry| cursor.is_exact() && is_of_chain(zone, entry))
}

fn covering_nsec3<'z>(zone: &'z Zone, key: &HashKey) -> Option<TreeEntry<'z>> {
    let mut cursor = zone.seek_nsec3(key);
    let mut entry = cursor.entry();
    for _ in 0..MAX_STEPS {
        match entry {
            Some(found) if is_of_chain(zone, &found) => return entry,
            Some(_) => entry = cursor.prev(),
            // Before the first one covers the last one: hashes go round.
            None => {
                cursor = zone.last_nsec3();
                entry = Some(cursor.entry()?);
            }
        }
    }
    None
}

/// Whether the record was made with the parameters in use (RFC 5155 8.2: others may be there while they change).
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

    /// RFC 4648 7: what sorts as octets sorts as digits.
    #[test]
    fn base32hex_keeps_the_order() {
        let digest: [u8; 20] = std::array::from_fn(|at| (at * 13) as u8);
        let key = encode(&digest);
        assert_eq!(&key[..8], b"006hk9pk");
        let mut greater = digest;
        greater[19] += 1;
        assert!(encode(&greater) > key);
        assert_eq!(key[32], 0);
    }
}
