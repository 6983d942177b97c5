//! Reading back what the store has of a zone: its image, the changes after it, and history for IXFR. Readers work on any thread, and keep
//! reading what they were given even when the store has moved on.

use std::collections::VecDeque;
use std::sync::Arc;

use super::disk::{Disk, DiskFile};
use super::image_file::{ImageReadError, ImageReader, image_file_name};
use super::record::{FIXED_LEN, read_fields, read_record};
use super::store::{Store, StoredZone, segment_name};
use super::zone_index::{ChangeEntry, Location};

/// Changes of a zone, to be read one by one, oldest first.
pub struct ChangeReader<F> {
    places: VecDeque<ChangePlace<F>>,
}

struct ChangePlace<F> {
    file: Arc<F>,
    salt: u32,
    location: Location,
    serials: (u32, u32),
}

/// A change as it was appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredChange {
    /// The serial before it.
    pub from: u32,
    /// The serial after it.
    pub to: u32,
    /// Its octets.
    pub bytes: Vec<u8>,
}

impl<D: Disk> Store<D> {
    /// The image of a zone. `None` if it has none.
    pub fn image(&self, zone: StoredZone) -> Option<Result<ImageReader<D::File>, ImageReadError>> {
        let slot = self.index.zones.get(zone.0 as usize).filter(|slot| slot.image.is_some())?;
        let (file, len) = (self.index.image_file(zone.0), self.index.image_len(zone.0));
        if file > 0 {
            return Some(self.image_of_file(file, len));
        }
        let segment = self.segments.get(&slot.image.segment)?;
        let start = u64::from(slot.image.offset) + (FIXED_LEN + usize::from(slot.name_len())) as u64;
        let end = start + u64::from(len);
        Some(Ok(ImageReader::new(segment.file.clone(), segment_name(slot.image.segment), start, end)))
    }

    fn image_of_file(&self, number: u32, expected: u32) -> Result<ImageReader<D::File>, ImageReadError> {
        let name = image_file_name(number);
        let opened = self.disk.open(&name).and_then(|file| file.length().map(|len| (file, len)));
        match opened {
            Err(error) => Err(ImageReadError::Io { file: name, error }),
            // The index does not know the length of a longer one.
            Ok((_, len)) if expected < u32::MAX && len != u64::from(expected) => {
                Err(ImageReadError::Length { file: name, len, expected: expected.into() })
            }
            Ok((file, len)) => Ok(ImageReader::new(Arc::new(file), name, 0, len)),
        }
    }

    /// The durable changes after the image of a zone.
    pub fn changes_after_image(&self, zone: StoredZone) -> ChangeReader<D::File> {
        let changes = self.index.changes(zone.0);
        self.reader(changes.into_iter().flat_map(|changes| changes.entries.range(changes.history_count..)))
    }

    /// The latest durable changes that lead to the image: at most `max_count`, and of at most `max_octets`.
    pub fn changes_before_image(&self, zone: StoredZone, max_count: usize, max_octets: u64) -> ChangeReader<D::File> {
        let changes = self.index.changes(zone.0);
        self.reader(changes.into_iter().flat_map(|changes| {
            let history = changes.entries.range(..changes.history_count);
            let mut octets = 0;
            let fits = |entry: &&ChangeEntry| {
                octets += u64::from(entry.len);
                octets <= max_octets
            };
            let count = history.rev().take(max_count).take_while(fits).count();
            changes.entries.range(changes.history_count - count..changes.history_count)
        }))
    }

    /// The durable changes that lead from the version with this serial to the newest one; `None` if they are not there (any more).
    pub fn history(&self, zone: StoredZone, serial: u32) -> Option<ChangeReader<D::File>> {
        let changes = self.index.changes(zone.0)?;
        let first = changes.entries.iter().rposition(|entry| entry.from == serial)?;
        Some(self.reader(changes.entries.range(first..)))
    }

    fn reader<'e>(&self, entries: impl Iterator<Item = &'e ChangeEntry>) -> ChangeReader<D::File> {
        let places = entries.filter_map(|entry| {
            let segment = self.segments.get(&entry.location.segment)?;
            let (file, salt) = (segment.file.clone(), segment.salt);
            Some(ChangePlace { file, salt, location: entry.location, serials: (entry.from, entry.to) })
        });
        ChangeReader { places: places.collect() }
    }
}

impl<F: DiskFile> ChangeReader<F> {
    /// The next change.
    pub fn next_change(&mut self) -> Result<Option<StoredChange>, ImageReadError> {
        let Some(place) = self.places.pop_front() else { return Ok(None) };
        let (file, offset) = (segment_name(place.location.segment), u64::from(place.location.offset));
        match read_record(&*place.file, offset, place.salt) {
            Err(error) => Err(ImageReadError::Io { file, error }),
            Ok(None) => Err(ImageReadError::Damaged { file, offset }),
            Ok(Some(record)) => {
                let header = read_fields(&record);
                let start = header.payload_start();
                let bytes = record[start..start + header.payload_len as usize].to_vec();
                let (from, to) = place.serials;
                Ok(Some(StoredChange { from, to, bytes }))
            }
        }
    }

    /// The serial that the changes start at, if there are any.
    pub fn first_serial(&self) -> Option<u32> {
        self.places.front().map(|place| place.serials.0)
    }

    /// How many changes are left.
    pub fn remaining(&self) -> usize {
        self.places.len()
    }
}
