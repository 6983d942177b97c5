//! Small leaves that many zones have in common: owners are relative to the apex, so that zones with the same records have equal leaves.

use std::cell::RefCell;
use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::FixedState;

use super::Leaf;

/// The most octets of a leaf that is looked for: that of a zone with a few records.
const MAX_LEN: usize = 512;
/// The leaves that a thread remembers, by their hash.
const SLOTS: usize = 64;

thread_local! {
    /// The leaves that this thread made last. Not shared by threads, as builds would wait for each other.
    static RECENT: RefCell<[Option<Leaf>; SLOTS]> = const { RefCell::new([const { None }; SLOTS]) };
}

impl Leaf {
    /// A leaf of its own with these octets.
    pub(super) fn of(octets: &[u8]) -> Leaf {
        Leaf(Arc::from(octets))
    }

    /// The leaf with these octets, at most [`MAX_LEN`]: one that this thread made before, if it was among the last ones.
    fn shared(octets: &[u8]) -> Leaf {
        // Colliding leaves are only not shared.
        let slot = FixedState::default().hash_one(octets) as usize % SLOTS;
        RECENT.with_borrow_mut(|recent| match &recent[slot] {
            Some(known) if *known.0 == *octets => known.clone(),
            _ => recent[slot].insert(Leaf(Arc::from(octets))).clone(),
        })
    }

    /// This leaf, which is [shareable](Self::is_shareable), with another value of its first entry, of the same length.
    pub(crate) fn with_first_value(&self, value: &[u8]) -> Leaf {
        let mut octets = self.0.to_vec();
        let at = self.block().entry(0).value.as_ptr().addr() - self.0.as_ptr().addr();
        octets[at..at + value.len()].copy_from_slice(value);
        Leaf::shared(&octets)
    }

    /// Whether it is small enough to be shared.
    pub(crate) fn is_shareable(&self) -> bool {
        !self.0.is_empty() && self.0.len() <= MAX_LEN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_small_leaves_are_one() {
        assert!(Arc::ptr_eq(&Leaf::shared(&[1; 100]).0, &Leaf::shared(&[1; 100]).0));
        let leaves: Vec<Leaf> = (0..255).map(|octet| Leaf::shared(&[octet; 40])).collect();
        assert!(leaves.iter().zip(0..).all(|(leaf, octet)| *leaf.0 == [octet; 40]));
    }
}
