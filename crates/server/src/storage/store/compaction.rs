//! Compaction: copies the records that are still needed out of the oldest segment, in small steps, and then removes it.

use std::io;

use super::{Segment, Store, StoreError, segment_name};
use crate::storage::disk::Disk;
use crate::storage::record::{RecordHeader, RecordKind, read_record};
use crate::storage::segment::{RECORDS_START, Scanned, SegmentScan};
use crate::storage::zone_index::Location;

/// The segment that is being compacted.
pub(in crate::storage) struct Compaction {
    segment: u32,
    /// Where the next step starts.
    offset: u32,
    /// Everything was copied.
    is_done: bool,
    /// Zones that need what could not be copied: the segment stays until each has a new image. `None` before all was copied.
    damaged: Option<Vec<u32>>,
    /// How many attempts to read have failed since the last step.
    failures: u32,
}

fn warn_of_damage(segment: u32, offset: u32) {
    tracing::warn!(
        file = segment_name(segment),
        offset,
        "the journal is damaged: what is lost of zones that are served is written anew"
    );
}

/// More small segments than this are merged: each start leaves one.
const MAX_SMALL: usize = 8;
/// The only segment is compacted once there is too much history by more than this part of its octets: all that is live in it is copied, and
/// that is worth more than a few changes.
const HISTORY_SLACK: u32 = 8;
/// After so many failed attempts, a place that cannot be read counts as damaged.
const MAX_READ_FAILURES: u32 = 3;
/// How much is read at once after a failed attempt, and how much is left out then: the disk may be good before and after that.
const PAGE_LEN: u32 = 4096;

impl<D: Disk> Store<D> {
    /// Takes a step: copies records out of at most `budget` octets of a segment, which the next [`Store::sync`] makes durable. Returns
    /// whether there was anything to do.
    pub fn compact(&mut self, budget: u32) -> Result<bool, StoreError> {
        if self.compaction.is_none() {
            self.compaction = self.victim().map(|segment| Compaction {
                segment,
                offset: RECORDS_START,
                is_done: false,
                damaged: None,
                failures: 0,
            });
        }
        let Some(Compaction { segment: number, offset, is_done: false, failures, .. }) = self.compaction else {
            return Ok(self.compaction.as_ref().is_some_and(|compaction| compaction.damaged.is_none()));
        };
        let Some(segment) = self.segments.get(&number) else { return Ok(false) };
        let (file, salt, end) = (segment.file.clone(), segment.salt, segment.len);
        let step_end = end.min(offset.saturating_add(budget));
        let mut scan = SegmentScan::new(&*file, salt, offset, end);
        if failures > 0 {
            scan.limit_reads(PAGE_LEN);
        }
        while scan.offset() < step_end {
            let found = match scan.next() {
                Ok(found) => found,
                Err(error) => return self.read_failed(scan.offset(), error),
            };
            match found {
                Some(Scanned::Record(at, header)) => {
                    let location = Location { segment: number, offset: at };
                    // The oldest segment has nothing older that a removal would have to hide.
                    let is_oldest = self.segments.keys().next() == Some(&number) && !self.has_unsynced_removals;
                    let hides = header.kind == RecordKind::Removed && !is_oldest;
                    if hides || self.is_kept(&header, location) {
                        match read_record(&*file, at.into(), salt) {
                            Ok(Some(record)) => self.append_copy(&record, location),
                            Ok(None) => warn_of_damage(number, at),
                            Err(error) => return self.read_failed(at, error),
                        }
                    }
                }
                Some(Scanned::DamagedPayload(at, header))
                    if self.index.needs(&header, Location { segment: number, offset: at }, true) =>
                {
                    warn_of_damage(number, at);
                }
                Some(Scanned::Garbage(start, _)) => warn_of_damage(number, start),
                Some(Scanned::DamagedPayload(..)) | None => (),
            }
        }
        let offset = scan.offset();
        let is_done = offset >= end;
        self.compaction = Some(Compaction { segment: number, offset, is_done, damaged: None, failures: 0 });
        Ok(true)
    }

    /// The next step starts where reading has failed, or after that place once it has failed often. Whatever needs the part that is left
    /// out gets a new image in the end.
    fn read_failed(&mut self, at: u32, error: io::Error) -> Result<bool, StoreError> {
        let Some(compaction) = &mut self.compaction else { return Ok(false) };
        (compaction.offset, compaction.failures) = (at, compaction.failures + 1);
        let error = StoreError { file: segment_name(compaction.segment), action: "read", error };
        if compaction.failures < MAX_READ_FAILURES {
            return Err(error);
        }
        compaction.offset = (at / PAGE_LEN + 1).saturating_mul(PAGE_LEN);
        tracing::error!(
            %error,
            offset = at,
            "a part of the journal cannot be read, and is given up: what is lost of zones that are served is written anew"
        );
        Ok(true)
    }

    /// Whether to copy a record. While there is too much history, that of the oldest segments is dropped; changes that a new
    /// image would make history of are a reason to ask for one.
    fn is_kept(&mut self, header: &RecordHeader, location: Location) -> bool {
        if !self.index.needs(header, location, true) {
            return false;
        }
        if header.kind != RecordKind::Change {
            return true;
        }
        if self.index.needs(header, location, false) {
            self.index.ask_for_image(header.zone);
            return true;
        }
        if self.index.history_total <= self.limits.history_total {
            return true;
        }
        let changes = self.index.changes(header.zone);
        let position = changes.and_then(|changes| changes.position(header.sequence));
        self.index.drop_history(header.zone, position.map_or(0, |position| position + 1));
        false
    }

    /// The segment to compact next: always the oldest, as the header of a segment may say what counts of the ones before it. It is due
    /// while more octets are dead than live, while there is too much history, or while there are too many small segments. The current
    /// segment, if there is no other, is due for its history alone.
    fn victim(&self) -> Option<u32> {
        let (&oldest, segment) = self.segments.first_key_value()?;
        let excess = self.index.history_total.saturating_sub(self.limits.history_total);
        if self.current == Some(oldest) {
            return (excess > u64::from(segment.len / HISTORY_SLACK)).then_some(oldest);
        }
        let total: u64 = self.segments.values().map(|segment| u64::from(segment.len)).sum();
        let live: u64 = self.index.live.values().sum();
        let is_small = |segment: &&Segment<D::File>| segment.len < self.limits.segment_len / 2;
        let is_due = total > 2 * live + u64::from(self.limits.segment_len)
            || excess > 0
            || self.segments.values().filter(is_small).count() > MAX_SMALL;
        is_due.then_some(oldest)
    }

    /// Whether this segment is being compacted: it takes no more records, which would not be copied.
    pub(super) fn is_compacted(&self, segment: u32) -> bool {
        self.compaction.as_ref().is_some_and(|compaction| compaction.segment == segment)
    }

    /// Whether zones need records of this compacted segment that could not be copied. Asks for their images, once.
    fn is_needed(&mut self, segment: u32) -> bool {
        let Some(compaction) = &mut self.compaction else { return false };
        let mut damaged = compaction.damaged.take().unwrap_or_else(|| self.index.zones_in(segment));
        damaged.retain(|zone| self.index.give_up(*zone, segment));
        damaged.iter().for_each(|zone| self.index.ask_for_image(*zone));
        let is_needed = !damaged.is_empty();
        compaction.damaged = Some(damaged);
        is_needed
    }

    /// Removes the compacted segment once its copies are durable.
    pub(super) fn remove_compacted(&mut self) -> Result<(), StoreError> {
        let Some(Compaction { segment, is_done: true, .. }) = self.compaction else { return Ok(()) };
        if !self.pending.is_empty() || self.is_needed(segment) {
            return Ok(());
        }
        // What the header of this segment makes void must be gone first.
        self.sync_removals()?;
        self.remove_segment(segment)?;
        self.segments.remove(&segment);
        self.index.live.remove(&segment);
        self.current = self.current.filter(|current| *current != segment);
        self.compaction = None;
        self.has_unsynced_removals = true;
        // Otherwise the records of a removed zone could come back after the record of its removal is gone.
        self.sync_removals()
    }
}
