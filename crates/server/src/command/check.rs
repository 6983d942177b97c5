//! `zonda check`: every mistake of a configuration and of zones, in one run.

use std::process::ExitCode;

use serde::Serialize;
use zone::{Checks, rules};

use super::{print, print_failure, read_config};
use crate::cli::Check;
use crate::config::{Config, ZoneConfig};
use crate::report::Finding;
use crate::sources::Sources;
use crate::zones::load::{Aim, load};
use crate::zones::progress::Progress;
use crate::zones::spread::spread;

/// What was found.
#[derive(Serialize)]
struct Outcome {
    /// How many zones were read.
    zones: usize,
    errors: usize,
    warnings: usize,
    findings: Vec<Finding>,
}

/// Checks what the command line names; the status tells whether there are errors.
pub fn run(arguments: &Check) -> ExitCode {
    if arguments.list {
        return print(&rules::markdown());
    }
    let outcome = match read_config(&Sources::new(&arguments.config, &arguments.zones)) {
        Ok(config) => check_zones(&config, arguments.strict),
        Err(mistakes) => Outcome::of(0, mistakes.iter().map(|mistake| Finding::new(mistake, None)).collect()),
    };
    let text = match arguments.json {
        true => serde_json::to_string_pretty(&outcome).expect("an outcome is JSON") + "\n",
        false => outcome.text(),
    };
    if outcome.errors == 0 { print(&text) } else { print_failure(&text) }
}

/// Reads the zones; with the checks of each zone, or with strict ones.
fn check_zones(config: &Config, strict: bool) -> Outcome {
    let mut findings: Vec<Finding> = config.warnings.iter().map(|warning| Finding::new(warning, None)).collect();
    let zones: Vec<_> = config.zones.iter().filter(|zone| zone.source.has_file()).collect();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let progress = Progress::new(zones.len());
    let mut by_zone = Vec::new();
    progress.show_during(
        |line| eprintln!("{line}"),
        || {
            let job = |number: usize, turn| {
                let ZoneConfig { name, source } = zones[number];
                let checks = if strict { Checks::Strict } else { source.policy.checks };
                load(name.as_ref(), &source.file(name.as_ref())?, (Aim::Check, checks), turn, &progress)
            };
            spread(zones.len(), threads, job, |number, loaded| {
                if !loaded.findings.is_empty() {
                    by_zone.push((number, loaded.findings));
                }
            });
        },
    );
    by_zone.sort_by_key(|(number, _)| *number);
    for (number, found) in by_zone {
        findings.extend(found.iter().map(|finding| Finding::new(finding, Some(zones[number].name.as_ref()))));
    }
    Outcome::of(zones.len(), findings)
}

impl Outcome {
    fn of(zones: usize, findings: Vec<Finding>) -> Outcome {
        let errors = findings.iter().filter(|finding| finding.is_error()).count();
        Outcome { zones, errors, warnings: findings.len() - errors, findings }
    }

    /// The findings, a line each, and a summary.
    fn text(&self) -> String {
        let mut text: String = self.findings.iter().map(|finding| format!("{finding}\n")).collect();
        text += &format!("{} zones read, {} errors, {} warnings\n", self.zones, self.errors, self.warnings);
        text
    }
}
