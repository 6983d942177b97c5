//! Rollbacks: when they are published, and what refuses them.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::tests::TestJournal;
use super::*;
use crate::zones::journal::{JournalOutcome, Readiness, StoreRule, ZoneJournal};
use crate::zones::registry::tests::Bench;
use crate::zones::registry::{ControlRefused, Rollback};

/// A restart would serve an earlier serial than secondaries have.
#[test]
fn a_rollback_is_published_when_it_is_on_disk() {
    let mut bench = Bench::loaded(&["a."]);
    bench.zones.set_journal(Box::new(TestJournal::default()));
    let id = bench.id("a.");
    let current = bench.zones.latest(id).expect("it is served").clone();
    let rollback = |base: &Zone, serial| {
        let version = base.with_serial(serial);
        let change = Some(EncodedChange::between(base, &version));
        Rollback { base: base.version(), version, change }
    };
    // An operator may return to another version of a frozen zone.
    bench.zones.freeze(id).expect("it is served");
    let (sender, results) = channel();
    for serial in [7, 8] {
        let sender = sender.clone();
        bench.zones.roll_back(id, rollback(&current, serial), Box::new(move |result| _ = sender.send(result)));
    }
    assert_eq!(results.try_recv(), Ok(Err(ControlRefused::Changed)), "the second one is of an earlier version");
    bench.step();
    assert_eq!((bench.serial("a."), results.try_recv().is_err()), (Some(1), true));
    bench.zones.durable(1);
    bench.step();
    assert_eq!((bench.serial("a."), results.try_recv()), (Some(7), Ok(Ok(7))));
}

/// Stores versions as images, and says when it is asked how far it is.
struct ImageJournal(Arc<Mutex<Vec<JournalOutcome>>>, Arc<Mutex<Vec<&'static str>>>);

impl ZoneJournal for ImageJournal {
    fn store_version(&mut self, _: ZoneId, _: &Zone) -> Readiness {
        Readiness::Preparing
    }

    fn withdraw_version(&mut self, _: ZoneId) -> bool {
        self.1.lock().expect("no panic").push("withdrawn");
        true
    }

    fn replaced(&mut self, _: ZoneId, _: &Zone, _: &[EncodedChange], _: StoreRule) {
        self.1.lock().expect("no panic").push("stored again");
    }

    fn next_outcome(&mut self) -> Option<JournalOutcome> {
        self.0.lock().expect("no panic").pop()
    }
}

/// Signed zones and secondaries. A restart would serve the version that it replaced.
#[test]
fn a_rollback_without_a_new_serial_is_published_when_it_is_on_disk() {
    let mut bench = Bench::loaded(&["a."]);
    let (outcomes, calls) = (Arc::default(), Arc::default());
    bench.zones.set_journal(Box::new(ImageJournal(Arc::clone(&outcomes), Arc::clone(&calls))));
    let id = bench.id("a.");
    bench.zones.freeze(id).expect("it is served");
    let roll_back = |bench: &mut Bench, serial: u32| {
        let current = bench.zones.latest(id).expect("it is served");
        let rollback = Rollback { base: current.version(), version: current.with_serial(serial), change: None };
        let (sender, results) = channel();
        bench.zones.roll_back(id, rollback, Box::new(move |result| _ = sender.send(result)));
        results
    };
    let results = roll_back(&mut bench, 7);
    let second = roll_back(&mut bench, 8);
    assert_eq!(second.try_recv(), Ok(Err(ControlRefused::Changed)), "the first one is not published");
    let step = |bench: &mut Bench, outcome: Option<JournalOutcome>| {
        outcomes.lock().expect("no panic").extend(outcome);
        bench.zones.tick_journal(Instant::now());
        bench.step();
        (bench.serial("a."), results.try_recv().ok())
    };
    bench.zones.durable(5);
    assert_eq!(step(&mut bench, None), (Some(1), None), "its image is being written");
    assert_eq!(step(&mut bench, Some(JournalOutcome::Stored(id, 6))), (Some(1), None));
    bench.zones.durable(6);
    assert_eq!(step(&mut bench, None), (Some(7), Some(Ok(7))));
    assert!(!bench.zones.has_unsynced_changes());
    // The disk fails, or hangs before or after the image is in the journal.
    let failed = roll_back(&mut bench, 9);
    step(&mut bench, Some(JournalOutcome::Unavailable(id)));
    let refused = Ok(Err(ControlRefused::NotDurable));
    assert_eq!((failed.try_recv(), bench.serial("a.")), (refused, Some(7)));
    let calls = || std::mem::take(&mut *calls.lock().expect("no panic"));
    assert_eq!(calls(), ["withdrawn"], "the version served is stored: no image is needed");
    for (outcome, long_s, call) in [(None, 60, "withdrawn"), (Some(JournalOutcome::Stored(id, 7)), 4, "stored again")] {
        let late = roll_back(&mut bench, 10);
        step(&mut bench, outcome);
        bench.zones.refuse_overdue_changes(Instant::now() + Duration::from_secs(long_s / 2));
        assert!(late.try_recv().is_err(), "an image may take long");
        bench.zones.refuse_overdue_changes(Instant::now() + Duration::from_secs(long_s + 1));
        assert_eq!((late.try_recv(), calls()), (refused, vec![call]));
        bench.zones.durable(7);
        assert_eq!(step(&mut bench, None), (Some(7), None));
    }
    assert!(!bench.zones.has_unsynced_changes() && bench.zones.changes.latest.is_empty());
}

/// The primaries are asked from the serial that is served when the zone is thawed: they would confirm a serial that is not served any more.
#[test]
fn a_rollback_that_is_not_published_is_refused_when_the_zone_is_thawed() {
    for (stored, call) in [(None, "withdrawn"), (Some(6), "stored again")] {
        let mut bench = Bench::loaded(&["a."]);
        let (outcomes, calls) = (Arc::default(), Arc::default());
        bench.zones.set_journal(Box::new(ImageJournal(Arc::clone(&outcomes), Arc::clone(&calls))));
        let id = bench.id("a.");
        bench.zones.freeze(id).expect("it is served");
        let current = bench.zones.latest(id).expect("it is served");
        let rollback = Rollback { base: current.version(), version: current.with_serial(7), change: None };
        let (sender, results) = channel();
        bench.zones.roll_back(id, rollback, Box::new(move |result| _ = sender.send(result)));
        outcomes.lock().expect("no panic").extend(stored.map(|number| JournalOutcome::Stored(id, number)));
        bench.zones.tick_journal(Instant::now());
        bench.zones.thaw(id).expect("it is a zone");
        assert_eq!(results.try_recv(), Ok(Err(ControlRefused::Changed)), "{stored:?}");
        assert_eq!(*calls.lock().expect("no panic"), [call]);
        bench.zones.durable(6);
        bench.step();
        assert_eq!(bench.serial("a."), Some(1), "{stored:?}");
        assert!(!bench.zones.has_unsynced_changes() && bench.zones.changes.latest.is_empty());
    }
}
