//! Changes that wait for the journal: until it can take them, and until they are on disk.

use std::time::{Duration, Instant};

use zone::encoded_change::EncodedChange;
use zone::serial_policy::SerialPolicy;
use zone::{Zone, ZoneVersion};

use super::{ChangeDone, ChangeRefusal, ChangedZone, Changes, MAX_WAITING, PublishOrder, Unsynced, ZoneChange, report};
use crate::clock;
use crate::zone_id::ZoneId;
use crate::zones::ZoneRegistry;
use crate::zones::journal::{JournalOutcome, Readiness, StoreRule};

/// How long a change waits for the disk before its sender hears that it failed. DNS clients give up after some seconds.
const MAX_DISK_WAIT: Duration = Duration::from_secs(4);
/// How long an operator waits for the image of an earlier version, which may be that of a large zone.
const MAX_IMAGE_WAIT: Duration = Duration::from_secs(60);

impl ZoneRegistry {
    /// Returns the change if it can be made now. Otherwise it waits, or is refused.
    pub(super) fn prepare_journal(&mut self, change: ZoneChange) -> Option<ZoneChange> {
        let zone = change.zone;
        if let Some(waiting) = self.changes.unprepared.get_mut(&zone) {
            if waiting.len() < MAX_WAITING {
                waiting.push_back((clock::now(), change));
            } else {
                (change.done)(Err(ChangeRefusal::Busy));
            }
            return None;
        }
        if change.order == PublishOrder::AtOnce {
            return Some(change);
        }
        if self.latest(zone).is_none() {
            return Some(change);
        }
        let readiness =
            if self.is_disk_slow(clock::now()) { Readiness::Unavailable } else { self.journal.prepare(zone) };
        match readiness {
            Readiness::Ready => return Some(change),
            Readiness::Preparing => {
                self.store_file_state(zone);
                self.changes.unprepared.entry(zone).or_default().push_back((clock::now(), change));
            }
            Readiness::Unavailable => (change.done)(Err(ChangeRefusal::NotDurable)),
        }
        self.follow_journal();
        None
    }

    /// The journal of this zone can take changes: makes those that waited, or refuses them if it cannot.
    fn retry_changes(&mut self, zone: ZoneId, is_ready: bool) {
        for (_, change) in self.changes.unprepared.remove(&zone).into_iter().flatten() {
            match is_ready {
                true => self.change(change),
                false => (change.done)(Err(ChangeRefusal::NotDurable)),
            }
        }
    }

    /// Reports a version of a zone to the journal, which these changes lead to.
    pub(in crate::zones::registry) fn journal_version(
        &mut self,
        id: ZoneId,
        version: &Zone,
        changes: &[EncodedChange],
    ) {
        let Some(entry) = self.zones.get(id) else { return };
        let is_updated = self.updated.contains_key(&id);
        let policy = &entry.source.policy;
        // Its serial may not be that of the file, and must not go back to it.
        let is_advanced = policy.serial_policy != SerialPolicy::Keep && entry.served.zone().is_some();
        let can_be_read = entry.source.has_file() && policy.primaries.is_empty() && !is_updated && !is_advanced;
        let rule = if can_be_read { StoreRule::IfLarge } else { StoreRule::Always };
        self.journal.replaced(id, version, changes, rule);
    }

    /// Does what the journal asks for. To be called when the latest version is in place.
    pub(in crate::zones::registry) fn follow_journal(&mut self) {
        while let Some(outcome) = self.journal.next_outcome() {
            match outcome {
                JournalOutcome::VersionNeeded(id) => {
                    let version = self.version_or_expired(id).cloned();
                    self.journal.write_image(id, version);
                }
                JournalOutcome::Ready(id) => self.retry_changes(id, true),
                JournalOutcome::Stored(id, number) => self.version_stored(id, number),
                JournalOutcome::Unavailable(id) => {
                    self.retry_changes(id, false);
                    if self.changes.storing.contains_key(&id) {
                        self.discard_unpublished(id, || ChangeRefusal::NotDurable);
                    }
                }
                JournalOutcome::Refused(slot) => {
                    self.zones.id_at(slot as usize).into_iter().for_each(|id| {
                        self.discard_unpublished(id, || ChangeRefusal::NotDurable);
                    });
                }
            }
        }
    }

    /// Refuses the changes of a zone that are not published, and stores the version that is unless it is stored.
    fn discard_unpublished(&mut self, id: ZoneId, reason: impl Fn() -> ChangeRefusal) {
        let has_appended = self.changes.unsynced.iter().any(|change| change.zone == id);
        let is_stored = !has_appended && self.changes.storing.contains_key(&id);
        self.discard_changes(id, reason);
        // A nearly full disk may have room for changes, but not for an image.
        if is_stored && self.journal.withdraw_version(id) {
            return;
        }
        if let Some(version) = self.latest(id).cloned() {
            self.journal_version(id, &version, &[]);
        }
    }

    /// Serves an earlier version with its own serial once it is on disk: a restart would serve what it replaces. No change in the journal
    /// leads to it, so that this takes an image.
    pub(in crate::zones::registry) fn store_rollback(
        &mut self,
        zone: ZoneId,
        base: ZoneVersion,
        version: Zone,
        done: ChangeDone,
    ) {
        let is_storing = self.changes.storing.contains_key(&zone);
        let Some(old) = self.latest(zone).filter(|latest| latest.version() == base && !is_storing) else {
            return done(Err(ChangeRefusal::Replaced));
        };
        let changed = ChangedZone { old_serial: old.serial(), serial: version.serial() };
        let readiness = self.journal.store_version(zone, &version);
        if readiness == Readiness::Unavailable {
            return done(Err(ChangeRefusal::NotDurable));
        }
        // What is computed from the current version would bring that back.
        self.discard_work(zone, || ChangeRefusal::Replaced);
        if readiness == Readiness::Ready {
            self.note_update(zone, changed.old_serial);
            return self.publish_version(zone, version, None, Some(done), changed);
        }
        let count = self.changes.latest.get(&zone).map_or(0, |(_, count)| *count);
        self.changes.latest.insert(zone, (version.clone(), count + 1));
        let (number, since, done, version) = (0, clock::now(), Some(done), Some((version, None)));
        self.changes.storing.insert(zone, Unsynced { number, since, zone, version, done, changed });
        self.follow_journal();
    }

    /// The image of an earlier version is in the journal, with this number.
    fn version_stored(&mut self, zone: ZoneId, number: u64) {
        let Some(stored) = self.changes.storing.remove(&zone) else { return };
        self.note_update(zone, stored.changed.old_serial);
        self.store_file_state(zone);
        let at = self.changes.unsynced.partition_point(|change| change.number < number);
        self.changes.unsynced.insert(at, Unsynced { number, since: clock::now(), ..stored });
    }

    /// Changes with numbers up to this one are on disk: they are published with the next step.
    pub fn durable(&mut self, number: u64) {
        while self.changes.unsynced.front().is_some_and(|change| change.number <= number)
            && let Some(Unsynced { zone, version, done, changed, .. }) = self.changes.unsynced.pop_front()
        {
            if let Some((_, count)) = self.changes.latest.get_mut(&zone) {
                *count -= 1;
                if *count == 0 {
                    self.changes.latest.remove(&zone);
                }
            }
            match version {
                Some((version, change)) => self.publish_version(zone, version, change, done, changed),
                None => self.changes.published.push((zone, done, changed)),
            }
        }
    }

    /// Whether changes wait for the disk.
    pub fn has_unsynced_changes(&self) -> bool {
        let Changes { unsynced, storing, unprepared, .. } = &self.changes;
        !unsynced.is_empty() || !storing.is_empty() || !unprepared.is_empty()
    }

    /// Refuses the changes that have waited for the disk for too long. Those in the journal stay there, and are published if the disk
    /// works again. To be called several times a second while [`ZoneRegistry::has_unsynced_changes`].
    pub fn refuse_overdue_changes(&mut self, now: Instant) {
        self.changes.unprepared.retain(|_, waiting| {
            while waiting.front().is_some_and(|(since, _)| now.saturating_duration_since(*since) >= MAX_DISK_WAIT)
                && let Some((_, change)) = waiting.pop_front()
            {
                (change.done)(Err(ChangeRefusal::NotDurable));
            }
            !waiting.is_empty()
        });
        let is_overdue = |change: &&mut Unsynced| now.saturating_duration_since(change.since) >= MAX_DISK_WAIT;
        let overdue = self.changes.unsynced.iter_mut().take_while(is_overdue).filter(|change| !change.is_rollback());
        overdue.for_each(|change| report(change.done.take(), Err(ChangeRefusal::Overdue)));
        self.refuse_late_rollbacks(now);
    }

    /// Refuses rollbacks for good: they thaw their zone, which must then not return to an earlier version.
    fn refuse_late_rollbacks(&mut self, now: Instant) {
        let is_late = |change: &Unsynced, max| now.saturating_duration_since(change.since) >= max;
        let unsynced = self.changes.unsynced.iter().filter(|change| change.is_rollback());
        let unsynced = unsynced.filter(|change| is_late(change, MAX_DISK_WAIT));
        let storing = self.changes.storing.values().filter(|change| is_late(change, MAX_IMAGE_WAIT));
        let late: Vec<ZoneId> = unsynced.chain(storing).map(|change| change.zone).collect();
        if !late.is_empty() {
            late.into_iter().for_each(|zone| self.discard_unpublished(zone, || ChangeRefusal::NotDurable));
            self.follow_journal();
        }
    }

    /// Refuses an earlier version that is not published yet, as its zone is thawed: the primaries are asked from the serial that is served, and
    /// would confirm it when it is not served any more.
    pub(in crate::zones::registry) fn refuse_rollback(&mut self, id: ZoneId) {
        let is_unsynced = || self.changes.unsynced.iter().any(|change| change.zone == id && change.is_rollback());
        if self.changes.storing.contains_key(&id) || is_unsynced() {
            self.discard_unpublished(id, || ChangeRefusal::Replaced);
            self.follow_journal();
        }
    }

    fn is_disk_slow(&self, now: Instant) -> bool {
        let oldest = self.changes.unsynced.front();
        oldest.is_some_and(|change| now.saturating_duration_since(change.since) >= MAX_DISK_WAIT)
    }
}
