//! The zones that were removed since the start, for a produced catalog without a journal: they get another label if they are added again.

use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use wire::NameRef;

/// Remembers a bounded number of zones, by hashes of their names.
#[derive(Default)]
pub struct RemovedZones {
    hashes: HashSet<u64>,
    hasher: RandomState,
    is_full: bool,
}

/// The most zones that are remembered, in about a megabyte.
const MAX_ZONES: usize = 1 << 16;

impl RemovedZones {
    /// A zone was removed.
    pub fn insert(&mut self, zone: NameRef<'_>) {
        if !self.is_full {
            self.hashes.insert(self.hasher.hash_one(zone.wire()));
        }
        if self.hashes.len() > MAX_ZONES {
            (self.hashes, self.is_full) = (HashSet::new(), true);
        }
    }

    /// A zone is added; returns whether it is known to have been removed.
    pub fn take(&mut self, zone: NameRef<'_>) -> bool {
        self.hashes.remove(&self.hasher.hash_one(zone.wire()))
    }

    /// Whether so many were removed that any zone may have been.
    pub fn is_full(&self) -> bool {
        self.is_full
    }
}

#[cfg(test)]
mod tests {
    use wire::Name;

    use super::*;

    #[test]
    fn a_bounded_number_of_removed_zones_is_remembered() {
        let mut removed = RemovedZones::default();
        let name = |number: usize| format!("z{number}.example.").parse::<Name>().expect("a name");
        (0..MAX_ZONES).for_each(|number| removed.insert(name(number).as_ref()));
        assert!(removed.take(name(7).as_ref()) && !removed.take(name(7).as_ref()) && !removed.is_full());
        assert!(!removed.take(name(MAX_ZONES).as_ref()));
        (0..2).for_each(|number| removed.insert(name(MAX_ZONES + number).as_ref()));
        assert!(removed.is_full() && removed.hashes.capacity() == 0);
        removed.insert(name(1).as_ref());
        assert_eq!(removed.hashes.len(), 0);
    }
}
