//! Opens any files as a journal: each is refused, or read in memory that is bounded by its length; what is found can be read
//! and, unless checksums were made right, changed, synced and found again.
//!
//! The first octet says how many journal files there are. Each follows: an octet of flags, its length of 16 bits, and its octets. With
//! flag 1 the header and all checksums are made right, so that the fields matter; they may contradict each other then, in ways that no
//! store writes. The last file is an image with flag 2.
#![no_main]

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use libfuzzer_sys::fuzz_target;
use server::storage::disk::{Disk, DiskFile};
use server::storage::{Store, StoreLimits, StoredZone};
use wire::{Name, NameRef};

const LIMITS: StoreLimits = StoreLimits {
    segment_len: 2000,
    min_changes_len: 300,
    image_share: 2,
    inline_image_len: 100,
    history_per_zone: 500,
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
    let Some((disk, is_repaired)) = disk_of(bytes) else { return };
    // A file of another version, for example.
    let Ok((mut store, recovery)) = Store::open(disk.clone(), LIMITS) else { return };
    assert!(recovery.damages.len() <= 100, "messages are bounded");
    let mut found: BTreeMap<Name, (StoredZone, u32)> = BTreeMap::new();
    for zone in recovery.zones() {
        read_all(&store, zone.zone);
        if let Some(serial) = zone.serial {
            found.insert(zone.name.to_owned(), (zone.zone, serial));
        }
    }
    if is_repaired {
        return;
    }
    for (name, (zone, serial)) in &found {
        // The serials of damaged records may be any.
        _ = store.append_change(*zone, name.as_ref(), (*serial, serial.wrapping_add(1)), b"a change");
    }
    while store.compact(1000).expect("the disk works") {}
    store.sync().expect("the disk works");
    let expected: Vec<(NameRef<'_>, Option<u32>)> = found
        .iter()
        .map(|(name, (_, serial))| (name.as_ref(), Some(serial.wrapping_add(1))))
        .collect();
    drop(store);
    let (_, again) = Store::open(disk, LIMITS).expect("it was opened before");
    for (name, serial) in expected {
        assert!(again.zones().any(|zone| zone.name == name && zone.serial == serial), "{name} {serial:?} is lost");
    }
});

/// Reads an image and its changes, as far as they are good.
fn read_all(store: &Store<MemoryDisk>, zone: StoredZone) {
    if let Some(Ok(mut image)) = store.image(zone) {
        let mut chunk = Vec::new();
        while let Ok(true) = image.next_chunk(&mut chunk) {}
    }
    for mut changes in [store.changes_after_image(zone), store.changes_before_image(zone, 100, 10_000)] {
        while let Ok(Some(_)) = changes.next_change() {}
    }
}

/// The disk, and whether checksums were made right.
fn disk_of(bytes: &[u8]) -> Option<(MemoryDisk, bool)> {
    let (&count, mut rest) = bytes.split_first()?;
    let (disk, mut is_repaired) = (MemoryDisk::default(), false);
    for number in 1..=u32::from(count % 4) {
        let ([flags, high, low], after) = rest.split_first_chunk()?;
        let (octets, after) = after.split_at(usize::from(u16::from_be_bytes([*high, *low])).min(after.len()));
        rest = after;
        let mut octets = octets.to_vec();
        if flags & 1 > 0 {
            repair(&mut octets, number);
            is_repaired = true;
        }
        let prefix = if flags & 2 > 0 { "image" } else { "journal" };
        disk.lock().insert(format!("{prefix}-{number:08}"), Arc::new(Mutex::new(octets)));
    }
    Some((disk, is_repaired))
}

fn put(bytes: &mut [u8], at: usize, number: u32) {
    bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
}

/// Makes a segment of any octets: its fixed fields, and the checksums of as many records as there are.
fn repair(bytes: &mut [u8], number: u32) {
    let mut at = RECORDS_START;
    while let Some(record) = bytes.get_mut(at..).filter(|rest| rest.len() >= FIXED_LEN) {
        let payload_len = record[8..12].iter().fold(0, |sum, octet| sum + usize::from(*octet));
        put(record, 8, payload_len as u32);
        (record[12], record[14], record[15]) = (1 + record[12] % 4, 0, 0);
        // Sequence numbers never come near the end of their range.
        (record[22], record[23]) = (0, 0);
        let zone = u32::from(record[32] % ZONES);
        put(record, 32, zone);
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

    fn sync_directory(&self) -> io::Result<()> {
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
