//! Opens any files as a journal: each is refused, or read in memory that is bounded by its length. What is found of a zone is what
//! the records up to one of them give; it can be read, synced, changed and compacted, and is found again.
//!
//! The first octet says how many journal files there are. Each follows: an octet of flags, its length of 16 bits, and its octets. With
//! flag 1 the header and all checksums are made right, so that the fields matter; they may contradict each other then, in ways that no
//! store writes. The last file is an image with flag 2.
#![no_main]

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use libfuzzer_sys::fuzz_target;
use server::storage::disk::{Disk, DiskFile};
use server::storage::{Recovery, Store, StoreLimits, StoredZone, Timers};
use wire::Name;

const LIMITS: StoreLimits = StoreLimits {
    segment_len: 2000,
    min_changes_len: 300,
    image_share: 2,
    inline_image_len: 100,
    history_total: 2000,
};

/// The octets before the records, and those of a record before its name.
const HEADER_LEN: usize = 40;
const RECORDS_START: usize = 2 * HEADER_LEN;
const FIXED_LEN: usize = 48;
/// The salt of files whose checksums are made right.
const SALT: u32 = 7;
/// Zone numbers are made smaller: memory for a slot each is no damage.
const ZONES: u8 = 8;

fuzz_target!(|bytes: &[u8]| {
    let Some(disk) = disk_of(bytes) else { return };
    let records = records_of(&disk);
    // A file of another version, for example.
    let Ok((mut store, recovery)) = Store::open(disk.clone(), LIMITS) else { return };
    assert!(recovery.damages.len() <= 100, "messages are bounded");
    let found = states(&store, &recovery);
    if !are_of_one_store(&records) {
        return compact_all(&mut store, &disk);
    }
    for (name, state) in &found {
        state.check(name, &records);
    }
    // What was found is durable after a sync, even if all that the sync did not write is lost.
    let before = disk.lock().len();
    store.sync().expect("the disk works");
    drop(store);
    // Without anything to write again, everything was durable.
    if disk.lock().len() > before {
        disk.lose_void();
    }
    let (mut store, recovery) = Store::open(disk.clone(), LIMITS).expect("it was opened before");
    assert_eq!(states(&store, &recovery), found, "the sync has lost or changed something");
    let mut changed = BTreeMap::new();
    for (name, state) in found {
        let Some(serial) = state.serial else { continue };
        let next = serial.wrapping_add(1);
        store.append_change(state.zone, name.as_ref(), (serial, next), b"a change").expect("it follows");
        changed.insert(name, next);
    }
    compact_all(&mut store, &disk);
    let (_, again) = Store::open(disk, LIMITS).expect("it was opened before");
    let again: BTreeMap<Name, Option<u32>> =
        again.zones().map(|zone| (zone.name.to_owned(), zone.serial)).collect();
    for (name, serial) in changed {
        assert_eq!(again.get(&name), Some(&Some(serial)), "the change of {name} is lost");
    }
});

/// Compacts until nothing is left to do. A round of all there is copies each record once; more rounds than a few would go on for ever.
fn compact_all(store: &mut Store<MemoryDisk>, disk: &MemoryDisk) {
    store.sync().expect("the disk works");
    let octets: usize = disk.lock().values().map(|file| MemoryFile(file.clone()).lock().len()).sum();
    let mut left = 20 + 4 * octets / 1000;
    while store.compact(1000).expect("the disk works") {
        store.sync().expect("the disk works");
        left = left.checked_sub(1).expect("compaction ends");
    }
}

/// What a zone is.
#[derive(Debug, PartialEq, Eq)]
struct State {
    zone: StoredZone,
    serial: Option<u32>,
    timers: Option<Timers>,
    /// The chunks of the image, as far as they are good.
    image: Vec<Vec<u8>>,
    /// Those after the image: their serials, and octets.
    changes: Vec<(u32, u32, Vec<u8>)>,
}

/// Reads all zones of which anything is left. A change without an image gives only a name, which nothing keeps.
fn states(store: &Store<MemoryDisk>, recovery: &Recovery) -> BTreeMap<Name, State> {
    let mut states = BTreeMap::new();
    for found in recovery.zones().filter(|found| found.serial.is_some() || found.timers.is_some()) {
        let (zone, mut image, mut chunk) = (found.zone, Vec::new(), Vec::new());
        if let Some(Ok(mut reader)) = store.image(zone) {
            while let Ok(true) = reader.next_chunk(&mut chunk) {
                image.push(chunk.clone());
            }
        }
        let (mut reader, mut changes) = (store.changes_after_image(zone), Vec::new());
        while let Some(change) = reader.next_change().expect("recovery has checked it") {
            changes.push((change.from, change.to, change.bytes));
        }
        let mut history = store.changes_before_image(zone, 100, 10_000);
        while history.next_change().expect("recovery has checked it").is_some() {}
        let state = State { zone, serial: found.serial, timers: found.timers, image, changes };
        // Another number with the same name is damage that no store writes; the newest record of both counts.
        states.insert(found.name.to_owned(), state);
    }
    states
}

/// A record with the right checksums.
#[derive(Debug, PartialEq, Eq)]
struct Record {
    kind: u8,
    zone: u32,
    sequence: u64,
    base: u64,
    from: u32,
    to: u32,
    name: Vec<u8>,
    payload: Vec<u8>,
}

impl State {
    /// The zone is what the records up to one of them give: an image, and changes after it that follow each other without a gap.
    fn check(&self, name: &Name, records: &[Record]) {
        let Some(serial) = self.serial else {
            assert!(self.image.is_empty() && self.changes.is_empty(), "{name} has data and no serial");
            return;
        };
        let of_zone = |kind: u8| {
            let is_one = move |record: &&Record| record.kind == kind && record.zone == self.zone.0;
            records.iter().filter(is_one).filter(|record| record.name == name.as_ref().wire())
        };
        let first = self.changes.first().map_or(serial, |change| change.0);
        let leads_here = |image: &Record| {
            let (mut at, mut sequence) = (image.from, image.base);
            for (from, to, bytes) in &self.changes {
                let follows = |change: &&Record| {
                    (change.from, change.to) == (*from, *to) && change.payload == *bytes && change.sequence > sequence
                };
                let Some(change) = of_zone(2).filter(follows).min_by_key(|change| change.sequence) else { return false };
                if *from != at {
                    return false;
                }
                (at, sequence) = (*to, change.sequence);
            }
            at == serial
        };
        let is_given = of_zone(1).any(|image| image.from == first && leads_here(image));
        assert!(is_given, "{name}: no image and changes lead to {serial} with {:?}", self.changes);
    }
}

/// Whether names are in lower case, no two records have the same sequence number, and no two zones the same number or name, as any
/// store writes them. A record that was moved is there twice.
fn are_of_one_store(records: &[Record]) -> bool {
    let mut sequences: BTreeMap<u64, &Record> = BTreeMap::new();
    let (mut names, mut zones) = (BTreeMap::new(), BTreeMap::new());
    records.iter().all(|record| {
        !record.name.iter().any(u8::is_ascii_uppercase)
            && *sequences.entry(record.sequence).or_insert(record) == record
            && *names.entry(record.zone).or_insert(&record.name) == &record.name
            && *zones.entry(&record.name).or_insert(record.zone) == record.zone
    })
}

/// All records of all files, counting or void.
fn records_of(disk: &MemoryDisk) -> Vec<Record> {
    let mut records = Vec::new();
    for (_, file) in disk.lock().iter().filter(|(name, _)| name.starts_with("journal-")) {
        let file = MemoryFile(file.clone());
        let octets = file.lock();
        // Either copy of the header may be damaged.
        let salts: BTreeSet<u32> = [16, HEADER_LEN + 16].into_iter().filter_map(|at| number(&octets, at)).collect();
        for salt in salts {
            records.extend((RECORDS_START..octets.len()).step_by(8).filter_map(|at| record_at(&octets[at..], salt)));
        }
    }
    records
}

fn number(octets: &[u8], at: usize) -> Option<u32> {
    octets.get(at..)?.first_chunk().map(|number| u32::from_le_bytes(*number))
}

fn record_at(octets: &[u8], salt: u32) -> Option<Record> {
    let long = |at: usize| Some(u64::from(number(octets, at)?) | u64::from(number(octets, at + 4)?) << 32);
    let start = FIXED_LEN + usize::from(*octets.get(13)?);
    let payload = octets.get(start..)?.get(..number(octets, 8)? as usize)?;
    let is_good = number(octets, 0)? == crc32c::crc32c_append(salt, octets.get(4..start)?)
        && number(octets, 4)? == crc32c::crc32c_append(salt, payload);
    is_good.then_some(Record {
        kind: octets[12],
        zone: number(octets, 32)?,
        sequence: long(16)?,
        base: long(24)?,
        from: number(octets, 36)?,
        to: number(octets, 40)?,
        name: octets[FIXED_LEN..start].to_vec(),
        payload: payload.to_vec(),
    })
}

/// The disk.
fn disk_of(bytes: &[u8]) -> Option<MemoryDisk> {
    let (&count, mut rest) = bytes.split_first()?;
    let disk = MemoryDisk::default();
    for number in 1..=u32::from(count % 4) {
        let ([flags, high, low], after) = rest.split_first_chunk()?;
        let (octets, after) = after.split_at(usize::from(u16::from_be_bytes([*high, *low])).min(after.len()));
        rest = after;
        let mut octets = octets.to_vec();
        if flags & 1 > 0 {
            repair(&mut octets, number);
        }
        let prefix = if flags & 2 > 0 { "image" } else { "journal" };
        disk.lock().insert(format!("{prefix}-{number:08}"), Arc::new(Mutex::new(octets)));
    }
    Some(disk)
}

fn number_at(bytes: &[u8], at: usize) -> u32 {
    number(bytes, at).expect("it is long enough")
}

fn put(bytes: &mut [u8], at: usize, number: u32) {
    bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
}

/// Makes a segment of any octets: its fixed fields, and the checksums of as many records as there are.
fn repair(bytes: &mut [u8], number: u32) {
    let (mut at, mut batch) = (RECORDS_START, RECORDS_START as u32);
    while let Some(record) = bytes.get_mut(at..).filter(|rest| rest.len() >= FIXED_LEN) {
        let payload_len = record[8..12].iter().fold(0, |sum, octet| sum + usize::from(*octet));
        put(record, 8, payload_len as u32);
        (record[12], record[14], record[15]) = (1 + record[12] % 4, 0, 0);
        // Sequence numbers never come near the end of their range.
        (record[22], record[23]) = (0, 0);
        let zone = u32::from(record[32] % ZONES);
        put(record, 32, zone);
        // A batch of its own, that of the record before, or any.
        match record[47] % 4 {
            0 => batch = at as u32,
            1 => batch = number_at(record, 44),
            _ => {}
        }
        put(record, 44, batch);
        let (start, end) = (FIXED_LEN + usize::from(record[13]), FIXED_LEN + usize::from(record[13]) + payload_len);
        if end > record.len() {
            break;
        }
        let payload = crc32c::crc32c_append(SALT, &record[start..end]);
        put(record, 4, payload);
        let checksum = crc32c::crc32c_append(SALT, &record[4..start]);
        put(record, 0, checksum);
        at += end.next_multiple_of(8);
    }
    let Some((header, records)) = bytes.split_at_mut_checked(RECORDS_START) else { return };
    let batch_len = u32::from(header[28]) * 8;
    let batch = records.get(..batch_len as usize).map_or(0, |batch| crc32c::crc32c_append(SALT, batch));
    let (copy, second) = header.split_at_mut(HEADER_LEN);
    copy[..8].copy_from_slice(b"ZNDASEG\0");
    for (index, value) in [(8, 1), (12, number), (16, SALT), (28, batch_len), (32, batch)] {
        put(copy, index, value);
    }
    let checksum = crc32c::crc32c(&copy[..36]);
    put(copy, 36, checksum);
    second.copy_from_slice(copy);
}

//----------- a disk in memory -------------------------------------------------------

type Files = BTreeMap<String, Arc<Mutex<Vec<u8>>>>;

/// A clone is the same disk.
#[derive(Clone, Default)]
struct MemoryDisk(Arc<Mutex<Files>>);

struct MemoryFile(Arc<Mutex<Vec<u8>>>);

impl MemoryDisk {
    fn lock(&self) -> MutexGuard<'_, Files> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MemoryDisk {
    /// Loses what the newest file says is void: all that the store did not sync itself.
    fn lose_void(&self) {
        let mut files = self.lock();
        let Some((newest, file)) = files.iter().rfind(|(name, _)| name.starts_with("journal-")) else { return };
        let (newest, octets) = (newest.clone(), MemoryFile(file.clone()).lock().clone());
        let (Some(predecessor), Some(len)) = (number(&octets, 20), number(&octets, 24)) else { return };
        let name = format!("journal-{predecessor:08}");
        files.retain(|other, _| !other.starts_with("journal-") || *other <= name || *other == newest);
        if let Some(file) = files.get(&name) {
            MemoryFile(file.clone()).lock().truncate(len as usize);
        }
    }
}

impl MemoryFile {
    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Disk for MemoryDisk {
    type File = MemoryFile;

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.lock().keys().cloned().collect())
    }

    fn create(&self, name: &str) -> io::Result<MemoryFile> {
        let file = Arc::new(Mutex::new(Vec::new()));
        match self.lock().insert(name.into(), file.clone()) {
            None => Ok(MemoryFile(file)),
            Some(_) => panic!("{name} is created twice"),
        }
    }

    fn open(&self, name: &str) -> io::Result<MemoryFile> {
        self.lock().get(name).map(|file| MemoryFile(file.clone())).ok_or(io::ErrorKind::NotFound.into())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.lock().remove(name).map(|_| ()).ok_or(io::ErrorKind::NotFound.into())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut files = self.lock();
        let file = files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        files.insert(to.into(), file);
        Ok(())
    }

    fn has(&self, name: &str, file: &MemoryFile) -> bool {
        self.lock().get(name).is_some_and(|found| Arc::ptr_eq(found, &file.0))
    }

    fn free_octets(&self) -> io::Result<u64> {
        Ok(u64::MAX)
    }

    fn sync_directory(&self) -> io::Result<()> {
        Ok(())
    }

    fn check_place(&self) -> io::Result<()> {
        Ok(())
    }
}

impl DiskFile for MemoryFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.lock().len() as u64)
    }

    fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<usize> {
        let content = self.lock();
        let rest = usize::try_from(offset).ok().and_then(|offset| content.get(offset..)).unwrap_or_default();
        let len = rest.len().min(out.len());
        out[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.lock().truncate(len as usize);
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let (mut content, start) = (self.lock(), offset as usize);
        let len = content.len().max(start + bytes.len());
        content.resize(len, 0);
        content[start..start + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}
