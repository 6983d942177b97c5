//! What operators and checks do to single zones: freeze, kept versions, the reason of the last refusal. Most zones have none of it.

use std::collections::{HashSet, VecDeque};

use tracing::info;
use wire::{Name, NameRef};
use zone::change::ChangeRules;
use zone::encoded_change::EncodedChange;
use zone::{Zone, ZoneVersion};

use super::changes::RollbackVersion;
use super::{ChangeDone, ChangeRefusal, ProposedChange, PublishOrder, ZoneChange, ZoneRegistry};
use crate::zone_id::{ZoneId, ZoneIdMap, ZoneIdSet};
use crate::zones::journal::Readiness;

/// The state of the zones that have any.
#[derive(Default)]
pub(super) struct ZoneControls {
    frozen: ZoneIdSet,
    /// The zones that were frozen before the restart and have no version yet.
    frozen_before: HashSet<Name>,
    /// Frozen zones were removed since [`ZoneRegistry::take_removed_frozen`].
    has_removed_frozen: bool,
    /// Replaced versions, the latest first.
    kept: ZoneIdMap<VecDeque<Zone>>,
    /// Why the last version of a zone was refused.
    problems: ZoneIdMap<Box<str>>,
}

/// Why an operator cannot control a zone as requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlRefused {
    /// It was removed meanwhile.
    #[error("this is not a zone of this server")]
    NoSuchZone,
    /// It has no version that could stay.
    #[error("the zone is not served: there is nothing to freeze")]
    NotServed,
    /// It has no version that secondaries could transfer.
    #[error("the zone is not served: there is nothing to announce")]
    NotAnnounced,
    /// It has no secondaries that this server knows.
    #[error("the zone has neither `notify` nor `notify-ns`")]
    NoSecondaries,
    /// No version is kept.
    #[error("no earlier version is kept; `keep-versions` says how many are, from the next change on")]
    NoVersion,
    /// The version wanted is not kept.
    #[error("no version with serial {0} is kept; `zonda zone status` lists those that are")]
    NoSuchVersion(u32),
    /// It has changed while the new version was made.
    #[error("the zone has changed meanwhile; try again")]
    Changed,
    /// The disk fails or is slow.
    #[error(
        "the version could not be stored in the journal in time, so it is not served now; once the disk works, it may still be (help: see the log, and `zonda zone status` for the serial that is served)"
    )]
    NotDurable,
}

/// An earlier version that is to be served again.
pub struct Rollback {
    /// The version that it replaces.
    pub base: ZoneVersion,
    /// The version to serve.
    pub version: Zone,
    /// The change that leads to it; none if it keeps its serial. Then the zone must be frozen: else a newer version replaces it at once.
    pub change: Option<EncodedChange>,
}

/// Receives the result of a rollback.
pub type RollbackDone = Box<dyn FnOnce(Result<u32, ControlRefused>) + Send>;

impl ZoneRegistry {
    /// Whether nothing but an operator may change this zone.
    pub fn is_frozen(&self, id: ZoneId) -> bool {
        self.controls.frozen.contains(&id)
    }

    /// Announces the version of a zone again: its secondaries may not have noticed it, or were added since.
    pub fn notify_again(&mut self, id: ZoneId) -> Result<(), ControlRefused> {
        let entry = self.zones.get(id).ok_or(ControlRefused::NoSuchZone)?;
        let policy = &entry.source.policy;
        if policy.notify.is_empty() && !policy.notify_ns {
            return Err(ControlRefused::NoSecondaries);
        }
        if entry.served.zone().is_none() {
            return Err(ControlRefused::NotAnnounced);
        }
        self.notify_when_published(id);
        Ok(())
    }

    /// Stops changes of a zone: by its file, by transfers and by updates, until it is thawed. It may be frozen already.
    pub fn freeze(&mut self, id: ZoneId) -> Result<(), ControlRefused> {
        let entry = self.zones.get(id).ok_or(ControlRefused::NoSuchZone)?;
        if entry.served.zone().is_none() {
            return Err(ControlRefused::NotServed);
        }
        if !self.controls.frozen.insert(id) {
            return Ok(());
        }
        // It no longer expires (RFC 7314): nobody asks its primaries.
        entry.served.set_expiry(0);
        self.hooks.frozen(id);
        self.store_frozen(id);
        Ok(())
    }

    /// Has the version of a frozen zone in the journal, so that a restart serves it, whatever its file has become.
    fn store_frozen(&mut self, id: ZoneId) {
        if self.journal.prepare(id) == Readiness::Preparing {
            self.store_file_state(id);
        }
        self.follow_journal();
    }

    /// Freezes these zones as soon as they have a version: they were frozen before the restart.
    pub fn freeze_later(&mut self, zones: HashSet<Name>) {
        self.controls.frozen_before = zones;
    }

    /// Does not freeze the zone with this name when it has a version.
    fn thaw_later(&mut self, apex: NameRef<'_>) -> bool {
        self.was_frozen(apex) && self.controls.frozen_before.remove(&apex.to_owned())
    }

    /// The zone with this name begins anew: it is not frozen when it has a version.
    pub(super) fn forget_frozen_name(&mut self, apex: NameRef<'_>) {
        self.controls.has_removed_frozen |= self.thaw_later(apex);
    }

    /// The start is complete: what was frozen before and is no zone any more is forgotten.
    pub(super) fn forget_frozen_names(&mut self) {
        let (zones, before) = (&self.zones, self.controls.frozen_before.len());
        let published = self.publisher.current();
        self.controls.frozen_before.retain(|apex| zones.find(apex.as_ref(), &published.zones).is_some());
        self.controls.has_removed_frozen |= self.controls.frozen_before.len() < before;
    }

    /// Whether frozen zones were removed since the last call: [`ZoneRegistry::frozen_zones`] must be stored, or another zone of the same name
    /// would be frozen after a restart.
    pub fn take_removed_frozen(&mut self) -> bool {
        std::mem::take(&mut self.controls.has_removed_frozen)
    }

    /// The names of the frozen zones, with those that have no version yet.
    pub fn frozen_zones(&self) -> Vec<Name> {
        let apex = |id: &ZoneId| self.served(*id).map(|served| served.apex().to_owned());
        self.controls.frozen.iter().filter_map(apex).chain(self.controls.frozen_before.iter().cloned()).collect()
    }

    /// Whether the zone was frozen before the restart.
    pub(super) fn was_frozen(&self, apex: NameRef<'_>) -> bool {
        !self.controls.frozen_before.is_empty() && self.controls.frozen_before.contains(&apex.to_owned())
    }

    /// Freezes a zone that has its first version and was frozen before the restart.
    pub(super) fn freeze_again(&mut self, id: ZoneId) {
        let Some(apex) = self.served(id).map(|served| served.apex()).filter(|apex| self.was_frozen(*apex)) else {
            return;
        };
        let apex = apex.to_owned();
        self.controls.frozen_before.remove(&apex);
        if self.freeze(id).is_ok() {
            info!(zone = %apex, "frozen, as before the restart");
        }
    }

    /// Permits changes again, or as before. The file is read if it has changed meanwhile, and the primaries are asked.
    pub fn thaw(&mut self, id: ZoneId) -> Result<(), ControlRefused> {
        let apex = self.zones.get(id).ok_or(ControlRefused::NoSuchZone)?.served.apex().to_owned();
        // Without a version yet, it would be frozen with its first one.
        self.thaw_later(apex.as_ref());
        if self.controls.frozen.remove(&id) {
            self.refuse_rollback(id);
            self.announce_configuration(id);
            self.load_now(id);
        }
        Ok(())
    }

    /// The version that a rollback returns to: the one with this serial, or the one served before the current one.
    pub fn kept_version(&self, id: ZoneId, serial: Option<u32>) -> Result<&Zone, ControlRefused> {
        let mut kept = self.kept_versions(id);
        match serial {
            None => kept.next().ok_or(ControlRefused::NoVersion),
            Some(serial) => {
                kept.find(|version| version.serial() == serial).ok_or(ControlRefused::NoSuchVersion(serial))
            }
        }
    }

    /// The versions that are kept, the latest first.
    pub fn kept_versions(&self, id: ZoneId) -> impl Iterator<Item = &Zone> {
        self.controls.kept.get(&id).into_iter().flatten()
    }

    /// Serves an earlier version again, once it is on disk: a restart would serve another one than was served. `done` gets the serial.
    pub fn roll_back(&mut self, id: ZoneId, rollback: Rollback, done: RollbackDone) {
        let Rollback { base, version, change } = rollback;
        let done: ChangeDone = Box::new(move |result| {
            done(match result {
                Ok(changed) => Ok(changed.serial),
                Err(ChangeRefusal::NotDurable | ChangeRefusal::Overdue) => Err(ControlRefused::NotDurable),
                Err(_) => Err(ControlRefused::Changed),
            });
        });
        let Some(change) = change else { return self.store_rollback(id, base, version, done) };
        let rules = ChangeRules::ACCEPTED_BEFORE;
        let change = ProposedChange::Rollback(Box::new(RollbackVersion { base, version, change }));
        self.change(ZoneChange { zone: id, change, rules, order: PublishOrder::AfterSync, done });
    }

    /// Keeps the version that is about to be replaced, if so configured.
    pub(super) fn keep_version(&mut self, id: ZoneId) {
        let Some(entry) = self.zones.get(id) else { return };
        let count = entry.source.policy.keep_versions as usize;
        if count == 0 {
            self.controls.kept.remove(&id);
        } else if let Some(version) = entry.served.zone() {
            let kept = self.controls.kept.entry(id).or_default();
            kept.push_front(version.clone());
            kept.truncate(count);
        }
    }

    /// Keeps no more versions than are configured now.
    pub(super) fn forget_excess_versions(&mut self, id: ZoneId) {
        let Some(count) = self.zones.get(id).map(|entry| entry.source.policy.keep_versions) else { return };
        if let Some(kept) = self.controls.kept.get_mut(&id) {
            kept.truncate(count as usize);
            if kept.is_empty() {
                self.controls.kept.remove(&id);
            }
        }
    }

    /// Notes why the last version of a zone was refused; `None` once one was accepted.
    pub fn note_problem(&mut self, id: ZoneId, problem: Option<String>) {
        match problem {
            Some(problem) => _ = self.controls.problems.insert(id, problem.into()),
            None => _ = self.controls.problems.remove(&id),
        }
    }

    /// Why the last version of a zone was refused.
    pub fn problem(&self, id: ZoneId) -> Option<&str> {
        self.controls.problems.get(&id).map(AsRef::as_ref)
    }

    /// Forgets a removed zone. Another one of its name is not frozen.
    pub(super) fn forget_controls(&mut self, id: ZoneId, apex: NameRef<'_>) {
        self.forget_frozen_name(apex);
        self.controls.has_removed_frozen |= self.controls.frozen.remove(&id);
        self.controls.kept.remove(&id);
        self.controls.problems.remove(&id);
    }
}
