//! Zones at start: their stored versions are served at once, and their files or primaries are looked at afterwards.

use super::ZoneRegistry;
use super::changes::ChangeRefused;
use crate::storage::{StorageEvent, Timers};
use crate::zone_id::ZoneId;
use crate::zones::journal::{JournalEvent, JournalOutcome, RestoredZone};

impl ZoneRegistry {
    /// Starts to read the stored version of a zone for this reload; false if there is none.
    pub(super) fn begin_restore(&mut self, id: ZoneId, reload: u64) -> bool {
        if self.restores.contains_key(&id) {
            return true;
        }
        let Some(entry) = self.zones.get(id) else { return false };
        let begins = self.journal.restore(id, entry.served.apex());
        if begins {
            self.restores.insert(id, reload);
        }
        begins
    }

    /// Whether a stored version of the zone will be read.
    pub fn is_restoring(&self, id: ZoneId) -> bool {
        let entry = self.zones.get(id);
        self.restores.contains_key(&id) || entry.is_some_and(|entry| self.journal.is_restorable(entry.served.apex()))
    }

    /// Serves a stored version. Then the file of the zone is read, or its primaries are asked.
    fn finish_restore(&mut self, id: ZoneId, restored: Option<RestoredZone>) {
        let Some(reload) = self.restores.remove(&id) else { return };
        if let Some(RestoredZone { version, history, .. }) = restored {
            self.install(id, version, &history);
        }
        self.announce_configuration(id);
        self.start_load(id, reload);
    }

    /// The start is complete: what is stored of zones that were not added is removed. Zones are added in the meantime by
    /// configurations and catalogs.
    pub fn forget_stored_zones(&mut self) {
        self.journal.forget_others();
    }

    /// Keeps the timers of a zone across restarts.
    pub fn store_timers(&mut self, id: ZoneId, timers: Timers) {
        if let Some(entry) = self.zones.get(id) {
            self.journal.set_timers(id, entry.served.apex(), timers);
        }
    }

    /// Handles an event of the journal.
    pub fn handle_journal(&mut self, event: JournalEvent) {
        let event = match event {
            JournalEvent::Restored(id, restored) => return self.finish_restore(id, restored.map(|restored| *restored)),
            JournalEvent::Storage(StorageEvent::Durable(number)) => {
                self.durable(number);
                JournalEvent::Storage(StorageEvent::Durable(number))
            }
            event => event,
        };
        let latest = self.journal.zone_of(&event).and_then(|id| self.latest(id)).cloned();
        match self.journal.handle(event, latest.as_ref()) {
            JournalOutcome::Nothing => (),
            JournalOutcome::Ready(id) => self.retry_changes(id, true),
            JournalOutcome::Unavailable(id) => self.retry_changes(id, false),
            JournalOutcome::Refused(id) => {
                self.discard_changes(id, || ChangeRefused::NotDurable);
                if let Some(version) = self.latest(id).cloned() {
                    self.journal_version(id, &version, &[]);
                }
            }
        }
    }
}
