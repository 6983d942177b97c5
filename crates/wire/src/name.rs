//! Domain names in uncompressed wire form, owned ([`Name`]) and borrowed ([`NameRef`]), and their canonical order.
//! Their text form is in `name/text.rs`.
//!
//! Comparison ignores ASCII case (RFC 4343); the octets keep their original case.

mod text;

use std::fmt;

use crate::{MAX_LABEL_LEN, MAX_NAME_LEN};
pub use text::{parse_text, unescape};

/// An absolute name, owned: length-prefixed labels up to the root label. Most names take 24 octets in all.
#[derive(Clone)]
pub struct Name(NameOctets);

/// The wire form. An allocation for a short name would take more memory than the name itself, of which a server has millions.
#[derive(Clone)]
enum NameOctets {
    Inline { len: u8, octets: [u8; INLINE_LEN] },
    Heap(Box<[u8]>),
}

/// The longest name stored without an allocation: as much as fits beside the length and the tag of a box.
const INLINE_LEN: usize = 22;

/// An absolute name, borrowed: length-prefixed labels up to the root label.
#[derive(Clone, Copy)]
pub struct NameRef<'a>(&'a [u8]);

/// Why octets or text are not a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The wire form is incomplete.
    #[error("the name ends too early")]
    Short,
    /// A label of more than 63 octets (RFC 1035 2.3.4).
    #[error("a label is longer than 63 octets")]
    LongLabel,
    /// More than 255 octets in all (RFC 1035 2.3.4).
    #[error("the name is longer than 255 octets")]
    LongName,
    /// Two dots in a row, or a leading dot.
    #[error("the name has an empty label")]
    EmptyLabel,
    /// A backslash that is followed by neither one character nor three digits up to 255 (RFC 1035 5.1).
    #[error("a backslash must be followed by one character or by three digits up to 255")]
    BadEscape,
    /// A relative name without an origin.
    #[error("the name is relative and there is no origin; end it in a dot")]
    Relative,
}

//----------- Name -------------------------------------------------------------

impl Name {
    /// The root name.
    pub fn root() -> Name {
        NameRef::ROOT.to_owned()
    }

    /// The uncompressed name at the start of `bytes`.
    pub fn from_wire(bytes: &[u8]) -> Result<Name, NameError> {
        NameRef::from_wire(bytes).map(NameRef::to_owned)
    }

    /// Parses the text form (RFC 1035 5.1); `origin` completes relative names and replaces `@`.
    pub fn from_text(text: &[u8], origin: Option<NameRef<'_>>) -> Result<Name, NameError> {
        let mut wire = [0; MAX_NAME_LEN];
        let len = parse_text(text, origin, &mut wire)?;
        Ok(NameRef(&wire[..len]).to_owned())
    }

    /// Borrows the name.
    #[inline]
    pub fn as_ref(&self) -> NameRef<'_> {
        NameRef(self.wire())
    }

    /// The wire form.
    #[inline]
    pub fn wire(&self) -> &[u8] {
        match &self.0 {
            NameOctets::Inline { len, octets } => &octets[..usize::from(*len)],
            NameOctets::Heap(octets) => octets,
        }
    }

    /// The name in lower case.
    pub fn to_lowercase(&self) -> Name {
        // Length octets are at most 63, so lower-casing does not change them ('A' is 65).
        let mut name = self.clone();
        match &mut name.0 {
            NameOctets::Inline { octets, .. } => octets.make_ascii_lowercase(),
            NameOctets::Heap(octets) => octets.make_ascii_lowercase(),
        }
        name
    }
}

impl std::str::FromStr for Name {
    type Err = NameError;

    /// Parses the text form; the final dot is optional.
    fn from_str(text: &str) -> Result<Name, NameError> {
        Name::from_text(text.as_bytes(), Some(NameRef::ROOT))
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Name) -> bool {
        self.as_ref() == other.as_ref()
    }
}
impl Eq for Name {}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Name) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Name {
    fn cmp(&self, other: &Name) -> std::cmp::Ordering {
        self.as_ref().canonical_cmp(other.as_ref())
    }
}

impl std::hash::Hash for Name {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        for byte in self.wire() {
            state.write_u8(byte.to_ascii_lowercase());
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_ref().fmt(f)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_ref().fmt(f)
    }
}

//----------- NameRef ----------------------------------------------------------

impl<'a> NameRef<'a> {
    /// The root name.
    pub const ROOT: NameRef<'static> = NameRef(&[0]);

    /// The uncompressed name at the start of `bytes`.
    pub fn from_wire(bytes: &'a [u8]) -> Result<NameRef<'a>, NameError> {
        let mut at = 0;
        loop {
            let len = *bytes.get(at).ok_or(NameError::Short)? as usize;
            if len > MAX_LABEL_LEN {
                return Err(NameError::LongLabel);
            }
            at += 1 + len;
            if at > MAX_NAME_LEN {
                return Err(NameError::LongName);
            }
            if len == 0 {
                return Ok(NameRef(&bytes[..at]));
            }
        }
    }

    /// As [`NameRef::from_wire`], without a check: `bytes` must be exactly one valid name.
    pub fn from_valid_wire(bytes: &'a [u8]) -> NameRef<'a> {
        debug_assert_eq!(NameRef::from_wire(bytes), Ok(NameRef(bytes)));
        NameRef(bytes)
    }

    /// The wire form.
    pub fn wire(self) -> &'a [u8] {
        self.0
    }

    /// An owned copy.
    pub fn to_owned(self) -> Name {
        let mut octets = [0; INLINE_LEN];
        Name(match octets.get_mut(..self.0.len()) {
            Some(start) => {
                start.copy_from_slice(self.0);
                NameOctets::Inline { len: self.0.len() as u8, octets }
            }
            None => NameOctets::Heap(self.0.into()),
        })
    }

    /// The labels from left to right, without the root label.
    pub fn labels(self) -> Labels<'a> {
        Labels::new(self.0)
    }

    /// The number of labels, without the root label.
    pub fn label_count(self) -> usize {
        self.labels().count()
    }

    /// The name without its first label; `None` for the root.
    pub fn parent(self) -> Option<NameRef<'a>> {
        match self.0[0] {
            0 => None,
            len => Some(NameRef(&self.0[1 + len as usize..])),
        }
    }

    /// The name, its parent, and so on, without the root.
    pub fn suffixes(self) -> impl Iterator<Item = NameRef<'a>> {
        std::iter::successors(Some(self), |name| name.parent()).take_while(|name| !name.is_root())
    }

    /// Whether this is the root name.
    pub fn is_root(self) -> bool {
        self.0.len() == 1
    }

    /// Whether the first label is `*` (RFC 4592 2.1.1).
    pub fn is_wildcard(self) -> bool {
        self.0.starts_with(b"\x01*")
    }

    /// Whether this name is `ancestor` or below it.
    pub fn is_at_or_below(self, ancestor: NameRef<'_>) -> bool {
        let mut name = self;
        while name.0.len() > ancestor.0.len() {
            match name.parent() {
                Some(parent) => name = parent,
                None => return false,
            }
        }
        // In the same case, as in nearly all records of a transfer, it is one comparison.
        name.0 == ancestor.0 || name == ancestor
    }

    /// Canonical DNS name order (RFC 4034 6.1).
    pub fn canonical_cmp(self, other: NameRef<'_>) -> std::cmp::Ordering {
        // Fast path for siblings, the most common case: the names in one RRset.
        if let (Some(parent), Some(others)) = (self.parent(), other.parent())
            && parent.0 == others.0
        {
            return lowered(label_at(self.0, 0)).cmp(lowered(label_at(other.0, 0)));
        }
        let (mine, theirs) = (LabelOffsets::new(self.0), LabelOffsets::new(other.0));
        let (mine, theirs) = (mine.as_slice(), theirs.as_slice());
        for (a, b) in mine.iter().rev().zip(theirs.iter().rev()) {
            let order = lowered(label_at(self.0, *a)).cmp(lowered(label_at(other.0, *b)));
            if order.is_ne() {
                return order;
            }
        }
        mine.len().cmp(&theirs.len())
    }
}

fn label_at(wire: &[u8], at: u8) -> &[u8] {
    let at = at as usize;
    &wire[at + 1..at + 1 + wire[at] as usize]
}

fn lowered(label: &[u8]) -> impl Iterator<Item = u8> + '_ {
    label.iter().map(u8::to_ascii_lowercase)
}

impl PartialEq for NameRef<'_> {
    fn eq(&self, other: &NameRef<'_>) -> bool {
        self.0.eq_ignore_ascii_case(other.0)
    }
}
impl Eq for NameRef<'_> {}

impl fmt::Debug for NameRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The offsets of the labels in the wire form of a name, for walking it from the root label down.
pub struct LabelOffsets {
    offsets: [u8; 128],
    count: u8,
}

impl LabelOffsets {
    /// The label offsets of `wire`: a whole name, or its leading labels without the root label.
    #[inline]
    pub fn new(wire: &[u8]) -> LabelOffsets {
        let (mut offsets, mut count, mut at) = ([0; 128], 0, 0);
        for label in Labels::new(wire) {
            // A name has at most 127 labels: the mask only spares a bounds check.
            offsets[count & 127] = at as u8;
            count += 1;
            at += 1 + label.len();
        }
        LabelOffsets { offsets, count: count as u8 }
    }

    /// The offset of each label's length octet, from left to right.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        &self.offsets[..usize::from(self.count)]
    }
}

/// The labels of a name from left to right.
#[derive(Clone)]
pub struct Labels<'a>(&'a [u8]);

impl<'a> Labels<'a> {
    /// The labels of `wire`: a name, or its leading labels without the root label.
    pub fn new(wire: &'a [u8]) -> Labels<'a> {
        Labels(wire)
    }
}

impl<'a> Iterator for Labels<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (&len, rest) = self.0.split_first()?;
        if len == 0 {
            return None;
        }
        let (label, rest) = rest.split_at(len as usize);
        self.0 = rest;
        Some(label)
    }
}

//----------- in messages ------------------------------------------------------

/// The offset of what ends the labels at `at`: the root label or a pointer; past the end of `octets` if they are cut off.
#[inline]
pub fn labels_end(octets: &[u8], mut at: usize) -> usize {
    while let Some(&len @ 1..=63) = octets.get(at) {
        at += 1 + usize::from(len);
    }
    at
}

/// The end of the name at `start` of a message. Pointers are not followed, but must point backwards (RFC 1035 4.1.4).
#[inline]
pub fn skip_name(message: &[u8], start: usize) -> Option<usize> {
    let at = labels_end(message, start);
    match *message.get(at)? {
        0 => Some(at + 1),
        high @ 192.. => {
            let target = usize::from(high & 0x3f) << 8 | usize::from(*message.get(at + 1)?);
            (target < start).then_some(at + 2)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        text.parse().expect("a good name")
    }

    #[test]
    fn malformed_wire_form_is_refused() {
        assert_eq!(Name::from_wire(b"\x01a\x00rest"), Ok(name("a.")));
        assert_eq!(Name::from_wire(b"\x01a"), Err(NameError::Short));
        assert_eq!(Name::from_wire(b"\xc0\x0c"), Err(NameError::LongLabel));
        assert_eq!(Name::from_wire(&[1; 300]), Err(NameError::LongName));
    }

    #[test]
    fn order_is_that_of_rfc_4034_6_1() {
        let order = [
            "example.",
            "a.example.",
            "yljkjljk.a.example.",
            "Z.a.example.",
            "zABC.a.EXAMPLE.",
            "z.example.",
            "\\001.z.example.",
            "*.z.example.",
            "\\200.z.example.",
        ];
        for pair in order.windows(2) {
            assert!(name(pair[0]) < name(pair[1]), "{pair:?}");
        }
    }

    #[test]
    fn suffixes_end_before_the_root() {
        let name = name("a.b.c.");
        let suffixes: Vec<String> = name.as_ref().suffixes().map(|suffix| suffix.to_string()).collect();
        assert_eq!(suffixes, ["a.b.c.", "b.c.", "c."]);
        assert_eq!(NameRef::ROOT.suffixes().count(), 0);
    }

    #[test]
    fn ancestry() {
        assert!(name("a.b.c.").as_ref().is_at_or_below(name("B.c.").as_ref()));
        assert!(name("c.").as_ref().is_at_or_below(NameRef::ROOT));
        assert!(!name("ab.c.").as_ref().is_at_or_below(name("b.c.").as_ref()));
        assert!(!NameRef::ROOT.is_at_or_below(name("c.").as_ref()));
    }
}
