//! Interning: TTLs, and RRsets that recur on many owners (NS, MX, TXT...), are stored once and referred to by number.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};

use foldhash::fast::RandomState;
use hashbrown::HashTable;

/// The interned TTLs and RRsets of a zone, shared by the versions that refer to them.
#[derive(Default)]
pub struct InternTables {
    ttls: Box<[u32]>,
    /// The end of each RRset in `bytes`.
    ends: Box<[u32]>,
    bytes: Box<[u8]>,
    /// Built at the first change of the zone, so that a zone that never changes does not pay for it.
    index: OnceLock<RrsetIndex>,
}

/// Finds the number of an interned RRset.
struct RrsetIndex {
    hasher: RandomState,
    numbers: HashTable<u32>,
}

/// The most interned TTLs: the number is one octet, and 255 means "not interned".
const MAX_TTLS: usize = 255;
/// The most interned RRsets: the number has three octets.
const MAX_RRSETS: usize = 1 << 24;
/// The most octets of interned RRsets, as `ends` are u32.
const MAX_BYTES: u64 = u32::MAX as u64;

impl InternTables {
    /// The TTL with this number, in seconds.
    #[inline]
    pub(crate) fn ttl(&self, number: u8) -> u32 {
        self.ttls[number as usize]
    }

    /// The stored form of the RRset with this number.
    #[inline]
    pub(crate) fn rrset(&self, number: usize) -> &[u8] {
        let start = number.checked_sub(1).map_or(0, |previous| self.ends[previous] as usize);
        &self.bytes[start..self.ends[number] as usize]
    }

    /// Whether there is a TTL with this number.
    #[inline]
    pub(crate) fn has_ttl(&self, number: u8) -> bool {
        usize::from(number) < self.ttls.len()
    }

    /// The TTLs by number.
    pub(crate) fn ttls(&self) -> &[u32] {
        &self.ttls
    }

    /// The tables of these TTLs and of RRsets given as their concatenation and the end of each; `None` if they do not fit together.
    pub(crate) fn from_parts(ttls: Vec<u32>, ends: Vec<u32>, bytes: Vec<u8>) -> Option<InternTables> {
        let is_good = ttls.len() <= MAX_TTLS
            && ends.len() <= MAX_RRSETS
            && ends.is_sorted()
            && ends.last().map_or(0, |&end| end as usize) == bytes.len();
        let (ttls, ends, bytes) = (ttls.into(), ends.into(), bytes.into());
        is_good.then_some(InternTables { ttls, ends, bytes, index: OnceLock::new() })
    }

    /// Shares the tables; all zones without interned data share an empty one.
    pub(crate) fn shared(self) -> Arc<InternTables> {
        static EMPTY: LazyLock<Arc<InternTables>> = LazyLock::new(Arc::default);
        if self.ttls.is_empty() && self.ends.is_empty() { EMPTY.clone() } else { Arc::new(self) }
    }

    /// How many RRsets are interned.
    pub(crate) fn rrset_count(&self) -> usize {
        self.ends.len()
    }

    /// Frees what was built to find RRsets; it is built again when needed.
    pub(crate) fn forget_index(&mut self) {
        self.index = OnceLock::new();
    }

    /// The number of an RRset in stored form.
    fn find_rrset(&self, bytes: &[u8]) -> Option<u32> {
        self.index.get_or_init(|| RrsetIndex::new(self)).find(self, bytes)
    }

    /// The heap size in octets.
    pub fn heap_size(&self) -> usize {
        let index = self.index.get().map_or(0, |index| index.numbers.allocation_size());
        4 * (self.ttls.len() + self.ends.len()) + self.bytes.len() + index
    }
}

impl RrsetIndex {
    fn new(tables: &InternTables) -> RrsetIndex {
        let count = tables.ends.len();
        let (hasher, mut numbers) = (RandomState::default(), HashTable::with_capacity(count));
        let hash_of = |number: &u32| hasher.hash_one(tables.rrset(*number as usize));
        for number in 0..count as u32 {
            numbers.insert_unique(hash_of(&number), number, hash_of);
        }
        RrsetIndex { hasher, numbers }
    }

    fn find(&self, tables: &InternTables, bytes: &[u8]) -> Option<u32> {
        self.numbers.find(self.hasher.hash_one(bytes), |number| tables.rrset(*number as usize) == bytes).copied()
    }
}

/// Interns TTLs and RRsets while a zone is built, from several threads at once.
pub(crate) enum Interner<'t> {
    /// Interns nothing: small zones save nothing.
    Disabled,
    /// Builds new tables.
    New(Box<NewTables>),
    /// Uses the tables of the previous version without adding to them.
    Existing(&'t InternTables),
}

pub(crate) struct NewTables {
    ttls: Mutex<Vec<u32>>,
    hasher: RandomState,
    shards: [Mutex<Shard>; SHARDS],
    count: AtomicU32,
    /// How many more octets of RRsets may be interned.
    room: AtomicU64,
}

/// The numbers of the RRsets in this shard.
type Shard = HashMap<Box<[u8]>, u32, RandomState>;

/// Enough shards that threads rarely contend for one.
const SHARDS: usize = 16;

impl Interner<'_> {
    pub(crate) fn new() -> Interner<'static> {
        Interner::New(Box::new(NewTables {
            ttls: Mutex::default(),
            hasher: RandomState::default(),
            shards: std::array::from_fn(|_| Mutex::default()),
            count: 0.into(),
            room: MAX_BYTES.into(),
        }))
    }

    pub(crate) fn existing(tables: &InternTables) -> Interner<'_> {
        Interner::Existing(tables)
    }

    /// Whether everything that is interned gets a number.
    pub(crate) fn is_new(&self) -> bool {
        matches!(self, Interner::New(_))
    }

    /// The number of a TTL; `None` if it is not interned.
    pub(crate) fn ttl(&self, ttl: u32) -> Option<u8> {
        match self {
            Interner::Disabled => None,
            Interner::Existing(tables) => find_ttl(&tables.ttls, ttl),
            Interner::New(tables) => {
                let mut ttls = tables.ttls.lock().unwrap_or_else(PoisonError::into_inner);
                find_ttl(&ttls, ttl).or_else(|| {
                    let number = u8::try_from(ttls.len()).ok().filter(|&number| usize::from(number) < MAX_TTLS)?;
                    ttls.push(ttl);
                    Some(number)
                })
            }
        }
    }

    /// The number of an RRset in stored form; `None` if it is not interned.
    pub(crate) fn rrset(&self, bytes: &[u8]) -> Option<u32> {
        match self {
            Interner::Disabled => None,
            Interner::Existing(tables) => tables.find_rrset(bytes),
            Interner::New(tables) => tables.rrset(bytes),
        }
    }

    /// The octets of the RRsets that were interned.
    pub(crate) fn octets(&self) -> usize {
        match self {
            Interner::New(tables) => (MAX_BYTES - tables.room.load(Relaxed)) as usize,
            _ => 0,
        }
    }

    /// The new tables.
    pub(crate) fn finish(self) -> Arc<InternTables> {
        match self {
            Interner::New(tables) => tables.finish().shared(),
            _ => InternTables::default().shared(),
        }
    }
}

fn find_ttl(ttls: &[u32], ttl: u32) -> Option<u8> {
    ttls.iter().position(|&known| known == ttl).map(|number| number as u8)
}

impl NewTables {
    fn rrset(&self, bytes: &[u8]) -> Option<u32> {
        let hash = self.hasher.hash_one(bytes);
        let mut shard = self.shards[hash as usize % SHARDS].lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&number) = shard.get(bytes) {
            return Some(number);
        }
        self.room.fetch_update(Relaxed, Relaxed, |room| room.checked_sub(bytes.len() as u64)).ok()?;
        let number = self.count.fetch_add(1, Relaxed);
        if number as usize >= MAX_RRSETS {
            return None;
        }
        shard.insert(bytes.into(), number);
        Some(number)
    }

    fn finish(self) -> InternTables {
        let shards = self.shards.map(|shard| shard.into_inner().unwrap_or_else(PoisonError::into_inner));
        let mut rrsets: Vec<_> = shards.iter().flatten().collect();
        rrsets.sort_unstable_by_key(|(_, number)| **number);
        let mut bytes = Vec::with_capacity(rrsets.iter().map(|(rrset, _)| rrset.len()).sum());
        let ends = rrsets.iter().map(|(rrset, _)| {
            bytes.extend_from_slice(rrset);
            bytes.len() as u32
        });
        let ends = ends.collect();
        let ttls = self.ttls.into_inner().unwrap_or_else(PoisonError::into_inner);
        InternTables { ttls: ttls.into(), ends, bytes: bytes.into(), index: OnceLock::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_interned_rrsets_is_limited() {
        let Interner::New(mut tables) = Interner::new() else { unreachable!("new tables are new") };
        tables.room = 10.into();
        assert_eq!(tables.rrset(b"1234"), Some(0));
        assert_eq!(tables.rrset(b"1234567"), None);
        assert_eq!(tables.rrset(b"123456"), Some(1));
        assert_eq!(tables.rrset(b"1"), None);
        assert_eq!(tables.rrset(b"1234"), Some(0));
        let tables = tables.finish();
        assert_eq!((tables.rrset(0), tables.rrset(1)), (&b"1234"[..], &b"123456"[..]));
    }
}
