//! Which zone answers for a name.

use wire::Rtype;

use crate::qname::Qname;
use crate::served_zone::ServedZone;
use crate::zone_cut::{ZonePosition, find_occluding_cut};
use crate::zone_map::ZoneMap;

/// The zone with the longest apex that is the name or above it (RFC 1034 4.3.2 step 2).
///
/// RFC 4035 3.1.4.1: a DS query at an apex is answered by the parent zone, if that is served too.
#[inline]
pub(crate) fn find_zone<'z>(zones: &'z ZoneMap, qname: &mut Qname, qtype: Rtype) -> Option<&'z ServedZone> {
    let zone = find_closest(zones, qname, qname.labels())?;
    if qtype == Rtype::DS && zone.apex().wire().len() == qname.wire().len() && qname.labels() > 0 {
        return find_closest(zones, qname, qname.labels() - 1)
            .filter(|parent| !delegates_above(parent, qname))
            .or(Some(zone));
    }
    Some(zone)
}

/// The zone with the longest apex of at most `max_labels` labels.
#[inline]
fn find_closest<'z>(zones: &'z ZoneMap, qname: &Qname, max_labels: usize) -> Option<&'z ServedZone> {
    zones.depths(max_labels).find_map(|labels| zones.get(qname.suffix(labels))).map(|zone| &**zone)
}

/// Whether the zone has a cut above the name: then it is not the name's parent zone.
fn delegates_above(zone: &ServedZone, qname: &mut Qname) -> bool {
    let Some(zone) = zone.zone() else { return false };
    qname.set_key(zone.apex_labels());
    let Some(nearest) = ZonePosition::new(zone, zone.seek(qname.key())) else { return false };
    if nearest.node.is_occluded() {
        return find_occluding_cut(zone, &nearest, qname.key()).is_some_and(|cut| cut.node.is_cut());
    }
    nearest.node.is_cut() && nearest.is_above(qname.key())
}
