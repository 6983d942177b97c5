//! What the entries of a zone refer to by number: TTLs, and RRsets that many owners share.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use foldhash::fast::RandomState;

/// The tables of a zone; versions that share entries share them.
#[derive(Default)]
pub struct Tables {
    ttls: Box<[u32]>,
    /// Where each shared set ends in `bytes`.
    ends: Box<[u32]>,
    bytes: Box<[u8]>,
}

/// The most TTLs that have a number: one octet, of which 255 says "written in full".
pub(crate) const MAX_TTLS: usize = 255;
/// The most shared sets: three octets.
pub(crate) const MAX_SETS: usize = 1 << 24;
/// The most octets of shared sets: `ends` has four octets each.
const MAX_BYTES: u64 = u32::MAX as u64;

impl Tables {
    /// The TTL with this number, in seconds.
    #[inline]
    pub(crate) fn ttl(&self, number: u8) -> u32 {
        self.ttls[number as usize]
    }

    /// The stored bytes of the set with this number.
    #[inline]
    pub(crate) fn set(&self, number: usize) -> &[u8] {
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        &self.bytes[start..self.ends[number] as usize]
    }

    /// How many octets the tables have on the heap.
    pub fn heap_size(&self) -> usize {
        4 * (self.ttls.len() + self.ends.len()) + self.bytes.len()
    }
}

/// Gives numbers to TTLs and sets while a zone is built; used by several threads at once.
pub(crate) enum Numbering<'t> {
    /// Writes everything in full: small zones gain nothing from tables.
    None,
    /// Makes new tables.
    New(Box<Growing>),
    /// Uses the tables of the version before; what they lack is written in full.
    Old { ttls: &'t [u32], sets: HashMap<&'t [u8], u32, RandomState> },
}

pub(crate) struct Growing {
    ttls: Mutex<Vec<u32>>,
    hasher: RandomState,
    shards: [Mutex<Shard>; SHARDS],
    count: AtomicU32,
    /// How many octets may still be shared.
    room: AtomicU64,
}

/// The numbers of the sets whose hashes fall here.
type Shard = HashMap<Box<[u8]>, u32, RandomState>;

/// Enough that two threads seldom want the same one.
const SHARDS: usize = 16;

impl Numbering<'_> {
    pub(crate) fn new() -> Numbering<'static> {
        Numbering::New(Box::new(Growing {
            ttls: Mutex::default(),
            hasher: RandomState::default(),
            shards: std::array::from_fn(|_| Mutex::default()),
            count: 0.into(),
            room: MAX_BYTES.into(),
        }))
    }

    pub(crate) fn of(tables: &Tables) -> Numbering<'_> {
        let sets = (0..tables.ends.len()).map(|number| (tables.set(number), number as u32)).collect();
        Numbering::Old { ttls: &tables.ttls, sets }
    }

    /// The number of a TTL, if it has one.
    pub(crate) fn ttl(&self, ttl: u32) -> Option<u8> {
        match self {
            Numbering::None => None,
            Numbering::Old { ttls, .. } => find_ttl(ttls, ttl),
            Numbering::New(growing) => {
                let mut ttls = growing.ttls.lock().unwrap_or_else(PoisonError::into_inner);
                find_ttl(&ttls, ttl).or_else(|| {
                    let number = u8::try_from(ttls.len()).ok().filter(|&number| usize::from(number) < MAX_TTLS)?;
                    ttls.push(ttl);
                    Some(number)
                })
            }
        }
    }

    /// The number of a set, if it has one.
    pub(crate) fn set(&self, bytes: &[u8]) -> Option<u32> {
        match self {
            Numbering::None => None,
            Numbering::Old { sets, .. } => sets.get(bytes).copied(),
            Numbering::New(growing) => growing.set(bytes),
        }
    }

    /// The tables that were made. All zones that have none share one that is empty.
    pub(crate) fn finish(self) -> Arc<Tables> {
        static EMPTY: LazyLock<Arc<Tables>> = LazyLock::new(Arc::default);
        match self {
            Numbering::New(growing) => Arc::new(growing.finish()),
            _ => EMPTY.clone(),
        }
    }
}

fn find_ttl(ttls: &[u32], ttl: u32) -> Option<u8> {
    ttls.iter().position(|&known| known == ttl).map(|number| number as u8)
}

impl Growing {
    fn set(&self, bytes: &[u8]) -> Option<u32> {
        let hash = self.hasher.hash_one(bytes);
        let mut shard = self.shards[hash as usize % SHARDS].lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&number) = shard.get(bytes) {
            return Some(number);
        }
        self.room.fetch_update(Relaxed, Relaxed, |room| room.checked_sub(bytes.len() as u64)).ok()?;
        let number = self.count.fetch_add(1, Relaxed);
        if number as usize >= MAX_SETS {
            return None;
        }
        shard.insert(bytes.into(), number);
        Some(number)
    }

    fn finish(self) -> Tables {
        let shards = self.shards.map(|shard| shard.into_inner().unwrap_or_else(PoisonError::into_inner));
        let mut sets: Vec<_> = shards.iter().flatten().collect();
        sets.sort_unstable_by_key(|(_, number)| **number);
        let mut bytes = Vec::with_capacity(sets.iter().map(|(set, _)| set.len()).sum());
        let ends = sets.iter().map(|(set, _)| {
            bytes.extend_from_slice(set);
            bytes.len() as u32
        });
        let ends = ends.collect();
        let ttls = self.ttls.into_inner().unwrap_or_else(PoisonError::into_inner);
        Tables { ttls: ttls.into(), ends, bytes: bytes.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_beyond_the_reach_of_the_ends_is_not_shared() {
        let Numbering::New(mut growing) = Numbering::new() else { unreachable!("new tables are new") };
        growing.room = 10.into();
        assert_eq!(growing.set(b"1234"), Some(0));
        assert_eq!(growing.set(b"1234567"), None);
        assert_eq!(growing.set(b"123456"), Some(1));
        assert_eq!(growing.set(b"1"), None);
        assert_eq!(growing.set(b"1234"), Some(0));
        let tables = growing.finish();
        assert_eq!((tables.set(0), tables.set(1)), (&b"1234"[..], &b"123456"[..]));
    }
}
