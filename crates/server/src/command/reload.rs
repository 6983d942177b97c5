//! `zonda reload`: asks the running daemon to reload and prints the result.

use std::process::ExitCode;

use super::daemon_request::{request, unexpected};
use super::{json, print, print_failure};
use crate::cli::ReloadArguments;
use crate::control::{ControlRequest, ControlResponse};

/// Asks the daemon, waits, and prints its report.
pub fn run(arguments: &ReloadArguments) -> ExitCode {
    match request(&arguments.daemon, &ControlRequest::Reload) {
        Ok(ControlResponse::Reloaded(report)) => {
            let text = match arguments.json {
                true => json(&report),
                false => report.to_string(),
            };
            if report.is_good() { print(&text) } else { print_failure(&text) }
        }
        Ok(response) => unexpected(&response),
        Err(status) => status,
    }
}
