//! Disks that fail or are full.

use super::*;

#[test]
fn a_disk_that_fails_refuses_what_waits_and_is_tried_again() {
    let mut bench = Bench::new();
    bench.latest = Some(version(1));
    assert!(!bench.is_reported_as_failing());
    bench.disk.set_full(true);
    assert_eq!(bench.persistence.prepare(ZONE), Readiness::Preparing);
    bench.settle(true);
    assert_eq!(bench.outcomes, [JournalOutcome::Unavailable(ZONE)]);
    assert!(bench.is_reported_as_failing(), "an image cannot be written");
    assert_eq!(bench.persistence.prepare(ZONE), Readiness::Unavailable);
    assert!(!bench.persistence.flush(), "the end of the daemon does not wait for a failing disk");
    bench.disk.set_full(false);
    bench.advance_to_due();
    bench.settle(true);
    assert_eq!(bench.persistence.prepare(ZONE), Readiness::Ready);
    assert!(!bench.is_reported_as_failing());
    bench.disk.set_full(true);
    bench.change(version(2)).expect("it is queued");
    bench.settle(true);
    assert!(bench.is_reported_as_failing(), "the change cannot be written");
    let mut bench = bench.restart();
    assert_eq!(bench.restored_serial(), Some(1));
}

/// A rollback needs an image, for which a nearly full disk may have no room. Updates may still fit.
#[test]
fn a_zone_takes_changes_after_a_version_that_could_not_be_stored() {
    for is_late in [false, true] {
        let mut bench = Bench::new();
        bench.store(version(2));
        bench.disk.set_full(!is_late);
        bench.store_version(version(1));
        bench.settle(!is_late);
        let outcomes: &[JournalOutcome] = if is_late { &[] } else { &[JournalOutcome::Unavailable(ZONE)] };
        assert_eq!(bench.outcomes, outcomes);
        assert!(bench.persistence.withdraw_version(ZONE), "{is_late}");
        bench.latest = Some(version(2));
        bench.disk.set_full(false);
        assert_eq!(bench.persistence.prepare(ZONE), Readiness::Ready);
        let number = bench.change(version(3)).expect("the disk works").expect("it is to be written");
        bench.settle(true);
        assert!(bench.durable >= number);
        let mut bench = bench.restart();
        let restored = bench.restore().expect("it is stored");
        assert_eq!((restored.version.serial(), restored.history.len()), (3, 1), "{is_late}");
    }
    // What is stored does not lead to a version that has come since.
    let mut bench = Bench::new();
    bench.store(version(2));
    bench.store_version(version(1));
    bench.begin_storing(version(9));
    assert!(!bench.persistence.withdraw_version(ZONE));
    bench.settle(true);
    let mut bench = bench.restart();
    assert_eq!(bench.restored_serial(), Some(9));
}

/// A nearly full disk has room for changes: each would start another attempt to write a large image, which takes that room.
#[test]
fn changes_that_are_durable_do_not_end_the_pause_after_an_image_that_failed() {
    let mut bench = Bench::new();
    bench.disk.set_full(true);
    bench.replace(version(1));
    bench.settle(true);
    let due = bench.persistence.due();
    assert!(due.is_some(), "the image could not be written");
    bench.persistence.handle(JournalEvent::Durable(1), None);
    assert_eq!((bench.persistence.due(), bench.persistence.next_outcome()), (due, None));
    assert_eq!(bench.persistence.prepare(ZONE), Readiness::Unavailable);
    // Without a zone whose image could show that the disk works, another one must get its turn.
    bench.persistence.removed(ZONE, apex().as_ref());
    bench.latest = None;
    bench.disk.set_full(false);
    bench.advance(due.expect("checked above") - clock::now());
    bench.settle(true);
    bench.latest = Some(version(2));
    assert_eq!(bench.persistence.prepare(ZONE), Readiness::Preparing);
    bench.settle(true);
    assert_eq!(bench.persistence.prepare(ZONE), Readiness::Ready);
}

/// Each attempt may fill the disk for a while.
#[test]
fn an_image_that_does_not_fit_delays_no_other_and_is_tried_ever_less_often() {
    const OTHER: ZoneId = ZoneId { index: 4, generation: 0 };
    let mut bench = Bench::new();
    bench.disk.set_full(true);
    bench.replace(version(1));
    bench.settle(true);
    let mut waits = Vec::new();
    for _ in 0..10 {
        waits.push((bench.persistence.due().expect("it is tried again") - clock::now()).as_secs());
        bench.advance_to_due();
        bench.settle(true);
    }
    assert_eq!(waits, [5, 10, 20, 40, 80, 160, 320, 600, 600, 600]);
    bench.disk.set_full(false);
    assert_eq!(bench.persistence.prepare(OTHER), Readiness::Preparing);
    bench.settle(true);
    assert_eq!(bench.persistence.prepare(OTHER), Readiness::Ready);
    assert_eq!(bench.persistence.prepare(ZONE), Readiness::Unavailable);
    assert!(bench.is_reported_as_failing());
    bench.advance_to_due();
    bench.settle(true);
    assert_eq!(bench.persistence.prepare(ZONE), Readiness::Ready);
    assert!(!bench.is_reported_as_failing());
}
