//! Recovery: reads all segments at start, in order and in bounded memory, and finds the newest good version of each zone.
//!
//! What a crash left of the last batch is not damage: its records were never acknowledged. Those before the first one that is
//! missing are used all the same, and written again, as the disk may not have them yet. After a clean stop, the last batch is the record
//! of [`Store::close`]. Damage anywhere else is reported with file and offset; the zone falls back to its last version before the
//! damage, and other zones are unharmed.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use wire::NameRef;

use super::disk::{Disk, DiskFile};
use super::image_file::{DAMAGED_SUFFIX, IMAGE_PREFIX, image_file_name};
use super::limits::StoreLimits;
use super::record::{FIXED_LEN, RecordHeader, RecordKind, read_record};
use super::segment::{RECORDS_START, Scanned, SegmentHeader, SegmentScan};
use super::store::{Segment, Store, StoreError, StoredZone, image_len, segment_name};
use super::timers::{TIMERS_LEN, Timers};
use super::zone_index::{ChangeEntry, IMAGE_REFERENCE_LEN, Location, ZoneIndex, ZoneNumbers};

/// What a start found.
pub struct Recovery {
    /// Messages about damage, each with file and offset.
    pub damages: Vec<String>,
    /// How many more there were.
    pub more_damages: usize,
    zones: Vec<FoundZone>,
    names: Vec<u8>,
    /// What may not be durable: segments, and the offsets that their last batches start at.
    tails: Vec<(u32, u32)>,
    newest_image: u32,
}

/// A zone that the store has.
#[derive(Clone, Copy, Debug)]
pub struct RecoveredZone<'r> {
    /// Its number.
    pub zone: StoredZone,
    /// Its apex.
    pub name: NameRef<'r>,
    /// Its timers.
    pub timers: Option<Timers>,
    /// The serial of its newest good version; `None` if there is no image of it.
    pub serial: Option<u32>,
    /// The sequence number of its newest record.
    pub newest: u64,
}

/// No store gets that far: larger numbers of files and records are damage that the checksum missed.
const MAX_FILE: u32 = u32::MAX / 2;
const MAX_SEQUENCE: u64 = u64::MAX / 2;
/// The most messages that are kept.
const MAX_DAMAGES: usize = 100;

/// What was found of a zone so far.
#[derive(Default)]
struct FoundZone {
    /// Start and length of its name in `names`.
    name: (u32, u8),
    /// The newest sequence number.
    newest: u64,
    removed: u64,
    image: Option<FoundImage>,
    timers: Option<(u64, Location, Timers)>,
    changes: Vec<ChangeEntry>,
    serial: Option<u32>,
}

#[derive(Clone, Copy)]
struct FoundImage {
    header: RecordHeader,
    location: Location,
    len: u64,
}

/// A crash leaves the same as damage of the newest segment does, so that this is not certain to be a loss.
fn warn_of_damaged_header(name: &str, octets: u64) {
    tracing::warn!(
        file = name,
        octets,
        "the header of the newest journal file is damaged: nothing is lost if the system crashed while the file was created, else \
         all changes in it are"
    );
}

impl Recovery {
    /// All zones.
    pub fn zones(&self) -> impl Iterator<Item = RecoveredZone<'_>> {
        (0..self.zones.len() as u32).filter_map(|number| self.zone(StoredZone(number)))
    }

    /// The zone with this number, if there is one.
    pub fn zone(&self, zone: StoredZone) -> Option<RecoveredZone<'_>> {
        let found = self.zones.get(zone.0 as usize).filter(|found| found.newest > found.removed)?;
        let timers = found.timers.map(|(_, _, timers)| timers);
        Some(RecoveredZone { zone, name: self.name(found), timers, serial: found.serial, newest: found.newest })
    }

    fn name(&self, found: &FoundZone) -> NameRef<'_> {
        let (start, len) = found.name;
        NameRef::from_valid_wire(&self.names[start as usize..][..len.into()])
    }

    fn report(&mut self, file: &str, offset: u32, problem: &str) {
        if self.damages.len() < MAX_DAMAGES {
            self.damages.push(format!("{file}: offset {offset}: {problem}"));
        } else {
            self.more_damages += 1;
        }
    }
}

impl<D: Disk> Store<D> {
    /// Reads the store, or creates it. A disk that cannot be read is an error; one that cannot be written is not yet: what must be
    /// written waits for [`Store::sync`].
    pub fn open(disk: D, limits: StoreLimits) -> Result<(Store<D>, Recovery), StoreError> {
        let disk = Arc::new(disk);
        let mut recovery = Recovery {
            damages: Vec::new(),
            more_damages: 0,
            zones: Vec::new(),
            names: Vec::new(),
            tails: Vec::new(),
            newest_image: 0,
        };
        let names = disk.list().map_err(|error| StoreError { file: ".".into(), action: "listed", error })?;
        let numbers = |prefix: &str| -> Vec<u32> {
            names.iter().filter_map(|name| name.strip_prefix(prefix)?.parse().ok().filter(|n| *n <= MAX_FILE)).collect()
        };
        let (segment_numbers, images) = (numbers("journal-"), numbers(IMAGE_PREFIX));
        // A damaged image would lose its name to the next one with its number.
        let damaged = names.iter().filter_map(|name| name.strip_prefix(IMAGE_PREFIX)?.strip_suffix(DAMAGED_SUFFIX));
        let damaged = damaged.filter_map(|number| number.parse::<u32>().ok().filter(|number| *number <= MAX_FILE));
        let newest_image = images.iter().copied().chain(damaged).max().unwrap_or(0);
        let next_segment = segment_numbers.iter().max().map_or(1, |number| number + 1);
        let mut store = Store {
            disk,
            limits,
            segments: BTreeMap::new(),
            current: None,
            last_good: (0, 0),
            next_segment,
            next_sequence: 1,
            image_numbers: Arc::new(AtomicU32::new(newest_image + 1)),
            index: ZoneIndex::default(),
            numbers: Arc::default(),
            pending: Vec::new(),
            pending_records: Vec::new(),
            compaction: None,
            has_stuck_images: false,
            is_failing: false,
            void: Vec::new(),
            has_unsynced_removals: false,
        };
        let newest_complete = store.find_segments(segment_numbers, &mut recovery)?;
        for number in store.segments.keys().copied().collect::<Vec<_>>() {
            store.scan(number, newest_complete, &mut recovery)?;
        }
        store.build_index(&mut recovery);
        for tail in recovery.tails.clone() {
            // They may be in memory only, or on a disk that failed to sync them.
            store.copy_needed(tail)?;
        }
        // A record may name a file that is gone: the number is not used again.
        store.image_numbers.fetch_max(recovery.newest_image + 1, Relaxed);
        store.check_images(&images)?;
        Ok((store, recovery))
    }

    /// Opens the segments that count; returns the number of the newest one that was written as a whole.
    fn find_segments(&mut self, mut numbers: Vec<u32>, recovery: &mut Recovery) -> Result<u32, StoreError> {
        numbers.sort_unstable();
        let (mut newest_complete, mut bound) = (0, None::<(u32, u32)>);
        for number in numbers.into_iter().rev() {
            let name = segment_name(number);
            let failed = |error| StoreError { file: name.clone(), action: "read", error };
            if bound.is_some_and(|(predecessor, _)| number > predecessor) {
                self.void.push(number);
                continue;
            }
            let file = self.disk.open(&name).map_err(failed)?;
            let header = match SegmentHeader::read(&file).map_err(failed)? {
                Some(Ok(header)) if header.number == number && header.predecessor < number => header,
                Some(Err(version)) => {
                    let error = io::Error::other(format!("its format version {version} is not supported"));
                    return Err(failed(error));
                }
                // A crash while it was created: then nothing in it was acknowledged.
                _ if bound.is_none() => {
                    warn_of_damaged_header(&name, file.length().map_err(failed)?);
                    self.void.push(number);
                    continue;
                }
                _ => {
                    recovery.report(&name, 0, "the header is damaged: all records in this file are lost");
                    continue;
                }
            };
            let len = u32::try_from(file.length().map_err(failed)?).unwrap_or(u32::MAX);
            let file_len = len;
            let len = match bound {
                Some((predecessor, durable)) if predecessor == number => len.min(durable),
                _ => len,
            };
            if newest_complete == 0 && header.is_complete(&file, len).map_err(failed)? {
                newest_complete = number;
            }
            if newest_complete > 0 {
                bound = Some((header.predecessor, header.predecessor_len));
            }
            let (has_tail, predecessor) = (len < file_len, (header.predecessor, header.predecessor_len));
            let segment = Segment { file: Arc::new(file), salt: header.salt, len, has_tail, predecessor };
            self.segments.insert(number, segment);
        }
        Ok(newest_complete)
    }

    /// Reads the records of a segment.
    fn scan(&mut self, number: u32, newest_complete: u32, recovery: &mut Recovery) -> Result<(), StoreError> {
        let (is_newest, is_complete) = (number >= newest_complete, number <= newest_complete);
        let Segment { file, salt, len, .. } = &self.segments[&number];
        let (file, salt, len, name) = (file.clone(), *salt, *len, segment_name(number));
        let failed = |error| StoreError { file: segment_name(number), action: "read", error };
        let mut scan = SegmentScan::new(&*file, salt, RECORDS_START, len);
        let (mut last_batch, mut last_start) = (RECORDS_START, None);
        while let Some(found) = scan.next().map_err(failed)? {
            let (at, problem) = match found {
                Scanned::Record(at, header) => {
                    last_batch = last_batch.max(header.batch);
                    let owner = scan.bytes(at + FIXED_LEN as u32, header.name_len.into()).map_err(failed)?.to_vec();
                    let payload_start = at + header.payload_start() as u32;
                    let payload = scan.bytes(payload_start, (header.payload_len as usize).min(TIMERS_LEN));
                    let payload = payload.map_err(failed)?;
                    self.note_sequence(&header);
                    if recovery.add(&header, Location { segment: number, offset: at }, &owner, payload) {
                        continue;
                    }
                    (at, "the record makes no sense".into())
                }
                Scanned::DamagedPayload(at, header) => {
                    let owner = scan.bytes(at + FIXED_LEN as u32, header.name_len.into()).map_err(failed)?;
                    let owner = NameRef::from_wire(owner).map(|name| name.to_string()).unwrap_or_default();
                    self.note_sequence(&header);
                    let result = "the zone falls back to its last good version, or is read or transferred anew";
                    (at, format!("a record of {owner} is damaged: {result}"))
                }
                Scanned::Garbage(start, end) => (start, format!("{} octets are damaged", end - start)),
            };
            // Later batches prove that this was durable.
            let torn_from = match last_start {
                Some(from) => from,
                None => *last_start.insert(self.last_batch_in(scan.resume(at)).map_err(failed)?.max(last_batch)),
            };
            if is_newest && at >= torn_from {
                // Records after this one may follow what is missing: a change may follow an image of the same serial.
                tracing::warn!(
                    file = name,
                    offset = at,
                    "zonda was not stopped cleanly, and its last write to the journal is incomplete: if a crash has cut it, nothing \
                     acknowledged is lost; a defect of the disk looks the same"
                );
                self.segments.entry(number).and_modify(|segment| segment.len = at);
                break;
            }
            recovery.report(&name, at, &problem);
        }
        if is_newest {
            // The last batch is written again. If it is the first one, maybe not even the header is durable.
            if is_complete {
                let predecessor = self.segments[&number].predecessor;
                self.last_good = if last_batch == RECORDS_START { predecessor } else { (number, last_batch) };
            }
            self.segments.entry(number).and_modify(|segment| segment.has_tail = true);
            recovery.tails.push((number, last_batch));
        }
        Ok(())
    }

    /// Where the last batch starts that has a record in the rest of a segment; 0 if there is none. No sequence number there is used
    /// again.
    fn last_batch_in(&mut self, mut scan: SegmentScan<'_, D::File>) -> io::Result<u32> {
        let mut last_batch = 0;
        while let Some(found) = scan.next()? {
            if let Scanned::Record(_, header) | Scanned::DamagedPayload(_, header) = found {
                last_batch = last_batch.max(header.batch);
                self.note_sequence(&header);
            }
        }
        Ok(last_batch)
    }

    /// No sequence number is used again, not even that of a damaged record.
    fn note_sequence(&mut self, header: &RecordHeader) {
        if header.sequence <= MAX_SEQUENCE {
            self.next_sequence = self.next_sequence.max(header.sequence + 1);
        }
    }

    /// Fills the index from what was found.
    fn build_index(&mut self, recovery: &mut Recovery) {
        let (mut zones, tails) = (std::mem::take(&mut recovery.zones), recovery.tails.clone());
        let mut free = Vec::new();
        for (index, found) in zones.iter_mut().enumerate() {
            let number = index as u32;
            let has_lost = found.settle(&tails, recovery);
            self.index.slot(number).set_name_len(found.name.1);
            if found.newest <= found.removed {
                free.push(number);
                continue;
            }
            let changes = std::mem::take(&mut found.changes);
            let image = found.image.map(|image| (image.header, image.location, image.len));
            let timers = found.timers.map(|(_, location, _)| location);
            self.index.restore(number, image, timers, changes, &self.limits);
            self.index.slot(number).set_serial(found.serial);
            if has_lost {
                // A new image replaces the lost changes.
                self.index.ask_for_image(number);
            }
        }
        free.reverse();
        self.numbers = Arc::new(ZoneNumbers::new(zones.len() as u32, free));
        recovery.zones = zones;
    }

    /// Appends again the good records of a segment that are needed, from `start` on.
    pub(super) fn copy_needed(&mut self, (number, start): (u32, u32)) -> Result<(), StoreError> {
        let Some(Segment { file, salt, len, .. }) = self.segments.get(&number) else { return Ok(()) };
        let (file, salt, len) = (file.clone(), *salt, *len);
        let failed = |error| StoreError { file: segment_name(number), action: "read", error };
        let mut scan = SegmentScan::new(&*file, salt, start, len);
        while let Some(found) = scan.next().map_err(failed)? {
            if let Scanned::Record(at, header) = found
                && (header.kind == RecordKind::Removed
                    || self.index.needs(&header, Location { segment: number, offset: at }, true))
                && let Some(record) = read_record(&*file, at.into(), salt).map_err(failed)?
            {
                self.append_copy(&record, Location { segment: number, offset: at });
            }
        }
        Ok(())
    }

    /// Finds the images that nothing refers to. They are removed after a sync: until then the records that replace them may not be
    /// durable. Fails if this user may not open one of the others. Somebody can correct that, so its zone and the updates in it are not
    /// given up, as they are if the image is damaged or gone.
    fn check_images(&mut self, images: &[u32]) -> Result<(), StoreError> {
        let used: HashSet<u32> = self.index.image_files().map(|(file, _)| file).collect();
        let (used, unused): (Vec<u32>, Vec<u32>) = images.iter().copied().partition(|number| used.contains(number));
        self.index.dead_images.extend(unused);
        for number in used {
            let file = image_file_name(number);
            match self.disk.open(&file) {
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    return Err(StoreError { file, action: "opened", error });
                }
                _ => (),
            }
        }
        Ok(())
    }
}

impl Recovery {
    /// Takes a record; false if it cannot be one of this store.
    fn add(&mut self, header: &RecordHeader, location: Location, owner: &[u8], payload: &[u8]) -> bool {
        // A store numbers its zones densely: more would be damage that the checksum missed.
        const MAX_ZONES: u32 = 1 << 26;
        let is_in_range = header.zone < MAX_ZONES && header.sequence <= MAX_SEQUENCE && header.base <= header.sequence;
        if !is_in_range
            || !has_possible_payload(header)
            || !NameRef::from_wire(owner).is_ok_and(|name| name.wire() == owner)
        {
            return false;
        }
        let index = header.zone as usize;
        if index >= self.zones.len() {
            self.zones.resize_with(index + 1, FoundZone::default);
        }
        let (start, len) = self.zones[index].name;
        if self.names[start as usize..][..len.into()] != *owner {
            // The number had another zone before, or has another one since.
            if header.sequence < self.zones[index].newest {
                return true;
            }
            self.zones[index] =
                FoundZone { name: (self.names.len() as u32, owner.len() as u8), ..FoundZone::default() };
            self.names.extend_from_slice(owner);
        }
        if header.kind == RecordKind::Image {
            self.newest_image = self.newest_image.max(header.to);
        }
        self.zones[index].add(header, location, payload);
        true
    }
}

/// Whether the payload can be one of its kind: the index knows the length of all but images and changes.
fn has_possible_payload(header: &RecordHeader) -> bool {
    let len = header.payload_len as usize;
    match header.kind {
        RecordKind::Image => header.to == 0 || (header.to <= MAX_FILE && len == IMAGE_REFERENCE_LEN),
        RecordKind::Timers => len == TIMERS_LEN,
        RecordKind::Removed => len == 0,
        RecordKind::Change => true,
    }
}

impl FoundZone {
    fn add(&mut self, header: &RecordHeader, location: Location, payload: &[u8]) {
        self.newest = self.newest.max(header.sequence);
        match header.kind {
            RecordKind::Image if self.image.is_none_or(|image| image.header.sequence <= header.sequence) => {
                self.image = Some(FoundImage { header: *header, location, len: image_len(header, payload) });
            }
            RecordKind::Timers if self.timers.is_none_or(|(sequence, _, _)| sequence <= header.sequence) => {
                self.timers = Timers::from_bytes(payload).map(|timers| (header.sequence, location, timers));
            }
            RecordKind::Change => {
                let (sequence, from, to, len) = (header.sequence, header.from, header.to, header.record_len() as u32);
                self.changes.push(ChangeEntry { sequence, location, from, to, len });
            }
            RecordKind::Removed => self.removed = self.removed.max(header.sequence),
            _ => (),
        }
    }

    /// Keeps what belongs to the newest good version, once all records are known.
    ///
    /// Returns whether changes were lost. Those in the `tails`, last batches of segments, were never acknowledged.
    fn settle(&mut self, tails: &[(u32, u32)], recovery: &mut Recovery) -> bool {
        let removed = self.removed;
        self.image = self.image.filter(|image| image.header.sequence > removed);
        self.timers = self.timers.filter(|(sequence, _, _)| *sequence > removed);
        self.changes.retain(|change| change.sequence > removed);
        self.changes.sort_by_key(|change| change.sequence);
        // A record that was moved may be there twice.
        self.changes.dedup_by_key(|change| change.sequence);
        let is_acknowledged = |at: Location| !tails.iter().any(|tail| at.segment == tail.0 && at.offset >= tail.1);
        let Some(image) = self.image else {
            if let Some(lost) = self.changes.iter().map(|change| change.location).find(|at| is_acknowledged(*at)) {
                let problem = format!("the image of {} is lost, and its changes with it", recovery.name(self));
                recovery.report(&segment_name(lost.segment), lost.offset, &problem);
            }
            self.changes.clear();
            return false;
        };
        let base = image.header.base;
        if base == image.header.sequence {
            self.changes.retain(|change| change.sequence > base);
        }
        let first = self.changes.partition_point(|change| change.sequence <= base);
        // Each change must start where the one before it, or the image, ends. Others follow a damaged one.
        let (mut serial, mut lost) = (image.header.from, None);
        let mut later = self.changes.split_off(first);
        later.retain(|change| {
            let follows = change.from == serial;
            if follows {
                serial = change.to;
            } else if is_acknowledged(change.location) {
                lost.get_or_insert(change.location);
            }
            follows
        });
        if let Some(lost) = lost {
            let problem = format!("changes of {} are lost: it falls back to serial {serial}", recovery.name(self));
            recovery.report(&segment_name(lost.segment), lost.offset, &problem);
        }
        self.serial = Some(serial);
        // History must lead to the image without a gap.
        let mut next = image.header.from;
        let history = self.changes.iter().rev().take_while(|change| {
            let leads = change.to == next;
            next = change.from;
            leads
        });
        let gap = first - history.count();
        self.changes.drain(..gap);
        self.changes.append(&mut later);
        lost.is_some()
    }
}
