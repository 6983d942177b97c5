//! The configured zones by number and by apex. Adding or removing one of a million takes microseconds.
//!
//! A published zone is found by its apex in the map that answers come from: an index of all zones here would take 6 to 11 octets for
//! each.

use std::hash::BuildHasher;
use std::sync::Arc;

use answer::ZoneMap;
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use wire::NameRef;

use super::change_detection::Fingerprint;
use super::zone_entry::ZoneEntry;
use crate::zone_id::{SlotGenerations, ZoneId};

/// The zones of the registry, each in a numbered slot.
#[derive(Default)]
pub struct ZoneSlab {
    slots: Vec<Option<ZoneEntry>>,
    generations: SlotGenerations,
    /// The fingerprints of the files of zones, by slot. Those of the slots after the end are [`Fingerprint::NONE`], as all of a server
    /// without zone files are.
    fingerprints: Vec<Fingerprint>,
    /// Slots without a zone.
    free: Vec<u32>,
    /// The slots of zones that are not published yet, by the hash of the apex; the name itself is only in the entry.
    unpublished: HashTable<u32>,
    hasher: RandomState,
}

#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Option<ZoneEntry>>() <= 16, "a million zones take 16 MB");

impl ZoneSlab {
    /// Adds a zone whose apex is not in the slab yet. Returns `None`, and drops the entry, if it is. `published` are zones of this slab, as
    /// in all calls.
    pub fn insert(&mut self, mut entry: ZoneEntry, published: &ZoneMap) -> Option<ZoneId> {
        if self.find(entry.served.apex(), published).is_some() {
            return None;
        }
        let index = self.free.pop().unwrap_or(self.slots.len() as u32);
        if index as usize == self.slots.len() {
            self.reserve(self.slots.len() / GROWTH_FRACTION + 1);
            self.slots.push(None);
        }
        Arc::get_mut(&mut entry.served).expect("a new zone is not shared").set_slot(index);
        self.slots[index as usize] = Some(entry);
        self.insert_unpublished(index);
        self.id_at(index as usize)
    }

    fn insert_unpublished(&mut self, index: u32) {
        let (slots, hasher) = (&self.slots, &self.hasher);
        let hash_of = |&index: &u32| apex_of(slots, index).map_or(0, |apex| hash(hasher, apex));
        self.unpublished.insert_unique(hash_of(&index), index, hash_of);
    }

    /// Leaves it to `published` to find the zones that it has.
    pub fn forget_published(&mut self, published: &ZoneMap) {
        let unpublished = std::mem::take(&mut self.unpublished);
        for index in unpublished {
            if apex_of(&self.slots, index).is_some_and(|apex| self.find_published(apex, published) != Some(index)) {
                self.insert_unpublished(index);
            }
        }
    }

    /// Removes a zone; `None` if it was removed before.
    pub fn remove(&mut self, id: ZoneId) -> Option<ZoneEntry> {
        let apex = self.get(id)?.served.apex();
        if let Ok(found) = self.unpublished.find_entry(hash(&self.hasher, apex), |&index| index == id.index) {
            found.remove();
        }
        self.generations.end(id.index);
        if let Some(fingerprint) = self.fingerprints.get_mut(id.index as usize) {
            *fingerprint = Fingerprint::NONE;
        }
        self.free.push(id.index);
        self.slots[id.index as usize].take()
    }

    /// The zone with this apex.
    pub fn find(&self, apex: NameRef<'_>, published: &ZoneMap) -> Option<ZoneId> {
        let is_same = |&index: &u32| apex_of(&self.slots, index).is_some_and(|other| other == apex);
        let unpublished = self.unpublished.find(hash(&self.hasher, apex), is_same).copied();
        let index = unpublished.or_else(|| self.find_published(apex, published))?;
        self.id_at(index as usize)
    }

    /// The slot of the zone with this apex, if it is published. A published zone may have been removed here, and its slot may have
    /// another one.
    fn find_published(&self, apex: NameRef<'_>, published: &ZoneMap) -> Option<u32> {
        let index = published.get(apex.wire())?.slot();
        apex_of(&self.slots, index).is_some_and(|other| other == apex).then_some(index)
    }

    /// The zone with this number, unless it was removed.
    pub fn get(&self, id: ZoneId) -> Option<&ZoneEntry> {
        self.slots.get(id.index as usize).filter(|_| self.generations.is_current(id))?.as_ref()
    }

    /// The zone with this number, unless it was removed. The apex must stay the same.
    pub fn get_mut(&mut self, id: ZoneId) -> Option<&mut ZoneEntry> {
        self.slots.get_mut(id.index as usize).filter(|_| self.generations.is_current(id))?.as_mut()
    }

    /// The state of its files that a zone was read from.
    pub fn fingerprint(&self, id: ZoneId) -> Fingerprint {
        self.fingerprints.get(id.index as usize).copied().unwrap_or(Fingerprint::NONE)
    }

    /// Sets the state of its files that a zone, which must be there, was read from.
    pub fn set_fingerprint(&mut self, id: ZoneId, fingerprint: Fingerprint) {
        let index = id.index as usize;
        if index >= self.fingerprints.len() && fingerprint != Fingerprint::NONE {
            // Grows as the slots do.
            self.fingerprints.reserve_exact(self.slots.capacity() - self.fingerprints.len());
            self.fingerprints.resize(self.slots.capacity(), Fingerprint::NONE);
        }
        if let Some(old) = self.fingerprints.get_mut(index) {
            *old = fingerprint;
        }
    }

    /// The zone in this slot, if there is one.
    pub fn id_at(&self, index: usize) -> Option<ZoneId> {
        self.slots.get(index)?.as_ref()?;
        Some(self.generations.current(index as u32))
    }

    /// Prepares for this many more zones.
    pub fn reserve(&mut self, zones: usize) {
        if self.slots.len() + zones > self.slots.capacity() + self.free.len() {
            self.slots.reserve_exact(zones);
        }
    }

    /// How many zones there are.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// How many slots there are, with and without a zone.
    pub fn slot_count(&self) -> usize {
        self.slots.len()
    }
}

/// The slots grow by 1/`GROWTH_FRACTION`: doubling them would leave much memory unused.
const GROWTH_FRACTION: usize = 16;

fn apex_of(slots: &[Option<ZoneEntry>], index: u32) -> Option<NameRef<'_>> {
    slots.get(index as usize)?.as_ref().map(|entry| entry.served.apex())
}

/// The hash of an apex, which is in lower case.
fn hash(hasher: &RandomState, apex: NameRef<'_>) -> u64 {
    hasher.hash_one(apex.wire())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::reader::ConfigReader;
    use crate::zones::zone_entry::Acls;

    fn entry(name: &str) -> ZoneEntry {
        let mut reader = ConfigReader::default();
        reader.add_argument(name.parse().expect("a name"), std::path::Path::new("file"));
        let config = reader.finish().expect("no mistakes").zones.remove(0);
        let extras = Acls::default().of(&config.source.policy);
        ZoneEntry::new(config.name, Arc::new(config.source), extras)
    }

    fn insert(slab: &mut ZoneSlab, name: &str) -> Option<ZoneId> {
        slab.insert(entry(name), &ZoneMap::default())
    }

    fn find(slab: &ZoneSlab, name: &str, published: &ZoneMap) -> Option<ZoneId> {
        slab.find(name.parse::<wire::Name>().expect("a name").as_ref(), published)
    }

    /// Of all zones, some are published, and some of these are removed.
    #[test]
    fn zones_are_found_by_apex_until_they_are_removed() {
        let (mut slab, mut published) = (ZoneSlab::default(), ZoneMap::default());
        let names: Vec<String> = (0..500).map(|number| format!("z{number}.test.")).collect();
        let ids: Vec<ZoneId> = names.iter().map(|name| insert(&mut slab, name).expect("it is new")).collect();
        for id in ids.iter().step_by(3) {
            published.insert(slab.get(*id).expect("it was added").served.clone());
        }
        slab.forget_published(&published);
        assert_eq!(slab.unpublished.len(), 500 - 167);
        assert_eq!([6, 7].map(|number| slab.insert(entry(&names[number]), &published)), [None; 2]);
        assert!(names.iter().zip(&ids).all(|(name, id)| find(&slab, name, &published) == Some(*id)));
        assert!(ids.iter().step_by(2).all(|id| slab.remove(*id).is_some()));
        assert_eq!((slab.len(), slab.slot_count()), (250, 500));
        for (number, (name, id)) in names.iter().zip(&ids).enumerate() {
            assert_eq!(find(&slab, name, &published), (number % 2 == 1).then_some(*id), "{name}");
        }
    }

    /// Until the next publication.
    #[test]
    fn a_removed_zone_that_is_still_published_is_not_found() {
        let (mut slab, mut published) = (ZoneSlab::default(), ZoneMap::default());
        let old = insert(&mut slab, "a.").expect("it is new");
        published.insert(slab.get(old).expect("it was added").served.clone());
        slab.forget_published(&published);
        slab.remove(old);
        let other = slab.insert(entry("b."), &published).expect("it is new");
        assert_eq!((other.index, find(&slab, "a.", &published)), (old.index, None));
        let new = slab.insert(entry("a."), &published).expect("the old one was removed");
        slab.forget_published(&published);
        assert_eq!(["a.", "b."].map(|name| find(&slab, name, &published)), [Some(new), Some(other)]);
    }

    #[test]
    fn a_zone_has_no_fingerprint_until_it_is_set() {
        let (mut slab, read) = (ZoneSlab::default(), Fingerprint::from_stored(1 << 40, 0).0);
        let ids = ["a.", "b.", "c."].map(|name| insert(&mut slab, name).expect("it is new"));
        slab.set_fingerprint(ids[0], Fingerprint::NONE);
        assert!(slab.fingerprints.is_empty());
        slab.set_fingerprint(ids[1], read);
        let more: Vec<ZoneId> = (0..99).filter_map(|number| insert(&mut slab, &format!("z{number}."))).collect();
        slab.set_fingerprint(more[98], read);
        assert_eq!(
            [ids[0], ids[1], more[97], more[98]].map(|id| slab.fingerprint(id) == read),
            [false, true, false, true]
        );
        slab.remove(ids[1]);
        let new = insert(&mut slab, "new.").expect("it is new");
        assert_eq!((new.index, slab.fingerprint(new)), (ids[1].index, Fingerprint::NONE));
    }

    #[test]
    fn the_number_of_a_removed_zone_does_not_find_its_successor() {
        let mut slab = ZoneSlab::default();
        let old = insert(&mut slab, "old.").expect("it is new");
        let served = slab.remove(old).expect("it was added").served;
        assert_eq!(Arc::strong_count(&served), 1);
        let new = insert(&mut slab, "new.").expect("it is new");
        assert_eq!((new.index, slab.slot_count()), (old.index, 1));
        assert!(slab.get(old).is_none() && slab.get_mut(old).is_none() && slab.remove(old).is_none());
        assert_eq!(slab.get(new).map(|entry| entry.served.apex().to_string()), Some("new.".into()));
    }
}
