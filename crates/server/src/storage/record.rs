//! Records: what a segment file consists of.
//!
//! | offset | field | |
//! | --- | --- | --- |
//! | 0 | checksum of the header | u32, CRC-32C of the octets from 4 to the end of the name, seeded with the salt of the segment |
//! | 4 | checksum of the payload | u32, likewise |
//! | 8 | length of the payload | u32 |
//! | 12 | kind | u8 |
//! | 13 | length of the name | u8 |
//! | 14 | 0 | u16 |
//! | 16 | sequence number | u64, never used twice |
//! | 24 | base | u64; of an image: the sequence number of the last change in it |
//! | 32 | number of the zone | u32 |
//! | 36 | from, to | u32 each; of a change: the serials before and after it; of an image: its serial, and the number of its file or 0 |
//! | 44 | batch | u32: where the batch of this record starts in the segment; all before that was durable when this was written |
//! | 48 | name | the apex in wire form |
//! | | payload | padded with zeros to a multiple of 8 |
//!
//! Numbers are little-endian. As the salt is random, octets of a zone cannot pass for a record.

use std::io;

use super::disk::{DiskFile, read_full};

/// The octets before the name.
pub(super) const FIXED_LEN: usize = 48;
/// Records start at multiples of this.
pub(super) const ALIGNMENT: usize = 8;
/// The longest name (RFC 1035 2.3.4).
const MAX_NAME_LEN: usize = 255;

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordKind {
    /// An image of a zone, in the payload or in a file of its own.
    Image = 1,
    /// A change of a zone.
    Change = 2,
    /// The timers of a zone.
    Timers = 3,
    /// The zone was removed. Of a zone that never was, at a clean stop.
    Removed = 4,
}

/// The header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordHeader {
    pub(super) payload_checksum: u32,
    pub(super) payload_len: u32,
    pub(super) kind: RecordKind,
    pub(super) name_len: u8,
    pub(super) sequence: u64,
    pub(super) base: u64,
    pub(super) zone: u32,
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) batch: u32,
}

impl RecordHeader {
    /// The octets of the whole record.
    pub(super) fn record_len(&self) -> usize {
        record_len(self.name_len.into(), self.payload_len as usize)
    }

    /// The offset of the payload in the record.
    pub(super) fn payload_start(&self) -> usize {
        FIXED_LEN + usize::from(self.name_len)
    }
}

/// The octets of a record with a name and a payload of these lengths.
pub(super) fn record_len(name_len: usize, payload_len: usize) -> usize {
    (FIXED_LEN + name_len + payload_len).next_multiple_of(ALIGNMENT)
}

/// Appends a record without checksums: see [`seal`].
pub(super) fn append(header: &RecordHeader, name: &[u8], payload: &[&[u8]], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(&header.payload_len.to_le_bytes());
    out.extend_from_slice(&[header.kind as u8, name.len() as u8, 0, 0]);
    out.extend_from_slice(&header.sequence.to_le_bytes());
    out.extend_from_slice(&header.base.to_le_bytes());
    for number in [header.zone, header.from, header.to, 0] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.extend_from_slice(name);
    payload.iter().for_each(|part| out.extend_from_slice(part));
    debug_assert_eq!(out.len() - start, header.payload_start() + header.payload_len as usize);
    out.resize(start + header.record_len(), 0);
}

/// Fills in the batch and the checksums of a record at the start of `bytes`, for a segment with this salt; returns its length.
pub(super) fn seal(bytes: &mut [u8], salt: u32, batch: u32) -> usize {
    let header = read_fields(bytes);
    let (start, len) = (header.payload_start(), header.payload_len as usize);
    let payload = crc32c::crc32c_append(salt, &bytes[start..start + len]);
    bytes[4..8].copy_from_slice(&payload.to_le_bytes());
    bytes[44..48].copy_from_slice(&batch.to_le_bytes());
    let checksum = crc32c::crc32c_append(salt, &bytes[4..start]);
    bytes[..4].copy_from_slice(&checksum.to_le_bytes());
    header.record_len()
}

/// The header of a record at the start of `bytes`, with its name, if it is one of a segment with this salt.
pub(super) fn parse(bytes: &[u8], salt: u32) -> Option<(RecordHeader, &[u8])> {
    let fixed: &[u8; FIXED_LEN] = bytes.first_chunk()?;
    if !(1..=4).contains(&fixed[12]) || fixed[14..16] != [0, 0] {
        return None;
    }
    let end = FIXED_LEN + usize::from(fixed[13]);
    let checksum = crc32c::crc32c_append(salt, bytes.get(4..end)?);
    (fixed[..4] == checksum.to_le_bytes()).then(|| (read_fields(bytes), &bytes[FIXED_LEN..end]))
}

/// Reads the fields of a header of the right length and kind.
pub(super) fn read_fields(bytes: &[u8]) -> RecordHeader {
    let u32_at = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
    RecordHeader {
        payload_checksum: u32_at(4),
        payload_len: u32_at(8),
        kind: match bytes[12] {
            1 => RecordKind::Image,
            2 => RecordKind::Change,
            3 => RecordKind::Timers,
            _ => RecordKind::Removed,
        },
        name_len: bytes[13],
        sequence: u64_at(16),
        base: u64_at(24),
        zone: u32_at(32),
        from: u32_at(36),
        to: u32_at(40),
        batch: u32_at(44),
    }
}

/// Reads the record at `offset`; `None` if it is damaged.
pub(super) fn read_record(file: &impl DiskFile, offset: u64, salt: u32) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = vec![0; FIXED_LEN + MAX_NAME_LEN];
    let len = read_full(file, &mut bytes, offset)?;
    let Some((header, _)) = parse(&bytes[..len], salt) else { return Ok(None) };
    let available = file.length()?.saturating_sub(offset);
    if header.record_len() as u64 > available {
        return Ok(None);
    }
    bytes.resize(header.record_len(), 0);
    if read_full(file, &mut bytes, offset)? < header.record_len() {
        return Ok(None);
    }
    let payload = &bytes[header.payload_start()..][..header.payload_len as usize];
    Ok((crc32c::crc32c_append(salt, payload) == header.payload_checksum).then_some(bytes))
}
