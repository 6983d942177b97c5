//! The registry: which zones there are, from which files, and what is published of them. One thread owns it.
//!
//! [`ZoneRegistry::configure`] compares what is to be served with what is and asks for a look at all files; [`ZoneRegistry::step`] hands
//! zones to the [`ReadPool`] of threads that read, and each result goes to [`ZoneRegistry::apply`]. None of them waits for a file.
//! A zone that fails keeps the version served before.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use answer::{Acl, Served, ServedZone, Subscriber, ZoneState};
use wire::{Name, NameRef};
use zone::Zone;

use super::answer_options::{self, CookieSecret};
use super::change_detection::Fingerprint;
use super::load::{LoadPurpose, LoadedZone, load};
use super::load_progress::LoadProgress;
use super::load_schedule::LoadSchedule;
use super::publication::BatchedPublisher;
use super::read_pool::{LaneLimits, ReadPool, ReadTask, TooLarge};
use super::zone_entry::{Acls, ZoneEntry, change_of, zone_report};
use crate::config::{Server, ZoneConfig, ZonePolicy, ZoneSource};
use crate::report::{Change, ZoneReport};

/// The zones of this daemon.
pub struct ZoneRegistry {
    /// By the octets of the apex, as in [`crate::config::Config`].
    entries: Vec<ZoneEntry>,
    /// The files that zone files include, for the few zones that have such.
    includes: HashMap<Name, Arc<[PathBuf]>>,
    publication: BatchedPublisher,
    secret: CookieSecret,
    pool: ReadPool<LoadJob, LoadResult>,
    /// The zones that the pool has. A result for any other look is stale: another file is configured now, or none.
    reading: HashMap<Name, Reading>,
    /// Tasks that the pool has, stale ones included; and how many of them are stuck.
    handed_out: usize,
    stuck: usize,
    schedule: LoadSchedule,
    /// Octets of zone text read since nothing was left to do.
    octets: u64,
    /// The same of reads under way.
    octets_under_way: u64,
}

/// A look at a zone's files: what is needed for it.
pub struct LoadJob {
    served: Arc<ServedZone>,
    policy: Arc<ZonePolicy>,
    fingerprint: Fingerprint,
    includes: Option<Arc<[PathBuf]>>,
}

/// A zone that the pool has.
struct Reading {
    task: Arc<ReadTask<LoadJob>>,
    /// The number of the look, see [`LoadSchedule`].
    look: u64,
    /// The first look that was asked for meanwhile: the files may have changed since they were read.
    again: Option<u64>,
}

/// What a look at the files of a zone led to.
pub enum LoadResult {
    /// They are as they were.
    Unchanged,
    /// They were read.
    Loaded(LoadedZone),
}

/// A look that is done.
pub type FinishedRead = (Arc<ReadTask<LoadJob>>, LoadResult);

/// Tasks that the pool is given in advance: enough to keep it busy while the map of zones is copied, few enough to be
/// small.
const WINDOW: usize = 512;

impl ZoneRegistry {
    /// No zones, and the settings; `done` gets what was read, on any thread. Fails when the system gives no random
    /// numbers.
    pub fn new(server: &Server, done: impl Fn(FinishedRead) + Send + Sync + 'static) -> std::io::Result<ZoneRegistry> {
        ZoneRegistry::with_reader(server, read, done)
    }

    fn with_reader(
        server: &Server,
        read: impl Fn(&ReadTask<LoadJob>, LaneLimits) -> Result<LoadResult, TooLarge> + Send + Sync + 'static,
        done: impl Fn(FinishedRead) + Send + Sync + 'static,
    ) -> std::io::Result<ZoneRegistry> {
        let secret = CookieSecret::random()?;
        let config = answer_options::answer_config(server, &secret);
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(ZoneRegistry {
            entries: Vec::new(),
            includes: HashMap::new(),
            publication: BatchedPublisher::new(Served { config, ..Served::default() }),
            secret,
            pool: ReadPool::new(threads, read, move |task, read| done((task, read))),
            reading: HashMap::new(),
            handed_out: 0,
            stuck: 0,
            schedule: LoadSchedule::default(),
            octets: 0,
            octets_under_way: 0,
        })
    }

    /// For one more thread that answers.
    pub fn subscribe(&self) -> Subscriber<Served> {
        self.publication.publisher().subscribe()
    }

    /// How many zones are served, and how many are answered with SERVFAIL.
    pub fn counts(&self) -> (usize, usize) {
        let served = self.entries.iter().filter(|entry| entry.served.zone().is_some()).count();
        (served, self.entries.len() - served)
    }

    /// Frees versions that no thread reads any more; returns how many are still read.
    pub fn reclaim(&mut self) -> usize {
        self.publication.reclaim()
    }

    /// Answers by these settings from now on.
    pub fn take_settings(&mut self, server: &Server) {
        let config = answer_options::answer_config(server, &self.secret);
        self.publication.change(|served| served.config = config);
    }

    //----------- which zones there are ----------------------------------------

    /// Adds what is new, answered with SERVFAIL until it is loaded; removes what is gone; takes over who may transfer.
    /// Asks for a look at the files of every zone. Returns the changes of zones that were there before.
    pub fn configure(&mut self, zones: Vec<ZoneConfig>) -> Vec<ZoneReport> {
        let (mut acls, mut changes) = (Acls::default(), Vec::new());
        let (mut removed, mut inserted, mut has_new) = (Vec::new(), Vec::new(), false);
        let next = self.entries.get(self.schedule.position()).map(|entry| entry.served.apex().to_owned());
        let mut old = std::mem::take(&mut self.entries).into_iter().peekable();
        self.entries.reserve_exact(zones.len());
        // Old and new are both ordered by the octets of their names, so one walk through both does it.
        for config in zones {
            while let Some(gone) = old.next_if(|old| old.served.apex().wire() < config.name.wire()) {
                removed.push(gone);
            }
            let access = acls.of(&config.source.policy);
            let entry = match old.next_if(|old| old.served.apex() == config.name.as_ref()) {
                None => {
                    has_new = true;
                    ZoneEntry::new(config, access)
                }
                Some(entry) if entry.source == config.source => {
                    self.entries.push(entry);
                    continue;
                }
                Some(entry) => self.reconfigured(entry, config.source, access, &mut changes),
            };
            inserted.push(entry.served.clone());
            self.entries.push(entry);
        }
        removed.extend(old);
        changes.extend(removed.iter().map(|gone| self.forget(gone.served.apex())));
        self.octets = if self.is_idle() { 0 } else { self.octets };
        let next = next.map_or(0, |apex| self.index(apex.as_ref()).unwrap_or_else(|next| next));
        let is_renumbered = has_new || !removed.is_empty();
        self.schedule.ask(self.entries.len(), is_renumbered.then_some(next));
        self.publication.change(|served| {
            removed.iter().for_each(|gone| _ = served.zones.remove(gone.served.apex()));
            inserted.into_iter().for_each(|zone| served.zones.insert(zone));
        });
        changes
    }

    /// The same zone from another source, with the content it has.
    fn reconfigured(
        &mut self,
        old: ZoneEntry,
        source: ZoneSource,
        allow_transfer: Arc<Acl>,
        changes: &mut Vec<ZoneReport>,
    ) -> ZoneEntry {
        let apex = old.served.apex();
        let is_read_alike = source.is_read_like(&old.source);
        if !is_read_alike {
            self.reading.remove(&apex.to_owned());
        }
        if source.policy != old.source.policy {
            changes.push(zone_report(apex, Change::Settings));
        }
        let state = match old.served.zone() {
            Some(zone) => ZoneState::Loaded(zone.clone()),
            None => ZoneState::Unavailable(apex.to_owned()),
        };
        let fingerprint = if is_read_alike { old.fingerprint } else { Fingerprint::NONE };
        ZoneEntry { served: Arc::new(ServedZone { state, allow_transfer }), source, fingerprint }
    }

    fn forget(&mut self, apex: NameRef<'_>) -> ZoneReport {
        self.includes.remove(&apex.to_owned());
        self.reading.remove(&apex.to_owned());
        zone_report(apex, Change::Removed)
    }

    /// The number of a zone, or that of the first behind where it would be.
    fn index(&self, apex: NameRef<'_>) -> Result<usize, usize> {
        self.entries.binary_search_by(|entry| entry.served.apex().wire().cmp(apex.wire()))
    }

    //----------- what is read -------------------------------------------------

    /// The number below which all looks are that were asked for so far: see [`ZoneRegistry::is_settled`].
    pub fn asked(&self) -> u64 {
        self.schedule.end()
    }

    /// Whether the looks below this number are done, or stuck: see [`ZoneRegistry::stuck`].
    pub fn is_settled(&self, asked: u64) -> bool {
        let asked = self.schedule.current(asked);
        let is_awaited = |reading: &Reading| reading.look < asked && !reading.task.is_stuck();
        self.schedule.has_reached(asked) && !self.reading.values().any(is_awaited)
    }

    /// Whether nothing is left to do, but for what is stuck.
    pub fn is_idle(&self) -> bool {
        self.schedule.left() == 0 && self.handed_out <= self.stuck
    }

    /// Whether nothing is left to do, and nothing is stuck.
    pub fn is_done(&self) -> bool {
        self.schedule.left() == 0 && self.handed_out == 0
    }

    /// How far the load is.
    pub fn progress(&self) -> LoadProgress {
        let total = self.entries.len();
        let done = total.saturating_sub(self.schedule.left() + self.handed_out);
        LoadProgress { done, total, octets: self.octets + self.octets_under_way }
    }

    /// Does what is due without waiting for anything: hands out looks, publishes.
    pub fn step(&mut self, now: Instant) {
        while self.handed_out < WINDOW + self.stuck
            && let Some((index, look)) = self.schedule.next()
        {
            self.hand_out(index, look);
        }
        if self.is_idle() || self.publication.due().is_some_and(|due| due <= now) {
            self.publication.publish();
        }
    }

    /// When [`ZoneRegistry::step`] has something to publish.
    pub fn due(&self) -> Option<Instant> {
        self.publication.due()
    }

    /// Publishes all results so far.
    pub fn publish(&mut self) {
        self.publication.publish();
    }

    /// Tidies up when a load is over.
    pub fn compact(&mut self) {
        self.publication.compact();
    }

    fn hand_out(&mut self, index: usize, look: u64) {
        let entry = &self.entries[index];
        let apex = entry.served.apex();
        let Some(file) = entry.source.file(apex) else { return };
        let apex = apex.to_owned();
        if let Some(reading) = self.reading.get_mut(&apex) {
            reading.again.get_or_insert(look);
            return;
        }
        let includes = self.includes.get(&apex).cloned();
        let policy = entry.source.policy.clone();
        let job = LoadJob { served: entry.served.clone(), policy, fingerprint: entry.fingerprint, includes };
        let task = Arc::new(ReadTask::new(file, job));
        self.reading.insert(apex, Reading { task: task.clone(), look, again: None });
        self.handed_out += 1;
        self.pool.submit(task);
    }

    /// Applies a result: what was read is served soon. Returns the change of the zone, if there is one.
    pub fn apply(&mut self, (task, read): FinishedRead) -> Option<ZoneReport> {
        self.handed_out -= 1;
        self.octets += task.progress.octets();
        let apex = task.job.served.apex().to_owned();
        let reading = self.reading.remove(&apex)?;
        if !Arc::ptr_eq(&reading.task, &task) {
            self.reading.insert(apex, reading);
            return None;
        }
        let index = self.index(apex.as_ref()).expect("a zone that is removed is not read any more");
        let report = match read {
            LoadResult::Unchanged => None,
            LoadResult::Loaded(loaded) => self.serve(index, loaded),
        };
        if let Some(look) = reading.again {
            self.hand_out(index, look);
        }
        report
    }

    fn serve(&mut self, index: usize, loaded: LoadedZone) -> Option<ZoneReport> {
        let entry = &mut self.entries[index];
        let report = change_of(&entry.served, &loaded);
        if let Some(zone) = loaded.zone {
            let allow_transfer = entry.served.allow_transfer.clone();
            entry.served = Arc::new(ServedZone { state: ZoneState::Loaded(zone), allow_transfer });
            self.publication.take(entry.served.clone());
        }
        entry.fingerprint = loaded.fingerprint;
        let apex = entry.served.apex().to_owned();
        match loaded.includes.is_empty() {
            true => self.includes.remove(&apex),
            false => self.includes.insert(apex, loaded.includes.into()),
        };
        report
    }

    //----------- what is stuck ------------------------------------------------

    /// Looks for progress; returns the reads that are stuck since this call. Call several times a second until
    /// [`ZoneRegistry::is_done`].
    pub fn watch(&mut self, now: Instant) -> Vec<Arc<ReadTask<LoadJob>>> {
        let watch = self.pool.watch(now);
        (self.stuck, self.octets_under_way) = (watch.stuck, watch.octets);
        watch.newly_stuck
    }

    /// The zones that are stuck of those that were to be looked at before `asked`, see [`ZoneRegistry::asked`].
    pub fn stuck(&self, asked: u64) -> impl Iterator<Item = ZoneReport> {
        let asked = self.schedule.current(asked);
        let stuck = self.reading.values().filter(move |reading| reading.look < asked && reading.task.is_stuck());
        stuck.map(|Reading { task, .. }| {
            let served = &task.job.served;
            ZoneReport { serial: served.zone().map(Zone::serial), ..zone_report(served.apex(), Change::Stuck) }
        })
    }
}

impl LoadJob {
    /// The zone.
    pub fn apex(&self) -> NameRef<'_> {
        self.served.apex()
    }
}

/// Reads a zone if its file, or one it includes, is not as it was.
fn read(task: &ReadTask<LoadJob>, turn: LaneLimits) -> Result<LoadResult, TooLarge> {
    let LoadJob { served, policy, fingerprint, includes } = &task.job;
    let includes = includes.iter().flat_map(|includes| includes.iter()).map(PathBuf::as_path);
    if *fingerprint != Fingerprint::NONE
        && *fingerprint == Fingerprint::of_now(std::iter::once::<&Path>(&task.file).chain(includes))
    {
        return Ok(LoadResult::Unchanged);
    }
    load(served.apex(), &task.file, policy, LoadPurpose::Serve(served.zone()), turn, &task.progress)
        .map(LoadResult::Loaded)
}
