//! Copies stored RRsets into messages and relocates their compression pointers.

use wire::name::{labels_end, skip_name};
use wire::{MAX_NAME_LEN, Rtype};

use super::{
    BASE_RRSET, ENDS_IN_POINTER, LEN, RECORD_HEAD_LEN, RdataLayout, Rrset, Signatures, StoredRdata, rdata_layout,
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
        let head = record_head(offsets.owner, self.rtype, ttl);
        match rdata_layout(self.rtype) {
            RdataLayout::Address(4) => write_addresses::<4>(self.data, &head, out, at),
            RdataLayout::Address(_) => write_addresses::<16>(self.data, &head, out, at),
            RdataLayout::Opaque => write_opaque(self.data, &head, out, at),
            RdataLayout::NameLast(_) => self.write_name_last(offsets, &head, out, at),
            RdataLayout::TwoNames => self.write_two_names(offsets, &head, out, at),
        }
    }

    #[inline]
    fn write_name_last(&self, offsets: MessageOffsets, head: &[u8; 10], out: &mut [u8], start: usize) -> usize {
        let bases = [offsets.apex as u16, offsets.owner as u16, start as u16, 0];
        let (mut at, mut rest) = (start, self.data);
        while let Some((word, more)) = rest.split_first_chunk::<2>() {
            let word = u16::from_be_bytes(*word);
            let len = (word & LEN) as usize;
            let (rdata, more) = more.split_at(len);
            out[at..at + 10].copy_from_slice(head);
            out[at + 10..at + 12].copy_from_slice(&(word & LEN).to_be_bytes());
            out[at + RECORD_HEAD_LEN..at + RECORD_HEAD_LEN + len].copy_from_slice(rdata);
            at += RECORD_HEAD_LEN + len;
            if word & ENDS_IN_POINTER != 0 {
                relocate(&mut out[at - 2..at], &bases);
            }
            rest = more;
        }
        at
    }

    fn write_two_names(&self, offsets: MessageOffsets, head: &[u8; 10], out: &mut [u8], start: usize) -> usize {
        let bases = [offsets.apex as u16, offsets.owner as u16, start as u16, 0];
        let mut at = start;
        for stored in self.stored() {
            let len = stored.bytes.len();
            out[at..at + 10].copy_from_slice(head);
            out[at + 10..at + 12].copy_from_slice(&(len as u16).to_be_bytes());
            at += RECORD_HEAD_LEN;
            let rdata = &mut out[at..at + len];
            rdata.copy_from_slice(stored.bytes);
            let mut name = 0;
            for _ in 0..2 {
                name = relocate_name(rdata, name, &bases);
            }
            at += len;
        }
        at
    }
}

impl Signatures<'_> {
    /// Writes the records at `at` and returns their end. Requires room for [`Self::message_len`].
    pub fn write(&self, owner: usize, ttl: u32, out: &mut [u8], at: usize) -> usize {
        write_opaque(self.data, &record_head(owner, Rtype::RRSIG, ttl), out, at)
    }
}

//----------- RRsets past the reach of pointers --------------------------------

/// The longest RDATA with compressible names: that of SOA.
const MAX_RDATA_LEN: usize = 2 * MAX_NAME_LEN + 20;

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

/// A record up to RDLENGTH, of class IN.
#[inline]
fn record_head(owner: usize, rtype: Rtype, ttl: u32) -> [u8; 10] {
    let owner = (0xc000 | owner as u16).to_be_bytes();
    let (rtype, ttl) = (rtype.0.to_be_bytes(), ttl.to_be_bytes());
    [owner[0], owner[1], rtype[0], rtype[1], 0, 1, ttl[0], ttl[1], ttl[2], ttl[3]]
}

/// Writes addresses of `SIZE` octets.
#[inline]
fn write_addresses<const SIZE: usize>(data: &[u8], head: &[u8; 10], out: &mut [u8], mut at: usize) -> usize {
    for rdata in data.as_chunks::<SIZE>().0 {
        let record = &mut out[at..at + RECORD_HEAD_LEN + SIZE];
        record[..10].copy_from_slice(head);
        record[10..12].copy_from_slice(&(SIZE as u16).to_be_bytes());
        record[12..].copy_from_slice(rdata);
        at += RECORD_HEAD_LEN + SIZE;
    }
    at
}

#[inline]
fn write_opaque(data: &[u8], head: &[u8; 10], out: &mut [u8], mut at: usize) -> usize {
    let mut rest = data;
    while let Some((len, _)) = rest.split_first_chunk::<2>() {
        let len = 2 + u16::from_be_bytes(*len) as usize;
        let record = &mut out[at..at + 10 + len];
        record[..10].copy_from_slice(head);
        record[10..].copy_from_slice(&rest[..len]);
        at += 10 + len;
        rest = &rest[len..];
    }
    at
}

/// Replaces a relocatable pointer by a compression pointer of the message.
#[inline]
fn relocate(pointer: &mut [u8], bases: &[u16; 4]) {
    let (base, offset) = split_pointer([pointer[0], pointer[1]]);
    pointer.copy_from_slice(&(0xc000 | (bases[base as usize] + offset as u16)).to_be_bytes());
}

/// Relocates the pointer at the end of the name at `at`, if it has one; returns the end of the name.
fn relocate_name(rdata: &mut [u8], at: usize, bases: &[u16; 4]) -> usize {
    let end = labels_end(rdata, at);
    if rdata[end] == 0 {
        return end + 1;
    }
    relocate(&mut rdata[end..end + 2], bases);
    end + 2
}
