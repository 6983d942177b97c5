//! The change between two versions of a zone. It skips what they share, so that it costs what differs.

use std::cmp::Ordering;
use std::sync::Arc;

use wire::{NameRef, Rtype};

use crate::encoded_change::{EncodedChange, append_record};
use crate::node_decoder::NodeDecoder;
use crate::owner_case::{MIXED, UPPER};
use crate::rrset::PointerBases;
use crate::stage::StagedRecord;
use crate::tree::{TreeEntry, TreeRef};
use crate::zone::Zone;

impl EncodedChange {
    /// The change from `old` to `new`, two versions of the same zone: [`Zone::apply`] makes the new version from the old one.
    ///
    /// Records keep their TTL and case. If the TTL of an RRset differs, or the case of an owner, all its records are removed and
    /// added. Only the case of the apex itself is not compared, as it is part of every name.
    pub fn between(old: &Zone, new: &Zone) -> EncodedChange {
        let mut diff = VersionDiff::new(old, new);
        diff.compare(old.names(), new.names());
        diff.compare(old.nsec3(), new.nsec3());
        let VersionDiff { removed, added, .. } = diff;
        let mut bytes = Vec::with_capacity(removed.len() + added.len() + 256);
        append_soa(old, &mut bytes);
        bytes.extend_from_slice(&removed);
        let new_soa = bytes.len();
        append_soa(new, &mut bytes);
        bytes.extend_from_slice(&added);
        EncodedChange::from_parts(bytes, new_soa, [old.serial(), new.serial()])
    }
}

/// Appends the SOA record of a zone.
pub(crate) fn append_soa(zone: &Zone, out: &mut Vec<u8>) {
    let apex = zone.owner(&zone.apex_entry());
    let soa = zone.soa();
    let mut rdata = Vec::new();
    let bases = PointerBases { owner: apex.as_ref(), apex: apex.as_ref() };
    soa.stored().take(1).for_each(|stored| soa.append_rdata(&stored, bases, &mut rdata));
    append_record(out, apex.as_ref(), Rtype::SOA, soa.ttl, &rdata);
}

/// Compares the nodes of two versions.
struct VersionDiff<'z> {
    old: Version<'z>,
    new: Version<'z>,
    /// Equal octets of both versions have the same meaning.
    is_same_encoding: bool,
    removed: Vec<u8>,
    added: Vec<u8>,
}

/// A version, its apex in the original case, and a decoder of its nodes.
struct Version<'z> {
    zone: &'z Zone,
    apex: wire::Name,
    decoder: NodeDecoder,
}

impl<'z> VersionDiff<'z> {
    fn new(old: &'z Zone, new: &'z Zone) -> VersionDiff<'z> {
        let [old, new] = [old, new].map(|zone| {
            let apex = zone.owner(&zone.apex_entry());
            Version { zone, apex, decoder: NodeDecoder::default() }
        });
        // Stored names may end in a pointer to the apex.
        let is_same_encoding =
            Arc::ptr_eq(old.zone.interned(), new.zone.interned()) && old.apex.wire() == new.apex.wire();
        VersionDiff { old, new, is_same_encoding, removed: Vec::new(), added: Vec::new() }
    }

    fn compare(&mut self, old: TreeRef<'z>, new: TreeRef<'z>) {
        old.compare(new, self.is_same_encoding, |old, new| self.push(old, new));
    }

    /// Appends the records that differ between two nodes of the same owner.
    fn push(&mut self, old: Option<TreeEntry<'_>>, new: Option<TreeEntry<'_>>) {
        if self.is_same_encoding
            && let (Some(old), Some(new)) = (old, new)
            && has_same_records(old.value, new.value)
        {
            return;
        }
        let apex_len = self.old.apex.wire().len();
        let is_apex = old.or(new).is_some_and(|entry| entry.key_len() == 0);
        let old_owner = old.map(|entry| self.old.zone.owner(&entry));
        let new_owner = new.map(|entry| self.new.zone.owner(&entry));
        let old_records = decode(&mut self.old, old, &old_owner, is_apex);
        let new_records = decode(&mut self.new, new, &new_owner, is_apex);
        if let (Some(old_owner), Some(new_owner)) = (&old_owner, &new_owner)
            && (is_apex || same_labels(old_owner.wire(), new_owner.wire(), apex_len))
        {
            let sides = [(old_owner.as_ref(), old_records), (new_owner.as_ref(), new_records)];
            return push_difference(sides, &mut self.removed, &mut self.added);
        }
        for (owner, records, out) in
            [(old_owner, old_records, &mut self.removed), (new_owner, new_records, &mut self.added)]
        {
            owner.iter().for_each(|owner| records.iter().for_each(|record| append(record, owner.as_ref(), out)));
        }
    }
}

/// The records of a node without the SOA record, sorted.
fn decode<'v>(
    version: &'v mut Version<'_>,
    entry: Option<TreeEntry<'_>>,
    owner: &Option<wire::Name>,
    is_apex: bool,
) -> Vec<StagedRecord<'v>> {
    let (Some(entry), Some(owner)) = (entry, owner) else { return Vec::new() };
    let mut records = version.decoder.decode(version.zone.node(&entry), owner.as_ref(), version.apex.as_ref());
    // The SOA records separate the parts of a change.
    records.retain(|record| !is_apex || record.rtype != Rtype::SOA);
    records.sort_unstable_by(compare);
    records
}

/// Records are compared with their TTL: one TTL for a set (RFC 2181 5.2) means that all its records differ if it does.
fn compare(a: &StagedRecord<'_>, b: &StagedRecord<'_>) -> Ordering {
    let key = |record: &StagedRecord<'_>| (record.set_rtype(), record.rtype == Rtype::RRSIG);
    key(a).cmp(&key(b)).then_with(|| a.rdata.cmp(b.rdata)).then_with(|| a.ttl.cmp(&b.ttl))
}

/// Appends the records that only one of two sorted lists has.
fn push_difference(
    [(old_owner, old), (new_owner, new)]: [(NameRef<'_>, Vec<StagedRecord<'_>>); 2],
    removed: &mut Vec<u8>,
    added: &mut Vec<u8>,
) {
    let (mut old, mut new) = (old.iter().peekable(), new.iter().peekable());
    loop {
        let order = match (old.peek(), new.peek()) {
            (None, None) => return,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(old), Some(new)) => compare(old, new),
        };
        let gone = old.next_if(|_| order.is_le());
        let fresh = new.next_if(|_| order.is_ge());
        match (gone, fresh) {
            (Some(gone), None) => append(gone, old_owner, removed),
            (None, Some(fresh)) => append(fresh, new_owner, added),
            _ => {}
        }
    }
}

fn append(record: &StagedRecord<'_>, owner: NameRef<'_>, out: &mut Vec<u8>) {
    append_record(out, owner, record.rtype, record.ttl, record.rdata);
}

/// Whether two encoded nodes differ at most in whether they are occluded.
fn has_same_records(old: &[u8], new: &[u8]) -> bool {
    const CASE: u8 = UPPER | MIXED;
    old[0] & CASE == new[0] & CASE && old[1..] == new[1..]
}

/// Whether the labels below the apex are equal, case included.
fn same_labels(old: &[u8], new: &[u8], apex_len: usize) -> bool {
    old.len() == new.len() && old[..old.len() - apex_len] == new[..new.len() - apex_len]
}
