//! A cache of referrals: a root or busy TLD server sends few different ones very often, and their glue is most of the work.
//!
//! The records of a referral depend on the cut alone. After a longer name in the question they start later, and every
//! pointer in them is greater by the same number. A worker caches complete referrals from the second time they are sent,
//! so that a stream of different cuts costs next to nothing. They are found by name, so that those at the top of a small zone
//! need no search in its tree.

use wire::Rtype;
use wire::message::Section;
use wire::name::labels_end;
use zone::ZoneVersion;
use zone::rrset::RECORD_HEAD_LEN;

use crate::message_writer::MessageWriter;
use crate::name_hash::{self, MULTIPLIER};
use crate::request::MAX_UDP;

/// The slots of the hash table. With and without DNSSEC, the root zone needs two thirds of [`MAX_USED_SLOTS`].
const SLOTS: usize = 1 << SLOT_BITS;
const SLOT_BITS: u32 = 12;
/// Fewer free slots would make probe sequences long.
const MAX_USED_SLOTS: usize = SLOTS / 4 * 3;
/// How many slots are searched. An author of a zone can make names collide; those that find no slot here are not cached.
const MAX_PROBES: usize = 32;
/// The cache is asked before the tree while more than one of nine referrals is cached: a cached one outweighs eight others.
const HIT_WEIGHT: u8 = 8;
/// The balance of referrals that were not cached from which on the cache is of no use.
const MAX_MISSES: u8 = 64;
/// The octets of all cached names, records and pointer offsets.
const MAX_OCTETS: usize = 1 << 20;
/// How many cuts are remembered as sent once.
const CANDIDATES: usize = 1 << CANDIDATE_BITS;
const CANDIDATE_BITS: u32 = 9;

/// The referral cache of one worker. Capacity that is not used costs no memory.
pub(crate) struct ReferralCache {
    /// A hash table with linear probing: [`SLOTS`] slots, or none while the cache is empty.
    slots: Vec<CacheSlot>,
    used_slots: usize,
    /// For each referral the name of its cut, its records, and then the offsets of their compression pointers, two octets each.
    octets: Vec<u8>,
    /// The last cuts that were sent and not cached.
    candidates: [CutHash; CANDIDATES],
    /// Referrals that were not cached, less [`HIT_WEIGHT`] for each that was.
    misses: u8,
    /// Counts referrals.
    turn: u8,
}

/// A cached referral; free if `len` is 0.
#[derive(Clone, Copy, Default)]
struct CacheSlot {
    cut: CutHash,
    /// Where the name of its cut starts in `octets`; its records follow.
    start: u32,
    len: u16,
    pointers: u16,
    authorities: u16,
    additionals: u16,
    /// Where the cached message had the name of the cut.
    cut_at: u16,
    name_len: u8,
}

/// A cut of one version of a zone, with or without DNSSEC. Glue may be anywhere in the zone, so that a cached referral is valid
/// for one version; those of other zones stay. Referrals of old versions are forgotten when the cache is full.
#[derive(Clone, Copy)]
pub(crate) struct CutId<'n> {
    /// In lower case.
    pub(crate) name: &'n [u8],
    pub(crate) hash: CutHash,
}

/// A [`CutId`] with a hash in the place of the name.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CutHash {
    name: u64,
    version: ZoneVersion,
    dnssec: bool,
}

impl CutHash {
    /// `name` is that of the cut in lower case.
    #[inline]
    pub(crate) fn new(name: &[u8], version: ZoneVersion, dnssec: bool) -> CutHash {
        CutHash { name: name_hash::hash(name), version, dnssec }
    }

    /// Fibonacci hashing: the high bits of the product depend on all bits.
    #[inline]
    fn bits(self, bits: u32) -> usize {
        let id = self.name.wrapping_add(self.version.0 << 1 | u64::from(self.dnssec));
        (id.wrapping_mul(MULTIPLIER) >> (64 - bits)) as usize
    }
}

impl Default for ReferralCache {
    fn default() -> ReferralCache {
        ReferralCache {
            slots: Vec::with_capacity(SLOTS),
            used_slots: 0,
            octets: Vec::with_capacity(MAX_OCTETS),
            candidates: [CutHash::default(); CANDIDATES],
            misses: 0,
            turn: 0,
        }
    }
}

impl ReferralCache {
    #[cold]
    fn clear(&mut self) {
        self.slots.clear();
        self.octets.clear();
        self.used_slots = 0;
    }

    /// Whether many referrals are cached, so that asking for a name before the search in the tree pays off.
    #[inline]
    pub(crate) fn is_effective(&self) -> bool {
        !self.slots.is_empty() && self.misses < MAX_MISSES
    }

    /// Whether to ask for this cut, and to note its referral. In a TLD with a million cuts that is mostly in vain; then every eighth
    /// shows whether it still is.
    #[inline]
    pub(crate) fn takes_part(&mut self) -> bool {
        self.turn = self.turn.wrapping_add(1);
        self.misses < MAX_MISSES || self.turn.is_multiple_of(8)
    }

    /// Counts a referral.
    #[inline]
    pub(crate) fn count(&mut self, is_cached: bool) {
        self.misses =
            if is_cached { self.misses.saturating_sub(HIT_WEIGHT) } else { (self.misses + 1).min(MAX_MISSES) };
    }

    /// The slot of the cut, or the free one where it belongs; `None` if there is neither.
    #[inline]
    fn slot(&self, cut: CutId<'_>) -> Option<usize> {
        let mut index = cut.hash.bits(SLOT_BITS);
        for _ in 0..MAX_PROBES {
            let slot = self.slots.get(index)?;
            if slot.len == 0 || slot.cut == cut.hash && self.name(slot) == cut.name {
                return Some(index);
            }
            index = (index + 1) % SLOTS;
        }
        None
    }

    #[inline]
    fn name(&self, slot: &CacheSlot) -> &[u8] {
        &self.octets[slot.start as usize..][..usize::from(slot.name_len)]
    }

    /// Writes the cached referral to a message that has the question alone, with the name of the cut at `cut_at`; returns
    /// whether there is one and it fits.
    #[inline]
    pub(crate) fn write(&self, cut: CutId<'_>, cut_at: usize, message: &mut MessageWriter<'_>) -> bool {
        let Some(slot) = self.slot(cut).map(|index| &self.slots[index]) else { return false };
        let len = usize::from(slot.len);
        if len == 0 || len > message.room() {
            return false;
        }
        let (records, pointers) = self.octets[slot.start as usize + usize::from(slot.name_len)..].split_at(len);
        let written = &mut message.out[message.at..message.at + len];
        written.copy_from_slice(records);
        let shift = (cut_at as u16).wrapping_sub(slot.cut_at);
        if shift != 0 {
            for at in &pointers.as_chunks().0[..usize::from(slot.pointers)] {
                if let Some(pointer) = written[usize::from(u16::from_ne_bytes(*at))..].first_chunk_mut() {
                    *pointer = u16::from_be_bytes(*pointer).wrapping_add(shift).to_be_bytes();
                }
            }
        }
        message.at += len;
        message.counts[Section::Authority as usize] = slot.authorities;
        message.counts[Section::Additional as usize] = slot.additionals;
        true
    }

    /// Notes a complete referral, which `message` has from `start` on; caches it the second time.
    pub(crate) fn note(&mut self, cut: CutId<'_>, cut_at: usize, message: &MessageWriter<'_>, start: usize) {
        let records = &message.out[start..message.at];
        let last = std::mem::replace(&mut self.candidates[cut.hash.bits(CANDIDATE_BITS)], cut.hash);
        if last != cut.hash || records.is_empty() || records.len() > MAX_UDP {
            return;
        }
        // A pointer is two octets, and its offset two more.
        if self.used_slots == MAX_USED_SLOTS || self.octets.len() + cut.name.len() + 2 * records.len() > MAX_OCTETS {
            self.clear();
        }
        self.slots.resize(SLOTS, CacheSlot::default());
        let Some(index) = self.slot(cut).filter(|index| self.slots[*index].len == 0) else { return };
        let [_, authorities, additionals] = message.counts;
        let (start, len) = (self.octets.len() as u32, records.len() as u16);
        self.octets.extend_from_slice(cut.name);
        self.octets.extend_from_slice(records);
        let pointers = append_pointers(records, &mut self.octets);
        self.slots[index] = CacheSlot {
            cut: cut.hash,
            start,
            len,
            pointers,
            authorities,
            additionals,
            cut_at: cut_at as u16,
            name_len: cut.name.len() as u8,
        };
        self.used_slots += 1;
    }
}

/// Appends the offsets of the compression pointers in the records of a referral; returns how many there are.
/// NS is the only type in a referral whose RDATA may be compressed (RFC 3597 4).
fn append_pointers(records: &[u8], offsets: &mut Vec<u8>) -> u16 {
    let (mut at, mut count) = (0, 0);
    let mut skip_name = |at: usize| {
        let end = labels_end(records, at);
        if records[end] == 0 {
            return end + 1;
        }
        offsets.extend_from_slice(&(end as u16).to_ne_bytes());
        count += 1;
        end + 2
    };
    while at < records.len() {
        let head = skip_name(at);
        let rdata = head + RECORD_HEAD_LEN - 2;
        let is_ns = records[head..head + 2] == Rtype::NS.0.to_be_bytes();
        let len = u16::from_be_bytes([records[rdata - 2], records[rdata - 1]]);
        at = if is_ns { skip_name(rdata) } else { rdata + usize::from(len) };
    }
    count
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::sync::Arc;

    use wire::{Name, Rtype};
    use zone::change::{ChangeRules, ChangeSet};
    use zone::load::load_text;
    use zone::{CheckMode, Zone};

    use super::*;
    use crate::{Request, Response, Served, ServedZone, Transport, WorkerState, ZoneState, respond};

    fn zone(apex: &str) -> Zone {
        let apex: Name = apex.parse().expect("a name");
        // The glue is far from the cut.
        let hosts = (0..2000).fold(String::new(), |text, n| format!("{text}h{n} A 192.0.2.9\n"));
        let text = format!("$TTL 60\n@ SOA . . 1 1 1 1 1\n@ NS ns\ncut NS zz\nzz A 192.0.2.1\n{hosts}");
        load_text(apex.as_ref(), text.as_bytes()).zone.expect("a valid zone")
    }

    fn with_glue(zone: &Zone, address: u8) -> Zone {
        let mut change = ChangeSet::new(zone.apex());
        let server = Name::from_text(b"zz", Some(zone.apex())).expect("a name");
        change.remove(server.as_ref(), Rtype::A, &[192, 0, 2, 1]).expect("in the zone");
        change.add(server.as_ref(), Rtype::A, 60, &[192, 0, 2, address]).expect("in the zone");
        let rules = ChangeRules { check_mode: CheckMode::default(), nsec3_max_iterations: 0 };
        zone.apply(change, rules).unwrap_or_else(|error| panic!("{error:?}")).zone
    }

    fn served(zones: [&Zone; 2]) -> Arc<Served> {
        let mut served = Served::default();
        for zone in zones {
            let state = ZoneState::Loaded(zone.clone());
            served.zones.insert(Arc::new(ServedZone::new(state, Arc::default())));
        }
        Arc::new(served)
    }

    /// The response to a question.
    fn ask(served: &Arc<Served>, worker: &mut WorkerState, name: &[u8], rtype: Rtype) -> Vec<u8> {
        let header = [0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        let query = [&header, name, &rtype.0.to_be_bytes(), &[0, 1]].concat();
        let mut out = [0; MAX_UDP];
        let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let request = Request { message: &query, peer, transport: Transport::Udp, now_s: 0 };
        match respond(served, worker, request, &mut out) {
            Response::Send(len) => out[..len].to_vec(),
            _ => panic!("no answer"),
        }
    }

    /// The last octet of the glue in the referral to `cut` of the zone `name`, after asking three times.
    fn glue(served: &Arc<Served>, worker: &mut WorkerState, name: u8) -> u8 {
        let name = [&b"\x03cut\x01"[..], &[name, 0]].concat();
        let responses = [(); 3].map(|()| ask(served, worker, &name, Rtype::A));
        responses[2].last().copied().expect("an address")
    }

    #[test]
    fn a_change_of_a_zone_keeps_the_referrals_of_others_but_none_of_its_own() {
        let (a, b, mut worker) = (zone("a."), zone("b."), WorkerState::new());
        let first = served([&a, &b]);
        assert_eq!([b'a', b'b'].map(|name| glue(&first, &mut worker, name)), [1, 1]);
        assert_eq!(worker.referral_cache.used_slots, 2);
        let changed = with_glue(&b, 2);
        let cut = |zone: &Zone| zone.get(b"cut\0").map(|node| node.rrset(Rtype::NS).map(|set| set.count));
        assert_eq!(cut(&b), cut(&changed));
        let second = served([&a, &changed]);
        assert_eq!([b'a', b'b'].map(|name| glue(&second, &mut worker, name)), [1, 2]);
        assert_eq!(worker.referral_cache.used_slots, 3, "the referral of a. was not cached again");
    }

    /// The same question gets the same response with an empty cache as with one that has the referral to `cut.a.`.
    #[test]
    fn referrals_found_by_name_are_those_of_the_tree() {
        let zone = zone("a.");
        let served = served([&zone, &zone]);
        let mut filled = WorkerState::new();
        (0..2).for_each(|_| _ = ask(&served, &mut filled, b"\x03cut\x01a\0", Rtype::A));
        assert!(filled.referral_cache.is_effective());
        for name in [&b"\x03cut\x01a\0"[..], b"\x03CUT\x01A\0", b"\x01x\x03cut\x01a\0", b"\x04xcut\x01a\0", b"\x01a\0"]
        {
            for rtype in [Rtype::A, Rtype::NS, Rtype::DS, Rtype::ANY] {
                let by_tree = ask(&served, &mut WorkerState::new(), name, rtype);
                assert_eq!(ask(&served, &mut filled, name, rtype), by_tree, "{name:?} {rtype:?}");
            }
        }
        assert_eq!(filled.referral_cache.used_slots, 1);
    }

    #[test]
    fn cuts_whose_hashes_collide_keep_their_own_referrals() {
        let mut cache = ReferralCache::default();
        let names: Vec<[u8; 3]> = (0..40).map(|n| [1, n, 0]).collect();
        let cut = |name| CutId { name, hash: CutHash { name: 7, ..CutHash::default() } };
        let record = |n: u8| [&[0, 0, 2, 0, 1, 0, 0, 0, 60, 0, 3, 1][..], &[n, 0]].concat();
        for (n, name) in (0..).zip(&names) {
            let mut octets = record(n);
            let mut message = MessageWriter::new(&mut octets, 0, 512);
            message.at = message.out.len();
            (0..2).for_each(|_| cache.note(cut(&name[..]), 12, &message, 0));
        }
        let found = names.iter().zip(0..).filter(|(name, n)| {
            let mut octets = [0; 512];
            let mut message = MessageWriter::new(&mut octets, 0, 512);
            cache.write(cut(&name[..]), 12, &mut message) && message.out[..message.at] == record(*n)
        });
        assert_eq!(found.count(), MAX_PROBES);
        assert_eq!(cache.used_slots, MAX_PROBES, "no slot is searched for without end");
    }

    #[test]
    fn a_cache_that_is_of_no_use_is_rarely_asked() {
        let mut cache = ReferralCache::default();
        cache.slots.resize(SLOTS, CacheSlot::default());
        (0..MAX_MISSES).for_each(|_| cache.count(false));
        assert!(!cache.is_effective());
        assert_eq!((0..80).filter(|_| cache.takes_part()).count(), 10);
        cache.count(true);
        assert!(cache.is_effective() && cache.takes_part());
    }
}
