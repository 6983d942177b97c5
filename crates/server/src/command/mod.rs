//! The commands of `zonda` that end by themselves; `serve` is [`crate::daemon`].

pub mod check;
pub mod config;
pub mod manual;
pub mod reload;

use std::io::{self, Write};
use std::process::ExitCode;

use serde::Serialize;
use zone::Finding;

use crate::config::Config;
use crate::printable::printable_json;
use crate::report::FindingReport;
use crate::sources::{Sources, nothing_found};

/// Writes a command's result to standard output. A reader that left early (`zonda config | head`) is no failure.
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

/// A result as one JSON object for [`print`].
fn json(result: &impl Serialize) -> String {
    printable_json(&serde_json::to_string_pretty(result).expect("results are JSON")) + "\n"
}

/// What is said with [`print`], with the status of a failure.
fn print_failure(text: &str) -> ExitCode {
    print(text);
    ExitCode::FAILURE
}

/// Reads the configuration; what is wrong with it, or that there is none, is the error.
pub fn read_config(sources: &Sources) -> Result<Config, Vec<Finding>> {
    if sources.is_empty() {
        return Err(vec![nothing_found()]);
    }
    sources.read()
}

/// Tells on standard error what is wrong with the configuration.
pub fn complain(findings: &[Finding]) {
    for finding in findings {
        eprintln!("{}", FindingReport::new(finding, None));
    }
}
