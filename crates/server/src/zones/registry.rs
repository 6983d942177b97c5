//! The zone registry: which zones are configured, and what is served of each.
//!
//! The writer thread owns it and never waits in it. A configuration is compared with the zones there are in small steps
//! (`configure.rs`), and then a load of every zone is due; [`ZoneRegistry::step`] has due zones read and publishes;
//! [`ZoneRegistry::apply`] takes the result of a load (`loading.rs`). A zone that cannot be loaded keeps the version served
//! before.

mod change_hooks;
mod changes;
mod configure;
mod control;
mod dynamic;
mod loading;
mod name_servers;
mod restore;
mod secondary;
mod status;
#[cfg(test)]
mod stored_tests;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use answer::{KeyRing, Served, ServedZone};
use wire::{Name, NameRef};
use zone::Zone;

use super::answer_config::{GeneratedSecret, answer_config};
use super::journal::{NoJournal, ZoneJournal};
use super::publication::BatchedPublisher;
use super::read_pool::{ReadLimits, ReadTask, TooLarge};
use super::text_files::TextFiles;
use super::zone_loads::{FinishedRead, LoadJob, LoadResult, ZoneLoads, load_if_changed};
use super::zone_origin::OriginTable;
use super::zone_pools::ZonePools;
use super::zone_slab::ZoneSlab;
use crate::config::{Server, octet_limit};
use crate::report::ZoneReport;
use crate::zone_id::{ZoneId, ZoneIdMap, ZoneIdSet};
pub use change_hooks::{ChangeHooks, NoHooks};
pub use changes::{ChangeDone, ChangeRefusal, ChangedZone, FinishedWork, ProposedChange, PublishOrder, ZoneChange};
use changes::{Changes, ZoneWorkResult};
use configure::Configuring;
use control::ZoneControls;
pub use control::{ControlRefused, Rollback};
pub use dynamic::ZoneNotice;

/// The zones of this daemon.
pub struct ZoneRegistry {
    zones: ZoneSlab,
    /// How many of them are served.
    served: usize,
    /// The versions of zones that have expired.
    expired: ZoneIdMap<Zone>,
    controls: ZoneControls,
    origins: OriginTable,
    notices: Vec<ZoneNotice>,
    /// The zones changed by updates since their file was last read, and the serial that they had then.
    updated: ZoneIdMap<u32>,
    /// The secondaries that serve their file, as no primary has sent a version yet.
    seeded: ZoneIdSet,
    /// The configuration that is being compared with the zones.
    configuring: Option<Configuring>,
    /// The keys that changed with the configuration, until it is applied.
    changed_keys: HashSet<Name>,
    /// What is published.
    pub publisher: BatchedPublisher,
    cookie_secret: GeneratedSecret,
    loads: ZoneLoads,
    pools: ZonePools<ZoneWorkResult>,
    text_files: TextFiles,
    changes: Changes,
    /// The most octets of the earlier changes of all zones in memory.
    max_history_octets: u64,
    journal: Box<dyn ZoneJournal>,
    hooks: Box<dyn ChangeHooks>,
}

impl ZoneRegistry {
    /// A registry without zones. Pool threads pass finished reads and other work to these functions. Fails without a
    /// random source.
    pub fn new(
        server: &Server,
        read_done: impl Fn(Vec<FinishedRead>) + Send + Sync + 'static,
        work_done: impl Fn(FinishedWork) + Send + Sync + 'static,
    ) -> std::io::Result<ZoneRegistry> {
        ZoneRegistry::with_reader(server, load_if_changed, read_done, work_done)
    }

    fn with_reader(
        server: &Server,
        read: impl Fn(&ReadTask<LoadJob>, ReadLimits) -> Result<LoadResult, TooLarge> + Send + Sync + 'static,
        read_done: impl Fn(Vec<FinishedRead>) + Send + Sync + 'static,
        work_done: impl Fn(FinishedWork) + Send + Sync + 'static,
    ) -> std::io::Result<ZoneRegistry> {
        let cookie_secret = GeneratedSecret::random()?;
        let config = answer_config(server, KeyRing::default(), &cookie_secret);
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(ZoneRegistry {
            zones: ZoneSlab::default(),
            served: 0,
            expired: ZoneIdMap::default(),
            controls: ZoneControls::default(),
            origins: OriginTable::default(),
            notices: Vec::new(),
            updated: ZoneIdMap::default(),
            seeded: ZoneIdSet::default(),
            configuring: None,
            changed_keys: HashSet::new(),
            publisher: BatchedPublisher::new(Served { config, ..Served::default() }),
            cookie_secret,
            loads: ZoneLoads::new(threads, read, read_done),
            pools: ZonePools::new(threads + 1, move |id, result| work_done((id, result))),
            text_files: TextFiles::default(),
            changes: Changes::default(),
            max_history_octets: octet_limit(server.max_journal_total_bytes.0),
            journal: Box::new(NoJournal),
            hooks: Box::new(NoHooks),
        })
    }

    /// Sets what keeps zones across restarts; before zones are added.
    pub fn set_journal(&mut self, journal: Box<dyn ZoneJournal>) {
        self.journal = journal;
    }

    /// Sets who learns what is configured and published.
    pub fn set_hooks(&mut self, hooks: Box<dyn ChangeHooks>) {
        self.hooks = hooks;
    }

    /// The zone with this apex.
    pub fn find(&self, apex: NameRef<'_>) -> Option<ZoneId> {
        self.zones.find(apex, &self.publisher.current().zones)
    }

    /// What is served of a zone, or will be with the next step.
    pub fn served(&self, id: ZoneId) -> Option<&Arc<ServedZone>> {
        self.zones.get(id).map(|entry| &entry.served)
    }

    /// How many zones are served, and how many are answered with SERVFAIL.
    pub fn counts(&self) -> (usize, usize) {
        (self.served, self.zones.len() - self.served)
    }

    /// How many zones have no other origin than the configuration.
    pub fn configured_count(&self) -> usize {
        self.zones.len() - self.origins.other_count()
    }

    /// Publishes the settings that concern answers.
    pub fn apply_settings(&mut self, server: &Server, keys: KeyRing) {
        let config = answer_config(server, keys, &self.cookie_secret);
        self.publisher.change(|served| served.config = config);
    }

    /// Goes on with the configuration, starts loads that are due and publishes what is ready, without waiting for any.
    /// Returns the result of [`ZoneRegistry::begin_configure`] when that is done.
    pub fn step(&mut self, now: Instant) -> Option<Vec<ZoneReport>> {
        let configured = self.step_configuration();
        self.start_due_loads();
        self.publisher.publish_changes(&self.zones);
        self.forget_published();
        self.report_changes();
        // The last loaded zone completes a batch. Transferred zones come one by one, and no batch has an end.
        let is_complete = self.loads.has_batch() && self.is_settled();
        if is_complete || self.publisher.due().is_some_and(|due| due <= now) {
            self.loads.begin_batch();
            self.publish();
        }
        configured
    }

    /// Publishes now what was added or changed, loaded or not.
    pub fn publish_changes(&mut self) {
        self.publisher.publish_changes(&self.zones);
    }

    /// Publishes every loaded zone now.
    pub fn publish(&mut self) {
        self.publisher.publish(&self.zones);
        self.announce_loaded();
    }

    /// Leaves it to the published map to find the zones that it has.
    fn forget_published(&mut self) {
        // A configuration may add a million zones, which are all published at its end.
        if self.configuring.is_none() {
            self.zones.forget_published(&self.publisher.current().zones);
        }
    }

    /// Whether [`ZoneRegistry::step`] has more to do at once.
    pub fn needs_step(&self) -> bool {
        self.configuring.is_some() || self.publisher.is_compacting()
    }
}
