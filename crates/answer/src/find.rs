//! What a name belongs to: its zone, and the cut or redirection in it that it stands below.

use wire::Rtype;
use zone::Zone;
use zone::canonical_key::CanonicalKey;
use zone::rrset::ZoneNode;
use zone::tree::{TreeCursor, TreeEntry};

use crate::qname::Qname;
use crate::served::{ServedZone, ZoneMap};

/// The zone that a name belongs to: that with the longest apex (RFC 1034 4.3.2 step 2).
///
/// RFC 4035 3.1.4.1: what is asked of the type DS at an apex is answered by the zone above, if that is here too.
#[inline]
pub(crate) fn find_zone<'z>(zones: &'z ZoneMap, qname: &Qname, qtype: Rtype) -> Option<&'z ServedZone> {
    let zone = find_closest(zones, qname, qname.labels())?;
    if qtype == Rtype::DS && zone.apex().wire().len() == qname.wire().len() && qname.labels() > 0 {
        return find_closest(zones, qname, qname.labels() - 1)
            .filter(|above| !delegates_above(above, qname))
            .or(Some(zone));
    }
    Some(zone)
}

/// The zone with the longest apex among the last `most` labels of the name.
#[inline]
fn find_closest<'z>(zones: &'z ZoneMap, qname: &Qname, most: usize) -> Option<&'z ServedZone> {
    zones.depths(most).find_map(|labels| zones.get(qname.suffix(labels))).map(|zone| &**zone)
}

/// Whether a cut of the zone stands between its apex and the name: then it is not the zone right above.
fn delegates_above(zone: &ServedZone, qname: &Qname) -> bool {
    let Some(zone) = zone.zone() else { return false };
    let mut key = CanonicalKey::new();
    key.set(qname.wire(), zone.apex().wire().len());
    find_cover(zone, &zone.seek(key.as_bytes()), key.as_bytes()).is_some_and(|(_, _, node)| node.is_cut())
}

/// The cut or DNAME owner that the name `key` stands below; the cursor is at the entry of `key` or at its predecessor.
pub(crate) fn find_cover<'z>(
    zone: &'z Zone,
    cursor: &TreeCursor<'z>,
    key: &[u8],
) -> Option<(TreeCursor<'z>, TreeEntry<'z>, ZoneNode<'z>)> {
    let cover = |cursor: TreeCursor<'z>| {
        let entry = cursor.entry()?;
        let node = zone.node(&entry);
        (!node.is_occluded() && !node.is_plain()).then_some((cursor, entry, node))
    };
    let before = cursor.entry()?;
    let node = zone.node(&before);
    if !node.is_occluded() {
        let is_above = before.key_len() < key.len() && before.is_prefix_of(key);
        return if is_above { cover(cursor.clone()) } else { None };
    }
    // The predecessor stands below a cut. If the name does so too, that cut is an ancestor of both: all between the cut
    // and the name stand below it. A name far from the predecessor thus costs no more searches than one near it. The apex
    // is no cut; if it has a DNAME, it is the only owner that is not occluded.
    let shared = &key[..before.common_len(key)];
    let ends = shared.iter().enumerate().filter(|(_, octet)| **octet == 0).map(|(at, _)| at + 1);
    let found = ends.filter(|&end| end < key.len()).find_map(|end| cursor.find(&key[..end]).and_then(cover));
    found.or_else(|| if node.is_below_dname() { cover(zone.seek(b"")) } else { None })
}
