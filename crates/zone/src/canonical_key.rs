//! Canonical keys: names as byte strings whose byte order is canonical name order (RFC 4034 6.1).
//!
//! A key has the labels of a name below the apex, in lower case, from the top-most label down, each terminated by 0x00. Inside a label
//! 0x00 is escaped as 0x01 0x01 and 0x01 as 0x01 0x02. An ancestor's key is a prefix of its descendants' keys; the apex has the
//! empty key. `www.example.com.` below `com.` becomes `example\0www\0`.

mod key_check;

use wire::{MAX_NAME_LEN, NameRef};

pub(crate) use key_check::{KeyCheck, KeyInfo, StoredSuffix};

/// An upper bound for the length of a key, in octets: every octet of the longest name escaped.
pub const MAX_KEY_LEN: usize = 2 * MAX_NAME_LEN;

/// Ends a label.
const END: u8 = 0;
/// Precedes an escaped octet.
const ESCAPE: u8 = 1;

/// A buffer for one key, reused from name to name.
#[derive(Clone)]
pub struct CanonicalKey {
    /// Four octets of a part may be written past the end.
    bytes: [u8; MAX_KEY_LEN + 4],
    len: u16,
}

impl CanonicalKey {
    /// The key of the apex.
    pub fn new() -> CanonicalKey {
        CanonicalKey { bytes: [0; _], len: 0 }
    }

    /// The key of `name` below the apex, which is the last `apex_len` octets of its wire form.
    pub fn from_name(name: NameRef<'_>, apex_len: usize) -> CanonicalKey {
        let mut key = CanonicalKey::new();
        key.set(name.wire(), apex_len);
        key
    }

    /// Sets this to the key of the name `wire`, which ends in an apex of `apex_len` octets.
    pub fn set(&mut self, wire: &[u8], apex_len: usize) {
        // On the path of every query: 20 instructions less than with `wire::name::Labels`.
        let mut starts = [0u8; 128];
        let (mut at, mut count) = (0, 0);
        let end = wire.len() - apex_len;
        while at < end {
            starts[count & 127] = at as u8;
            count += 1;
            at += 1 + usize::from(wire[at]);
        }
        self.len = 0;
        for &start in starts[..count].iter().rev() {
            let start = usize::from(start);
            self.push_label(&wire[start + 1..start + 1 + usize::from(wire[start])]);
        }
    }

    /// Appends a label in lower case: this becomes the key of a child.
    #[inline]
    pub fn push_lowercase_label(&mut self, label: &[u8]) {
        debug_assert!(!label.iter().any(u8::is_ascii_uppercase));
        if label.iter().any(|&octet| octet <= ESCAPE) {
            return self.push_escaped(label);
        }
        let start = self.len as usize;
        let end = start + label.len();
        self.bytes[start..end].copy_from_slice(label);
        self.bytes[end] = END;
        self.len = end as u16 + 1;
    }

    /// Appends a label: this becomes the key of a child.
    #[inline]
    pub fn push_label(&mut self, label: &[u8]) {
        let start = self.len as usize;
        let end = start + label.len();
        let mut least = u8::MAX;
        for (to, &octet) in self.bytes[start..=end].iter_mut().zip(label) {
            *to = octet.to_ascii_lowercase();
            least = least.min(octet);
        }
        if least <= ESCAPE {
            return self.push_escaped(label);
        }
        self.bytes[end] = END;
        self.len = end as u16 + 1;
    }

    #[cold]
    fn push_escaped(&mut self, label: &[u8]) {
        let mut at = self.len as usize;
        for &octet in label {
            if octet <= ESCAPE {
                self.bytes[at] = ESCAPE;
                self.bytes[at + 1] = octet + 1;
                at += 2;
            } else {
                self.bytes[at] = octet.to_ascii_lowercase();
                at += 1;
            }
        }
        self.bytes[at] = END;
        self.len = at as u16 + 1;
    }

    /// Sets this to the prefix and a suffix, given as its first octets, which may be padded, its length, and its other octets.
    pub(crate) fn set_joined(&mut self, prefix: &[u8], head: [u8; 4], suffix_len: usize, tail: &[u8]) {
        let (to_prefix, rest) = self.bytes.split_at_mut(prefix.len());
        to_prefix.copy_from_slice(prefix);
        rest[..4].copy_from_slice(&head);
        rest[4..4 + tail.len()].copy_from_slice(tail);
        self.len = (prefix.len() + suffix_len) as u16;
    }

    /// Truncates the key to that of an ancestor, `len` octets long.
    pub fn truncate(&mut self, len: usize) {
        debug_assert!(len <= self.len as usize);
        self.len = len as u16;
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len as usize]
    }
}

impl Default for CanonicalKey {
    fn default() -> CanonicalKey {
        CanonicalKey::new()
    }
}

/// The number of labels in a key.
pub fn label_count(key: &[u8]) -> usize {
    key.iter().filter(|&&octet| octet == END).count()
}

/// The lengths of the keys of a name's ancestors, from the one next to the apex down. The apex and the name are left out.
pub fn ancestor_lens(key: &[u8]) -> impl Iterator<Item = usize> {
    let ends = key.iter().enumerate().filter(|(_, octet)| **octet == END).map(|(at, _)| at + 1);
    ends.take_while(|&end| end < key.len())
}

/// The length of the key of the closest common ancestor of two keys whose first `common` octets are equal.
pub fn ancestor_len(key: &[u8], common: usize) -> usize {
    key[..common].iter().rposition(|&octet| octet == END).map_or(0, |at| at + 1)
}

/// Writes the labels of `key` in wire form, without the apex, and returns their length. `out` must hold [`MAX_NAME_LEN`] octets.
pub fn write_labels(key: &[u8], out: &mut [u8]) -> usize {
    let mut at = 0;
    let mut rest = key;
    while let Some((&END, head)) = rest.split_last() {
        let start = head.iter().rposition(|&octet| octet == END).map_or(0, |at| at + 1);
        at += write_label(&head[start..], &mut out[at..]);
        rest = &head[..start];
    }
    at
}

/// Writes the label of a key, in wire form, if it has a single one and no escaped octet; returns its length. A fast path of
/// [`write_labels`].
#[inline]
pub(crate) fn write_single_label(key: &[u8], out: &mut [u8]) -> Option<usize> {
    let (&END, label) = key.split_last()? else { return None };
    let (len, to) = out.get_mut(..=label.len())?.split_first_mut()?;
    *len = label.len() as u8;
    (copy_unescaped(label, to) && !label.is_empty()).then_some(key.len())
}

/// As [`write_single_label`], of a key in the parts of [`CanonicalKey::set_joined`]: for the names of a transfer.
#[inline]
pub(crate) fn write_split_label(
    prefix: &[u8],
    head: [u8; 4],
    suffix_len: usize,
    tail: &[u8],
    out: &mut [u8],
) -> Option<usize> {
    let len = prefix.len() + suffix_len.checked_sub(1)?;
    let (first, rest) = out.split_first_mut()?;
    let (to_prefix, rest) = rest.split_at_mut_checked(prefix.len())?;
    let (to_head, rest) = rest.split_first_chunk_mut()?;
    *first = len as u8;
    *to_head = head;
    // The octets of the head that are part of the label; the others count as not special.
    let label_mask = u32::MAX.checked_shr(8 * (suffix_len as u32 - 1)).unwrap_or(0);
    let head_octets = u32::from_be_bytes(head) | label_mask;
    let is_plain =
        special(u64::from(head_octets) << 32 | u64::from(head_octets)) == 0 && copy_unescaped(prefix, to_prefix);
    let is_ended = match tail.split_last() {
        None => head.get(suffix_len - 1) == Some(&END),
        Some((&end, tail)) => end == END && copy_unescaped(tail, rest.get_mut(..tail.len())?),
    };
    (is_plain && is_ended && len > 0).then_some(1 + len)
}

/// Copies octets of a key; returns whether they are part of one label without an escaped octet.
///
/// Few octets are copied as two words that may overlap: a loop has an end that the processor does not predict.
#[inline]
fn copy_unescaped(octets: &[u8], out: &mut [u8]) -> bool {
    if let 8..=16 = octets.len()
        && let (Some(first), Some(last)) = (octets.first_chunk::<8>(), octets.last_chunk::<8>())
    {
        out[..8].copy_from_slice(first);
        if let Some(end) = out.last_chunk_mut() {
            *end = *last;
        }
        return special(u64::from_ne_bytes(*first)) | special(u64::from_ne_bytes(*last)) == 0;
    }
    if let 4..8 = octets.len()
        && let (Some(first), Some(last)) = (octets.first_chunk::<4>(), octets.last_chunk::<4>())
    {
        out[..4].copy_from_slice(first);
        if let Some(end) = out.last_chunk_mut() {
            *end = *last;
        }
        return special(u64::from(u32::from_ne_bytes(*first)) << 32 | u64::from(u32::from_ne_bytes(*last))) == 0;
    }
    let mut least = u8::MAX;
    for (to, &octet) in out.iter_mut().zip(octets) {
        *to = octet;
        least = least.min(octet);
    }
    least > ESCAPE
}

/// Not 0 if one of eight octets is special: the top bit of an octet of at most [`ESCAPE`] is set.
#[inline]
fn special(octets: u64) -> u64 {
    const EACH: u64 = u64::from_ne_bytes([1; 8]);
    octets.wrapping_sub(EACH * (u64::from(ESCAPE) + 1)) & !octets & (EACH << 7)
}

fn write_label(escaped: &[u8], out: &mut [u8]) -> usize {
    if escaped.iter().all(|&octet| octet > ESCAPE) {
        out[0] = escaped.len() as u8;
        out[1..1 + escaped.len()].copy_from_slice(escaped);
        return 1 + escaped.len();
    }
    let mut at = 1;
    let mut octets = escaped.iter();
    while let Some(&octet) = octets.next() {
        out[at] = match octet {
            ESCAPE => octets.next().map_or(0, |octet| octet - 1),
            octet => octet,
        };
        at += 1;
    }
    out[0] = (at - 1) as u8;
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Name;

    fn key(text: &str) -> Vec<u8> {
        let name: Name = text.parse().expect("a good name");
        CanonicalKey::from_name(name.as_ref(), 1).as_bytes().to_vec()
    }

    #[test]
    fn keys_sort_as_names_do() {
        let mut names: Vec<Name> = [
            "a.",
            "b.a.",
            "\\000.a.",
            "\\001.a.",
            "\\000\\000.a.",
            "*.a.",
            "Z.a.",
            "z.z.a.",
            "ab.",
            "a-.",
            "\\255.",
            ".",
        ]
        .iter()
        .map(|text| text.parse().expect("a good name"))
        .collect();
        names.sort();
        for pair in names.windows(2) {
            assert!(key(&pair[0].to_string()) < key(&pair[1].to_string()), "{pair:?}");
        }
    }

    #[test]
    fn keys_convert_back_to_names() {
        for text in [".", "www.example.", "\\000\\001\\002.x.", "*.a."] {
            let mut out = [0; MAX_NAME_LEN];
            let len = write_labels(&key(text), &mut out);
            assert_eq!(Name::from_wire(&[&out[..len], &[0]].concat()).expect("a name").to_string(), text);
        }
    }

    #[test]
    fn single_labels_are_written_as_all_labels_are() {
        let short = ["a.", "www.example.", "a.b.", "\\001x.", "abc\\000.", "a\\000bcde.", ".", "*."];
        let long = [
            "domain123456.",
            "eight-88.",
            "abcdefgh\\000.",
            "abcdefghi\\001jk.",
            "a-label-of-25-octets-12345.",
            "a\\000c-label-of-24-octets.",
        ];
        for text in short.into_iter().chain(long) {
            let (key, mut expected) = (key(text), [0; MAX_NAME_LEN]);
            let len = write_labels(&key, &mut expected);
            let is_simple = key.len() == len && label_count(&key) == 1;
            for middle in 0..=key.len() {
                let (prefix, suffix) = key.split_at(middle);
                let (mut out, mut head) = ([0; MAX_NAME_LEN], [0; 4]);
                let (in_head, tail) = suffix.split_at(suffix.len().min(4));
                head[..in_head.len()].copy_from_slice(in_head);
                let written = write_split_label(prefix, head, suffix.len(), tail, &mut out);
                let written = written.map(|len| out[..len].to_vec());
                let is_split = middle < key.len();
                assert_eq!(written, (is_simple && is_split).then(|| expected[..len].to_vec()), "{text} at {middle}");
                let mut joined = CanonicalKey::new();
                joined.set_joined(prefix, head, suffix.len(), tail);
                assert_eq!(joined.as_bytes(), key);
            }
            let mut out = [0; MAX_NAME_LEN];
            let written = write_single_label(&key, &mut out).map(|len| out[..len].to_vec());
            assert_eq!(written, is_simple.then(|| expected[..len].to_vec()), "{text}");
        }
    }

    #[test]
    fn common_ancestors() {
        let (a, b) = (key("x.abc.com."), key("abd.com."));
        let common = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
        assert_eq!(&a[..ancestor_len(&a, common)], key("com."));
        assert_eq!(label_count(&a), 3);
    }

    #[test]
    fn ancestors_are_between_the_apex_and_the_name() {
        assert_eq!(ancestor_lens(b"a\0bc\0d\0").collect::<Vec<_>>(), [2, 5]);
        assert_eq!(ancestor_lens(b"a\0").count() + ancestor_lens(b"").count(), 0);
    }
}
