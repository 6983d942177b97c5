//! The original case of owner names (RFC 4343 4). Keys are in lower case, so each node stores the case of its owner: of the labels below
//! the apex, or of the whole apex.
//!
//! | flags of the node | owner | stored |
//! | --- | --- | --- |
//! | none | no upper-case letters | nothing |
//! | `UPPER` | no lower-case letters | nothing |
//! | `MIXED` | both | length (u8) and a bitmap after the flags |

use wire::{Name, NameRef};

use crate::canonical_key::{write_labels, write_single_label};

/// All letters are in upper case.
pub(crate) const UPPER: u8 = 8;
/// Some letters are in upper case. The bitmap has one bit per octet of the labels' wire form, most significant bit first, without
/// trailing zero octets.
pub(crate) const MIXED: u8 = 16;

/// The case of an owner: which of its letters are in upper case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnerCase<'b> {
    flags: u8,
    bitmap: &'b [u8],
}

impl<'b> OwnerCase<'b> {
    /// No upper-case letters.
    pub(crate) const LOWER: OwnerCase<'static> = OwnerCase { flags: 0, bitmap: &[] };

    /// Reads the case from the flags (others are ignored) and the start of `bytes`; returns it with the rest of `bytes`.
    #[inline]
    pub(crate) fn read(flags: u8, bytes: &'b [u8]) -> (OwnerCase<'b>, &'b [u8]) {
        let len = if flags & MIXED == 0 { 0 } else { 1 + usize::from(bytes[0]) };
        let (stored, rest) = bytes.split_at(len);
        (OwnerCase { flags: flags & (UPPER | MIXED), bitmap: stored.get(1..).unwrap_or_default() }, rest)
    }

    /// The flags of this case.
    pub(crate) fn flags(&self) -> u8 {
        self.flags
    }

    /// Appends the stored bitmap, if there is one.
    pub(crate) fn append(&self, out: &mut Vec<u8>) {
        if self.flags & MIXED != 0 {
            out.push(self.bitmap.len() as u8);
            out.extend_from_slice(self.bitmap);
        }
    }

    /// Applies this case to lower-case labels.
    #[inline]
    pub(crate) fn apply(&self, labels: &mut [u8]) {
        if self.flags & UPPER != 0 {
            labels.make_ascii_uppercase();
        }
        for (at, octet) in labels.iter_mut().take(8 * self.bitmap.len()).enumerate() {
            if self.bitmap[at / 8] & bit(at) != 0 {
                octet.make_ascii_uppercase();
            }
        }
    }
}

/// The bit for octet `at` of the labels, in its octet of the bitmap.
fn bit(at: usize) -> u8 {
    0x80 >> (at % 8)
}

/// Appends the case of `owner`, which ends in an apex of `apex_len` octets, and returns its flags.
#[inline]
pub(crate) fn append_of(owner: &[u8], apex_len: usize, out: &mut Vec<u8>) -> u8 {
    let labels = if owner.len() == apex_len { owner } else { &owner[..owner.len() - apex_len] };
    // Length octets are at most 63, so never letters. Eight octets at a time: this runs for every owner of a zone.
    let (eights, rest) = labels.as_chunks::<8>();
    let has_upper_case = |octets: &[u8]| octets.iter().fold(false, |any, octet| any | octet.is_ascii_uppercase());
    let is_cased = eights.iter().any(|eight| has_upper_case(eight)) || has_upper_case(rest);
    if is_cased { append_upper(labels, out) } else { 0 }
}

#[cold]
fn append_upper(labels: &[u8], out: &mut Vec<u8>) -> u8 {
    if !labels.iter().any(u8::is_ascii_lowercase) {
        return UPPER;
    }
    let start = out.len() + 1;
    out.push(0);
    for (at, _) in labels.iter().enumerate().filter(|(_, octet)| octet.is_ascii_uppercase()) {
        out.resize(start + at / 8 + 1, 0);
        out[start + at / 8] |= bit(at);
    }
    out[start - 1] = (out.len() - start) as u8;
    MIXED
}

/// Applies the case stored in a node's value to lower-case labels.
#[inline]
pub(crate) fn apply(value: &[u8], labels: &mut [u8]) {
    if value[0] & (UPPER | MIXED) != 0 {
        apply_stored(value, labels);
    }
}

#[cold]
fn apply_stored(value: &[u8], labels: &mut [u8]) {
    OwnerCase::read(value[0], &value[1..]).0.apply(labels);
}

/// The RRsets of a node's value, after its flags and its case.
#[inline]
pub(crate) fn skip(value: &[u8]) -> &[u8] {
    if value[0] & MIXED == 0 { &value[1..] } else { skip_bitmap(value) }
}

#[cold]
fn skip_bitmap(value: &[u8]) -> &[u8] {
    &value[2 + usize::from(value[1])..]
}

/// The size of a buffer for a name decoded from a key, whose escaped octets take two octets.
pub const OWNER_BUFFER_LEN: usize = 2 * wire::MAX_NAME_LEN;

/// Writes the name of a key below `apex`, with its labels in this case.
#[inline]
pub(crate) fn write_name<'o>(
    key: &[u8],
    case: OwnerCase<'_>,
    apex: NameRef<'_>,
    out: &'o mut [u8; OWNER_BUFFER_LEN],
) -> NameRef<'o> {
    let len = write_single_label(key, out).unwrap_or_else(|| write_labels(key, out));
    case.apply(&mut out[..len]);
    let end = len + apex.wire().len();
    out[len..end].copy_from_slice(apex.wire());
    NameRef::from_valid_wire(&out[..end])
}

/// The apex in this case: that of its first record, for a zone that is built.
pub(crate) fn apex_in_case(apex: NameRef<'_>, case: OwnerCase<'_>) -> Name {
    let mut wire = apex.wire().to_ascii_lowercase();
    case.apply(&mut wire);
    NameRef::from_wire(&wire).expect("changing the case keeps a name valid").to_owned()
}

/// The name of a key below `apex`, in lower case.
pub(crate) fn name_of_key(key: &[u8], apex: NameRef<'_>) -> Name {
    write_name(key, OwnerCase::LOWER, apex, &mut [0; _]).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Name;

    /// The name, at or below `example.`, with its case encoded and decoded, and the encoded form.
    fn round_trip(text: &str) -> (String, Vec<u8>) {
        let name: Name = text.parse().expect("a good name");
        let mut value = vec![0];
        value[0] = 7 | append_of(name.wire(), 9, &mut value);
        let len = value.len();
        value.extend_from_slice(b"rest");
        assert_eq!(skip(&value), b"rest");
        let (case, rest) = OwnerCase::read(value[0], &value[1..]);
        assert_eq!(rest, b"rest");
        let mut again = vec![7 | case.flags()];
        case.append(&mut again);
        assert_eq!(again, value[..len]);
        let mut lower = name.to_lowercase().wire().to_vec();
        let labels = if lower.len() == 9 { 9 } else { lower.len() - 9 };
        case.apply(&mut lower[..labels]);
        (Name::from_wire(&lower).expect("a good name").to_string(), again)
    }

    #[test]
    fn names_in_one_case_take_no_space() {
        for (text, flags) in [("example.", 0), ("a-1.b.example.", 0), ("EXAMPLE.", UPPER), ("A-1.B.example.", UPPER)] {
            assert_eq!(round_trip(text), (text.to_string(), vec![7 | flags]));
        }
    }

    #[test]
    fn mixed_case_is_kept_letter_by_letter() {
        for text in ["ExamplE.", "wWw.example.", "\\000A.\\200b.example.", "*.Sub.example.", "a.b.c.D.example."] {
            assert_eq!(round_trip(text).0, text);
        }
        let long = format!("{}X.example.", "aB.".repeat(80));
        assert_eq!(round_trip(&long).0, long);
        assert_eq!(round_trip("Www.example.").1, [7 | MIXED, 1, 0x40], "three octets");
    }
}
