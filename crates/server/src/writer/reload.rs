//! A reload, from the request to its report: read the configuration, apply it, wait for every zone, reply.
//!
//! Requests that come while a configuration is read share the next reading. Once its configuration is applied, a reload
//! waits until every zone was loaded since, or is stuck ([`crate::zones::ZoneRegistry::is_complete`]).

use std::collections::BTreeMap;
use std::iter;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::Instant;

use tracing::{error, info, warn};
use wire::Name;
use zone::{FilePosition, Finding, Severity};

use super::{ReloadRequest, Writer, WriterEvent};
use crate::clock;
use crate::config::key_spec::KeyTable;
use crate::config::{Config, Server, Templates};
use crate::printable::path_text;
use crate::report::{Change, FindingReport, Report, ZoneReport};
use crate::sources::Sources;
use crate::tls::ReadTls;
use crate::transfer::engine::TransferCommand;
use crate::zones::answer_config::key_ring;
use crate::zones::work_pool::spawn_one;
use answer::KeyRing;

/// All reloads, and what the next one begins from.
pub(super) struct Reloads {
    /// Where every reload reads the configuration from.
    sources: Sources,
    /// The settings in force: where a change needs a restart, the old value.
    server: Server,
    /// Those of the last configuration that was applied.
    empty_sources: Vec<PathBuf>,
    /// Requests that came since the configuration was read: they need it to be read again.
    requests: Vec<ReloadRequest>,
    /// The requests that the configuration being read is for.
    reading_for: Option<Vec<ReloadRequest>>,
    /// The reload whose configuration is being applied.
    applying: Option<ApplyingReload>,
    /// The templates and catalogs of that configuration.
    pub(super) new_catalogs: Option<(Templates, Vec<Name>)>,
    /// Reloads whose configuration is read, and the load at the start.
    pub(super) running: Vec<Reload>,
}

impl Reloads {
    /// While the start loads zones.
    pub(super) fn at_start(sources: Sources, server: Server, empty_sources: Vec<PathBuf>, start: Reload) -> Reloads {
        let (requests, running) = (Vec::new(), vec![start]);
        Reloads {
            sources,
            server,
            empty_sources,
            requests,
            reading_for: None,
            applying: None,
            new_catalogs: None,
            running,
        }
    }

    fn are_done(&self) -> bool {
        self.running.is_empty() && self.reading_for.is_none() && self.applying.is_none()
    }
}

/// A reload in progress, or the load at the start.
pub(super) struct Reload {
    requests: Vec<ReloadRequest>,
    /// The report, without its zones.
    report: Report,
    /// The last report of each zone by name: while one zone is stuck, others may change over and over again.
    zones: BTreeMap<String, ZoneReport>,
    begun: Instant,
    /// Its number in the registry; `None` if the configuration was rejected.
    number: Option<u64>,
    is_start: bool,
}

/// A reload whose configuration is being applied.
pub(super) struct ApplyingReload {
    requests: Vec<ReloadRequest>,
    /// The report, without its zones.
    report: Report,
    begun: Instant,
}

impl Writer {
    pub(super) fn request_reload(&mut self, request: ReloadRequest) {
        // Requests without a reply are alike: one is enough.
        if request.reply.is_some() || self.reloads.requests.is_empty() {
            self.reloads.requests.push(request);
        }
        if self.reloads.reading_for.is_none() && self.reloads.applying.is_none() {
            self.read_configuration();
        }
    }

    /// Starts a thread that reads the configuration: its files may block, too, or be long.
    fn read_configuration(&mut self) {
        info!("reloading");
        if !self.is_starting() {
            self.notifier.reloading();
        }
        self.reloads.reading_for = Some(std::mem::take(&mut self.reloads.requests));
        let (sources, tls, events) = (self.reloads.sources.clone(), self.tls.clone(), self.queue.sender.clone());
        let read = move || {
            let read = || {
                let config = sources.read()?;
                let tls = tls.read_again(&config.server);
                Ok((config, tls))
            };
            let read = catch_unwind(AssertUnwindSafe(read));
            let read = read.unwrap_or_else(|_| Err(vec![unread("zonda panicked while reading the configuration")]));
            // Fails only if the writer has ended, and that ends with the process.
            _ = events.send(WriterEvent::ConfigurationRead(Box::new(read)));
        };
        if spawn_one("configuration", read).is_err() {
            self.begin_reload(Err(vec![unread("cannot start a thread to read the configuration")]));
        }
    }

    /// Begins to apply a configuration that was read.
    pub(super) fn begin_reload(&mut self, read: Result<(Config, ReadTls), Vec<Finding>>) {
        let requests = self.reloads.reading_for.take().unwrap_or_default();
        let begun = requests.first().map_or_else(clock::now, |request| request.requested_at);
        let accepted = read.and_then(|(config, tls)| match self.lost_zones(&config) {
            Some(mistake) => Err(iter::once(mistake).chain(tls.into_findings()).collect()),
            None => Ok((config, tls)),
        });
        match accepted {
            Ok((config, tls)) => {
                let report = self.apply_config(config, tls);
                report.configuration.iter().for_each(log_finding);
                self.reloads.applying = Some(ApplyingReload { requests, report, begun });
            }
            Err(mistakes) => {
                let configuration = mistakes.iter().map(|mistake| FindingReport::new(mistake, None)).collect();
                let report = Report { configuration, ..Report::default() };
                report.configuration.iter().for_each(log_finding);
                self.reloads.running.push(Reload::new(requests, report, begun, None));
                self.read_again();
            }
        }
    }

    /// The configuration is applied: from now on the reload waits for its zones.
    pub(super) fn end_configuration(&mut self, zones: Vec<ZoneReport>) {
        self.configure_catalogs();
        let Some(ApplyingReload { requests, report, begun }) = self.reloads.applying.take() else { return };
        zones.iter().for_each(|zone| self.zone_log.add(zone));
        self.memory_return.note_load(clock::now());
        let report = Report { zones, ..report };
        self.reloads.running.push(Reload::new(requests, report, begun, Some(self.zones.latest_reload())));
        self.read_again();
    }

    /// Reads the configuration for the requests that came meanwhile.
    fn read_again(&mut self) {
        if !self.reloads.requests.is_empty() {
            self.read_configuration();
        }
    }

    /// An error if a valid configuration has lost zones, probably by mistake: a folder became empty, a pattern matches nothing any more,
    /// or no zone is left.
    fn lost_zones(&self, config: &Config) -> Option<Finding> {
        const HELP: &str =
            "put back what is missing; to remove the zones, set `allow-no-zones = true` in [server], or restart";
        let configured = self.zones.configured_count();
        if config.server.allow_no_zones || configured == 0 {
            return None;
        }
        let mut emptied = config.empty_sources.iter().filter(|source| !self.reloads.empty_sources.contains(source));
        let (file, message) = match emptied.next() {
            Some(source) => (path_text(source).into(), "there is no file left to read here".into()),
            None if config.zones.is_empty() => {
                let message = format!("no zone is left of the {configured} that are configured now");
                (config.files.first().cloned().unwrap_or_default(), message)
            }
            None => return None,
        };
        let position = FilePosition { file, line: 0, column: 0 };
        Some(Finding { severity: Severity::Error, position, message, help: HELP.into() })
    }

    fn apply_config(&mut self, config: Config, tls: ReadTls) -> Report {
        let unkept = self.unkept_updates(&config);
        self.reloads.empty_sources = config.empty_sources;
        let tls = self.tls.replace(tls);
        if tls.are_peers_changed {
            self.secondaries.send(TransferCommand::TlsReplaced);
        }
        let findings = config.warnings.into_iter().chain(tls.findings).chain(unkept);
        let configuration = findings.map(|finding| FindingReport::new(&finding, None)).collect();
        let waiting_for_restart = self.apply_settings(config.server, key_ring(&config.keys));
        self.zones.set_keys(&config.keys);
        self.reloads.new_catalogs = Some((config.templates, config.catalogs));
        self.zones.begin_configure(config.zones);
        Report { configuration, waiting_for_restart, ..Report::default() }
    }

    /// A warning if the configuration permits updates that this process cannot keep: it was started without `state-dir`.
    fn unkept_updates(&self, config: &Config) -> Option<Finding> {
        if self.zones.has_journal() {
            return None;
        }
        let mut zones = config.zones.iter().filter(|zone| zone.source.policy.is_updated());
        let first = zones.next()?;
        let message = format!(
            "`allow-update` has no effect before a restart, updates get SERVFAIL: zonda was started without `state-dir` \
             ({} in all, the first is {})",
            zones.count() + 1,
            first.name
        );
        let file = config.files.first().cloned().unwrap_or_default();
        let position = FilePosition { file, line: 0, column: 0 };
        Some(Finding { severity: Severity::Warning, position, message, help: "restart zonda".into() })
    }

    /// Applies the settings that need no restart; returns the changed keys that need one.
    fn apply_settings(&mut self, new: Server, keys: KeyRing) -> Vec<String> {
        let waiting = self.reloads.server.waiting_for_restart(&new);
        self.log.set_level(new.log_level);
        self.zones.apply_settings(&new, keys);
        waiting
    }

    //----------- zones --------------------------------------------------------

    fn is_starting(&self) -> bool {
        self.reloads.running.iter().any(|reload| reload.is_start)
    }

    /// Logs the result of loading a zone. At the start, zones without findings are not logged.
    pub(super) fn report_zone(&mut self, report: Option<ZoneReport>) {
        let Some(report) = report else { return };
        self.memory_return.note_load(clock::now());
        let is_expected = report.change == Change::Added && report.findings.is_empty();
        if !(is_expected && self.is_starting()) {
            self.zone_log.add(&report);
        }
        self.reloads.running.iter_mut().for_each(|reload| reload.add([report.clone()]));
    }

    /// Ends the reloads that wait for nothing more.
    pub(super) fn finish_reloads(&mut self) {
        let zones = &self.zones;
        let is_complete = |reload: &mut Reload| reload.number.is_none_or(|number| zones.is_complete(number));
        let complete: Vec<Reload> = self.reloads.running.extract_if(.., is_complete).collect();
        if complete.is_empty() {
            return;
        }
        self.zones.publish();
        if self.zones.is_settled() {
            self.zones.publisher.compact();
        }
        self.memory_return.note_load(clock::now());
        self.zone_log.summarize();
        if complete.iter().any(|reload| reload.is_start) {
            self.has_started = true;
        }
        complete.into_iter().for_each(|reload| self.finish(reload));
    }

    /// Logs the end of a reload and sends its report.
    fn finish(&self, mut reload: Reload) {
        let outcome = match (reload.is_start, reload.number) {
            (true, _) => "ready",
            (_, None) => "not reloaded",
            (_, Some(_)) => "reloaded",
        };
        let (served, not_served) = self.zones.counts();
        if let Some(number) = reload.number {
            reload.add(self.zones.stuck_zones(number));
        }
        let Reload { requests, mut report, zones, begun, number, .. } = reload;
        report.zones = zones.into_values().collect();
        if number.is_some() {
            let reported = report.zones.iter().filter(|zone| zone.change != Change::Removed).count();
            // A later reload may have removed one of them.
            report.unchanged = (served + not_served).saturating_sub(reported);
        }
        report.seconds = begun.elapsed().as_secs_f64();
        if !report.waiting_for_restart.is_empty() {
            warn!("waiting for a restart: {}", report.waiting_for_restart.join(", "));
        }
        info!(served, not_served, seconds = report.seconds, "{outcome}");
        if self.reloads.are_done() {
            self.notifier.ready(&format!("{outcome}: {served} zones served, {not_served} not"));
        }
        // A client that has left gets no reply.
        requests.into_iter().filter_map(|request| request.reply).for_each(|reply| _ = reply.send(report.clone()));
    }
}

impl Reload {
    /// The load at the start.
    pub(super) fn at_start(number: u64, begun: Instant) -> Reload {
        Reload { is_start: true, ..Reload::new(Vec::new(), Report::default(), begun, Some(number)) }
    }

    fn new(requests: Vec<ReloadRequest>, mut report: Report, begun: Instant, number: Option<u64>) -> Reload {
        let zones = std::mem::take(&mut report.zones);
        let mut reload = Reload { requests, report, zones: BTreeMap::new(), begun, number, is_start: false };
        reload.add(zones);
        reload
    }

    /// Adds zones to the report if anybody waits for it. At most [`crate::control::RELOADS`] do, while signals may have caused
    /// any number of reloads that all wait for one stuck zone.
    fn add(&mut self, zones: impl IntoIterator<Item = ZoneReport>) {
        if self.requests.iter().any(|request| request.reply.is_some()) {
            self.zones.extend(zones.into_iter().map(|zone| (zone.zone.clone(), zone)));
        }
    }
}

/// The finding for a configuration that could not be read at all.
fn unread(message: &str) -> Finding {
    let (message, position) = (message.into(), FilePosition::default());
    Finding { severity: Severity::Error, position, message, help: String::new() }
}

/// Logs a finding with its severity.
pub fn log_finding(finding: &FindingReport) {
    match finding.is_error() {
        true => error!("{finding}"),
        false => warn!("{finding}"),
    }
}
