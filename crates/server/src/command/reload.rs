//! `zonda reload`: asks the running daemon to reload and prints the result.

use std::process::ExitCode;

use super::{json, print, print_failure};
use crate::cli::ReloadArguments;
use crate::control::{self, ControlRequest, ControlResponse};
use crate::printable::Printable;
use crate::sources::state_dir;

/// Asks the daemon, waits, and prints its report.
pub fn run(arguments: &ReloadArguments) -> ExitCode {
    // Only the state-dir is needed here; the daemon reports mistakes of the configuration.
    let state_dir = arguments.state_dir.clone().unwrap_or_else(|| state_dir(&arguments.config));
    match control::request(&state_dir, ControlRequest::Reload) {
        Ok(ControlResponse::Reloaded(report)) => {
            let text = match arguments.json {
                true => json(&report),
                false => report.to_string(),
            };
            if report.is_good() { print(&text) } else { print_failure(&text) }
        }
        Ok(ControlResponse::Refused(reason)) => fail(&reason),
        Err(error) => fail(&error.to_string()),
    }
}

fn fail(reason: &str) -> ExitCode {
    eprintln!("zonda: {}", Printable(reason));
    ExitCode::FAILURE
}
