//! `zonda zone`: asks the running daemon about its zones and controls them.

use std::io::{self, BufRead, Write};
use std::process::ExitCode;

use wire::Name;

use super::daemon_request::{ActionReport, report, report_failures, request, unexpected};
use super::{fail, json, print, zone_edit};
use crate::cli::{RunningDaemon, ZoneActionArguments, ZoneCommand, ZoneExportArguments, ZoneStatusArguments};
use crate::control::{self, ControlRequest, ControlResponse, END_OF_TEXT, ZoneAction};
use crate::printable::printable_json;
use crate::zone_status::ZoneStatus;

/// Runs one of the commands.
pub fn run(command: &ZoneCommand) -> ExitCode {
    match command {
        ZoneCommand::Status(arguments) => status(arguments),
        ZoneCommand::Refresh(arguments) => act(ZoneAction::Refresh, arguments),
        ZoneCommand::Retransfer(arguments) => act(ZoneAction::Retransfer, arguments),
        ZoneCommand::Notify(arguments) => act(ZoneAction::Notify, arguments),
        ZoneCommand::Freeze(arguments) => act(ZoneAction::Freeze, arguments),
        ZoneCommand::Thaw(arguments) => act(ZoneAction::Thaw, arguments),
        ZoneCommand::Rollback(arguments) => {
            let request = ControlRequest::ZoneRollback { zones: names(&arguments.zones), to: arguments.to };
            run_action(&arguments.daemon, &request, arguments.json)
        }
        ZoneCommand::Add(arguments) => zone_edit::add(arguments),
        ZoneCommand::Remove(arguments) => zone_edit::remove(arguments),
        ZoneCommand::Export(arguments) => export(arguments),
    }
}

fn names(zones: &[Name]) -> Vec<String> {
    zones.iter().map(Name::to_string).collect()
}

//----------- status -----------------------------------------------------------

fn status(arguments: &ZoneStatusArguments) -> ExitCode {
    let zones = names(&arguments.zones);
    let mut from = 0;
    loop {
        let page = ControlRequest::ZoneStatus { zones: zones.clone(), from };
        let (page, next, failures) = match request(&arguments.daemon, &page) {
            Ok(ControlResponse::ZoneStatus { zones, next, failures }) => (zones, next, failures),
            Ok(response) => return unexpected(&response),
            Err(status) => return status,
        };
        let printed = print(&status_text(&page, arguments.json, zones.len() == 1));
        match next {
            Some(next) if printed == ExitCode::SUCCESS => from = next,
            _ if printed != ExitCode::SUCCESS => return printed,
            _ => return report_failures(&failures),
        }
    }
}

fn status_text(zones: &[ZoneStatus], is_json: bool, is_one: bool) -> String {
    let line = |zone: &ZoneStatus| match (is_json, is_one) {
        (true, true) => json(zone),
        (true, false) => printable_json(&serde_json::to_string(zone).expect("a status is JSON")) + "\n",
        _ => format!("{zone}\n"),
    };
    zones.iter().map(line).collect()
}

//----------- actions ----------------------------------------------------------

fn act(action: ZoneAction, arguments: &ZoneActionArguments) -> ExitCode {
    let request = ControlRequest::ZoneAction { action, zones: names(&arguments.zones) };
    run_action(&arguments.daemon, &request, arguments.json)
}

fn run_action(daemon: &RunningDaemon, action: &ControlRequest, is_json: bool) -> ExitCode {
    match request(daemon, action) {
        Ok(ControlResponse::ZoneAction { done, failures, unsaved }) => {
            report(ActionReport { done, failures, unsaved }, is_json)
        }
        Ok(response) => unexpected(&response),
        Err(status) => status,
    }
}

//----------- export -----------------------------------------------------------

fn export(arguments: &ZoneExportArguments) -> ExitCode {
    let ZoneExportArguments { daemon, zone } = arguments;
    match copy_text(daemon, zone) {
        Ok(status) => status,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => fail(&format!("the zone text is incomplete: {error}")),
    }
}

fn copy_text(daemon: &RunningDaemon, zone: &Name) -> io::Result<ExitCode> {
    let request = ControlRequest::ZoneExport { zone: zone.to_string() };
    let state_dir = match daemon.state_dir() {
        Ok(state_dir) => state_dir,
        Err(status) => return Ok(status),
    };
    match control::request_text(&state_dir, &request) {
        Ok((ControlResponse::ZoneText { .. }, text)) => {
            copy_up_to_end(text, io::stdout().lock()).map(|()| ExitCode::SUCCESS)
        }
        Ok((ControlResponse::Refused(reason), _)) => Ok(fail(&reason)),
        Ok((response, _)) => Ok(unexpected(&response)),
        Err(error) => Ok(fail(&error.to_string())),
    }
}

const CUT_OFF: &str = "zonda closed the connection before its end: it has ended, or the text was not read for 5 s (help: write it to a file)";

/// Copies text up to [`END_OF_TEXT`]. Fails if that is missing.
fn copy_up_to_end(mut text: impl BufRead, mut out: impl Write) -> io::Result<()> {
    loop {
        let octets = match text.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            octets => octets.map_err(control::described)?,
        };
        if octets.is_empty() {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, CUT_OFF));
        }
        let end = octets.iter().position(|octet| *octet == END_OF_TEXT);
        let len = end.unwrap_or(octets.len());
        out.write_all(&octets[..len])?;
        if end.is_some() {
            return out.flush();
        }
        text.consume(len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A text that is cut off must not pass for a shorter zone, wherever it is cut.
    #[test]
    fn text_without_its_end_is_incomplete() {
        let text = b"$ORIGIN a.\n@ 1 IN NS b.\n\0";
        for len in 0..text.len() {
            let mut out = Vec::new();
            let copied = copy_up_to_end(&text[..len], &mut out);
            assert_eq!(copied.map_err(|error| error.kind()), Err(io::ErrorKind::UnexpectedEof));
            assert_eq!(out, text[..len]);
        }
        let mut out = Vec::new();
        copy_up_to_end(io::BufReader::with_capacity(4, &text[..]), &mut out).expect("it is complete");
        assert_eq!(out, text[..text.len() - 1]);
    }
}
