//! Where the records of each zone are: the only thing that the store keeps in memory per zone, 24 octets unless the zone has changes or a
//! large image.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use answer::MAX_HISTORY;

use super::limits::StoreLimits;
use super::record::{RecordHeader, RecordKind, record_len};

/// Where a record is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Location {
    /// 0: nowhere.
    pub(super) segment: u32,
    pub(super) offset: u32,
}

impl Location {
    pub(super) fn is_some(self) -> bool {
        self.segment > 0
    }
}

/// One zone.
#[derive(Default)]
pub(super) struct IndexSlot {
    pub(super) image: Location,
    pub(super) timers: Location,
    /// The serial that the last image or change leads to, durable or not. Void without `has_version`.
    pub(super) serial: u32,
    /// From the highest bit: the length of the name (8 bits), whether there is a serial, whether a new image was asked for, and the octets
    /// of the image (22 bits), or [`LARGE`].
    packed: u32,
}

const _: () = assert!(size_of::<IndexSlot>() <= 24, "a million zones take 24 MB");

const NAME_SHIFT: u32 = 24;
const HAS_VERSION: u32 = 1 << 23;
const IS_DUE: u32 = 1 << 22;
/// In place of the octets of an image: it is one of [`ZoneIndex::large_images`].
const LARGE: u32 = IS_DUE - 1;

/// An image that has a file, or more octets than a slot has room for.
#[derive(Clone, Copy)]
struct LargeImage {
    /// The number of the file; 0: the record itself has the image.
    file: u32,
    /// At most `u32::MAX`.
    len: u32,
}

impl IndexSlot {
    pub(super) fn name_len(&self) -> u8 {
        (self.packed >> NAME_SHIFT) as u8
    }

    pub(super) fn set_name_len(&mut self, len: u8) {
        self.packed = self.packed & !(0xff << NAME_SHIFT) | u32::from(len) << NAME_SHIFT;
    }

    pub(super) fn has_version(&self) -> bool {
        self.packed & HAS_VERSION != 0
    }

    /// Sets the serial, or that there is none.
    pub(super) fn set_serial(&mut self, serial: Option<u32>) {
        self.serial = serial.unwrap_or(0);
        self.set(HAS_VERSION, serial.is_some());
    }

    pub(super) fn is_due(&self) -> bool {
        self.packed & IS_DUE != 0
    }

    fn set(&mut self, flag: u32, is_set: bool) {
        self.packed = self.packed & !flag | if is_set { flag } else { 0 };
    }
}

/// The changes of a zone, oldest first: each starts at the serial that the one before it ends at.
#[derive(Default)]
pub(super) struct ZoneChanges {
    pub(super) entries: VecDeque<ChangeEntry>,
    /// How many of them are in the image: history.
    pub(super) history_count: usize,
    pub(super) history_len: u64,
    /// The octets of those that are not in the image.
    pub(super) required_len: u64,
}

/// Where a change is.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChangeEntry {
    pub(super) sequence: u64,
    pub(super) location: Location,
    pub(super) from: u32,
    pub(super) to: u32,
    /// The octets of the record.
    pub(super) len: u32,
}

/// All zones.
#[derive(Default)]
pub(super) struct ZoneIndex {
    pub(super) zones: Vec<IndexSlot>,
    large_images: HashMap<u32, LargeImage>,
    /// The changes of the zones that have any.
    changes: HashMap<u32, Box<ZoneChanges>>,
    /// The octets of each segment that are still needed.
    pub(super) live: BTreeMap<u32, u64>,
    /// The octets of all changes kept only as history.
    pub(super) history_total: u64,
    /// How many changes were dropped for the limits of history, and their octets.
    pub(super) dropped: (u64, u64),
    /// Zones that need a new image.
    pub(super) due: Vec<u32>,
    /// Image files that no zone needs any more.
    pub(super) dead_images: Vec<u32>,
}

/// The octets of the payload of an image's record when a file has the image: the length of that file.
pub(super) const IMAGE_REFERENCE_LEN: usize = 8;

impl ZoneIndex {
    /// The slot of a zone.
    pub(super) fn slot(&mut self, zone: u32) -> &mut IndexSlot {
        let index = zone as usize;
        if index >= self.zones.len() {
            self.zones.resize_with(index + 1, IndexSlot::default);
        }
        &mut self.zones[index]
    }

    /// The number of the file that has the image of a zone; 0: its record has it.
    pub(super) fn image_file(&self, zone: u32) -> u32 {
        self.large_images.get(&zone).map_or(0, |image| image.file)
    }

    /// The octets of the image of a zone, at most `u32::MAX`.
    pub(super) fn image_len(&self, zone: u32) -> u32 {
        match self.zones.get(zone as usize).map_or(0, |slot| slot.packed & LARGE) {
            LARGE => self.large_images.get(&zone).map_or(0, |image| image.len),
            len => len,
        }
    }

    /// The images that have a file: its number, and their octets.
    pub(super) fn image_files(&self) -> impl Iterator<Item = (u32, u32)> {
        self.large_images.values().filter(|image| image.file > 0).map(|image| (image.file, image.len))
    }

    fn set_image(&mut self, zone: u32, image: Location, file: u32, len: u32) {
        let is_small = file == 0 && len < LARGE;
        let slot = self.slot(zone);
        slot.image = image;
        slot.packed = slot.packed & !LARGE | if is_small { len } else { LARGE };
        match is_small {
            true => self.large_images.remove(&zone),
            false => self.large_images.insert(zone, LargeImage { file, len }),
        };
    }

    /// The changes of a zone, if it has any.
    pub(super) fn changes(&self, zone: u32) -> Option<&ZoneChanges> {
        self.changes.get(&zone).map(Box::as_ref)
    }

    /// Takes a record that is durable at `location`.
    pub(super) fn add(&mut self, header: &RecordHeader, location: Location, image_len: u64, limits: &StoreLimits) {
        self.slot(header.zone).set_name_len(header.name_len);
        match header.kind {
            RecordKind::Image => self.add_image(header, location, image_len),
            RecordKind::Change => self.add_change(header, location, limits),
            RecordKind::Timers => {
                let old = std::mem::replace(&mut self.slot(header.zone).timers, location);
                self.release(old, header.record_len());
                self.keep(location, header.record_len());
            }
            RecordKind::Removed => self.remove(header.zone),
        }
    }

    fn add_image(&mut self, header: &RecordHeader, location: Location, image_len: u64) {
        self.release_image(header.zone);
        self.set_image(header.zone, location, header.to, u32::try_from(image_len).unwrap_or(u32::MAX));
        self.slot(header.zone).set(IS_DUE, false);
        self.keep(location, header.record_len());
        let Some(mut changes) = self.changes.remove(&header.zone) else { return };
        if header.base == header.sequence {
            // A new version of the zone: no change leads to it.
            while let Some(entry) = changes.entries.pop_front() {
                self.release(entry.location, entry.len as usize);
            }
            self.history_total -= changes.history_len;
            return;
        }
        let old = changes.history_len;
        changes.set_base(header.base);
        self.history_total = self.history_total - old + changes.history_len;
        self.changes.insert(header.zone, changes);
    }

    fn add_change(&mut self, header: &RecordHeader, location: Location, limits: &StoreLimits) {
        let len = header.record_len();
        self.keep(location, len);
        let changes = self.changes.entry(header.zone).or_default();
        let (sequence, from, to) = (header.sequence, header.from, header.to);
        changes.entries.push_back(ChangeEntry { sequence, location, from, to, len: len as u32 });
        changes.required_len += len as u64;
        self.check_size(header.zone, limits);
    }

    /// Takes what a start found of a zone; its changes lead to the image and on from it.
    pub(super) fn restore(
        &mut self,
        zone: u32,
        image: Option<(RecordHeader, Location, u64)>,
        timers: Option<Location>,
        changes: Vec<ChangeEntry>,
        limits: &StoreLimits,
    ) {
        let name_len = self.slot(zone).name_len();
        if let Some(timers) = timers {
            self.slot(zone).timers = timers;
            self.keep(timers, record_len(name_len.into(), super::timers::TIMERS_LEN));
        }
        let Some((header, location, len)) = image else { return };
        self.add_image(&header, location, len);
        if changes.is_empty() {
            return;
        }
        changes.iter().for_each(|change| self.keep(change.location, change.len as usize));
        let mut changes = ZoneChanges { entries: changes.into(), ..ZoneChanges::default() };
        changes.set_base(header.base);
        self.history_total += changes.history_len;
        self.changes.insert(zone, Box::new(changes));
        self.check_size(zone, limits);
    }

    /// Asks for a new image once the changes after the image are too long.
    fn check_size(&mut self, zone: u32, limits: &StoreLimits) {
        let image_len = self.image_len(zone);
        let threshold = limits.min_changes_len.max(u64::from(image_len) / limits.image_share);
        if self.changes(zone).is_some_and(|changes| changes.required_len > threshold) {
            self.ask_for_image(zone);
        }
    }

    /// Notes that the zone needs a new image.
    pub(super) fn ask_for_image(&mut self, zone: u32) {
        if !self.slot(zone).is_due() {
            self.slot(zone).set(IS_DUE, true);
            self.due.push(zone);
        }
    }

    /// Asks for the image again: it could not be written.
    pub(super) fn ask_again(&mut self, zone: u32) {
        if self.zones.get(zone as usize).is_some_and(IndexSlot::is_due) {
            self.due.push(zone);
        }
    }

    /// Forgets the oldest history of a zone that exceeds the limits for one zone: these octets, and the number of changes.
    pub(super) fn limit_history(&mut self, zone: u32, max_len: u64) {
        let Some(changes) = self.changes(zone) else { return };
        let surplus = changes.history_count.saturating_sub(MAX_HISTORY);
        let (mut excess, mut count) = (changes.history_len.saturating_sub(max_len), 0);
        while count < surplus || excess > 0 && count < changes.history_count {
            excess = excess.saturating_sub(changes.entries[count].len.into());
            count += 1;
        }
        self.drop_history(zone, count);
    }

    /// Forgets the oldest `count` changes of a zone, which are history.
    pub(super) fn drop_history(&mut self, zone: u32, count: usize) {
        let Some(changes) = self.changes.get_mut(&zone) else { return };
        let count = count.min(changes.history_count);
        let dropped: Vec<_> = changes.entries.drain(..count).collect();
        let len: u64 = dropped.iter().map(|entry| u64::from(entry.len)).sum();
        changes.history_count -= count;
        changes.history_len -= len;
        if changes.entries.is_empty() {
            self.changes.remove(&zone);
        }
        self.history_total -= len;
        self.dropped = (self.dropped.0 + dropped.len() as u64, self.dropped.1 + len);
        dropped.iter().for_each(|entry| self.release(entry.location, entry.len as usize));
    }

    fn remove(&mut self, zone: u32) {
        self.release_image(zone);
        let slot = std::mem::take(self.slot(zone));
        self.release(slot.timers, record_len(slot.name_len().into(), super::timers::TIMERS_LEN));
        if let Some(changes) = self.changes.remove(&zone) {
            self.history_total -= changes.history_len;
            changes.entries.iter().for_each(|entry| self.release(entry.location, entry.len as usize));
        }
    }

    fn release_image(&mut self, zone: u32) {
        let (file, len) = (self.image_file(zone), self.image_len(zone));
        let slot = self.slot(zone);
        let (image, name_len) = (slot.image, slot.name_len());
        self.set_image(zone, Location::default(), 0, 0);
        let payload_len = if file > 0 { IMAGE_REFERENCE_LEN } else { len as usize };
        self.dead_images.extend((file > 0).then_some(file));
        self.release(image, record_len(name_len.into(), payload_len));
    }

    /// Whether the record at `location` is still needed; history counts if `keep_history`.
    pub(super) fn needs(&self, header: &RecordHeader, location: Location, keep_history: bool) -> bool {
        let Some(slot) = self.zones.get(header.zone as usize) else { return false };
        match header.kind {
            RecordKind::Image => slot.image == location,
            RecordKind::Timers => slot.timers == location,
            RecordKind::Change => self.changes(header.zone).is_some_and(|changes| {
                let index = changes.position(header.sequence);
                index.is_some_and(|index| {
                    changes.entries[index].location == location && (keep_history || index >= changes.history_count)
                })
            }),
            RecordKind::Removed => false,
        }
    }

    /// Notes that a needed record is now at `to`.
    pub(super) fn relocate(&mut self, header: &RecordHeader, from: Location, to: Location) {
        if !self.needs(header, from, true) {
            return;
        }
        match header.kind {
            RecordKind::Image => self.slot(header.zone).image = to,
            RecordKind::Timers => self.slot(header.zone).timers = to,
            RecordKind::Change => {
                let Some(changes) = self.changes.get_mut(&header.zone) else { return };
                if let Some(index) = changes.position(header.sequence) {
                    changes.entries[index].location = to;
                }
            }
            RecordKind::Removed => return,
        }
        self.release(from, header.record_len());
        self.keep(to, header.record_len());
    }

    /// The zones with records in this segment.
    pub(super) fn zones_in(&self, segment: u32) -> Vec<u32> {
        let is_in = |zone: u32, slot: &IndexSlot| {
            let mut changes = self.changes(zone).into_iter().flat_map(|changes| &changes.entries);
            slot.image.segment == segment
                || slot.timers.segment == segment
                || changes.any(|entry| entry.location.segment == segment)
        };
        (0..).zip(&self.zones).filter(|(zone, slot)| is_in(*zone, slot)).map(|(zone, _)| zone).collect()
    }

    /// Forgets what the zone can do without of its records in this segment, timers and history; returns whether it needs the others.
    pub(super) fn give_up(&mut self, zone: u32, segment: u32) -> bool {
        let slot = self.slot(zone);
        if slot.timers.segment == segment {
            slot.timers = Location::default();
        }
        let mut needs_image = slot.image.segment == segment;
        if let Some(changes) = self.changes(zone) {
            let is_lost = |entry: &ChangeEntry| entry.location.segment == segment;
            let history = changes.entries.range(..changes.history_count).rposition(is_lost);
            needs_image |= changes.entries.range(changes.history_count..).any(is_lost);
            self.drop_history(zone, history.map_or(0, |position| position + 1));
        }
        needs_image
    }

    fn keep(&mut self, location: Location, len: usize) {
        *self.live.entry(location.segment).or_default() += len as u64;
    }

    fn release(&mut self, location: Location, len: usize) {
        if let Some(live) = self.live.get_mut(&location.segment) {
            *live = live.saturating_sub(len as u64);
        }
    }

    /// The octets of memory in use.
    pub(super) fn memory(&self) -> usize {
        let changes = self.changes.values();
        let changes =
            changes.map(|changes| size_of::<ZoneChanges>() + changes.entries.capacity() * size_of::<ChangeEntry>());
        let large_images = self.large_images.capacity() * size_of::<(u32, LargeImage)>();
        self.zones.capacity() * size_of::<IndexSlot>() + large_images + changes.sum::<usize>()
    }
}

/// The numbers that zones have. Shared by the store and the threads that add zones.
#[derive(Default)]
pub(super) struct ZoneNumbers(Mutex<NumberState>);

#[derive(Default)]
struct NumberState {
    free: Vec<u32>,
    /// All numbers below are free or in use.
    end: u32,
}

impl ZoneNumbers {
    /// Numbers below `end` of which these are free; the last one is taken first.
    pub(super) fn new(end: u32, free: Vec<u32>) -> ZoneNumbers {
        ZoneNumbers(Mutex::new(NumberState { free, end }))
    }

    /// Takes a free number.
    pub(super) fn take(&self) -> u32 {
        let mut state = self.lock();
        let free = state.free.pop();
        free.unwrap_or_else(|| {
            state.end += 1;
            state.end - 1
        })
    }

    /// Makes a number free.
    pub(super) fn release(&self, number: u32) {
        self.lock().free.push(number);
    }

    fn lock(&self) -> MutexGuard<'_, NumberState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ZoneChanges {
    /// The index of the change with this sequence number.
    pub(super) fn position(&self, sequence: u64) -> Option<usize> {
        self.entries.binary_search_by_key(&sequence, |entry| entry.sequence).ok()
    }

    /// The changes up to this sequence number are in the image.
    fn set_base(&mut self, base: u64) {
        self.history_count = self.entries.partition_point(|entry| entry.sequence <= base);
        let len = |range: std::ops::Range<usize>| self.entries.range(range).map(|entry| u64::from(entry.len)).sum();
        (self.history_len, self.required_len) =
            (len(0..self.history_count), len(self.history_count..self.entries.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_in_a_slot_does_not_affect_the_rest() {
        let mut index = ZoneIndex::default();
        let image = Location { segment: 1, offset: 8 };
        for (file, len) in [(0, 0), (0, LARGE - 1), (0, LARGE), (7, 3), (7, u32::MAX), (0, 5)] {
            index.set_image(4, image, file, len);
            index.slot(4).set_name_len(255);
            index.slot(4).set_serial(Some(9));
            index.ask_for_image(4);
            let slot = index.slot(4);
            assert_eq!((slot.name_len(), slot.serial, slot.has_version(), slot.is_due()), (255, 9, true, true));
            assert_eq!((index.image_file(4), index.image_len(4)), (file, len));
            index.slot(4).set_name_len(1);
            index.slot(4).set_serial(None);
            index.slot(4).set(IS_DUE, false);
            let slot = index.slot(4);
            assert_eq!((slot.name_len(), slot.has_version(), slot.is_due()), (1, false, false));
            assert_eq!((index.image_file(4), index.image_len(4)), (file, len));
        }
        assert_eq!((index.image_files().count(), index.large_images.len()), (0, 0));
    }
}
