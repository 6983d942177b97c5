//! Leaves from untrusted bytes: checks a leaf block so that no search, cursor or edit can fail on it, and builds a tree of such leaves.

use super::block::{Block, MAX_COUNT};
use super::build::{Separator, build_root, separate};
use super::tree_entry::{HEAD_LEN, tail_len};
use super::{Leaf, Tree};
use crate::canonical_key::{KeyCheck, KeyInfo, MAX_KEY_LEN, StoredSuffix};

/// Builds a tree from leaf blocks in key order, which come from outside.
#[derive(Default)]
pub(crate) struct LeafLoader {
    leaves: Vec<(Separator, Leaf)>,
    last_key: Vec<u8>,
    first_key: Vec<u8>,
}

/// Why bytes are not a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeafError {
    /// The block is cut short, or its parts do not fit together.
    Malformed,
    /// Keys are not in ascending order.
    Unordered,
    /// A key is not that of a name.
    Key,
    /// A value was rejected.
    Value,
}

impl LeafLoader {
    /// Checks and appends a leaf. `names` checks keys; `accept` may reject values.
    pub(crate) fn push(
        &mut self,
        bytes: &[u8],
        names: KeyCheck,
        mut accept: impl FnMut(KeyInfo, &[u8]) -> bool,
    ) -> Result<(), LeafError> {
        let (block, entries_len) = untrusted_block(bytes).ok_or(LeafError::Malformed)?;
        let prefix = names.push(block.prefix()).ok_or(LeafError::Key)?;
        let (mut start, mut previous, mut room) = (0, None, [0; HEAD_LEN + MAX_KEY_LEN]);
        for index in 0..block.count() {
            let end = if index + 1 < block.count() { block.offset(index + 1) } else { entries_len };
            let (suffix_len, tail, value) = split_entry(&block, start, end).ok_or(LeafError::Malformed)?;
            start = end;
            let head = block.stored_head(index);
            // Octets of a head past the end of its suffix are 0.
            if suffix_len < HEAD_LEN && head << (8 * suffix_len) != 0 {
                return Err(LeafError::Malformed);
            }
            let current = (head, tail, suffix_len);
            if previous.is_some_and(|previous| previous >= current) {
                return Err(LeafError::Unordered);
            }
            previous = Some(current);
            let tail_at = end - value.len() - tail.len();
            let stored = StoredSuffix { head, len: suffix_len, tail: block.entries_from(tail_at) };
            let key = prefix.finish_stored(stored).or_else(|| {
                let suffix = copy_suffix(head, tail, suffix_len, &mut room)?;
                prefix.push(suffix).and_then(|key| key.finish(block.prefix(), suffix))
            });
            let key = key.ok_or(LeafError::Key)?;
            if !accept(key, value) {
                return Err(LeafError::Value);
            }
        }
        self.append(&block, bytes)
    }

    /// Appends a checked leaf.
    fn append(&mut self, block: &Block<'_>, bytes: &[u8]) -> Result<(), LeafError> {
        self.first_key.clear();
        block.entry(0).append_key(&mut self.first_key);
        if !self.leaves.is_empty() && self.first_key <= self.last_key {
            return Err(LeafError::Unordered);
        }
        self.leaves.push((separate(&self.last_key, &self.first_key), Leaf::of(bytes)));
        self.last_key.clear();
        block.entry(block.count() - 1).append_key(&mut self.last_key);
        Ok(())
    }

    /// Appends the leaves of another loader, which were checked.
    pub(crate) fn append_all(&mut self, mut other: LeafLoader) -> Result<(), LeafError> {
        let Some((separator, first)) = other.leaves.first_mut() else { return Ok(()) };
        self.first_key.clear();
        Block::new(&first.0).entry(0).append_key(&mut self.first_key);
        if !self.leaves.is_empty() && self.first_key <= self.last_key {
            return Err(LeafError::Unordered);
        }
        *separator = separate(&self.last_key, &self.first_key);
        self.leaves.append(&mut other.leaves);
        self.last_key = other.last_key;
        Ok(())
    }

    /// How many leaves were appended.
    pub(crate) fn count(&self) -> usize {
        self.leaves.len()
    }

    /// The tree of all leaves.
    pub(crate) fn finish(self) -> Tree {
        Tree { root: build_root(self.leaves) }
    }
}

/// A view of the block if its header and tables are within `bytes`, and the octets of its entries.
fn untrusted_block(bytes: &[u8]) -> Option<(Block<'_>, usize)> {
    let (count, prefix_len, wide) = Block::header(bytes)?;
    let tables_len = count * if wide { 8 } else { 6 };
    let entries_len = bytes.len().checked_sub(4 + prefix_len + tables_len)?;
    if !(1..=MAX_COUNT).contains(&count) {
        return None;
    }
    let block = Block::new(bytes);
    (block.offset(0) == 0).then_some((block, entries_len))
}

/// The length of the suffix, the tail and the value of the entry at these octets.
#[inline]
fn split_entry<'b>(block: &Block<'b>, start: usize, end: usize) -> Option<(usize, &'b [u8], &'b [u8])> {
    let (suffix_len, rest) = match *block.raw_entry(start, end)? {
        [255, low, high, ref rest @ ..] => (u16::from_le_bytes([low, high]).into(), rest),
        [len, ref rest @ ..] if len < 255 => (len.into(), rest),
        _ => return None,
    };
    let (tail, value) = rest.split_at_checked(tail_len(suffix_len))?;
    Some((suffix_len, tail, value))
}

/// Joins the parts of a suffix in `room`; `None` if it is longer than any key.
fn copy_suffix<'r>(
    head: u32,
    tail: &[u8],
    suffix_len: usize,
    room: &'r mut [u8; HEAD_LEN + MAX_KEY_LEN],
) -> Option<&'r [u8]> {
    room[..HEAD_LEN].copy_from_slice(&head.to_be_bytes());
    room.get_mut(HEAD_LEN..HEAD_LEN + tail.len())?.copy_from_slice(tail);
    Some(&room[..suffix_len])
}
