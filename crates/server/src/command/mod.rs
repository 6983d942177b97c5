//! The commands of `zonda` except `serve`, which is [`crate::daemon`].

pub mod check;
pub mod config;
mod daemon_request;
pub mod manual;
pub mod metrics;
pub mod reload;
pub mod tune;
pub mod zone;
mod zone_edit;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use ::zone::Finding;
use serde::Serialize;

use crate::cli::RunningDaemon;
use crate::config::Config;
use crate::printable::{Printable, printable_json};
use crate::report::FindingReport;
use crate::sources::{Sources, nothing_found, state_dir};

/// Writes a result to standard output. A reader that closes the pipe early (`zonda config | head`) is not a failure.
fn print(text: &str) -> ExitCode {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("zonda: standard output cannot be written: {error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

/// A result as one JSON object for [`print()`].
fn json(result: &impl Serialize) -> String {
    printable_json(&serde_json::to_string_pretty(result).expect("results are JSON")) + "\n"
}

/// [`print()`] with the exit status of a failure.
fn print_failure(text: &str) -> ExitCode {
    print(text);
    ExitCode::FAILURE
}

/// Prints why a command failed on standard error.
fn fail(reason: &str) -> ExitCode {
    eprintln!("zonda: {}", Printable(reason));
    ExitCode::FAILURE
}

impl RunningDaemon {
    /// The state-dir, or the exit status after the reason why it is unknown was printed. Nothing else of the configuration is needed here;
    /// the daemon reports its mistakes.
    fn state_dir(&self) -> Result<PathBuf, ExitCode> {
        let configured = || state_dir(&self.config).map_err(|finding| fail(&finding.to_string()));
        self.state_dir.clone().map_or_else(configured, Ok)
    }
}

/// Reads the configuration; its mistakes, or that there is none, are the error.
pub fn read_config(sources: &Sources) -> Result<Config, Vec<Finding>> {
    if sources.is_empty() {
        return Err(vec![nothing_found()]);
    }
    sources.read()
}

/// Prints findings on standard error, one per line.
pub fn print_findings(findings: &[Finding]) {
    for finding in findings {
        eprintln!("{}", FindingReport::new(finding, None));
    }
}
