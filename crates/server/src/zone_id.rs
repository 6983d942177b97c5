//! The number of a zone in the registry, as threads name zones to each other.

/// A slot of the registry, and which of the zones that had the slot is meant: messages about a removed zone are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ZoneId {
    /// The slot.
    pub index: u32,
    /// Differs between the zones that use the slot one after the other.
    pub generation: u32,
}
