//! RRsets as a zone stores them, and how they become part of a message. Module `encode` writes what is read here.
//!
//! ```text
//! node    flags u8 | case | rrset...                  all RRsets of one owner, by type
//! case    nothing, or which letters of the owner are in upper case: see module `case`
//! rrset   type u8 (255: u16 follows) | ttl u8, a number in the tables (255: u32 follows)
//!         form u8: SHARED | SIGNED | count (63: u32 follows) | data | signatures
//! data    SHARED: the number of the set, 3 octets; A, AAAA: the addresses; else: length u8 (255: u32 follows) | rdata...
//! rdata   length u16 big-endian | bytes               types without compressible names
//!         IN_ZONE | POINTS | length | bytes           types whose last field is a compressible name
//! signatures  count u8 (255: u32 follows) | length u8 (255: u32 follows) | rdata...
//! ```
//! Compressible names (RFC 3597 4: those of RFC 1035 alone) end in the root label or in a pointer of our own: two
//! octets `11kkoooo oooooooo`, where kk says what it points to: the apex, the owner, or what stands o octets from the
//! beginning of this RRset as written in a message. Writing adds the place of that in the message, no more.

mod write;

use wire::{NameRef, Rtype};

use crate::case::{self, MIXED, UPPER};
use crate::tables::Tables;
pub use write::{MAX_POINTER, MessageOffsets};

/// The owner is a zone cut: it has NS records and is not the apex.
pub(crate) const CUT: u8 = 1;
/// The owner has a DNAME record.
pub(crate) const DNAME: u8 = 2;
/// The owner stands below a zone cut or a DNAME: it is glue or hidden, and no answer (RFC 2136 7.18 calls it occluded).
pub(crate) const OCCLUDED: u8 = 4;
/// The owner is occluded by a DNAME, so that it is not glue either.
pub(crate) const BELOW_DNAME: u8 = 32;
// The flags of a node are one octet; two of them say which case its owner has.
const _: () = assert!((CUT | DNAME | OCCLUDED | BELOW_DNAME) & (UPPER | MIXED) == 0);

pub(crate) const SHARED: u8 = 0x80;
pub(crate) const SIGNED: u8 = 0x40;
pub(crate) const COUNT: u8 = 0x3f;

/// The name in this RDATA is at or below the apex.
pub(crate) const IN_ZONE: u16 = 0x8000;
/// The name in this RDATA ends in a pointer.
pub(crate) const POINTS: u16 = 0x4000;
const LEN: u16 = 0x3fff;

/// What a stored pointer counts from.
pub(crate) const FROM_APEX: u8 = 0;
pub(crate) const FROM_OWNER: u8 = 1;
pub(crate) const FROM_SET: u8 = 2;

/// The octets of a record in a message before its RDATA, with an owner that is a pointer.
pub const RECORD_HEAD_LEN: usize = 12;

/// How the names in RDATA are stored.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Addresses without lengths, of this many octets each.
    Fixed(usize),
    /// The last field is a compressible name, behind this many octets.
    NameLast(usize),
    /// Two compressible names come first.
    TwoNames,
    /// Nothing to compress.
    Opaque,
}

#[inline]
pub(crate) fn shape(rtype: Rtype) -> Shape {
    match rtype {
        Rtype::A => Shape::Fixed(4),
        Rtype::AAAA => Shape::Fixed(16),
        Rtype::NS | Rtype::CNAME | Rtype::PTR => Shape::NameLast(0),
        Rtype::MX => Shape::NameLast(2),
        Rtype::SOA | Rtype::MINFO => Shape::TwoNames,
        Rtype::MD | Rtype::MF | Rtype::MB | Rtype::MG | Rtype::MR => Shape::NameLast(0),
        _ => Shape::Opaque,
    }
}

/// All RRsets of one owner.
#[derive(Clone, Copy)]
pub struct ZoneNode<'z> {
    value: &'z [u8],
    tables: &'z Tables,
}

/// One RRset with its signatures.
#[derive(Clone, Copy)]
pub struct Rrset<'z> {
    /// The type.
    pub rtype: Rtype,
    /// The TTL in seconds.
    pub ttl: u32,
    /// How many records.
    pub count: usize,
    data: &'z [u8],
    signatures: Signatures<'z>,
}

/// The RRSIG records over one RRset; their TTL is that of the set (RFC 4034 3).
#[derive(Clone, Copy, Default)]
pub struct Signatures<'z> {
    /// How many records.
    pub count: usize,
    /// length u16 big-endian | RDATA, for each.
    data: &'z [u8],
}

//----------- ZoneNode -------------------------------------------------------------

impl<'z> ZoneNode<'z> {
    pub(crate) fn new(value: &'z [u8], tables: &'z Tables) -> ZoneNode<'z> {
        ZoneNode { value, tables }
    }

    /// Whether the owner is a zone cut.
    #[inline]
    pub fn is_cut(&self) -> bool {
        self.value[0] & CUT != 0
    }

    /// Whether the owner has a DNAME.
    #[inline]
    pub fn has_dname(&self) -> bool {
        self.value[0] & DNAME != 0
    }

    /// Whether the owner stands below a cut or a DNAME.
    #[inline]
    pub fn is_occluded(&self) -> bool {
        self.value[0] & OCCLUDED != 0
    }

    /// Whether the owner stands below a DNAME: it is transferred, and is in no answer (RFC 6672 2.4).
    #[inline]
    pub fn is_below_dname(&self) -> bool {
        self.value[0] & BELOW_DNAME != 0
    }

    /// Whether the names at or below this owner are all in the zone's own authority: neither cut, DNAME nor occluded.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.value[0] & (CUT | DNAME | OCCLUDED) == 0
    }

    /// Whether the owner has upper-case letters: below the apex, or at the apex in its own labels.
    #[inline]
    pub(crate) fn has_upper_case(&self) -> bool {
        self.value[0] & (UPPER | MIXED) != 0
    }

    /// The RRset of this type.
    #[inline]
    pub fn rrset(&self, rtype: Rtype) -> Option<Rrset<'z>> {
        self.rrsets().find(|rrset| rrset.rtype == rtype).filter(|rrset| rrset.count > 0)
    }

    /// All RRsets by type. One with a count of 0 holds signatures over a type that is not there.
    #[inline]
    pub fn rrsets(&self) -> Rrsets<'z> {
        Rrsets { rest: case::skip(self.value), tables: self.tables }
    }
}

/// The RRsets of a node.
#[derive(Clone)]
pub struct Rrsets<'z> {
    rest: &'z [u8],
    tables: &'z Tables,
}

impl<'z> Iterator for Rrsets<'z> {
    type Item = Rrset<'z>;

    #[inline]
    fn next(&mut self) -> Option<Rrset<'z>> {
        let (&code, rest) = self.rest.split_first()?;
        let (rtype, rest) = if code < 255 { (Rtype(u16::from(code)), rest) } else { long_rtype(rest) };
        let (&number, rest) = split_first(rest);
        let (ttl, rest) = if number < 255 { (self.tables.ttl(number), rest) } else { split_u32(rest) };
        let (&form, rest) = split_first(rest);
        let (count, rest) = if form & COUNT < COUNT { ((form & COUNT) as usize, rest) } else { long_count(rest) };
        let (data, rest) = match shape(rtype) {
            Shape::Fixed(size) => rest.split_at(size * count),
            _ if form & SHARED != 0 => self.shared(rest),
            _ => {
                let (len, rest) = split_length(rest);
                rest.split_at(len)
            }
        };
        let (signatures, rest) =
            if form & SIGNED != 0 { Signatures::split(rest) } else { (Signatures::default(), rest) };
        self.rest = rest;
        Some(Rrset { rtype, ttl, count, data, signatures })
    }
}

impl<'z> Rrsets<'z> {
    #[inline]
    fn shared(&self, rest: &'z [u8]) -> (&'z [u8], &'z [u8]) {
        let (number, rest) = rest.split_at(3);
        (self.tables.set(u32::from_le_bytes([number[0], number[1], number[2], 0]) as usize), rest)
    }
}

#[inline]
fn split_first(bytes: &[u8]) -> (&u8, &[u8]) {
    bytes.split_first().expect("nodes are written whole")
}

#[cold]
fn long_rtype(bytes: &[u8]) -> (Rtype, &[u8]) {
    let (code, rest) = bytes.split_at(2);
    (Rtype(u16::from_le_bytes([code[0], code[1]])), rest)
}

#[cold]
fn long_count(bytes: &[u8]) -> (usize, &[u8]) {
    let (count, rest) = split_u32(bytes);
    (count as usize, rest)
}

fn split_u32(bytes: &[u8]) -> (u32, &[u8]) {
    let (number, rest) = bytes.split_at(4);
    (u32::from_le_bytes([number[0], number[1], number[2], number[3]]), rest)
}

#[inline]
fn split_length(bytes: &[u8]) -> (usize, &[u8]) {
    match split_first(bytes) {
        (255, rest) => {
            let (len, rest) = split_u32(rest);
            (len as usize, rest)
        }
        (&len, rest) => (len as usize, rest),
    }
}

//----------- Rrset ------------------------------------------------------------

impl<'z> Rrset<'z> {
    /// The octets that the records take in a message.
    #[inline]
    pub fn message_len(&self) -> usize {
        match shape(self.rtype) {
            Shape::Fixed(size) => self.count * (RECORD_HEAD_LEN + size),
            _ => self.data.len() + self.count * (RECORD_HEAD_LEN - 2),
        }
    }

    /// Where the set is in memory: tells whether two are the same one of one version of a zone.
    pub fn address(&self) -> usize {
        self.data.as_ptr() as usize
    }

    /// The signatures over this set.
    #[inline]
    pub fn signatures(&self) -> Signatures<'z> {
        self.signatures
    }

    /// The RDATA as stored, in stored order. Names may end in pointers of our own: see [`Self::append_rdata`].
    pub(crate) fn stored(&self) -> impl Iterator<Item = Stored<'z>> + use<'z> {
        let (shape, mut rest) = (shape(self.rtype), self.data);
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            if let Shape::Fixed(size) = shape {
                let (bytes, more) = rest.split_at(size);
                rest = more;
                return Some(Stored { bytes, in_zone: false });
            }
            let (head, more) = rest.split_at(2);
            let word = u16::from_be_bytes([head[0], head[1]]);
            let (bytes, more) = more.split_at(stored_len(shape, word));
            rest = more;
            Some(Stored { bytes, in_zone: shape != Shape::Opaque && word & IN_ZONE != 0 })
        })
    }

    /// Whether names in the RDATA may point to places in the message, those of the set itself among them.
    #[inline]
    pub fn has_compressed_names(&self) -> bool {
        matches!(shape(self.rtype), Shape::NameLast(_) | Shape::TwoNames)
    }

    /// For each record whether the name in its RDATA is at or below the apex, and where that name will stand, in
    /// octets from the beginning of the set as written in a message. For NS, MX and the like alone.
    #[inline]
    pub fn targets(&self) -> impl Iterator<Item = (bool, usize)> + use<'z> {
        let skip = if let Shape::NameLast(skip) = shape(self.rtype) { skip } else { 0 };
        let mut at = 0;
        self.stored().map(move |stored| {
            let target = at + RECORD_HEAD_LEN + skip;
            at += RECORD_HEAD_LEN + stored.bytes.len();
            (stored.in_zone, target)
        })
    }

    /// The RDATA of each record, for types without compressible names: as it stands in a message.
    pub fn opaque(&self) -> impl Iterator<Item = &'z [u8]> + use<'z> {
        debug_assert!(!self.has_compressed_names());
        self.stored().map(|stored| stored.bytes)
    }

    /// Appends one of [`Self::stored`] in uncompressed wire form.
    pub(crate) fn append_rdata(&self, stored: &Stored<'_>, names: Names<'_>, out: &mut Vec<u8>) {
        match shape(self.rtype) {
            Shape::Fixed(_) | Shape::Opaque => out.extend_from_slice(stored.bytes),
            Shape::NameLast(skip) => {
                out.extend_from_slice(&stored.bytes[..skip]);
                self.expand(&stored.bytes[skip..], names, out);
            }
            Shape::TwoNames => {
                let mut rest = stored.bytes;
                for _ in 0..2 {
                    rest = &rest[self.expand(rest, names, out)..];
                }
                out.extend_from_slice(rest);
            }
        }
    }

    /// Appends the whole name that starts at `stored` and returns how many octets it is stored in.
    fn expand(&self, stored: &[u8], names: Names<'_>, out: &mut Vec<u8>) -> usize {
        let mut at = 0;
        loop {
            let len = stored[at] as usize;
            if len & 0xc0 != 0 {
                let (kind, offset) = take_pointer([stored[at], stored[at + 1]]);
                match kind {
                    FROM_APEX => out.extend_from_slice(names.apex.wire()),
                    FROM_OWNER => out.extend_from_slice(names.owner.wire()),
                    _ => {
                        self.expand(self.at_message_offset(offset), names, out);
                    }
                }
                return at + 2;
            }
            out.extend_from_slice(&stored[at..at + 1 + len]);
            at += 1 + len;
            if len == 0 {
                return at;
            }
        }
    }

    /// The stored bytes from what stands `offset` octets into the set as written in a message.
    fn at_message_offset(&self, offset: usize) -> &'z [u8] {
        let mut start = 0;
        for stored in self.stored() {
            let rdata = start + RECORD_HEAD_LEN;
            if offset < rdata + stored.bytes.len() {
                return &stored.bytes[offset - rdata..];
            }
            start = rdata + stored.bytes.len();
        }
        unreachable!("pointers in a set lead to names before them in the set")
    }
}

/// One RDATA as stored.
#[derive(Clone, Copy)]
pub(crate) struct Stored<'z> {
    pub(crate) bytes: &'z [u8],
    pub(crate) in_zone: bool,
}

/// The names that stored pointers count from.
#[derive(Clone, Copy)]
pub(crate) struct Names<'n> {
    /// The owner of the RRset.
    pub(crate) owner: NameRef<'n>,
    /// The apex of the zone.
    pub(crate) apex: NameRef<'n>,
}

fn stored_len(shape: Shape, word: u16) -> usize {
    match shape {
        Shape::Opaque => word as usize,
        _ => (word & LEN) as usize,
    }
}

#[inline]
fn take_pointer(pointer: [u8; 2]) -> (u8, usize) {
    (pointer[0] >> 4 & 3, (u16::from_be_bytes(pointer) & 0x0fff) as usize)
}

pub(crate) fn make_pointer(kind: u8, offset: usize) -> [u8; 2] {
    (0xc000 | u16::from(kind) << 12 | offset as u16).to_be_bytes()
}

//----------- Signatures -------------------------------------------------------

impl<'z> Signatures<'z> {
    fn split(bytes: &'z [u8]) -> (Signatures<'z>, &'z [u8]) {
        let (count, rest) = split_length(bytes);
        let (len, rest) = split_length(rest);
        let (data, rest) = rest.split_at(len);
        (Signatures { count, data }, rest)
    }

    /// The octets that the records take in a message.
    pub fn message_len(&self) -> usize {
        self.data.len() + self.count * (RECORD_HEAD_LEN - 2)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The RDATA of each.
    pub fn rdatas(&self) -> impl Iterator<Item = &'z [u8]> + use<'z> {
        let mut rest = self.data;
        std::iter::from_fn(move || {
            let (len, more) = rest.split_first_chunk::<2>()?;
            let (rdata, more) = more.split_at(u16::from_be_bytes(*len) as usize);
            rest = more;
            Some(rdata)
        })
    }
}
