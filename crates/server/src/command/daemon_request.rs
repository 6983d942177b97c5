//! Requests of commands to the running daemon, and how their results are printed.

use std::process::ExitCode;

use serde::Serialize;

use super::{fail, json, print};
use crate::cli::RunningDaemon;
use crate::control::{self, ControlRequest, ControlResponse, ZoneFailure};
use crate::printable::Printable;

/// The daemon's response, or the exit status after the reason why there is none was printed.
pub(super) fn request(daemon: &RunningDaemon, request: &ControlRequest) -> Result<ControlResponse, ExitCode> {
    match control::request(&daemon.state_dir()?, request) {
        Ok(ControlResponse::Refused(reason)) => Err(fail(&reason)),
        Ok(response) => Ok(response),
        Err(error) => Err(fail(&error.to_string())),
    }
}

pub(super) fn unexpected(response: &ControlResponse) -> ExitCode {
    fail(&format!(
        "the running zonda is of another version and sent the unexpected response {response:?} (help: use the `zonda` that it was started with)"
    ))
}

/// Prints why something failed; returns the exit status.
pub(super) fn report_failures(failures: &[ZoneFailure]) -> ExitCode {
    for ZoneFailure { zone, reason } in failures {
        eprintln!("zonda: {}: {}", Printable(zone), Printable(reason));
    }
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The result of an action as JSON.
#[derive(Serialize)]
pub(super) struct ActionReport {
    pub(super) done: usize,
    pub(super) failures: Vec<ZoneFailure>,
    /// Why a restart may undo it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) unsaved: Option<String>,
}

/// Prints the result of an action; returns the exit status.
pub(super) fn report(result: ActionReport, is_json: bool) -> ExitCode {
    let status = report_failures(&result.failures);
    if is_json {
        print(&json(&result));
    }
    match &result.unsaved {
        Some(reason) => fail(reason),
        None => status,
    }
}
