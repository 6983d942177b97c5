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
