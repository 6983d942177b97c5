//! Which changes and images the store takes.

use server::storage::{ChangeRefused, ImageBase, Store, StoreLimits, StoredImage, StoredZone};
use wire::Name;

use crate::simulated_disk::SimulatedDisk;

const SNAPSHOT: ImageBase = ImageBase::Snapshot { max_history_len: u64::MAX };

struct Zone {
    store: Store<SimulatedDisk>,
    disk: SimulatedDisk,
    zone: StoredZone,
    name: Name,
}

impl Zone {
    fn new() -> Zone {
        let disk = SimulatedDisk::default();
        let mut store = Store::open(disk.clone(), StoreLimits::default()).expect("an empty disk").0;
        let zone = store.add_zone();
        Zone { store, disk, zone, name: "zone.example.".parse().expect("a name") }
    }

    fn change(&mut self, from: u32, to: u32) -> Result<u64, ChangeRefused> {
        self.store.append_change(self.zone, self.name.as_ref(), (from, to), &[1; 8])
    }

    fn image(&mut self, serial: u32, base: ImageBase) -> Option<u64> {
        let image = StoredImage::Inline(Vec::new());
        self.store.append_image(self.zone, self.name.as_ref(), serial, base, &image)
    }

    fn sync(&mut self) {
        self.store.sync().expect("the disk is good");
    }

    /// The serial after a restart.
    fn restart(&mut self) -> Option<u32> {
        let (store, recovery) = Store::open(self.disk.clone(), StoreLimits::default()).expect("the disk is good");
        self.store = store;
        assert_eq!(recovery.damages, [""; 0]);
        recovery.zones().next().and_then(|zone| zone.serial)
    }
}

#[test]
fn a_change_that_does_not_follow_is_refused() {
    let mut zone = Zone::new();
    assert_eq!(zone.change(1, 2), Err(ChangeRefused::NoImage { from: 1, to: 2 }));
    zone.image(1, ImageBase::Replacement).expect("a new version");
    zone.change(1, 2).expect("it follows the image");
    assert_eq!(zone.change(1, 3), Err(ChangeRefused::Gap { from: 1, to: 3, last: 2 }));
    zone.sync();
    assert_eq!(zone.change(3, 4), Err(ChangeRefused::Gap { from: 3, to: 4, last: 2 }));
    zone.change(2, 5).expect("it follows the last one");
    zone.image(2, SNAPSHOT).expect("a version in the store");
    zone.sync();
    assert_eq!(zone.restart(), Some(5));
    assert_eq!(zone.change(2, 6), Err(ChangeRefused::Gap { from: 2, to: 6, last: 5 }));
    zone.change(5, 6).expect("it follows what the restart found");
    zone.store.remove(zone.zone, zone.name.as_ref());
    assert_eq!(zone.change(6, 7), Err(ChangeRefused::NoImage { from: 6, to: 7 }));
}

#[test]
fn a_snapshot_from_before_a_replacement_is_dropped() {
    for syncs in [false, true] {
        let mut zone = Zone::new();
        zone.image(1, ImageBase::Replacement).expect("a new version");
        zone.change(1, 2).expect("it follows");
        zone.image(100, ImageBase::Replacement).expect("a new version");
        if syncs {
            zone.sync();
        }
        for serial in [1, 2] {
            assert_eq!(zone.image(serial, SNAPSHOT), None, "synced: {syncs}");
        }
        zone.sync();
        assert_eq!(zone.restart(), Some(100), "synced: {syncs}");
    }
}

/// As in memory: a server with small updates would keep, and copy, changes that nobody gets.
#[test]
fn the_number_of_changes_in_the_history_of_a_zone_is_limited() {
    const CHANGES: u32 = 300;
    let mut zone = Zone::new();
    zone.image(1, ImageBase::Replacement).expect("a new version");
    for serial in 1..=CHANGES {
        zone.change(serial, serial + 1).expect("it follows the last one");
    }
    zone.sync();
    zone.image(CHANGES + 1, SNAPSHOT).expect("the newest version");
    zone.sync();
    assert_eq!(zone.store.usage().dropped_changes, 300 - 256);
    let kept = zone.store.changes_before_image(zone.zone, usize::MAX, u64::MAX);
    assert_eq!((kept.remaining(), kept.first_serial()), (256, Some(CHANGES + 1 - 256)));
    assert_eq!(zone.restart(), Some(CHANGES + 1));
}

#[test]
fn the_oldest_history_of_a_zone_is_dropped_and_counted() {
    let mut zone = Zone::new();
    zone.image(1, ImageBase::Replacement).expect("a new version");
    for serial in 1..=10 {
        zone.change(serial, serial + 1).expect("it follows the last one");
    }
    zone.sync();
    let before = zone.store.zone_usage(zone.zone).expect("it has an image");
    assert_eq!((before.history_octets, before.change_octets % 10), (0, 0));
    let one = before.change_octets / 10;
    // Changes up to 9 become history, of which three are kept.
    zone.image(9, ImageBase::Snapshot { max_history_len: 3 * one + 1 }).expect("a version in the store");
    zone.sync();
    let usage = zone.store.zone_usage(zone.zone).expect("it has an image");
    assert_eq!((usage.history_octets, usage.change_octets), (3 * one, 2 * one));
    let all = zone.store.usage();
    assert_eq!((all.history_octets, all.dropped_changes, all.dropped_octets), (3 * one, 5, 5 * one));
    assert!(zone.store.history(zone.zone, 6).is_some() && zone.store.history(zone.zone, 5).is_none());
    zone.store.limit_history(zone.zone, one);
    assert_eq!(zone.store.usage().dropped_changes, 7);
    assert!(zone.store.history(zone.zone, 8).is_some() && zone.store.history(zone.zone, 7).is_none());
    assert_eq!(zone.restart(), Some(11), "no change that is needed is dropped");
}
