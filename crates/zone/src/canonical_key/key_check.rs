//! Checks keys that come from outside.

use wire::{MAX_LABEL_LEN, MAX_NAME_LEN};

use super::{END, ESCAPE};

/// Checks a key from outside, part by part: whether it is that of a name.
#[derive(Clone, Copy)]
pub(crate) struct KeyCheck {
    /// The octets of the name so far, without the label in progress.
    name_len: usize,
    /// The octets of the label in progress.
    label_len: usize,
    is_escaped: bool,
}

/// The last part of a key as a leaf of the tree has it.
#[derive(Clone, Copy)]
pub(crate) struct StoredSuffix<'b> {
    /// Its first four octets as a big-endian number; 0 after its end.
    pub(crate) head: u32,
    /// All its octets.
    pub(crate) len: usize,
    /// The octets after the first four, and then whatever follows in the leaf.
    pub(crate) tail: &'b [u8],
}

/// The octets of [`StoredSuffix::head`].
const HEAD_LEN: usize = size_of::<u32>();

/// What a checked key says about its name: the octets of the name, and flags. It is one number, as separate flags would be stored as
/// octets and copied as a word, which has to wait for the stores: that took a third of the time to check an image.
#[derive(Clone, Copy)]
pub(crate) struct KeyInfo(u32);

impl KeyInfo {
    const NAME_LEN: u32 = 0xffff;
    const IS_EMPTY: u32 = 1 << 16;
    const IS_WILDCARD: u32 = 1 << 17;

    /// The octets of the name.
    #[inline]
    pub(crate) fn name_len(self) -> usize {
        (self.0 & KeyInfo::NAME_LEN) as usize
    }

    /// Whether it is the key of the apex.
    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.0 & KeyInfo::IS_EMPTY != 0
    }

    /// Whether the first label of the name is `*`.
    #[inline]
    pub(crate) fn is_wildcard(self) -> bool {
        self.0 & KeyInfo::IS_WILDCARD != 0
    }

    /// The same in a tree without the apex.
    #[inline]
    pub(crate) fn without_apex(self) -> KeyInfo {
        KeyInfo(self.0 & !KeyInfo::IS_EMPTY)
    }
}

impl KeyCheck {
    /// Of keys below an apex of this many octets.
    pub(crate) fn new(apex_len: usize) -> KeyCheck {
        KeyCheck { name_len: apex_len, label_len: 0, is_escaped: false }
    }

    /// Checks the next part; `None` if no key has it here.
    #[inline]
    pub(crate) fn push(self, part: &[u8]) -> Option<KeyCheck> {
        // Most parts are the end of one label. No branch per octet, so that the compiler can vectorise.
        let is_special = |octet: &u8| *octet <= ESCAPE || octet.is_ascii_uppercase();
        if let Some((&END, label)) = part.split_last()
            && label.iter().fold(true, |is_plain, octet| is_plain & !is_special(octet))
            && !self.is_escaped
        {
            let len = self.label_len + label.len();
            let name_len = self.name_len + 1 + len;
            let is_good = (1..=MAX_LABEL_LEN).contains(&len) && name_len <= MAX_NAME_LEN;
            return is_good.then_some(KeyCheck { name_len, label_len: 0, is_escaped: false });
        }
        self.push_any(part)
    }

    fn push_any(mut self, part: &[u8]) -> Option<KeyCheck> {
        for &octet in part {
            if octet > ESCAPE && !self.is_escaped {
                if octet.is_ascii_uppercase() {
                    return None;
                }
                self.label_len += 1;
            } else if !self.push_special(octet) {
                return None;
            }
        }
        (self.name_len <= MAX_NAME_LEN).then_some(self)
    }

    #[inline]
    fn push_special(&mut self, octet: u8) -> bool {
        match (self.is_escaped, octet) {
            (true, 1 | 2) => {
                self.is_escaped = false;
                self.label_len += 1;
            }
            (false, ESCAPE) => self.is_escaped = true,
            (false, END) if (1..=MAX_LABEL_LEN).contains(&self.label_len) => {
                self.name_len += 1 + self.label_len;
                self.label_len = 0;
            }
            _ => return false,
        }
        true
    }

    /// The key that ends here, after these parts; `None` if it ends within a label.
    #[inline]
    pub(crate) fn finish(self, prefix: &[u8], suffix: &[u8]) -> Option<KeyInfo> {
        let mut last = prefix.iter().chain(suffix).rev();
        let is_wildcard =
            last.next() == Some(&END) && last.next() == Some(&b'*') && last.next().is_none_or(|&octet| octet == END);
        let is_empty = prefix.is_empty() && suffix.is_empty();
        let is_whole = self.label_len == 0 && !self.is_escaped;
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        let flags = flag(is_empty, KeyInfo::IS_EMPTY) | flag(is_wildcard, KeyInfo::IS_WILDCARD);
        is_whole.then_some(KeyInfo(self.name_len as u32 | flags))
    }

    /// As [`Self::push`] and then [`Self::finish`], without a copy of the suffix and without a branch for each octet. `None` if the key
    /// is a wildcard, has escaped octets or is not that of a name: those decide what it is.
    #[inline]
    pub(crate) fn finish_stored(mut self, suffix: StoredSuffix<'_>) -> Option<KeyInfo> {
        let StoredSuffix { head, len, mut tail } = suffix;
        let before_end = match len {
            0..2 => return None,
            2..6 => (head >> (8 * (5 - len))) as u8,
            _ => *tail.get(len - 6)?,
        };
        let in_head = len.min(HEAD_LEN);
        if before_end == b'*' || self.is_escaped || !self.push_word(head.swap_bytes().into(), in_head) {
            return None;
        }
        let mut left = len - in_head;
        while left > 0 {
            let (word, rest) = tail.split_first_chunk()?;
            if !self.push_word(u64::from_le_bytes(*word), left.min(WORD_LEN)) {
                return None;
            }
            (tail, left) = (rest, left.saturating_sub(WORD_LEN));
        }
        let is_good = self.label_len == 0 && self.name_len <= MAX_NAME_LEN;
        is_good.then_some(KeyInfo(self.name_len as u32))
    }

    /// Checks the first `len` octets of a word, at least one, and no others; false if one of them is not plain, or a label has a wrong
    /// length.
    #[inline]
    fn push_word(&mut self, word: u64, len: usize) -> bool {
        let mask = u64::MAX >> (8 * (WORD_LEN - len));
        let word = word & mask | PLAIN & !mask;
        if upper_case_in(word) | zeros_in(word ^ ESCAPES) != 0 {
            return false;
        }
        let (mut ends, mut start) = (zeros_in(word), 0);
        while ends != 0 {
            let end = ends.trailing_zeros() as usize / 8;
            let label_len = self.label_len + end - start;
            if !(1..=MAX_LABEL_LEN).contains(&label_len) {
                return false;
            }
            self.name_len += 1 + label_len;
            (self.label_len, start) = (0, end + 1);
            ends &= ends - 1;
        }
        self.label_len += len - start;
        true
    }
}

//----------- eight octets at a time ---------------------------------------------

const WORD_LEN: usize = size_of::<u64>();
const EACH: u64 = u64::from_ne_bytes([1; WORD_LEN]);
/// The highest bit of each octet.
const HIGH: u64 = 0x80 * EACH;
const ESCAPES: u64 = ESCAPE as u64 * EACH;
/// Octets that mean nothing but themselves.
const PLAIN: u64 = b'a' as u64 * EACH;

/// The highest bit of each octet that is 0.
#[inline]
fn zeros_in(word: u64) -> u64 {
    // No sum is carried into the next octet.
    !(((word & !HIGH) + !HIGH) | word) & HIGH
}

/// The highest bit of each octet that is an upper-case letter of ASCII.
#[inline]
fn upper_case_in(word: u64) -> u64 {
    const UP_TO_A: u64 = (0x80 - b'A') as u64 * EACH;
    const PAST_Z: u64 = (0x80 - b'Z' - 1) as u64 * EACH;
    let low = word & !HIGH;
    (low + UP_TO_A) & !(low + PAST_Z) & !word & HIGH
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the two ways of checking find in a key below an apex of eight octets that is split here.
    fn check(key: &[u8], at: usize) -> (Option<u32>, Option<u32>) {
        let (prefix, suffix) = key.split_at(at);
        let Some(checked) = KeyCheck::new(8).push(prefix) else { return (None, None) };
        let by_octets = checked.push(suffix).and_then(|key| key.finish(prefix, suffix));
        let mut head = [0; HEAD_LEN];
        let in_head = suffix.len().min(HEAD_LEN);
        head[..in_head].copy_from_slice(&suffix[..in_head]);
        // Any octets may follow.
        let tail = [&suffix[in_head..], b"\0A\x01*\0A\x01*"].concat();
        let stored = StoredSuffix { head: u32::from_be_bytes(head), len: suffix.len(), tail: &tail };
        (by_octets.map(|key| key.0), checked.finish_stored(stored).map(|key| key.0))
    }

    #[test]
    fn words_are_checked_as_octets_are() {
        let label = |octet: u8, len: usize| [vec![octet; len], vec![END]].concat();
        let mut keys: Vec<Vec<u8>> = (0..=70).map(|len| label(b'x', len)).collect();
        keys.extend([4, 8, 120].map(|count| label(b'y', 1).repeat(count)));
        keys.extend([vec![], vec![END], b"a".to_vec(), b"*\0".to_vec(), b"a\0*\0".to_vec(), b"a\0b*\0".to_vec()]);
        keys.extend((0..=255).map(|octet| [&b"abc"[..], &label(octet, 1), &label(b'z', 7)].concat()));
        keys.extend((0..=255).map(|octet| [b"abcdefghijk\0".to_vec(), vec![octet], label(b'z', 12)].concat()));
        keys.extend([b"a\x01\x01b\x01\x02c\0".to_vec(), b"abcdefg\x01\x03\0".to_vec(), b"\x01".to_vec()]);
        let (mut good, mut quick) = (0, 0);
        for (key, at) in keys.iter().flat_map(|key| (0..=key.len()).map(move |at| (key, at))) {
            let (by_octets, by_words) = check(key, at);
            assert!(by_words.is_none() || by_words == by_octets, "{key:?} split at {at}: {by_words:?}, {by_octets:?}");
            good += u32::from(by_octets.is_some());
            quick += u32::from(by_words.is_some());
        }
        assert!(quick > good * 8 / 10, "{quick} of {good} are checked by words");
    }
}
