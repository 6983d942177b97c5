//! Blocks: the leaves and the separators of inner nodes. A block is one byte string of sorted keys with their values, searched
//! in place without decoding.
//!
//! | field | type | contents |
//! | --- | --- | --- |
//! | count | u16 | the number of entries; top bit set: offsets are u32 (blocks over 64 KiB) |
//! | prefix length | u16 | |
//! | prefix | bytes | the common prefix of all keys, stored once |
//! | heads | u32 per entry | the first four octets of each suffix, big-endian order, zero-padded |
//! | offsets | u16 or u32 per entry | where each entry starts, counted from the first one |
//! | entries | | suffix length (u8; 255: a u16 follows), tail, value (ends where the next entry starts) |
//!
//! A key is prefix + suffix, and a suffix is head + tail. A search compares heads, a dense array of few cache lines, and reads tails
//! only where heads are equal. All numbers are little-endian.

use std::cmp::Ordering;

use super::tree_entry::{TreeEntry, cmp_tails, common_len, head, tail_len};

const HEADER_LEN: usize = 4;
/// Binary search narrows to at most this many heads (two cache lines), which are then scanned linearly.
const LINEAR_SCAN_LEN: usize = 32;
/// The octets of an entry besides its key and value, at most: the padding of the head, offset, suffix length.
const MAX_ENTRY_OVERHEAD: usize = 4 + 4 + 3;
/// In the count: offsets are u32.
const WIDE: u16 = 0x8000;
/// The most entries of a block.
pub const MAX_COUNT: usize = 0x7fff;

/// A view of an encoded block.
#[derive(Clone, Copy)]
pub struct Block<'b> {
    heads: &'b [[u8; 4]],
    offsets: Offsets<'b>,
    prefix: &'b [u8],
    entries: &'b [u8],
}

#[derive(Clone, Copy)]
enum Offsets<'b> {
    Narrow(&'b [[u8; 2]]),
    Wide(&'b [[u8; 4]]),
}

/// The result of a search for a key in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchResult {
    /// This entry has the key.
    Found(usize),
    /// The key sorts after this entry and before the next one.
    After(usize),
    /// The key sorts before all entries.
    BeforeFirst,
}

impl<'b> Block<'b> {
    /// A view of `bytes`, which must be written by [`BlockEncoder`].
    #[inline]
    pub fn new(bytes: &'b [u8]) -> Block<'b> {
        let (header, rest) = bytes.split_at(HEADER_LEN);
        let count = u16::from_le_bytes([header[0], header[1]]);
        let prefix_len = u16::from_le_bytes([header[2], header[3]]) as usize;
        let wide = count & WIDE != 0;
        let count = (count & !WIDE) as usize;
        let (prefix, rest) = rest.split_at(prefix_len);
        let (heads, rest) = rest.split_at(4 * count);
        let (offsets, entries) = rest.split_at(if wide { 4 * count } else { 2 * count });
        let offsets = if wide { Offsets::Wide(offsets.as_chunks().0) } else { Offsets::Narrow(offsets.as_chunks().0) };
        Block { heads: heads.as_chunks().0, offsets, prefix, entries }
    }

    /// Reads the header of untrusted bytes: the number of entries, the length of the prefix, and whether offsets are u32.
    pub(super) fn header(bytes: &[u8]) -> Option<(usize, usize, bool)> {
        let header: &[u8; HEADER_LEN] = bytes.first_chunk()?;
        let count = u16::from_le_bytes([header[0], header[1]]);
        Some(((count & !WIDE).into(), u16::from_le_bytes([header[2], header[3]]).into(), count & WIDE != 0))
    }

    /// The common prefix of all keys.
    pub(super) fn prefix(&self) -> &'b [u8] {
        self.prefix
    }

    /// The octets of an entry, if they are in the block.
    pub(super) fn raw_entry(&self, start: usize, end: usize) -> Option<&'b [u8]> {
        self.entries.get(start..end)
    }

    /// The octets of the entries from this one on, which must be in the block.
    #[inline]
    pub(super) fn entries_from(&self, at: usize) -> &'b [u8] {
        &self.entries[at..]
    }

    /// The head of entry `index`.
    pub(super) fn stored_head(&self, index: usize) -> u32 {
        u32::from_le_bytes(self.heads[index])
    }

    /// The number of entries; never 0.
    #[inline]
    pub fn count(&self) -> usize {
        self.heads.len()
    }

    /// The entry at `index`.
    #[inline]
    pub fn entry(&self, index: usize) -> TreeEntry<'b> {
        self.read_entry(index)
    }

    /// As `entry`, for a loop over many entries, which must not copy each from memory to memory.
    #[inline(always)]
    pub(crate) fn read_entry(&self, index: usize) -> TreeEntry<'b> {
        let start = self.offset(index);
        let end = if index + 1 < self.count() { self.offset(index + 1) } else { self.entries.len() };
        let (suffix_len, rest) = split_suffix_len(&self.entries[start..end]);
        let (tail, value) = rest.split_at(tail_len(suffix_len));
        TreeEntry { prefix: self.prefix, head: self.stored_head(index), suffix_len, tail, value }
    }

    /// Finds `key` or its predecessor.
    #[inline]
    pub fn search(&self, key: &[u8]) -> SearchResult {
        let Some((lead, suffix)) = key.split_at_checked(self.prefix.len()) else {
            // A key shorter than the prefix sorts after all entries only if it is greater at the first difference.
            return if key < self.prefix { SearchResult::BeforeFirst } else { SearchResult::After(self.count() - 1) };
        };
        if lead != self.prefix {
            return if lead < self.prefix { SearchResult::BeforeFirst } else { SearchResult::After(self.count() - 1) };
        }
        let head = head(suffix);
        let mut low = self.count_below(head);
        // Few entries share a head: compare the rest of their suffixes one by one.
        while low < self.count() && u32::from_le_bytes(self.heads[low]) == head {
            let (suffix_len, tail) = self.tail(low);
            match cmp_tails(tail, suffix_len, suffix) {
                Ordering::Less => low += 1,
                Ordering::Equal => return SearchResult::Found(low),
                Ordering::Greater => break,
            }
        }
        low.checked_sub(1).map_or(SearchResult::BeforeFirst, SearchResult::After)
    }

    /// The number of heads less than `head`: binary search down to two cache lines, then a linear count. The vectorised count
    /// overlaps its cache misses; the last steps of a binary search would wait for one after the other.
    #[inline]
    fn count_below(&self, head: u32) -> usize {
        let (mut start, mut heads) = (0, self.heads);
        while heads.len() > LINEAR_SCAN_LEN {
            let half = heads.len() / 2;
            if u32::from_le_bytes(heads[half]) < head {
                start += half;
                heads = &heads[half..];
            } else {
                heads = &heads[..half];
            }
        }
        start + heads.iter().map(|&h| u32::from(u32::from_le_bytes(h) < head)).sum::<u32>() as usize
    }

    /// The length of the suffix of entry `index`, and its tail.
    #[inline]
    fn tail(&self, index: usize) -> (usize, &'b [u8]) {
        let (suffix_len, rest) = split_suffix_len(&self.entries[self.offset(index)..]);
        (suffix_len, &rest[..tail_len(suffix_len)])
    }

    #[inline]
    pub(super) fn offset(&self, index: usize) -> usize {
        match self.offsets {
            Offsets::Narrow(offsets) => u16::from_le_bytes(offsets[index]) as usize,
            Offsets::Wide(offsets) => u32::from_le_bytes(offsets[index]) as usize,
        }
    }
}

#[inline]
fn split_suffix_len(entry: &[u8]) -> (usize, &[u8]) {
    match entry[0] {
        255 => (u16::from_le_bytes([entry[1], entry[2]]).into(), &entry[3..]),
        len => (len.into(), &entry[1..]),
    }
}

//----------- BlockEncoder ----------------------------------------------------------

/// Encodes blocks from entries in key order.
#[derive(Default)]
pub struct BlockEncoder {
    /// Keys and values, concatenated.
    bytes: Vec<u8>,
    /// Per entry: start of the key, length of the key, end of the value.
    entries: Vec<(usize, usize, usize)>,
    block: Vec<u8>,
}

impl BlockEncoder {
    /// Appends an entry; its key must sort after all others.
    pub fn push(&mut self, key: &[u8], value: &[u8]) {
        debug_assert!(self.entries.is_empty() || self.key(self.entries.len() - 1) < key, "keys are in order");
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.entries.push((start, key.len(), self.bytes.len()));
    }

    /// The number of entries.
    pub fn count(&self) -> usize {
        self.entries.len()
    }

    /// The octets of all keys and values, before the common prefix is removed.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// The key of entry `index`.
    pub fn key(&self, index: usize) -> &[u8] {
        let (start, len, _) = self.entries[index];
        &self.bytes[start..start + len]
    }

    /// Encodes the entries, 1 to [`MAX_COUNT`] of them, as a block and clears the encoder.
    pub fn finish(&mut self) -> &[u8] {
        let count = self.entries.len();
        assert!((1..=MAX_COUNT).contains(&count), "a block has 1 to {MAX_COUNT} entries");
        let prefix_len = common_len(self.key(0), self.key(count - 1));
        let wide = self.bytes.len() + 3 * count > usize::from(u16::MAX);
        self.block.clear();
        self.block.reserve(HEADER_LEN + self.bytes.len() + MAX_ENTRY_OVERHEAD * count);
        self.block.extend_from_slice(&(count as u16 | if wide { WIDE } else { 0 }).to_le_bytes());
        self.block.extend_from_slice(&(prefix_len as u16).to_le_bytes());
        self.block.extend_from_slice(&self.bytes[self.entries[0].0..][..prefix_len]);
        for index in 0..count {
            let head = head(&self.bytes[self.entries[index].0..][..self.entries[index].1][prefix_len..]);
            self.block.extend_from_slice(&head.to_le_bytes());
        }
        self.write_offsets(prefix_len, wide);
        for &(start, key_len, end) in &self.entries {
            let suffix_len = key_len - prefix_len;
            write_suffix_len(suffix_len, &mut self.block);
            self.block.extend_from_slice(&self.bytes[start + key_len - tail_len(suffix_len)..end]);
        }
        self.bytes.clear();
        self.entries.clear();
        &self.block
    }

    fn write_offsets(&mut self, prefix_len: usize, wide: bool) {
        let mut offset = 0u32;
        for &(start, key_len, end) in &self.entries {
            match wide {
                true => self.block.extend_from_slice(&offset.to_le_bytes()),
                false => self.block.extend_from_slice(&(offset as u16).to_le_bytes()),
            }
            let suffix_len = key_len - prefix_len;
            offset += (if suffix_len < 255 { 1 } else { 3 } + end - start - key_len + tail_len(suffix_len)) as u32;
        }
    }
}

fn write_suffix_len(len: usize, out: &mut Vec<u8>) {
    match u8::try_from(len) {
        Ok(len) if len < 255 => out.push(len),
        _ => {
            out.push(255);
            out.extend_from_slice(&(len as u16).to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(keys: &[&[u8]]) -> Vec<u8> {
        let mut encoder = BlockEncoder::default();
        for (i, key) in keys.iter().enumerate() {
            encoder.push(key, &[i as u8; 3]);
        }
        encoder.finish().to_vec()
    }

    fn suffix(entry: &TreeEntry<'_>) -> Vec<u8> {
        let mut key = Vec::new();
        entry.append_key(&mut key);
        key.split_off(entry.prefix.len())
    }

    /// Suffixes shorter than a head, and some that differ from others with the same padded head in their length alone.
    #[test]
    fn short_suffixes_differ_from_their_padding() {
        let keys: &[&[u8]] =
            &[b"p", b"p\0", b"p\0\0", b"p\0\0\0\0", b"p\0\0\0\0\0", b"pa", b"pab\0", b"pabc\0", b"pabcd\0"];
        let bytes = block(keys);
        let block = Block::new(&bytes);
        for (index, key) in keys.iter().enumerate() {
            assert_eq!(block.search(key), SearchResult::Found(index), "{key:?}");
            let entry = block.entry(index);
            assert!(entry.is_key(key) && entry.key_len() == key.len());
            for other in keys {
                assert_eq!(entry.cmp_key(other), key.cmp(other), "{key:?} {other:?}");
                assert_eq!(entry.is_prefix_of(other), other.starts_with(key), "{key:?} {other:?}");
                assert_eq!(entry.is_at_or_below(other), key.starts_with(other), "{key:?} {other:?}");
                assert_eq!(entry.common_len(other), common_len(key, other), "{key:?} {other:?}");
            }
            let above = (0..index).map(|above| block.entry(above));
            for (above, above_key) in above.zip(keys) {
                let mut room = [0; 64];
                assert_eq!(entry.key_below(&above, &mut room), key.strip_prefix(*above_key), "{key:?} {above_key:?}");
            }
        }
        for absent in [&b"p\0\0\0"[..], b"p\0\0\0\0\0\0", b"pab", b"pabc", b"pabcd\0\0", b"", b"q"] {
            assert!(!matches!(block.search(absent), SearchResult::Found(_)), "{absent:?}");
        }
    }

    #[test]
    fn search_finds_the_entry_or_its_predecessor() {
        let bytes = block(&[b"aab", b"aabaaaa", b"aabaaab", b"aac", b"aad"]);
        let block = Block::new(&bytes);
        for (key, result) in [
            (&b"aab"[..], SearchResult::Found(0)),
            (b"aabaaaa", SearchResult::Found(1)),
            (b"aabaaaaz", SearchResult::After(1)),
            (b"aabaaab", SearchResult::Found(2)),
            (b"aabb", SearchResult::After(2)),
            (b"aad", SearchResult::Found(4)),
            (b"ab", SearchResult::After(4)),
            (b"a", SearchResult::BeforeFirst),
            (b"aa", SearchResult::BeforeFirst),
            (b"aaa", SearchResult::BeforeFirst),
            (b"b", SearchResult::After(4)),
            (b"", SearchResult::BeforeFirst),
        ] {
            assert_eq!(block.search(key), result, "{key:?}");
        }
        assert_eq!(suffix(&block.entry(2)), b"baaab");
        assert_eq!(block.entry(4).value, [4; 3]);
    }

    #[test]
    fn large_values_and_long_keys() {
        let mut encoder = BlockEncoder::default();
        encoder.push(&[b'a'; 300], &vec![1; 70_000]);
        encoder.push(&[b'b'; 400], &vec![2; 70_000]);
        let bytes = encoder.finish().to_vec();
        let block = Block::new(&bytes);
        assert_eq!(block.entry(1).suffix_len, 400);
        assert_eq!(block.entry(1).value, vec![2; 70_000]);
        assert_eq!(block.search(&[b'b'; 400]), SearchResult::Found(1));
    }

    #[test]
    fn entries_compare_with_keys() {
        let bytes = block(&[b"abc\0", b"abd\0"]);
        let entry = Block::new(&bytes).entry(0);
        assert!(entry.is_at_or_below(b"") && entry.is_at_or_below(b"abc\0") && !entry.is_at_or_below(b"abd\0"));
        assert!(!entry.is_at_or_below(b"abc\0d\0"));
        assert_eq!(entry.common_len(b"abx"), 2);
        assert_eq!(entry.common_len(b"a"), 1);
        assert_eq!(entry.cmp_key(b"abc\0"), Ordering::Equal);
        assert_eq!(entry.cmp_key(b"ab"), Ordering::Greater);
        assert_eq!(entry.cmp_key(b"b"), Ordering::Less);
    }
}
