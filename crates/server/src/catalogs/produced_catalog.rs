//! A produced catalog: lists the zones of this server that name it as their `catalog-member`.
//!
//! Its zone is the only state: a zone keeps the label that it has in the latest version, and one that is not in there gets a new label. The
//! label of a zone that was added by command follows from the number of its addition, which is stored with it. What a restart or a reload
//! has changed is found by listing the members. Changes go through the registry, so that consumers get a NOTIFY and IXFR.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::{error, info};
use wire::{Name, NameRef, Rtype};
use zone::catalog::{self, CatalogMember};
use zone::change::{ChangeRules, ChangeSet};
use zone::serial_policy::SerialPolicy;
use zone::zone_builder::{ZoneBuilder, ZoneBuilderOptions};
use zone::{CheckMode, Zone};

use super::member_work::{MemberPart, MemberWork};
use super::removed_zones::RemovedZones;
use super::{CatalogEvent, EventSink};
use crate::clock;
use crate::config::ZonePolicy;
use crate::zone_id::ZoneId;
use crate::zones::work_pool::{WorkId, WorkPool};
use crate::zones::{ChangeRefusal, ChangedZone, ProposedChange, PublishOrder, ZoneChange, ZoneRegistry};

/// A catalog that this server makes.
#[derive(Default)]
pub struct ProducedCatalog {
    /// Zones to list, with their group, and zones to list no more (`None`). Those that come and go while the catalog cannot be changed leave
    /// nothing here.
    pending: BTreeMap<Name, Option<Listing>>,
    /// Those of the change that is being made, in the order of their names: if it is refused, they are pending again.
    changing: Vec<(Name, Option<Listing>)>,
    /// Without a journal: the zones that were removed since the start.
    removed: RemovedZones,
    task: Task,
    /// When the catalog is changed again after a change that was refused.
    paused_until: Option<Instant>,
    /// Why the last change was refused.
    problem: Option<String>,
    /// The members must be compared with the zones of the registry.
    needs_relisting: bool,
    /// The content of the zone is not of this server: it was read or transferred before it was to be made here.
    is_foreign: bool,
}

/// How a zone is to be listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    group: Option<String>,
    /// The number of its addition, 0 if there is none.
    addition: u32,
    /// The zone was removed and added again: it gets another label, even if no version of the catalog was without it (RFC 9432 5.6).
    is_reset: bool,
}

#[derive(Default)]
enum Task {
    #[default]
    Idle,
    /// The pool makes the first version, or the next change.
    Making(WorkId),
    /// The registry applies a change.
    Changing,
    /// The pool lists members.
    WaitingForList(WorkId),
    /// Looks for listed members that are zones no more.
    Comparing(MemberPart),
    /// The pool has made something.
    Made(MemberWork),
}

/// How long to wait after a change that was refused: a frozen catalog, or one over its limits, refuses the next one, too.
const PAUSE: Duration = Duration::from_secs(5);
/// Zones that one change lists.
const BATCH: usize = 16_384;
/// Why a catalog is not made while the journal keeps a version of it that it could not read.
const UNREAD: &str = "the catalog is not made: its stored version cannot be read. Restart zonda once the disk works; \
                      or give that version up: remove the zone from the configuration, reload, and add it again";

impl ProducedCatalog {
    /// The zone is to be listed.
    pub fn list(&mut self, zone: Name, group: Option<String>, addition: u32) {
        let is_reset = self.pending.get(&zone).is_some_and(is_reset) | self.removed.take(zone.as_ref());
        self.pending.insert(zone, Some(Listing { group, addition, is_reset }));
    }

    /// The zone is to be listed no more. `may_be_listed`: the latest version has it, or is not known yet.
    pub fn unlist(&mut self, zone: Name, may_be_listed: bool) {
        self.removed.insert(zone.as_ref());
        let is_changing = self.changing.binary_search_by(|(changing, _)| changing.cmp(&zone)).is_ok();
        match may_be_listed || is_changing {
            true => _ = self.pending.insert(zone, None),
            false => _ = self.pending.remove(&zone),
        }
    }

    /// As [`ProducedCatalog::unlist`], for a zone that is gone.
    pub fn unlist_removed(&mut self, name: &Name, zone: Name, zones: &ZoneRegistry) {
        let Some(id) = zones.find(name.as_ref()) else { return self.unlist(zone, true) };
        let is_listed = |version: &Zone| catalog::produced_member(version, zone.as_ref()).is_some();
        let may_be_listed = zones.latest(id).map_or_else(|| zones.will_be_restored(id), is_listed);
        self.unlist(zone, may_be_listed);
    }

    #[cfg(test)]
    pub(super) fn pending_count(&self) -> usize {
        self.pending.len() + self.changing.len()
    }

    /// The zones may have changed without notice: the server has started.
    pub fn relist(&mut self) {
        self.needs_relisting = true;
    }

    /// Whether this job of the pool is for this catalog.
    pub fn is_waiting_for(&self, work: WorkId) -> bool {
        matches!(self.task, Task::Making(id) | Task::WaitingForList(id) if id == work)
    }

    /// Takes the result of that job.
    pub fn finish_work(&mut self, result: Option<MemberWork>) {
        self.task = match result {
            Some(MemberWork::Listed(part)) => Task::Comparing(part),
            Some(made) => Task::Made(made),
            None => {
                error!("zonda panicked while making a catalog; this is a bug, please report it");
                self.needs_relisting = true;
                self.try_again_later();
                Task::Idle
            }
        };
    }

    /// The registry has applied the change, or has refused it for this reason.
    pub fn finish_change(&mut self, name: &Name, result: Result<(), String>) {
        self.task = Task::Idle;
        match result {
            Ok(()) => {
                self.changing.clear();
                self.problem = None;
            }
            Err(reason) => {
                self.set_problem(name, &format!("the catalog lacks changes: {reason}"));
                self.try_again_later();
            }
        }
    }

    /// What fails is tried again and again: the same problem is logged once.
    fn set_problem(&mut self, name: &Name, problem: &str) {
        if self.problem.as_deref() != Some(problem) {
            error!(catalog = %name, "{problem}");
            self.problem = Some(problem.into());
        }
    }

    /// Why it does not list what it is to list.
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    fn try_again_later(&mut self) {
        for (zone, listing) in self.changing.drain(..) {
            // What came since is newer.
            let is_reset = is_reset(&listing);
            if let Some(newer) = self.pending.entry(zone).or_insert(listing) {
                newer.is_reset |= is_reset;
            }
        }
        self.paused_until = Some(clock::now() + PAUSE);
    }

    /// When [`ProducedCatalog::step`] may have something to do, if it has not now.
    pub fn due(&self, now: Instant) -> Option<Instant> {
        self.paused_until.filter(|end| now < *end)
    }

    /// Does a little. Returns whether there is more to do at once. `is_complete`: all zones are in the registry that the start of the
    /// server adds.
    pub fn step(
        &mut self,
        name: &Name,
        zones: &mut ZoneRegistry,
        pool: &WorkPool<MemberWork>,
        events: &EventSink,
        is_complete: bool,
        now: Instant,
    ) -> bool {
        let Some(id) = zones.find(name.as_ref()) else { return false };
        match std::mem::take(&mut self.task) {
            Task::Idle if !is_complete || self.due(now).is_some() => return false,
            Task::Idle => return self.begin(name, id, zones, pool),
            Task::Comparing(part) => self.compare(name, id, zones, pool, part),
            Task::Made(MemberWork::FirstVersion(_)) if zones.is_frozen(id) => self.wait_for_thaw(name),
            Task::Made(MemberWork::FirstVersion(version)) => {
                info!(catalog = %name, serial = version.serial(), "catalog produced");
                zones.replace(id, *version, &[]);
                self.changing.clear();
                (self.is_foreign, self.problem) = (false, None);
            }
            Task::Made(MemberWork::Change(change, is_changed)) if !change.is_empty() => {
                // The others are as they should be, and not tried again if this is refused.
                let mut is_changed = is_changed.into_iter();
                self.changing.retain(|_| is_changed.next().unwrap_or(true));
                self.task = Task::Changing;
                zones.change(zone_change(id, change, name, events));
            }
            Task::Made(_) => {
                self.changing.clear();
                self.problem = None;
            }
            waiting => {
                self.task = waiting;
                return false;
            }
        }
        true
    }

    fn begin(&mut self, name: &Name, id: ZoneId, zones: &ZoneRegistry, pool: &WorkPool<MemberWork>) -> bool {
        self.paused_until = None;
        let has_journal = zones.has_journal();
        if has_journal {
            // The latest version knows which zones are new.
            self.removed = RemovedZones::default();
        }
        let now_s = clock::real().as_secs();
        let Some(base) = zones.latest(id).cloned() else {
            if zones.will_be_restored(id) {
                return false;
            }
            if zones.is_unread(id) {
                // Another first version would have other labels, so that consumers would reset their zones, and could not be changed.
                self.set_problem(name, UNREAD);
                return false;
            }
            // The first version lists all zones at once: consumers remove those that are missing.
            let pending = std::mem::take(&mut self.pending);
            self.changing = pending.into_iter().collect();
            self.needs_relisting = false;
            let (name, members) = (name.clone(), self.changing.clone());
            let serial = zones.policy(id).map_or(SerialPolicy::Unix, first_serial_policy).first(now_s);
            self.task = Task::Making(pool.submit(move || first_version(name.as_ref(), members, serial)));
            return false;
        };
        let serial = zones.policy(id).map_or(SerialPolicy::Unix, serial_policy).next(base.serial(), now_s);
        let are_reset = has_journal || self.removed.is_full();
        self.is_foreign |= self.needs_relisting && catalog::check_version(&base).is_err();
        if self.is_foreign && zones.is_frozen(id) {
            self.wait_for_thaw(name);
        } else if self.is_foreign {
            // What it lists is compared with the zones afterwards.
            self.needs_relisting = true;
            self.changing = std::mem::take(&mut self.pending).into_iter().collect();
            let (name, batch) = (name.clone(), self.changing.clone());
            self.task = Task::Making(pool.submit(move || own_version(name.as_ref(), &base, batch, serial, are_reset)));
        } else if std::mem::take(&mut self.needs_relisting) {
            self.task = Task::WaitingForList(MemberPart::list(pool, base, None));
        } else if !self.pending.is_empty() {
            self.changing = std::iter::from_fn(|| self.pending.pop_first()).take(BATCH).collect();
            let batch = self.changing.clone();
            self.task = Task::Making(pool.submit(move || next_change(&base, batch, serial, are_reset)));
        }
        false
    }

    /// Its content can only be replaced as a whole, and not now.
    fn wait_for_thaw(&mut self, name: &Name) {
        self.set_problem(name, "the catalog is not made: the zone is frozen, with content that it had before");
        self.needs_relisting = true;
        self.try_again_later();
    }

    /// Notes which members are not to be listed, or in another group.
    fn compare(
        &mut self,
        name: &Name,
        id: ZoneId,
        zones: &ZoneRegistry,
        pool: &WorkPool<MemberWork>,
        mut part: MemberPart,
    ) {
        for member in part.take_step() {
            if !is_own(&member) {
                (self.is_foreign, self.needs_relisting) = (true, true);
                return;
            }
            let zone = zones.find(member.zone.as_ref()).and_then(|id| Some((zones.addition(id), zones.policy(id)?)));
            let zone = zone.filter(|(_, policy)| policy.catalog_member.as_ref() == Some(name));
            match zone.map(|(addition, policy)| (addition, policy.catalog_group.clone())) {
                None => self.unlist(member.zone, true),
                Some((addition, group)) if groups(group.as_deref()) != member.groups => {
                    self.list(member.zone, group, addition);
                }
                Some(_) => (),
            }
        }
        self.task = match (part.last.clone(), zones.latest(id)) {
            _ if !part.is_taken() => Task::Comparing(part),
            (Some(last), Some(version)) => Task::WaitingForList(MemberPart::list(pool, version.clone(), Some(last))),
            _ => Task::Idle,
        };
    }
}

fn groups(group: Option<&str>) -> Vec<Box<[u8]>> {
    group.iter().map(|group| group.as_bytes().into()).collect()
}

/// Whether a zone that was to be listed like this, and is listed again before the catalog is changed, gets another label.
fn is_reset(listing: &Option<Listing>) -> bool {
    listing.as_ref().is_none_or(|listing| listing.is_reset)
}

/// The label of a zone whose addition has this number. RFC 9432 5.6: a zone that is added again has another one, and a restart knows which.
fn label_of(zone: NameRef<'_>, addition: u32) -> Option<Box<[u8]>> {
    (addition != 0).then(|| catalog::unique_label_since(zone, addition).into())
}

/// Whether this server has made the label of a member.
fn is_own(member: &CatalogMember) -> bool {
    member.label.starts_with(&catalog::unique_label(member.zone.as_ref()))
}

fn member(zone: Name, label: Box<[u8]>, listing: &Listing) -> CatalogMember {
    CatalogMember { label, zone, groups: groups(listing.group.as_deref()), change_of_ownership: None }
}

fn first_version(name: NameRef<'_>, members: Vec<(Name, Option<Listing>)>, serial: u32) -> MemberWork {
    let members = members.into_iter().filter_map(|(zone, listing)| {
        let listing = listing?;
        let label = label_of(zone.as_ref(), listing.addition);
        let label = label.unwrap_or_else(|| catalog::unique_label(zone.as_ref()).into());
        Some(member(zone, label, &listing))
    });
    whole_version(name, members, serial)
}

/// The version in place of one that is not of this server: of what that has, only members remain whose labels are those that this server makes.
fn own_version(
    name: NameRef<'_>,
    base: &Zone,
    batch: Vec<(Name, Option<Listing>)>,
    serial: u32,
    are_reset: bool,
) -> MemberWork {
    let members = catalog::members_after(base, None).filter_map(Result::ok).filter(is_own);
    let mut members: BTreeMap<Name, CatalogMember> = members.map(|member| (member.zone.clone(), member)).collect();
    for (zone, listing) in batch {
        let old = members.remove(&zone);
        members.extend(listing.map(|listing| {
            let listed = listed(&zone, &listing, old.as_ref(), serial, are_reset);
            (zone, listed)
        }));
    }
    whole_version(name, members.into_values(), serial)
}

fn whole_version(name: NameRef<'_>, members: impl Iterator<Item = CatalogMember>, serial: u32) -> MemberWork {
    let mut builder = ZoneBuilder::new(name, ZoneBuilderOptions::default());
    builder.push(name, Rtype::SOA, TTL, &catalog::soa_rdata(serial));
    let records = members.flat_map(|member| catalog::member_records(name, &member));
    for (owner, rtype, rdata) in catalog::apex_records(name).into_iter().chain(records) {
        builder.push(owner.as_ref(), rtype, TTL, &rdata);
    }
    let (version, _) = builder.finish().expect("the records of a catalog are valid");
    MemberWork::FirstVersion(Box::new(version))
}

/// The change that lists these zones, or does not any more; it leaves out those for which that is so already. `are_reset`: zones that the
/// version before does not list get other labels than they may have had earlier.
///
/// Without a journal the next start lists all zones as in a first version, so that only those that were removed get another label, or
/// all once too many were removed to be remembered.
fn next_change(base: &Zone, batch: Vec<(Name, Option<Listing>)>, serial: u32, are_reset: bool) -> MemberWork {
    let catalog = base.apex();
    let (mut change, mut is_changed) = (ChangeSet::new(catalog), Vec::with_capacity(batch.len()));
    for (zone, listing) in batch {
        let old = catalog::produced_member(base, zone.as_ref());
        let new = listing.map(|listing| listed(&zone, &listing, old.as_ref(), serial, are_reset));
        is_changed.push(old != new);
        if old == new {
            continue;
        }
        for (owner, rtype, rdata) in old.iter().flat_map(|old| catalog::member_records(catalog, old)) {
            change.remove(owner.as_ref(), rtype, &rdata).expect(BELOW_APEX);
        }
        for (owner, rtype, rdata) in new.iter().flat_map(|new| catalog::member_records(catalog, new)) {
            change.add(owner.as_ref(), rtype, TTL, &rdata).expect(BELOW_APEX);
        }
    }
    if !change.is_empty() {
        change.remove(catalog, Rtype::SOA, &base.soa_rdata()).expect(BELOW_APEX);
        change.add(catalog, Rtype::SOA, TTL, &catalog::soa_rdata(serial)).expect(BELOW_APEX);
    }
    MemberWork::Change(Box::new(change), is_changed)
}

/// The member for a zone that is to be listed like this, and that the version before lists as `old`: see [`next_change`].
fn listed(zone: &Name, listing: &Listing, old: Option<&CatalogMember>, serial: u32, are_reset: bool) -> CatalogMember {
    let kept = || old.filter(|_| !listing.is_reset).map(|old| old.label.clone());
    let label = label_of(zone.as_ref(), listing.addition).or_else(kept);
    let label = label.unwrap_or_else(|| match are_reset || listing.is_reset {
        true => catalog::unique_label_since(zone.as_ref(), serial).into(),
        false => catalog::unique_label(zone.as_ref()).into(),
    });
    member(zone.clone(), label, listing)
}

fn zone_change(zone: ZoneId, change: Box<ChangeSet>, name: &Name, events: &EventSink) -> ZoneChange {
    let (catalog, events) = (name.clone(), events.clone());
    let done = Box::new(move |result: Result<ChangedZone, ChangeRefusal>| {
        if let Ok(changed) = &result {
            info!(%catalog, serial = changed.serial, "catalog changed");
        }
        events(CatalogEvent::Changed(catalog, result.map(drop).map_err(|reason| reason.to_string())));
    });
    let rules = ChangeRules { check_mode: CheckMode::Lenient, nsec3_max_iterations: 0 };
    ZoneChange { zone, change: ProposedChange::Records(change), rules, order: PublishOrder::AfterSync, done }
}

/// The serial of a catalog must be later than all before even if the state-dir was lost: the time is, unless the configuration says
/// otherwise.
fn serial_policy(policy: &Arc<ZonePolicy>) -> SerialPolicy {
    match policy.serial_policy {
        SerialPolicy::Keep => SerialPolicy::Unix,
        chosen => chosen,
    }
}

/// The policy for the first serial: one that only counts begins at the time, too.
fn first_serial_policy(policy: &Arc<ZonePolicy>) -> SerialPolicy {
    match policy.serial_policy {
        SerialPolicy::Date => SerialPolicy::Date,
        SerialPolicy::Keep | SerialPolicy::Increment | SerialPolicy::Unix => SerialPolicy::Unix,
    }
}

/// RFC 9432 3: nobody resolves the names of a catalog.
const TTL: u32 = 0;
const BELOW_APEX: &str = "all names are in the catalog";
