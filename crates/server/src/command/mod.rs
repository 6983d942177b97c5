//! The commands of `zonda` except `serve`, which is [`crate::daemon`].

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
