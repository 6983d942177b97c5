//! The zone cut or DNAME owner above a name.

use zone::Zone;
use zone::rrset::ZoneNode;
use zone::tree::{TreeCursor, TreeEntry};

/// A node of a zone, and where the tree has it.
pub(crate) struct ZonePosition<'z> {
    pub(crate) cursor: TreeCursor<'z>,
    pub(crate) entry: TreeEntry<'z>,
    pub(crate) node: ZoneNode<'z>,
}

impl<'z> ZonePosition<'z> {
    /// The node at `cursor`; `None` before the first.
    #[inline(always)]
    pub(crate) fn new(zone: &'z Zone, cursor: TreeCursor<'z>) -> Option<ZonePosition<'z>> {
        let entry = cursor.entry()?;
        Some(ZonePosition { node: zone.node(&entry), cursor, entry })
    }
}

/// The cut or DNAME owner above the name `key`; `cursor` is at the entry of `key` or at its predecessor.
pub(crate) fn find_cut_above<'z>(zone: &'z Zone, cursor: &TreeCursor<'z>, key: &[u8]) -> Option<ZonePosition<'z>> {
    let cut_at = |cursor: TreeCursor<'z>| {
        ZonePosition::new(zone, cursor).filter(|found| !found.node.is_occluded() && !found.node.is_plain())
    };
    let predecessor = cursor.entry()?;
    let node = zone.node(&predecessor);
    if !node.is_occluded() {
        let is_above = predecessor.key_len() < key.len() && predecessor.is_prefix_of(key);
        return if is_above { cut_at(cursor.clone()) } else { None };
    }
    // The predecessor is below a cut. If `key` is too, they share it: all names between a cut and `key` are below the cut.
    // So only their common ancestors are searched. The apex is no cut; if it has a DNAME, no other owner is authoritative.
    let shared = &key[..predecessor.common_len(key)];
    let ends = shared.iter().enumerate().filter(|(_, octet)| **octet == 0).map(|(at, _)| at + 1);
    let found = ends.filter(|&end| end < key.len()).find_map(|end| cursor.find(&key[..end]).and_then(cut_at));
    found.or_else(|| if node.is_below_dname() { cut_at(zone.seek(b"")) } else { None })
}
