//! The catalogs whose members other catalogs list, too. A restart knows from here which of them has the zone, whether the zone is stored or
//! not: members that are read from files mostly are not, nor are those whose primary never answered.
//!
//! Each is a number of the store that has timers and no image.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use wire::{Name, NameRef};

use super::Persistence;
use crate::storage::disk::Disk;
use crate::storage::{AppendRecord, StoredZone, Timers};

/// The owners by zone: few, unless a catalog is configured wrongly.
#[derive(Default)]
pub struct KeptOwners {
    by_zone: HashMap<Name, KeptOwner>,
    /// The zones whose owners the queue of the storage thread had no room for.
    unsaved: Vec<Name>,
}

/// The owner of a zone.
struct KeptOwner {
    /// The number in the store.
    number: StoredZone,
    /// The fingerprint of the catalog.
    catalog: u32,
}

impl KeptOwners {
    /// Adds what a start found; returns the number that is to be removed if there are two of this zone: a crash came between the new one
    /// and the removal of the former. `is_newer`: whether it was stored after another number.
    pub fn recovered(
        &mut self,
        zone: Name,
        number: StoredZone,
        catalog: u32,
        is_newer: impl Fn(StoredZone) -> bool,
    ) -> Option<StoredZone> {
        let owner = KeptOwner { number, catalog };
        match self.by_zone.entry(zone) {
            Entry::Vacant(entry) => {
                entry.insert(owner);
                None
            }
            // Numbers are used again, so that they do not say which one is newer.
            Entry::Occupied(entry) if !is_newer(entry.get().number) => Some(number),
            Entry::Occupied(mut entry) => Some(entry.insert(owner).number),
        }
    }

    /// The fingerprint of the catalog that has this zone.
    pub fn catalog(&self, zone: NameRef<'_>) -> Option<u32> {
        // Most servers have none.
        if self.by_zone.is_empty() {
            return None;
        }
        self.by_zone.get(&zone.to_owned()).map(|owner| owner.catalog)
    }
}

impl<D: Disk> Persistence<D> {
    /// Keeps the owner of a zone.
    pub(super) fn put_owner(&mut self, zone: NameRef<'_>, catalog: u32) {
        if self.owners.catalog(zone) == Some(catalog) {
            return;
        }
        let owner = self.owners.by_zone.entry(zone.to_owned());
        owner
            .and_modify(|owner| owner.catalog = catalog)
            .or_insert_with(|| KeptOwner { number: self.storage.add_zone(), catalog });
        self.owners.unsaved.push(zone.to_owned());
        self.save_owners();
    }

    /// Forgets the owner of a zone.
    pub(super) fn drop_owner(&mut self, zone: NameRef<'_>) {
        if self.owners.catalog(zone).is_some()
            && let Some(owner) = self.owners.by_zone.remove(&zone.to_owned())
        {
            self.removals.push((owner.number, zone.to_owned()));
            self.retry();
        }
    }

    /// Forgets the owners of the zones that are not there.
    pub(super) fn retain_owners(&mut self, is_there: &dyn Fn(NameRef<'_>) -> bool) {
        let zones = self.owners.by_zone.keys().filter(|zone| !is_there(zone.as_ref()));
        for zone in zones.cloned().collect::<Vec<_>>() {
            self.drop_owner(zone.as_ref());
        }
    }

    pub(super) fn save_owners(&mut self) {
        while let Some(zone) = self.owners.unsaved.pop() {
            let Some(owner) = self.owners.by_zone.get(&zone) else { continue };
            let record = AppendRecord::Timers(Timers::of_owner(owner.catalog));
            if self.append(owner.number, zone.as_ref(), record).is_err() {
                self.owners.unsaved.push(zone);
                return;
            }
        }
    }
}
