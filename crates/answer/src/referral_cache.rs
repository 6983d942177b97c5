//! ReferralCache that a worker gave of late, ready to be copied: a root or a busy TLD gives few of them very often.
//!
//! What a referral says behind the question depends on the cut alone. Below a longer name it stands farther back, and
//! every pointer in it is greater by the same number. What was given whole is kept, from the second time on: so a
//! stream of cuts that do not come again costs next to nothing.

use std::sync::{Arc, Weak};

use wire::Rtype;
use zone::rrset::RECORD_HEAD_LEN;
use zone::tree::TreeEntry;

use crate::MAX_UDP;
use crate::message::{Message, Section};
use crate::served::Served;

/// How many places there are for referrals: with DNSSEC and without, the root needs two thirds of those that may be used.
const PLACES: usize = 1 << PLACE_BITS;
const PLACE_BITS: u32 = 12;
/// Fewer free places would make searches long.
const MAX_KEPT: usize = PLACES / 4 * 3;
/// The octets of all that is kept.
const ROOM: usize = 1 << 20;
/// How many cuts are known to have been asked for once.
const NOTICED: usize = 1 << NOTICED_BITS;
const NOTICED_BITS: u32 = 9;

/// What one worker keeps. What is not used of it yet costs no memory.
pub(crate) struct ReferralCache {
    /// The version that the cuts are of. As long as it is known here, no later one has its address.
    version: Weak<Served>,
    /// A hash table with linear probing: [`PLACES`], or none as long as nothing is kept.
    places: Vec<Place>,
    kept: usize,
    /// The records of each referral, and behind them where its pointers stand, two octets each. Never longer than [`ROOM`].
    octets: Vec<u8>,
    /// The last cuts that were not kept.
    noticed: [Cut; NOTICED],
}

/// The referral of a cut; free if it has no octets.
#[derive(Clone, Copy, Default)]
struct Place {
    cut: Cut,
    /// Where its records are among the octets.
    start: u32,
    len: u16,
    pointers: u16,
    authorities: u16,
    additionals: u16,
    /// Where the name of the cut stood in the message.
    owner: u16,
}

/// A cut of the version at hand, with or without DNSSEC.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Cut(u64);

impl Cut {
    #[inline]
    pub(crate) fn new(entry: &TreeEntry<'_>, dnssec: bool) -> Cut {
        Cut((entry.value.as_ptr() as u64) << 1 | u64::from(dnssec))
    }

    /// Fibonacci hashing: the high bits of the product depend on all bits.
    #[inline]
    fn hash(self, bits: u32) -> usize {
        (self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits)) as usize
    }
}

impl ReferralCache {
    pub(crate) fn new() -> ReferralCache {
        ReferralCache {
            version: Weak::new(),
            places: Vec::with_capacity(PLACES),
            kept: 0,
            octets: Vec::with_capacity(ROOM),
            noticed: [Cut::default(); NOTICED],
        }
    }

    /// Forgets what is not of this version.
    #[inline]
    pub(crate) fn keep_to(&mut self, version: &Arc<Served>) {
        if !std::ptr::eq(self.version.as_ptr(), Arc::as_ptr(version)) {
            self.version = Arc::downgrade(version);
            self.noticed.fill(Cut::default());
            self.forget();
        }
    }

    #[cold]
    fn forget(&mut self) {
        self.places.clear();
        self.octets.clear();
        self.kept = 0;
    }

    /// The place of the cut, or the free one where it would be; `None` as long as nothing is kept.
    #[inline]
    fn place(&self, cut: Cut) -> Option<usize> {
        let mut index = cut.hash(PLACE_BITS);
        loop {
            let place = self.places.get(index)?;
            if place.cut == cut || place.len == 0 {
                return Some(index);
            }
            index = (index + 1) % PLACES;
        }
    }

    /// Adds the referral to a message that has the question alone, with the name of the cut at `owner`; returns whether
    /// it was known and fits.
    #[inline]
    pub(crate) fn add(&self, cut: Cut, owner: usize, message: &mut Message<'_>) -> bool {
        let Some(place) = self.place(cut).map(|index| &self.places[index]) else { return false };
        let len = usize::from(place.len);
        if len == 0 || len > message.room() {
            return false;
        }
        let (records, pointers) = self.octets[place.start as usize..].split_at(len);
        let added = &mut message.out[message.at..message.at + len];
        added.copy_from_slice(records);
        let shift = (owner as u16).wrapping_sub(place.owner);
        if shift != 0 {
            for at in &pointers.as_chunks().0[..usize::from(place.pointers)] {
                if let Some(pointer) = added[usize::from(u16::from_ne_bytes(*at))..].first_chunk_mut() {
                    *pointer = u16::from_be_bytes(*pointer).wrapping_add(shift).to_be_bytes();
                }
            }
        }
        message.at += len;
        message.counts[Section::Authority as usize] = place.authorities;
        message.counts[Section::Additional as usize] = place.additionals;
        true
    }

    /// Takes note of a referral that was given whole, as what `message` has from `start` on; keeps it the second time.
    pub(crate) fn note(&mut self, cut: Cut, owner: usize, message: &Message<'_>, start: usize) {
        let records = &message.out[start..message.at];
        let last = std::mem::replace(&mut self.noticed[cut.hash(NOTICED_BITS)], cut);
        if last != cut || records.is_empty() || records.len() > MAX_UDP {
            return;
        }
        // A pointer takes two octets of the records, and two behind them.
        if self.kept == MAX_KEPT || self.octets.len() + 2 * records.len() > ROOM {
            self.forget();
        }
        self.places.resize(PLACES, Place::default());
        let Some(index) = self.place(cut).filter(|index| self.places[*index].len == 0) else { return };
        let [_, authorities, additionals] = message.counts;
        let (start, len) = (self.octets.len() as u32, records.len() as u16);
        self.octets.extend_from_slice(records);
        let pointers = append_pointers(records, &mut self.octets);
        self.places[index] = Place { cut, start, len, pointers, authorities, additionals, owner: owner as u16 };
        self.kept += 1;
    }
}

/// Appends where the compression pointers stand in the records of a referral; returns how many there are.
/// NS is the one type in there with names that may be compressed (RFC 3597 4).
fn append_pointers(records: &[u8], found: &mut Vec<u8>) -> u16 {
    let (mut at, mut count) = (0, 0);
    let mut skip_name = |mut at: usize| {
        while records[at] & 0xc0 == 0 {
            let len = usize::from(records[at]);
            at += 1 + len;
            if len == 0 {
                return at;
            }
        }
        found.extend_from_slice(&(at as u16).to_ne_bytes());
        count += 1;
        at + 2
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
