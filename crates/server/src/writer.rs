//! The writer: the one thread that owns the zones, loads them at the start and again with every reload.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvError, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use tracing::{error, info, warn};
use zone::{Diagnostic, Place, Severity};

use crate::config::section::{Section, Takes};
use crate::config::{Config, Server};
use crate::control::{Answer, Request};
use crate::log::Log;
use crate::notify::Notifier;
use crate::printable::path_text;
use crate::report::{Finding, Report};
use crate::sources::Sources;
use crate::zones::Zones;

/// How often replaced versions of zones are looked after, as long as there are any that a reader holds.
const RECLAIM_EVERY: Duration = Duration::from_millis(100);

/// Owns the zones; the only thread that publishes.
pub struct Writer {
    /// What it owns.
    pub zones: Zones,
    /// Read again with every reload.
    pub sources: Sources,
    /// The settings in force; those that wait for a restart are still the old ones.
    pub server: Server,
    /// The folders on the command line that held no zone file when the configuration was read last.
    pub empty_folders: Vec<PathBuf>,
    /// Its level is a setting.
    pub log: Log,
    /// Is told of the end of every load.
    pub notifier: Notifier,
}

impl Writer {
    /// Loads all zones, tells that the daemon is ready, then reloads whenever asked.
    pub fn run(mut self, jobs: &Receiver<Job>) {
        let begin = Instant::now();
        let mut report = self.zones.load(Vec::new(), &self.notifier);
        report.seconds = begin.elapsed().as_secs_f64();
        self.finish(&report, "ready");
        while let Ok(job) = self.next_job(jobs) {
            // All who wait now want the same: one reload is enough.
            let jobs: Vec<Job> = [job].into_iter().chain(jobs.try_iter()).collect();
            let report = self.reload();
            // Who asked may have left.
            jobs.into_iter().filter_map(|job| job.reply).for_each(|reply| _ = reply.send(report.clone()));
        }
    }

    /// Waits for a job; looks after replaced versions until the last is freed, then sleeps.
    fn next_job(&mut self, jobs: &Receiver<Job>) -> Result<Job, RecvError> {
        let mut held = usize::MAX;
        while held > 0 {
            match jobs.recv_timeout(RECLAIM_EVERY) {
                Ok(job) => return Ok(job),
                Err(RecvTimeoutError::Timeout) => held = self.reclaim(held),
                Err(RecvTimeoutError::Disconnected) => return Err(RecvError),
            }
        }
        jobs.recv()
    }

    /// Frees what the last round replaced, once the listeners have let go of it, and gives the memory back.
    fn reclaim(&mut self, held_before: usize) -> usize {
        let held = self.zones.reclaim();
        if held < held_before {
            netio::memory::give_back();
        }
        held
    }

    fn reload(&mut self) -> Report {
        info!("reloading");
        self.notifier.reloading();
        let begin = Instant::now();
        let config = self.sources.read().and_then(|config| match self.refusal(&config) {
            Some(mistake) => Err(vec![mistake]),
            None => Ok(config),
        });
        let (mut report, what) = match config {
            Ok(config) => (self.take(config), "reloaded"),
            Err(mistakes) => {
                let configuration = mistakes.iter().map(|mistake| Finding::new(mistake, None)).collect();
                (Report { configuration, ..Report::default() }, "not reloaded")
            }
        };
        report.seconds = begin.elapsed().as_secs_f64();
        self.finish(&report, what);
        report
    }

    /// Why a configuration without mistakes is refused all the same: it would remove zones that are likely still wanted.
    fn refusal(&self, config: &Config) -> Option<Diagnostic> {
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
        let place = Place { file, line: 0, column: 0 };
        Some(Diagnostic { severity: Severity::Error, place, message, help: HELP.into() })
    }

    fn take(&mut self, config: Config) -> Report {
        self.empty_folders = config.empty_folders;
        let configuration = config.warnings.iter().map(|warning| Finding::new(warning, None)).collect();
        let waiting_for_restart = self.take_settings(config.server);
        let changes = self.zones.configure(config.zones);
        let report = self.zones.load(changes, &self.notifier);
        Report { configuration, waiting_for_restart, ..report }
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

    /// Tells everybody.
    fn finish(&self, report: &Report, what: &str) {
        report.configuration.iter().for_each(log_finding);
        for zone in &report.zones {
            zone.findings.iter().for_each(log_finding);
            match zone.change.is_failure() {
                true => error!("{zone}"),
                false => info!("{zone}"),
            }
        }
        if !report.waiting_for_restart.is_empty() {
            warn!("waiting for a restart: {}", report.waiting_for_restart.join(", "));
        }
        let (served, not_served) = self.zones.counts();
        info!(served, not_served, seconds = report.seconds, "{what}");
        self.notifier.ready(&format!("{what}: {served} zones served, {not_served} not"));
    }
}

/// A reload to be done, and who waits for its report.
pub struct Job {
    /// Where the report goes, if anybody wants it.
    pub reply: Option<SyncSender<Report>>,
}

/// Answers a request by having the writer do it.
pub fn ask(jobs: &SyncSender<Job>, Request::Reload: Request) -> Answer {
    let (reply, answer) = sync_channel(1);
    match jobs.try_send(Job { reply: Some(reply) }) {
        Err(TrySendError::Full(_)) => Answer::Refused("too many reloads are waiting already; try again".into()),
        // The writer ends only with the process, or by a bug.
        Err(TrySendError::Disconnected(_)) => Answer::Refused("this zonda cannot reload any more; restart it".into()),
        Ok(()) => match answer.recv() {
            Ok(report) => Answer::Reloaded(report),
            Err(_) => Answer::Refused("the reload was broken off; the log says why".into()),
        },
    }
}

/// Logs a finding as what it is.
pub fn log_finding(finding: &Finding) {
    match finding.is_error() {
        true => error!("{finding}"),
        false => warn!("{finding}"),
    }
}
