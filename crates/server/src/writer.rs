//! The writer: the one thread that owns the zones, publishes them, and reloads whenever asked.
//!
//! It handles one event at a time and never waits for a file: requests, configurations and zones that were read arrive
//! through one queue. So neither a reload nor one big zone delays the change of another.

mod event_queue;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tracing::{error, info, warn};
use zone::{FilePosition, Finding, Severity};

use crate::config::section::{Section, Takes};
use crate::config::{Config, Server};
use crate::log::Log;
use crate::notify::Notifier;
use crate::printable::{path_text, printable_path};
use crate::report::{Change, FindingReport, Report, ZoneReport};
use crate::sources::Sources;
use crate::zones::load_progress::ProgressDisplay;
use crate::zones::{FinishedRead, ZoneRegistry, read_pool::STUCK_AFTER};
use event_queue::WriterEvent;

pub use event_queue::{EventQueue, ReloadRequest, WriterHandle, ask, queue};

/// How often stuck reads, the display of the progress and replaced versions of zones are looked after, as long as there
/// are any.
const TICK: Duration = Duration::from_millis(100);

/// Versions were replaced: [`Writer::held`] is known with the next tick.
const NOT_LOOKED_AT: usize = usize::MAX;

/// How much longer than a line of progress systemd is to wait for the next, in seconds.
const PATIENCE_S: u64 = 60;

/// Owns the zones; the only thread that publishes.
pub struct Writer {
    zones: ZoneRegistry,
    /// Read again with every reload.
    sources: Sources,
    /// The settings in force; those that wait for a restart are still the old ones.
    server: Server,
    /// The folders on the command line that held no zone file when the configuration was read last.
    empty_folders: Vec<PathBuf>,
    /// Its level is a setting.
    log: Log,
    /// Is notified of the end of every load.
    notifier: Notifier,
    queue: EventQueue,
    /// Who waits for the configuration that is being read.
    being_read: Option<Vec<ReloadRequest>>,
    /// Who asked since that began: the next reading is theirs.
    asked: Vec<ReloadRequest>,
    /// Loads that are under way.
    loads: Vec<Reload>,
    display: Option<ProgressDisplay>,
    next_tick: Instant,
    /// Replaced versions that a reader held at the last look.
    held: usize,
}

/// A load that is under way.
struct Reload {
    /// Who asked for it.
    jobs: Vec<ReloadRequest>,
    /// The report but for its zones.
    report: Report,
    /// The last report of each zone, by name: while a zone is stuck, others may change over and over again.
    zones: BTreeMap<String, ZoneReport>,
    begun: Instant,
    /// The looks at zones that it waits for, see [`ZoneRegistry::asked`]; none where the configuration was not taken.
    looks: Option<u64>,
    is_start: bool,
}

impl Writer {
    /// For zones that are configured and not loaded yet.
    pub fn new(
        zones: ZoneRegistry,
        sources: Sources,
        server: Server,
        empty_folders: Vec<PathBuf>,
        log: Log,
        queue: EventQueue,
    ) -> Writer {
        let (now, looks) = (Instant::now(), Some(zones.asked()));
        let start = Reload { looks, is_start: true, ..Reload::new(Vec::new(), Report::default(), now) };
        Writer {
            zones,
            sources,
            server,
            empty_folders,
            log,
            notifier: Notifier::from_environment(),
            queue,
            being_read: None,
            asked: Vec::new(),
            loads: vec![start],
            display: None,
            next_tick: now,
            held: NOT_LOOKED_AT,
        }
    }

    /// Loads all zones, reports that the daemon is ready, then reloads whenever asked.
    pub fn run(mut self) {
        loop {
            let now = Instant::now();
            self.zones.step(now);
            if now >= self.next_tick {
                self.tick(now);
            }
            self.finish_loads();
            match self.queue.next(self.wake_time()) {
                Some(WriterEvent::ReloadRequested(job)) => self.ask(job),
                Some(WriterEvent::ConfigurationRead(config)) => self.begin_load(*config),
                Some(WriterEvent::ZoneRead(done)) => self.apply(done),
                None => (),
            }
        }
    }

    /// When there is something to do, events aside.
    fn wake_time(&self) -> Option<Instant> {
        let ticks = !self.zones.is_done() || !self.loads.is_empty() || self.held > 0;
        let tick = ticks.then_some(self.next_tick);
        tick.into_iter().chain(self.zones.due()).min()
    }

    fn tick(&mut self, now: Instant) {
        self.next_tick = now + TICK;
        for task in self.zones.watch(now) {
            let (apex, file, seconds) = (task.job.apex(), printable_path(&task.file), STUCK_AFTER.as_secs());
            error!("zone {apex}: reading {file} has made no progress for {seconds} s");
        }
        self.reclaim();
        if self.loads.is_empty() {
            self.display = None;
            return;
        }
        let display = self.display.get_or_insert_with(|| ProgressDisplay::new(now));
        display.show(now, self.zones.progress(), |line| {
            info!("{line}");
            self.notifier.status(line, PATIENCE_S);
        });
    }

    /// Frees what was replaced, once the listeners have let go of it, and gives the memory back when all is done.
    fn reclaim(&mut self) {
        let held = self.zones.reclaim();
        if held < self.held && self.zones.is_idle() {
            netio::malloc::trim();
        }
        self.held = held;
    }

    //----------- reloads ------------------------------------------------------

    fn ask(&mut self, job: ReloadRequest) {
        // One reload does for all that nobody waits for.
        if job.reply.is_some() || self.asked.is_empty() {
            self.asked.push(job);
        }
        if self.being_read.is_none() {
            self.read_configuration();
        }
    }

    /// Begins to read the configuration on a thread of its own: its files may block, too, or be long.
    fn read_configuration(&mut self) {
        info!("reloading");
        if !self.is_starting() {
            self.notifier.reloading();
        }
        self.being_read = Some(std::mem::take(&mut self.asked));
        let (sources, events) = (self.sources.clone(), self.queue.sender.clone());
        let read = move || {
            let config = catch_unwind(AssertUnwindSafe(|| sources.read()));
            let config = config.unwrap_or_else(|_| Err(vec![unread("reading the configuration broke zonda")]));
            // The writer lives as long as the process.
            _ = events.send(WriterEvent::ConfigurationRead(Box::new(config)));
        };
        if std::thread::Builder::new().name("configuration".into()).spawn(read).is_err() {
            self.begin_load(Err(vec![unread("no thread can be made to read the configuration")]));
        }
    }

    fn begin_load(&mut self, config: Result<Config, Vec<Finding>>) {
        let jobs = self.being_read.take().unwrap_or_default();
        let begun = jobs.first().map_or_else(Instant::now, |job| job.asked);
        let config = config.and_then(|config| match self.refusal(&config) {
            Some(mistake) => Err(vec![mistake]),
            None => Ok(config),
        });
        let (report, looks) = match config {
            Ok(config) => (self.take(config), Some(self.zones.asked())),
            Err(mistakes) => {
                let configuration = mistakes.iter().map(|mistake| FindingReport::new(mistake, None)).collect();
                (Report { configuration, ..Report::default() }, None)
            }
        };
        report.configuration.iter().for_each(log_finding);
        report.zones.iter().for_each(log_zone);
        self.loads.push(Reload { looks, ..Reload::new(jobs, report, begun) });
        if !self.asked.is_empty() {
            self.read_configuration();
        }
    }

    /// Why a configuration without mistakes is refused all the same: it would remove zones that are likely still wanted.
    fn refusal(&self, config: &Config) -> Option<Finding> {
        const HELP: &str =
            "put back what is missing; if the zones are to go, set `allow-no-zones = true` in [server], or restart";
        let (served, not_served) = self.zones.counts();
        if config.server.allow_no_zones || served + not_served == 0 {
            return None;
        }
        let mut emptied = config.empty_folders.iter().filter(|folder| !self.empty_folders.contains(folder));
        let (file, message) = match emptied.next() {
            Some(folder) => (path_text(folder).into(), "this folder holds no zone file any more".into()),
            None if config.zones.is_empty() => {
                let message = format!("no zone is left, and there are {} now", served + not_served);
                (config.files.first().cloned().unwrap_or_default(), message)
            }
            None => return None,
        };
        let position = FilePosition { file, line: 0, column: 0 };
        Some(Finding { severity: Severity::Error, position, message, help: HELP.into() })
    }

    fn take(&mut self, config: Config) -> Report {
        self.empty_folders = config.empty_folders;
        let configuration = config.warnings.iter().map(|warning| FindingReport::new(warning, None)).collect();
        let waiting_for_restart = self.take_settings(config.server);
        let zones = self.zones.configure(config.zones);
        Report { configuration, waiting_for_restart, zones, ..Report::default() }
    }

    /// Puts new settings in force; returns the keys that were changed and have to wait.
    fn take_settings(&mut self, new: Server) -> Vec<String> {
        let waits = |(index, _): &(usize, _)| self.server.toml(*index) != new.toml(*index);
        let keys = Server::KEYS.iter().enumerate().filter(|(_, key)| key.takes == Takes::Restart);
        let waiting = keys.filter(waits).map(|(_, key)| key.name.to_owned()).collect();
        self.log.set_level(new.log_level);
        self.zones.take_settings(&new);
        waiting
    }

    //----------- loads --------------------------------------------------------

    fn is_starting(&self) -> bool {
        self.loads.iter().any(|load| load.is_start)
    }

    /// Takes a zone that was read. At the start an added zone without findings is not reported.
    fn apply(&mut self, done: FinishedRead) {
        let Some(report) = self.zones.apply(done) else { return };
        self.held = NOT_LOOKED_AT;
        let is_expected = report.change == Change::Added && report.findings.is_empty();
        if !(is_expected && self.is_starting()) {
            log_zone(&report);
        }
        self.loads.iter_mut().for_each(|load| load.add([report.clone()]));
    }

    /// Ends the loads that wait for nothing any more.
    fn finish_loads(&mut self) {
        let zones = &self.zones;
        let is_over = |load: &mut Reload| load.looks.is_none_or(|looks| zones.is_settled(looks));
        let over: Vec<Reload> = self.loads.extract_if(.., is_over).collect();
        if over.is_empty() {
            return;
        }
        self.zones.publish();
        if self.zones.is_idle() {
            self.zones.compact();
        }
        self.held = NOT_LOOKED_AT;
        over.into_iter().for_each(|load| self.finish(load));
    }

    /// Logs the end of a load and sends its report.
    fn finish(&self, mut load: Reload) {
        let what = match (load.is_start, load.looks) {
            (true, _) => "ready",
            (_, None) => "not reloaded",
            (_, Some(_)) => "reloaded",
        };
        let (served, not_served) = self.zones.counts();
        if let Some(looks) = load.looks {
            load.add(self.zones.stuck(looks));
        }
        let Reload { jobs, mut report, zones, begun, looks, .. } = load;
        report.zones = zones.into_values().collect();
        if looks.is_some() {
            let touched = report.zones.iter().filter(|zone| zone.change != Change::Removed).count();
            // One may be removed by another reload that came meanwhile.
            report.unchanged = (served + not_served).saturating_sub(touched);
        }
        report.seconds = begun.elapsed().as_secs_f64();
        if !report.waiting_for_restart.is_empty() {
            warn!("waiting for a restart: {}", report.waiting_for_restart.join(", "));
        }
        info!(served, not_served, seconds = report.seconds, "{what}");
        if self.loads.is_empty() && self.being_read.is_none() {
            self.notifier.ready(&format!("{what}: {served} zones served, {not_served} not"));
        }
        // Who asked may have left.
        jobs.into_iter().filter_map(|job| job.reply).for_each(|reply| _ = reply.send(report.clone()));
    }
}

impl Reload {
    /// A reload that waits for no looks.
    fn new(jobs: Vec<ReloadRequest>, mut report: Report, begun: Instant) -> Reload {
        let zones = std::mem::take(&mut report.zones);
        let mut load = Reload { jobs, report, zones: BTreeMap::new(), begun, looks: None, is_start: false };
        load.add(zones);
        load
    }

    /// Puts zones into the report, if anybody waits for it: those who do are few ([`crate::control::CLIENTS`]), but there may be
    /// many loads that signals asked for, all behind one zone that is stuck.
    fn add(&mut self, zones: impl IntoIterator<Item = ZoneReport>) {
        if self.jobs.iter().any(|job| job.reply.is_some()) {
            self.zones.extend(zones.into_iter().map(|zone| (zone.zone.clone(), zone)));
        }
    }
}

fn unread(message: &str) -> Finding {
    Finding {
        severity: Severity::Error,
        position: FilePosition::default(),
        message: message.into(),
        help: String::new(),
    }
}

fn log_zone(zone: &ZoneReport) {
    zone.findings.iter().for_each(log_finding);
    match zone.change.is_failure() {
        true => error!("{zone}"),
        false => info!("{zone}"),
    }
}

/// Logs a finding as what it is.
pub fn log_finding(finding: &FindingReport) {
    match finding.is_error() {
        true => error!("{finding}"),
        false => warn!("{finding}"),
    }
}
