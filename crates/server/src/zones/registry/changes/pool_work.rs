//! Work of the pool: large changes, and rebuilds of zones, which catch up with the changes since they began.

use std::collections::VecDeque;
use std::sync::Arc;

use zone::change::{ChangeRules, ChangeSet};
use zone::encoded_change::EncodedChange;
use zone::{CheckMode, Zone};

use super::{ChangeDone, ChangeRefusal, MAX_INLINE_RECORDS, PublishOrder, ZoneChange};
use crate::config::ZonePolicy;
use crate::report::ZoneReport;
use crate::zone_id::ZoneId;
use crate::zones::ZoneRegistry;
use crate::zones::acceptance::{self, AcceptedChange};
use crate::zones::load::LoadedZone;
use crate::zones::read_pool::ReadTask;
use crate::zones::work_pool::WorkId;
use crate::zones::zone_loads::{LoadJob, LoadResult};

/// A result of the pool.
pub type FinishedWork = (WorkId, Option<ZoneWorkResult>);

/// What the pool computed.
pub enum ZoneWorkResult {
    /// The result of a large change.
    Applied(ZoneId, Box<Result<Option<AcceptedChange>, ChangeRefusal>>),
    /// A rebuilt version, caught up with the changes that it was given; `None` if it could not.
    Rebuilt(ZoneId, Option<Box<Zone>>),
    /// A zone that was read, unless the external command refused it.
    Checked(Arc<ReadTask<LoadJob>>, Box<LoadedZone>),
}

/// What the pool computes for a zone.
pub(super) struct ZoneWork {
    pub(super) id: WorkId,
    pub(super) kind: WorkKind,
}

pub(super) enum WorkKind {
    /// A rebuild, and the changes since it began.
    Rebuild(Vec<(ChangeSet, ChangeRules)>),
    /// A large change, and those of the same zone that wait for it.
    Apply { order: PublishOrder, done: ChangeDone, waiting: VecDeque<ZoneChange> },
}

/// A rebuilt version with at most this many changes to catch up with is finished by the writer, unless one of them takes long.
const MAX_INLINE_CHANGES: usize = 32;

/// Threads of one rebuild: more would compete with answering.
const REBUILD_THREADS: usize = 1;

impl ZoneRegistry {
    pub(super) fn change_in_pool(&mut self, base: Zone, policy: Arc<ZonePolicy>, change: ZoneChange) {
        let ZoneChange { zone, change, rules, order, done } = change;
        // The rebuild would have to catch up with it; a later change starts another one.
        self.changes.work.remove(&zone);
        let command = acceptance::command_lane(&policy);
        let apply = move || {
            let change = change.compute(&base)?;
            if change.is_empty() {
                return Ok(None);
            }
            Ok(Some(acceptance::apply(&base, change, rules, &policy)?))
        };
        let job = move || ZoneWorkResult::Applied(zone, Box::new(apply()));
        let kind = WorkKind::Apply { order, done, waiting: VecDeque::new() };
        let id = self.pools.submit(command, job);
        self.changes.work.insert(zone, ZoneWork { id, kind });
    }

    pub(super) fn log_for_rebuild(&mut self, zone: ZoneId, change: ChangeSet, rules: ChangeRules) {
        if let Some(ZoneWork { kind: WorkKind::Rebuild(log), .. }) = self.changes.work.get_mut(&zone) {
            log.push((change, rules));
        }
    }

    pub(super) fn rebuild(&mut self, zone: ZoneId) {
        if self.changes.work.contains_key(&zone) {
            return;
        }
        let Some(base) = self.latest(zone).cloned() else { return };
        let job = move || ZoneWorkResult::Rebuilt(zone, Some(Box::new(base.rebuild(REBUILD_THREADS))));
        let id = self.pools.submit(None, job);
        self.changes.work.insert(zone, ZoneWork { id, kind: WorkKind::Rebuild(Vec::new()) });
    }

    /// Takes a result of the pool. It is stale if the zone was removed or replaced since. Returns the change of a zone that was
    /// read, if any.
    pub fn finish_work(&mut self, (id, result): FinishedWork) -> Option<ZoneReport> {
        match result {
            Some(ZoneWorkResult::Checked(task, loaded)) => self.end_load(&task, LoadResult::Loaded(*loaded)),
            result => {
                self.finish_change(id, result);
                None
            }
        }
    }

    fn finish_change(&mut self, id: WorkId, result: Option<ZoneWorkResult>) {
        let is_current = |work: &ZoneWork| work.id == id;
        let zone = match &result {
            Some(ZoneWorkResult::Applied(zone, _) | ZoneWorkResult::Rebuilt(zone, _)) => Some(*zone),
            Some(ZoneWorkResult::Checked(..)) => None,
            None => self.changes.work.iter().find(|(_, work)| is_current(work)).map(|(zone, _)| *zone),
        };
        let Some(zone) = zone.filter(|zone| self.changes.work.get(zone).is_some_and(is_current)) else { return };
        let Some(work) = self.changes.work.remove(&zone) else { return };
        match (work.kind, result) {
            (WorkKind::Rebuild(log), Some(ZoneWorkResult::Rebuilt(_, Some(rebuilt)))) => {
                self.catch_up(zone, *rebuilt, log);
            }
            (WorkKind::Apply { order, done, waiting }, Some(ZoneWorkResult::Applied(_, applied))) => {
                match *applied {
                    // It was frozen while the change was computed.
                    Ok(Some(_)) if self.is_frozen(zone) => done(Err(ChangeRefusal::Frozen)),
                    Ok(Some(accepted)) => self.accept(zone, accepted, order, done),
                    Ok(None) => self.confirm(zone, done),
                    Err(refused) => self.refuse(zone, refused, done),
                }
                waiting.into_iter().for_each(|change| self.change(change));
            }
            (WorkKind::Apply { done, waiting, .. }, _) => {
                done(Err(ChangeRefusal::Panicked));
                waiting.into_iter().for_each(|change| self.change(change));
            }
            (WorkKind::Rebuild(_), _) => (),
        }
    }

    /// Applies to a rebuilt version the changes since: few at once, many in the pool.
    fn catch_up(&mut self, zone: ZoneId, rebuilt: Zone, log: Vec<(ChangeSet, ChangeRules)>) {
        let records: usize = log.iter().map(|(change, _)| change.len()).sum();
        let is_large =
            records > MAX_INLINE_RECORDS || acceptance::is_long(&rebuilt, log.iter().map(|(change, _)| change));
        if log.len() > MAX_INLINE_CHANGES || is_large {
            let job = move || ZoneWorkResult::Rebuilt(zone, replay(rebuilt, log).map(Box::new));
            let id = self.pools.submit(None, job);
            self.changes.work.insert(zone, ZoneWork { id, kind: WorkKind::Rebuild(Vec::new()) });
            return;
        }
        let Some(version) = replay(rebuilt, log) else { return };
        match self.changes.latest.get_mut(&zone) {
            // The published version follows with the next change that is on disk.
            Some((latest, _)) => *latest = version,
            None => {
                if let Some(entry) = self.zones.get_mut(zone) {
                    entry.serve_rebuilt(version);
                    self.publisher.queue_change(zone);
                }
            }
        }
    }

    /// The rebuild of a zone that is in progress, if it can catch up with these changes: otherwise a zone that is changed by transfers
    /// would never be rebuilt.
    pub(super) fn rebuild_that_follows(&mut self, id: ZoneId, changes: &[EncodedChange]) -> Option<ZoneWork> {
        let rules = self.policy(id)?.change_rules(CheckMode::Lenient);
        let WorkKind::Rebuild(log) = &mut self.changes.work.get_mut(&id).filter(|_| !changes.is_empty())?.kind else {
            return None;
        };
        log.extend(changes.iter().map(|change| (change.to_change_set(), rules)));
        self.changes.work.remove(&id)
    }
}

/// The zone after all changes; `None` if one does not apply, which would be a bug as it did before.
fn replay(mut version: Zone, log: Vec<(ChangeSet, ChangeRules)>) -> Option<Zone> {
    for (change, rules) in log {
        version = version.apply(change, rules).ok()?.zone;
    }
    Some(version)
}
