//! Why the registry has a zone: the configuration, a command, or a catalog. Four octets per zone, none while all are configured.

use std::collections::HashMap;

use wire::Name;

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

/// The origins of zones by their slots.
pub struct OriginTable {
    /// The number of the origin of each slot; the slots after the end are configured.
    by_slot: Vec<u32>,
    /// The origins by their numbers: as many as there are combinations of catalogs, groups and templates.
    known: Vec<ZoneOrigin>,
    numbers: HashMap<ZoneOrigin, u32>,
    /// The fingerprints of the labels under which catalogs list the zones in slots, 0 for none, as have the slots after the end.
    labels: Vec<u32>,
}

const CONFIGURED: u32 = 0;

impl Default for OriginTable {
    /// All zones are configured.
    fn default() -> OriginTable {
        let known = vec![ZoneOrigin::Configured];
        let numbers = HashMap::from([(ZoneOrigin::Configured, CONFIGURED)]);
        OriginTable { by_slot: Vec::new(), known, numbers, labels: Vec::new() }
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

    /// Sets the origin of the zone in a slot.
    pub fn set(&mut self, slot: usize, origin: ZoneOrigin) {
        if let Some(label) = self.labels.get_mut(slot).filter(|_| !matches!(origin, ZoneOrigin::Member { .. })) {
            *label = 0;
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
        if slot >= self.labels.len() {
            self.labels.resize(slot + 1, 0);
        }
        self.labels[slot] = crc32c::crc32c(label).max(1);
    }

    /// The fingerprint of that label, the same after a restart; 0 if there is none.
    pub fn label_fingerprint(&self, slot: usize) -> u64 {
        self.labels.get(slot).copied().unwrap_or(0).into()
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
    fn a_member_keeps_the_fingerprint_of_its_label_until_it_is_no_member() {
        let mut origins = OriginTable::default();
        origins.set_label(5, b"1");
        let one = origins.label_fingerprint(5);
        assert!(one != 0 && origins.label_fingerprint(6) == 0);
        origins.set_label(5, b"2");
        assert_ne!(origins.label_fingerprint(5), one);
        origins.set(5, ZoneOrigin::Configured);
        assert_eq!(origins.label_fingerprint(5), 0);
    }
}
