//! RRsets that recur on many owners, found by their records: most delegations of a TLD are then neither sorted nor compressed.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use wire::Rtype;

use crate::stage::StagedRecord;

/// No more octets of records are remembered: those of some ten thousand sets. Sets with many owners come early.
const MAX_LEN: usize = 2 << 20;

/// Interned RRsets by their records.
#[derive(Default)]
pub(super) struct RecurringRrsets {
    hasher: RandomState,
    known: HashTable<KnownRrset>,
    /// The records of each set: the type, then the RDATAs, each after its length.
    octets: Vec<u8>,
    /// The set at the end of `octets` is not known yet: its start and hash.
    missing: Option<(usize, u64)>,
}

struct KnownRrset {
    start: usize,
    end: usize,
    hash: u64,
    rrset: InternedRrset,
}

/// An interned RRset.
#[derive(Clone, Copy)]
pub(super) struct InternedRrset {
    pub(super) number: u32,
    /// Its records, without duplicates.
    pub(super) count: usize,
}

impl RecurringRrsets {
    /// The set of these records at `owner`, if it is known. If it is not, [`Self::remember`] makes it known.
    pub(super) fn find(&mut self, rtype: Rtype, owner: &[u8], records: &[StagedRecord<'_>]) -> Option<InternedRrset> {
        self.remember(None);
        let ends_in_owner = |rdata: &[u8]| {
            let end = rdata.len().checked_sub(owner.len()).map(|start| &rdata[start..]);
            // The length of the first label decides nearly always.
            end.is_some_and(|end| end[0] == owner[0] && end.eq_ignore_ascii_case(owner))
        };
        // Names at or below the owner are stored as pointers to it: such a set depends on its owner.
        if self.octets.len() > MAX_LEN || records.iter().any(|record| ends_in_owner(record.rdata)) {
            return None;
        }
        let start = self.octets.len();
        self.octets.extend_from_slice(&rtype.0.to_ne_bytes());
        for record in records {
            self.octets.extend_from_slice(&(record.rdata.len() as u16).to_ne_bytes());
            self.octets.extend_from_slice(record.rdata);
        }
        let sought = &self.octets[start..];
        let hash = self.hasher.hash_one(sought);
        let found = self.known.find(hash, |known| self.octets[known.start..known.end] == *sought);
        let found = found.map(|known| known.rrset);
        match found {
            Some(_) => self.octets.truncate(start),
            None => self.missing = Some((start, hash)),
        }
        found
    }

    /// Makes the set that was sought last known, if it was interned.
    #[inline]
    pub(super) fn remember(&mut self, rrset: Option<InternedRrset>) {
        let Some((start, hash)) = self.missing.take() else { return };
        match rrset {
            Some(rrset) => {
                let known = KnownRrset { start, end: self.octets.len(), hash, rrset };
                self.known.insert_unique(hash, known, |known| known.hash);
            }
            None => self.octets.truncate(start),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name_server(rdata: &[u8]) -> StagedRecord<'_> {
        StagedRecord { rtype: Rtype::NS, ttl: 1, rdata, file: 0, line: 0 }
    }

    #[test]
    fn a_set_is_known_at_all_owners_but_those_that_its_names_are_below() {
        let mut sets = RecurringRrsets::default();
        let set = [name_server(b"\x02ns\x01a\x01z\0"), name_server(b"\x02ns\x01y\0")];
        let mut find = |owner: &[u8], number: Option<u32>| {
            let found = sets.find(Rtype::NS, owner, &set).map(|rrset| rrset.number);
            sets.remember(number.map(|number| InternedRrset { number, count: 2 }));
            found
        };
        assert_eq!(find(b"\x01a\x01z\0", Some(1)), None);
        assert_eq!(find(b"\x01b\x01z\0", None), None, "it was not interned");
        assert_eq!(find(b"\x01b\x01z\0", Some(2)), None, "the first depends on its owner");
        assert_eq!(find(b"\x01c\x01z\0", None), Some(2));
        assert_eq!(find(b"\x01A\x01z\0", None), None);
        assert!(sets.find(Rtype::CNAME, b"\x01c\x01z\0", &set).is_none());
        assert!(sets.find(Rtype::NS, b"\x01c\x01z\0", &set[..1]).is_none());
    }

    #[test]
    fn the_octets_of_known_sets_are_limited() {
        let mut sets = RecurringRrsets::default();
        let rdata = [7; 60_000];
        for number in 0..100u8 {
            let rdata = [&[number], &rdata[..]].concat();
            assert!(sets.find(Rtype::TXT, b"\x01z\0", &[name_server(&rdata)]).is_none());
            sets.remember(Some(InternedRrset { number: 1, count: 1 }));
        }
        assert!(sets.octets.len() < MAX_LEN + 70_000 && sets.known.len() < 40);
    }
}
