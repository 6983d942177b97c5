//! The registry with reads that end when the test wants them to.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use wire::Name;

use super::*;
use crate::config::reader::ConfigReader;
use crate::config::{ConfiguredKey, RemoteServer, ZoneConfig, ZonePolicy};
use crate::report::Change;
use crate::storage::Timers;
use crate::zones::change_detection::Fingerprint;
use crate::zones::journal::{JournalEvent, RestoredZone};
use crate::zones::load::LoadedZone;
use crate::zones::read_pool;
use crate::zones::template_set::TemplateSource;
use crate::zones::zone_entry::Acls;
use crate::zones::zone_origin::ZoneOrigin;

const SOON: Duration = Duration::from_secs(10);

/// What the reads wait for: by file, the serials that they will have read.
#[derive(Default)]
pub(super) struct Gate {
    serials: Mutex<HashMap<PathBuf, Vec<u32>>>,
    opened: Condvar,
    begun: Mutex<Vec<PathBuf>>,
}

impl Gate {
    /// Lets one read of a file end.
    pub(super) fn open(&self, file: &str, serial: u32) {
        self.serials.lock().expect("no panic").entry(file.into()).or_default().push(serial);
        self.opened.notify_all();
    }

    fn wait(&self, file: &Path) -> u32 {
        self.begun.lock().expect("no panic").push(file.to_owned());
        let mut serials = self.serials.lock().expect("no panic");
        loop {
            if let Some(serial) = serials.get_mut(file).and_then(Vec::pop) {
                return serial;
            }
            serials = self.opened.wait(serials).expect("no panic");
        }
    }

    pub(super) fn begun(&self, file: &str) -> usize {
        self.begun.lock().expect("no panic").iter().filter(|begun| *begun == Path::new(file)).count()
    }
}

pub(super) fn loaded(apex: NameRef<'_>, serial: u32) -> LoadedZone {
    let text = format!("@ 60 SOA ns.invalid. host.invalid. {serial} 1 1 1 1\n@ 60 NS ns.invalid.\n");
    let zone = zone::load::load_text(apex, text.as_bytes()).zone;
    assert!(zone.is_some(), "{text}");
    LoadedZone {
        change: None,
        zone,
        is_changed: true,
        file_serial: Some(serial),
        findings: Vec::new(),
        fingerprint: Fingerprint::NONE,
        includes: Box::default(),
    }
}

pub(super) struct Bench {
    pub(super) zones: ZoneRegistry,
    pub(super) results: Receiver<FinishedRead>,
    pub(super) work: Receiver<FinishedWork>,
    pub(super) gate: Arc<Gate>,
}

impl Bench {
    /// A registry of these zones, each with the name of its file.
    pub(super) fn new(zones: &[(&str, &str)]) -> Bench {
        let (sender, results) = channel();
        let gate = Arc::new(Gate::default());
        let at = gate.clone();
        let read =
            move |task: &ReadTask<LoadJob>, _| Ok(LoadResult::Loaded(loaded(task.job.apex(), at.wait(&task.file))));
        let (work_sender, work) = channel();
        let zones_of = ZoneRegistry::with_reader(
            &Server::default(),
            read,
            move |done| done.into_iter().for_each(|done| _ = sender.send(done)),
            move |done| _ = work_sender.send(done),
        );
        let mut bench = Bench { zones: zones_of.expect("random numbers"), results, work, gate };
        bench.configure(zones);
        bench
    }

    /// Returns what [`ZoneRegistry::is_settled`] wants to know.
    pub(super) fn configure(&mut self, zones: &[(&str, &str)]) -> u64 {
        let mut reader = ConfigReader::default();
        zones.iter().for_each(|(name, file)| reader.add_argument(name.parse().expect("a name"), Path::new(file)));
        self.zones.configure(reader.finish().expect("no mistakes").zones);
        self.zones.step(Instant::now());
        self.zones.latest_reload()
    }

    /// The id of a configured zone.
    pub(super) fn id(&self, apex: &str) -> ZoneId {
        let apex: Name = apex.parse().expect("a name");
        self.zones.find(apex.as_ref()).expect("it is configured")
    }

    /// Hands over the stored version of a configured zone.
    pub(super) fn restore(&mut self, apex: &str, serial: u32, timers: Option<Timers>) -> ZoneId {
        let (id, apex): (ZoneId, Name) = (self.id(apex), apex.parse().expect("a name"));
        let version = loaded(apex.as_ref(), serial).zone.expect("a version");
        let restored = RestoredZone { version, history: Vec::new(), timers };
        self.zones.handle_journal(JournalEvent::Restored(id, Some(Box::new(restored))));
        id
    }

    /// Does what the writer does until `condition` holds; returns what became of zones meanwhile.
    pub(super) fn run_until(&mut self, condition: impl Fn(&Bench) -> bool) -> Vec<ZoneReport> {
        let (begin, mut reports) = (Instant::now(), Vec::new());
        while !condition(self) {
            assert!(begin.elapsed() < SOON, "too long");
            self.zones.check_progress(Instant::now());
            if let Ok(done) = self.results.recv_timeout(Duration::from_millis(10)) {
                reports.extend(self.zones.apply(done));
            }
            if let Ok(done) = self.work.try_recv() {
                self.zones.finish_work(done);
            }
            self.zones.step(Instant::now());
        }
        reports
    }

    /// Reads that wait now are stuck from now on.
    fn let_time_pass(&mut self) -> Vec<String> {
        let later = Instant::now() + 2 * read_pool::STUCK_AFTER;
        self.zones.check_progress(later).iter().map(|task| task.job.apex().to_string()).collect()
    }

    /// What is published of a zone: its serial, 0 for SERVFAIL.
    pub(super) fn serial(&self, apex: &str) -> Option<u32> {
        let apex: Name = apex.parse().expect("a name");
        let served = self.zones.publisher.current();
        served.zones.get(apex.wire()).map(|served| served.zone().map_or(0, Zone::serial))
    }

    fn stuck(&self, asked: u64) -> Vec<String> {
        self.zones.stuck_zones(asked).map(|report| report.zone).collect()
    }
}

#[test]
fn a_read_that_blocks_delays_no_other_zone() {
    let names: Vec<String> = (0..40).map(|number| format!("z{number}.")).collect();
    let zones: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), name.as_str())).collect();
    let mut bench = Bench::new(&zones);
    let asked = bench.zones.latest_reload();
    names[1..].iter().for_each(|name| bench.gate.open(name, 7));
    bench.run_until(|bench| names[1..].iter().all(|name| bench.serial(name) == Some(7)));
    assert_eq!((bench.serial("z0."), bench.zones.is_complete(asked)), (Some(0), false));
    assert_eq!(bench.let_time_pass(), ["z0."]);
    assert!(bench.zones.is_complete(asked) && !bench.zones.is_idle());
    assert_eq!(bench.stuck(asked), ["z0."]);
    assert!(bench.let_time_pass().is_empty(), "it is reported once");
    bench.gate.open("z0.", 8);
    let reports = bench.run_until(|bench| bench.zones.is_idle());
    assert_eq!((bench.serial("z0."), reports[0].change), (Some(8), Change::Added));
}

#[test]
fn a_reload_does_not_wait_for_what_is_stuck_and_does_not_read_it_twice() {
    let zones = [("a.", "a"), ("b.", "b")];
    let mut bench = Bench::new(&zones);
    bench.gate.open("b", 1);
    bench.run_until(|bench| bench.serial("b.") == Some(1));
    bench.let_time_pass();
    bench.gate.open("b", 2);
    let asked = bench.configure(&zones);
    // Not by way of `run_until`, whose look at the clock would find that nothing is stuck yet.
    let done = bench.results.recv_timeout(SOON).expect("b is read");
    bench.zones.apply(done);
    bench.zones.step(Instant::now());
    assert!(bench.zones.is_complete(asked));
    assert_eq!((bench.serial("b."), bench.stuck(asked).len(), bench.gate.begun("a")), (Some(2), 1, 1));
    // When it goes on at last it is looked at once more, for the reload that came meanwhile.
    bench.gate.open("a", 3);
    bench.run_until(|bench| bench.gate.begun("a") == 2);
    bench.gate.open("a", 4);
    bench.run_until(|bench| bench.zones.is_idle());
    assert_eq!((bench.serial("a."), bench.gate.begun("a")), (Some(4), 2));
}

#[test]
fn a_reload_waits_for_a_look_that_began_after_it() {
    let zones = [("a.", "a")];
    let mut bench = Bench::new(&zones);
    let first = bench.zones.latest_reload();
    let second = bench.configure(&zones);
    bench.gate.open("a", 1);
    bench.run_until(|bench| bench.gate.begun("a") == 2);
    assert!(bench.zones.is_complete(first) && !bench.zones.is_complete(second));
    let third = bench.configure(&zones);
    bench.gate.open("a", 2);
    bench.run_until(|bench| bench.gate.begun("a") == 3);
    assert!(bench.zones.is_complete(second) && !bench.zones.is_complete(third));
    bench.gate.open("a", 3);
    bench.run_until(|bench| bench.zones.is_complete(third));
}

#[test]
fn what_was_read_too_late_is_not_served() {
    let mut bench = Bench::new(&[("gone.", "gone"), ("moved.", "old"), ("stays.", "stays")]);
    bench.run_until(|bench| bench.gate.begun("gone") + bench.gate.begun("old") == 2);
    let asked = bench.configure(&[("moved.", "new"), ("stays.", "stays")]);
    bench.gate.open("new", 2);
    bench.gate.open("stays", 1);
    bench.run_until(|bench| bench.serial("moved.") == Some(2));
    bench.gate.open("gone", 1);
    bench.gate.open("old", 1);
    bench.gate.open("stays", 1);
    bench.run_until(|bench| bench.zones.is_idle());
    assert_eq!((bench.serial("moved."), bench.serial("gone.")), (Some(2), None));
    assert!(bench.zones.is_complete(asked));
}

#[test]
fn zones_and_reloads_come_and_go_while_reads_are_under_way() {
    let mut bench = Bench::new(&[("a.", "a"), ("b.", "b")]);
    let first = bench.zones.latest_reload();
    let second = bench.configure(&[("b.", "b"), ("c.", "c"), ("d.", "d")]);
    for (file, serial) in [("a", 1), ("b", 1), ("b", 1), ("c", 1), ("d", 1)] {
        bench.gate.open(file, serial);
    }
    bench.run_until(|bench| bench.zones.is_idle());
    assert!(bench.zones.is_complete(first) && bench.zones.is_complete(second));
    let served = ["a.", "b.", "c.", "d."].map(|apex| bench.serial(apex));
    assert_eq!((served, bench.zones.counts()), ([None, Some(1), Some(1), Some(1)], (3, 0)));
}

/// Reports these keys as changed, and the zones that are configured.
struct KeyHooks(Vec<Name>, Arc<Mutex<Vec<String>>>);

impl ChangeHooks for KeyHooks {
    fn configured(
        &mut self,
        _: ZoneId,
        apex: NameRef<'_>,
        _: &Arc<ZonePolicy>,
        _: Option<(&Zone, Option<crate::storage::Timers>)>,
    ) {
        self.1.lock().expect("no panic").push(apex.to_string());
    }

    fn set_keys(&mut self, _: &[ConfiguredKey]) -> HashSet<Name> {
        self.0.iter().cloned().collect()
    }
}

/// Takes the keys of zones that keep their settings.
struct KeptKeys(Arc<Mutex<HashSet<Name>>>);

impl ChangeHooks for KeptKeys {
    fn retain_keys(&mut self, used: &HashSet<Name>) {
        *self.0.lock().expect("no panic") = used.clone();
    }
}

pub(super) fn with_primary_key(apex: &str, key: &str) -> ZoneConfig {
    let mut reader = ConfigReader::default();
    reader.add_argument(apex.parse().expect("a name"), Path::new("file"));
    let mut config = reader.finish().expect("no mistakes").zones.remove(0);
    let key = Some(key.parse().expect("a name"));
    let primaries = vec![RemoteServer { address: ([192, 0, 2, 1], 53).into(), key, tls: None, source: None }];
    config.source.policy = Arc::new(ZonePolicy { primaries, ..ZonePolicy::clone(&config.source.policy) });
    config
}

/// For a million zones in one go, nothing else would be done meanwhile.
#[test]
fn a_changed_key_is_announced_for_its_zones_alone_and_in_steps() {
    let zones = || [("a.", "old."), ("b.", "changed."), ("c.", "old.")].map(|(apex, key)| with_primary_key(apex, key));
    let mut bench = Bench::new(&[]);
    bench.zones.configure(zones().into());
    let announced = Arc::new(Mutex::new(Vec::new()));
    let take = || std::mem::take(&mut *announced.lock().expect("no panic"));
    let changed = vec!["changed.".parse().expect("a name")];
    bench.zones.set_hooks(Box::new(KeyHooks(changed, Arc::clone(&announced))));
    bench.zones.set_keys(&[]);
    assert_eq!(take(), [] as [&str; 0], "not before the next step");
    bench.zones.configure(zones().into());
    assert_eq!(take(), ["b."]);
    bench.zones.configure(zones().into());
    assert_eq!(take(), [] as [&str; 0], "once");
}

/// Others need no key that is configured no more.
#[test]
fn the_keys_of_zones_that_keep_their_settings_are_reported() {
    let mut bench = Bench::new(&[]);
    let kept = Arc::new(Mutex::new(HashSet::new()));
    bench.zones.set_hooks(Box::new(KeptKeys(kept.clone())));
    let config = with_primary_key("member.", "kept.");
    let extras = Acls::default().of(&config.source.policy);
    let template = TemplateSource { source: Arc::new(config.source), extras };
    let catalog: Name = "catalog.".parse().expect("a name");
    let origin = ZoneOrigin::Member { catalog, group: None, template: "default".into() };
    let id = bench.zones.add_member(config.name, &template, origin, b"1").expect("it is new");
    let configure = |bench: &mut Bench| {
        bench.zones.configure([with_primary_key("a.", "other.")].into());
        kept.lock().expect("no panic").clone()
    };
    for _ in 0..2 {
        assert_eq!(configure(&mut bench), HashSet::from(["kept.".parse().expect("a name")]));
    }
    bench.zones.remove(id);
    assert_eq!(configure(&mut bench), HashSet::new());
}

/// `zonda zone add` may add it, in a slot that was looked at already, with a template of the configuration before.
#[test]
fn the_keys_of_a_zone_that_is_added_while_a_configuration_is_applied_are_reported() {
    let mut bench = Bench::new(&[]);
    let kept = Arc::new(Mutex::new(HashSet::new()));
    bench.zones.set_hooks(Box::new(KeptKeys(kept.clone())));
    let source = with_primary_key("a.", "other.").source;
    let zones = |numbers: std::ops::Range<u32>| -> Vec<ZoneConfig> {
        let name = |number: u32| -> Name { format!("z{number}.").parse().expect("a name") };
        numbers.map(|number| ZoneConfig { name: name(number), source: source.clone() }).collect()
    };
    // The second configuration leaves the first slot vacant.
    bench.zones.configure(zones(0..1500));
    bench.zones.configure(zones(1..1500));
    bench.zones.begin_configure(zones(1..1500));
    for _ in 0..2 {
        assert!(bench.zones.step_configuration().is_none(), "it takes more steps");
    }
    let config = with_primary_key("added.", "kept.");
    let extras = Acls::default().of(&config.source.policy);
    let template = TemplateSource { source: Arc::new(config.source), extras };
    let origin = ZoneOrigin::Added { template: "default".into() };
    let id = bench.zones.add_dynamic(config.name, &template, origin).expect("it is new");
    assert_eq!(id.index, 0);
    assert!(bench.zones.step_configuration().is_some(), "it is applied");
    assert_eq!(*kept.lock().expect("no panic"), HashSet::from(["kept.".parse().expect("a name")]));
}

#[test]
fn a_zone_that_was_frozen_before_and_was_removed_is_not_frozen_when_it_is_added_again() {
    let mut bench = Bench::new(&[]);
    let names = ["a.", "b."].map(|name| name.parse::<Name>().expect("a name"));
    bench.zones.freeze_later(HashSet::from(names));
    bench.configure(&[("a.", "a")]);
    bench.gate.open("a", 1);
    bench.configure(&[]);
    bench.zones.forget_stored_zones();
    for name in ["a.", "b."] {
        bench.gate.open("a", 1);
        bench.configure(&[(name, "a")]);
        bench.run_until(|bench| bench.serial(name) == Some(1));
        let id = bench.id(name);
        assert!(!bench.zones.is_frozen(id), "{name}");
    }
}
