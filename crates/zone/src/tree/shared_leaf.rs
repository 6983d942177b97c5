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
    /// The leaf with these octets: one that this thread made before, if it is small and was among the last ones.
    pub(super) fn of(octets: &[u8]) -> Leaf {
        if octets.len() > MAX_LEN {
            return Leaf(Arc::from(octets));
        }
        // Colliding leaves are only not shared.
        let slot = FixedState::default().hash_one(octets) as usize % SLOTS;
        RECENT.with_borrow_mut(|recent| match &recent[slot] {
            Some(known) if *known.0 == *octets => known.clone(),
            _ => recent[slot].insert(Leaf(Arc::from(octets))).clone(),
        })
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
        let is_shared = |len| Arc::ptr_eq(&Leaf::of(&vec![1; len]).0, &Leaf::of(&vec![1; len]).0);
        assert!(is_shared(100) && !is_shared(MAX_LEN + 1));
        let leaves: Vec<Leaf> = (0..255).map(|octet| Leaf::of(&[octet; 40])).collect();
        assert!(leaves.iter().zip(0..).all(|(leaf, octet)| *leaf.0 == [octet; 40]));
    }
}
