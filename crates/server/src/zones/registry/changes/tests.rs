//! Changes of zones: what delays them, what they delay, and in which order they are published.

use std::net::IpAddr;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use wire::{Name, NameRef, Rtype};
use zone::CheckMode;
use zone::change::{ChangeRules, ChangeSet};

use super::*;
use crate::config::ZonePolicy;
use crate::report::Change;
use crate::zones::journal::{Readiness, ZoneJournal};
use crate::zones::registry::ChangeHooks;
use crate::zones::registry::tests::Bench;

pub(super) const RULES: ChangeRules = ChangeRules { check_mode: CheckMode::Lenient, nsec3_max_iterations: 100 };

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

/// The RDATA of the SOA records of these tests.
fn soa(serial: u32) -> Vec<u8> {
    let numbers = [serial, 1, 1, 1, 1].map(u32::to_be_bytes).concat();
    [b"\x02ns\x07invalid\0\x04host\x07invalid\0", &numbers[..]].concat()
}

/// Adds `records` addresses, or gives them another TTL, and replaces the serial.
pub(super) fn change_set(apex: &str, from: u32, to: u32, records: u32) -> ChangeSet {
    let apex = name(apex);
    let mut change = ChangeSet::new(apex.as_ref());
    change.remove(apex.as_ref(), Rtype::SOA, &soa(from)).expect("the apex");
    change.add(apex.as_ref(), Rtype::SOA, 60, &soa(to)).expect("the apex");
    for record in 0..records {
        let owner = name(&format!("h{record}.{apex}"));
        change.add(owner.as_ref(), Rtype::A, to, &[192, 0, 2, 1]).expect("below the apex");
    }
    change
}

pub(super) type Results = Receiver<Result<ChangedZone, ChangeRefusal>>;

impl Bench {
    /// Begins a change, which is not published before the next step.
    fn change(&mut self, apex: &str, (from, to): (u32, u32), records: u32, order: PublishOrder) -> Results {
        let (sender, results) = channel();
        let done = Box::new(move |result| _ = sender.send(result));
        let (zone, change) = (self.id(apex), ProposedChange::Records(Box::new(change_set(apex, from, to, records))));
        self.zones.change(ZoneChange { zone, change, rules: RULES, order, done });
        results
    }

    /// A registry whose zones are loaded with serial 1.
    pub(super) fn loaded(names: &[&str]) -> Bench {
        let zones: Vec<(&str, &str)> = names.iter().map(|name| (*name, *name)).collect();
        let mut bench = Bench::new(&zones);
        names.iter().for_each(|name| bench.gate.open(name, 1));
        bench.run_until(|bench| bench.zones.is_idle());
        bench
    }

    pub(super) fn step(&mut self) {
        self.zones.step(Instant::now());
    }

    fn records(&self, apex: &str) -> u64 {
        let served = self.zones.publisher.current();
        let zone = served.zones.get(name(apex).wire()).and_then(|served| served.zone().cloned());
        zone.expect("it is served").counts().records
    }
}

/// Numbers what it is given; the test says what is on disk.
#[derive(Default)]
pub(super) struct TestJournal(u64);

impl ZoneJournal for TestJournal {
    fn append_change(
        &mut self,
        _: ZoneId,
        _: NameRef<'_>,
        _: &EncodedChange,
    ) -> Result<Option<u64>, JournalUnavailable> {
        self.0 += 1;
        Ok(Some(self.0))
    }
}

/// Remembers the serials that were published.
struct TestHooks(Arc<Mutex<Vec<u32>>>);

impl ChangeHooks for TestHooks {
    fn published(&mut self, _: ZoneId, version: &Zone, _: &Arc<ZonePolicy>, _: &[IpAddr]) {
        self.0.lock().expect("no panic").push(version.serial());
    }
}

#[test]
fn a_change_is_published_by_the_next_step_whatever_else_goes_on() {
    let names: Vec<String> = (0..5000).map(|number| format!("z{number}.")).collect();
    let mut all: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), name.as_str())).collect();
    all.push(("big.", "big"));
    all.push(("mine.", "mine"));
    let mut bench = Bench::new(&all[5000..]);
    bench.gate.open("mine", 1);
    bench.run_until(|bench| bench.serial("mine.") == Some(1));
    // The read of `big.` never ends; every reload has 5,000 more zones than one step compares, and removes them again.
    for reload in 0..100 {
        let zones = if reload % 2 == 0 { &all[..] } else { &all[5000..] };
        let mut reader = crate::config::reader::ConfigReader::default();
        zones.iter().for_each(|(name, file)| reader.add_argument(name.parse().expect("a name"), Path::new(file)));
        bench.zones.begin_configure(reader.finish().expect("no mistakes").zones);
        bench.step();
        assert!(bench.zones.configuring.is_some(), "the reload takes several steps");
        let results = bench.change("mine.", (reload + 1, reload + 2), 1, PublishOrder::AfterSync);
        bench.step();
        assert_eq!(bench.serial("mine."), Some(reload + 2));
        let changed = results.try_recv().expect("it is reported").expect("it is valid");
        assert_eq!(changed, ChangedZone { old_serial: reload + 1, serial: reload + 2 });
        while bench.zones.configuring.is_some() {
            bench.step();
        }
        assert_eq!(bench.serial("mine."), Some(reload + 2), "the configuration does not bring back an old version");
    }
    assert_eq!(bench.serial("big."), Some(0));
}

#[test]
fn updates_are_published_when_they_are_on_disk_and_build_on_each_other() {
    let mut bench = Bench::loaded(&["a.", "b."]);
    let published = Arc::default();
    bench.zones.set_journal(Box::new(TestJournal::default()));
    bench.zones.set_hooks(Box::new(TestHooks(Arc::clone(&published))));
    let changes: Vec<Results> =
        (1..4).map(|from| bench.change("a.", (from, from + 1), from, PublishOrder::AfterSync)).collect();
    let at_once = bench.change("b.", (1, 2), 0, PublishOrder::AtOnce);
    bench.step();
    assert_eq!((bench.serial("a."), bench.serial("b.")), (Some(1), Some(2)));
    assert!(at_once.try_recv().is_ok() && changes.iter().all(|change| change.try_recv().is_err()));
    bench.zones.durable(2);
    bench.step();
    assert_eq!((bench.serial("a."), bench.records("a.")), (Some(3), 4));
    assert!(changes[0].try_recv().is_ok() && changes[1].try_recv().is_ok() && changes[2].try_recv().is_err());
    bench.zones.durable(3);
    bench.step();
    assert_eq!((bench.serial("a."), bench.records("a.")), (Some(4), 5));
    assert_eq!(*published.lock().expect("no panic"), [2, 3, 3, 4]);
    assert!(bench.zones.changes.latest.is_empty() && bench.zones.changes.unsynced.is_empty());
}

/// Never ready, as on a disk that hangs.
struct HangingJournal;

impl ZoneJournal for HangingJournal {
    fn prepare(&mut self, _: ZoneId) -> Readiness {
        Readiness::Preparing
    }
}

#[test]
fn changes_that_wait_for_the_disk_for_too_long_are_refused() {
    let mut bench = Bench::loaded(&["a.", "b."]);
    bench.zones.set_journal(Box::new(TestJournal::default()));
    let appended = bench.change("a.", (1, 2), 0, PublishOrder::AfterSync);
    bench.zones.set_journal(Box::new(HangingJournal));
    let waiting = bench.change("b.", (1, 2), 0, PublishOrder::AfterSync);
    assert!(bench.zones.has_unsynced_changes());
    bench.zones.refuse_overdue_changes(Instant::now());
    assert!(appended.try_recv().is_err() && waiting.try_recv().is_err());
    bench.zones.refuse_overdue_changes(Instant::now() + Duration::from_secs(5));
    // What is in the journal may be published later, what is not is not.
    assert!(matches!(appended.try_recv(), Ok(Err(ChangeRefusal::Overdue))));
    assert!(matches!(waiting.try_recv(), Ok(Err(ChangeRefusal::NotDurable))));
    assert!(bench.zones.changes.unprepared.is_empty());
}

/// RFC 1034 4.3.5: an expired zone is not served.
#[test]
fn a_rebuild_does_not_bring_back_a_zone_that_has_expired() {
    let mut bench = Bench::loaded(&["a."]);
    let id = bench.id("a.");
    bench.zones.rebuild(id);
    assert_eq!(bench.zones.changes.work.len(), 1);
    bench.zones.expire(id);
    bench.step();
    assert_eq!(bench.serial("a."), Some(0));
    let done = bench.work.recv_timeout(Duration::from_secs(10)).expect("it is rebuilt");
    bench.zones.finish_work(done);
    bench.step();
    assert_eq!(bench.serial("a."), Some(0), "SERVFAIL, as before");
}

#[test]
fn changes_of_a_replaced_or_removed_zone_are_refused() {
    let mut bench = Bench::loaded(&["a.", "b."]);
    bench.zones.set_journal(Box::new(TestJournal::default()));
    let [replaced, removed] = ["a.", "b."].map(|apex| bench.change(apex, (1, 2), 0, PublishOrder::AfterSync));
    let (a, b) = (bench.id("a."), bench.id("b."));
    let version = bench.zones.latest(b).expect("it is served").clone();
    let other = bench.zones.latest(a).expect("it is served").clone();
    assert_eq!((version.serial(), other.serial()), (2, 2), "later changes build on unpublished ones");
    assert!(bench.zones.replace(
        a,
        bench.zones.served(a).and_then(|served| served.zone()).expect("loaded").clone(),
        &[]
    ));
    assert!(bench.zones.remove(b) && !bench.zones.remove(b));
    bench.zones.durable(9);
    bench.step();
    assert!(matches!(replaced.try_recv(), Ok(Err(ChangeRefusal::Replaced))));
    assert!(matches!(removed.try_recv(), Ok(Err(ChangeRefusal::NotServed))));
    assert_eq!((bench.serial("a."), bench.serial("b.")), (Some(1), None));
}

#[test]
fn a_large_change_is_computed_aside_and_later_ones_follow_it() {
    let mut bench = Bench::loaded(&["a.", "b."]);
    let large = bench.change("a.", (1, 2), 2000, PublishOrder::AfterSync);
    let after = bench.change("a.", (2, 3), 1, PublishOrder::AfterSync);
    let invalid = bench.change("a.", (9, 10), 1, PublishOrder::AfterSync);
    let other = bench.change("b.", (1, 2), 1, PublishOrder::AfterSync);
    bench.step();
    assert_eq!((bench.serial("a."), bench.serial("b.")), (Some(1), Some(2)));
    assert!(other.try_recv().is_ok());
    bench.run_until(|bench| bench.serial("a.") == Some(3));
    assert_eq!(bench.records("a."), 2002);
    let results = [large, after, invalid].map(|results| results.try_recv().expect("it is reported"));
    assert!(matches!(results, [Ok(_), Ok(_), Err(ChangeRefusal::Invalid(_))]));
}

#[test]
fn a_change_that_is_computed_when_its_zone_is_frozen_is_refused() {
    let mut bench = Bench::loaded(&["a."]);
    let large = bench.change("a.", (1, 2), 2000, PublishOrder::AfterSync);
    bench.zones.freeze(bench.id("a.")).expect("it is served");
    bench.run_until(|bench| bench.zones.changes.work.is_empty());
    bench.step();
    assert!(matches!(large.try_recv(), Ok(Err(ChangeRefusal::Frozen))));
    assert_eq!(bench.serial("a."), Some(1));
}

/// A delegation of one record occludes, and uncovers, all names below it: the writer does not visit them.
#[test]
fn a_zone_cut_above_many_names_appears_and_vanishes_aside() {
    let mut bench = Bench::loaded(&["a.", "b."]);
    let (id, cut) = (bench.id("a."), name("a.a."));
    let mut names = change_set("a.", 1, 2, 0);
    for number in 0..2000 {
        let owner = name(&format!("h{number}.a.a."));
        names.add(owner.as_ref(), Rtype::A, 60, &[192, 0, 2, 1]).expect("below the apex");
    }
    let applied = bench.zones.latest(id).expect("loaded").apply(names, RULES).expect("it fits");
    assert!(bench.zones.replace(id, applied.zone, &[]));
    bench.step();
    for serial in [2, 3] {
        let mut change = change_set("a.", serial, serial + 1, 0);
        match serial {
            2 => change.add(cut.as_ref(), Rtype::NS, 60, b"\x02ns\0"),
            _ => change.remove(cut.as_ref(), Rtype::NS, b"\x02ns\0"),
        }
        .expect("below the apex");
        let (sender, results) = channel();
        let done = Box::new(move |result| _ = sender.send(result));
        let (change, order) = (ProposedChange::Records(Box::new(change)), PublishOrder::AfterSync);
        bench.zones.change(ZoneChange { zone: id, change, rules: RULES, order, done });
        assert!(matches!(bench.zones.changes.work[&id].kind, WorkKind::Apply { .. }), "the pool applies it");
        let other = bench.change("b.", (serial - 1, serial), 1, PublishOrder::AfterSync);
        bench.step();
        assert_eq!((bench.serial("a."), bench.serial("b.")), (Some(serial), Some(serial)));
        assert!(other.try_recv().is_ok_and(|result| result.is_ok()));
        bench.run_until(|bench| bench.serial("a.") == Some(serial + 1));
        assert!(results.try_recv().is_ok_and(|result| result.is_ok()));
        let occluded =
            bench.zones.latest(id).expect("it is served").nodes().filter(|(_, node)| node.is_occluded()).count();
        assert_eq!(occluded, if serial == 2 { 2000 } else { 0 });
    }
}

#[test]
fn a_zone_is_rebuilt_while_it_changes() {
    let mut bench = Bench::loaded(&["a."]);
    let mut serial = 1;
    let needs_rebuild = |bench: &Bench| bench.zones.latest(bench.id("a.")).is_some_and(Zone::needs_rebuild);
    let mut change = |bench: &mut Bench, records| {
        let results = bench.change("a.", (serial, serial + 1), records, PublishOrder::AfterSync);
        serial += 1;
        bench.step();
        assert!(results.try_recv().is_ok_and(|result| result.is_ok()), "a change does not wait for the rebuild");
        assert_eq!(bench.serial("a."), Some(serial));
    };
    for _ in 0..100 {
        change(&mut bench, 450);
        if needs_rebuild(&bench) {
            break;
        }
    }
    assert!(needs_rebuild(&bench) && bench.zones.changes.work.len() == 1);
    // More than the writer replays itself.
    (0..40).for_each(|_| change(&mut bench, 1));
    bench.run_until(|bench| bench.zones.changes.work.is_empty());
    assert!(!needs_rebuild(&bench), "the rebuilt version is served");
    assert_eq!((bench.serial("a."), bench.records("a.")), (Some(serial), 452));
}

#[test]
fn a_zone_is_rebuilt_while_changes_are_transferred() {
    let mut bench = Bench::loaded(&["a."]);
    let (id, mut serial) = (bench.id("a."), 1);
    let needs_rebuild = |bench: &Bench| bench.zones.latest(id).is_some_and(Zone::needs_rebuild);
    let mut transfer = |bench: &mut Bench, records| {
        let base = bench.zones.latest(id).expect("it is served").clone();
        let applied = base.apply(change_set("a.", serial, serial + 1, records), RULES).expect("it fits");
        serial += 1;
        assert!(bench.zones.serve_transferred(id, Some(&base), applied.zone, &[applied.change]));
        bench.step();
        assert_eq!(bench.serial("a."), Some(serial));
    };
    for _ in 0..100 {
        transfer(&mut bench, 450);
        if needs_rebuild(&bench) {
            break;
        }
    }
    assert_eq!(bench.zones.changes.work.len(), 1, "the zone is rebuilt");
    (0..40).for_each(|_| transfer(&mut bench, 1));
    bench.run_until(|bench| bench.zones.changes.work.is_empty());
    assert!(!needs_rebuild(&bench), "the rebuilt version is served");
    assert_eq!((bench.serial("a."), bench.records("a.")), (Some(serial), 452));
}

#[test]
fn a_file_read_before_a_change_replaces_it_only_with_a_later_serial() {
    for (read, served, change) in [(5, 9, Change::Kept), (12, 12, Change::Changed)] {
        let mut bench = Bench::loaded(&["a."]);
        bench.configure(&[("a.", "a.")]);
        bench.change("a.", (1, 9), 1, PublishOrder::AfterSync);
        bench.gate.open("a.", read);
        let reports = bench.run_until(|bench| bench.zones.is_idle());
        assert_eq!((bench.serial("a."), reports[0].change), (Some(served), change));
    }
}

/// The serials that were announced, each with the one that was published then.
type Announced = Arc<Mutex<Vec<(u32, Option<u32>)>>>;

struct AnnouncementHooks {
    subscriber: answer::Subscriber<answer::Served>,
    announced: Announced,
}

impl ChangeHooks for AnnouncementHooks {
    fn published(&mut self, _: ZoneId, version: &Zone, _: &Arc<ZonePolicy>, _: &[IpAddr]) {
        let served = self.subscriber.refresh();
        let zone = served.zones.get(version.apex().wire()).and_then(|served| served.zone());
        self.announced.lock().expect("no panic").push((version.serial(), zone.map(Zone::serial)));
    }
}

/// An operator may ask for it between a change and its publication.
#[test]
fn a_version_is_not_announced_again_before_it_is_published() {
    let mut bench = Bench::new(&[]);
    let announced = Announced::default();
    let subscriber = bench.zones.publisher.subscribe();
    bench.zones.set_hooks(Box::new(AnnouncementHooks { subscriber, announced: Arc::clone(&announced) }));
    let take = || std::mem::take(&mut *announced.lock().expect("no panic"));
    let mut reader = crate::config::reader::ConfigReader::default();
    reader.add_argument(name("a."), Path::new("a"));
    let mut zones = reader.finish().expect("no mistakes").zones;
    let policy = &mut zones[0].source.policy;
    *policy = Arc::new(ZonePolicy { notify_ns: true, ..ZonePolicy::clone(policy) });
    bench.zones.configure(zones);
    bench.step();
    bench.gate.open("a", 1);
    let loaded = bench.results.recv_timeout(Duration::from_secs(10)).expect("it is read");
    bench.zones.apply(loaded);
    let id = bench.id("a.");
    assert_eq!(bench.zones.notify_again(id), Ok(()));
    bench.run_until(|bench| bench.serial("a.") == Some(1));
    assert_eq!(take(), [(1, Some(1)); 2]);
    bench.change("a.", (1, 2), 0, PublishOrder::AtOnce);
    assert_eq!(bench.zones.notify_again(id), Ok(()));
    bench.step();
    assert_eq!(take(), [(2, Some(2)); 2]);
}

/// RFC 1996 3.11: a secondary asks for the serial as soon as it is notified.
#[test]
fn a_version_is_announced_once_and_not_before_it_is_published() {
    let mut bench = Bench::new(&[("a.", "a"), ("b.", "b")]);
    let announced = Announced::default();
    let subscriber = bench.zones.publisher.subscribe();
    bench.zones.set_hooks(Box::new(AnnouncementHooks { subscriber, announced: Arc::clone(&announced) }));
    let take = || std::mem::take(&mut *announced.lock().expect("no panic"));
    // The read of `b.` goes on, so that `a.` waits for a batch.
    bench.gate.open("a", 1);
    bench.run_until(|bench| bench.serial("a.") == Some(1));
    assert_eq!(take(), [(1, Some(1))]);
    bench.gate.open("b", 1);
    bench.run_until(|bench| bench.zones.is_idle());
    assert_eq!(take(), [(1, Some(1))]);
    for file in ["a", "b"] {
        bench.gate.open(file, 2);
    }
    bench.configure(&[("a.", "a"), ("b.", "b")]);
    bench.run_until(|bench| bench.zones.is_idle());
    assert_eq!(take(), [(2, Some(2)); 2]);
    let id = bench.id("a.");
    let version = bench.zones.latest(id).cloned().expect("it is served");
    bench.zones.expire(id);
    bench.step();
    bench.zones.refreshed(id, u32::MAX);
    bench.zones.publish();
    assert_eq!((bench.serial("a."), take()), (Some(2), vec![]), "secondaries know the version that is back");
    assert!(bench.zones.serve_transferred(id, Some(&version), version.clone(), &[]));
    bench.step();
    assert_eq!(take(), [(2, Some(2))]);
}
