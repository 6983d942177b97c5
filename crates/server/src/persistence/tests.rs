//! Persistence on a simulated disk: images and changes in every order, a disk that fails, and what a restart finds.

use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use zone::load::{LoadOptions, load};
use zone::text::{ParseOptions, Source};

use super::*;
use crate::clock;
use crate::simulated_disk::{Random, SimulatedDisk};
use crate::storage::{Committer, ImageBase};
use crate::zones::journal::RestoredZone;
use crate::zones::work_pool::deferred;

const APEX: &str = "example.";
const ZONE: ZoneId = ZoneId { index: 3, generation: 7 };

/// What the registry and the storage thread do.
struct Bench {
    disk: SimulatedDisk,
    persistence: Persistence<SimulatedDisk>,
    committer: Committer<SimulatedDisk>,
    events: Receiver<JournalEvent>,
    durable: u64,
    restored: Vec<RestoredZone>,
    /// How many stored versions could not be read.
    unreadable: usize,
    outcomes: Vec<JournalOutcome>,
    /// The latest version.
    latest: Option<Zone>,
}

fn apex() -> Name {
    APEX.parse().expect("a name")
}

/// A version whose image has a file of its own.
fn version(serial: u32) -> Zone {
    version_with(serial, &format!("n{serial}"))
}

/// A version that has a record of this owner.
fn version_with(serial: u32, owner: &str) -> Zone {
    let text = format!("@ 60 SOA ns host {serial} 2 3 4 5\n@ 60 NS ns\nns 60 A 192.0.2.1\n{owner} 60 TXT \"x\"\n");
    let source = Source { name: "test".into(), bytes: text.as_bytes() };
    load(source, &LoadOptions::new(ParseOptions::new(apex().as_ref()))).zone.expect("a valid zone")
}

impl Bench {
    fn new() -> Bench {
        Bench::open(SimulatedDisk::default())
    }

    fn open(disk: SimulatedDisk) -> Bench {
        Bench::open_with(disk, CommitLimits::default())
    }

    fn open_with(disk: SimulatedDisk, commit_limits: CommitLimits) -> Bench {
        deferred::replace(Some(Vec::new()));
        clock::simulated::set(Some((Instant::now(), Duration::from_secs(1))));
        let limits = StoreLimits { inline_image_len: 50, ..StoreLimits::default() };
        let (store, recovery) = Store::open(disk.clone(), limits).expect("the disk can be read");
        assert!(recovery.damages.is_empty(), "{:?}", recovery.damages);
        let (sender, events) = channel();
        let sink = move |event| _ = sender.send(event);
        let (committer, storage) = Committer::new(store, commit_limits, journal_events(sink.clone()));
        let persistence = Persistence::new(storage, recovery, sink);
        let (restored, outcomes) = (Vec::new(), Vec::new());
        Bench { disk, persistence, committer, events, durable: 0, restored, unreadable: 0, outcomes, latest: None }
    }

    /// The process ends, and what it wrote stays.
    fn reopen(self) -> Bench {
        let disk = self.disk.clone();
        drop(self);
        disk.crash_in(None);
        Bench::open(disk)
    }

    /// The power fails.
    fn restart(self) -> Bench {
        let disk = self.disk.clone();
        drop(self);
        disk.lose_power(&mut Random::new(1));
        Bench::open(disk)
    }

    fn run_jobs(&mut self) {
        let jobs = deferred::replace(Some(Vec::new())).unwrap_or_default();
        jobs.into_iter().for_each(|job| job());
    }

    /// Handles events and outcomes until there are none; jobs of the pools run only with `runs_jobs`.
    fn settle(&mut self, runs_jobs: bool) {
        for _ in 0..20 {
            self.committer.step(clock::now());
            if runs_jobs {
                self.run_jobs();
            }
            for event in self.events.try_iter().collect::<Vec<_>>() {
                match event {
                    JournalEvent::Durable(number) => self.durable = number,
                    JournalEvent::Restored(zone, restored) => {
                        assert_eq!(zone, ZONE);
                        self.restored.extend(restored.map(|restored| *restored));
                        continue;
                    }
                    JournalEvent::Unreadable(zone) => {
                        assert_eq!(zone, ZONE);
                        self.unreadable += 1;
                        continue;
                    }
                    _ => (),
                }
                let latest = self.latest.clone().map(|version| LatestVersion { version, max_history_len: 1 << 20 });
                self.persistence.handle(event, latest);
            }
            while let Some(outcome) = self.persistence.next_outcome() {
                match outcome {
                    JournalOutcome::VersionNeeded(zone) => self.persistence.write_image(zone, self.latest.clone()),
                    outcome => self.outcomes.push(outcome),
                }
            }
        }
    }

    /// The zone is stored.
    fn store(&mut self, version: Zone) {
        self.replace(version);
        self.settle(true);
    }

    /// As [`Bench::store`], but the image is still being written in the end.
    fn begin_storing(&mut self, version: Zone) {
        self.replace(version);
        self.settle(false);
    }

    fn replace(&mut self, version: Zone) {
        self.persistence.replaced(ZONE, &version, &[], StoreRule::Always);
        self.latest = Some(version);
    }

    /// As a rollback does.
    fn store_version(&mut self, version: Zone) {
        assert_eq!(self.persistence.store_version(ZONE, &version), Readiness::Preparing);
        self.latest = Some(version);
    }

    /// Appends the change to a version.
    fn change(&mut self, to: Zone) -> Result<Option<u64>, JournalUnavailable> {
        let change = EncodedChange::between(self.latest.as_ref().expect("there is a version"), &to);
        self.latest = Some(to);
        self.persistence.append_change(ZONE, apex().as_ref(), &change)
    }

    fn restore(&mut self) -> Option<RestoredZone> {
        if !self.persistence.restore(ZONE, apex().as_ref(), u64::MAX) {
            return None;
        }
        self.settle(true);
        self.restored.pop()
    }

    /// Whether the metrics say that the journal cannot be written.
    fn is_reported_as_failing(&mut self) -> bool {
        let (reply, usage) = std::sync::mpsc::sync_channel(1);
        self.persistence.report_usage(reply);
        self.settle(true);
        usage.recv().expect("the storage thread reports it").is_failing
    }

    /// Restores the zone; returns its serial.
    fn restored_serial(&mut self) -> Option<u32> {
        self.restore().map(|restored| restored.version.serial())
    }

    fn advance_to_due(&mut self) {
        let due = self.persistence.due().expect("something is due later");
        self.advance(due - clock::now());
    }

    fn advance(&mut self, time: Duration) {
        clock::simulated::set(Some((clock::now() + time, clock::real() + time)));
        self.persistence.tick(clock::now());
    }
}

/// The real clock and threads again, for the next test on this thread.
impl Drop for Bench {
    fn drop(&mut self) {
        deferred::replace(None);
        clock::simulated::set(None);
    }
}

#[test]
fn a_change_waits_for_the_first_image_and_is_durable_when_it_is_reported() {
    let mut bench = Bench::new();
    bench.latest = Some(version(1));
    assert_eq!(bench.persistence.prepare(ZONE), Readiness::Preparing);
    bench.settle(true);
    assert_eq!(bench.outcomes, [JournalOutcome::Ready(ZONE)]);
    assert_eq!(bench.persistence.prepare(ZONE), Readiness::Ready);
    let number = bench.change(version(2)).expect("the disk works").expect("it is to be written");
    assert!(bench.durable < number);
    bench.settle(true);
    assert!(bench.durable >= number);
    let mut bench = bench.restart();
    let restored = bench.restore().expect("it was durable");
    assert_eq!((restored.version.serial(), restored.history.len()), (2, 1));
    assert!(bench.restore().is_none(), "it is restored once");
}

#[test]
fn changes_while_an_image_is_written_follow_it() {
    let mut bench = Bench::new();
    bench.begin_storing(version(1));
    assert_eq!(bench.change(version(2)), Ok(None), "the image is being written");
    bench.settle(true);
    let mut bench = bench.restart();
    assert_eq!(bench.restored_serial(), Some(2));
}

#[test]
fn a_version_that_replaces_the_one_being_written_needs_another_image() {
    let mut bench = Bench::new();
    bench.begin_storing(version(1));
    bench.store(version(9));
    let mut bench = bench.restart();
    assert_eq!(bench.restored_serial(), Some(9));
}

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

/// A rollback. Whenever the machine crashes, what was reported as durable is what a restart finds.
#[test]
fn a_stored_version_is_there_after_a_crash_once_its_number_is_durable() {
    let mut reported = 0;
    for crash_in in 1..40 {
        let mut bench = Bench::new();
        bench.store(version(2));
        bench.begin_storing(version(3));
        bench.disk.crash_in(Some(crash_in));
        bench.store_version(version(1));
        bench.settle(true);
        let number = bench.outcomes.iter().find_map(|outcome| match outcome {
            JournalOutcome::Stored(zone, number) => Some(*number).filter(|_| *zone == ZONE),
            _ => None,
        });
        let is_durable = number.is_some_and(|number| bench.durable >= number);
        let mut bench = bench.restart();
        let serial = bench.restored_serial();
        assert!(
            serial == Some(1) || (!is_durable && matches!(serial, Some(2 | 3))),
            "{crash_in}: {serial:?}, durable {is_durable}"
        );
        reported += u32::from(is_durable);
    }
    assert!(reported > 0, "the machine never crashed so late");
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

/// A restart would serve the old version, and not read the file, which would look unchanged.
#[test]
fn the_state_of_a_file_is_not_stored_before_the_version_that_was_read_from_it() {
    for is_stopping in [false, true] {
        let mut bench = Bench::new();
        bench.store(version(1));
        bench.begin_storing(version(9));
        bench.persistence.set_timers(ZONE, apex().as_ref(), Timers::of_file(77, 9));
        if is_stopping {
            assert!(bench.persistence.flush(), "an image is being written");
        } else {
            bench.advance_to_due();
        }
        bench.settle(false);
        let mut restarted = bench.restart();
        let restored = restarted.restore().expect("it is stored");
        assert_eq!((restored.version.serial(), restored.timers), (1, None), "{is_stopping}");
    }
    let mut bench = Bench::new();
    bench.store(version(1));
    bench.begin_storing(version(9));
    bench.persistence.set_timers(ZONE, apex().as_ref(), Timers::of_file(77, 9));
    bench.settle(true);
    let restored = bench.restart().restore().expect("it is stored");
    assert_eq!((restored.version.serial(), restored.timers), (9, Some(Timers::of_file(77, 9))));
}

/// As above: the version that is being written is not the one that was read from the file.
#[test]
fn the_state_of_a_file_waits_for_its_version_while_an_earlier_one_is_written() {
    let mut bench = Bench::new();
    bench.begin_storing(version(1));
    bench.replace(version(9));
    bench.persistence.set_timers(ZONE, apex().as_ref(), Timers::of_file(77, 9));
    bench.run_jobs();
    bench.settle(false);
    let mut bench = bench.restart();
    let restored = bench.restore().expect("it is stored");
    assert_eq!((restored.version.serial(), restored.timers), (1, None));
}

/// RFC 1034 4.3.5: without its times, a secondary counts as expired at the next start. The process may end between any two writes, and
/// within one.
#[test]
fn a_secondary_is_never_stored_without_its_times() {
    let timers = Timers { stored_at_s: 1, expires_at_s: 5, source_serial: 1, ..Timers::default() };
    let (mut stored, mut lost) = (0, 0);
    for (max_batch, crash_in) in [1, 4096].into_iter().flat_map(|max_batch| (1..20).map(move |at| (max_batch, at))) {
        let limits = CommitLimits { max_batch, ..CommitLimits::default() };
        let mut bench = Bench::open_with(SimulatedDisk::default(), limits);
        bench.disk.crash_in(Some(crash_in));
        bench.replace(version(1));
        bench.persistence.set_timers(ZONE, apex().as_ref(), timers);
        bench.settle(true);
        match bench.reopen().restore() {
            Some(restored) => {
                assert_eq!(restored.timers, Some(timers), "max_batch {max_batch}, crash_in {crash_in}");
                stored += 1;
            }
            None => lost += 1,
        }
    }
    assert!(stored > 0 && lost > 0, "{stored} {lost}");
}

#[test]
fn timers_are_written_with_the_image_and_later_in_batches() {
    let mut bench = Bench::new();
    let timers = |expires_at_s| Timers { stored_at_s: 1, expires_at_s, source_serial: 1, ..Timers::default() };
    bench.replace(version(1));
    bench.persistence.set_timers(ZONE, apex().as_ref(), timers(5));
    bench.settle(true);
    bench.persistence.set_timers(ZONE, apex().as_ref(), timers(6));
    bench.advance_to_due();
    bench.settle(true);
    let mut bench = bench.restart();
    let restored = bench.restore().and_then(|restored| restored.timers).expect("they are stored");
    assert_eq!(restored.expires_at_s, 6);
}

#[test]
fn the_number_of_images_in_progress_is_bounded() {
    let mut images = PendingImages::default();
    (0..200).for_each(|index| images.request(ZoneId { index, generation: 0 }));
    let begun: Vec<ZoneId> = std::iter::from_fn(|| images.next()).collect();
    assert!((1..200).contains(&begun.len()), "{}", begun.len());
    assert!(images.next().is_none() && !images.is_empty());
    assert!(images.remove(begun[0]).is_none(), "nothing was written of it");
    assert_eq!(images.next().map(|zone| zone.index as usize), Some(begun.len()));
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
