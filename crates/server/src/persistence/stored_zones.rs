//! Which zones are stored: their numbers in the store, and back.

use crate::storage::StoredZone;
use crate::zone_id::ZoneId;

/// The zones that are stored, or will be: eight octets each.
#[derive(Default)]
pub struct StoredZones {
    /// By slot of the registry: the number in the store plus 1, 0 for none; and [`PENDING`].
    numbers: Vec<u32>,
    /// By number in the store: the slot of the registry; [`NO_SLOT`] for none. A removed zone has none, so that no generation is needed.
    slots: Vec<u32>,
}

/// No slot has this index, as [`ZoneTimers`](crate::zone_timers::ZoneTimers) has fewer zones.
const NO_SLOT: u32 = u32::MAX;

/// An image of the zone waits to be written, or is being written. The store has fewer zones than this.
const PENDING: u32 = 1 << 31;

impl StoredZones {
    /// The number of a zone in the store.
    pub fn number(&self, zone: ZoneId) -> Option<StoredZone> {
        let number = self.numbers.get(zone.index as usize)? & !PENDING;
        number.checked_sub(1).map(StoredZone)
    }

    /// The slot of the zone with this number.
    pub fn slot_of(&self, number: StoredZone) -> Option<u32> {
        self.slots.get(number.0 as usize).copied().filter(|slot| *slot != NO_SLOT)
    }

    /// Sets the number of a zone.
    pub fn set_number(&mut self, zone: ZoneId, number: StoredZone) {
        let slot = self.slot(zone);
        *slot = *slot & PENDING | (number.0 + 1);
        let index = number.0 as usize;
        if index >= self.slots.len() {
            self.slots.resize(index + 1, NO_SLOT);
        }
        self.slots[index] = zone.index;
    }

    /// Whether an image of the zone is to be written.
    pub fn is_pending(&self, zone: ZoneId) -> bool {
        self.numbers.get(zone.index as usize).is_some_and(|slot| slot & PENDING != 0)
    }

    /// An image is to be written; returns whether that is new.
    pub fn set_pending(&mut self, zone: ZoneId) -> bool {
        let slot = self.slot(zone);
        let is_new = *slot & PENDING == 0;
        *slot |= PENDING;
        is_new
    }

    /// No image is to be written any more.
    pub fn clear_pending(&mut self, zone: ZoneId) {
        *self.slot(zone) &= !PENDING;
    }

    /// Forgets a zone; returns its number.
    pub fn remove(&mut self, zone: ZoneId) -> Option<StoredZone> {
        let number = self.number(zone);
        if let Some(slot) = self.numbers.get_mut(zone.index as usize) {
            *slot = 0;
        }
        if let Some(number) = number {
            self.slots[number.0 as usize] = NO_SLOT;
        }
        number
    }

    fn slot(&mut self, zone: ZoneId) -> &mut u32 {
        let index = zone.index as usize;
        if index >= self.numbers.len() {
            self.numbers.resize(index + 1, 0);
        }
        &mut self.numbers[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_and_numbers_are_found_by_each_other() {
        let (mut zones, [a, b]) = (StoredZones::default(), [3, 0].map(|index| ZoneId { index, generation: 7 }));
        assert!(zones.set_pending(a) && !zones.set_pending(a) && zones.number(a).is_none());
        zones.set_number(a, StoredZone(0));
        zones.set_number(b, StoredZone(5));
        assert!(zones.is_pending(a) && !zones.is_pending(b));
        zones.clear_pending(a);
        assert_eq!(
            (zones.number(a), zones.slot_of(StoredZone(5)), zones.is_pending(a)),
            (Some(StoredZone(0)), Some(b.index), false)
        );
        assert_eq!(zones.remove(b), Some(StoredZone(5)));
        assert_eq!((zones.number(b), zones.slot_of(StoredZone(5)), zones.remove(b)), (None, None, None));
    }
}
