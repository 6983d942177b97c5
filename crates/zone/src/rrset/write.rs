//! Copies stored RRsets into messages and relocates their compression pointers.

use wire::name::{labels_end, skip_name};
use wire::{MAX_NAME_LEN, Rtype, soa};

use super::{
    BASE_RRSET, ENDS_IN_POINTER, LEN, RECORD_HEAD_LEN, RdataLayout, Rrset, StoredRdata, nsec3, rdata_layout,
    split_pointer,
};

/// The greatest offset of a compression pointer (RFC 1035 4.1.4).
pub const MAX_POINTER: usize = 0x3fff;

/// The message offsets of the names that an RRset may point to.
#[derive(Clone, Copy, Debug)]
pub struct MessageOffsets {
    /// The offset of the owner, at most [`MAX_POINTER`].
    pub owner: usize,
    /// The offset of the apex, at most [`MAX_POINTER`].
    pub apex: usize,
}

impl Rrset<'_> {
    /// Writes the records at `at` and returns their end. Requires room for [`Self::message_len`], and offsets of all names that the
    /// set points to of at most [`MAX_POINTER`]: see [`Self::has_compressed_names`].
    #[inline]
    pub fn write(&self, offsets: MessageOffsets, ttl: u32, out: &mut [u8], at: usize) -> usize {
        let head = RecordHead::new(offsets.owner, self.rtype, ttl);
        match rdata_layout(self.rtype) {
            RdataLayout::Address(4) => write_addresses::<4>(self.data, &head, out, at),
            RdataLayout::Address(_) => write_addresses::<16>(self.data, &head, out, at),
            RdataLayout::Opaque if self.nsec3_rest.is_empty() => write_opaque(self.data, &head, out, at),
            RdataLayout::Opaque => write_nsec3(self.nsec3_rest, self.data, &head, out, at),
            RdataLayout::NameLast(_) => self.write_name_last(offsets, &head, out, at),
            RdataLayout::TwoNames => self.write_two_names(offsets, &head, out, at),
        }
    }

    #[inline]
    fn write_name_last(&self, offsets: MessageOffsets, head: &RecordHead, out: &mut [u8], start: usize) -> usize {
        let bases = [offsets.apex as u16, offsets.owner as u16, start as u16, 0];
        let (mut at, mut rest) = (start, self.data);
        while let Some((word, more)) = rest.split_first_chunk::<2>() {
            let word = u16::from_be_bytes(*word);
            let len = (word & LEN) as usize;
            let (rdata, more) = more.split_at(len);
            let copy = head.write(len, &mut out[at..at + RECORD_HEAD_LEN + len]);
            copy_short(rdata, copy);
            if word & ENDS_IN_POINTER != 0
                && let (Some(pointer), Some(end)) = (rdata.last_chunk(), copy.last_chunk_mut())
            {
                // From the stored octets: the copy cannot be read before it is written.
                *end = relocated(*pointer, &bases);
            }
            at += RECORD_HEAD_LEN + len;
            rest = more;
        }
        at
    }

    fn write_two_names(&self, offsets: MessageOffsets, head: &RecordHead, out: &mut [u8], start: usize) -> usize {
        let bases = [offsets.apex as u16, offsets.owner as u16, start as u16, 0];
        let mut at = start;
        for stored in self.stored() {
            let len = stored.bytes.len();
            let rdata = head.write(len, &mut out[at..at + RECORD_HEAD_LEN + len]);
            rdata.copy_from_slice(stored.bytes);
            let mut name = 0;
            for _ in 0..2 {
                name = relocate_name(rdata, name, &bases);
            }
            self.put_serial(rdata);
            at += RECORD_HEAD_LEN + len;
        }
        at
    }
}

//----------- RRsets past the reach of pointers --------------------------------

/// The longest RDATA with compressible names: that of SOA.
const MAX_RDATA_LEN: usize = 2 * MAX_NAME_LEN + soa::NUMBERS_LEN;

/// One RDATA of an RRset that is written where pointers may not reach all names it refers to.
pub struct DistantRdata<'z> {
    rrset: Rrset<'z>,
    stored: StoredRdata<'z>,
}

/// RDATA as [`DistantRdata::spell`] wrote it.
pub struct SpelledRdata {
    octets: [u8; MAX_RDATA_LEN],
    len: usize,
}

impl<'z> Rrset<'z> {
    /// The RDATAs, to be spelled out one by one.
    pub fn distant_rdatas(&self) -> impl Iterator<Item = DistantRdata<'z>> + use<'z> {
        let rrset = *self;
        self.stored().map(move |stored| DistantRdata { rrset, stored })
    }
}

impl DistantRdata<'_> {
    /// The RDATA with its names spelled out where no pointer reaches. `message` has the owner and the apex at `offsets`, of any
    /// size, and the earlier records of the set from `start` on: where its first record would start with a pointer as owner.
    pub fn spell(&self, offsets: MessageOffsets, start: usize, message: &[u8]) -> SpelledRdata {
        let mut rdata = SpelledRdata { octets: [0; MAX_RDATA_LEN], len: 0 };
        let bases = [offsets.apex, offsets.owner, start, 0];
        let (fixed, names) = match rdata_layout(self.rrset.rtype) {
            RdataLayout::NameLast(skip) => (skip, 1),
            RdataLayout::TwoNames => (0, 2),
            RdataLayout::Address(_) | RdataLayout::Opaque => {
                unreachable!("only RRsets with compressed names are spelled out")
            }
        };
        let mut rest = self.stored.bytes;
        rdata.push(&rest[..fixed]);
        rest = &rest[fixed..];
        for _ in 0..names {
            rest = self.spell_name(rest, &bases, message, &mut rdata);
        }
        rdata.push(rest);
        let SpelledRdata { octets, len } = &mut rdata;
        self.rrset.put_serial(&mut octets[..*len]);
        rdata
    }

    /// Appends the name at the start of `stored` to `rdata`; returns what follows the name.
    ///
    /// A pointer into the set is right where it reaches: as long as all pointers reach, records are as long as stored, and an
    /// earlier one that does not reach has no greater offset.
    fn spell_name<'s>(
        &'s self,
        stored: &'s [u8],
        bases: &[usize; 4],
        message: &[u8],
        rdata: &mut SpelledRdata,
    ) -> &'s [u8] {
        let (mut name, mut rest) = (stored, None);
        // Pointers lead to earlier names of the set, and each adds a label at least.
        loop {
            let end = labels_end(name, 0);
            if name[end] == 0 {
                rdata.push(&name[..end + 1]);
                return rest.unwrap_or(&name[end + 1..]);
            }
            rdata.push(&name[..end]);
            let rest = *rest.get_or_insert(&name[end + 2..]);
            let (base, offset) = split_pointer([name[end], name[end + 1]]);
            let target = bases[usize::from(base)] + offset;
            if target <= MAX_POINTER {
                rdata.push(&(0xc000 | target as u16).to_be_bytes());
                return rest;
            }
            if base != BASE_RRSET {
                let end = skip_name(message, target).expect("the message has the owner and the apex");
                rdata.push(&message[target..end]);
                return rest;
            }
            name = self.rrset.at_message_offset(offset);
        }
    }
}

impl SpelledRdata {
    /// The octets.
    pub fn octets(&self) -> &[u8] {
        &self.octets[..self.len]
    }

    fn push(&mut self, octets: &[u8]) {
        self.octets[self.len..self.len + octets.len()].copy_from_slice(octets);
        self.len += octets.len();
    }
}

//----------- records ----------------------------------------------------------

/// A record up to RDLENGTH, of class IN, as numbers that are stored at once.
pub(super) struct RecordHead {
    /// Up to the upper half of the TTL.
    start: u64,
    /// The lower half of the TTL, above room for RDLENGTH.
    end: u32,
}

impl RecordHead {
    #[inline]
    pub(super) fn new(owner: usize, rtype: Rtype, ttl: u32) -> RecordHead {
        let owner = u64::from(0xc000 | owner as u16);
        let start = owner << 48 | u64::from(rtype.0) << 32 | 1 << 16 | u64::from(ttl >> 16);
        RecordHead { start, end: ttl << 16 }
    }

    /// Writes the head of a record with this RDLENGTH; returns the room for its RDATA.
    #[inline]
    pub(super) fn write<'o>(&self, len: usize, record: &'o mut [u8]) -> &'o mut [u8] {
        let (head, rdata) = record.split_at_mut(RECORD_HEAD_LEN);
        head[..8].copy_from_slice(&self.start.to_be_bytes());
        head[8..].copy_from_slice(&(self.end | len as u32).to_be_bytes());
        rdata
    }
}

/// Copies octets, mostly few of them: up to 32 without a call of memcpy(3), as two copies of the same size that may overlap.
#[inline]
fn copy_short(from: &[u8], to: &mut [u8]) {
    match from.len() {
        4..8 => copy_ends::<4>(from, to),
        8..16 => copy_ends::<8>(from, to),
        16..=32 => copy_ends::<16>(from, to),
        _ => to.copy_from_slice(from),
    }
}

/// Copies the first and the last `LEN` octets.
#[inline]
fn copy_ends<const LEN: usize>(from: &[u8], to: &mut [u8]) {
    if let (Some(first), Some(last)) = (from.first_chunk::<LEN>(), from.last_chunk::<LEN>()) {
        to[..LEN].copy_from_slice(first);
        let rest = to.len() - LEN;
        to[rest..].copy_from_slice(last);
    }
}

/// Writes addresses of `SIZE` octets.
#[inline]
fn write_addresses<const SIZE: usize>(data: &[u8], head: &RecordHead, out: &mut [u8], mut at: usize) -> usize {
    for rdata in data.as_chunks::<SIZE>().0 {
        head.write(SIZE, &mut out[at..at + RECORD_HEAD_LEN + SIZE]).copy_from_slice(rdata);
        at += RECORD_HEAD_LEN + SIZE;
    }
    at
}

/// Writes an NSEC3 record with this interned rest at `at` and returns its end.
fn write_nsec3(rest: &[u8], hash: &[u8], head: &RecordHead, out: &mut [u8], at: usize) -> usize {
    let [start, hash, types] = nsec3::parts(rest, hash);
    let len = start.len() + hash.len() + types.len();
    let rdata = head.write(len, &mut out[at..at + RECORD_HEAD_LEN + len]);
    let (to_start, to) = rdata.split_at_mut(start.len());
    let (to_hash, to_types) = to.split_at_mut(hash.len());
    to_start.copy_from_slice(start);
    to_hash.copy_from_slice(hash);
    to_types.copy_from_slice(types);
    at + RECORD_HEAD_LEN + len
}

#[inline]
pub(super) fn write_opaque(data: &[u8], head: &RecordHead, out: &mut [u8], mut at: usize) -> usize {
    let mut rest = data;
    while let Some((len, more)) = rest.split_first_chunk::<2>() {
        let len = usize::from(u16::from_be_bytes(*len));
        let (rdata, more) = more.split_at(len);
        head.write(len, &mut out[at..at + RECORD_HEAD_LEN + len]).copy_from_slice(rdata);
        at += RECORD_HEAD_LEN + len;
        rest = more;
    }
    at
}

/// The compression pointer of the message that a relocatable pointer stands for.
#[inline]
fn relocated(pointer: [u8; 2], bases: &[u16; 4]) -> [u8; 2] {
    let (base, offset) = split_pointer(pointer);
    (0xc000 | (bases[base as usize] + offset as u16)).to_be_bytes()
}

/// Relocates the pointer at the end of the name at `at`, if it has one; returns the end of the name.
fn relocate_name(rdata: &mut [u8], at: usize, bases: &[u16; 4]) -> usize {
    let end = labels_end(rdata, at);
    if rdata[end] == 0 {
        return end + 1;
    }
    let pointer = relocated([rdata[end], rdata[end + 1]], bases);
    rdata[end..end + 2].copy_from_slice(&pointer);
    end + 2
}
