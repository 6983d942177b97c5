//! An entry of a block: its key in three parts, compared without putting them together, and its value.

use std::cmp::Ordering;

use crate::canonical_key::{CanonicalKey, label_count, write_split_label};

/// The octets of a head.
pub(super) const HEAD_LEN: usize = 4;

/// One entry of a block.
#[derive(Clone, Copy, Debug)]
pub struct TreeEntry<'b> {
    /// The common prefix of all keys in the block.
    pub(super) prefix: &'b [u8],
    /// The rest of this key: its first octets as a number, its length, and the octets after the first ones.
    pub(super) head: u32,
    pub(super) suffix_len: usize,
    pub(super) tail: &'b [u8],
    /// The value.
    pub value: &'b [u8],
}

impl TreeEntry<'_> {
    /// Compares the key of this entry with `key`.
    pub fn cmp_key(&self, key: &[u8]) -> Ordering {
        match key.split_at_checked(self.prefix.len()) {
            Some((lead, rest)) => {
                let by_head = || self.head.cmp(&head(rest));
                self.prefix.cmp(lead).then_with(by_head).then_with(|| cmp_tails(self.tail, self.suffix_len, rest))
            }
            // `key` is shorter than the prefix, so the order is decided within the prefix; a proper prefix sorts first.
            None => self.prefix.cmp(key),
        }
    }

    /// Whether `key` is a prefix of this entry's key: the entry is at or below that name.
    #[inline]
    pub fn is_at_or_below(&self, key: &[u8]) -> bool {
        match key.split_at_checked(self.prefix.len()) {
            Some((lead, rest)) => lead == self.prefix && self.suffix_starts_with(rest),
            None => self.prefix.starts_with(key),
        }
    }

    /// Whether this entry's key is a prefix of `key`: that name is at or below the entry.
    #[inline]
    pub fn is_prefix_of(&self, key: &[u8]) -> bool {
        key.split_at_checked(self.prefix.len())
            .is_some_and(|(lead, rest)| lead == self.prefix && self.is_suffix_at_start_of(rest))
    }

    #[inline]
    fn suffix_starts_with(&self, start: &[u8]) -> bool {
        match start.split_first_chunk::<HEAD_LEN>() {
            Some((head, tail)) => {
                self.suffix_len >= HEAD_LEN && u32::from_be_bytes(*head) == self.head && self.tail.starts_with(tail)
            }
            None => start.len() <= self.suffix_len && self.head.to_be_bytes().starts_with(start),
        }
    }

    #[inline]
    fn is_suffix_at_start_of(&self, octets: &[u8]) -> bool {
        if self.suffix_len < HEAD_LEN {
            return octets.starts_with(&self.head.to_be_bytes()[..self.suffix_len]);
        }
        let split = octets.split_first_chunk::<HEAD_LEN>();
        split.is_some_and(|(head, tail)| u32::from_be_bytes(*head) == self.head && tail.starts_with(self.tail))
    }

    /// The octets of the suffix in its head.
    #[inline]
    fn head_len(&self) -> usize {
        self.suffix_len.min(HEAD_LEN)
    }

    /// The rest of the key of this entry after that of `above`, if this one is below it, and both are in the same leaf. Mostly a part of
    /// the leaf; otherwise copied into `room`, where it fits.
    #[inline]
    pub fn key_below<'k>(&self, above: &TreeEntry<'_>, room: &'k mut [u8; 64]) -> Option<&'k [u8]>
    where
        Self: 'k,
    {
        if !std::ptr::eq(self.prefix, above.prefix) {
            return None;
        }
        if above.suffix_len >= HEAD_LEN {
            let is_same_head = self.head == above.head && self.suffix_len >= HEAD_LEN;
            return is_same_head.then(|| self.tail.strip_prefix(above.tail)).flatten();
        }
        let (head, start) = (self.head.to_be_bytes(), above.suffix_len);
        if self.suffix_len < start || head[..start] != above.head.to_be_bytes()[..start] {
            return None;
        }
        let (head, len) = (&head[start..self.head_len()], self.suffix_len - start);
        let room = room.get_mut(..len)?;
        room[..head.len()].copy_from_slice(head);
        room[head.len()..].copy_from_slice(self.tail);
        Some(room)
    }

    /// Whether this entry has the key `key`.
    #[inline]
    pub fn is_key(&self, key: &[u8]) -> bool {
        self.key_len() == key.len() && self.is_prefix_of(key)
    }

    /// The number of labels in the key.
    pub fn label_count(&self) -> usize {
        let head = self.head.to_be_bytes();
        label_count(self.prefix) + label_count(&head[..self.head_len()]) + label_count(self.tail)
    }

    /// The length of the common prefix of this entry's key and `key`, in octets.
    #[inline]
    pub fn common_len(&self, key: &[u8]) -> usize {
        let common = common_len(self.prefix, key);
        if common < self.prefix.len() {
            return common;
        }
        let (rest, head_len) = (&key[common..], self.head_len());
        let in_head = common_len(&self.head.to_be_bytes()[..head_len], rest);
        common + if in_head < head_len { in_head } else { head_len + common_len(self.tail, &rest[head_len..]) }
    }

    /// The length of the key, in octets.
    #[inline]
    pub fn key_len(&self) -> usize {
        self.prefix.len() + self.suffix_len
    }

    /// Copies the key into `key`. Returning a [`CanonicalKey`] would copy its whole buffer.
    pub fn copy_key(&self, key: &mut CanonicalKey) {
        key.set_joined(self.prefix, self.head.to_be_bytes(), self.suffix_len, self.tail);
    }

    /// Appends the key to `out`.
    pub fn append_key(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.prefix);
        out.extend_from_slice(&self.head.to_be_bytes()[..self.head_len()]);
        out.extend_from_slice(self.tail);
    }

    /// Writes the label of the key, in wire form, if it has a single one and no escaped octet; returns its length.
    #[inline]
    pub(crate) fn write_single_label(&self, out: &mut [u8]) -> Option<usize> {
        write_split_label(self.prefix, self.head.to_be_bytes(), self.suffix_len, self.tail, out)
    }
}

//----------- Suffixes --------------------------------------------------------------

/// The octets of a suffix of this length after its head.
#[inline]
pub(super) fn tail_len(suffix_len: usize) -> usize {
    suffix_len.saturating_sub(HEAD_LEN)
}

/// Compares a suffix, given as tail and length, with another one that has the same head. Heads of less than four octets may be the same
/// because they are padded; then their lengths decide.
#[inline]
pub(super) fn cmp_tails(tail: &[u8], suffix_len: usize, other: &[u8]) -> Ordering {
    tail.cmp(other.get(HEAD_LEN..).unwrap_or_default()).then(suffix_len.cmp(&other.len()))
}

/// The first octets of a suffix as a number, padded with zeros.
#[inline]
pub(super) fn head(suffix: &[u8]) -> u32 {
    match suffix.first_chunk::<4>() {
        Some(&chunk) => u32::from_be_bytes(chunk),
        None => suffix.iter().enumerate().fold(0, |head, (i, &octet)| head | u32::from(octet) << (24 - 8 * i)),
    }
}

/// The length of the common prefix of two byte strings.
#[inline]
pub(super) fn common_len(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}
