//! The limit of the history of all zones.

use server::storage::{ImageBase, Store, StoreLimits, StoredImage, StoredZone};
use wire::Name;

use crate::simulated_disk::SimulatedDisk;

const ZONES: u8 = 50;
const HISTORY: u64 = 2000;
const SNAPSHOT: ImageBase = ImageBase::Snapshot { max_history_len: u64::MAX };

fn image(store: &Store<SimulatedDisk>, data: u8) -> StoredImage {
    let mut writer = store.image_writer();
    writer.push(&[data]).expect("it is small");
    writer.finish().expect("it is small")
}

fn data_of(store: &Store<SimulatedDisk>, zone: StoredZone) -> Vec<u8> {
    let (mut image, mut chunk) = (store.image(zone).expect("it has one").expect("the disk is good"), Vec::new());
    assert!(image.next_chunk(&mut chunk).expect("the disk is good"));
    chunk
}

/// Syncs, and compacts until nothing is due.
fn settle(store: &mut Store<SimulatedDisk>) {
    store.sync().expect("the disk is good");
    for _ in 0..1000 {
        if !store.compact(500).expect("the disk is good") {
            return;
        }
        store.sync().expect("the disk is good");
    }
    panic!("the compaction does not end");
}

/// One segment has room for everything.
#[test]
fn the_history_of_all_zones_is_limited_before_a_segment_is_full() {
    let disk = SimulatedDisk::default();
    let limits = StoreLimits { history_total: HISTORY, ..StoreLimits::default() };
    let mut store = Store::open(disk.clone(), limits).expect("an empty disk").0;
    let name = |number: u8| -> Name { format!("zone{number}.example.").parse().expect("a name") };
    let zones: Vec<(StoredZone, Name)> = (0..ZONES).map(|number| (store.add_zone(), name(number))).collect();
    for (zone, name) in &zones {
        let image = image(&store, 0);
        store.append_image(*zone, name.as_ref(), 1, ImageBase::Replacement, &image).expect("a new version");
    }
    for serial in 1..=20u8 {
        for (zone, name) in &zones {
            let (name, from) = (name.as_ref(), u32::from(serial));
            store.append_change(*zone, name, (from, from + 1), &[1; 100]).expect("it follows");
            let image = image(&store, serial);
            store.append_image(*zone, name, from + 1, SNAPSHOT, &image).expect("the newest version");
        }
        let dropped_before = store.usage().dropped_changes;
        settle(&mut store);
        let usage = store.usage();
        assert!(usage.history_octets <= HISTORY && usage.dropped_changes > dropped_before, "{usage:?}");
        assert!(usage.log_octets < u64::from(limits.segment_len), "{usage:?}");
    }
    // The oldest are dropped first.
    let has_last_change = |zone: usize| store.history(zones[zone].0, 20).is_some();
    assert!(!has_last_change(0) && has_last_change(zones.len() - 1));
    store.close().expect("the disk is good");
    let (store, recovery) = Store::open(disk, limits).expect("the disk is good");
    assert_eq!(recovery.damages, [""; 0]);
    for (zone, _) in &zones {
        assert_eq!(recovery.zone(*zone).and_then(|zone| zone.serial), Some(21));
        assert_eq!(data_of(&store, *zone), [20]);
    }
}
