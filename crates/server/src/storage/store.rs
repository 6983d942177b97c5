//! The store: a log of records in few segment files. Per zone it holds the newest image, the changes after it, older changes as history
//! for IXFR, and timers.
//!
//! Records are appended to memory and become durable, all together, with [`Store::sync`]. The log is never changed in place: what is no
//! longer needed stays in its segment, and [`Store::compact`] copies the rest out of mostly dead segments, which are then removed.
//!
//! After a failed sync nobody knows what the disk has of the data that was to be synced, and a later sync may succeed without it. So
//! that data is written again, to a new segment.

mod compaction;
mod durable;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use wire::NameRef;

use super::disk::Disk;
use super::image_file::{ImageWriter, StoredImage};
use super::limits::StoreLimits;
use super::record::{self, RecordHeader, RecordKind, read_fields};
use super::timers::Timers;
use super::zone_index::{IMAGE_REFERENCE_LEN, Location, ZoneIndex, ZoneNumbers};
use compaction::Compaction;

/// The number of a zone in the store. All its records have the same name, in lower case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoredZone(pub u32);

/// Why the store failed. What is not durable is kept, and [`Store::sync`] tries again.
#[derive(Debug, thiserror::Error)]
#[error("{file}: cannot be {action}: {error}")]
pub struct StoreError {
    /// The name of the file.
    pub file: String,
    /// "written", "synced"..., or `FOUND`.
    pub action: &'static str,
    /// The reason.
    pub error: io::Error,
}

/// The action of the error for a folder that is not in its place.
pub(super) const FOUND: &str = "found";

/// Why a change is refused. The store has nothing of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeRefused {
    /// It does not start where the last one ends.
    #[error("the change from serial {from} to {to} does not follow serial {last}; write an image of the zone instead")]
    Gap {
        /// The serial before the change.
        from: u32,
        /// The serial after it.
        to: u32,
        /// The serial of the newest version in the store.
        last: u32,
    },
    /// The zone has no image that it could follow.
    #[error("the change from serial {from} to {to} has no image to follow; write an image of the zone first")]
    NoImage {
        /// The serial before the change.
        from: u32,
        /// The serial after it.
        to: u32,
    },
}

/// How an image relates to the changes before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageBase {
    /// The image is the version at its serial, which changes in the store lead to.
    Snapshot {
        /// Of the changes up to it, which become history, at most so many octets are kept.
        max_history_len: u64,
    },
    /// The image is a new version that no change leads to: older changes are dropped.
    Replacement,
}

/// A segment file.
pub(super) struct Segment<F> {
    pub(super) file: Arc<F>,
    pub(super) salt: u32,
    /// The octets known to be durable.
    pub(super) len: u32,
    /// The file has more than those; the header of the next segment says that they are void.
    pub(super) has_tail: bool,
    /// The segment that the header makes such a statement about, and its durable length.
    pub(super) predecessor: (u32, u32),
}

/// A record that is not durable yet.
pub(super) struct PendingRecord {
    /// Its offset in the pending octets.
    at: usize,
    /// Where it was, if it is being moved.
    moved_from: Option<Location>,
    /// Of a snapshot: see [`ImageBase::Snapshot`].
    max_history_len: u64,
}

/// The store.
pub struct Store<D: Disk> {
    pub(super) disk: Arc<D>,
    pub(super) limits: StoreLimits,
    pub(super) segments: BTreeMap<u32, Segment<D::File>>,
    /// The segment that is being written.
    pub(super) current: Option<u32>,
    /// The last segment that a sync succeeded on, and its durable length.
    pub(super) last_good: (u32, u32),
    pub(super) next_segment: u32,
    pub(super) next_sequence: u64,
    pub(super) image_numbers: Arc<AtomicU32>,
    pub(super) index: ZoneIndex,
    pub(super) numbers: Arc<ZoneNumbers>,
    pub(super) pending: Vec<u8>,
    pub(super) pending_records: Vec<PendingRecord>,
    pub(super) compaction: Option<Compaction>,
    /// Images that are not needed could not be removed.
    pub(super) has_stuck_images: bool,
    /// Whether the last sync has failed, and something is not durable therefore.
    pub(super) is_failing: bool,
    /// Void segments that are still there.
    pub(super) void: Vec<u32>,
    /// Segments were removed and the directory was not synced since.
    pub(super) has_unsynced_removals: bool,
}

/// The name of a segment file.
pub(super) fn segment_name(number: u32) -> String {
    format!("journal-{number:08}")
}

impl<D: Disk> Store<D> {
    /// Takes a number for a new zone.
    pub fn add_zone(&mut self) -> StoredZone {
        StoredZone(self.numbers.take())
    }

    /// Appends a change, in the form of `zone::EncodedChange`; returns its sequence number. It must start at the serial of the last
    /// change or image: a start would drop any other, and all after it.
    pub fn append_change(
        &mut self,
        zone: StoredZone,
        name: NameRef<'_>,
        serials: (u32, u32),
        change: &[u8],
    ) -> Result<u64, ChangeRefused> {
        let (from, to) = serials;
        let slot = self.index.slot(zone.0);
        match slot.has_version() {
            false => return Err(ChangeRefused::NoImage { from, to }),
            true if slot.serial != from => return Err(ChangeRefused::Gap { from, to, last: slot.serial }),
            true => slot.serial = to,
        }
        Ok(self.append(RecordKind::Change, zone, name, (from, to, 0), &[change]))
    }

    /// Appends an image; returns its sequence number. `None` for a snapshot of a version that no change in the store leads to or from:
    /// it is dropped.
    pub fn append_image(
        &mut self,
        zone: StoredZone,
        name: NameRef<'_>,
        serial: u32,
        base: ImageBase,
        image: &StoredImage,
    ) -> Option<u64> {
        let (base, max_history_len) = match base {
            ImageBase::Replacement => (self.next_sequence, u64::MAX),
            ImageBase::Snapshot { max_history_len } => match self.base_of(zone, serial) {
                Some(base) => (base, max_history_len),
                None => {
                    self.discard_image(image);
                    return None;
                }
            },
        };
        // A snapshot of an older version leaves the newest one as it is.
        if base + 1 >= self.next_sequence {
            self.index.slot(zone.0).set_serial(Some(serial));
        }
        let sequence = match image {
            StoredImage::Inline(frames) => self.append(RecordKind::Image, zone, name, (serial, 0, base), &[frames]),
            StoredImage::File(number, len) => {
                self.append(RecordKind::Image, zone, name, (serial, *number, base), &[&len.to_le_bytes()])
            }
        };
        if let Some(record) = self.pending_records.last_mut() {
            record.max_history_len = max_history_len;
        }
        Some(sequence)
    }

    /// Drops the oldest history of a zone that exceeds these octets, or [`answer::MAX_HISTORY`].
    pub fn limit_history(&mut self, zone: StoredZone, max_len: u64) {
        self.index.limit_history(zone.0, max_len);
    }

    /// Appends the timers of a zone; returns their sequence number.
    pub fn append_timers(&mut self, zone: StoredZone, name: NameRef<'_>, timers: Timers) -> u64 {
        self.append(RecordKind::Timers, zone, name, (0, 0, 0), &[&timers.to_bytes()])
    }

    /// Removes a zone; returns the sequence number. Its number may be given to another zone after the next sync.
    pub fn remove(&mut self, zone: StoredZone, name: NameRef<'_>) -> u64 {
        self.index.slot(zone.0).set_serial(None);
        self.append(RecordKind::Removed, zone, name, (0, 0, 0), &[])
    }

    /// A writer for an image of a zone, for [`Self::append_image`].
    pub fn image_writer(&self) -> ImageWriter<D> {
        ImageWriter::new(self.disk.clone(), self.image_numbers.clone(), self.limits.inline_image_len)
    }

    /// Drops an image that is not appended. Its file is removed by the next sync.
    pub fn discard_image(&mut self, image: &StoredImage) {
        if let StoredImage::File(number, _) = image {
            self.index.dead_images.push(*number);
        }
    }

    /// Makes the image of a zone due again if it still is: it could not be written.
    pub fn postpone_image(&mut self, zone: StoredZone) {
        self.index.ask_again(zone.0);
    }

    /// Whether a zone still needs a new image.
    pub fn is_image_due(&self, zone: StoredZone) -> bool {
        self.index.zones.get(zone.0 as usize).is_some_and(|slot| slot.is_due())
    }

    /// The zones whose changes have outgrown their image since the last call: a new snapshot is due.
    pub fn take_due_images(&mut self) -> Vec<StoredZone> {
        std::mem::take(&mut self.index.due).into_iter().map(StoredZone).collect()
    }

    /// The octets that wait for [`Self::sync`].
    pub fn pending_len(&self) -> usize {
        self.pending.len()
    }

    /// The octets of memory that the index takes.
    pub fn index_memory(&self) -> usize {
        self.index.memory()
    }

    fn append(
        &mut self,
        kind: RecordKind,
        zone: StoredZone,
        name: NameRef<'_>,
        (from, to, base): (u32, u32, u64),
        payload: &[&[u8]],
    ) -> u64 {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        let header = RecordHeader {
            payload_checksum: 0,
            payload_len: payload.iter().map(|part| part.len() as u32).sum(),
            kind,
            name_len: name.wire().len() as u8,
            sequence,
            base,
            zone: zone.0,
            from,
            to,
            batch: 0,
        };
        self.pending_records.push(PendingRecord {
            at: self.pending.len(),
            moved_from: None,
            max_history_len: u64::MAX,
        });
        record::append(&header, name.wire(), payload, &mut self.pending);
        sequence
    }

    /// Appends a copy of a whole record that is at `from`.
    pub(super) fn append_copy(&mut self, record: &[u8], from: Location) {
        self.pending_records.push(PendingRecord {
            at: self.pending.len(),
            moved_from: Some(from),
            max_history_len: u64::MAX,
        });
        self.pending.extend_from_slice(record);
    }

    /// The sequence number of the last change in a snapshot of this serial; `None` if changes lead past it already.
    fn base_of(&self, zone: StoredZone, serial: u32) -> Option<u64> {
        let slot = self.index.zones.get(zone.0 as usize).filter(|slot| slot.has_version());
        if slot.is_none_or(|slot| slot.serial == serial) {
            // Nothing that was lost to damage comes back after the image of the newest version.
            return Some(self.next_sequence - 1);
        }
        let pending = self.pending_records.iter().rev().map(|record| read_fields(&self.pending[record.at..]));
        let pending = pending.filter(|header| header.zone == zone.0);
        // Changes before a replacement lead to other data.
        let is_replacement = |header: &RecordHeader| header.kind == RecordKind::Image && header.base == header.sequence;
        let is_replaced = pending.clone().any(|header| is_replacement(&header));
        let pending = pending.take_while(|header| !is_replacement(header));
        let pending = pending.filter(|header| header.kind == RecordKind::Change);
        let entries = slot.and_then(|_| self.index.changes(zone.0)).filter(|_| !is_replaced);
        let entries = entries.iter().flat_map(|changes| changes.entries.iter().rev());
        let all = pending.map(|header| (header.sequence, header.from, header.to));
        for (sequence, from, to) in all.chain(entries.map(|entry| (entry.sequence, entry.from, entry.to))) {
            match serial {
                serial if serial == to => return Some(sequence),
                serial if serial == from => return Some(sequence - 1),
                _ => (),
            }
        }
        None
    }
}

/// The length of the image of a record, whose payload is at the start of `payload`.
pub(super) fn image_len(header: &RecordHeader, payload: &[u8]) -> u64 {
    match payload.first_chunk::<IMAGE_REFERENCE_LEN>() {
        Some(len) if header.kind == RecordKind::Image && header.to > 0 => u64::from_le_bytes(*len),
        _ => header.payload_len.into(),
    }
}
