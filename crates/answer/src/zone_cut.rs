//! The zone cut or DNAME owner above a name.

use zone::Zone;
use zone::canonical_key::ancestor_lens;
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

    /// Whether the name `key` is below this one.
    #[inline]
    pub(crate) fn is_above(&self, key: &[u8]) -> bool {
        self.entry.key_len() < key.len() && self.entry.is_prefix_of(key)
    }
}

/// The cut or DNAME owner above the name `key`; `nearest` is the entry of `key` or its predecessor, and is occluded.
pub(crate) fn find_occluding_cut<'z>(
    zone: &'z Zone,
    nearest: &ZonePosition<'z>,
    key: &[u8],
) -> Option<ZonePosition<'z>> {
    debug_assert!(nearest.node.is_occluded());
    // If `key` is occluded too, both have the same cut: all names between a cut and `key` are below the cut.
    // So only their common ancestors are searched.
    let common = nearest.entry.common_len(key);
    for len in ancestor_lens(key).take_while(|&len| len <= common) {
        if let Some(cursor) = nearest.cursor.find(&key[..len])
            && let Some(cut) = cut_at(zone, cursor)
        {
            return Some(cut);
        }
    }
    // The apex is no cut; if it has a DNAME, no other owner is authoritative.
    if nearest.node.is_below_dname() { cut_at(zone, zone.seek(b"")) } else { None }
}

/// The node at `cursor` if it is a cut or DNAME owner that is not occluded itself.
#[inline]
fn cut_at<'z>(zone: &'z Zone, cursor: TreeCursor<'z>) -> Option<ZonePosition<'z>> {
    ZonePosition::new(zone, cursor).filter(|found| !found.node.is_occluded() && !found.node.is_plain())
}
