//! The zone registry: which zones are configured, what is served of each, and which loads are in flight.
//!
//! The writer thread owns it and never waits in it. A configuration is compared with the zones there are in small steps
//! (`configure.rs`), and then a load of every zone is due; [`ZoneRegistry::step`] hands due zones to the [`ReadPool`] and
//! publishes; [`ZoneRegistry::apply`] takes the result of a load. A zone that cannot be loaded keeps the version served
//! before.

mod change_hooks;
mod changes;
mod configure;
mod control;
mod dynamic;
mod name_servers;
mod restore;
mod secondary;
mod status;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use answer::{KeyRing, Served, ServedZone};
use wire::{Name, NameRef, serial};
use zone::{FilePosition, Finding, Severity, Zone, ZoneVersion};

use super::acceptance;
use super::answer_config::{GeneratedSecret, answer_config};
use super::change_detection::Fingerprint;
use super::journal::{NoJournal, ZoneJournal};
use super::load::{LoadPurpose, LoadedZone, load, refusal};
use super::load_progress::LoadProgress;
use super::load_schedule::LoadSchedule;
use super::publication::BatchedPublisher;
use super::read_pool::{ReadLimits, ReadPool, ReadTask, TooLarge};
use super::text_files::TextFiles;
use super::zone_entry::{change_of, zone_report};
use super::zone_origin::OriginTable;
use super::zone_pools::ZonePools;
use super::zone_slab::ZoneSlab;
use crate::config::{Server, ZonePolicy, ZoneSource};
use crate::printable::path_text;
use crate::report::{Change, ZoneReport};
use crate::zone_id::{ZoneId, ZoneIdMap, ZoneIdSet};
pub use change_hooks::{ChangeHooks, NoHooks};
pub use changes::{ChangeDone, ChangeRefusal, ChangedZone, FinishedWork, ProposedChange, PublishOrder, ZoneChange};
use changes::{Changes, ZoneWorkResult};
use configure::Configuring;
use control::ZoneControls;
pub use control::{ControlRefused, Rollback};
pub use dynamic::ZoneNotice;

/// The zones of this daemon.
pub struct ZoneRegistry {
    zones: ZoneSlab,
    /// How many of them are served.
    served: usize,
    /// The versions of zones that have expired.
    expired: ZoneIdMap<Zone>,
    controls: ZoneControls,
    origins: OriginTable,
    notices: Vec<ZoneNotice>,
    /// The zones changed by updates since their file was last read, and the serial that they had then.
    updated: ZoneIdMap<u32>,
    /// The secondaries that serve their file, as no primary has sent a version yet.
    seeded: ZoneIdSet,
    /// The configuration that is being compared with the zones.
    configuring: Option<Configuring>,
    /// The keys that changed with the configuration, until it is applied.
    changed_keys: HashSet<Name>,
    /// The included files of the zones that have any.
    includes: ZoneIdMap<Arc<[PathBuf]>>,
    /// What is published.
    pub publisher: BatchedPublisher,
    cookie_secret: GeneratedSecret,
    schedule: LoadSchedule,
    pool: ReadPool<LoadJob, LoadResult>,
    pools: ZonePools<ZoneWorkResult>,
    text_files: TextFiles,
    changes: Changes,
    journal: Box<dyn ZoneJournal>,
    hooks: Box<dyn ChangeHooks>,
    /// The current load of each zone in the pool. The result of any other load is stale: the zone was removed or has
    /// another file since.
    loads: ZoneIdMap<Load>,
    /// The zones whose stored version is being read, and the reload that waits for that.
    restores: ZoneIdMap<u64>,
    /// Tasks in the pool, stale ones included, and how many of them are stuck.
    in_flight: usize,
    stuck: usize,
    /// Whether zones were loaded since the last batch was published.
    has_loaded: bool,
    /// Octets of zone text read since the registry was last settled.
    octets_read: u64,
    /// Octets read so far of the files in the pool.
    octets_in_flight: u64,
}

/// What a thread of the pool needs to load one zone.
pub struct LoadJob {
    zone: ZoneId,
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
    /// A registry without zones. Pool threads pass finished reads and other work to these functions. Fails without a
    /// random source.
    pub fn new(
        server: &Server,
        read_done: impl Fn(Vec<FinishedRead>) + Send + Sync + 'static,
        work_done: impl Fn(FinishedWork) + Send + Sync + 'static,
    ) -> std::io::Result<ZoneRegistry> {
        ZoneRegistry::with_reader(server, load_if_changed, read_done, work_done)
    }

    fn with_reader(
        server: &Server,
        read: impl Fn(&ReadTask<LoadJob>, ReadLimits) -> Result<LoadResult, TooLarge> + Send + Sync + 'static,
        read_done: impl Fn(Vec<FinishedRead>) + Send + Sync + 'static,
        work_done: impl Fn(FinishedWork) + Send + Sync + 'static,
    ) -> std::io::Result<ZoneRegistry> {
        let cookie_secret = GeneratedSecret::random()?;
        let config = answer_config(server, KeyRing::default(), &cookie_secret);
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(ZoneRegistry {
            zones: ZoneSlab::default(),
            served: 0,
            expired: ZoneIdMap::default(),
            controls: ZoneControls::default(),
            origins: OriginTable::default(),
            notices: Vec::new(),
            updated: ZoneIdMap::default(),
            seeded: ZoneIdSet::default(),
            configuring: None,
            changed_keys: HashSet::new(),
            includes: ZoneIdMap::default(),
            publisher: BatchedPublisher::new(Served { config, ..Served::default() }),
            cookie_secret,
            schedule: LoadSchedule::default(),
            pool: ReadPool::new(threads, read, read_done),
            pools: ZonePools::new(threads + 1, move |id, result| work_done((id, result))),
            text_files: TextFiles::default(),
            changes: Changes::default(),
            journal: Box::new(NoJournal),
            hooks: Box::new(NoHooks),
            loads: ZoneIdMap::default(),
            restores: ZoneIdMap::default(),
            in_flight: 0,
            stuck: 0,
            has_loaded: false,
            octets_read: 0,
            octets_in_flight: 0,
        })
    }

    /// Sets what keeps zones across restarts; before zones are added.
    pub fn set_journal(&mut self, journal: Box<dyn ZoneJournal>) {
        self.journal = journal;
    }

    /// Sets who learns what is configured and published.
    pub fn set_hooks(&mut self, hooks: Box<dyn ChangeHooks>) {
        self.hooks = hooks;
    }

    /// The zone with this apex.
    pub fn find(&self, apex: NameRef<'_>) -> Option<ZoneId> {
        self.zones.find(apex)
    }

    /// What is served of a zone, or will be with the next step.
    pub fn served(&self, id: ZoneId) -> Option<&Arc<ServedZone>> {
        self.zones.get(id).map(|entry| &entry.served)
    }

    /// How many zones are served, and how many are answered with SERVFAIL.
    pub fn counts(&self) -> (usize, usize) {
        (self.served, self.zones.len() - self.served)
    }

    /// Publishes the settings that concern answers.
    pub fn apply_settings(&mut self, server: &Server, keys: KeyRing) {
        let config = answer_config(server, keys, &self.cookie_secret);
        self.publisher.change(|served| served.config = config);
    }

    //----------- loads --------------------------------------------------------

    /// Goes on with the configuration, starts loads that are due and publishes what is ready, without waiting for any.
    /// Returns the result of [`ZoneRegistry::begin_configure`] when that is done.
    pub fn step(&mut self, now: Instant) -> Option<Vec<ZoneReport>> {
        let configured = self.step_configuration();
        while self.in_flight + self.restores.len() < MAX_IN_FLIGHT + self.stuck
            && let Some(slot) = self.schedule.next_zone(|slot| self.zones.id_at(slot).is_some())
            && let Some(id) = self.zones.id_at(slot)
        {
            self.start_load(id, self.schedule.latest_reload());
        }
        self.publisher.publish_changes(&self.zones);
        self.report_changes();
        // The last loaded zone completes a batch. Transferred zones come one by one, and no batch has an end.
        let is_complete = self.has_loaded && self.is_settled();
        if is_complete || self.publisher.due().is_some_and(|due| due <= now) {
            self.has_loaded = false;
            self.publish();
        }
        configured
    }

    /// Publishes every loaded zone now.
    pub fn publish(&mut self) {
        self.publisher.publish(&self.zones);
        self.announce_loaded();
    }

    /// Whether [`ZoneRegistry::step`] has more to do at once.
    pub fn needs_step(&self) -> bool {
        self.configuring.is_some() || self.publisher.is_compacting()
    }

    fn start_load(&mut self, id: ZoneId, reload: u64) {
        if self.begin_restore(id, reload) {
            return;
        }
        let Some(entry) = self.zones.get(id) else { return };
        let Some(file) = entry.source.file(entry.served.apex()) else { return };
        if !self.reads_file(id) {
            return;
        }
        if let Some(load) = self.loads.get_mut(&id) {
            load.again_for.get_or_insert(reload);
            return;
        }
        let includes = self.includes.get(&id).cloned();
        let policy = entry.source.policy.clone();
        let fingerprint = self.zones.fingerprint(id);
        let job = LoadJob { zone: id, served: entry.served.clone(), policy, fingerprint, includes };
        let task = Arc::new(ReadTask::new(file, job));
        self.loads.insert(id, Load { task: task.clone(), reload, again_for: None });
        self.in_flight += 1;
        self.pool.submit(task);
    }

    /// Takes the result of a load, to be published soon. Returns the change of the zone, if any.
    pub fn apply(&mut self, (task, result): FinishedRead) -> Option<ZoneReport> {
        self.in_flight -= 1;
        self.has_loaded = true;
        self.octets_read += task.progress.octets();
        match result {
            LoadResult::Loaded(loaded) if self.needs_command(&task, &loaded) => {
                self.submit_check(task, loaded);
                None
            }
            result => self.end_load(&task, result),
        }
    }

    /// Ends the load of a task, unless it is stale.
    fn end_load(&mut self, task: &Arc<ReadTask<LoadJob>>, result: LoadResult) -> Option<ZoneReport> {
        let id = task.job.zone;
        let load = self.loads.remove(&id)?;
        if !Arc::ptr_eq(&load.task, task) {
            self.loads.insert(id, load);
            return None;
        }
        let report = match result {
            _ if !self.reads_file(id) => None,
            LoadResult::Unchanged => None,
            LoadResult::Loaded(loaded) => self.serve(id, loaded, task.job.served.zone().map(Zone::version)),
        };
        if let Some(reload) = load.again_for {
            self.start_load(id, reload);
        }
        report
    }

    /// Whether an external command decides about a zone that was read.
    fn needs_command(&self, task: &Arc<ReadTask<LoadJob>>, loaded: &LoadedZone) -> bool {
        let is_current = self.loads.get(&task.job.zone).is_some_and(|load| Arc::ptr_eq(&load.task, task));
        let is_new = loaded.zone.is_some() && (loaded.is_changed || task.job.served.zone().is_none());
        is_current && is_new && acceptance::has_command(&task.job.policy)
    }

    /// Asks the external command in a pool. The load goes on until it answers.
    fn submit_check(&mut self, task: Arc<ReadTask<LoadJob>>, mut loaded: LoadedZone) {
        self.pools.submit(acceptance::command_lane(&task.job.policy), move || {
            let result = match &loaded.zone {
                Some(zone) => acceptance::run_command(zone, &task.job.policy),
                None => Ok(()),
            };
            if let Err(rejection) = result {
                loaded.findings.insert(0, refusal(path_text(&task.file).into(), &rejection));
                (loaded.zone, loaded.fingerprint) = (None, Fingerprint::NONE);
            }
            ZoneWorkResult::Checked(task, Box::new(loaded))
        });
    }

    /// Serves a zone that was read when `base` was served.
    fn serve(&mut self, id: ZoneId, mut loaded: LoadedZone, base: Option<ZoneVersion>) -> Option<ZoneReport> {
        let file_serial = loaded.zone.as_ref().and(loaded.file_serial);
        // The serial of the policy is always later: it says nothing about which content is.
        if let Some((old, file_serial)) = self.latest(id).zip(file_serial)
            && (Some(old.version()) != base || loaded.is_changed && self.updated.contains_key(&id))
            && !serial::is_later(file_serial, old.serial())
        {
            if loaded.fingerprint.is_of_same_files(self.zones.fingerprint(id)) {
                // It was young when it was read, and so had to be read again.
                self.zones.set_fingerprint(id, loaded.fingerprint);
                return None;
            }
            let (entry, serials) = (self.zones.get(id)?, [old.serial(), file_serial]);
            loaded = rejected_as_stale(loaded, &entry.source, entry.served.apex(), serials);
        }
        self.note_problem(id, loaded.zone.is_none().then(|| first_error(&loaded.findings)));
        let is_accepted = loaded.zone.is_some();
        let report = change_of(&self.zones.get(id)?.served, &loaded);
        if let Some(zone) = loaded.zone.filter(|_| report.is_some()) {
            // The change is from the version that was served when the file was read.
            let is_base_served = self.latest(id).map(Zone::version) == base;
            let change = loaded.change.filter(|change| is_base_served && change.increases_serial());
            self.replace(id, zone, change.as_slice());
            if self.is_secondary(id) {
                self.seeded.insert(id);
            }
        }
        self.zones.set_fingerprint(id, loaded.fingerprint);
        match loaded.includes.is_empty() {
            true => self.includes.remove(&id),
            false => self.includes.insert(id, loaded.includes.into()),
        };
        if is_accepted {
            self.updated.remove(&id);
            self.store_file_state(id);
        }
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
            && self.restores.values().all(|restore| *restore > reload)
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
        let is_restoring = !self.restores.is_empty();
        self.configuring.is_none() && self.schedule.due() == 0 && self.in_flight <= self.stuck && !is_restoring
    }

    /// Whether all loads are done.
    pub fn is_idle(&self) -> bool {
        let is_restoring = !self.restores.is_empty();
        self.configuring.is_none() && self.schedule.due() == 0 && self.in_flight == 0 && !is_restoring
    }

    /// How far the loads are.
    pub fn progress(&self) -> LoadProgress {
        let total = self.zones.len();
        let done = total.saturating_sub(self.schedule.due() + self.in_flight + self.restores.len());
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

/// Why a zone was not loaded.
fn first_error(findings: &[Finding]) -> String {
    let error = findings.iter().find(|finding| finding.severity == Severity::Error).or(findings.first());
    error.map_or_else(|| "the zone could not be loaded".into(), Finding::to_string)
}

/// A zone whose content was changed since its file was last read, and whose file is not newer: the changes are kept.
fn rejected_as_stale(loaded: LoadedZone, source: &ZoneSource, apex: NameRef<'_>, [old, new]: [u32; 2]) -> LoadedZone {
    let file = source.file(apex).map_or_else(String::new, |file| path_text(&file));
    let finding = Finding {
        severity: Severity::Error,
        position: FilePosition { file: file.as_str().into(), line: 0, column: 0 },
        message: format!(
            "the zone was changed since this file was last read, and serial {new} of the file is not later than {old}, which is served"
        ),
        help: "take over the changes from `zonda zone export`, set a later serial, and reload".into(),
    };
    LoadedZone { zone: None, findings: vec![finding], fingerprint: Fingerprint::NONE, ..loaded }
}

/// Loads a zone unless its files, included ones too, are unchanged.
fn load_if_changed(task: &ReadTask<LoadJob>, limits: ReadLimits) -> Result<LoadResult, TooLarge> {
    let LoadJob { served, policy, fingerprint, includes, .. } = &task.job;
    let includes = includes.iter().flat_map(|includes| includes.iter()).map(PathBuf::as_path);
    let files = std::iter::once::<&Path>(&task.file).chain(includes);
    if *fingerprint != Fingerprint::NONE && fingerprint.is_unchanged(Fingerprint::current(files)) {
        return Ok(LoadResult::Unchanged);
    }
    let purpose = LoadPurpose::Serve(served.zone());
    load(served.apex(), &task.file, policy, purpose, limits, &task.progress).map(LoadResult::Loaded)
}
