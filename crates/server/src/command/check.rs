//! `zonda check`: finds every mistake of a configuration and of zones in one run.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use serde::Serialize;
use zone::{CheckMode, Finding, check_list};

use super::{json, print, print_failure, read_config};
use crate::cli::CheckArguments;
use crate::config::{Config, ZoneConfig};
use crate::report::FindingReport;
use crate::sources::Sources;
use crate::tls;
use crate::zones::load::{LoadPurpose, load};
use crate::zones::load_progress::{LoadProgress, ProgressDisplay};
use crate::zones::read_pool::{ReadPool, ReadTask};

/// How often to update the progress display.
const TICK: Duration = Duration::from_millis(100);

/// The result as it is printed.
#[derive(Serialize)]
struct CheckReport {
    /// How many zones were read.
    zones: usize,
    errors: usize,
    warnings: usize,
    findings: Vec<FindingReport>,
}

/// Checks the zones of the command line or of the configuration; fails if there are errors.
pub fn run(arguments: &CheckArguments) -> ExitCode {
    if arguments.list {
        return print(&check_list::markdown());
    }
    let report = match read_config(&Sources::new(&arguments.config, &arguments.zones)) {
        Ok(config) => check_zones(&config, arguments.strict),
        Err(mistakes) => CheckReport::of(0, mistakes.iter().map(|mistake| FindingReport::new(mistake, None)).collect()),
    };
    let text = match arguments.json {
        true => json(&report),
        false => report.text(),
    };
    if report.errors == 0 { print(&text) } else { print_failure(&text) }
}

/// Reads the zones, with strict checks or with those of each zone.
fn check_zones(config: &Config, strict: bool) -> CheckReport {
    let mut findings: Vec<FindingReport> = config
        .warnings
        .iter()
        .chain(&tls::reload::check(config))
        .map(|found| FindingReport::new(found, None))
        .collect();
    let zones: Vec<&ZoneConfig> = config.zones.iter().filter(|zone| zone.source.has_file()).collect();
    let mut by_zone = check_files(&zones, strict);
    by_zone.sort_by_key(|(number, _)| *number);
    for (number, found) in by_zone {
        findings.extend(found.iter().map(|finding| FindingReport::new(finding, Some(zones[number].name.as_ref()))));
    }
    CheckReport::of(zones.len(), findings)
}

/// Reads the files of zones and shows the progress; returns the findings with the index of their zone.
fn check_files(zones: &[&ZoneConfig], strict: bool) -> Vec<(usize, Vec<Finding>)> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (sender, results) = channel();
    let pool = ReadPool::new(
        threads,
        move |task: &ReadTask<(usize, ZoneConfig)>, limits| {
            let ZoneConfig { name, source } = &task.job.1;
            let checks = if strict { CheckMode::Strict } else { source.policy.checks };
            load(name.as_ref(), &task.file, &source.policy, LoadPurpose::Check(checks), limits, &task.progress)
        },
        move |finished| {
            for (task, loaded) in finished {
                // The receiver lives until the last result.
                _ = sender.send((task.job.0, task.progress.octets(), loaded.findings));
            }
        },
    );
    for (number, zone) in zones.iter().enumerate() {
        let file = zone.source.file(zone.name.as_ref()).expect("zones without a file were filtered out");
        pool.submit(Arc::new(ReadTask::new(file, (number, ZoneConfig::clone(zone)))));
    }
    let begin = Instant::now();
    let (mut display, mut next_tick) = (ProgressDisplay::new(begin), begin + TICK);
    let (mut done, mut octets, mut found) = (0, 0, Vec::new());
    while done < zones.len() {
        if let Ok((number, read, findings)) = results.recv_timeout(TICK) {
            done += 1;
            octets += read;
            found.extend((!findings.is_empty()).then_some((number, findings)));
        }
        let now = Instant::now();
        if now >= next_tick {
            next_tick = now + TICK;
            let under_way = pool.check_progress(now).octets;
            let progress = LoadProgress { done, total: zones.len(), octets: octets + under_way };
            display.show(now, progress, |line| eprintln!("{line}"));
        }
    }
    found
}

impl CheckReport {
    fn of(zones: usize, findings: Vec<FindingReport>) -> CheckReport {
        let errors = findings.iter().filter(|finding| finding.is_error()).count();
        CheckReport { zones, errors, warnings: findings.len() - errors, findings }
    }

    /// The findings, one per line, and a summary.
    fn text(&self) -> String {
        let mut text: String = self.findings.iter().map(|finding| format!("{finding}\n")).collect();
        text += &format!("{} zones read, {} errors, {} warnings\n", self.zones, self.errors, self.warnings);
        text
    }
}
