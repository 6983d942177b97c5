//! Interning: the heads of RRsets, and RRsets that recur on many owners (NS, MX, TXT...), are stored once and referred to by number.

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::rrset_head::{self, RrsetHead};

/// The interned heads and RRsets of a zone, shared by the versions that refer to them.
#[derive(Default)]
pub struct InternTables {
    heads: Box<[RrsetHead]>,
    /// The heads are those of [`rrset_head`].
    has_standard_heads: bool,
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

/// The most interned heads: the number is one octet, and 255 means "not interned".
pub(crate) const MAX_HEADS: usize = 255;
/// The most interned RRsets: the number has three octets.
const MAX_RRSETS: usize = 1 << 24;
/// The most parts of RRsets that are interned.
const MAX_PARTS: u32 = 4096;
/// The most octets of interned RRsets, as `ends` are u32.
const MAX_BYTES: u64 = u32::MAX as u64;

impl InternTables {
    /// The head with this number.
    #[inline]
    pub(crate) fn head(&self, number: u8) -> RrsetHead {
        self.heads[usize::from(number)]
    }

    /// The stored form of the RRset with this number.
    #[inline]
    pub(crate) fn rrset(&self, number: usize) -> &[u8] {
        let start = number.checked_sub(1).map_or(0, |previous| self.ends[previous] as usize);
        &self.bytes[start..self.ends[number] as usize]
    }

    /// The heads by number.
    pub(crate) fn heads(&self) -> &[RrsetHead] {
        &self.heads
    }

    /// The heads by number that only zones with these tables have.
    pub(crate) fn own_heads(&self) -> &[RrsetHead] {
        if self.has_standard_heads { &[] } else { &self.heads }
    }

    fn find_head(&self, head: RrsetHead) -> Option<u8> {
        if self.has_standard_heads { rrset_head::standard_number(head) } else { find_head(&self.heads, head) }
    }

    /// The tables of these heads and of RRsets given as their concatenation and the end of each; `None` if they do not fit together.
    pub(crate) fn from_parts(heads: Vec<RrsetHead>, ends: Vec<u32>, bytes: Vec<u8>) -> Option<InternTables> {
        let is_good = heads.len() <= MAX_HEADS
            && ends.len() <= MAX_RRSETS
            && ends.is_sorted()
            && ends.last().map_or(0, |&end| end as usize) == bytes.len();
        let (heads, ends, bytes) = (heads.into(), ends.into(), bytes.into());
        is_good.then_some(InternTables { heads, ends, bytes, ..InternTables::default() })
    }

    /// Shares the tables; all zones without interned data share those of [`rrset_head`].
    pub(crate) fn shared(self) -> Arc<InternTables> {
        static STANDARD: LazyLock<Arc<InternTables>> = LazyLock::new(|| {
            let heads = rrset_head::standard_heads().collect();
            Arc::new(InternTables { heads, has_standard_heads: true, ..InternTables::default() })
        });
        if self.heads.is_empty() && self.ends.is_empty() { STANDARD.clone() } else { Arc::new(self) }
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
        size_of_val(self.own_heads()) + 4 * self.ends.len() + self.bytes.len() + index
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

/// Interns heads and RRsets while a zone is built, from several threads at once.
pub(crate) enum Interner<'t> {
    /// Interns nothing, and knows the [`rrset_head`]: small zones save nothing more.
    Disabled,
    /// Builds new tables, from the first use on: a small zone does without.
    New(OnceLock<Box<NewTables>>),
    /// Uses the tables of the previous version without adding to them.
    Existing(&'t InternTables),
}

pub(crate) struct NewTables {
    heads: Mutex<Vec<RrsetHead>>,
    hasher: RandomState,
    shards: [Mutex<Shard>; SHARDS],
    count: AtomicU32,
    /// How many more octets of RRsets may be interned.
    room: AtomicU64,
    /// How many more parts of RRsets may be interned.
    parts_left: AtomicU32,
}

/// Part of the RRsets, chosen by their hash. They are stored one after another: an allocation for each would leave holes in the heap.
#[derive(Default)]
struct Shard {
    bytes: Vec<u8>,
    rrsets: HashTable<NewRrset>,
}

/// An RRset in the bytes of its shard.
#[derive(Clone, Copy)]
struct NewRrset {
    number: u32,
    start: u32,
    end: u32,
}

/// Enough shards that threads rarely contend for one.
const SHARDS: usize = 16;

impl Interner<'_> {
    pub(crate) fn new() -> Interner<'static> {
        Interner::New(OnceLock::new())
    }

    pub(crate) fn existing(tables: &InternTables) -> Interner<'_> {
        Interner::Existing(tables)
    }

    /// Whether everything that is interned gets a number.
    pub(crate) fn is_new(&self) -> bool {
        matches!(self, Interner::New(_))
    }

    /// Whether anything is interned.
    pub(crate) fn is_enabled(&self) -> bool {
        !matches!(self, Interner::Disabled)
    }

    /// The number of a head; `None` if it is not interned.
    pub(crate) fn head(&self, head: RrsetHead) -> Option<u8> {
        match self {
            Interner::Disabled => rrset_head::standard_number(head),
            Interner::Existing(tables) => tables.find_head(head),
            Interner::New(tables) => tables.get_or_init(NewTables::new).head(head),
        }
    }

    /// The number of an RRset in stored form; `None` if it is not interned.
    pub(crate) fn rrset(&self, bytes: &[u8]) -> Option<u32> {
        match self {
            Interner::Disabled => None,
            Interner::Existing(tables) => tables.find_rrset(bytes),
            Interner::New(tables) => tables.get_or_init(NewTables::new).rrset(bytes),
        }
    }

    /// The number of a part that stored RRsets share; `None` if it is not interned. Parts are kept with the RRsets.
    ///
    /// Their number is limited, as they may differ too often to be worth it. What was found once is always found: versions of a node
    /// with the same records have the same stored form.
    pub(crate) fn shared_part(&self, bytes: &[u8]) -> Option<u32> {
        match self {
            Interner::New(tables) => tables.get_or_init(NewTables::new).shared_part(bytes),
            _ => self.rrset(bytes),
        }
    }

    /// The octets of the RRsets that were interned.
    pub(crate) fn octets(&self) -> usize {
        match self {
            Interner::New(tables) => tables.get().map_or(0, |tables| (MAX_BYTES - tables.room.load(Relaxed)) as usize),
            _ => 0,
        }
    }

    /// The new tables.
    pub(crate) fn finish(self) -> Arc<InternTables> {
        match self {
            Interner::New(tables) => tables.into_inner().map(|tables| tables.finish()),
            _ => None,
        }
        .unwrap_or_default()
        .shared()
    }
}

fn find_head(heads: &[RrsetHead], head: RrsetHead) -> Option<u8> {
    heads.iter().position(|&known| known == head).map(|number| number as u8)
}

impl NewTables {
    fn new() -> Box<NewTables> {
        Box::new(NewTables {
            heads: Mutex::default(),
            hasher: RandomState::default(),
            shards: std::array::from_fn(|_| Mutex::default()),
            count: 0.into(),
            room: MAX_BYTES.into(),
            parts_left: MAX_PARTS.into(),
        })
    }

    fn head(&self, head: RrsetHead) -> Option<u8> {
        let mut heads = self.heads.lock().unwrap_or_else(PoisonError::into_inner);
        find_head(&heads, head).or_else(|| {
            let number = u8::try_from(heads.len()).ok().filter(|&number| usize::from(number) < MAX_HEADS)?;
            heads.push(head);
            Some(number)
        })
    }

    fn rrset(&self, bytes: &[u8]) -> Option<u32> {
        self.intern(bytes, || true)
    }

    fn shared_part(&self, bytes: &[u8]) -> Option<u32> {
        self.intern(bytes, || self.parts_left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok())
    }

    /// `may_add` is asked once if `bytes` have no number yet.
    fn intern(&self, bytes: &[u8], may_add: impl FnOnce() -> bool) -> Option<u32> {
        let hash = self.hasher.hash_one(bytes);
        // The table of the shard uses the lowest and the highest bits.
        let mut shard = self.shards[(hash >> 32) as usize % SHARDS].lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = shard.find(hash, bytes) {
            return Some(number);
        }
        may_add().then_some(())?;
        self.room.fetch_update(Relaxed, Relaxed, |room| room.checked_sub(bytes.len() as u64)).ok()?;
        let number = self.count.fetch_add(1, Relaxed);
        if number as usize >= MAX_RRSETS {
            return None;
        }
        shard.insert(hash, number, bytes, &self.hasher);
        Some(number)
    }

    fn finish(self) -> InternTables {
        let shards = self.shards.map(|shard| shard.into_inner().unwrap_or_else(PoisonError::into_inner));
        let mut rrsets: Vec<_> =
            shards.iter().flat_map(|shard| shard.rrsets.iter().map(|&rrset| (rrset, &shard.bytes))).collect();
        rrsets.sort_unstable_by_key(|(rrset, _)| rrset.number);
        let mut bytes = Vec::with_capacity(shards.iter().map(|shard| shard.bytes.len()).sum());
        let ends = rrsets.iter().map(|(rrset, all)| {
            bytes.extend_from_slice(rrset.of(all));
            bytes.len() as u32
        });
        let ends = ends.collect();
        let heads = self.heads.into_inner().unwrap_or_else(PoisonError::into_inner);
        InternTables { heads: heads.into(), ends, bytes: bytes.into(), ..InternTables::default() }
    }
}

impl Shard {
    fn find(&self, hash: u64, bytes: &[u8]) -> Option<u32> {
        self.rrsets.find(hash, |rrset| rrset.of(&self.bytes) == bytes).map(|rrset| rrset.number)
    }

    /// `start` and `end` have 32 bits: [`MAX_BYTES`] limits all shards together.
    fn insert(&mut self, hash: u64, number: u32, bytes: &[u8], hasher: &RandomState) {
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(bytes);
        let rrset = NewRrset { number, start, end: self.bytes.len() as u32 };
        self.rrsets.insert_unique(hash, rrset, |rrset| hasher.hash_one(rrset.of(&self.bytes)));
    }
}

impl NewRrset {
    fn of<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        &bytes[self.start as usize..self.end as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_interned_rrsets_is_limited() {
        let tables = NewTables { room: 10.into(), ..*NewTables::new() };
        assert_eq!(tables.rrset(b"1234"), Some(0));
        assert_eq!(tables.rrset(b"1234567"), None);
        assert_eq!(tables.rrset(b"123456"), Some(1));
        assert_eq!(tables.rrset(b"1"), None);
        assert_eq!(tables.rrset(b"1234"), Some(0));
        let tables = tables.finish();
        assert_eq!((tables.rrset(0), tables.rrset(1)), (&b"1234"[..], &b"123456"[..]));
    }
}
