//! Why the registry has a zone: the configuration, a command, or a catalog. Four octets per zone, none while all are configured.

use std::collections::HashMap;

use wire::{Name, NameRef};

/// Who wants a zone to be served.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ZoneOrigin {
    /// The configuration.
    Configured,
    /// `zonda zone add`.
    Added {
        /// Its template.
        template: String,
    },
    /// A catalog that lists it.
    Member {
        /// The catalog.
        catalog: Name,
        /// Its group, if that chose the template.
        group: Option<String>,
        /// Its template.
        template: String,
    },
}

/// Which catalog lists a zone, and under which label: fingerprints that are the same after a restart; 0 is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    /// The name of the catalog: see [`catalog_fingerprint`].
    pub catalog: u32,
    /// The label.
    pub label: u32,
}

impl Membership {
    /// What was stored as this number.
    pub fn from_stored(stored: u64) -> Membership {
        Membership { catalog: (stored >> 32) as u32, label: stored as u32 }
    }

    /// The number to store.
    pub fn to_stored(self) -> u64 {
        u64::from(self.catalog) << 32 | u64::from(self.label)
    }
}

/// The fingerprint of a catalog.
pub fn catalog_fingerprint(name: NameRef<'_>) -> u32 {
    crc32c::crc32c(name.to_owned().to_lowercase().wire()).max(1)
}

/// The origins of zones by their slots.
pub struct OriginTable {
    /// The number of the origin of each slot; the slots after the end are configured.
    by_slot: Vec<u32>,
    /// The origins by their numbers: as many as there are combinations of catalogs, groups and templates.
    known: Vec<ZoneOrigin>,
    numbers: HashMap<ZoneOrigin, u32>,
    /// The fingerprints of the labels under which catalogs list the zones in slots, or the numbers of their additions; 0 for none, as have
    /// the slots after the end.
    details: Vec<u32>,
}

const CONFIGURED: u32 = 0;

impl Default for OriginTable {
    /// All zones are configured.
    fn default() -> OriginTable {
        let known = vec![ZoneOrigin::Configured];
        let numbers = HashMap::from([(ZoneOrigin::Configured, CONFIGURED)]);
        OriginTable { by_slot: Vec::new(), known, numbers, details: Vec::new() }
    }
}

impl OriginTable {
    /// The origin of the zone in a slot.
    pub fn of(&self, slot: usize) -> &ZoneOrigin {
        &self.known[self.number(slot) as usize]
    }

    /// Whether the zone in a slot is configured.
    pub fn is_configured(&self, slot: usize) -> bool {
        self.number(slot) == CONFIGURED
    }

    /// How many slots have a zone that is not configured.
    pub fn other_count(&self) -> usize {
        self.by_slot.iter().filter(|number| **number != CONFIGURED).count()
    }

    /// Sets the origin of the zone in a slot.
    pub fn set(&mut self, slot: usize, origin: ZoneOrigin) {
        if std::mem::discriminant(self.of(slot)) != std::mem::discriminant(&origin)
            && let Some(detail) = self.details.get_mut(slot)
        {
            *detail = 0;
        }
        let number = self.number_of(origin);
        if slot >= self.by_slot.len() {
            if number == CONFIGURED {
                return;
            }
            self.by_slot.resize(slot + 1, CONFIGURED);
        }
        self.by_slot[slot] = number;
    }

    /// Notes the label under which a catalog lists the zone in a slot.
    pub fn set_label(&mut self, slot: usize, label: &[u8]) {
        self.set_detail(slot, crc32c::crc32c(label).max(1));
    }

    /// Notes the number of the addition of the zone in a slot.
    pub fn set_addition(&mut self, slot: usize, number: u32) {
        self.set_detail(slot, number);
    }

    fn set_detail(&mut self, slot: usize, detail: u32) {
        if slot >= self.details.len() {
            self.details.resize(slot + 1, 0);
        }
        self.details[slot] = detail;
    }

    /// The number of the addition of the zone in a slot; 0 if it was not added, or that is not known.
    pub fn addition(&self, slot: usize) -> u32 {
        let is_added = matches!(self.of(slot), ZoneOrigin::Added { .. });
        self.details.get(slot).copied().filter(|_| is_added).unwrap_or(0)
    }

    /// The catalog and the label of the zone in a slot; both 0 if it is no member.
    pub fn membership(&self, slot: usize) -> Membership {
        match (self.of(slot), self.details.get(slot)) {
            (ZoneOrigin::Member { catalog, .. }, Some(label)) if *label != 0 => {
                Membership { catalog: catalog_fingerprint(catalog.as_ref()), label: *label }
            }
            _ => Membership::default(),
        }
    }

    fn number(&self, slot: usize) -> u32 {
        self.by_slot.get(slot).copied().unwrap_or(CONFIGURED)
    }

    fn number_of(&mut self, origin: ZoneOrigin) -> u32 {
        if let Some(number) = self.numbers.get(&origin) {
            return *number;
        }
        let number = self.known.len() as u32;
        self.known.push(origin.clone());
        self.numbers.insert(origin, number);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_configured_until_they_are_set() {
        let mut origins = OriginTable::default();
        let added = ZoneOrigin::Added { template: "t".into() };
        origins.set(9, ZoneOrigin::Configured);
        origins.set(3, added.clone());
        origins.set(5, added.clone());
        assert_eq!((origins.of(3), origins.of(5), origins.known.len()), (&added, &added, 2));
        assert!(origins.is_configured(4) && origins.is_configured(1_000) && !origins.is_configured(3));
        origins.set(3, ZoneOrigin::Configured);
        assert!(origins.is_configured(3));
    }

    #[test]
    fn a_zone_keeps_its_label_or_addition_until_it_has_another_kind_of_origin() {
        let mut origins = OriginTable::default();
        let member = |catalog: &str| {
            let catalog = catalog.parse().expect("a name");
            ZoneOrigin::Member { catalog, group: None, template: "t".into() }
        };
        origins.set(5, member("c."));
        origins.set_label(5, b"1");
        let one = origins.membership(5);
        assert!(one.catalog != 0 && one.label != 0 && origins.membership(6) == Membership::default());
        assert_eq!(Membership::from_stored(one.to_stored()), one);
        origins.set(5, member("D."));
        let moved = origins.membership(5);
        assert!(moved.label == one.label && moved.catalog != one.catalog);
        origins.set(5, member("d."));
        assert_eq!(origins.membership(5), moved, "names are compared without their case");
        origins.set_label(5, b"2");
        assert_ne!(origins.membership(5).label, one.label);
        origins.set(5, ZoneOrigin::Configured);
        assert_eq!(origins.membership(5), Membership::default());
        origins.set(5, ZoneOrigin::Added { template: "t".into() });
        origins.set_addition(5, 7);
        origins.set(5, ZoneOrigin::Added { template: "u".into() });
        assert_eq!((origins.addition(5), origins.membership(5)), (7, Membership::default()));
        origins.set(5, member("c."));
        assert_eq!((origins.addition(5), origins.membership(5)), (0, Membership::default()));
    }
}
