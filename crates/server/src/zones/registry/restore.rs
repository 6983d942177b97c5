//! Zones at start: their stored versions are served at once, and their files or primaries are looked at afterwards.

use std::sync::mpsc::SyncSender;
use std::time::Instant;

use wire::NameRef;
use zone::Zone;

use super::ZoneRegistry;
use crate::clock;
use crate::storage::{StoreUsage, Timers, ZoneUsage};
use crate::zone_id::ZoneId;
use crate::zones::change_detection::Fingerprint;
use crate::zones::journal::{JournalEvent, LatestVersion, RestoredZone};
use crate::zones::zone_origin::Membership;

impl ZoneRegistry {
    /// Has the stored version of a zone read for this reload; false if there is none.
    pub(super) fn begin_restore(&mut self, id: ZoneId, reload: u64) -> bool {
        if self.loads.is_restoring(id) {
            return true;
        }
        let Some(entry) = self.zones.get(id) else { return false };
        let begins = self.journal.restore(id, entry.served.apex(), entry.source.policy.max_history_len());
        if begins {
            self.loads.restore_begun(id, reload);
        }
        begins
    }

    /// Whether versions are there after a restart.
    pub fn has_journal(&self) -> bool {
        self.journal.keeps_versions()
    }

    /// Whether a stored version of the zone is being read, or will be.
    pub fn will_be_restored(&self, id: ZoneId) -> bool {
        let entry = self.zones.get(id);
        self.loads.is_restoring(id) || entry.is_some_and(|entry| self.journal.is_restorable(entry.served.apex()))
    }

    /// Whether a stored version of the zone is kept that could not be read: nothing else is stored of the zone until the next start.
    pub fn is_unread(&self, id: ZoneId) -> bool {
        self.journal.is_unread(id)
    }

    /// Serves a stored version. Then the file of the zone is read, or its primaries are asked.
    fn finish_restore(&mut self, id: ZoneId, restored: Option<RestoredZone>) {
        let Some(reload) = self.loads.restore_ended(id) else { return };
        let Some(apex) = self.served(id).map(|served| served.apex().to_owned()) else { return };
        let is_another = restored.as_ref().is_some_and(|restored| self.has_another_label(id, restored.timers));
        if is_another {
            self.forget_frozen_name(apex.as_ref());
        }
        match restored.filter(|_| !is_another) {
            // Another version may have come meanwhile.
            Some(restored) if self.version_or_expired(id).is_none() => self.serve_restored(id, restored),
            Some(_) => self.announce_configuration(id),
            None => {
                self.journal.removed(id, apex.as_ref());
                self.announce_configuration(id);
            }
        }
        self.start_load(id, reload);
    }

    /// An error of reading destroys nothing: the stored version stays where it is, and the file of the zone is read or its primaries are asked.
    fn serve_without_stored(&mut self, id: ZoneId) {
        let Some(reload) = self.loads.restore_ended(id) else { return };
        if self.zones.get(id).is_some() {
            self.journal.keep_unread(id);
            self.announce_configuration(id);
            self.start_load(id, reload);
        }
    }

    fn serve_restored(&mut self, id: ZoneId, RestoredZone { version, history, timers }: RestoredZone) {
        let Some(entry) = self.zones.get(id) else { return };
        let is_secondary = !entry.source.policy.primaries.is_empty();
        let of_secondary = is_secondary.then(|| self.with_label(id, times_of_secondary(&version, timers)));
        if of_secondary != timers {
            // So that the next restart does not begin anew.
            of_secondary.into_iter().for_each(|timers| self.store_timers(id, timers));
        }
        let was_frozen = self.was_frozen(version.apex());
        if !is_secondary {
            self.restore_file_state(id, version.serial(), timers);
        }
        let Some(entry) = self.zones.get_mut(id) else { return };
        let now_s = clock::real_s();
        if of_secondary.is_some_and(|timers| timers.expires_at_s <= now_s) && !was_frozen {
            // RFC 1034 4.3.5: the time while the server was down counts.
            entry.expire();
            self.expired.insert(id, version);
            self.publisher.queue_change(id);
            // The members of a catalog do not expire with it.
            self.note_version(id);
        } else {
            self.install(id, version, &history);
            // RFC 1996 3.11: the last NOTIFY may not have arrived before the stop, nor the text file been written.
            self.announce_later(id);
        }
        if let Some(entry) = self.zones.get(id).filter(|_| !was_frozen) {
            entry.served.set_expiry(of_secondary.map_or(0, |timers| timers.expires_at_s));
        }
        self.announce_restored(id, of_secondary);
    }

    /// Takes what is stored of the file of a zone without primaries, whose stored version has this serial.
    fn restore_file_state(&mut self, id: ZoneId, serial: u32, timers: Option<Timers>) {
        let Some(entry) = self.zones.get(id).filter(|entry| entry.source.has_file()) else { return };
        // Without timers there may be updates that were acknowledged.
        let of_file = timers.unwrap_or_default();
        if of_file.is_of_secondary() {
            // What came from a primary is no update, but what follows may be. The file may be unreadable now.
            self.journal.set_timers(id, entry.served.apex(), Timers::of_file(0, serial));
            return self.zones.set_fingerprint(id, Fingerprint::NONE);
        }
        let rules = entry.source.policy.reading_rules_hash;
        let (fingerprint, has_same_rules) = Fingerprint::from_stored(of_file.fingerprint, rules);
        let is_updated = of_file.source_serial != serial;
        if is_updated {
            self.updated.insert(id, of_file.source_serial);
        }
        // Whatever the rules of another version of zonda or configuration make of a file that was not edited since: updates win over it.
        let need_not_read = has_same_rules || is_updated;
        self.zones.set_fingerprint(id, if need_not_read { fingerprint } else { Fingerprint::NONE });
    }

    /// RFC 9432 5.4: whether a catalog listed a stored zone under another label, so that the zone begins anew. The server may have been
    /// killed after the catalog was stored, and before the zone was removed.
    fn has_another_label(&self, id: ZoneId, stored: Option<Timers>) -> bool {
        let label = self.origins.membership(id.index as usize).label;
        let stored = membership(stored).label;
        label != 0 && stored != 0 && stored != label
    }

    /// The fingerprint of the catalog that a zone was a member of before the restart, until the zone is added; 0 for none. An earlier version
    /// of zonda did not store it.
    pub fn stored_catalog(&self, apex: NameRef<'_>) -> u32 {
        self.journal.stored_owner(apex).unwrap_or_else(|| membership(self.journal.stored_timers(apex)).catalog)
    }

    /// Keeps across restarts which catalog a zone is a member of: another one lists it, too. The timers of a secondary say so as well, once it
    /// was transferred.
    pub fn keep_owner(&mut self, id: ZoneId) {
        let catalog = self.origins.membership(id.index as usize).catalog;
        if let Some(entry) = self.zones.get(id).filter(|_| catalog != 0) {
            self.journal.keep_owner(entry.served.apex(), catalog);
        }
    }

    /// A zone has another owner.
    pub(super) fn owner_changed(&mut self, id: ZoneId) {
        let Some(entry) = self.zones.get(id) else { return };
        if self.journal.stored_owner(entry.served.apex()).is_some() {
            self.keep_owner(id);
        }
    }

    fn announce_restored(&mut self, id: ZoneId, timers: Option<Timers>) {
        let Some(entry) = self.zones.get(id) else { return };
        let version = entry.served.zone().or_else(|| self.expired.get(&id)).map(|version| (version, timers));
        self.hooks.configured(id, entry.served.apex(), &entry.source.policy, version);
        if self.is_frozen(id) {
            self.hooks.frozen(id);
        }
    }

    /// Keeps which state of its files a zone was read from, if it is stored or will be.
    pub(super) fn store_file_state(&mut self, id: ZoneId) {
        let Some(entry) = self.zones.get(id).filter(|entry| entry.source.has_file()) else { return };
        if self.is_secondary(id) && !self.seeded.contains(&id) {
            return;
        }
        let Some(serial) = entry.served.zone().map(Zone::serial) else { return };
        let mut fingerprint = self.zones.fingerprint(id);
        if self.loads.has_includes(id) {
            // The paths of the included files are not stored: such a zone is read again.
            fingerprint = fingerprint.not_final();
        }
        let fingerprint = fingerprint.to_stored(entry.source.policy.reading_rules_hash);
        let serial = self.updated.get(&id).copied().unwrap_or(serial);
        self.journal.set_timers(id, entry.served.apex(), Timers::of_file(fingerprint, serial));
    }

    /// The start is complete: what is stored of zones that were not added is removed. Zones are added in the meantime by
    /// configurations and catalogs.
    pub fn forget_stored_zones(&mut self) {
        let (zones, published) = (&self.zones, self.publisher.current());
        self.journal.forget_others(&|apex| zones.find(apex, &published.zones).is_some());
        self.forget_frozen_names();
    }

    /// What is stored of a zone that was not added, and will not be, is removed.
    pub fn forget_stored_zone(&mut self, apex: NameRef<'_>) {
        self.journal.forget_stored(apex);
        self.forget_frozen_name(apex);
        self.follow_journal();
    }

    /// Keeps the times of a secondary across restarts, with its catalog and the label there.
    pub fn store_timers(&mut self, id: ZoneId, timers: Timers) {
        if let Some(entry) = self.zones.get(id) {
            self.journal.set_timers(id, entry.served.apex(), self.with_label(id, timers));
        }
    }

    /// The times of a secondary with its catalog and label.
    fn with_label(&self, id: ZoneId, timers: Timers) -> Timers {
        Timers { fingerprint: self.origins.membership(id.index as usize).to_stored(), ..timers }
    }

    /// Handles an event of the journal.
    pub fn handle_journal(&mut self, event: JournalEvent) {
        // The number of a stored version must be known before it is durable.
        self.follow_journal();
        match event {
            JournalEvent::Restored(id, restored) => self.finish_restore(id, restored.map(|restored| *restored)),
            JournalEvent::Unreadable(id) => self.serve_without_stored(id),
            event => {
                if let JournalEvent::Durable(number) = event {
                    self.durable(number);
                }
                let id = self.journal.slot_of(&event).and_then(|slot| self.zones.id_at(slot as usize));
                let latest = id.and_then(|id| self.latest_version(id));
                self.journal.handle(event, latest);
            }
        }
        self.follow_journal();
    }

    fn latest_version(&self, id: ZoneId) -> Option<LatestVersion> {
        let (version, policy) = self.version_or_expired(id).zip(self.policy(id))?;
        Some(LatestVersion { version: version.clone(), max_history_len: policy.max_history_len() })
    }

    /// What the journal has of these zones, in their order.
    pub fn report_journal_of(&self, zones: &[ZoneId], reply: SyncSender<Vec<Option<ZoneUsage>>>) {
        self.journal.report_zones(zones, reply);
    }

    /// What the journal has of all zones.
    pub fn report_journal(&self, reply: SyncSender<StoreUsage>) {
        self.journal.report_usage(reply);
    }

    /// When [`ZoneRegistry::tick_journal`] must be called.
    pub fn journal_due(&self) -> Option<Instant> {
        self.journal.due()
    }

    /// Does what is due in the journal.
    pub fn tick_journal(&mut self, now: Instant) {
        self.journal.tick(now);
        self.follow_journal();
    }

    /// Passes on all that waits for the journal, as the daemon stops. Returns whether images are still being written.
    pub fn flush_journal(&mut self) -> bool {
        let is_busy = self.journal.flush();
        self.follow_journal();
        is_busy
    }
}

/// What is stored of a secondary besides its times.
fn membership(stored: Option<Timers>) -> Membership {
    stored
        .filter(Timers::is_of_secondary)
        .map_or_else(Membership::default, |timers| Membership::from_stored(timers.fingerprint))
}

/// The times of a restored secondary, of which these were stored.
fn times_of_secondary(version: &Zone, stored: Option<Timers>) -> Timers {
    let now_s = clock::real_s();
    match stored {
        Some(timers) if timers.is_of_secondary() => timers,
        // This server had the zone from a file so far.
        Some(_) => Timers {
            stored_at_s: now_s,
            next_refresh_s: now_s,
            expires_at_s: now_s.saturating_add(version.expire_s()),
            source_serial: version.serial(),
            fingerprint: 0,
        },
        // RFC 1034 4.3.5: nobody knows when a primary confirmed it last. It is served once one does.
        None => Timers { expires_at_s: 1, ..Timers::default() },
    }
}
