//! The number of a zone in the registry, as threads name zones to each other.

use std::collections::{HashMap, HashSet};

use foldhash::fast::RandomState;

/// Rare state of zones. Every change of a zone asks several of these maps, most of which are empty.
pub type ZoneIdMap<V> = HashMap<ZoneId, V, RandomState>;
/// Zones in a rare state.
pub type ZoneIdSet = HashSet<ZoneId, RandomState>;

/// A slot of the registry, and which of the zones that had the slot is meant: messages about a removed zone are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ZoneId {
    /// The slot.
    pub index: u32,
    /// Differs between the zones that use the slot one after the other.
    pub generation: u32,
}

/// How often each slot has lost a zone: four octets each up to the last one that has. A server that removes no zone needs none.
#[derive(Default)]
pub struct SlotGenerations(Vec<u32>);

impl SlotGenerations {
    /// The zone that a slot has now, if it has one.
    pub fn current(&self, index: u32) -> ZoneId {
        ZoneId { index, generation: self.0.get(index as usize).copied().unwrap_or(0) }
    }

    /// Whether no other zone has had the slot since.
    pub fn is_current(&self, zone: ZoneId) -> bool {
        self.current(zone.index) == zone
    }

    /// The slot has this zone now.
    pub fn begin(&mut self, zone: ZoneId) {
        let index = zone.index as usize;
        if self.is_current(zone) {
            return;
        }
        if index >= self.0.len() {
            self.0.resize(index + 1, 0);
        }
        self.0[index] = zone.generation;
    }

    /// The slot has lost its zone: the next one is another.
    pub fn end(&mut self, index: u32) {
        let ZoneId { generation, .. } = self.current(index);
        self.begin(ZoneId { index, generation: generation.wrapping_add(1) });
    }
}

/// Zones in a state that very many may have: one bit per slot.
#[derive(Default)]
pub struct ZoneBitSet(Vec<u64>);

impl ZoneBitSet {
    /// Adds a zone; returns whether it was not in the set.
    pub fn insert(&mut self, zone: ZoneId) -> bool {
        let (word, bit) = bit_of(zone);
        if word >= self.0.len() {
            self.0.resize(word + 1, 0);
        }
        let is_new = self.0[word] & bit == 0;
        self.0[word] |= bit;
        is_new
    }

    /// Whether the zone, or one that had its slot before, is in the set.
    pub fn contains(&self, zone: ZoneId) -> bool {
        let (word, bit) = bit_of(zone);
        self.0.get(word).is_some_and(|bits| bits & bit != 0)
    }

    /// Removes a zone; returns whether it was in the set.
    pub fn remove(&mut self, zone: ZoneId) -> bool {
        let (word, bit) = bit_of(zone);
        let Some(bits) = self.0.get_mut(word) else { return false };
        let was_in = *bits & bit != 0;
        *bits &= !bit;
        was_in
    }
}

/// The word of a zone, and its bit there.
fn bit_of(zone: ZoneId) -> (usize, u64) {
    (zone.index as usize / 64, 1 << (zone.index % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_have_generations_once_they_have_lost_a_zone() {
        let mut slots = SlotGenerations::default();
        let zone = |index, generation| ZoneId { index, generation };
        assert!(slots.is_current(zone(9, 0)) && !slots.is_current(zone(9, 1)));
        slots.begin(zone(9, 0));
        assert!(slots.0.is_empty());
        (0..2).for_each(|_| slots.end(5));
        slots.begin(zone(4, 7));
        assert_eq!([3, 4, 5, 9].map(|index| slots.current(index).generation), [0, 7, 2, 0]);
        assert!(slots.is_current(zone(5, 2)) && !slots.is_current(zone(5, 1)));
        slots.begin(zone(4, 0));
        assert_eq!((slots.current(4).generation, slots.0.len()), (0, 6));
    }

    #[test]
    fn zones_are_added_and_removed_one_by_one() {
        let mut zones = ZoneBitSet::default();
        let zone = |index| ZoneId { index, generation: 0 };
        assert!(!zones.contains(zone(63)) && !zones.remove(zone(63)));
        assert!([63, 64, 200].into_iter().all(|index| zones.insert(zone(index))));
        assert!(!zones.insert(zone(64)) && zones.remove(zone(64)) && !zones.remove(zone(64)));
        let left: Vec<u32> = (0..300).filter(|index| zones.contains(zone(*index))).collect();
        assert_eq!(left, [63, 200]);
    }
}
