//! The stored form of RRsets, and access to it. `encode` writes it, `compression` compresses its names, `recurring` finds it again by its records, `write` copies it into
//! messages, `validate` checks it when it comes from outside, `serial_apart` keeps the serial of a small zone out of it.
//!
//! The value of a tree entry is a node, all RRsets of one owner by type. Sizes are in octets; 255 (or a count of 31) means that
//! the number follows in full, little-endian.
//!
//! | part | fields |
//! | --- | --- |
//! | node | flags 1, owner case (see `owner_case`), RRsets |
//! | RRset | number of the head 1 (see `intern`) or 255 and the head, number of records 4 if not in the form, data, RRSIG records if `SIGNED` or `SHARED_HEAD` |
//! | head | type 1 or 1 + 2, TTL 4, form 1 |
//! | form | `INTERNED`, `SIGNED` or `SHARED_HEAD`, number of records (5 bits) |
//! | data, interned | number of the set, 3 |
//! | data, interned, NSEC3 | number of the rest (see `nsec3`), 3; next hashed owner name |
//! | data, A and AAAA | the addresses |
//! | data, other types | length 1 or 1 + 4, RDATAs |
//! | RDATA | length 2 big-endian, octets |
//! | RDATA with compressible names | `IN_ZONE`, `ENDS_IN_POINTER` and a 14-bit length 2 big-endian, octets |
//! | RRSIG records, `SIGNED` | count 1 or 1 + 4, length 1 or 1 + 4, RDATAs |
//! | RRSIG record, `SHARED_HEAD` | number of the signature head (see `signature`) 3, expiration and inception 8 if the head has none, signature |
//!
//! A compressible name (RFC 3597 4: types of RFC 1035 only) ends in the root label or in a relocatable pointer, `11bboooo oooooooo`:
//! the base bb (apex, owner, or the start of this RRset in the message) and an offset o. Writing the set into a message adds the
//! message offset of the base.

mod compression;
mod encode;
mod nsec3;
mod recurring;
mod serial_apart;
mod signature;
mod validate;
mod write;

use wire::name::labels_end;
use wire::{NameRef, Rtype};

use crate::intern::InternTables;
use crate::owner_case::{self, MIXED, UPPER};
use crate::rrset_head::RrsetHead;
pub use crate::stage::RECORD_HEAD_LEN;
pub use compression::MAX_RRSET_OFFSET;
pub(crate) use encode::NodeEncoder;
pub use signature::{SignatureRdata, Signatures};
pub(crate) use validate::NodeValidator;
pub use write::{DistantRdata, MAX_POINTER, MessageOffsets, SpelledRdata};

/// The owner is a zone cut: it has NS records and is not the apex.
pub(crate) const CUT: u8 = 1;
/// The owner has a DNAME record.
pub(crate) const DNAME: u8 = 2;
/// The owner is below a zone cut or a DNAME: occluded (RFC 2136 7.18), in answers only as glue.
pub(crate) const OCCLUDED: u8 = 4;
/// The owner is below a DNAME, so it is not glue either.
pub(crate) const BELOW_DNAME: u8 = 32;
/// The owner is the apex, and its SOA record has zeros in place of the serial, which the version of the zone has.
const SERIAL_APART: u8 = 64;
// Two bits of the flag octet hold the owner case.
const _: () = assert!((CUT | DNAME | OCCLUDED | BELOW_DNAME | SERIAL_APART) & (UPPER | MIXED) == 0);

// The form octet of an RRset.
const INTERNED: u8 = 0x80;
const SIGNED: u8 = 0x40;
/// One RRSIG record covers the set, and the head of its RDATA is interned.
const SHARED_HEAD: u8 = 0x20;
const COUNT: u8 = 0x1f;

/// In place of the number of a head: the head follows in full.
const FULL_HEAD: u8 = 255;

/// The name that this RDATA ends in is at or below the apex.
const IN_ZONE: u16 = 0x8000;
/// This RDATA ends in a relocatable pointer.
const ENDS_IN_POINTER: u16 = 0x4000;
const LEN: u16 = 0x3fff;

// The bases of relocatable pointers.
const BASE_APEX: u8 = 0;
const BASE_OWNER: u8 = 1;
const BASE_RRSET: u8 = 2;

/// How RDATA of a type is stored.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RdataLayout {
    /// Addresses of this many octets each, without lengths.
    Address(usize),
    /// The last field is a compressible name, after this many octets.
    NameLast(usize),
    /// The first two fields are compressible names.
    TwoNames,
    /// No compressible names.
    Opaque,
}

#[inline]
fn rdata_layout(rtype: Rtype) -> RdataLayout {
    match rtype {
        Rtype::A => RdataLayout::Address(4),
        Rtype::AAAA => RdataLayout::Address(16),
        Rtype::NS | Rtype::CNAME | Rtype::PTR => RdataLayout::NameLast(0),
        Rtype::MX => RdataLayout::NameLast(2),
        Rtype::SOA | Rtype::MINFO => RdataLayout::TwoNames,
        Rtype::MD | Rtype::MF | Rtype::MB | Rtype::MG | Rtype::MR => RdataLayout::NameLast(0),
        _ => RdataLayout::Opaque,
    }
}

/// A node of the zone (RFC 1034 3.1): an owner name's RRsets.
#[derive(Clone, Copy)]
pub struct ZoneNode<'z> {
    value: &'z [u8],
    tables: &'z InternTables,
    /// The serial of the version, for a node that is [`SERIAL_APART`] from it.
    serial: u32,
}

/// An RRset with the RRSIG records that cover it.
#[derive(Clone, Copy)]
pub struct Rrset<'z> {
    /// The type.
    pub rtype: Rtype,
    /// The TTL in seconds.
    pub ttl: u32,
    /// The number of records.
    pub count: usize,
    data: &'z [u8],
    /// If these are sets of a node that is [`SERIAL_APART`] from its serial.
    serial: Option<u32>,
    /// All but the hash of the only RDATA, if `data` is the hash of an NSEC3 record; otherwise empty.
    nsec3_rest: &'z [u8],
    signatures: Signatures<'z>,
}

//----------- ZoneNode -------------------------------------------------------------

impl<'z> ZoneNode<'z> {
    /// A node of a version with this serial; of no version yet, the serial does not matter.
    #[inline]
    pub(crate) fn new(value: &'z [u8], tables: &'z InternTables, serial: u32) -> ZoneNode<'z> {
        ZoneNode { value, tables, serial }
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

    /// Whether the owner is below a zone cut or a DNAME.
    #[inline]
    pub fn is_occluded(&self) -> bool {
        self.value[0] & OCCLUDED != 0
    }

    /// Whether the owner is below a DNAME: in transfers, but in no answer (RFC 6672 2.4).
    #[inline]
    pub fn is_below_dname(&self) -> bool {
        self.value[0] & BELOW_DNAME != 0
    }

    /// Whether the owner is authoritative and has no DNAME: neither cut, DNAME owner nor occluded.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.value[0] & (CUT | DNAME | OCCLUDED) == 0
    }

    /// Whether the owner has upper-case letters in its labels below the apex; at the apex, in any label.
    #[inline]
    pub(crate) fn has_upper_case(&self) -> bool {
        self.value[0] & (UPPER | MIXED) != 0
    }

    /// The RRset of this type.
    #[inline]
    pub fn rrset(&self, rtype: Rtype) -> Option<Rrset<'z>> {
        self.rrsets().find(|rrset| rrset.rtype == rtype).filter(|rrset| rrset.count > 0)
    }

    /// The number of its records.
    pub(crate) fn record_count(&self) -> u64 {
        self.rrsets().map(|set| (set.count + set.signatures().count) as u64).sum()
    }

    /// All RRsets by type. A set with a count of 0 has only RRSIG records for its type.
    #[inline]
    pub fn rrsets(&self) -> Rrsets<'z> {
        let serial = (self.value[0] & SERIAL_APART != 0).then_some(self.serial);
        Rrsets { rest: owner_case::skip(self.value), tables: self.tables, serial }
    }
}

/// The RRsets of a node.
#[derive(Clone)]
pub struct Rrsets<'z> {
    rest: &'z [u8],
    tables: &'z InternTables,
    /// As in [`Rrset`].
    serial: Option<u32>,
}

impl<'z> Iterator for Rrsets<'z> {
    type Item = Rrset<'z>;

    #[inline]
    fn next(&mut self) -> Option<Rrset<'z>> {
        self.read()
    }
}

impl<'z> Rrsets<'z> {
    /// As `next`, for a loop over many nodes, which must not copy each set from memory to memory.
    #[inline(always)]
    pub(crate) fn read(&mut self) -> Option<Rrset<'z>> {
        let (&number, rest) = self.rest.split_first()?;
        let (head, rest) = if number < FULL_HEAD { (self.tables.head(number), rest) } else { split_head(rest) };
        let RrsetHead { ttl, rtype, form } = head;
        let (count, rest) = if form & COUNT < COUNT { ((form & COUNT) as usize, rest) } else { long_count(rest) };
        let mut nsec3_rest: &[u8] = &[];
        let (data, rest) = match rdata_layout(rtype) {
            RdataLayout::Address(size) => rest.split_at(size * count),
            _ if form & INTERNED != 0 => {
                let (data, rest) = self.interned(rest);
                if rtype == Rtype::NSEC3 {
                    nsec3_rest = data;
                    rest.split_at(missing_len(data))
                } else {
                    (data, rest)
                }
            }
            _ => {
                let (len, rest) = split_length(rest);
                rest.split_at(len)
            }
        };
        let (signatures, rest) = match form & (SIGNED | SHARED_HEAD) {
            0 => (Signatures::default(), rest),
            SIGNED => Signatures::split(rest),
            _ => {
                let (head, rest) = self.interned(rest);
                Signatures::split_shared(head, rest)
            }
        };
        self.rest = rest;
        Some(Rrset { rtype, ttl, count, data, serial: self.serial, nsec3_rest, signatures })
    }

    #[inline]
    fn interned(&self, rest: &'z [u8]) -> (&'z [u8], &'z [u8]) {
        let (number, rest) = rest.split_at(3);
        (self.tables.rrset(u32::from_le_bytes([number[0], number[1], number[2], 0]) as usize), rest)
    }
}

#[inline]
fn split_first(bytes: &[u8]) -> (&u8, &[u8]) {
    bytes.split_first().expect("nodes are complete")
}

/// The octets of the length that an interned part of RDATA begins with: that of the whole RDATA.
const LENGTH_LEN: usize = 2;

/// The length of the RDATA that this interned part belongs to.
#[inline]
fn rdata_len(part: &[u8]) -> usize {
    usize::from(u16::from_be_bytes([part[0], part[1]]))
}

/// How many octets of the RDATA this interned part lacks.
#[inline]
fn missing_len(part: &[u8]) -> usize {
    LENGTH_LEN + rdata_len(part) - part.len()
}

/// A head in full.
#[inline]
fn split_head(bytes: &[u8]) -> (RrsetHead, &[u8]) {
    let (&code, rest) = split_first(bytes);
    let (rtype, rest) = if code < 255 { (Rtype(u16::from(code)), rest) } else { long_rtype(rest) };
    let (ttl, rest) = split_u32(rest);
    let (&form, rest) = split_first(rest);
    (RrsetHead { ttl, rtype, form }, rest)
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
    /// The octets of the records in a message.
    #[inline]
    pub fn message_len(&self) -> usize {
        match rdata_layout(self.rtype) {
            RdataLayout::Address(size) => self.count * (RECORD_HEAD_LEN + size),
            _ => self.data.len() + self.nsec3_rest.len() + self.count * (RECORD_HEAD_LEN - 2),
        }
    }

    /// The memory address of the set, which identifies it within a version of a zone.
    pub fn address(&self) -> usize {
        self.data.as_ptr() as usize
    }

    /// The signatures over this set.
    #[inline]
    pub fn signatures(&self) -> Signatures<'z> {
        self.signatures
    }

    /// The RDATAs in stored form and order. Names may end in relocatable pointers, an NSEC3 RDATA may be a hash, and a SOA RDATA may lack
    /// its serial: see [`Self::append_rdata`].
    pub(crate) fn stored(&self) -> impl Iterator<Item = StoredRdata<'z>> + use<'z> {
        let (layout, mut rest, is_hash) = (rdata_layout(self.rtype), self.data, !self.nsec3_rest.is_empty());
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            if is_hash {
                return Some(StoredRdata { bytes: std::mem::take(&mut rest), in_zone: false });
            }
            if let RdataLayout::Address(size) = layout {
                let (bytes, more) = rest.split_at(size);
                rest = more;
                return Some(StoredRdata { bytes, in_zone: false });
            }
            let (head, more) = rest.split_at(2);
            let word = u16::from_be_bytes([head[0], head[1]]);
            let (bytes, more) = more.split_at(stored_len(layout, word));
            rest = more;
            Some(StoredRdata { bytes, in_zone: layout != RdataLayout::Opaque && word & IN_ZONE != 0 })
        })
    }

    /// Whether the RDATA may have compression pointers when written into a message.
    #[inline]
    pub fn has_compressed_names(&self) -> bool {
        matches!(rdata_layout(self.rtype), RdataLayout::NameLast(_) | RdataLayout::TwoNames)
    }

    /// For each record: whether the name in its RDATA is at or below the apex, and the offset of that name from the start of the set
    /// as written in a message. Only for types whose RDATA ends in a compressible name (NS, MX...).
    #[inline]
    pub fn targets(&self) -> impl Iterator<Item = (bool, usize)> + use<'z> {
        let skip = if let RdataLayout::NameLast(skip) = rdata_layout(self.rtype) { skip } else { 0 };
        let mut at = 0;
        self.stored().map(move |stored| {
            let target = at + RECORD_HEAD_LEN + skip;
            at += RECORD_HEAD_LEN + stored.bytes.len();
            (stored.in_zone, target)
        })
    }

    /// The RDATA of each record, in wire form; only for types without compressible names, and not for NSEC3.
    pub fn opaque(&self) -> impl Iterator<Item = &'z [u8]> + use<'z> {
        debug_assert!(!self.has_compressed_names() && self.rtype != Rtype::NSEC3);
        self.stored().map(|stored| stored.bytes)
    }

    /// The RDATA of each record, in wire form and in parts; only for types without compressible names.
    pub fn opaque_parts(&self) -> impl Iterator<Item = [&'z [u8]; 3]> + use<'z> {
        debug_assert!(!self.has_compressed_names());
        let rest = self.nsec3_rest;
        self.stored().map(move |stored| match rest {
            [] => [stored.bytes, &[], &[]],
            _ => nsec3::parts(rest, stored.bytes),
        })
    }

    /// The RDATA of each NSEC3 record, at least up to the length of the hash.
    #[inline]
    pub fn nsec3_parameters(&self) -> impl Iterator<Item = &'z [u8]> + use<'z> {
        self.opaque_parts().map(|[start, ..]| start)
    }

    /// Appends an RDATA of [`Self::stored`] in uncompressed wire form.
    pub(crate) fn append_rdata(&self, stored: &StoredRdata<'_>, bases: PointerBases<'_>, out: &mut Vec<u8>) {
        match rdata_layout(self.rtype) {
            RdataLayout::Opaque if !self.nsec3_rest.is_empty() => {
                nsec3::parts(self.nsec3_rest, stored.bytes).iter().for_each(|part| out.extend_from_slice(part));
            }
            RdataLayout::Address(_) | RdataLayout::Opaque => out.extend_from_slice(stored.bytes),
            RdataLayout::NameLast(skip) => {
                out.extend_from_slice(&stored.bytes[..skip]);
                self.expand(&stored.bytes[skip..], bases, out);
            }
            RdataLayout::TwoNames => {
                let mut rest = stored.bytes;
                for _ in 0..2 {
                    rest = &rest[self.expand(rest, bases, out)..];
                }
                out.extend_from_slice(rest);
                self.put_serial(out);
            }
        }
    }

    /// Appends the uncompressed name at the start of `stored` and returns the length of its stored form.
    fn expand(&self, stored: &[u8], bases: PointerBases<'_>, out: &mut Vec<u8>) -> usize {
        let end = labels_end(stored, 0);
        if stored[end] == 0 {
            out.extend_from_slice(&stored[..end + 1]);
            return end + 1;
        }
        out.extend_from_slice(&stored[..end]);
        let (base, offset) = split_pointer([stored[end], stored[end + 1]]);
        match base {
            BASE_APEX => out.extend_from_slice(bases.apex.wire()),
            BASE_OWNER => out.extend_from_slice(bases.owner.wire()),
            _ => _ = self.expand(self.at_message_offset(offset), bases, out),
        }
        end + 2
    }

    /// The stored octets from `offset` in the set as written in a message.
    fn at_message_offset(&self, offset: usize) -> &'z [u8] {
        let mut start = 0;
        for stored in self.stored() {
            let rdata = start + RECORD_HEAD_LEN;
            if offset < rdata + stored.bytes.len() {
                return &stored.bytes[offset - rdata..];
            }
            start = rdata + stored.bytes.len();
        }
        unreachable!("pointers in a set point to earlier names in the set")
    }
}

/// An RDATA in stored form.
#[derive(Clone, Copy)]
pub(crate) struct StoredRdata<'z> {
    pub(crate) bytes: &'z [u8],
    pub(crate) in_zone: bool,
}

/// The names that relocatable pointers refer to.
#[derive(Clone, Copy)]
pub(crate) struct PointerBases<'n> {
    /// The owner of the RRset.
    pub(crate) owner: NameRef<'n>,
    /// The apex of the zone.
    pub(crate) apex: NameRef<'n>,
}

fn stored_len(layout: RdataLayout, word: u16) -> usize {
    match layout {
        RdataLayout::Opaque => word as usize,
        _ => (word & LEN) as usize,
    }
}

#[inline]
fn split_pointer(pointer: [u8; 2]) -> (u8, usize) {
    (pointer[0] >> 4 & 3, (u16::from_be_bytes(pointer) & 0x0fff) as usize)
}

fn make_pointer(base: u8, offset: usize) -> [u8; 2] {
    (0xc000 | u16::from(base) << 12 | offset as u16).to_be_bytes()
}
