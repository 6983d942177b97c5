//! Persistence on a simulated disk: images and changes in every order.

mod failing_disks;
mod restarts;

use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use zone::load::load_text;

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
    load_text(apex().as_ref(), text.as_bytes()).zone.expect("a valid zone")
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

/// The zone has become a primary: updates are appended after the state of its file, and a restart must know that they are updates.
#[test]
fn the_times_of_a_secondary_that_wait_do_not_replace_a_later_state_of_its_file() {
    let mut bench = Bench::new();
    bench.store(version(5));
    let of_secondary = Timers { stored_at_s: 1, expires_at_s: 5, source_serial: 5, ..Timers::default() };
    bench.persistence.set_timers(ZONE, apex().as_ref(), of_secondary);
    bench.persistence.set_timers(ZONE, apex().as_ref(), Timers::of_file(77, 5));
    bench.advance_to_due();
    bench.settle(true);
    let restored = bench.restart().restore().expect("it is stored");
    assert_eq!(restored.timers, Some(Timers::of_file(77, 5)));
}

/// A secondary that was read from its file, and then transferred, before its first image was written.
#[test]
fn the_times_of_a_secondary_replace_the_state_of_its_file_that_waits_for_the_image() {
    let mut bench = Bench::new();
    bench.begin_storing(version(1));
    bench.persistence.set_timers(ZONE, apex().as_ref(), Timers::of_file(77, 1));
    bench.replace(version(2));
    let of_secondary = Timers { stored_at_s: 1, expires_at_s: 5, source_serial: 2, ..Timers::default() };
    bench.persistence.set_timers(ZONE, apex().as_ref(), of_secondary);
    bench.settle(true);
    let restored = bench.restart().restore().expect("it is stored");
    assert_eq!((restored.version.serial(), restored.timers), (2, Some(of_secondary)));
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
