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
}
