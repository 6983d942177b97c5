//! The zones by apex: a persistent hash trie whose versions share every unchanged branch.

use std::ops::Range;
use std::sync::Arc;

use wire::NameRef;
use zone::Zone;

use crate::name_hash::hash;
use crate::served_zone::ServedZone;

/// A persistent map from apex to zone. Zones whose apexes collide cost a linear search; only the operator can make them so.
#[derive(Clone)]
pub struct ZoneMap {
    root: Branch,
    len: usize,
    /// The number of zones by the label count of their apex.
    depths: Arc<Depths>,
    /// The label counts that any apex has, as bits: only those are searched.
    used_depths: u128,
    /// Whether any zone is or was worth [`Zone::prefetch`].
    has_big: bool,
}

impl Default for ZoneMap {
    fn default() -> ZoneMap {
        ZoneMap { root: Branch::default(), len: 0, depths: Arc::new([0; _]), used_depths: 0, has_big: false }
    }
}

type Depths = [u32; wire::MAX_NAME_LEN / 2 + 1];

/// A node of the trie. Five bits of the hash select one of 32 slots, which has either a branch or up to [`MAX_ZONES`] zones. The lists
/// have the zones and the branches in ascending order of their slots. A slot with several zones is cheaper than a branch for them, which
/// would take 48 octets and two lists: of a million zones, every fourth slot of the lowest level has more than one. Below
/// [`MAX_LEVEL`], where no bits of the hash are left, `zones` is a list without order.
#[derive(Clone, Default)]
struct Branch {
    /// The number of zones in each slot, two bits for each.
    zone_counts: u64,
    /// The slots that have a branch.
    branch_bits: u32,
    zones: Arc<[Arc<ServedZone>]>,
    branches: Arc<[Branch]>,
}

/// The most zones in a slot: what two bits can count. All are compared with the name that is looked up.
const MAX_ZONES: usize = 3;
const BITS: u32 = 5;
/// The last level that has bits of the hash.
const MAX_LEVEL: u32 = 64 / BITS;

impl ZoneMap {
    /// The zone with this apex. `apex` is the lower-case wire form.
    #[inline]
    pub fn get(&self, apex: &[u8]) -> Option<&Arc<ServedZone>> {
        let hash = hash(apex);
        let mut branch = &self.root;
        for level in 0.. {
            let slot = Slot::of(hash, level);
            if !branch.has_branch(slot) {
                let (first, more) = branch.zones[branch.zone_range(slot)].split_first()?;
                let is_same = |zone: &&Arc<ServedZone>| zone.apex().wire() == apex;
                return if is_same(&first) { Some(first) } else { more.iter().find(is_same) };
            }
            branch = &branch.branches[branch.branch_index(slot)];
        }
        None
    }

    /// The label counts of apexes, in descending order from `max_labels`.
    #[inline]
    pub(crate) fn depths(&self, max_labels: usize) -> impl Iterator<Item = usize> + use<> {
        let mut left = self.used_depths & u128::MAX >> (127 - max_labels.min(127));
        std::iter::from_fn(move || {
            let depth = left.checked_ilog2()?;
            left ^= 1 << depth;
            Some(depth as usize)
        })
    }

    /// Adds a zone or replaces the one with the same apex. The apex must be in lower case.
    pub fn insert(&mut self, zone: Arc<ServedZone>) {
        let labels = zone.apex().label_count();
        let hash = hash(zone.apex().wire());
        self.has_big |= zone.zone().is_some_and(Zone::is_big);
        if self.root.insert(zone, hash, 0) {
            self.len += 1;
            Arc::make_mut(&mut self.depths)[labels] += 1;
            self.used_depths |= 1 << labels;
        }
    }

    /// Removes a zone; returns whether there was one.
    pub fn remove(&mut self, apex: NameRef<'_>) -> bool {
        let apex = apex.to_owned().to_lowercase();
        let removed = self.root.remove(apex.wire(), hash(apex.wire()), 0);
        if removed {
            self.len -= 1;
            let labels = apex.as_ref().label_count();
            let count = &mut Arc::make_mut(&mut self.depths)[labels];
            *count -= 1;
            if *count == 0 {
                self.used_depths &= !(1 << labels);
            }
        }
        removed
    }

    /// All zones, in unspecified order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<ServedZone>> {
        let mut stack = vec![&self.root];
        let branches = std::iter::from_fn(move || {
            let branch = stack.pop()?;
            stack.extend(branch.branches.iter());
            Some(branch)
        });
        branches.flat_map(|branch| branch.zones.iter())
    }

    /// Copies part `part` of the map, so that it shares no branch with another version. A map that was built in many steps
    /// is fragmented in memory. Returns false after the last part; the first is 0.
    pub fn compact_part(&mut self, part: usize) -> bool {
        if part >= self.root.branches.len() {
            return false;
        }
        let branch = &mut Arc::make_mut(&mut self.root.branches)[part];
        *branch = branch.compacted();
        true
    }

    /// Whether any zone may be worth [`Zone::prefetch`].
    #[inline]
    pub(crate) fn has_big(&self) -> bool {
        self.has_big
    }

    /// How many zones there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// The number of a slot of a branch; [`Slot::ALL`] below [`MAX_LEVEL`].
#[derive(Clone, Copy, PartialEq, Eq)]
struct Slot(u32);

impl Slot {
    /// All zones of a branch. No bit of a set of branches has this number.
    const ALL: Slot = Slot(32);

    #[inline]
    fn of(hash: u64, level: u32) -> Slot {
        if level > MAX_LEVEL { Slot::ALL } else { Slot((hash >> (level * BITS)) as u32 & 31) }
    }
}

impl Branch {
    #[inline]
    fn has_branch(&self, slot: Slot) -> bool {
        u64::from(self.branch_bits) >> slot.0 & 1 != 0
    }

    /// The index of the branch in this slot, or where to insert one.
    #[inline]
    fn branch_index(&self, slot: Slot) -> usize {
        (self.branch_bits & !(u32::MAX << slot.0)).count_ones() as usize
    }

    /// The indexes of the zones in this slot.
    #[inline]
    fn zone_range(&self, slot: Slot) -> Range<usize> {
        if slot == Slot::ALL {
            return 0..self.zones.len();
        }
        let start = sum_of_pairs(self.zone_counts & !(u64::MAX << (2 * slot.0)));
        start..start + (self.zone_counts >> (2 * slot.0) & 3) as usize
    }

    fn compacted(&self) -> Branch {
        Branch {
            zone_counts: self.zone_counts,
            branch_bits: self.branch_bits,
            zones: list(self.zones.iter().cloned()),
            branches: list(self.branches.iter().map(Branch::compacted)),
        }
    }

    /// Returns whether the apex is new.
    fn insert(&mut self, zone: Arc<ServedZone>, hash: u64, level: u32) -> bool {
        let slot = Slot::of(hash, level);
        if self.has_branch(slot) {
            let index = self.branch_index(slot);
            return Arc::make_mut(&mut self.branches)[index].insert(zone, hash, level + 1);
        }
        let range = self.zone_range(slot);
        if let Some(same) = self.zones[range.clone()].iter().position(|other| other.apex() == zone.apex()) {
            Arc::make_mut(&mut self.zones)[range.start + same] = zone;
            return false;
        }
        if slot != Slot::ALL && range.len() == MAX_ZONES {
            self.divide(slot, level);
            return self.insert(zone, hash, level);
        }
        self.zones = replaced(&self.zones, range.end..range.end, [zone]);
        if slot != Slot::ALL {
            self.zone_counts += 1 << (2 * slot.0);
        }
        true
    }

    /// Moves the zones of a slot to a branch.
    fn divide(&mut self, slot: Slot, level: u32) {
        let (range, mut branch) = (self.zone_range(slot), Branch::default());
        for zone in &self.zones[range.clone()] {
            branch.insert(zone.clone(), hash(zone.apex().wire()), level + 1);
        }
        self.zones = replaced(&self.zones, range, []);
        self.zone_counts &= !(3 << (2 * slot.0));
        let index = self.branch_index(slot);
        self.branches = replaced(&self.branches, index..index, [branch]);
        self.branch_bits |= 1 << slot.0;
    }

    /// Returns whether the apex was there.
    fn remove(&mut self, apex: &[u8], hash: u64, level: u32) -> bool {
        let slot = Slot::of(hash, level);
        if self.has_branch(slot) {
            let index = self.branch_index(slot);
            let branch = &mut Arc::make_mut(&mut self.branches)[index];
            let removed = branch.remove(apex, hash, level + 1);
            if removed && branch.zones.is_empty() && branch.branches.is_empty() {
                self.branches = replaced(&self.branches, index..index + 1, []);
                self.branch_bits &= !(1 << slot.0);
            }
            return removed;
        }
        let mut range = self.zone_range(slot);
        let Some(index) = range.find(|&index| self.zones[index].apex().wire() == apex) else { return false };
        self.zones = replaced(&self.zones, index..index + 1, []);
        if slot != Slot::ALL {
            self.zone_counts -= 1 << (2 * slot.0);
        }
        true
    }
}

/// The sum of the 32 numbers of two bits each.
#[inline]
fn sum_of_pairs(pairs: u64) -> usize {
    let fours = (pairs & 0x3333_3333_3333_3333) + (pairs >> 2 & 0x3333_3333_3333_3333);
    let octets = (fours & 0x0f0f_0f0f_0f0f_0f0f) + (fours >> 4 & 0x0f0f_0f0f_0f0f_0f0f);
    (octets.wrapping_mul(0x0101_0101_0101_0101) >> 56) as usize
}

/// The list with `new` instead of the items of `range`.
fn replaced<T: Clone, const N: usize>(items: &[T], range: Range<usize>, new: [T; N]) -> Arc<[T]> {
    list(items[..range.start].iter().cloned().chain(new).chain(items[range.end..].iter().cloned()))
}

/// A list of these items. All empty lists are the same one: otherwise each would be allocated, and most branches have one.
fn list<T>(items: impl Iterator<Item = T>) -> Arc<[T]> {
    if items.size_hint().1 == Some(0) { Arc::default() } else { items.collect() }
}

#[cfg(test)]
mod tests {
    use wire::Name;

    use super::*;
    use crate::name_hash::{MULTIPLIER, mix};
    use crate::served_zone::ZoneState;

    fn unavailable(text: &str) -> Arc<ServedZone> {
        let state = ZoneState::Unavailable(text.parse().expect("a name"));
        Arc::new(ServedZone::new(state, Arc::default()))
    }

    fn find<'z>(zones: &'z ZoneMap, text: &str) -> Option<&'z Arc<ServedZone>> {
        zones.get(text.parse::<Name>().expect("a name").wire())
    }

    #[test]
    fn edits_leave_old_versions_unchanged() {
        let mut zones = ZoneMap::default();
        let names: Vec<String> = (0..5000).map(|n| format!("z{n}.test.")).collect();
        names.iter().for_each(|name| zones.insert(unavailable(name)));
        zones.insert(unavailable("."));
        zones.insert(unavailable("z7.test."));
        assert_eq!(zones.len(), 5001);
        assert_eq!(zones.depths(127).collect::<Vec<_>>(), [2, 0]);
        assert_eq!(zones.depths(1).collect::<Vec<_>>(), [0]);
        let old = zones.clone();
        assert!(names.iter().step_by(2).all(|name| zones.remove(name.parse::<Name>().expect("a name").as_ref())));
        assert!(!zones.remove(NameRef::from_wire(b"\x01x\x00").expect("a name")));
        assert_eq!((zones.len(), zones.iter().count()), (2501, 2501));
        for (n, name) in names.iter().enumerate() {
            assert_eq!(find(&zones, name).is_some(), n % 2 == 1, "{name}");
            assert!(find(&old, name).is_some_and(|zone| zone.apex().to_string() == *name));
        }
        assert_eq!(old.iter().count(), 5001);
        let mut compacted = zones.clone();
        assert!((0..32).all(|part| compacted.compact_part(part)) && !compacted.compact_part(32));
        assert_eq!((compacted.len(), compacted.iter().count()), (2501, 2501));
        assert!(zones.iter().all(|zone| compacted.get(zone.apex().wire()).is_some_and(|same| Arc::ptr_eq(same, zone))));
    }

    /// Zones whose names have the same hash: the second eight octets cancel out the first.
    fn colliding() -> impl Iterator<Item = Arc<ServedZone>> {
        let names = (0u64..).filter_map(|n| {
            let mut wire = *b"\x0f.......--------\0";
            wire[1..8].copy_from_slice(&n.to_be_bytes()[1..]);
            let first = u64::from_le_bytes(*wire.first_chunk().expect("eight octets"));
            let second = mix(wire.len() as u64 ^ first, MULTIPLIER);
            wire[8..16].copy_from_slice(&second.to_le_bytes());
            Name::from_wire(&wire).ok().filter(|name| name.to_lowercase().wire() == wire)
        });
        names.map(|name| Arc::new(ServedZone::new(ZoneState::Unavailable(name), Arc::default())))
    }

    #[test]
    fn zones_with_colliding_hashes_are_distinct() {
        let (mut zones, same) = (ZoneMap::default(), colliding().take(4).collect::<Vec<_>>());
        assert!(same.iter().all(|zone| hash(zone.apex().wire()) == hash(same[0].apex().wire())));
        for zone in &same[..3] {
            zones.insert(zone.clone());
            zones.insert(zone.clone());
        }
        assert_eq!((zones.len(), zones.iter().count()), (3, 3));
        assert!(zones.remove(same[1].apex()) && !zones.remove(same[3].apex()));
        let found =
            |zone: &Arc<ServedZone>| zones.get(zone.apex().wire()).is_some_and(|found| Arc::ptr_eq(found, zone));
        assert_eq!([0, 1, 2, 3].map(|number| found(&same[number])), [true, false, true, false]);
        assert!(zones.remove(same[0].apex()) && zones.remove(same[2].apex()));
        assert!(zones.is_empty() && zones.iter().next().is_none());
    }

    /// The memory of a zone beside its name, its records and two reference counts.
    #[test]
    #[cfg(target_pointer_width = "64")]
    fn small_zones_are_small() {
        assert_eq!((size_of::<Branch>(), size_of::<ServedZone>()), (48, 72));
    }
}
