//! `zonda reload`: asks the running daemon to reload and tells what came of it.

use std::path::PathBuf;
use std::process::ExitCode;

use super::{complain, print, print_failure};
use crate::cli::{Reload, ZoneArguments};
use crate::control::{self, Answer, Request};
use crate::sources::Sources;

/// Asks, waits, prints the report.
pub fn run(arguments: &Reload) -> ExitCode {
    let Some(state_dir) = state_dir(arguments) else { return ExitCode::FAILURE };
    match control::ask(&state_dir, Request::Reload) {
        Ok(Answer::Reloaded(report)) => {
            let text = match arguments.json {
                true => serde_json::to_string_pretty(&report).expect("a report is JSON") + "\n",
                false => report.to_string(),
            };
            if report.is_good() { print(&text) } else { print_failure(&text) }
        }
        Ok(Answer::Refused(reason)) => fail(&reason),
        Err(error) => fail(&error.to_string()),
    }
}

/// The state-dir of the daemon meant; what is wrong with the configuration is told.
fn state_dir(arguments: &Reload) -> Option<PathBuf> {
    if let Some(state_dir) = &arguments.state_dir {
        return Some(state_dir.clone());
    }
    let sources = Sources::new(&arguments.config, &ZoneArguments::default());
    // The daemon says better what is wrong with the zones; only where it is must be known here.
    match sources.read() {
        Ok(config) => Some(config.server.state_dir.unwrap_or_else(control::default_state_dir)),
        Err(mistakes) => {
            complain(&mistakes);
            eprintln!("zonda: the state-dir is not known; mend the configuration or use --state-dir");
            None
        }
    }
}

fn fail(reason: &str) -> ExitCode {
    eprintln!("zonda: {reason}");
    ExitCode::FAILURE
}
