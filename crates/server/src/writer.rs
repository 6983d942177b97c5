//! The writer: the one thread that owns the zone registry and publishes what is served.
//!
//! It is an actor: other threads send it events through one queue (`event_queue.rs`), when a reload is requested, a
//! configuration was read or a zone was loaded, and it handles one at a time. It never waits for a file: configurations are
//! read by a thread made for that, zone files by the read pool. So a read that blocks delays its own zone only, and several
//! reloads may be in progress at once (`reload.rs`).

mod added_zones;
mod catalogs;
mod event_queue;
mod forwarded_update;
mod last_transfers;
mod memory_return;
mod own_addresses;
mod receive_memory;
mod received_zone;
mod reload;
mod secondaries;
#[cfg(test)]
mod simulation;
mod transfer_burst;
mod transfer_hooks;
mod transfer_thread;
mod unreachable_primaries;
mod update_answer;
mod update_forwarder;
mod updates;
mod zone_control;
mod zone_log;
mod zone_requests;

use std::io;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use answer::{OccasionalReader, Served, Subscriber};
use tracing::{error, info};

use crate::catalogs::Catalogs;
use crate::clock;
use crate::config::{Config, Endpoint};
use crate::log::Log;
use crate::printable::printable_path;
use crate::sources::Sources;
use crate::systemd_notify::Notifier;
use crate::tls::DaemonTls;
use crate::transfer::network::TransferHandle;
use crate::zones::answer_config::key_ring;
use crate::zones::journal::ZoneJournal;
use crate::zones::load_progress::ProgressDisplay;
use crate::zones::{ZoneRegistry, read_pool::STUCK_AFTER};
use added_zones::Additions;
use event_queue::WriterEvent;
use memory_return::MemoryReturn;
use own_addresses::OwnAddresses;
use reload::{Reload, Reloads};
use secondaries::Secondaries;
use transfer_burst::TransferBurst;
use transfer_hooks::TransferHooks;
use update_forwarder::{ExchangeThreads, UpdateExchanges};
use updates::Updates;
use zone_log::ZoneLog;

pub use added_zones::EditRequest;
pub use event_queue::{EventQueue, ReloadRequest, WriterHandle, queue};
pub use reload::log_finding;
pub use zone_control::{ControlEvent, ControlResults};
pub use zone_requests::{StatusPage, StatusRequest};

/// How often the writer looks for stuck reads, shows progress and frees replaced versions, while there are any.
const TICK: Duration = Duration::from_millis(100);

/// Events handled before the zones that they changed are published.
const MAX_EVENTS: usize = 128;

/// How long images may take that are being written as the daemon stops. Zones without one are read or transferred anew.
const MAX_STOP: Duration = Duration::from_secs(5);

/// How long systemd is to wait for the next progress line, in seconds.
const STATUS_TIMEOUT_S: u64 = 60;

/// The state of the writer thread.
pub struct Writer {
    zones: ZoneRegistry,
    secondaries: Secondaries,
    updates: Updates,
    catalogs: Catalogs,
    additions: Additions,
    /// Whether all zones are loaded that the start loads, and stored zones are to be forgotten that no catalog adds.
    has_started: bool,
    /// Is called when frozen zones were removed.
    frozen_removed: Box<dyn Fn() + Send>,
    reloads: Reloads,
    log: Log,
    /// Certificates, which every reload reads again.
    tls: DaemonTls,
    notifier: Notifier,
    queue: EventQueue,
    display: Option<ProgressDisplay>,
    zone_log: ZoneLog,
    next_tick: Instant,
    memory_return: MemoryReturn,
    transfer_burst: TransferBurst,
    /// Who waits until everything is stored, and until when: the daemon stops.
    stopping: Option<(SyncSender<()>, Instant)>,
}

/// What a [`Writer`] is made of.
pub struct WriterSetup {
    /// The configuration of the start.
    pub config: Config,
    /// Where every reload reads the configuration from.
    pub sources: Sources,
    /// The log, whose level a reload may change.
    pub log: Log,
    /// Certificates.
    pub tls: DaemonTls,
    /// The writer's end of its queue.
    pub queue: EventQueue,
    /// Keeps zones across restarts.
    pub journal: Box<dyn ZoneJournal>,
}

/// Why there is no writer. The message says which step failed, and how to fix that.
#[derive(Debug, thiserror::Error)]
pub enum WriterError {
    /// Transfers without a limit of their own may take as much as there is.
    #[error(
        "the system does not say how much memory it has, which limits transfers: {0} (help: sysconf(3) must know `_SC_PHYS_PAGES`)"
    )]
    Memory(#[source] io::Error),
    /// For the sockets of transfers.
    #[error(
        "no file descriptors for zone transfers (epoll and eventfd): {0} (help: raise LimitNOFILE= in the unit, or run `ulimit -n`; `sysctl fs.file-nr` shows what all programs have open)"
    )]
    Descriptors(#[source] io::Error),
    /// For transfers.
    #[error(
        "the thread for zone transfers cannot be started: {0} (help: raise TasksMax= in the unit, or run `ulimit -u`; a container may limit threads and memory)"
    )]
    Thread(#[source] io::Error),
    /// For the secret of cookies.
    #[error(
        "/dev/urandom cannot be read, so that there is no secret for cookies: {0} (help: a container or chroot needs this device)"
    )]
    RandomNumbers(#[source] io::Error),
}

impl Writer {
    /// A writer that has published the configured zones, none of them loaded yet.
    pub fn new(setup: WriterSetup) -> Result<Writer, WriterError> {
        let transfers = transfer_thread::start(setup.queue.sender.clone(), setup.tls.peers().clone())?;
        let exchanges = Box::new(ExchangeThreads::new(setup.tls.peers().clone()));
        Writer::with_network(setup, transfers, exchanges)
    }

    /// As [`Writer::new`], with a transfer thread that runs already, and whose events go to the queue, and with what forwards updates.
    fn with_network(
        setup: WriterSetup,
        transfers: TransferHandle,
        exchanges: Box<dyn UpdateExchanges>,
    ) -> Result<Writer, WriterError> {
        let WriterSetup { config, sources, log, tls, queue, journal } = setup;
        let mut zones = ZoneRegistry::new(&config.server, queue.zone_sender(), queue.work_sender())
            .map_err(WriterError::RandomNumbers)?;
        zones.set_journal(journal);
        let secondaries = Secondaries::new(queue.sender.clone(), transfers);
        let own = OwnAddresses::of(config.server.listen.iter().map(|Endpoint(address)| *address));
        zones.set_hooks(Box::new(TransferHooks::new(secondaries.handle().clone(), tls.peers().clone(), own)));
        zones.set_keys(&config.keys);
        zones.apply_settings(&config.server, key_ring(&config.keys));
        zones.configure(config.zones);
        let mut catalogs = Catalogs::new(queue.catalog_sender());
        catalogs.configure(&config.templates, &config.catalogs, &zones);
        let now = clock::now();
        Ok(Writer {
            reloads: Reloads::at_start(
                sources,
                config.server,
                config.empty_sources,
                Reload::at_start(zones.latest_reload(), now),
            ),
            zones,
            secondaries,
            updates: Updates::new(tls.peers().clone(), exchanges),
            catalogs,
            additions: Additions::default(),
            has_started: false,
            frozen_removed: Box::new(|| ()),
            log,
            tls,
            notifier: Notifier::from_environment(),
            queue,
            display: None,
            zone_log: ZoneLog::default(),
            next_tick: now,
            memory_return: MemoryReturn::new(now),
            transfer_burst: TransferBurst::default(),
            stopping: None,
        })
    }

    /// Access to what is published, for one more answering thread.
    pub fn subscribe(&self) -> Subscriber<Served> {
        self.zones.publisher.subscribe()
    }

    /// Access to what is published, for one more thread that reads it rarely.
    pub fn occasional_reader(&self) -> OccasionalReader<Served> {
        self.zones.publisher.occasional_reader()
    }

    /// Commands for the thread that transfers zones.
    pub fn transfers(&self) -> TransferHandle {
        self.secondaries.handle().clone()
    }

    /// Loads all zones, reports that the daemon is ready, then reloads on request.
    pub fn run(mut self) {
        loop {
            let wake_time = self.turn(clock::now());
            let Some(event) = self.queue.next(wake_time) else { continue };
            self.handle(event);
            self.handle_waiting(MAX_EVENTS - 1);
            self.secondaries.wake_transfers();
        }
    }

    /// Does what is due. Returns when the next turn is, if no event comes before.
    fn turn(&mut self, now: Instant) -> Option<Instant> {
        if let Some(reports) = self.zones.step(now) {
            self.end_configuration(reports);
        }
        if now >= self.next_tick {
            self.tick(now);
        }
        if self.transfer_burst.has_ended(now) {
            // Now, and once idle threads let go of the replaced versions.
            self.memory_return.note_load(now);
        }
        if self.zones.journal_due().is_some_and(|due| due <= now) {
            self.zones.tick_journal(now);
        }
        self.finish_reloads();
        self.finish_stop(now);
        self.report_frozen();
        if self.step_catalogs(now) { Some(now) } else { self.wake_time() }
    }

    /// Handles events that wait already: their changes are published together. Returns how many.
    fn handle_waiting(&mut self, max: usize) -> usize {
        for count in 0..max {
            let Some(event) = self.queue.waiting_event() else { return count };
            self.handle(event);
        }
        max
    }

    fn handle(&mut self, event: WriterEvent) {
        // Most events lead to a publication.
        self.memory_return.note_replaced();
        match event {
            WriterEvent::ReloadRequested(request) => self.request_reload(request),
            WriterEvent::ConfigurationRead(read) => self.begin_reload(*read),
            WriterEvent::ZonesRead(finished) => {
                for finished in finished {
                    let report = self.zones.apply(finished);
                    self.report_zone(report);
                }
            }
            WriterEvent::ZoneWorked(finished) => {
                let report = self.zones.finish_work(finished);
                self.report_zone(report);
            }
            WriterEvent::Journal(event) => self.zones.handle_journal(*event),
            WriterEvent::NotifyReceived(notify) => self.receive_notify(&notify),
            WriterEvent::Transfer(event) => self.handle_transfer(*event),
            WriterEvent::TransferFinished(finished) => self.finish_transfer(*finished),
            WriterEvent::ZonesEdited(request) => self.edit_zones(*request),
            WriterEvent::Catalog(event) => self.catalogs.handle(*event),
            WriterEvent::StatusRequested(request) => self.report_status(request),
            WriterEvent::ControlRequested(event) => self.control(*event),
            WriterEvent::UpdateReceived(update) => self.receive_update(*update),
            WriterEvent::StopRequested(done) => self.stopping = Some((done, clock::now() + MAX_STOP)),
        }
    }

    /// Reports that everything is stored, as far as that is possible soon.
    fn finish_stop(&mut self, now: Instant) {
        let Some((_, end)) = &self.stopping else { return };
        if (!self.zones.flush_journal() || now >= *end)
            && let Some((done, _)) = self.stopping.take()
        {
            // Nobody waits any more if that has taken too long.
            _ = done.send(());
        }
    }

    /// When there is something to do even if no event comes.
    fn wake_time(&self) -> Option<Instant> {
        if self.zones.needs_step() {
            return Some(clock::now());
        }
        let is_busy = !self.zones.is_idle() || self.zones.has_unsynced_changes() || self.stopping.is_some();
        let needs_ticks = is_busy || !self.reloads.running.is_empty() || self.memory_return.is_pending();
        let tick = needs_ticks.then_some(self.next_tick);
        tick.into_iter()
            .chain(self.zones.publisher.due())
            .chain(self.zones.journal_due())
            .chain(self.transfer_burst.end())
            .chain(self.catalogs.due(clock::now()))
            .min()
    }

    fn tick(&mut self, now: Instant) {
        self.next_tick = now + TICK;
        for task in self.zones.check_progress(now) {
            let (apex, file, seconds) = (task.job.apex(), printable_path(&task.file), STUCK_AFTER.as_secs());
            error!("zone {apex}: reading {file} has made no progress for {seconds} s");
        }
        self.zones.refuse_overdue_changes(now);
        self.reclaim();
        if self.reloads.running.is_empty() {
            self.display = None;
            return;
        }
        let display = self.display.get_or_insert_with(|| ProgressDisplay::new(now));
        display.show(now, self.zones.progress(), |line| {
            info!("{line}");
            self.notifier.status(line, STATUS_TIMEOUT_S);
        });
    }

    /// Frees replaced versions that nobody reads any more; after loads, returns memory to the system once all are settled.
    fn reclaim(&mut self) {
        let unreclaimed = self.zones.publisher.reclaim();
        // A batch of transferred zones replaces as many versions once it is published.
        let is_busy = self.zones.needs_step() || !self.zones.is_settled() || self.zones.publisher.due().is_some();
        if self.memory_return.is_due(unreclaimed, is_busy, clock::now()) {
            memory_return::return_memory();
        }
    }
}
