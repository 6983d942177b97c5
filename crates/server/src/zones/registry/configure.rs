//! Applying a configuration: adds, removes and updates zones, in small steps so that nothing else waits for a million zones.

use std::collections::HashSet;
use std::sync::Arc;

use answer::{ZoneExtras, ZoneState};
use wire::{Name, NameRef};

use super::{ChangeRefusal, ZoneNotice, ZoneRegistry};
use crate::config::{ConfiguredKey, ZoneConfig, ZonePolicy, ZoneSource};
use crate::report::{Change, ZoneReport};
use crate::zone_id::{ZoneBitSet, ZoneId};
use crate::zones::change_detection::Fingerprint;
use crate::zones::zone_entry::{Acls, ZoneEntry, zone_report};
use crate::zones::zone_origin::ZoneOrigin;

/// A configuration that is being compared with the zones of the registry.
pub(super) struct Configuring {
    zones: std::vec::IntoIter<ZoneConfig>,
    /// Where the next zone is if the configuration has the order that it had last time.
    next_slot: usize,
    /// The zones that are configured.
    configured: ZoneBitSet,
    /// The next slot to look at for zones that are gone, once all configured ones were compared.
    swept: usize,
    acls: Acls,
    /// The keys of the zones that keep their settings: of those whose template is gone, perhaps, and of frozen ones among them.
    kept_keys: HashSet<Name>,
    /// The policy whose keys were noted last, which most of these zones share.
    noted: Option<Arc<ZonePolicy>>,
    /// Those of the zone before, which most zones share.
    last: Option<(Arc<ZoneSource>, Arc<ZoneExtras>)>,
    reports: Vec<ZoneReport>,
}

/// Zones that one step compares: about a millisecond.
const STEP: usize = 1024;

impl ZoneRegistry {
    /// Begins to apply a configuration: adds new zones, answered with SERVFAIL until they are loaded; removes those that
    /// are gone; updates the others. [`ZoneRegistry::step`] does that, publishes all of it at once, and then begins a
    /// reload: every zone is due to be loaded. The configuration before must be done.
    pub fn begin_configure(&mut self, zones: Vec<ZoneConfig>) {
        debug_assert!(self.configuring.is_none(), "the writer applies one configuration at a time");
        self.publisher.begin_draft();
        self.zones.reserve(zones.len().saturating_sub(self.zones.len()));
        self.configuring = Some(Configuring {
            zones: zones.into_iter(),
            next_slot: 0,
            configured: ZoneBitSet::default(),
            swept: 0,
            kept_keys: HashSet::new(),
            noted: None,
            acls: Acls::default(),
            last: None,
            reports: Vec::new(),
        });
    }

    /// Adds a zone, to be loaded at once. Returns `None` if there is one with this apex.
    pub fn add(&mut self, config: ZoneConfig) -> Option<ZoneId> {
        let extras = Acls::default().of(&config.source.policy);
        self.add_shared(config.name, Arc::new(config.source), extras, ZoneOrigin::Configured)
    }

    /// Removes a zone; returns false if it was removed before.
    pub fn remove(&mut self, id: ZoneId) -> bool {
        let Some(served) = self.served(id).cloned() else { return false };
        self.forget(id);
        self.publisher.remove(served.apex());
        true
    }

    /// Applies a configuration at once. Returns the zones that were removed or have other settings.
    pub fn configure(&mut self, zones: Vec<ZoneConfig>) -> Vec<ZoneReport> {
        self.begin_configure(zones);
        // Ends as each step takes zones or slots that are left.
        loop {
            if let Some(reports) = self.step_configuration() {
                return reports;
            }
        }
    }

    /// Returns the zones that were removed or have other settings once the configuration is applied.
    pub(super) fn step_configuration(&mut self) -> Option<Vec<ZoneReport>> {
        let mut job = self.configuring.take()?;
        for _ in 0..STEP {
            if let Some(config) = job.zones.next() {
                self.configure_zone(config, &mut job);
            } else if job.swept < self.zones.slot_count() {
                self.sweep(&mut job);
            } else {
                return Some(self.end_configuration(job));
            }
        }
        self.configuring = Some(job);
        None
    }

    fn end_configuration(&mut self, job: Configuring) -> Vec<ZoneReport> {
        self.changed_keys = HashSet::new();
        self.hooks.retain_keys(&job.kept_keys);
        self.loads.begin_reload(self.zones.len());
        self.publisher.publish_draft(&self.zones);
        self.forget_published();
        self.announce_loaded();
        job.reports
    }

    fn configure_zone(&mut self, config: ZoneConfig, job: &mut Configuring) {
        let shared = job.last.take().filter(|(source, _)| **source == config.source);
        let (source, extras) = shared.unwrap_or_else(|| {
            let extras = job.acls.of(&config.source.policy);
            (Arc::new(config.source), extras)
        });
        job.last = Some((source.clone(), extras.clone()));
        let id = match self.find_configured(config.name.as_ref(), job.next_slot) {
            Some(id) => {
                self.take_over(id);
                self.reconfigure(id, config.name, source, extras, &mut job.reports);
                id
            }
            None => match self.insert_entry(ZoneEntry::new(config.name, source, extras)) {
                Some(id) => {
                    self.loads.zone_added(id);
                    self.publisher.draft_insert(&self.zones, id);
                    self.announce_configuration(id);
                    self.note_added(id);
                    id
                }
                // Unreachable: the apex was not found.
                None => return,
            },
        };
        job.configured.insert(id);
        job.next_slot = id.index as usize + 1;
    }

    /// Adds a zone to the slab. Returns `None` if there is one with this apex.
    pub(super) fn insert_entry(&mut self, entry: ZoneEntry) -> Option<ZoneId> {
        self.zones.insert(entry, &self.publisher.current().zones)
    }

    /// The zone with this apex; it is probably in slot `hint`.
    fn find_configured(&self, apex: NameRef<'_>, hint: usize) -> Option<ZoneId> {
        let hinted = self.zones.id_at(hint).filter(|id| self.zones.get(*id).is_some_and(|e| e.served.apex() == apex));
        hinted.or_else(|| self.find(apex))
    }

    /// A configured zone wins over one of another origin.
    fn take_over(&mut self, id: ZoneId) {
        let slot = id.index as usize;
        if !self.origins.is_configured(slot)
            && let Some(entry) = self.zones.get(id)
        {
            let (apex, origin) = (entry.served.apex().to_owned(), self.origins.of(slot).clone());
            self.notices.push(ZoneNotice::TakenOver { apex, origin });
            self.origins.set(slot, ZoneOrigin::Configured);
        }
    }

    /// Removes the zone of the next slot if it is configured no more. Zones of other origins stay. Those that stay may have a key that
    /// changed.
    fn sweep(&mut self, job: &mut Configuring) {
        let slot = job.swept;
        job.swept += 1;
        let Some(id) = self.zones.id_at(slot) else { return };
        if !job.configured.contains(id) && self.origins.is_configured(slot) {
            job.reports.extend(self.forget(id));
        } else {
            self.announce_changed_key(id);
            self.note_kept_keys(id, job);
        }
    }

    /// As [`ZoneRegistry::sweep`], for a zone that is added or gets another template while a configuration is applied: its slot may have been
    /// looked at already.
    pub(super) fn note_keys_of_changed(&mut self, id: ZoneId) {
        if let Some(mut job) = self.configuring.take() {
            self.note_kept_keys(id, &mut job);
            self.configuring = Some(job);
        }
    }

    /// The configuration guarantees that its own zones have keys that exist.
    fn note_kept_keys(&self, id: ZoneId, job: &mut Configuring) {
        let Some(entry) = self.zones.get(id).filter(|_| !job.configured.contains(id)) else { return };
        let policy = &entry.source.policy;
        if job.noted.as_ref().is_some_and(|noted| Arc::ptr_eq(noted, policy)) {
            return;
        }
        job.kept_keys.extend(policy.primaries.iter().chain(&policy.notify).filter_map(|server| server.key.clone()));
        job.noted = Some(policy.clone());
    }

    /// Gives a zone the source of the configuration; it keeps its content.
    pub(super) fn reconfigure(
        &mut self,
        id: ZoneId,
        apex: Name,
        source: Arc<ZoneSource>,
        extras: Arc<ZoneExtras>,
        reports: &mut Vec<ZoneReport>,
    ) {
        let Some(entry) = self.zones.get(id).filter(|entry| entry.source != source) else { return };
        // The file of a secondary was not read again since a primary has sent a version.
        let has_primaries = [&entry.source, &source].map(|source| !source.policy.primaries.is_empty());
        let needs_reading = !source.is_read_like(&entry.source) || has_primaries == [true, false];
        if needs_reading {
            self.loads.make_stale(id);
        }
        // Updates win over a file that was not edited since, by whatever rules it is read.
        let is_of_updates = self.updated.contains_key(&id) && source.has_same_file(&entry.source);
        if needs_reading && (!is_of_updates || has_primaries == [true, false]) {
            self.zones.set_fingerprint(id, Fingerprint::NONE);
        }
        let Some(entry) = self.zones.get_mut(id) else { return };
        if source.policy != entry.source.policy {
            reports.push(zone_report(entry.served.apex(), Change::Settings));
        }
        let state = match entry.served.zone() {
            Some(zone) => ZoneState::Loaded(zone.clone()),
            None if self.expired.contains_key(&id) => ZoneState::Expired(apex),
            None => ZoneState::Unavailable(apex),
        };
        entry.served = Arc::new(entry.served.with_acls(state, &extras, !source.policy.primaries.is_empty()));
        let old = std::mem::replace(&mut entry.source, source.clone());
        if has_primaries == [true, false] {
            // Before the first update: with the times of a secondary, a restart would take updates for what a primary sent, and let the file replace
            // them. The file may be unreadable now.
            self.store_file_state(id);
        }
        self.note_listing(id, Some(&old.policy), Some(&source.policy));
        if old.policy.write_file != source.policy.write_file {
            self.text_files.forget(id);
            self.write_text(id);
        }
        self.forget_excess_versions(id);
        self.publisher.draft_insert(&self.zones, id);
        self.announce_configuration(id);
    }

    /// Takes the keys that messages to other servers are signed with. The zones whose primaries have a changed one are announced
    /// when the configuration is applied.
    pub fn set_keys(&mut self, keys: &[ConfiguredKey]) {
        let changed = self.hooks.set_keys(keys);
        // A zone that is added later is announced with these keys.
        if self.zones.len() > 0 {
            self.changed_keys.extend(changed);
        }
    }

    fn announce_changed_key(&mut self, id: ZoneId) {
        let Some(entry) = self.zones.get(id).filter(|_| !self.changed_keys.is_empty()) else { return };
        let mut keys = entry.source.policy.primaries.iter().filter_map(|primary| primary.key.as_ref());
        if keys.any(|key| self.changed_keys.contains(key)) {
            self.announce_configuration(id);
        }
    }

    /// Reports that a zone was added or has other settings.
    pub(super) fn announce_configuration(&mut self, id: ZoneId) {
        let Some(entry) = self.zones.get(id) else { return };
        if self.will_be_restored(id) {
            // Once its stored version was read.
            return;
        }
        if entry.served.zone().is_some() {
            // From now on its primaries are asked from the serial of this version.
            self.seeded.remove(&id);
        }
        let version = entry.served.zone().map(|version| (version, None));
        self.hooks.configured(id, entry.served.apex(), &entry.source.policy, version);
        if self.is_frozen(id) {
            self.hooks.frozen(id);
        }
    }

    fn forget(&mut self, id: ZoneId) -> Option<ZoneReport> {
        let policy = self.zones.get(id)?.source.policy.clone();
        self.note_listing(id, Some(&policy), None);
        self.notices.push(ZoneNotice::Removed(id));
        self.origins.set(id.index as usize, ZoneOrigin::Configured);
        let gone = self.zones.remove(id)?;
        self.journal.removed(id, gone.served.apex());
        self.journal.forget_owner(gone.served.apex());
        self.text_files.forget(id);
        self.hooks.removed(id);
        self.discard_changes(id, || ChangeRefusal::NotServed);
        self.served -= usize::from(gone.served.zone().is_some());
        self.expired.remove(&id);
        self.forget_controls(id, gone.served.apex());
        self.updated.remove(&id);
        self.seeded.remove(&id);
        self.loads.zone_removed(id);
        self.publisher.draft_remove(gone.served.apex());
        Some(zone_report(gone.served.apex(), Change::Removed))
    }
}
