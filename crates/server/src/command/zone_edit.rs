//! `zonda zone add` and `zonda zone remove`.

use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::ExitCode;

use wire::Name;

use super::daemon_request::{ActionReport, report, request, unexpected};
use super::fail;
use crate::cli::{RunningDaemon, ZoneAddArguments, ZoneRemoveArguments};
use crate::config::zone_list::parse_line;
use crate::control::{ControlRequest, ControlResponse, MAX_REQUEST_LEN};
use crate::printable::path_text;

/// `zonda zone add`.
pub fn add(arguments: &ZoneAddArguments) -> ExitCode {
    let ZoneAddArguments { daemon, template, list, json, zones } = arguments;
    let zones = match names(zones, list.as_deref()) {
        Ok(zones) => zones,
        Err(status) => return status,
    };
    let with_template =
        |(name, own): (Name, Option<String>)| (name.to_string(), own.unwrap_or_else(|| template.clone()));
    let zones: Vec<(String, String)> = zones.into_iter().map(with_template).collect();
    edit(
        daemon,
        *json,
        zones,
        |(name, template)| name.len() + template.len(),
        |zones| ControlRequest::ZoneAdd { zones },
    )
}

/// `zonda zone remove`.
pub fn remove(arguments: &ZoneRemoveArguments) -> ExitCode {
    let ZoneRemoveArguments { daemon, list, json, zones } = arguments;
    let zones = match names(zones, list.as_deref()) {
        Ok(zones) => zones.into_iter().map(|(name, _)| name.to_string()).collect(),
        Err(status) => return status,
    };
    edit(daemon, *json, zones, String::len, |zones| ControlRequest::ZoneRemove { zones })
}

/// The zones of the command line or of the list.
fn names(zones: &[Name], list: Option<&Path>) -> Result<Vec<(Name, Option<String>)>, ExitCode> {
    let Some(path) = list else { return Ok(zones.iter().map(|name| (name.clone(), None)).collect()) };
    let unreadable = |error: &dyn std::fmt::Display| fail(&format!("{} cannot be read: {error}", path_text(path)));
    let lines: Box<dyn BufRead> = match path.as_os_str() == "-" {
        true => Box::new(io::stdin().lock()),
        false => Box::new(BufReader::new(std::fs::File::open(path).map_err(|error| unreadable(&error))?)),
    };
    let mut zones = Vec::new();
    for (index, line) in lines.lines().enumerate() {
        let line = line.map_err(|error| unreadable(&error))?;
        let parsed = parse_line(&line).map_err(|error| error.to_string());
        let zone = parsed.map_err(|error| fail(&format!("{}:{}: {error}", path_text(path), index + 1)))?;
        zones.extend(zone.map(|(name, template)| (name, template.map(str::to_owned))));
    }
    Ok(zones)
}

/// The octets of JSON around each zone.
const JSON_OVERHEAD: usize = 16;

/// Sends the zones in requests of a size that the daemon accepts, and reports the results of all.
fn edit<T>(
    daemon: &RunningDaemon,
    is_json: bool,
    zones: Vec<T>,
    len: impl Fn(&T) -> usize,
    make: impl Fn(Vec<T>) -> ControlRequest,
) -> ExitCode {
    let state_dir = daemon.state_dir();
    let mut result = ActionReport { done: 0, failures: Vec::new() };
    let mut zones = zones.into_iter().peekable();
    while zones.peek().is_some() {
        let (mut batch, mut octets) = (Vec::new(), 0);
        // A backslash takes two octets in JSON.
        while let Some(zone) =
            zones.next_if(|zone| octets + 2 * len(zone) + JSON_OVERHEAD < MAX_REQUEST_LEN as usize / 2)
        {
            octets += 2 * len(&zone) + JSON_OVERHEAD;
            batch.push(zone);
        }
        match request(&state_dir, &make(batch)) {
            Ok(ControlResponse::ZoneAction { done, failures }) => {
                result.done += done;
                result.failures.extend(failures);
            }
            Ok(response) => return unexpected(&response),
            Err(status) => return status,
        }
    }
    report(result, is_json)
}
