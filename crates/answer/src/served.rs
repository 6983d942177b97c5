//! All that is served, as one immutable value: the zones by apex, and how to answer.

use std::net::IpAddr;
use std::sync::Arc;

use wire::{Name, NameRef};
use zone::Zone;

use crate::cookie::CookieSecrets;
use crate::rrl::RateLimitConfig;

/// What is published as a whole: see [`crate::published`].
#[derive(Clone, Default)]
pub struct Served {
    /// The zones.
    pub zones: ZoneMap,
    /// How to answer.
    pub config: Arc<AnswerConfig>,
}

/// How to answer, whatever the zone.
pub struct AnswerConfig {
    /// The largest UDP answer, in octets, at least 512 and at most [`crate::MAX_UDP`].
    pub udp_payload: u16,
    /// The name server identifier (RFC 5001); empty: none is told.
    pub nsid: Box<[u8]>,
    /// The answer to `version.bind` and `version.server` in class CHAOS (RFC 4892); `None`: refused.
    pub version: Option<Box<[u8]>>,
    /// The answer to `id.server` and `hostname.bind` in class CHAOS (RFC 4892); `None`: refused.
    pub identity: Option<Box<[u8]>>,
    /// The secrets of server cookies (RFC 9018); `None`: no cookies.
    pub cookies: Option<CookieSecrets>,
    /// Response rate limiting; `None`: none.
    pub rate_limit: Option<RateLimitConfig>,
}

impl Default for AnswerConfig {
    fn default() -> AnswerConfig {
        AnswerConfig {
            udp_payload: 1232,
            nsid: Box::default(),
            version: None,
            identity: None,
            cookies: None,
            rate_limit: None,
        }
    }
}

/// A zone and who may have it whole.
pub struct ServedZone {
    /// The apex, and the zone where there is one.
    pub state: ZoneState,
    /// Who may transfer it.
    pub allow_transfer: Arc<Acl>,
}

/// What is known of a zone.
pub enum ZoneState {
    /// It is served.
    Loaded(Zone),
    /// It could not be loaded: answered with SERVFAIL.
    Unavailable(Name),
}

impl ServedZone {
    /// The apex.
    pub fn apex(&self) -> NameRef<'_> {
        match &self.state {
            ZoneState::Loaded(zone) => zone.apex(),
            ZoneState::Unavailable(apex) => apex.as_ref(),
        }
    }

    /// The zone, where it is served.
    pub fn zone(&self) -> Option<&Zone> {
        match &self.state {
            ZoneState::Loaded(zone) => Some(zone),
            ZoneState::Unavailable(_) => None,
        }
    }
}

/// Addresses that may do something: any that is in one of the prefixes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acl(pub Vec<AddressPrefix>);

/// The addresses whose first `len` bits are those of `address`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressPrefix {
    /// An address of the prefix.
    pub address: IpAddr,
    /// How many bits count: at most 32 for IPv4, 128 for IPv6.
    pub len: u8,
}

impl Acl {
    /// Whether `peer` may. An IPv4 address that comes mapped into IPv6 counts as IPv4.
    pub fn allows(&self, peer: IpAddr) -> bool {
        let peer = peer.to_canonical();
        self.0.iter().any(|prefix| prefix.contains(peer))
    }
}

impl AddressPrefix {
    /// Whether the prefix holds this address.
    pub fn contains(&self, address: IpAddr) -> bool {
        let (mine, theirs, bits) = match (self.address, address) {
            (IpAddr::V4(a), IpAddr::V4(b)) => (u128::from(a.to_bits()), u128::from(b.to_bits()), 32),
            (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits(), b.to_bits(), 128),
            _ => return false,
        };
        (mine ^ theirs).checked_shr(bits - u32::from(self.len).min(bits)).unwrap_or(0) == 0
    }
}

//----------- Zones ------------------------------------------------------------

/// A persistent map from apex to zone: a hash trie whose versions share all that did not change.
#[derive(Clone)]
pub struct ZoneMap {
    root: Branch,
    len: usize,
    /// How many zones have an apex of so many labels.
    depths: Arc<Depths>,
    /// The bits of those depths that any zone has: only such apexes are looked for.
    used_depths: u128,
    /// Whether there is a big zone, or was one.
    has_big: bool,
}

impl Default for ZoneMap {
    fn default() -> ZoneMap {
        ZoneMap { root: Branch::default(), len: 0, depths: Arc::new([0; _]), used_depths: 0, has_big: false }
    }
}

type Depths = [u32; wire::MAX_NAME_LEN / 2 + 1];

/// A node of the trie: the slots that are in use among 32, by five bits of the hash. Below [`MAX_LEVEL`], where the
/// hash is used up, a list.
#[derive(Clone, Default)]
struct Branch {
    used: u32,
    slots: Arc<[Slot]>,
}

#[derive(Clone)]
enum Slot {
    Branch(Branch),
    Zone(Arc<ServedZone>),
}

const BITS: u32 = 5;
/// Where the hash is used up.
const MAX_LEVEL: u32 = 64 / BITS;

impl ZoneMap {
    /// The zone with this apex. `apex` is the lower-case wire form.
    #[inline]
    pub fn get(&self, apex: &[u8]) -> Option<&Arc<ServedZone>> {
        let hash = hash(apex);
        let mut branch = &self.root;
        for level in 0.. {
            match &branch.slots[branch.index(apex, hash, level).ok()?] {
                Slot::Branch(next) => branch = next,
                Slot::Zone(zone) => return Some(zone).filter(|zone| zone.apex().wire() == apex),
            }
        }
        None
    }

    /// The numbers of labels that apexes have, `most` or fewer, the greatest first.
    #[inline]
    pub(crate) fn depths(&self, most: usize) -> impl Iterator<Item = usize> + use<> {
        let mut left = self.used_depths & u128::MAX >> (127 - most.min(127));
        std::iter::from_fn(move || {
            let depth = left.checked_ilog2()?;
            left ^= 1 << depth;
            Some(depth as usize)
        })
    }

    /// Adds a zone, in the place of one with the same apex. The apex must be in lower case.
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

    /// Takes a zone away; returns whether it was there.
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

    /// All zones, in no order that means anything.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<ServedZone>> {
        let mut stack: Vec<&[Slot]> = vec![&self.root.slots];
        std::iter::from_fn(move || {
            loop {
                let Some((slot, rest)) = stack.pop()?.split_first() else { continue };
                stack.push(rest);
                match slot {
                    Slot::Branch(branch) => stack.push(&branch.slots),
                    Slot::Zone(zone) => return Some(zone),
                }
            }
        })
    }

    /// The same zones in a map that shares no branch with another version: one that came about in many steps lies
    /// scattered among what those left behind.
    pub fn compacted(&self) -> ZoneMap {
        ZoneMap { root: self.root.compacted(), ..self.clone() }
    }

    /// Whether there may be a zone worth [`Zone::prefetch`].
    #[inline]
    pub(crate) fn has_big(&self) -> bool {
        self.has_big
    }

    /// How many zones there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Branch {
    /// The bit of `used`; 0 where the hash is used up.
    fn bit(hash: u64, level: u32) -> u32 {
        if level > MAX_LEVEL { 0 } else { 1 << (hash >> (level * BITS) & 31) }
    }

    /// Where the slot for `apex` is, or as an error where it would be.
    #[inline]
    fn index(&self, apex: &[u8], hash: u64, level: u32) -> Result<usize, usize> {
        if level > MAX_LEVEL {
            let is_it = |slot: &Slot| matches!(slot, Slot::Zone(zone) if zone.apex().wire() == apex);
            return self.slots.iter().position(is_it).ok_or(self.slots.len());
        }
        let bit = Branch::bit(hash, level);
        let index = (self.used & (bit - 1)).count_ones() as usize;
        if self.used & bit != 0 { Ok(index) } else { Err(index) }
    }

    fn compacted(&self) -> Branch {
        let slots = self.slots.iter().map(|slot| match slot {
            Slot::Branch(branch) => Slot::Branch(branch.compacted()),
            Slot::Zone(zone) => Slot::Zone(zone.clone()),
        });
        Branch { used: self.used, slots: slots.collect() }
    }

    /// Returns whether the apex is new.
    fn insert(&mut self, zone: Arc<ServedZone>, hash: u64, level: u32) -> bool {
        let index = match self.index(zone.apex().wire(), hash, level) {
            Ok(index) => index,
            Err(index) => {
                let (low, high) = self.slots.split_at(index);
                self.slots = low.iter().cloned().chain([Slot::Zone(zone)]).chain(high.iter().cloned()).collect();
                self.used |= Branch::bit(hash, level);
                return true;
            }
        };
        let slots = Arc::make_mut(&mut self.slots);
        match &mut slots[index] {
            Slot::Branch(branch) => branch.insert(zone, hash, level + 1),
            Slot::Zone(old) if old.apex() == zone.apex() => {
                *old = zone;
                false
            }
            Slot::Zone(old) => {
                let mut branch = Branch::default();
                branch.insert(old.clone(), self::hash(old.apex().wire()), level + 1);
                branch.insert(zone, hash, level + 1);
                slots[index] = Slot::Branch(branch);
                true
            }
        }
    }

    /// Returns whether the apex was there.
    fn remove(&mut self, apex: &[u8], hash: u64, level: u32) -> bool {
        let Ok(index) = self.index(apex, hash, level) else { return false };
        let slots = Arc::make_mut(&mut self.slots);
        let (removed, is_empty) = match &mut slots[index] {
            Slot::Branch(branch) => (branch.remove(apex, hash, level + 1), branch.slots.is_empty()),
            Slot::Zone(zone) => {
                let is_it = zone.apex().wire() == apex;
                (is_it, is_it)
            }
        };
        if removed && is_empty {
            self.used &= !Branch::bit(hash, level);
            self.slots =
                slots.iter().enumerate().filter(|(at, _)| *at != index).map(|(_, slot)| slot.clone()).collect();
        }
        removed
    }
}

const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// A hash of a lower-case name. Whoever adds zones may make them collide; that costs those zones a list, no more.
#[inline]
fn hash(apex: &[u8]) -> u64 {
    let mut hash = apex.len() as u64;
    let (chunks, rest) = apex.as_chunks::<8>();
    for &chunk in chunks {
        hash = mix(hash ^ u64::from_le_bytes(chunk), MULTIPLIER);
    }
    let last = rest.iter().rev().fold(0, |last, &octet| last << 8 | u64::from(octet));
    mix(hash ^ last, MULTIPLIER)
}

#[inline]
fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product >> 64) as u64 ^ product as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(text: &str) -> Arc<ServedZone> {
        let state = ZoneState::Unavailable(text.parse().expect("a name"));
        Arc::new(ServedZone { state, allow_transfer: Arc::default() })
    }

    fn find<'z>(zones: &'z ZoneMap, text: &str) -> Option<&'z Arc<ServedZone>> {
        zones.get(text.parse::<Name>().expect("a name").wire())
    }

    #[test]
    fn zones_come_and_go_and_old_versions_stay() {
        let mut zones = ZoneMap::default();
        let names: Vec<String> = (0..5000).map(|n| format!("z{n}.test.")).collect();
        names.iter().for_each(|name| zones.insert(missing(name)));
        zones.insert(missing("."));
        zones.insert(missing("z7.test."));
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
        let compacted = zones.compacted();
        assert_eq!((compacted.len(), compacted.iter().count()), (2501, 2501));
        assert!(zones.iter().all(|zone| compacted.get(zone.apex().wire()).is_some_and(|same| Arc::ptr_eq(same, zone))));
    }

    /// Names of one hash: the second eight octets undo what the first gave it.
    fn colliding() -> impl Iterator<Item = Arc<ServedZone>> {
        let names = (0u64..).filter_map(|n| {
            let mut wire = *b"\x0f.......--------\0";
            wire[1..8].copy_from_slice(&n.to_be_bytes()[1..]);
            let first = u64::from_le_bytes(*wire.first_chunk().expect("eight octets"));
            let second = mix(wire.len() as u64 ^ first, MULTIPLIER);
            wire[8..16].copy_from_slice(&second.to_le_bytes());
            Name::from_wire(&wire).ok().filter(|name| name.to_lowercase().wire() == wire)
        });
        names.map(|name| Arc::new(ServedZone { state: ZoneState::Unavailable(name), allow_transfer: Arc::default() }))
    }

    #[test]
    fn zones_with_the_same_hash_are_told_apart() {
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

    /// What each of a million zones costs besides its name, its records and two counts of references.
    #[test]
    #[cfg(target_pointer_width = "64")]
    fn small_zones_are_small() {
        assert_eq!((size_of::<Slot>(), size_of::<ServedZone>()), (24, 72));
    }

    #[test]
    fn prefixes_hold_what_they_say() {
        let prefix = |address: &str, len| AddressPrefix { address: address.parse().expect("an address"), len };
        let access = Acl(vec![prefix("192.0.2.0", 24), prefix("2001:db8::", 32), prefix("198.51.100.7", 32)]);
        for (address, allowed) in [
            ("192.0.2.255", true),
            ("192.0.3.0", false),
            ("::ffff:192.0.2.1", true),
            ("2001:db8:ffff::1", true),
            ("2001:db9::", false),
            ("198.51.100.7", true),
            ("198.51.100.6", false),
        ] {
            assert_eq!(access.allows(address.parse().expect("an address")), allowed, "{address}");
        }
        assert!(Acl(vec![prefix("0.0.0.0", 0)]).allows("203.0.113.1".parse().expect("an address")));
        assert!(!Acl::default().allows("127.0.0.1".parse().expect("an address")));
    }
}
