//! Making records durable: batches, segments, and what is removed once they are on disk.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::Arc;

use wire::NameRef;

use super::{FOUND, Segment, Store, StoreError, image_len, segment_name};
use crate::storage::disk::{Disk, DiskFile};
use crate::storage::image_file::image_file_name;
use crate::storage::record::{self, RecordKind, read_fields};
use crate::storage::segment::{RECORDS_START, SegmentHeader};
use crate::storage::zone_index::Location;

impl<D: Disk> Store<D> {
    /// Makes everything appended so far durable. After an error nothing is lost: the next call writes it again.
    pub fn sync(&mut self) -> Result<(), StoreError> {
        let synced = self.try_sync();
        // Files that are not needed any more fail without harm.
        self.is_failing = synced.is_err() && !self.pending.is_empty();
        synced
    }

    /// Appends a record that says nothing, in a batch of its own, at a clean stop. It proves to the next start that the batch before it
    /// was durable, so that damage there is not taken for what a crash left.
    pub fn close(&mut self) -> Result<(), StoreError> {
        if self.current.is_none() || !self.pending.is_empty() {
            return Ok(());
        }
        let unused = self.add_zone();
        self.remove(unused, NameRef::ROOT);
        self.sync()
    }

    fn try_sync(&mut self) -> Result<(), StoreError> {
        if self.pending.is_empty() {
            return self.after_sync();
        }
        let segment = self.current;
        // The second attempt is for a segment that failed to sync.
        if let Err(error) = self.write_batch() {
            // The reason for an error may be that nothing is in its place.
            self.check_place()?;
            if self.current.is_some() || error.action != "synced" {
                return Err(error);
            }
            self.write_batch()?;
            match segment.filter(|number| segment_name(*number) == error.file) {
                Some(number) if error.error.kind() == io::ErrorKind::NotFound => {
                    self.copy_removed(number);
                    return self.try_sync();
                }
                _ => tracing::warn!(%error, "this part of the journal was written again to a new file"),
            }
        }
        self.after_sync()
    }

    /// Appends again what is needed of a file that somebody has removed. As long as it is open, it can be read.
    fn copy_removed(&mut self, number: u32) {
        let file = segment_name(number);
        tracing::error!(
            file,
            "a file of the journal was removed while zonda was using it: its contents are written again to a new file"
        );
        if let Err(error) = self.copy_needed((number, RECORDS_START)) {
            tracing::error!(%error, "the zones in it are written anew: until then a restart loses them");
            self.index.zones_in(number).into_iter().for_each(|zone| self.index.ask_for_image(zone));
        }
    }

    /// Fails if a start would not find the folder: what is durable in it counts for nothing.
    fn check_place(&self) -> Result<(), StoreError> {
        self.disk.check_place().map_err(|error| StoreError { file: "the folder".into(), action: FOUND, error })
    }

    /// Writes and syncs the pending records to the current segment, or to a new one.
    fn write_batch(&mut self) -> Result<(), StoreError> {
        let full = |store: &Self, number| {
            let segment: &Segment<_> = &store.segments[&number];
            segment.len >= store.limits.segment_len
                || store.is_compacted(number)
                || u32::try_from(segment.len as usize + store.pending.len()).is_err()
        };
        let number = match self.current.filter(|&number| !full(self, number)) {
            Some(number) => number,
            None => return self.write_first_batch(),
        };
        let segment = &self.segments[&number];
        let (file, salt, start) = (segment.file.clone(), segment.salt, segment.len);
        self.seal(salt, start);
        let failed = |action, error| StoreError { file: segment_name(number), action, error };
        file.write_at(&self.pending, start.into()).map_err(|error| failed("written", error))?;
        if let Err(error) = file.sync() {
            // What the disk has after `start` is unknown for good.
            self.current = None;
            self.segments.entry(number).and_modify(|segment| segment.has_tail = true);
            return Err(failed("synced", error));
        }
        self.check_place()?;
        self.commit(number, start);
        Ok(())
    }

    /// Creates a segment with the pending records.
    fn write_first_batch(&mut self) -> Result<(), StoreError> {
        self.current = None;
        let number = self.next_segment;
        self.next_segment += 1;
        let salt = RandomState::new().hash_one(number) as u32;
        let (predecessor, predecessor_len) = self.last_good;
        let failed = |action, error| StoreError { file: segment_name(number), action, error };
        let file = self.disk.create(&segment_name(number)).map_err(|error| failed("created", error))?;
        self.seal(salt, RECORDS_START);
        let (batch_len, batch_checksum) = (self.pending.len() as u32, crc32c::crc32c_append(salt, &self.pending));
        let header = SegmentHeader { number, salt, predecessor, predecessor_len, batch_len, batch_checksum };
        let written = self.write_new_segment(&file, header);
        if let Err((action, error)) = written {
            // A later segment says that this one is void, until it is removed for good. It is removed now if possible, as the disk may be full.
            _ = self.disk.remove(&segment_name(number));
            self.void.push(number);
            return Err(failed(action, error));
        }
        self.segments.insert(
            number,
            Segment { file: Arc::new(file), salt, len: RECORDS_START, has_tail: false, predecessor: self.last_good },
        );
        self.current = Some(number);
        self.has_unsynced_removals = false;
        self.commit(number, RECORDS_START);
        Ok(())
    }

    fn write_new_segment(&self, file: &D::File, header: SegmentHeader) -> Result<(), (&'static str, io::Error)> {
        file.write_at(&header.to_bytes(), 0).map_err(|error| ("written", error))?;
        file.write_at(&self.pending, RECORDS_START.into()).map_err(|error| ("written", error))?;
        file.sync().map_err(|error| ("synced", error))?;
        self.disk.sync_directory().map_err(|error| ("synced", error))?;
        self.disk.check_place().map_err(|error| (FOUND, error))
    }

    fn seal(&mut self, salt: u32, start: u32) {
        for record in &self.pending_records {
            record::seal(&mut self.pending[record.at..], salt, start);
        }
    }

    /// Takes the pending records into the index: they are durable at `start` of this segment.
    fn commit(&mut self, number: u32, start: u32) {
        let (pending, records) = (std::mem::take(&mut self.pending), std::mem::take(&mut self.pending_records));
        let len = start + pending.len() as u32;
        if let Some(segment) = self.segments.get_mut(&number) {
            segment.len = len;
        }
        self.last_good = (number, len);
        for record in &records {
            let header = read_fields(&pending[record.at..]);
            let location = Location { segment: number, offset: start + record.at as u32 };
            match record.moved_from {
                Some(from) => self.index.relocate(&header, from, location),
                None => {
                    let image_len = image_len(&header, &pending[record.at + header.payload_start()..]);
                    self.index.add(&header, location, image_len, &self.limits);
                    self.index.limit_history(header.zone, record.max_history_len);
                    if header.kind == RecordKind::Removed {
                        self.numbers.release(header.zone);
                    }
                }
            }
        }
        // Their room serves the next batch, unless this one was unusually large.
        const MAX_KEPT: usize = 256 << 10;
        if pending.capacity() <= MAX_KEPT {
            (self.pending, self.pending_records) = (pending, records);
            self.pending.clear();
            self.pending_records.clear();
        }
    }

    /// Removes the files that are not needed once everything is durable.
    fn after_sync(&mut self) -> Result<(), StoreError> {
        self.remove_images();
        self.remove_compacted()
    }

    /// Removes images that are not needed. One that cannot be removed delays nothing else: the next sync tries again.
    fn remove_images(&mut self) {
        let (disk, mut failed) = (&self.disk, None);
        self.index.dead_images.retain(|number| {
            let file = image_file_name(*number);
            match disk.remove(&file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => failed = Some((file, error)),
                _ => return false,
            }
            true
        });
        let was_failing = std::mem::replace(&mut self.has_stuck_images, failed.is_some());
        if let Some((file, error)) = failed.filter(|_| !was_failing) {
            tracing::warn!(file, %error, "an image that is not needed any more cannot be removed: it takes up disk space until that works");
        }
    }

    /// Removes void segments, and makes sure that what was removed cannot come back.
    pub(super) fn sync_removals(&mut self) -> Result<(), StoreError> {
        while let Some(number) = self.void.last() {
            self.remove_segment(*number)?;
            self.has_unsynced_removals = true;
            self.void.pop();
        }
        if self.has_unsynced_removals {
            let failed = |error| StoreError { file: ".".into(), action: "synced", error };
            self.disk.sync_directory().map_err(failed)?;
            self.has_unsynced_removals = false;
        }
        Ok(())
    }

    /// Removes the file of a segment, unless somebody else has.
    pub(super) fn remove_segment(&self, number: u32) -> Result<(), StoreError> {
        let file = segment_name(number);
        match self.disk.remove(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StoreError { file, action: "removed", error }),
            _ => Ok(()),
        }
    }
}
