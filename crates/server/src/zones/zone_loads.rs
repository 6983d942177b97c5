//! The loads of zones: which zones are due, what is being read for them, and how far that is.
//!
//! A load reads the stored version of a zone, if it was not read since the start, and then the file. [`ZoneLoads`] belongs to the zone
//! registry, which decides whether a zone is loaded, has the journal read stored versions, and serves the results.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use answer::ServedZone;
use wire::NameRef;

use super::change_detection::Fingerprint;
use super::load::{LoadPurpose, LoadedZone, load};
use super::load_progress::LoadProgress;
use super::load_schedule::LoadSchedule;
use super::read_pool::{ReadLimits, ReadPool, ReadTask, TooLarge};
use super::zone_entry::ZoneEntry;
use crate::config::ZonePolicy;
use crate::zone_id::{ZoneId, ZoneIdMap};

/// The loads that are due or in progress, and the pool that reads zone files.
pub struct ZoneLoads {
    schedule: LoadSchedule,
    pool: ReadPool<LoadJob, LoadResult>,
    /// The zones whose stored version is being read, and the reload that waits for that.
    restores: ZoneIdMap<u64>,
    /// The current read of each zone's files. The result of any other read is stale: the zone was removed or has another file since.
    reads: ZoneIdMap<FileRead>,
    /// The included files of the zones that have any.
    includes: ZoneIdMap<Arc<[PathBuf]>>,
    /// Tasks in the pool, stale ones included, and how many of them are stuck.
    in_flight: usize,
    stuck: usize,
    /// Whether tasks have returned since [`ZoneLoads::begin_batch`].
    has_returned: bool,
    /// Octets of zone text read since the last reload that began when all loads were settled.
    octets_read: u64,
    /// Octets read so far of the files in the pool.
    octets_in_flight: u64,
}

/// What a thread of the pool needs to load one zone.
pub struct LoadJob {
    /// The zone.
    pub zone: ZoneId,
    /// What was served of it when the read began.
    pub served: Arc<ServedZone>,
    /// Its settings at that time.
    pub policy: Arc<ZonePolicy>,
    fingerprint: Fingerprint,
    includes: Option<Arc<[PathBuf]>>,
}

/// The result of reading the files of a zone.
pub enum LoadResult {
    /// The files have not changed since they were last read.
    Unchanged,
    /// The files were read.
    Loaded(LoadedZone),
}

/// A task of the pool that has ended.
pub type FinishedRead = (Arc<ReadTask<LoadJob>>, LoadResult);

/// The read of the files of one zone, which lasts until its result is served.
struct FileRead {
    task: Arc<ReadTask<LoadJob>>,
    /// The reload that it was started for.
    reload: u64,
    /// The first reload since then: the files may have changed after they were read, so that they must be read again.
    again_for: Option<u64>,
}

/// Loads started in advance: enough to keep the pool busy while the zone map is copied, few enough to need little memory.
const MAX_IN_FLIGHT: usize = 512;

impl ZoneLoads {
    /// No loads. `read` reads the files of a zone on at most `threads` threads, see [`load_if_changed`]; `read_done` gets the results.
    pub fn new(
        threads: usize,
        read: impl Fn(&ReadTask<LoadJob>, ReadLimits) -> Result<LoadResult, TooLarge> + Send + Sync + 'static,
        read_done: impl Fn(Vec<FinishedRead>) + Send + Sync + 'static,
    ) -> ZoneLoads {
        ZoneLoads {
            schedule: LoadSchedule::default(),
            pool: ReadPool::new(threads, read, read_done),
            restores: ZoneIdMap::default(),
            reads: ZoneIdMap::default(),
            includes: ZoneIdMap::default(),
            in_flight: 0,
            stuck: 0,
            has_returned: false,
            octets_read: 0,
            octets_in_flight: 0,
        }
    }

    //----------- schedule -----------------------------------------------------

    /// Begins a reload: all `zones` are due.
    pub fn begin_reload(&mut self, zones: usize) {
        if self.is_settled() {
            self.octets_read = 0;
        }
        self.schedule.begin_reload(zones);
    }

    /// The number of the latest reload.
    pub fn latest_reload(&self) -> u64 {
        self.schedule.latest_reload()
    }

    /// A zone was added. It is due if the latest reload has yet to come to its slot.
    pub fn zone_added(&mut self, id: ZoneId) {
        self.schedule.zone_added(id.index as usize);
    }

    /// A zone was removed: what is read for it is stale.
    pub fn zone_removed(&mut self, id: ZoneId) {
        self.schedule.zone_removed(id.index as usize);
        self.restores.remove(&id);
        self.reads.remove(&id);
        self.includes.remove(&id);
    }

    /// The zone to load now for the latest reload, if one is due and few loads are in progress; `zone_at` finds the zone of a slot.
    pub fn next_due(&mut self, zone_at: impl Fn(usize) -> Option<ZoneId>) -> Option<ZoneId> {
        if !self.has_room() {
            return None;
        }
        self.schedule.next_zone(|slot| zone_at(slot).is_some()).and_then(zone_at)
    }

    /// Whether few loads are in progress. Those that are stuck do not count.
    pub fn has_room(&self) -> bool {
        self.in_flight + self.restores.len() < MAX_IN_FLIGHT + self.stuck
    }

    //----------- stored versions ----------------------------------------------

    /// The journal reads the stored version of a zone, for this reload.
    pub fn restore_begun(&mut self, id: ZoneId, reload: u64) {
        self.restores.insert(id, reload);
    }

    /// Whether the stored version of a zone is being read.
    pub fn is_restoring(&self, id: ZoneId) -> bool {
        self.restores.contains_key(&id)
    }

    /// The stored version of a zone was read. Returns the reload that waits for its file; `None` if the zone was removed meanwhile.
    pub fn restore_ended(&mut self, id: ZoneId) -> Option<u64> {
        self.restores.remove(&id)
    }

    //----------- files --------------------------------------------------------

    /// Starts to read the file of a zone for this reload, unless it has none. `fingerprint` is the state of its files that it was last read
    /// from. If a read is in progress, another one is to follow: see [`ZoneLoads::end_read`].
    pub fn begin_read(&mut self, id: ZoneId, entry: &ZoneEntry, fingerprint: Fingerprint, reload: u64) {
        let Some(file) = entry.source.file(entry.served.apex()) else { return };
        if let Some(read) = self.reads.get_mut(&id) {
            read.again_for.get_or_insert(reload);
            return;
        }
        let (served, policy) = (entry.served.clone(), entry.source.policy.clone());
        let includes = self.includes.get(&id).cloned();
        let task = Arc::new(ReadTask::new(file, LoadJob { zone: id, served, policy, fingerprint, includes }));
        self.reads.insert(id, FileRead { task: task.clone(), reload, again_for: None });
        self.in_flight += 1;
        self.pool.submit(task);
    }

    /// Counts a task that has returned from the pool. The read goes on until [`ZoneLoads::end_read`].
    pub fn task_returned(&mut self, task: &ReadTask<LoadJob>) {
        self.in_flight -= 1;
        self.has_returned = true;
        self.octets_read += task.progress.octets();
    }

    /// Whether the result of a task is to be served, and not stale.
    pub fn is_current(&self, task: &Arc<ReadTask<LoadJob>>) -> bool {
        self.reads.get(&task.job.zone).is_some_and(|read| Arc::ptr_eq(&read.task, task))
    }

    /// Ends the current read of a zone. Returns the reload for which its files must be read again, if one has begun meanwhile.
    pub fn end_read(&mut self, id: ZoneId) -> Option<u64> {
        self.reads.remove(&id)?.again_for
    }

    /// The result of the current read of a zone is not wanted any more.
    pub fn make_stale(&mut self, id: ZoneId) {
        self.reads.remove(&id);
    }

    /// Sets the files that the file of a zone includes.
    pub fn set_includes(&mut self, id: ZoneId, files: Box<[PathBuf]>) {
        match files.is_empty() {
            true => self.includes.remove(&id),
            false => self.includes.insert(id, files.into()),
        };
    }

    /// Whether the file of a zone includes others.
    pub fn has_includes(&self, id: ZoneId) -> bool {
        self.includes.contains_key(&id)
    }

    //----------- progress -----------------------------------------------------

    /// Whether every zone was loaded since this reload began, or is stuck.
    pub fn is_complete(&self, reload: u64) -> bool {
        self.schedule.has_started_all(reload)
            && self.reads.values().all(|read| read.reload > reload || read.task.is_stuck())
            && self.restores.values().all(|restore| *restore > reload)
    }

    /// The reads that keep this reload incomplete because they are stuck.
    pub fn stuck(&self, reload: u64) -> impl Iterator<Item = &LoadJob> {
        let stuck = self.reads.values().filter(move |read| read.reload <= reload && read.task.is_stuck());
        stuck.map(|read| &read.task.job)
    }

    /// Whether the file or the stored version of a zone is being read, or may be due.
    pub fn is_loading(&self, id: ZoneId) -> bool {
        self.reads.contains_key(&id) || self.restores.contains_key(&id) || self.schedule.due() > 0
    }

    /// Whether all loads are done or stuck.
    pub fn is_settled(&self) -> bool {
        self.schedule.due() == 0 && self.in_flight <= self.stuck && self.restores.is_empty()
    }

    /// Whether all loads are done.
    pub fn is_idle(&self) -> bool {
        self.schedule.due() == 0 && self.in_flight == 0 && self.restores.is_empty()
    }

    /// How far the loads of `total` zones are.
    pub fn progress(&self, total: usize) -> LoadProgress {
        let done = total.saturating_sub(self.schedule.due() + self.in_flight + self.restores.len());
        LoadProgress { done, total, octets: self.octets_read + self.octets_in_flight }
    }

    /// Looks for reads without progress; returns those that are stuck since this call.
    pub fn check_progress(&mut self, now: Instant) -> Vec<Arc<ReadTask<LoadJob>>> {
        let status = self.pool.check_progress(now);
        (self.stuck, self.octets_in_flight) = (status.stuck, status.octets);
        status.newly_stuck
    }

    /// Whether files were read for the batch of zones that is published next: the last of them completes it.
    pub fn has_batch(&self) -> bool {
        self.has_returned
    }

    /// What was read so far is published: the next task that returns begins another batch.
    pub fn begin_batch(&mut self) {
        self.has_returned = false;
    }
}

impl LoadJob {
    /// The name of the zone.
    pub fn apex(&self) -> NameRef<'_> {
        self.served.apex()
    }
}

/// Loads a zone unless its files, included ones too, are unchanged.
pub fn load_if_changed(task: &ReadTask<LoadJob>, limits: ReadLimits) -> Result<LoadResult, TooLarge> {
    let LoadJob { served, policy, fingerprint, includes, .. } = &task.job;
    let includes = includes.iter().flat_map(|includes| includes.iter()).map(PathBuf::as_path);
    let files = std::iter::once::<&Path>(&task.file).chain(includes);
    if *fingerprint != Fingerprint::NONE && fingerprint.is_unchanged(Fingerprint::current(files)) {
        return Ok(LoadResult::Unchanged);
    }
    let purpose = LoadPurpose::Serve(served.zone());
    load(served.apex(), &task.file, policy, purpose, limits, &task.progress).map(LoadResult::Loaded)
}
