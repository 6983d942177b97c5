//! Where the records of each zone are: the only thing that the store keeps in memory per zone, 32 octets unless the zone has changes.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

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
pub(super) struct ZoneSlot {
    pub(super) image: Location,
    /// The number of the file that has the image; 0: the record itself has it.
    pub(super) image_file: u32,
    /// The octets of the image, at most `u32::MAX`.
    pub(super) image_len: u32,
    pub(super) timers: Location,
    /// The serial that the last image or change leads to, durable or not. Void without `has_version`.
    pub(super) serial: u32,
    pub(super) has_version: bool,
    pub(super) name_len: u8,
    /// A new image was asked for.
    pub(super) is_due: bool,
}

const _: () = assert!(size_of::<ZoneSlot>() <= 32);

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
    pub(super) zones: Vec<ZoneSlot>,
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
    pub(super) fn slot(&mut self, zone: u32) -> &mut ZoneSlot {
        let index = zone as usize;
        if index >= self.zones.len() {
            self.zones.resize_with(index + 1, ZoneSlot::default);
        }
        &mut self.zones[index]
    }

    /// The changes of a zone, if it has any.
    pub(super) fn changes(&self, zone: u32) -> Option<&ZoneChanges> {
        self.changes.get(&zone).map(Box::as_ref)
    }

    /// Takes a record that is durable at `location`.
    pub(super) fn add(&mut self, header: &RecordHeader, location: Location, image_len: u64, limits: &StoreLimits) {
        self.slot(header.zone).name_len = header.name_len;
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
        let slot = self.slot(header.zone);
        (slot.image, slot.image_file, slot.is_due) = (location, header.to, false);
        slot.image_len = u32::try_from(image_len).unwrap_or(u32::MAX);
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
        let name_len = self.slot(zone).name_len;
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
        let image_len = self.slot(zone).image_len;
        let threshold = limits.min_changes_len.max(u64::from(image_len) / limits.image_share);
        if self.changes(zone).is_some_and(|changes| changes.required_len > threshold) {
            self.ask_for_image(zone);
        }
    }

    /// Notes that the zone needs a new image.
    pub(super) fn ask_for_image(&mut self, zone: u32) {
        if !std::mem::replace(&mut self.slot(zone).is_due, true) {
            self.due.push(zone);
        }
    }

    /// Asks for the image again: it could not be written.
    pub(super) fn ask_again(&mut self, zone: u32) {
        if self.zones.get(zone as usize).is_some_and(|slot| slot.is_due) {
            self.due.push(zone);
        }
    }

    /// Forgets the oldest history of a zone that exceeds the limit for one zone.
    pub(super) fn limit_history(&mut self, zone: u32, max_len: u64) {
        let Some(changes) = self.changes(zone) else { return };
        let (mut excess, mut count) = (changes.history_len.saturating_sub(max_len), 0);
        while excess > 0 && count < changes.history_count {
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
        self.release(slot.timers, record_len(slot.name_len.into(), super::timers::TIMERS_LEN));
        if let Some(changes) = self.changes.remove(&zone) {
            self.history_total -= changes.history_len;
            changes.entries.iter().for_each(|entry| self.release(entry.location, entry.len as usize));
        }
    }

    fn release_image(&mut self, zone: u32) {
        let slot = self.slot(zone);
        let (image, file, len) =
            (std::mem::take(&mut slot.image), std::mem::take(&mut slot.image_file), slot.image_len);
        let payload_len = if file > 0 { IMAGE_REFERENCE_LEN } else { len as usize };
        let len = record_len(slot.name_len.into(), payload_len);
        self.dead_images.extend((file > 0).then_some(file));
        self.release(image, len);
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
        let is_in = |zone: u32, slot: &ZoneSlot| {
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
        self.zones.capacity() * size_of::<ZoneSlot>() + changes.sum::<usize>()
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
