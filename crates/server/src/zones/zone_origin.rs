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
}

const CONFIGURED: u32 = 0;

impl Default for OriginTable {
    /// All zones are configured.
    fn default() -> OriginTable {
        let known = vec![ZoneOrigin::Configured];
        OriginTable { by_slot: Vec::new(), known, numbers: HashMap::from([(ZoneOrigin::Configured, CONFIGURED)]) }
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
        let number = self.number_of(origin);
        if slot >= self.by_slot.len() {
            if number == CONFIGURED {
                return;
            }
            self.by_slot.resize(slot + 1, CONFIGURED);
        }
        self.by_slot[slot] = number;
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
}
