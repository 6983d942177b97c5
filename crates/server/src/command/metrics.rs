//! `zonda metrics`: prints the metrics of the running daemon.

use std::process::ExitCode;

use super::daemon_request::{request, unexpected};
use super::print;
use crate::cli::RunningDaemon;
use crate::control::{ControlRequest, ControlResponse};

/// Asks the daemon and prints its response.
pub fn run(daemon: &RunningDaemon) -> ExitCode {
    match request(daemon, &ControlRequest::Metrics) {
        Ok(ControlResponse::Metrics(text)) => print(&text),
        Ok(response) => unexpected(&response),
        Err(status) => status,
    }
}
