//! Blocks: sorted keys with their values in one run of bytes, written once and searched in place.
//!
//! ```text
//! count u16 | prefix_len u16 | prefix | heads [u32; count] | offsets [u16 or u32; count] | entries
//! entry: rest_len u8 (255: a u16 follows) | rest | value up to the next entry
//! ```
//! A key is prefix + rest. A head is the first four octets of the rest as a big-endian number, so that a search
//! touches one dense array before it touches an entry. Offsets count from the first entry and have four octets where
//! the block is larger than 64 KiB (the top bit of the count says so). Numbers are little-endian.

use std::cmp::Ordering;

use crate::canonical_key::{CanonicalKey, label_count};

const HEADER_LEN: usize = 4;
/// So many heads, or fewer, are counted instead of halved: two cache lines.
const COUNTED: usize = 32;
const WIDE: u16 = 0x8000;
/// The most entries a block may have.
pub const MAX_COUNT: usize = 0x7fff;

/// A block taken apart, ready to be searched.
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

/// One entry of a block.
#[derive(Clone, Copy, Debug)]
pub struct TreeEntry<'b> {
    /// What all keys of the block begin with.
    pub prefix: &'b [u8],
    /// What follows it in this key.
    pub rest: &'b [u8],
    /// The value.
    pub value: &'b [u8],
}

/// Where a key stands in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// The key is that of this entry.
    At(usize),
    /// The key sorts behind this entry and before the next one.
    Behind(usize),
    /// The key sorts before all entries.
    Front,
}

impl<'b> Block<'b> {
    /// Takes a block apart. The bytes must come from [`Encoder`].
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

    /// How many entries there are; never 0.
    #[inline]
    pub fn count(&self) -> usize {
        self.heads.len()
    }

    /// The entry at `index`.
    #[inline]
    pub fn entry(&self, index: usize) -> TreeEntry<'b> {
        let start = self.offset(index);
        let end = if index + 1 < self.count() { self.offset(index + 1) } else { self.entries.len() };
        let (rest, value) = split_rest(&self.entries[start..end]);
        TreeEntry { prefix: self.prefix, rest, value }
    }

    /// Finds where `key` stands.
    #[inline]
    pub fn search(&self, key: &[u8]) -> Position {
        let Some((lead, rest)) = key.split_at_checked(self.prefix.len()) else {
            // A key shorter than the prefix sorts behind all only if it is greater where they differ.
            return if key < self.prefix { Position::Front } else { Position::Behind(self.count() - 1) };
        };
        if lead != self.prefix {
            return if lead < self.prefix { Position::Front } else { Position::Behind(self.count() - 1) };
        }
        let head = head(rest);
        let mut low = self.count_below(head);
        // Few entries share a head: walk through those.
        while low < self.count() && u32::from_le_bytes(self.heads[low]) == head {
            match self.rest(low).cmp(rest) {
                Ordering::Less => low += 1,
                Ordering::Equal => return Position::At(low),
                Ordering::Greater => break,
            }
        }
        low.checked_sub(1).map_or(Position::Front, Position::Behind)
    }

    /// How many heads are below `head`. Halves down to a cache line or two and counts those: a vectorised loop whose
    /// misses overlap beats the last steps of a search, each of which waits for the one before.
    #[inline]
    fn count_below(&self, head: u32) -> usize {
        let (mut start, mut heads) = (0, self.heads);
        while heads.len() > COUNTED {
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

    #[inline]
    fn rest(&self, index: usize) -> &'b [u8] {
        split_rest(&self.entries[self.offset(index)..]).0
    }

    #[inline]
    fn offset(&self, index: usize) -> usize {
        match self.offsets {
            Offsets::Narrow(offsets) => u16::from_le_bytes(offsets[index]) as usize,
            Offsets::Wide(offsets) => u32::from_le_bytes(offsets[index]) as usize,
        }
    }
}

#[inline]
fn split_rest(entry: &[u8]) -> (&[u8], &[u8]) {
    match entry[0] {
        255 => {
            let len = u16::from_le_bytes([entry[1], entry[2]]) as usize;
            entry[3..].split_at(len)
        }
        len => entry[1..].split_at(len as usize),
    }
}

#[inline]
fn head(rest: &[u8]) -> u32 {
    match rest.first_chunk::<4>() {
        Some(&chunk) => u32::from_be_bytes(chunk),
        None => rest.iter().enumerate().fold(0, |head, (i, &octet)| head | u32::from(octet) << (24 - 8 * i)),
    }
}

impl TreeEntry<'_> {
    /// How the key of this entry compares with `key`.
    pub fn cmp_key(&self, key: &[u8]) -> Ordering {
        match key.split_at_checked(self.prefix.len()) {
            Some((lead, rest)) => self.prefix.cmp(lead).then_with(|| self.rest.cmp(rest)),
            // The key is shorter than the prefix: what decides is within the prefix, and a proper prefix sorts first.
            None => self.prefix.cmp(key),
        }
    }

    /// Whether the key of this entry begins with `key`: it is at or below that name.
    #[inline]
    pub fn is_at_or_below(&self, key: &[u8]) -> bool {
        match key.split_at_checked(self.prefix.len()) {
            Some((lead, rest)) => lead == self.prefix && self.rest.starts_with(rest),
            None => self.prefix.starts_with(key),
        }
    }

    /// Whether `key` begins with the key of this entry: it is at or below this name.
    #[inline]
    pub fn is_prefix_of(&self, key: &[u8]) -> bool {
        key.split_at_checked(self.prefix.len())
            .is_some_and(|(lead, rest)| lead == self.prefix && rest.starts_with(self.rest))
    }

    /// Whether this is the entry of `key`.
    #[inline]
    pub fn is_key(&self, key: &[u8]) -> bool {
        self.key_len() == key.len() && self.is_prefix_of(key)
    }

    /// How many labels the key has.
    pub fn label_count(&self) -> usize {
        label_count(self.prefix) + label_count(self.rest)
    }

    /// How many leading octets the key of this entry shares with `key`.
    #[inline]
    pub fn common_len(&self, key: &[u8]) -> usize {
        let common = common_len(self.prefix, key);
        if common < self.prefix.len() { common } else { common + common_len(self.rest, &key[common..]) }
    }

    /// The length of the key.
    #[inline]
    pub fn key_len(&self) -> usize {
        self.prefix.len() + self.rest.len()
    }

    /// Makes `key` the key. Handing out a new one would copy all the room that it has.
    pub fn copy_key(&self, key: &mut CanonicalKey) {
        key.set_joined(self.prefix, self.rest);
    }

    /// Appends the key to `out`.
    pub fn append_key(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.prefix);
        out.extend_from_slice(self.rest);
    }
}

/// How many leading octets two strings share.
#[inline]
pub fn common_len(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

//----------- Encoder ----------------------------------------------------------

/// Collects entries in the order of their keys and writes blocks.
#[derive(Default)]
pub struct Encoder {
    /// Keys and values, one after the other.
    bytes: Vec<u8>,
    /// (key start, key length, end of the value) of each entry.
    entries: Vec<(usize, usize, usize)>,
    block: Vec<u8>,
}

impl Encoder {
    /// Adds an entry behind those that are there.
    pub fn push(&mut self, key: &[u8], value: &[u8]) {
        debug_assert!(self.entries.is_empty() || self.key(self.entries.len() - 1) < key, "keys come in order");
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.entries.push((start, key.len(), self.bytes.len()));
    }

    /// How many entries there are.
    pub fn count(&self) -> usize {
        self.entries.len()
    }

    /// How many octets keys and values have; the block will have fewer.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// The key of entry `index`.
    pub fn key(&self, index: usize) -> &[u8] {
        let (start, len, _) = self.entries[index];
        &self.bytes[start..start + len]
    }

    /// Writes a block of the entries and forgets them; there must be at least one and at most [`MAX_COUNT`].
    pub fn finish(&mut self) -> &[u8] {
        let count = self.entries.len();
        assert!((1..=MAX_COUNT).contains(&count), "a block has 1 to {MAX_COUNT} entries");
        let prefix_len = common_len(self.key(0), self.key(count - 1));
        let wide = self.bytes.len() + 3 * count > usize::from(u16::MAX);
        self.block.clear();
        self.block.extend_from_slice(&(count as u16 | if wide { WIDE } else { 0 }).to_le_bytes());
        self.block.extend_from_slice(&(prefix_len as u16).to_le_bytes());
        self.block.extend_from_slice(&self.bytes[self.entries[0].0..][..prefix_len]);
        for index in 0..count {
            let head = head(&self.bytes[self.entries[index].0..][..self.entries[index].1][prefix_len..]);
            self.block.extend_from_slice(&head.to_le_bytes());
        }
        self.write_offsets(prefix_len, wide);
        for &(start, key_len, end) in &self.entries {
            write_rest_len(key_len - prefix_len, &mut self.block);
            self.block.extend_from_slice(&self.bytes[start + prefix_len..end]);
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
            let rest_len = key_len - prefix_len;
            offset += (if rest_len < 255 { 1 } else { 3 } + end - start - prefix_len) as u32;
        }
    }
}

fn write_rest_len(len: usize, out: &mut Vec<u8>) {
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
        let mut encoder = Encoder::default();
        for (i, key) in keys.iter().enumerate() {
            encoder.push(key, &[i as u8; 3]);
        }
        encoder.finish().to_vec()
    }

    #[test]
    fn search_finds_the_entry_or_its_predecessor() {
        let bytes = block(&[b"aab", b"aabaaaa", b"aabaaab", b"aac", b"aad"]);
        let block = Block::new(&bytes);
        for (key, position) in [
            (&b"aab"[..], Position::At(0)),
            (b"aabaaaa", Position::At(1)),
            (b"aabaaaaz", Position::Behind(1)),
            (b"aabaaab", Position::At(2)),
            (b"aabb", Position::Behind(2)),
            (b"aad", Position::At(4)),
            (b"ab", Position::Behind(4)),
            (b"a", Position::Front),
            (b"aa", Position::Front),
            (b"aaa", Position::Front),
            (b"b", Position::Behind(4)),
            (b"", Position::Front),
        ] {
            assert_eq!(block.search(key), position, "{key:?}");
        }
        assert_eq!(block.entry(2).rest, b"baaab");
        assert_eq!(block.entry(4).value, [4; 3]);
    }

    #[test]
    fn large_values_and_long_keys() {
        let mut encoder = Encoder::default();
        encoder.push(&[b'a'; 300], &vec![1; 70_000]);
        encoder.push(&[b'b'; 400], &vec![2; 70_000]);
        let bytes = encoder.finish().to_vec();
        let block = Block::new(&bytes);
        assert_eq!(block.entry(1).rest.len(), 400);
        assert_eq!(block.entry(1).value, vec![2; 70_000]);
        assert_eq!(block.search(&[b'b'; 400]), Position::At(1));
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
