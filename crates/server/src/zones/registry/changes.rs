//! Changes of zones: check and apply, journal, publish, report.
//!
//! A change is applied to the latest version of its zone, which may not be published yet: with a journal, a version is
//! published once it is on disk, and later changes need not wait for that (`journaled.rs`). Large changes and rebuilds go to
//! the pool (`pool_work.rs`); other zones do not wait for them. While a zone is rebuilt it keeps changing, and the rebuilt version catches up.

mod change_refusal;
mod journaled;
mod pool_work;
mod proposed;
#[cfg(test)]
mod proposed_tests;
#[cfg(test)]
mod rollback_tests;
#[cfg(test)]
mod tests;
mod zone_change;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tracing::warn;
use zone::change::{Applied, ChangeRules};
use zone::encoded_change::EncodedChange;
use zone::{Difference, Finding, Zone};

use super::ZoneRegistry;
use crate::clock;
use crate::rate_limited_log::RateLimitedLog;
use crate::zone_id::{ZoneId, ZoneIdMap};
use crate::zones::acceptance::{self, AcceptedChange};
use crate::zones::journal::JournalUnavailable;
use crate::zones::text_files::TextFile;
pub use change_refusal::ChangeRefusal;
pub use pool_work::{FinishedWork, ZoneWorkResult};
use pool_work::{WorkKind, ZoneWork};
pub use proposed::{ProposedChange, RollbackVersion};
pub use zone_change::{ChangeDone, ChangedZone, PublishOrder, ZoneChange};

/// Changes that are not published yet, and zones that the pool works on.
#[derive(Default)]
pub(super) struct Changes {
    /// The latest version of each zone that has changes in `unsynced`, and how many.
    latest: ZoneIdMap<(Zone, usize)>,
    /// Changes that are not on disk yet, in the order of their numbers in the journal.
    unsynced: VecDeque<Unsynced>,
    /// Earlier versions that are to be published, whose images have no number yet.
    storing: ZoneIdMap<Unsynced>,
    /// Changes of zones whose version is being written to the journal, and since when they wait.
    unprepared: ZoneIdMap<VecDeque<(Instant, ZoneChange)>>,
    /// Zones that the pool works on.
    work: ZoneIdMap<ZoneWork>,
    /// Changes whose result is reported when the changed zones are published next.
    published: Vec<(ZoneId, Option<ChangeDone>, ChangedZone)>,
    /// Zones that were replaced, to be announced when the changed zones are published next.
    replaced: Vec<ZoneId>,
    /// Zones that an operator wants to be announced again, when the changed zones are published next.
    notified_again: Vec<ZoneId>,
    /// Zones with a first version, read, received or restored, to be announced when the batch of loaded zones is published.
    loaded: Vec<ZoneId>,
    warnings: WarningsLog,
}

/// Limits the lines about what is wrong after a change: each change of a zone may repeat those about its apex.
struct WarningsLog(RateLimitedLog);

impl Default for WarningsLog {
    fn default() -> WarningsLog {
        WarningsLog(RateLimitedLog::new(10, Duration::from_secs(10)))
    }
}

struct Unsynced {
    number: u64,
    since: Instant,
    zone: ZoneId,
    /// The version to publish and the change that leads to it, if one does; none if nothing was changed.
    version: Option<(Zone, Option<EncodedChange>)>,
    /// `None` if the result was reported: it took too long.
    done: Option<ChangeDone>,
    changed: ChangedZone,
}

impl Unsynced {
    /// Whether it is an earlier version with its own serial.
    fn is_rollback(&self) -> bool {
        matches!(self.version, Some((_, None)))
    }
}

/// A change of more records goes to the pool: this many take the writer about a millisecond.
const MAX_INLINE_RECORDS: usize = 500;
/// Changes of one zone that may wait for a large one.
const MAX_WAITING: usize = 1024;

impl ZoneRegistry {
    /// Begins a change; its result is reported once it is published.
    pub fn change(&mut self, change: ZoneChange) {
        if self.is_frozen(change.zone) && !matches!(change.change, ProposedChange::Rollback(_)) {
            return (change.done)(Err(ChangeRefusal::Frozen));
        }
        if let Some(ZoneWork { kind: WorkKind::Apply { waiting, .. }, .. }) = self.changes.work.get_mut(&change.zone) {
            if waiting.len() < MAX_WAITING {
                waiting.push_back(change);
            } else {
                (change.done)(Err(ChangeRefusal::Busy));
            }
            return;
        }
        let Some(change) = self.prepare_journal(change) else { return };
        if let ProposedChange::Rollback(rollback) = change.change {
            return self.accept_rollback(change.zone, *rollback, (change.rules, change.order, change.done));
        }
        let state = self.latest(change.zone).zip(self.policy(change.zone));
        let Some((base, policy)) = state else { return (change.done)(Err(ChangeRefusal::NotServed)) };
        if change.change.is_large() || acceptance::needs_pool(policy) {
            let (base, policy) = (base.clone(), policy.clone());
            return self.change_in_pool(base, policy, change);
        }
        let ZoneChange { zone, change, rules, order, done } = change;
        let change = match change.compute(base) {
            Ok(change) => change,
            Err(refused) => return done(Err(refused)),
        };
        if change.is_empty() {
            return self.confirm(zone, done);
        }
        if change.len() > MAX_INLINE_RECORDS || acceptance::is_long(base, [&change]) {
            let (base, policy) = (base.clone(), policy.clone());
            let change = ProposedChange::Records(Box::new(change));
            return self.change_in_pool(base, policy, ZoneChange { zone, change, rules, order, done });
        }
        match acceptance::apply(base, change, rules, policy) {
            Ok(accepted) => {
                if self.changes.work.contains_key(&zone) {
                    self.log_for_rebuild(zone, accepted.applied.change.to_change_set(), rules);
                }
                self.accept(zone, accepted, order, done);
            }
            Err(rejection) => self.refuse(zone, rejection.into(), done),
        }
    }

    /// Replaces a zone by one that was loaded or transferred, and announces it; `changes` lead to it, none if they are not known.
    /// Changes that are being computed for it are refused. Returns false if there is no such zone any more.
    pub fn replace(&mut self, id: ZoneId, version: Zone, changes: &[EncodedChange]) -> bool {
        self.journal_version(id, &version, changes);
        let is_first = self.zones.get(id).is_some_and(|entry| entry.served.zone().is_none());
        let is_replaced = self.install(id, version, changes);
        if is_replaced {
            let announced = if is_first { &mut self.changes.loaded } else { &mut self.changes.replaced };
            announced.push(id);
        }
        self.follow_journal();
        is_replaced
    }

    /// As [`ZoneRegistry::replace`], by a version that is in the journal, and without announcing it.
    pub(super) fn install(&mut self, id: ZoneId, version: Zone, changes: &[EncodedChange]) -> bool {
        self.keep_version(id);
        let Some(entry) = self.zones.get_mut(id) else { return false };
        let (is_first, needs_rebuild) = (entry.served.zone().is_none(), version.needs_rebuild());
        entry.serve(version, changes, self.max_history_octets);
        self.expired.remove(&id);
        // First versions come in great numbers.
        if is_first {
            self.publisher.queue(id)
        } else {
            self.publisher.queue_change(id)
        }
        self.served += usize::from(is_first);
        self.freeze_again(id);
        self.note_version(id);
        let rebuild = self.rebuild_that_follows(id, changes);
        self.discard_changes(id, || ChangeRefusal::Replaced);
        self.changes.work.extend(rebuild.map(|work| (id, work)));
        if needs_rebuild {
            self.rebuild(id);
        }
        true
    }

    /// The latest version of a zone, published or not: what the next change is applied to.
    pub fn latest(&self, id: ZoneId) -> Option<&Zone> {
        let unpublished = self.changes.latest.get(&id).map(|(version, _)| version);
        unpublished.or_else(|| self.zones.get(id)?.served.zone())
    }

    /// Journals a version that was checked, and publishes it when its order says so.
    fn accept(&mut self, zone: ZoneId, accepted: AcceptedChange, order: PublishOrder, done: ChangeDone) {
        let AcceptedChange { applied: Applied { zone: version, change, warnings, .. }, remarks } = accepted;
        for remark in remarks {
            warn!(zone = %version.apex(), serial = version.serial(), "{remark}");
        }
        if !warnings.is_empty()
            && let Some(left_out) = self.changes.warnings.0.permit()
        {
            let warnings = warnings.iter().map(Finding::to_string).collect::<Vec<_>>().join("; ");
            warn!(zone = %version.apex(), serial = version.serial(), left_out, "after a change: {warnings}");
        }
        let Some(old) = self.latest(zone) else { return done(Err(ChangeRefusal::NotServed)) };
        let changed = ChangedZone { old_serial: old.serial(), serial: version.serial() };
        let needs_rebuild = version.needs_rebuild();
        let appended = self.journal.append_change(zone, version.apex(), &change);
        if appended.is_err() && order == PublishOrder::AfterSync {
            return done(Err(ChangeRefusal::NotDurable));
        }
        self.note_update(zone, changed.old_serial);
        match (appended, order) {
            (Ok(Some(number)), PublishOrder::AfterSync) => {
                let count = self.changes.latest.get(&zone).map_or(0, |(_, count)| *count);
                self.changes.latest.insert(zone, (version.clone(), count + 1));
                let (since, done, version) = (clock::now(), Some(done), Some((version, Some(change))));
                self.changes.unsynced.push_back(Unsynced { number, since, zone, version, done, changed });
            }
            (Err(JournalUnavailable), _) => {
                self.journal_version(zone, &version, &[]);
                self.publish_version(zone, version, Some(change), Some(done), changed);
            }
            _ => self.publish_version(zone, version, Some(change), Some(done), changed),
        }
        self.follow_journal();
        if needs_rebuild {
            self.rebuild(zone);
        }
    }

    /// The content of a zone is not that of its file any more.
    fn note_update(&mut self, zone: ZoneId, old_serial: u32) {
        if self.zones.get(zone).is_some_and(|entry| entry.source.has_file()) {
            self.updated.entry(zone).or_insert(old_serial);
        }
    }

    /// Journals an earlier version. It was accepted once, and limits of changes are not for operators.
    fn accept_rollback(
        &mut self,
        zone: ZoneId,
        RollbackVersion { base, version, change }: RollbackVersion,
        (rules, order, done): (ChangeRules, PublishOrder, ChangeDone),
    ) {
        if self.latest(zone).map(Zone::version) != Some(base) {
            return done(Err(ChangeRefusal::Replaced));
        }
        if self.changes.work.contains_key(&zone) {
            self.log_for_rebuild(zone, change.to_change_set(), rules);
        }
        let (difference, warnings, remarks) = (Difference::default(), Vec::new(), Vec::new());
        let applied = Applied { zone: version, change, difference, warnings };
        self.accept(zone, AcceptedChange { applied, remarks }, order, done);
    }

    fn refuse(&mut self, zone: ZoneId, refused: ChangeRefusal, done: ChangeDone) {
        if let (ChangeRefusal::Rejected(reason), Some(served)) = (&refused, self.served(zone)) {
            warn!(zone = %served.apex(), "a change was refused: {reason}");
            self.note_problem(zone, Some(format!("the last change was refused: {reason}")));
        }
        done(Err(refused));
    }

    /// Reports a change that changes nothing, once all that it relies on is on disk and published.
    fn confirm(&mut self, zone: ZoneId, done: ChangeDone) {
        let Some(serial) = self.latest(zone).map(Zone::serial) else { return done(Err(ChangeRefusal::NotServed)) };
        let changed = ChangedZone { old_serial: serial, serial };
        match (self.changes.latest.get_mut(&zone), self.changes.unsynced.back()) {
            (Some((_, count)), Some(last)) => {
                *count += 1;
                let (number, since, done) = (last.number, clock::now(), Some(done));
                self.changes.unsynced.push_back(Unsynced { number, since, zone, version: None, done, changed });
            }
            _ => self.changes.published.push((zone, Some(done), changed)),
        }
    }

    fn publish_version(
        &mut self,
        id: ZoneId,
        version: Zone,
        change: Option<EncodedChange>,
        done: Option<ChangeDone>,
        changed: ChangedZone,
    ) {
        self.keep_version(id);
        let Some(entry) = self.zones.get_mut(id) else { return report(done, Err(ChangeRefusal::NotServed)) };
        entry.serve(version, change.as_slice(), self.max_history_octets);
        self.publisher.queue_change(id);
        self.note_version(id);
        if changed.old_serial == changed.serial {
            // An operator has returned to other data of this serial.
            self.changes.replaced.push(id);
        }
        self.changes.published.push((id, done, changed));
    }

    /// Reports the changes that were published by this step.
    pub(super) fn report_changes(&mut self) {
        for (id, done, changed) in std::mem::take(&mut self.changes.published) {
            if changed.old_serial != changed.serial {
                self.announce(id);
            }
            report(done, Ok(changed));
        }
        std::mem::take(&mut self.changes.replaced).into_iter().for_each(|id| self.announce(id));
        std::mem::take(&mut self.changes.notified_again).into_iter().for_each(|id| self.notify_secondaries(id));
    }

    /// Announces a zone when the batch of loaded zones is published.
    pub(super) fn announce_later(&mut self, id: ZoneId) {
        self.changes.loaded.push(id);
    }

    /// Reports the first versions that were published by this step.
    pub(super) fn announce_loaded(&mut self) {
        std::mem::take(&mut self.changes.loaded).into_iter().for_each(|id| self.announce(id));
    }

    /// RFC 1996 3.11: reports that the version of a zone is published. Not earlier: a secondary asks for the serial as soon as it gets NOTIFY, and one
    /// that finds the old serial does not ask again for a long time.
    fn announce(&mut self, id: ZoneId) {
        self.notify_secondaries(id);
        self.write_text(id);
    }

    /// Has NOTIFY sent again for the version of a zone, once it is published.
    pub(super) fn notify_when_published(&mut self, id: ZoneId) {
        let Some(apex) = self.served(id).map(|served| served.apex()) else { return };
        let published = self.publisher.current();
        let is_published = published.zones.get(apex.wire()).is_some_and(|served| served.zone().is_some());
        match is_published {
            true => self.changes.notified_again.push(id),
            // Its first version is in the next batch.
            false => self.announce_later(id),
        }
    }

    /// Has NOTIFY sent for the version of a zone, if it has one.
    fn notify_secondaries(&mut self, id: ZoneId) {
        let Some(entry) = self.zones.get(id) else { return };
        if let Some(version) = entry.served.zone() {
            let policy = &entry.source.policy;
            let name_servers = if policy.notify_ns { self.name_server_addresses(version) } else { Vec::new() };
            self.hooks.published(id, version, policy, &name_servers);
        }
    }

    /// Has the text file of a zone written, if it has one (`write-file`).
    pub(super) fn write_text(&self, id: ZoneId) {
        let Some(entry) = self.zones.get(id) else { return };
        if let Some(version) = entry.served.zone()
            && let Some(path) = entry.source.policy.text_file(version.apex())
        {
            // A secondary may have its own file written anew.
            let is_own_file = entry.source.file(version.apex()).as_ref() == Some(&path);
            let replaces_any = is_own_file && !entry.source.policy.needs_file();
            self.text_files.write(id, TextFile { path, replaces_any }, version.clone());
        }
    }

    /// Refuses the changes of a zone that was replaced or removed, whether they are being computed or written to disk.
    pub(super) fn discard_changes(&mut self, zone: ZoneId, reason: impl Fn() -> ChangeRefusal) {
        let unprepared = self.changes.unprepared.remove(&zone).into_iter().flatten();
        unprepared.for_each(|(_, change)| (change.done)(Err(reason())));
        if self.changes.latest.remove(&zone).is_some() {
            let unsynced = std::mem::take(&mut self.changes.unsynced);
            let (discarded, kept): (Vec<_>, Vec<_>) = unsynced.into_iter().partition(|change| change.zone == zone);
            self.changes.unsynced = kept.into();
            let discarded = discarded.into_iter().chain(self.changes.storing.remove(&zone));
            discarded.for_each(|change| report(change.done, Err(reason())));
        }
        self.discard_work(zone, reason);
    }

    /// Refuses the changes that are being computed, or ends the rebuild.
    fn discard_work(&mut self, zone: ZoneId, reason: impl Fn() -> ChangeRefusal) {
        if let Some(ZoneWork { kind: WorkKind::Apply { done, waiting, .. }, .. }) = self.changes.work.remove(&zone) {
            done(Err(reason()));
            waiting.into_iter().for_each(|change| (change.done)(Err(reason())));
        }
    }
}

fn report(done: Option<ChangeDone>, result: Result<ChangedZone, ChangeRefusal>) {
    if let Some(done) = done {
        done(result);
    }
}
