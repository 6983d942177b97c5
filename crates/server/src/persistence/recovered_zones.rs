//! What the store had at start, by the names of the zones, until the zones are configured.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use wire::{Name, NameRef};

use super::kept_owners::KeptOwners;
use crate::storage::{Recovery, StoredZone, Timers};

/// The zones that no configuration has claimed yet.
#[derive(Default)]
pub struct RecoveredZones {
    /// `None` once all are claimed or forgotten.
    recovery: Option<Recovery>,
    by_name: HashTable<StoredZone>,
    hasher: RandomState,
}

/// What is stored of a zone.
pub struct RestorableZone {
    /// Its number.
    pub number: StoredZone,
    /// The serial of its newest version.
    pub serial: u32,
    /// Its timers.
    pub timers: Option<Timers>,
}

impl RecoveredZones {
    /// The zones of a store, the owners in it, and what is to be removed from it: zones that have no version, or another one has their
    /// name.
    pub fn new(recovery: Recovery) -> (RecoveredZones, KeptOwners, Vec<(StoredZone, Name)>) {
        let (mut by_name, hasher) = (HashTable::new(), RandomState::default());
        let (mut owners, mut useless) = (KeptOwners::default(), Vec::new());
        let name_of = |number: StoredZone| recovery.zone(number).map(|zone| zone.name);
        for zone in recovery.zones() {
            let is_newer = |other| recovery.zone(other).is_none_or(|other| other.newest < zone.newest);
            if zone.serial.is_none() {
                let name = || zone.name.to_owned();
                let old = match zone.timers.and_then(|timers| timers.owner()) {
                    Some(catalog) => owners.recovered(name(), zone.zone, catalog, is_newer),
                    None => Some(zone.zone),
                };
                useless.extend(old.map(|number| (number, name())));
                continue;
            }
            let is_same = |other: &StoredZone| name_of(*other).is_some_and(|name| name == zone.name);
            let hash_of = |other: &StoredZone| name_of(*other).map_or(0, |name| hasher.hash_one(name.wire()));
            match by_name.entry(hasher.hash_one(zone.name.wire()), is_same, hash_of) {
                Entry::Vacant(entry) => _ = entry.insert(zone.zone),
                Entry::Occupied(mut entry) => {
                    let is_newer = is_newer(*entry.get());
                    let old = if is_newer { std::mem::replace(entry.get_mut(), zone.zone) } else { zone.zone };
                    useless.push((old, zone.name.to_owned()));
                }
            }
        }
        (RecoveredZones { recovery: Some(recovery), by_name, hasher }, owners, useless)
    }

    /// Whether there is a zone with this name.
    pub fn contains(&self, apex: NameRef<'_>) -> bool {
        self.find(apex).is_some()
    }

    /// The timers of the zone with this name.
    pub fn timers(&self, apex: NameRef<'_>) -> Option<Timers> {
        self.recovery.as_ref()?.zone(self.find(apex)?)?.timers
    }

    fn find(&self, apex: NameRef<'_>) -> Option<StoredZone> {
        if self.by_name.is_empty() {
            return None;
        }
        self.by_name.find(self.hash(apex), |number| self.name_of(*number) == Some(apex)).copied()
    }

    /// Takes the zone with this name.
    pub fn take(&mut self, apex: NameRef<'_>) -> Option<RestorableZone> {
        if self.by_name.is_empty() {
            return None;
        }
        let recovery = self.recovery.as_ref()?;
        let is_same = |number: &StoredZone| recovery.zone(*number).is_some_and(|zone| zone.name == apex);
        let (number, _) = self.by_name.find_entry(self.hasher.hash_one(apex.wire()), is_same).ok()?.remove();
        let zone = recovery.zone(number)?;
        let recovered = RestorableZone { number, serial: zone.serial?, timers: zone.timers };
        if self.by_name.is_empty() {
            *self = RecoveredZones::default();
        }
        Some(recovered)
    }

    /// Takes all that are left.
    pub fn take_all(&mut self) -> Vec<(StoredZone, Name)> {
        let RecoveredZones { recovery, by_name, .. } = std::mem::take(self);
        let Some(recovery) = recovery else { return Vec::new() };
        let left = by_name.iter().filter_map(|number| recovery.zone(*number));
        left.map(|zone| (zone.zone, zone.name.to_owned())).collect()
    }

    fn name_of(&self, number: StoredZone) -> Option<NameRef<'_>> {
        self.recovery.as_ref()?.zone(number).map(|zone| zone.name)
    }

    fn hash(&self, apex: NameRef<'_>) -> u64 {
        self.hasher.hash_one(apex.wire())
    }
}
