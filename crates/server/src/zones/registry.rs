//! The zone registry: which zones are configured, what is served of each, and which loads are in flight.
//!
//! The writer thread owns it and never waits in it. [`ZoneRegistry::configure`] compares a configuration with the zones
//! there are and makes a load of every zone due; [`ZoneRegistry::step`] hands due zones to the [`ReadPool`] and publishes;
//! [`ZoneRegistry::apply`] takes the result of a load. A zone that cannot be loaded keeps the version served before.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use answer::{Acl, Served, ServedZone, ZoneState};
use wire::{Name, NameRef};
use zone::Zone;

use super::answer_config::{GeneratedSecret, answer_config};
use super::change_detection::Fingerprint;
use super::load::{LoadPurpose, LoadedZone, load};
use super::load_progress::LoadProgress;
use super::load_schedule::LoadSchedule;
use super::publication::BatchedPublisher;
use super::read_pool::{ReadLimits, ReadPool, ReadTask, TooLarge};
use super::zone_entry::{Acls, ZoneEntry, change_of, zone_report};
use crate::config::{Server, ZoneConfig, ZonePolicy, ZoneSource};
use crate::report::{Change, ZoneReport};

/// The zones of this daemon.
pub struct ZoneRegistry {
    /// Ordered by the octets of the apex, as in [`crate::config::Config`].
    entries: Vec<ZoneEntry>,
    /// The included files of the zones that have any.
    includes: HashMap<Name, Arc<[PathBuf]>>,
    /// What is published.
    pub publisher: BatchedPublisher,
    cookie_secret: GeneratedSecret,
    schedule: LoadSchedule,
    pool: ReadPool<LoadJob, LoadResult>,
    /// The current load of each zone in the pool. The result of any other load is stale: the zone was removed or has
    /// another file since.
    loads: HashMap<Name, Load>,
    /// Tasks in the pool, stale ones included, and how many of them are stuck.
    in_flight: usize,
    stuck: usize,
    /// Octets of zone text read since the registry was last settled.
    octets_read: u64,
    /// Octets read so far of the files in the pool.
    octets_in_flight: u64,
}

/// What a thread of the pool needs to load one zone.
pub struct LoadJob {
    served: Arc<ServedZone>,
    policy: Arc<ZonePolicy>,
    fingerprint: Fingerprint,
    includes: Option<Arc<[PathBuf]>>,
}

/// The result of a load.
pub enum LoadResult {
    /// The files have not changed since they were last read.
    Unchanged,
    /// The files were read.
    Loaded(LoadedZone),
}

/// A zone in the pool.
struct Load {
    task: Arc<ReadTask<LoadJob>>,
    /// The reload that it was started for.
    reload: u64,
    /// The first reload since then: the files may have changed after they were read, so that another load must follow.
    again_for: Option<u64>,
}

/// A task of the pool that has ended.
pub type FinishedRead = (Arc<ReadTask<LoadJob>>, LoadResult);

/// Tasks handed to the pool in advance: enough to keep it busy while the zone map is copied, few enough to need little
/// memory.
const MAX_IN_FLIGHT: usize = 512;

impl ZoneRegistry {
    /// A registry without zones. A pool thread passes each finished read to `done`. Fails without a random source.
    pub fn new(server: &Server, done: impl Fn(FinishedRead) + Send + Sync + 'static) -> std::io::Result<ZoneRegistry> {
        ZoneRegistry::with_reader(server, load_if_changed, done)
    }

    fn with_reader(
        server: &Server,
        read: impl Fn(&ReadTask<LoadJob>, ReadLimits) -> Result<LoadResult, TooLarge> + Send + Sync + 'static,
        done: impl Fn(FinishedRead) + Send + Sync + 'static,
    ) -> std::io::Result<ZoneRegistry> {
        let cookie_secret = GeneratedSecret::random()?;
        let config = answer_config(server, &cookie_secret);
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(ZoneRegistry {
            entries: Vec::new(),
            includes: HashMap::new(),
            publisher: BatchedPublisher::new(Served { config, ..Served::default() }),
            cookie_secret,
            schedule: LoadSchedule::default(),
            pool: ReadPool::new(threads, read, move |task, result| done((task, result))),
            loads: HashMap::new(),
            in_flight: 0,
            stuck: 0,
            octets_read: 0,
            octets_in_flight: 0,
        })
    }

    /// How many zones are served, and how many are answered with SERVFAIL.
    pub fn counts(&self) -> (usize, usize) {
        let served = self.entries.iter().filter(|entry| entry.served.zone().is_some()).count();
        (served, self.entries.len() - served)
    }

    /// Publishes the settings that concern answers.
    pub fn apply_settings(&mut self, server: &Server) {
        let config = answer_config(server, &self.cookie_secret);
        self.publisher.change(|served| served.config = config);
    }

    //----------- configuration ------------------------------------------------

    /// Adds new zones, answered with SERVFAIL until they are loaded; removes those that are gone; updates the others. Then
    /// begins a reload: every zone is due to be loaded. Returns the zones that were removed or have other settings.
    pub fn configure(&mut self, zones: Vec<ZoneConfig>) -> Vec<ZoneReport> {
        let (mut acls, mut reports) = (Acls::default(), Vec::new());
        let (mut updated, mut added, mut removed) = (Vec::new(), Vec::new(), Vec::new());
        let mut old = std::mem::take(&mut self.entries).into_iter().enumerate().peekable();
        let old_len = old.len();
        self.entries.reserve_exact(zones.len());
        // Both lists are ordered by the octets of the apex, so that one pass merges them.
        for config in zones {
            while let Some(gone) = old.next_if(|(_, old)| old.served.apex().wire() < config.name.wire()) {
                removed.push(gone);
            }
            let acl = acls.of(&config.source.policy);
            let entry = match old.next_if(|(_, old)| old.served.apex() == config.name.as_ref()) {
                Some((_, entry)) if entry.source == config.source => {
                    self.entries.push(entry);
                    continue;
                }
                Some((_, entry)) => self.reconfigure(entry, config.source, acl, &mut reports),
                None => {
                    added.push(old.peek().map_or(old_len, |(index, _)| *index));
                    ZoneEntry::new(config, acl)
                }
            };
            updated.push(entry.served.clone());
            self.entries.push(entry);
        }
        removed.extend(old);
        reports.extend(removed.iter().map(|(_, gone)| self.forget(gone.served.apex())));
        if self.is_settled() {
            self.octets_read = 0;
        }
        let removed_indices: Vec<usize> = removed.iter().map(|(index, _)| *index).collect();
        self.schedule.begin_reload(self.entries.len(), &removed_indices, &added);
        self.publisher.change(|served| {
            removed.iter().for_each(|(_, gone)| _ = served.zones.remove(gone.served.apex()));
            updated.into_iter().for_each(|zone| served.zones.insert(zone));
        });
        reports
    }

    /// Gives a zone another source; it keeps its content.
    fn reconfigure(
        &mut self,
        old: ZoneEntry,
        source: ZoneSource,
        allow_transfer: Arc<Acl>,
        reports: &mut Vec<ZoneReport>,
    ) -> ZoneEntry {
        let apex = old.served.apex();
        let is_read_alike = source.is_read_like(&old.source);
        if !is_read_alike {
            self.loads.remove(&apex.to_owned());
        }
        if source.policy != old.source.policy {
            reports.push(zone_report(apex, Change::Settings));
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
        self.loads.remove(&apex.to_owned());
        zone_report(apex, Change::Removed)
    }

    //----------- loads --------------------------------------------------------

    /// Starts loads that are due and publishes what is ready, without waiting for either.
    pub fn step(&mut self, now: Instant) {
        while self.in_flight < MAX_IN_FLIGHT + self.stuck
            && let Some(index) = self.schedule.next_zone()
        {
            self.start_load(index, self.schedule.latest_reload());
        }
        if self.is_settled() || self.publisher.due().is_some_and(|due| due <= now) {
            self.publisher.publish();
        }
    }

    fn start_load(&mut self, index: usize, reload: u64) {
        let entry = &self.entries[index];
        let apex = entry.served.apex();
        let Some(file) = entry.source.file(apex) else { return };
        let apex = apex.to_owned();
        if let Some(load) = self.loads.get_mut(&apex) {
            load.again_for.get_or_insert(reload);
            return;
        }
        let includes = self.includes.get(&apex).cloned();
        let policy = entry.source.policy.clone();
        let job = LoadJob { served: entry.served.clone(), policy, fingerprint: entry.fingerprint, includes };
        let task = Arc::new(ReadTask::new(file, job));
        self.loads.insert(apex, Load { task: task.clone(), reload, again_for: None });
        self.in_flight += 1;
        self.pool.submit(task);
    }

    /// Takes the result of a load, to be published soon. Returns the change of the zone, if any.
    pub fn apply(&mut self, (task, result): FinishedRead) -> Option<ZoneReport> {
        self.in_flight -= 1;
        self.octets_read += task.progress.octets();
        let apex = task.job.served.apex().to_owned();
        let load = self.loads.remove(&apex)?;
        if !Arc::ptr_eq(&load.task, &task) {
            self.loads.insert(apex, load);
            return None;
        }
        let index = self.entries.binary_search_by(|entry| entry.served.apex().wire().cmp(apex.wire()));
        let index = index.expect("the loads of a removed zone are forgotten");
        let report = match result {
            LoadResult::Unchanged => None,
            LoadResult::Loaded(loaded) => self.serve(index, loaded),
        };
        if let Some(reload) = load.again_for {
            self.start_load(index, reload);
        }
        report
    }

    fn serve(&mut self, index: usize, loaded: LoadedZone) -> Option<ZoneReport> {
        let entry = &mut self.entries[index];
        let report = change_of(&entry.served, &loaded);
        if let Some(zone) = loaded.zone {
            let allow_transfer = entry.served.allow_transfer.clone();
            entry.served = Arc::new(ServedZone { state: ZoneState::Loaded(zone), allow_transfer });
            self.publisher.queue(entry.served.clone());
        }
        entry.fingerprint = loaded.fingerprint;
        let apex = entry.served.apex().to_owned();
        match loaded.includes.is_empty() {
            true => self.includes.remove(&apex),
            false => self.includes.insert(apex, loaded.includes.into()),
        };
        report
    }

    //----------- progress -----------------------------------------------------

    /// The number of the latest reload.
    pub fn latest_reload(&self) -> u64 {
        self.schedule.latest_reload()
    }

    /// Whether every zone was loaded since this reload began, or is stuck.
    pub fn is_complete(&self, reload: u64) -> bool {
        self.schedule.has_started_all(reload)
            && self.loads.values().all(|load| load.reload > reload || load.task.is_stuck())
    }

    /// The zones whose loads keep this reload incomplete because they are stuck.
    pub fn stuck_zones(&self, reload: u64) -> impl Iterator<Item = ZoneReport> {
        let stuck = self.loads.values().filter(move |load| load.reload <= reload && load.task.is_stuck());
        stuck.map(|Load { task, .. }| {
            let served = &task.job.served;
            ZoneReport { serial: served.zone().map(Zone::serial), ..zone_report(served.apex(), Change::Stuck) }
        })
    }

    /// Whether all loads are done or stuck.
    pub fn is_settled(&self) -> bool {
        self.schedule.due() == 0 && self.in_flight <= self.stuck
    }

    /// Whether all loads are done.
    pub fn is_idle(&self) -> bool {
        self.schedule.due() == 0 && self.in_flight == 0
    }

    /// How far the loads are.
    pub fn progress(&self) -> LoadProgress {
        let total = self.entries.len();
        let done = total.saturating_sub(self.schedule.due() + self.in_flight);
        LoadProgress { done, total, octets: self.octets_read + self.octets_in_flight }
    }

    /// Looks for reads without progress; returns those that are stuck since this call. To be called several times a second
    /// until [`ZoneRegistry::is_idle`].
    pub fn check_progress(&mut self, now: Instant) -> Vec<Arc<ReadTask<LoadJob>>> {
        let status = self.pool.check_progress(now);
        (self.stuck, self.octets_in_flight) = (status.stuck, status.octets);
        status.newly_stuck
    }
}

impl LoadJob {
    /// The name of the zone.
    pub fn apex(&self) -> NameRef<'_> {
        self.served.apex()
    }
}

/// Loads a zone unless its files, included ones too, are unchanged.
fn load_if_changed(task: &ReadTask<LoadJob>, limits: ReadLimits) -> Result<LoadResult, TooLarge> {
    let LoadJob { served, policy, fingerprint, includes } = &task.job;
    let includes = includes.iter().flat_map(|includes| includes.iter()).map(PathBuf::as_path);
    let files = std::iter::once::<&Path>(&task.file).chain(includes);
    if *fingerprint != Fingerprint::NONE && *fingerprint == Fingerprint::current(files) {
        return Ok(LoadResult::Unchanged);
    }
    let purpose = LoadPurpose::Serve(served.zone());
    load(served.apex(), &task.file, policy, purpose, limits, &task.progress).map(LoadResult::Loaded)
}
