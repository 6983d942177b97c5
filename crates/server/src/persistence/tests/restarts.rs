//! What is there after a restart.

use super::*;

#[test]
fn nothing_is_left_of_a_zone_that_is_removed() {
    for is_written in [false, true] {
        let mut bench = Bench::new();
        bench.replace(version(1));
        bench.settle(is_written);
        bench.persistence.removed(ZONE, apex().as_ref());
        bench.latest = None;
        bench.settle(true);
        let mut bench = bench.restart();
        assert!(!bench.persistence.is_restorable(apex().as_ref()) && bench.restore().is_none(), "{is_written}");
        // The first sync removes the file of the image, if the power failed before.
        bench.settle(true);
        let files = crate::storage::disk::Disk::list(&bench.disk).expect("the disk works");
        assert!(!files.iter().any(|name| name.starts_with("image-")), "{files:?}");
    }
}

#[test]
fn zones_that_nobody_restores_are_forgotten_when_the_start_is_complete() {
    let mut bench = Bench::new();
    bench.store(version(1));
    let mut bench = bench.restart();
    assert!(bench.persistence.is_restorable(apex().as_ref()));
    bench.persistence.forget_others(&|_| false);
    bench.settle(true);
    let bench = bench.restart();
    assert!(!bench.persistence.is_restorable(apex().as_ref()));
}

/// Otherwise the store would forget a zone that the disk has, and updates with it.
#[test]
fn a_version_that_cannot_be_read_for_a_moment_is_restored() {
    let mut bench = Bench::new();
    bench.store(version(1));
    let mut bench = bench.restart();
    bench.disk.fail_reads(2);
    assert_eq!(bench.restored_serial(), Some(1));
}

/// Whatever is served and changed meanwhile.
#[test]
fn a_version_that_cannot_be_read_is_kept_for_the_next_start() {
    let mut bench = Bench::new();
    bench.store(version(1));
    bench.change(version(2)).expect("the disk works");
    bench.persistence.set_timers(ZONE, apex().as_ref(), Timers::of_file(77, 1));
    bench.settle(true);
    let mut bench = bench.restart();
    bench.disk.fail_reads(u32::MAX);
    bench.persistence.restorer.end_retries();
    assert_eq!(bench.restored_serial(), None);
    bench.disk.fail_reads(0);
    assert_eq!(bench.unreadable, 1);
    bench.persistence.keep_unread(ZONE);
    assert!(bench.persistence.is_unread(ZONE));
    bench.store(version(9));
    assert_eq!(bench.persistence.prepare(ZONE), Readiness::Unavailable);
    assert_eq!(bench.change(version(10)), Err(JournalUnavailable));
    assert_eq!(bench.persistence.store_version(ZONE, &version(11)), Readiness::Unavailable);
    bench.persistence.set_timers(ZONE, apex().as_ref(), Timers::of_file(78, 9));
    bench.persistence.forget_others(&|_| true);
    bench.settle(true);
    let mut bench = bench.restart();
    let restored = bench.restore().expect("it is stored");
    assert_eq!((restored.version.serial(), restored.timers), (2, Some(Timers::of_file(77, 1))));
    // Whoever removes the zone wants nothing of it to be kept.
    let mut bench = bench.restart();
    bench.disk.fail_reads(u32::MAX);
    bench.persistence.restorer.end_retries();
    assert_eq!(bench.restored_serial(), None);
    bench.disk.fail_reads(0);
    bench.persistence.keep_unread(ZONE);
    bench.persistence.removed(ZONE, apex().as_ref());
    assert!(!bench.persistence.is_unread(ZONE));
    bench.settle(true);
    assert!(!bench.restart().persistence.is_restorable(apex().as_ref()));
}

/// Its checksums are right: another version of zonda may be able to use it.
#[test]
fn a_version_that_is_not_understood_is_kept() {
    for is_image in [true, false] {
        let mut bench = Bench::new();
        if is_image {
            let (number, mut writer) = (bench.persistence.storage.add_zone(), bench.persistence.storage.image_writer());
            let image = writer.push(b"no image").and_then(|()| writer.finish()).expect("the disk works");
            let record = AppendRecord::Image { serial: 1, base: ImageBase::Replacement, image, timers: None };
            bench.persistence.append(number, apex().as_ref(), record).expect("there is room");
        } else {
            bench.store(version(1));
            let change = EncodedChange::between(&version_with(1, "other"), &version(2));
            bench.persistence.append_change(ZONE, apex().as_ref(), &change).expect("the disk works");
        }
        bench.settle(true);
        for _ in 0..2 {
            bench = bench.restart();
            assert_eq!((bench.restored_serial(), bench.unreadable), (None, 1), "{is_image}");
            bench.persistence.keep_unread(ZONE);
            bench.persistence.forget_others(&|_| true);
            bench.settle(true);
        }
    }
}

/// Of a small zone that is read from a file, or one that was never transferred, nothing else is stored.
#[test]
fn the_owner_of_a_zone_is_kept_without_the_zone() {
    let mut bench = Bench::new();
    bench.persistence.keep_owner(apex().as_ref(), 7);
    bench.persistence.keep_owner(apex().as_ref(), 8);
    bench.settle(true);
    let mut bench = bench.restart();
    assert_eq!(bench.persistence.stored_owner(apex().as_ref()), Some(8));
    assert!(!bench.persistence.is_restorable(apex().as_ref()));
    // The zone is stored by another number.
    bench.store(version(1));
    let mut bench = bench.restart();
    assert_eq!(bench.persistence.stored_owner(apex().as_ref()), Some(8));
    assert_eq!(bench.restored_serial(), Some(1));
    bench.persistence.forget_others(&|zone| zone == apex().as_ref());
    bench.settle(true);
    let mut bench = bench.restart();
    assert_eq!(bench.persistence.stored_owner(apex().as_ref()), Some(8));
    bench.persistence.forget_owner(apex().as_ref());
    bench.settle(true);
    let mut bench = bench.restart();
    assert_eq!(bench.persistence.stored_owner(apex().as_ref()), None);
    assert!(bench.restore().is_some(), "the zone is kept");
    // The zone has left every catalog while the server was down.
    bench.persistence.keep_owner(apex().as_ref(), 9);
    bench.persistence.forget_others(&|_| false);
    bench.settle(true);
    assert_eq!(bench.restart().persistence.stored_owner(apex().as_ref()), None);
}

/// A crash may leave the former owner of a zone beside the new one. Numbers are used again: that of the new one may be lower.
#[test]
fn the_owner_that_was_stored_last_wins_whatever_its_number_is() {
    for is_higher in [true, false] {
        let mut bench = Bench::new();
        let mut numbers = [bench.persistence.storage.add_zone(), bench.persistence.storage.add_zone()];
        if !is_higher {
            numbers.reverse();
        }
        for (number, catalog) in numbers.into_iter().zip([7, 8]) {
            let record = AppendRecord::Timers(Timers::of_owner(catalog));
            bench.persistence.append(number, apex().as_ref(), record).expect("there is room");
            bench.settle(true);
        }
        let mut bench = bench.restart();
        assert_eq!(bench.persistence.stored_owner(apex().as_ref()), Some(8), "{is_higher}");
        // The former one is removed with the next opportunity.
        bench.persistence.forget_others(&|zone| zone == apex().as_ref());
        bench.settle(true);
        let mut bench = bench.restart();
        assert_eq!(bench.persistence.stored_owner(apex().as_ref()), Some(8));
        bench.persistence.forget_owner(apex().as_ref());
        bench.settle(true);
        assert_eq!(bench.restart().persistence.stored_owner(apex().as_ref()), None, "no other one is left");
    }
}
