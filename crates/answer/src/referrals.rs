//! Referrals that a worker gave of late, ready to be copied: a root or a busy TLD gives few of them very often.
//!
//! What a referral says behind the question depends on the cut alone. Below a longer name it stands farther back, and
//! every pointer in it is greater by the same number. What was given whole is kept, from the second time on: so a
//! stream of cuts that do not come again costs next to nothing.

use std::sync::{Arc, Weak};

use wire::Rtype;
use zone::rrset::RECORD_HEAD_LEN;
use zone::tree::Entry;

use crate::MAX_UDP;
use crate::message::{Message, Section};
use crate::served::Served;

/// How many cuts are known at most: about as many as the root has.
const PLACES: usize = 1 << PLACE_BITS;
const PLACE_BITS: u32 = 11;
/// The octets of all that is kept. What stays unused of it costs no memory.
const ROOM: usize = 1 << 20;

/// What one worker keeps.
pub(crate) struct Referrals {
    /// The version that the cuts are of. As long as it is known here, no later one has its address.
    version: Weak<Served>,
    places: Box<[Place]>,
    /// The records of each referral, and behind them where its pointers stand, two octets each. Never longer than [`ROOM`].
    octets: Vec<u8>,
}

/// The referral of a cut; as long as it has no octets, it was given once.
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
    pub(crate) fn new(entry: &Entry<'_>, dnssec: bool) -> Cut {
        Cut((entry.value.as_ptr() as u64) << 1 | u64::from(dnssec))
    }

    /// Fibonacci hashing: the high bits of the product depend on all bits.
    #[inline]
    fn place(self) -> usize {
        (self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - PLACE_BITS)) as usize
    }
}

impl Referrals {
    pub(crate) fn new() -> Referrals {
        let places = vec![Place::default(); PLACES].into();
        Referrals { version: Weak::new(), places, octets: Vec::with_capacity(ROOM) }
    }

    /// Forgets what is not of this version.
    #[inline]
    pub(crate) fn keep_to(&mut self, version: &Arc<Served>) {
        if !std::ptr::eq(self.version.as_ptr(), Arc::as_ptr(version)) {
            self.version = Arc::downgrade(version);
            self.forget();
        }
    }

    #[cold]
    fn forget(&mut self) {
        self.places.fill(Place::default());
        self.octets.clear();
    }

    /// Adds the referral to a message that has the question alone, with the name of the cut at `owner`; returns whether
    /// it was known and fits.
    #[inline]
    pub(crate) fn add(&self, cut: Cut, owner: usize, message: &mut Message<'_>) -> bool {
        let place = &self.places[cut.place()];
        let len = usize::from(place.len);
        if place.cut != cut || len == 0 || len > message.room() {
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
        let is_known = self.places[cut.place()].cut == cut;
        let mut place = Place { cut, ..Place::default() };
        if is_known && records.len() <= MAX_UDP {
            // No record has more pointers than it has two octets.
            if self.octets.len() + 2 * records.len() > ROOM {
                self.forget();
            }
            let [_, authorities, additionals] = message.counts;
            let (start, len) = (self.octets.len() as u32, records.len() as u16);
            self.octets.extend_from_slice(records);
            let pointers = append_pointers(records, &mut self.octets);
            place = Place { cut, start, len, pointers, authorities, additionals, owner: owner as u16 };
        }
        self.places[cut.place()] = place;
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
