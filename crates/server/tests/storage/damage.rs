//! Damaged files: every flipped bit is reported, and harms one zone at most; full disks.

use std::io;

use server::storage::disk::{Disk, DiskFile};
use server::storage::{ImageBase, ImageReadError, Store, StoreLimits, StoredZone, Timers};
use wire::Name;

use crate::simulated_disk::{Random, SimulatedDisk};

const JOURNAL: &str = "journal-00000001";
const IMAGE: &str = "image-00000001";

/// Three zones with an image and four changes each, one batch per record, and a last batch of no zone of these.
fn store_with_zones(disk: &SimulatedDisk) {
    let mut store = Store::open(disk.clone(), StoreLimits::default()).expect("an empty disk").0;
    for serial in 0..6 {
        for index in 0..3 {
            let name: Name = format!("zone{index}.example.").parse().expect("a name");
            match serial {
                0 => {
                    let (zone, mut writer) = (store.add_zone(), store.image_writer());
                    writer.push(b"image").expect("it is small");
                    let image = writer.finish().expect("it is small");
                    store.append_image(zone, name.as_ref(), 0, ImageBase::Replacement, &image);
                }
                5 if index > 0 => continue,
                5 => {
                    let other = store.add_zone();
                    store.remove(other, name.as_ref());
                }
                _ => {
                    let change = store.append_change(StoredZone(index), name.as_ref(), (serial - 1, serial), &[7; 24]);
                    change.expect("it follows");
                }
            }
            store.sync().expect("the disk is good");
        }
    }
}

/// The serials of the zones, and the messages.
fn recover(disk: &SimulatedDisk) -> (Vec<Option<u32>>, Vec<String>) {
    let (_, recovery) = Store::open(disk.clone(), StoreLimits::default()).expect("the disk can be read");
    let mut serials = vec![None; 3];
    for zone in recovery.zones().filter(|zone| zone.zone.0 < 3) {
        serials[zone.zone.0 as usize] = zone.serial;
    }
    (serials, recovery.damages)
}

#[test]
fn a_flipped_bit_is_reported_and_harms_one_zone() {
    let disk = SimulatedDisk::default();
    store_with_zones(&disk);
    assert_eq!(recover(&disk), (vec![Some(4); 3], vec![]));
    let mut harmed = 0;
    for offset in 0..disk.file_len(JOURNAL) - 80 {
        let damaged = disk.fork();
        assert!(damaged.flip(JOURNAL, offset, 1 << (offset % 8)));
        let (serials, messages) = recover(&damaged);
        let lost = serials.iter().filter(|serial| **serial != Some(4)).count();
        assert!(lost <= 1, "offset {offset}: {serials:?}");
        assert!(
            lost == 0 || messages.iter().any(|message| message.starts_with(JOURNAL)),
            "offset {offset}: {messages:?}"
        );
        harmed += lost;
    }
    assert!(harmed > 1000, "{harmed}");
}

fn overwrite(disk: &SimulatedDisk, offset: usize, octets: &[u8]) {
    let mut before = vec![0; octets.len()];
    let file = disk.open(JOURNAL).expect("it is there");
    assert_eq!(file.read_at(&mut before, offset as u64).expect("it can be read"), octets.len());
    for (index, (old, new)) in before.iter().zip(octets).enumerate() {
        disk.flip(JOURNAL, offset + index, old ^ new);
    }
}

/// Such a record would hide all changes that follow, although its checksum is right.
#[test]
fn numbers_from_the_future_are_damage() {
    // The sequence number and the base of the first image, of 15 octets of name.
    for (field, number) in [(16, u64::MAX), (24, 1000)] {
        let disk = SimulatedDisk::default();
        store_with_zones(&disk);
        overwrite(&disk, 80 + field, &number.to_le_bytes());
        let mut head = [0; 80 + 48 + 15];
        disk.open(JOURNAL).expect("it is there").read_at(&mut head, 0).expect("it can be read");
        let salt = u32::from_le_bytes([head[16], head[17], head[18], head[19]]);
        overwrite(&disk, 80, &crc32c::crc32c_append(salt, &head[84..]).to_le_bytes());
        let (serials, messages) = recover(&disk);
        assert_eq!(serials, [None, Some(4), Some(4)]);
        assert!(messages.iter().any(|message| message.contains("makes no sense")), "{messages:?}");
    }
}

/// The offset of the record that ends last, and the salt.
fn last_record(disk: &SimulatedDisk) -> (usize, u32) {
    let mut octets = vec![0; disk.file_len(JOURNAL)];
    disk.open(JOURNAL).expect("it is there").read_at(&mut octets, 0).expect("it can be read");
    let number = |at: usize| u32::from_le_bytes([octets[at], octets[at + 1], octets[at + 2], octets[at + 3]]);
    let (mut at, mut next) = (80, 80);
    while next < octets.len() {
        at = next;
        next = (at + 48 + usize::from(octets[at + 13]) + number(at + 8) as usize).next_multiple_of(8);
    }
    (at, number(16))
}

/// Everything before the last batch counts as durable, and everything after as void once it was written again.
#[test]
fn a_batch_that_starts_inside_a_record_voids_nothing() {
    let disk = SimulatedDisk::default();
    store_with_zones(&disk);
    let (at, salt) = last_record(&disk);
    overwrite(&disk, at + 44, &(at as u32 - 8).to_le_bytes());
    let mut record = [0; 48 + 15];
    disk.open(JOURNAL).expect("it is there").read_at(&mut record, at as u64).expect("it can be read");
    overwrite(&disk, at, &crc32c::crc32c_append(salt, &record[4..]).to_le_bytes());
    let mut store = Store::open(disk.clone(), StoreLimits::default()).expect("the disk can be read").0;
    store.sync().expect("the disk is good");
    assert_eq!(recover(&disk).0, [Some(4); 3]);
}

/// What the header says of other files would otherwise count again once a later one names the same predecessor.
#[test]
fn a_header_that_names_a_later_file_as_its_predecessor_is_damage() {
    let disk = SimulatedDisk::default();
    store_with_zones(&disk);
    let mut header = [0; 40];
    disk.open(JOURNAL).expect("it is there").read_at(&mut header, 0).expect("it can be read");
    header[20..24].copy_from_slice(&9u32.to_le_bytes());
    let checksum = crc32c::crc32c(&header[..36]);
    header[36..].copy_from_slice(&checksum.to_le_bytes());
    overwrite(&disk, 0, &header);
    overwrite(&disk, 40, &[0; 40]);
    assert_eq!(recover(&disk).0, [None; 3]);
}

#[test]
fn a_file_cut_anywhere_opens() {
    let disk = SimulatedDisk::default();
    store_with_zones(&disk);
    for len in 0..disk.file_len(JOURNAL) {
        let cut = disk.fork();
        cut.truncate(JOURNAL, len);
        let (serials, _) = recover(&cut);
        assert!(serials.is_sorted_by(|a, b| a >= b), "{len}: {serials:?}");
    }
}

#[test]
fn a_full_disk_is_survived() {
    let disk = SimulatedDisk::default();
    store_with_zones(&disk);
    let (mut store, _) = Store::open(disk.clone(), StoreLimits::default()).expect("the disk can be read");
    let name: Name = "zone0.example.".parse().expect("a name");
    disk.set_full(true);
    for serial in 4..8 {
        store.append_change(StoredZone(0), name.as_ref(), (serial, serial + 1), &[8; 24]).expect("it follows");
        let error = store.sync().expect_err("the disk is full").to_string();
        assert!(error.starts_with("journal-"), "{error}");
    }
    disk.set_full(false);
    store.sync().expect("there is room again");
    assert_eq!(recover(&disk), (vec![Some(8), Some(4), Some(4)], vec![]));
    let mut history = store.history(StoredZone(0), 2).expect("changes from the start");
    let serials = std::iter::from_fn(|| history.next_change().expect("they are good")).map(|change| change.to);
    assert_eq!(serials.collect::<Vec<_>>(), [3, 4, 5, 6, 7, 8]);
}

/// Where the octets of the `nth` record of a zone start that follow its name.
fn payload_of(disk: &SimulatedDisk, zone: u32, nth: usize) -> usize {
    let mut octets = vec![0; disk.file_len(JOURNAL)];
    disk.open(JOURNAL).expect("it is there").read_at(&mut octets, 0).expect("it can be read");
    let name: Name = format!("zone{zone}.example.").parse().expect("a name");
    let mut found = octets.windows(name.wire().len()).enumerate().filter(|(_, octets)| *octets == name.wire());
    found.nth(nth).expect("there are so many records").0 + name.wire().len()
}

#[test]
fn changes_whose_image_is_lost_are_reported() {
    let disk = SimulatedDisk::default();
    store_with_zones(&disk);
    disk.flip(JOURNAL, payload_of(&disk, 1, 0), 1);
    let (serials, messages) = recover(&disk);
    assert_eq!(serials, [Some(4), None, Some(4)]);
    assert!(messages.iter().any(|message| message.contains("the image of zone1.example. is lost")), "{messages:?}");
}

#[test]
fn what_compaction_finds_damaged_is_written_anew() {
    compact_damaged(0, |disk, offset| assert!(disk.flip(JOURNAL, offset, 1)));
}

/// Otherwise the journal would grow for ever.
#[test]
fn what_compaction_cannot_read_is_written_anew() {
    compact_damaged(2, |disk, offset| disk.set_unreadable(JOURNAL, offset..offset + 1));
}

/// The server still has the version: the segment stays until a new image of it replaces what is damaged.
fn compact_damaged(expected_failures: u32, damage: impl Fn(&SimulatedDisk, usize)) {
    let disk = SimulatedDisk::default();
    store_with_zones(&disk);
    let limits = StoreLimits { segment_len: 1000, ..StoreLimits::default() };
    let mut store = Store::open(disk.clone(), limits).expect("the disk can be read").0;
    let image = |store: &Store<SimulatedDisk>| {
        let mut writer = store.image_writer();
        writer.push(&[1; 200]).expect("it is small");
        writer.finish().expect("it is small")
    };
    for serial in 10..40 {
        let (name, image): (Name, _) = ("zone0.example.".parse().expect("a name"), image(&store));
        store.append_image(StoredZone(0), name.as_ref(), serial, ImageBase::Replacement, &image);
        store.sync().expect("the disk is good");
    }
    // Its second change.
    damage(&disk, payload_of(&disk, 1, 2) + 10);
    let compact = |store: &mut Store<SimulatedDisk>| {
        let mut failures = 0;
        for _ in 0..100 {
            let has_work = store.compact(10_000).unwrap_or_else(|_| {
                failures += 1;
                true
            });
            store.sync().expect("the disk is good");
            if !has_work {
                return failures;
            }
        }
        panic!("the compaction does not end");
    };
    let is_there = |disk: &SimulatedDisk| disk.list().expect("names").iter().any(|name| name == JOURNAL);
    assert_eq!(compact(&mut store), expected_failures);
    assert!(is_there(&disk));
    let due = store.take_due_images();
    assert!(due.contains(&StoredZone(1)), "{due:?}");
    for zone in due {
        let (name, snapshot): (Name, _) = (format!("zone{}.example.", zone.0).parse().expect("a name"), image(&store));
        let base = ImageBase::Snapshot { max_history_len: u64::MAX };
        assert!(store.append_image(zone, name.as_ref(), 4, base, &snapshot).is_some(), "{zone:?}");
    }
    store.sync().expect("the disk is good");
    assert_eq!(compact(&mut store), 0);
    assert!(!is_there(&disk), "nothing in it is needed");
    assert_eq!(recover(&disk), (vec![Some(39), Some(4), Some(4)], vec![]));
}

/// As long as the file is open, everything in it can be read.
#[test]
fn a_file_that_is_removed_while_it_is_written_to_is_written_again() {
    let disk = SimulatedDisk::default();
    let limits = StoreLimits { segment_len: 1000, ..StoreLimits::default() };
    let mut store = Store::open(disk.clone(), limits).expect("an empty disk").0;
    let zones =
        [0, 1].map(|number| (store.add_zone(), format!("zone{number}.example.").parse::<Name>().expect("a name")));
    let image = |store: &mut Store<SimulatedDisk>, at: usize, serial: u32| {
        let mut writer = store.image_writer();
        writer.push(&[1; 200]).expect("it is small");
        let (zone, name) = &zones[at];
        let image = writer.finish().expect("it is small");
        store.append_image(*zone, name.as_ref(), serial, ImageBase::Replacement, &image);
    };
    let timers = Timers { expires_at_s: 7, ..Timers::default() };
    image(&mut store, 0, 1);
    store.append_timers(zones[0].0, zones[0].1.as_ref(), timers);
    store.sync().expect("the disk is good");
    disk.remove(JOURNAL).expect("it is there");
    store.append_change(zones[0].0, zones[0].1.as_ref(), (1, 2), &[7; 24]).expect("it follows");
    store.sync().expect("the disk is good");
    let found = |disk: &SimulatedDisk| {
        let (_, recovery) = Store::open(disk.clone(), limits).expect("the disk can be read");
        assert_eq!(recovery.damages, [""; 0]);
        recovery.zone(zones[0].0).map(|zone| (zone.serial, zone.timers))
    };
    let after_crash = disk.fork();
    after_crash.lose_power(&mut Random::new(1));
    assert_eq!(found(&after_crash), Some((Some(2), Some(timers))));
    // Nothing is left of it that compaction would try to remove for ever.
    for serial in 0..20 {
        image(&mut store, 1, serial);
        store.sync().expect("the disk is good");
        store.compact(10_000).expect("it can be read");
    }
    store.sync().expect("the disk is good");
    assert!(disk.list().expect("names").len() < 8);
    assert_eq!(found(&disk), Some((Some(2), Some(timers))));
}

/// Whatever the disk has of the zones would be lost if it counted as damaged.
#[test]
fn a_disk_that_cannot_be_read_is_not_damaged() {
    let disk = SimulatedDisk::default();
    store_with_zones(&disk);
    for _ in 0..3 {
        disk.fail_reads(1);
        assert!(Store::open(disk.clone(), StoreLimits::default()).is_err());
    }
    assert_eq!(recover(&disk), (vec![Some(4); 3], vec![]));
}

/// A store with a zone whose image has a file of its own.
fn store_with_image_file(disk: &SimulatedDisk, chunks: &[&[u8]]) -> (Store<SimulatedDisk>, StoredZone) {
    let limits = StoreLimits { inline_image_len: 4, ..StoreLimits::default() };
    let mut store = Store::open(disk.clone(), limits).expect("an empty disk").0;
    let (zone, mut writer) = (store.add_zone(), store.image_writer());
    chunks.iter().for_each(|chunk| writer.push(chunk).expect("the disk is good"));
    let image = writer.finish().expect("the disk is good");
    let name: Name = "example.".parse().expect("a name");
    store.append_image(zone, name.as_ref(), 0, ImageBase::Replacement, &image);
    store.sync().expect("the disk is good");
    (store, zone)
}

/// Otherwise no change of any zone is acknowledged while a large image is tried.
#[test]
fn an_image_leaves_room_for_the_journal() {
    let disk = SimulatedDisk::default();
    let (store, _) = store_with_image_file(&disk, &[b"image"]);
    for free in [0, 8 << 20, 9 << 20] {
        disk.set_free(free);
        let mut writer = store.image_writer();
        let pushed = writer.push(&[1; 1000]).map_err(|error| error.kind());
        assert_eq!(pushed, if free > 8 << 20 { Ok(()) } else { Err(io::ErrorKind::StorageFull) });
    }
    let names = disk.list().expect("names");
    assert_eq!(names, [IMAGE, JOURNAL], "nothing is left of the others");
}

/// The operator may want to look at it.
#[test]
fn a_damaged_image_that_was_set_aside_is_neither_removed_nor_replaced() {
    let disk = SimulatedDisk::default();
    let (mut store, zone) = store_with_image_file(&disk, &[b"image"]);
    let aside = format!("{IMAGE}.damaged");
    disk.rename(IMAGE, &aside).expect("it is there");
    store.remove(zone, "example.".parse::<Name>().expect("a name").as_ref());
    store.sync().expect("the disk is good");
    drop(store);
    let (mut store, zone) = store_with_image_file(&disk, &[b"another image"]);
    store.remove(zone, "example.".parse::<Name>().expect("a name").as_ref());
    store.sync().expect("the disk is good");
    let images = disk.list().expect("names").into_iter().filter(|name| name.starts_with("image-"));
    assert!(images.eq([aside.clone()]));
    let mut octets = [0; 13];
    disk.open(&aside).expect("it is there").read_at(&mut octets, 0).expect("it can be read");
    assert!(octets.ends_with(b"image"));
}

/// Otherwise a damaged length in a long file could ask for any amount of memory.
#[test]
fn an_image_file_of_another_length_is_damaged() {
    let disk = SimulatedDisk::default();
    let (store, zone) = store_with_image_file(&disk, &[b"image"]);
    assert!(matches!(store.image(zone), Some(Ok(_))));
    let file = disk.open(IMAGE).expect("it is there");
    file.write_at(&[0; 8], file.length().expect("it is there")).expect("the disk is good");
    assert!(matches!(store.image(zone), Some(Err(ImageReadError::Length { len: 21, expected: 13, .. }))));
}

/// Threads read the chunks of an image in any order.
#[test]
fn a_flipped_bit_of_an_image_is_found_in_whatever_order_its_frames_are_read() {
    let disk = SimulatedDisk::default();
    let chunks: [&[u8]; 4] = [b"first chunk", b"second", b"", b"second"];
    let zone = store_with_image_file(&disk, &chunks).1;
    let read_backwards = |disk: &SimulatedDisk| -> Result<Vec<Vec<u8>>, ImageReadError> {
        let store = Store::open(disk.clone(), StoreLimits::default()).expect("a good journal").0;
        let mut reader = store.image(zone).expect("there is one")?;
        let (mut frames, mut chunk, mut read) = (Vec::new(), Vec::new(), Vec::new());
        while let Some(frame) = reader.next_frame()? {
            frames.push(frame);
        }
        for frame in frames.iter().rev() {
            frame.read(&mut chunk)?;
            read.push(chunk.clone());
        }
        Ok(read)
    };
    let backwards: Vec<Vec<u8>> = chunks.iter().rev().map(|chunk| chunk.to_vec()).collect();
    assert_eq!(read_backwards(&disk).expect("a good image"), backwards);
    for (offset, bit) in (0..disk.file_len(IMAGE)).flat_map(|offset| (0..8).map(move |bit| (offset, bit))) {
        let damaged = disk.fork();
        assert!(damaged.flip(IMAGE, offset, 1 << bit));
        let found = read_backwards(&damaged);
        assert!(matches!(found, Err(ImageReadError::Damaged { .. })), "bit {bit} of octet {offset}: {found:?}");
    }
}
