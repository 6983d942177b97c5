//! A consumed catalog: compares its versions, a few members at a time. [`super::member_placement`] serves, removes and hands over members.

use std::collections::{BTreeMap, HashSet};

use tracing::{error, info};
use wire::{Name, NameRef};
use zone::Zone;
use zone::catalog::{self, CatalogError, CatalogMember, MemberChange};

use super::member_placement::{Context, Placed};
use super::member_work::{MemberPart, MemberWork, STEP};
use crate::zone_id::ZoneId;
use crate::zones::ZoneRegistry;
use crate::zones::work_pool::{WorkId, WorkPool};

/// A catalog whose members are served here.
#[derive(Default)]
pub struct ConsumedCatalog {
    /// The version whose members are served, or are being added.
    applied: Option<Zone>,
    task: Task,
    /// Another version is served.
    has_new_version: bool,
    /// The members must be placed anew: the configuration has changed.
    needs_relisting: bool,
    problem: Option<String>,
    counts: Counts,
}

/// Members placed by the current task.
#[derive(Default)]
struct Counts {
    placed: usize,
    removed: usize,
    waiting: usize,
}

/// What a catalog is doing.
#[derive(Default)]
enum Task {
    #[default]
    Idle,
    /// The pool compares this version with the one applied.
    Comparing(WorkId, Zone),
    /// Looks for zones that unchanged members have already.
    Checking(DuplicateSearch),
    /// Removes and adds members.
    Applying(std::vec::IntoIter<MemberChange>),
    /// The pool lists members.
    WaitingForList(WorkId),
    /// Places the listed members.
    Placing(MemberPart),
}

/// A search for zones that unchanged members have already, from the change `next` on.
struct DuplicateSearch {
    new: Zone,
    changes: Vec<MemberChange>,
    removed: HashSet<Name>,
    next: usize,
}

impl ConsumedCatalog {
    /// The configuration has changed: all members are placed anew.
    pub fn relist(&mut self) {
        self.needs_relisting = true;
        self.has_new_version = true;
    }

    /// Another version may be served.
    pub fn note_version(&mut self) {
        self.has_new_version = true;
    }

    /// Why the catalog is not processed.
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// Whether all members are placed.
    pub fn is_settled(&self) -> bool {
        self.processed_serial().is_some()
    }

    /// The serial of the version whose members are all placed.
    pub fn processed_serial(&self) -> Option<u32> {
        let is_idle = matches!(self.task, Task::Idle) && !self.needs_relisting && !self.has_new_version;
        self.applied.as_ref().filter(|_| is_idle).map(Zone::serial)
    }

    /// Whether it has nothing under way.
    #[cfg(test)]
    pub fn is_idle(&self) -> bool {
        matches!(self.task, Task::Idle)
    }

    /// Whether this job of the pool is for this catalog.
    pub fn is_waiting_for(&self, work: WorkId) -> bool {
        matches!(&self.task, Task::Comparing(id, _) | Task::WaitingForList(id) if *id == work)
    }

    /// Takes the result of that job.
    pub fn finish_work(&mut self, name: NameRef<'_>, result: Option<MemberWork>) {
        self.task = match (std::mem::take(&mut self.task), result) {
            (Task::Comparing(_, new), Some(MemberWork::Compared(Ok(Some(changes))))) => {
                let removed = changes.iter().filter_map(|change| Some(change.old.as_ref()?.zone.clone())).collect();
                Task::Checking(DuplicateSearch { new, changes, removed, next: 0 })
            }
            (Task::Comparing(_, new), Some(MemberWork::Compared(Ok(None)))) => {
                self.accept(new);
                self.needs_relisting = true;
                Task::Idle
            }
            (Task::Comparing(..), Some(MemberWork::Compared(Err(problem)))) => {
                self.reject(name, &problem.to_string());
                Task::Idle
            }
            (Task::WaitingForList(_), Some(MemberWork::Listed(part))) => Task::Placing(part),
            _ => {
                self.reject(name, "zonda panicked while reading it; this is a bug, please report it");
                Task::Idle
            }
        }
    }

    /// Does a little. Returns whether there is more to do at once.
    pub fn step(&mut self, name: &Name, context: &mut Context<'_>, pool: &WorkPool<MemberWork>) -> bool {
        match std::mem::take(&mut self.task) {
            Task::Idle => return self.begin(name, context, pool),
            Task::Checking(search) => self.check(name, context, search),
            Task::Applying(changes) => self.apply(name, context, changes),
            Task::Placing(part) => self.place(name, context, pool, part),
            waiting @ (Task::Comparing(..) | Task::WaitingForList(_)) => {
                self.task = waiting;
                return false;
            }
        }
        true
    }

    fn begin(&mut self, name: &Name, context: &Context<'_>, pool: &WorkPool<MemberWork>) -> bool {
        // First, so that a change of the next version finds in the registry what it is to remove.
        if std::mem::take(&mut self.needs_relisting) && self.applied.is_some() {
            self.list(pool, None);
            return false;
        }
        if std::mem::take(&mut self.has_new_version) {
            let new = context.zones.find(name.as_ref()).and_then(|id| served_or_expired(context.zones, id)).cloned();
            let applied = self.applied.as_ref().map(Zone::version);
            if let Some(new) = new.filter(|new| applied != Some(new.version())) {
                let (old, version) = (self.applied.clone(), new.clone());
                let id = pool.submit(move || {
                    MemberWork::Compared(match old {
                        Some(old) => catalog::changes(&old, &version).map(|changes| Some(in_order(changes))),
                        None => catalog::check(&version).map(|()| None),
                    })
                });
                self.task = Task::Comparing(id, new);
                return false;
            }
        }
        false
    }

    /// RFC 9432 4.1: a zone that an unchanged member has must not be listed again.
    fn check(&mut self, name: &Name, context: &Context<'_>, search: DuplicateSearch) {
        let DuplicateSearch { new, changes, removed, next } = search;
        let end = changes.len().min(next + STEP);
        let mut zones = changes[next..end].iter().filter_map(|change| Some(&change.new.as_ref()?.zone));
        let duplicate = zones.find(|zone| !removed.contains(*zone) && context.is_listed(name, zone)).cloned();
        self.task = match duplicate {
            Some(zone) => {
                self.reject(name.as_ref(), &CatalogError::Duplicate(zone).to_string());
                Task::Idle
            }
            None if end < changes.len() => Task::Checking(DuplicateSearch { new, changes, removed, next: end }),
            None => {
                self.accept(new);
                Task::Applying(changes.into_iter())
            }
        };
    }

    fn apply(&mut self, name: &Name, context: &mut Context<'_>, mut changes: std::vec::IntoIter<MemberChange>) {
        for MemberChange { old, new } in changes.by_ref().take(STEP) {
            match (old, &new) {
                (Some(old), None) => {
                    context.displace(name, &old.zone);
                    context.place_next(&old.zone);
                    self.counts.removed += 1;
                }
                // RFC 9432 5.4: a zone with another label is removed with its data and added again, in the same catalog.
                (Some(old), Some(new)) if old.label != new.label => {
                    context.displace(name, &old.zone);
                    self.counts.removed += 1;
                }
                _ => (),
            }
            if let Some(new) = new {
                self.place_one(name, context, new);
            }
        }
        if changes.len() > 0 {
            self.task = Task::Applying(changes);
            return;
        }
        for member in context.arriving(name) {
            self.place_one(name, context, member);
        }
        self.report(name, context);
    }

    fn list(&mut self, pool: &WorkPool<MemberWork>, after: Option<Box<[u8]>>) {
        let Some(version) = self.applied.clone() else { return };
        self.task = Task::WaitingForList(MemberPart::list(pool, version, after));
    }

    fn place(&mut self, name: &Name, context: &mut Context<'_>, pool: &WorkPool<MemberWork>, mut part: MemberPart) {
        for member in part.take_step() {
            self.place_one(name, context, member);
        }
        match part.last {
            _ if !part.is_taken() => self.task = Task::Placing(part),
            Some(last) => self.list(pool, Some(last)),
            None => self.report(name, context),
        }
    }

    fn place_one(&mut self, name: &Name, context: &mut Context<'_>, member: CatalogMember) {
        match context.place(name, member) {
            Placed::Served => self.counts.placed += 1,
            Placed::Waiting => self.counts.waiting += 1,
        }
    }

    fn accept(&mut self, version: Zone) {
        self.applied = Some(version);
        self.problem = None;
    }

    /// RFC 9432 5.1: the members stay as they are.
    fn reject(&mut self, name: NameRef<'_>, problem: &str) {
        let problem = format!("the catalog is broken, its members stay as they are: {problem}");
        error!(catalog = %name, "{problem}");
        self.problem = Some(problem);
    }

    fn report(&mut self, name: &Name, context: &mut Context<'_>) {
        context.note_placed(name);
        let Counts { placed, removed, waiting } = std::mem::take(&mut self.counts);
        let serial = self.applied.as_ref().map(Zone::serial);
        info!(catalog = %name, serial, served = placed, removed, not_served = waiting, "catalog processed");
    }
}

/// The version of a catalog that is served, or that has expired: its members are served until their own timers expire.
fn served_or_expired(zones: &ZoneRegistry, id: ZoneId) -> Option<&Zone> {
    zones.served(id)?.zone().or_else(|| zones.version_or_expired(id))
}

/// Removals first: a label may go from one zone to another. The change of a zone has both members, whatever their labels.
fn in_order(changes: Vec<MemberChange>) -> Vec<MemberChange> {
    let mut removals = BTreeMap::new();
    let mut additions = Vec::new();
    for MemberChange { old, new } in changes {
        removals.extend(old.map(|old| (old.zone.clone(), old)));
        additions.extend(new);
    }
    let additions = additions.into_iter().map(|new| MemberChange { old: removals.remove(&new.zone), new: Some(new) });
    let additions: Vec<_> = additions.collect();
    let removals = removals.into_values().map(|old| MemberChange { old: Some(old), new: None });
    removals.chain(additions).collect()
}
