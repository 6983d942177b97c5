//! Images: a version of a zone as bytes, for storage, and back. The leaf blocks and tables of a zone are stored as they were built, so
//! decoding costs little more than reading and checking them.
//!
//! An image is a sequence of chunks, so that neither side holds it as a whole:
//!
//! | chunk | first octet | contents after the number of the chunk, u32 |
//! | --- | --- | --- |
//! | head | `HEAD` | format version u16; edits u32; flags u8; apex (u8 length, octets); denial of existence u8, and for NSEC3 iterations u16 and salt (u8 length, octets); heads of RRsets (u8 count; TTL u32, type u16, form u8 each); number of RRsets, of name leaves, and of NSEC3 leaves, u32 each |
//! | RRsets | `RRSETS` | interned RRsets: u32 length and octets of each |
//! | names | `NAMES` | leaves of the tree of names: u32 length and octets of each |
//! | NSEC3 | `NSEC3` | leaves of the tree of NSEC3 owners, likewise |
//!
//! Chunks come in this order. Numbers are little-endian. Checksums are the duty of the container: it protects each chunk. The decoder
//! notices missing chunks, and accepts no bytes that could make decoding or answering fail.

mod parallel;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use wire::{Name, NameRef, Rtype};

use crate::canonical_key::{KeyCheck, KeyInfo};
use crate::denial::{Denial, Nsec3Chain};
use crate::intern::InternTables;
use crate::rrset::NodeValidator;
use crate::rrset_head::RrsetHead;
use crate::tree::{LeafError, LeafLoader};
use crate::zone::{Zone, ZoneContent, ZoneVersion};
pub use parallel::decode;

/// The format that is written; no other is read.
pub const FORMAT_VERSION: u16 = 3;
/// The octets of a chunk, unless a single leaf or RRset is larger.
pub const CHUNK_LEN: usize = 256 << 10;

// The first octet of a chunk.
const HEAD: u8 = 1;
const RRSETS: u8 = 2;
const NAMES: u8 = 3;
const NSEC3: u8 = 4;

// Flags.
const HAS_WILDCARDS: u8 = 1;
const APEX_HAS_UPPER_CASE: u8 = 2;

// Denial of existence.
const NO_DENIAL: u8 = 0;
const BY_NSEC: u8 = 1;
const BY_NSEC3: u8 = 2;

/// Why bytes are not an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// Written by another version of this program.
    #[error("format version {0} is not supported, only {FORMAT_VERSION}")]
    Version(u16),
    /// A chunk ends early or is followed by other bytes.
    #[error("a chunk is cut short or too long")]
    Length,
    /// A chunk is missing, surplus or out of order.
    #[error("a chunk is missing, surplus or out of order")]
    Order,
    /// The apex is not a name in lower case.
    #[error("the apex is not a name in lower case")]
    Apex,
    /// The tables of heads and RRsets are inconsistent.
    #[error("the tables are inconsistent")]
    Tables,
    /// A leaf is inconsistent.
    #[error("a leaf of the tree is damaged")]
    Leaf,
    /// Owner names are out of order.
    #[error("owner names are out of order")]
    Unordered,
    /// An owner name is invalid.
    #[error("an owner name is damaged")]
    Owner,
    /// The records of an owner are invalid, or the apex has no SOA record.
    #[error("the records of an owner are damaged")]
    Records,
    /// RFC 1035 5.2: no zone has that.
    #[error("the zone has several SOA records")]
    SeveralSoa,
}

impl From<LeafError> for ImageError {
    fn from(error: LeafError) -> ImageError {
        match error {
            LeafError::Malformed => ImageError::Leaf,
            LeafError::Unordered => ImageError::Unordered,
            LeafError::Key => ImageError::Owner,
            LeafError::Value => ImageError::Records,
        }
    }
}

//----------- encoding -----------------------------------------------------------------

/// Writes a zone as an image, chunk by chunk. It holds its version of the zone until it is dropped.
pub struct ImageEncoder {
    zone: Zone,
    leaves: [Vec<Arc<[u8]>>; 2],
    state: EncoderState,
    /// The number of the next chunk.
    number: u32,
}

/// What the next chunk starts with.
enum EncoderState {
    Head,
    /// The interned RRset with this number.
    Rrsets(usize),
    /// A leaf of one of the trees.
    Leaves(usize, usize),
}

impl ImageEncoder {
    /// The image of `zone`.
    pub fn new(zone: Zone) -> ImageEncoder {
        let leaves = [zone.names_with_serial().as_ref().leaves(), zone.nsec3().leaves()];
        ImageEncoder { zone, leaves, state: EncoderState::Head, number: 0 }
    }

    /// Replaces `chunk` by the next one; returns false after the last.
    pub fn next_chunk(&mut self, chunk: &mut Vec<u8>) -> bool {
        chunk.clear();
        let number = self.number;
        self.number += 1;
        loop {
            match self.state {
                EncoderState::Head => {
                    write_start(HEAD, number, chunk);
                    self.write_head(chunk);
                    self.state = EncoderState::Rrsets(0);
                    return true;
                }
                EncoderState::Rrsets(at) if at < self.zone.interned().rrset_count() => {
                    let rrsets = (at..self.zone.interned().rrset_count()).map(|at| self.zone.interned().rrset(at));
                    write_start(RRSETS, number, chunk);
                    self.state = EncoderState::Rrsets(at + write_items(rrsets, chunk));
                    return true;
                }
                EncoderState::Rrsets(_) => self.state = EncoderState::Leaves(0, 0),
                EncoderState::Leaves(2, _) => return false,
                EncoderState::Leaves(tree, at) if at < self.leaves[tree].len() => {
                    let leaves = self.leaves[tree][at..].iter().map(|leaf| &**leaf);
                    write_start([NAMES, NSEC3][tree], number, chunk);
                    self.state = EncoderState::Leaves(tree, at + write_items(leaves, chunk));
                    return true;
                }
                EncoderState::Leaves(tree, _) => self.state = EncoderState::Leaves(tree + 1, 0),
            }
        }
    }

    fn write_head(&self, out: &mut Vec<u8>) {
        let zone = &self.zone;
        out.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        out.extend_from_slice(&zone.edits.to_le_bytes());
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        out.push(flag(zone.has_wildcards(), HAS_WILDCARDS) | flag(zone.apex_has_upper_case(), APEX_HAS_UPPER_CASE));
        write_short(zone.apex.wire(), out);
        match zone.denial() {
            Denial::None => out.push(NO_DENIAL),
            Denial::Nsec => out.push(BY_NSEC),
            Denial::Nsec3(chain) => {
                out.push(BY_NSEC3);
                out.extend_from_slice(&chain.iterations().to_le_bytes());
                write_short(chain.salt(), out);
            }
        }
        let heads = zone.interned().own_heads();
        out.push(heads.len() as u8);
        for head in heads {
            out.extend_from_slice(&head.ttl.to_le_bytes());
            out.extend_from_slice(&head.rtype.0.to_le_bytes());
            out.push(head.form);
        }
        for count in [zone.interned().rrset_count(), self.leaves[0].len(), self.leaves[1].len()] {
            out.extend_from_slice(&(count as u32).to_le_bytes());
        }
    }
}

fn write_start(kind: u8, number: u32, chunk: &mut Vec<u8>) {
    chunk.push(kind);
    chunk.extend_from_slice(&number.to_le_bytes());
}

/// Appends at most 255 octets after their length.
fn write_short(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(bytes.len() as u8);
    out.extend_from_slice(bytes);
}

/// Writes items until the chunk is full, at least one; returns how many.
fn write_items<'i>(items: impl Iterator<Item = &'i [u8]>, chunk: &mut Vec<u8>) -> usize {
    let mut count = 0;
    for item in items {
        if count > 0 && chunk.len() + 4 + item.len() > CHUNK_LEN {
            break;
        }
        chunk.extend_from_slice(&(item.len() as u32).to_le_bytes());
        chunk.extend_from_slice(item);
        count += 1;
    }
    count
}

//----------- decoding -----------------------------------------------------------------

/// Reads an image chunk by chunk. After an error nothing can be done with it.
#[derive(Default)]
pub struct ImageDecoder {
    /// The number of the next chunk.
    number: u32,
    head: Option<ImageHead>,
    /// The interned RRsets so far: the end of each in `rrsets`.
    ends: Vec<u32>,
    rrsets: Vec<u8>,
    /// Made once the tables are complete.
    trees: Option<TreesDecoder>,
}

/// The first chunk.
struct ImageHead {
    edits: u32,
    flags: u8,
    apex: Name,
    denial: Denial,
    heads: Vec<RrsetHead>,
    rrset_count: usize,
    leaf_counts: [usize; 2],
}

/// The trees so far, and what is needed to check their leaves.
struct TreesDecoder {
    tables: Arc<InternTables>,
    validator: NodeValidator,
    keys: KeyCheck,
    loaders: [LeafLoader; 2],
    heap: HeapReserve,
}

/// Grows the heap of a thread ahead of many small allocations: glibc grows all but that of the first thread by one page and one
/// mprotect(2) at a time, which took a fifth of the time to decode an image.
#[derive(Default)]
struct HeapReserve {
    /// Octets of the last growth that are not allocated yet.
    left: usize,
}

impl HeapReserve {
    /// Less than the top of a heap that glibc returns to the kernel, and than an allocation that it maps by itself.
    const STEP: usize = 96 << 10;

    /// Before an allocation of `len` octets.
    fn prepare(&mut self, len: usize) {
        if len > self.left {
            drop(std::hint::black_box(Vec::<u8>::with_capacity(HeapReserve::STEP)));
            self.left = HeapReserve::STEP;
        }
        self.left = self.left.saturating_sub(len);
    }
}

impl ImageDecoder {
    /// A decoder before the first chunk.
    pub fn new() -> ImageDecoder {
        ImageDecoder::default()
    }

    /// Reads the next chunk.
    pub fn push(&mut self, chunk: &[u8]) -> Result<(), ImageError> {
        let mut fields = Fields(chunk);
        let (kind, number) = (fields.u8()?, fields.u32()?);
        if number != self.number {
            return Err(ImageError::Order);
        }
        self.number += 1;
        let body = fields.0;
        match (&self.head, &mut self.trees, kind) {
            (None, _, HEAD) => self.head = Some(ImageHead::read(body)?),
            (Some(head), None, RRSETS) => {
                for rrset in Items(body) {
                    self.rrsets.extend_from_slice(rrset?);
                    self.ends.push(u32::try_from(self.rrsets.len()).map_err(|_| ImageError::Tables)?);
                }
                if self.ends.len() > head.rrset_count {
                    return Err(ImageError::Order);
                }
            }
            (Some(_), Some(trees), NAMES) if trees.loaders[1].count() == 0 => return trees.push(0, body),
            (Some(_), Some(trees), NSEC3) => return trees.push(1, body),
            _ => return Err(ImageError::Order),
        }
        self.begin_trees()
    }

    /// Makes the tables once all RRsets are there.
    fn begin_trees(&mut self) -> Result<(), ImageError> {
        let Some(head) = self.head.as_mut().filter(|head| head.rrset_count == self.ends.len()) else { return Ok(()) };
        let (heads, ends) = (std::mem::take(&mut head.heads), std::mem::take(&mut self.ends));
        let tables =
            InternTables::from_parts(heads, ends, std::mem::take(&mut self.rrsets)).ok_or(ImageError::Tables)?;
        let tables = tables.shared();
        let apex_len = head.apex.wire().len();
        self.trees = Some(TreesDecoder {
            validator: NodeValidator::new(tables.clone(), apex_len),
            tables,
            keys: KeyCheck::new(apex_len),
            loaders: Default::default(),
            heap: HeapReserve::default(),
        });
        Ok(())
    }

    /// The zone, after the last chunk.
    pub fn finish(self) -> Result<Zone, ImageError> {
        let (head, trees) = self.head.zip(self.trees).ok_or(ImageError::Order)?;
        if [0, 1].map(|tree| trees.loaders[tree].count()) != head.leaf_counts {
            return Err(ImageError::Order);
        }
        let [names, nsec3] = trees.loaders.map(LeafLoader::finish);
        // The check of its records has found the SOA record.
        if names.as_ref().first().is_none_or(|first| first.key_len() > 0) {
            return Err(ImageError::Records);
        }
        let has = |flag| head.flags & flag != 0;
        let version = ZoneVersion::next(head.apex.as_ref(), has(APEX_HAS_UPPER_CASE), has(HAS_WILDCARDS));
        let content = ZoneContent::new(names, nsec3, trees.tables, head.denial);
        let zone = Zone { apex: head.apex, content, version, serial: 0, edits: head.edits };
        if zone.soa().count > 1 { Err(ImageError::SeveralSoa) } else { Ok(zone.with_serial_apart()) }
    }
}

impl TreesDecoder {
    /// A decoder of other leaves of the same trees.
    fn without_leaves(&self) -> TreesDecoder {
        TreesDecoder {
            tables: self.tables.clone(),
            validator: self.validator.another(),
            keys: self.keys,
            loaders: Default::default(),
            heap: HeapReserve::default(),
        }
    }

    fn push(&mut self, tree: usize, body: &[u8]) -> Result<(), ImageError> {
        let is_names = tree == 0;
        for leaf in Items(body) {
            let leaf = leaf?;
            self.heap.prepare(leaf.len());
            let validator = &mut self.validator;
            let accept =
                |key: KeyInfo, value: &[u8]| validator.accepts(if is_names { key } else { key.without_apex() }, value);
            self.loaders[tree].push(leaf, self.keys, accept)?;
        }
        Ok(())
    }
}

/// The format version of an image that begins with this chunk; `None` if it is not the first chunk of one. It is at the same place in every
/// version.
pub fn format_version(chunk: &[u8]) -> Option<u16> {
    let mut fields = Fields(chunk);
    let (kind, number) = (fields.u8().ok()?, fields.u32().ok()?);
    if (kind, number) == (HEAD, 0) { fields.u16().ok() } else { None }
}

impl ImageHead {
    fn read(body: &[u8]) -> Result<ImageHead, ImageError> {
        let mut fields = Fields(body);
        let version = fields.u16()?;
        if version != FORMAT_VERSION {
            return Err(ImageError::Version(version));
        }
        let (edits, flags) = (fields.u32()?, fields.u8()?);
        let wire = fields.short()?;
        let apex = NameRef::from_wire(wire).map_err(|_| ImageError::Apex)?;
        if apex.wire() != wire || wire.iter().any(u8::is_ascii_uppercase) {
            return Err(ImageError::Apex);
        }
        let denial = match fields.u8()? {
            NO_DENIAL => Denial::None,
            BY_NSEC => Denial::Nsec,
            BY_NSEC3 => Denial::Nsec3(Nsec3Chain::new(fields.u16()?, fields.short()?, apex)),
            _ => return Err(ImageError::Tables),
        };
        let heads = (0..fields.u8()?).map(|_| fields.head()).collect::<Result<_, _>>()?;
        let [rrset_count, names, nsec3] = [fields.u32()?, fields.u32()?, fields.u32()?].map(|count| count as usize);
        if !fields.0.is_empty() {
            return Err(ImageError::Length);
        }
        let apex = apex.to_owned();
        Ok(ImageHead { edits, flags, apex, denial, heads, rrset_count, leaf_counts: [names, nsec3] })
    }
}

/// Reads the fields of the head.
struct Fields<'b>(&'b [u8]);

impl<'b> Fields<'b> {
    fn array<const LEN: usize>(&mut self) -> Result<[u8; LEN], ImageError> {
        let (array, rest) = self.0.split_first_chunk().ok_or(ImageError::Length)?;
        self.0 = rest;
        Ok(*array)
    }

    fn u8(&mut self) -> Result<u8, ImageError> {
        self.array().map(|[octet]| octet)
    }

    fn head(&mut self) -> Result<RrsetHead, ImageError> {
        Ok(RrsetHead { ttl: self.u32()?, rtype: Rtype(self.u16()?), form: self.u8()? })
    }

    fn u16(&mut self) -> Result<u16, ImageError> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, ImageError> {
        self.array().map(u32::from_le_bytes)
    }

    /// Octets after their length in one octet.
    fn short(&mut self) -> Result<&'b [u8], ImageError> {
        let len = self.u8()?;
        let (bytes, rest) = self.0.split_at_checked(len.into()).ok_or(ImageError::Length)?;
        self.0 = rest;
        Ok(bytes)
    }
}

/// The items of a chunk.
struct Items<'b>(&'b [u8]);

impl<'b> Iterator for Items<'b> {
    type Item = Result<&'b [u8], ImageError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let mut fields = Fields(std::mem::take(&mut self.0));
        let item = fields.u32().and_then(|len| fields.0.split_at_checked(len as usize).ok_or(ImageError::Length));
        Some(item.map(|(item, rest)| {
            self.0 = rest;
            item
        }))
    }
}
