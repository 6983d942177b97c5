//! Segments: append-only files of [records](super::record), and how to read one that may be damaged.
//!
//! A segment starts with its header, twice, as the records cannot be read without it:
//!
//! | offset | field | |
//! | --- | --- | --- |
//! | 0 | magic | `ZNDASEG` and 0 |
//! | 8 | format version | u32 |
//! | 12 | number of the segment | u32 |
//! | 16 | salt | u32, random: seeds the checksums |
//! | 20 | predecessor | u32: the segment written before; segments between are void |
//! | 24 | durable length of the predecessor | u32: what follows there is void |
//! | 28 | length of the first batch | u32 |
//! | 32 | checksum of the first batch | u32: if it is wrong and no other batch follows, a crash has torn the segment, and its
//! statement about others does not count |
//! | 36 | checksum | u32, CRC-32C of the octets before |

use std::io;

use super::disk::{DiskFile, read_full};
use super::record::{ALIGNMENT, FIXED_LEN, RecordHeader, parse};

const MAGIC: &[u8; 8] = b"ZNDASEG\0";
/// The format that is written; no other is read.
const FORMAT_VERSION: u32 = 1;
const HEADER_LEN: usize = 40;
/// Where the records start.
pub(super) const RECORDS_START: u32 = 2 * HEADER_LEN as u32;
/// How many octets are read at once.
const READ_LEN: usize = 1 << 20;

/// The header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    pub(super) number: u32,
    pub(super) salt: u32,
    pub(super) predecessor: u32,
    pub(super) predecessor_len: u32,
    pub(super) batch_len: u32,
    pub(super) batch_checksum: u32,
}

impl SegmentHeader {
    /// Both copies.
    pub(super) fn to_bytes(self) -> [u8; RECORDS_START as usize] {
        let mut bytes = [0; RECORDS_START as usize];
        let (copy, second) = bytes.split_at_mut(HEADER_LEN);
        copy[..8].copy_from_slice(MAGIC);
        let numbers = [
            FORMAT_VERSION,
            self.number,
            self.salt,
            self.predecessor,
            self.predecessor_len,
            self.batch_len,
            self.batch_checksum,
        ];
        for (index, number) in numbers.into_iter().enumerate() {
            copy[8 + 4 * index..][..4].copy_from_slice(&number.to_le_bytes());
        }
        let checksum = crc32c::crc32c(&copy[..36]);
        copy[36..].copy_from_slice(&checksum.to_le_bytes());
        second.copy_from_slice(copy);
        bytes
    }

    /// Reads the first copy that is good. `Err` with the version if that is another one.
    pub(super) fn read(file: &impl DiskFile) -> io::Result<Option<Result<SegmentHeader, u32>>> {
        let mut bytes = [0; RECORDS_START as usize];
        let len = read_full(file, &mut bytes, 0)?;
        Ok(bytes[..len].chunks_exact(HEADER_LEN).find_map(SegmentHeader::parse))
    }

    /// Whether the first batch was written as a whole: it is good, or it was before damage, as another batch follows.
    pub(super) fn is_complete(&self, file: &impl DiskFile, end: u32) -> io::Result<bool> {
        let mut scan = SegmentScan::new(file, self.salt, RECORDS_START, end);
        if self.batch_len <= end.saturating_sub(RECORDS_START)
            && scan.checksum(RECORDS_START, self.batch_len)? == self.batch_checksum
        {
            return Ok(true);
        }
        while let Some(found) = scan.next()? {
            if matches!(found, Scanned::Record(_, header) if header.batch > RECORDS_START) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn parse(bytes: &[u8]) -> Option<Result<SegmentHeader, u32>> {
        let u32_at = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        if !bytes.starts_with(MAGIC) || u32_at(36) != crc32c::crc32c(&bytes[..36]) {
            return None;
        }
        Some(match u32_at(8) {
            FORMAT_VERSION => Ok(SegmentHeader {
                number: u32_at(12),
                salt: u32_at(16),
                predecessor: u32_at(20),
                predecessor_len: u32_at(24),
                batch_len: u32_at(28),
                batch_checksum: u32_at(32),
            }),
            version => Err(version),
        })
    }
}

/// What a scan finds next.
pub(super) enum Scanned {
    /// A good record at this offset. The payload is checked.
    Record(u32, RecordHeader),
    /// A record whose header is good and whose payload is not.
    DamagedPayload(u32, RecordHeader),
    /// Octets that are no record, from this offset to that one.
    Garbage(u32, u32),
}

/// Reads the records of a segment in order, in bounded memory. After damage it looks for the next record.
pub(super) struct SegmentScan<'f, F> {
    file: &'f F,
    salt: u32,
    /// Where the next record starts.
    offset: u32,
    end: u32,
    buffer: Vec<u8>,
    /// How many octets are read at once.
    read_len: usize,
    /// The part of the file in `buffer`.
    buffer_start: u32,
    /// The end of the last record, and where its batch starts; `None` if the scan has started after the start of a batch.
    last: (u32, Option<u32>),
}

impl<'f, F: DiskFile> SegmentScan<'f, F> {
    /// Scans from `offset` to `end`.
    pub(super) fn new(file: &'f F, salt: u32, offset: u32, end: u32) -> SegmentScan<'f, F> {
        let batch = (offset == RECORDS_START).then_some(RECORDS_START);
        let buffer = Vec::new();
        SegmentScan { file, salt, offset, end, buffer, read_len: READ_LEN, buffer_start: offset, last: (offset, batch) }
    }

    /// Reads at most so many octets at once, unless more are needed.
    pub(super) fn limit_reads(&mut self, len: u32) {
        self.read_len = len as usize;
    }

    /// A scan that starts at `offset`, after the same records.
    pub(super) fn resume(&self, offset: u32) -> SegmentScan<'f, F> {
        SegmentScan { last: self.last, ..SegmentScan::new(self.file, self.salt, offset, self.end) }
    }

    /// Where the next record starts.
    pub(super) fn offset(&self) -> u32 {
        self.offset
    }

    /// The next record or damage; `None` at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<Scanned>> {
        let start = self.offset;
        if start >= self.end {
            return Ok(None);
        }
        while self.offset < self.end {
            let at = self.offset;
            let Some(header) = self.header_at(at)? else {
                self.offset = at.saturating_add(ALIGNMENT as u32);
                continue;
            };
            if at > start {
                return Ok(Some(Scanned::Garbage(start, at)));
            }
            let payload_start = at + header.payload_start() as u32;
            let is_good = self.checksum(payload_start, header.payload_len)? == header.payload_checksum;
            self.offset = at + header.record_len() as u32;
            self.last = (self.offset, Some(header.batch));
            return Ok(Some(match is_good {
                true => Scanned::Record(at, header),
                false => Scanned::DamagedPayload(at, header),
            }));
        }
        self.offset = self.end;
        Ok(Some(Scanned::Garbage(start, self.end)))
    }

    /// The header at `at`, if there is one whose record ends within the segment.
    fn header_at(&mut self, at: u32) -> io::Result<Option<RecordHeader>> {
        let salt = self.salt;
        let bytes = self.bytes(at, FIXED_LEN + 255)?;
        let header = parse(bytes, salt).map(|(header, _)| header);
        let is_possible = |header: &RecordHeader| {
            header.record_len() as u64 <= u64::from(self.end - at) && self.can_have_batch(at, header.batch)
        };
        Ok(header.filter(is_possible))
    }

    /// Whether a record at `at` can be of this batch: the one of the record before, or one that starts after that record. Any other
    /// would void a part of a good record, as what precedes the last batch is taken for durable.
    fn can_have_batch(&self, at: u32, batch: u32) -> bool {
        let (end, last_batch) = self.last;
        batch <= at && (batch >= end || last_batch.is_none_or(|last_batch| last_batch == batch))
    }

    fn checksum(&mut self, mut at: u32, len: u32) -> io::Result<u32> {
        let (mut checksum, mut left) = (self.salt, len as usize);
        while left > 0 {
            let part = self.bytes(at, left.min(self.read_len))?;
            if part.is_empty() {
                return Ok(!checksum);
            }
            checksum = crc32c::crc32c_append(checksum, part);
            left -= part.len();
            at += part.len() as u32;
        }
        Ok(checksum)
    }

    /// At most `len` octets at `at`; fewer only at the end.
    pub(super) fn bytes(&mut self, at: u32, len: usize) -> io::Result<&[u8]> {
        let len = len.min((self.end - at) as usize);
        let is_buffered =
            |scan: &Self| at >= scan.buffer_start && (at - scan.buffer_start) as usize + len <= scan.buffer.len();
        if !is_buffered(self) {
            self.buffer.resize(self.read_len.max(len).min((self.end - at) as usize), 0);
            let read = read_full(self.file, &mut self.buffer, at.into())?;
            self.buffer.truncate(read);
            self.buffer_start = at;
        }
        let start = (at - self.buffer_start) as usize;
        Ok(&self.buffer[start..(start + len).min(self.buffer.len())])
    }
}
