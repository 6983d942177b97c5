//! The zone cut or DNAME owner above a name.

use zone::Zone;
use zone::canonical_key::ancestor_lens;
use zone::rrset::ZoneNode;
use zone::tree::{TreeCursor, TreeEntry};

/// A node of a zone, and where the tree has it.
#[derive(Clone)]
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

/// The cut or DNAME owner above the name `key`; `nearest` is the entry of `key` or its predecessor.
pub(crate) fn find_cut_above<'z>(zone: &'z Zone, nearest: &ZonePosition<'z>, key: &[u8]) -> Option<ZonePosition<'z>> {
    if !nearest.node.is_occluded() {
        let is_above = nearest.entry.key_len() < key.len() && nearest.entry.is_prefix_of(key);
        return (is_above && !nearest.node.is_plain()).then(|| nearest.clone());
    }
    let cut_at = |cursor: TreeCursor<'z>| {
        ZonePosition::new(zone, cursor).filter(|found| !found.node.is_occluded() && !found.node.is_plain())
    };
    // The predecessor is below a cut. If `key` is too, they share it: all names between a cut and `key` are below the cut.
    // So only their common ancestors are searched. The apex is no cut; if it has a DNAME, no other owner is authoritative.
    let common = nearest.entry.common_len(key);
    let shared = ancestor_lens(key).take_while(|&len| len <= common);
    let found = shared.filter_map(|len| nearest.cursor.find(&key[..len])).find_map(cut_at);
    found.or_else(|| if nearest.node.is_below_dname() { cut_at(zone.seek(b"")) } else { None })
}
