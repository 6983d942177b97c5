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

/// Sends the zones in requests of a size that the daemon accepts, and reports the results of all.
fn edit<T>(
    daemon: &RunningDaemon,
    is_json: bool,
    zones: Vec<T>,
    len: impl Fn(&T) -> usize,
    make: impl Fn(Vec<T>) -> ControlRequest,
) -> ExitCode {
    let mut result = ActionReport { done: 0, failures: Vec::new(), unsaved: None };
    for batch in batches(zones, len) {
        let failed = match request(daemon, &make(batch)) {
            Ok(ControlResponse::ZoneAction { done, failures, unsaved }) => {
                result.done += done;
                result.failures.extend(failures);
                result.unsaved = unsaved.or(result.unsaved);
                continue;
            }
            Ok(response) => unexpected(&response),
            Err(status) => status,
        };
        // Zones of the batches before were changed.
        report(result, is_json);
        return failed;
    }
    report(result, is_json)
}

/// The octets of the zones in a request: with the rest of it, less than [`MAX_REQUEST_LEN`].
const MAX_BATCH_LEN: usize = MAX_REQUEST_LEN as usize / 2;
/// The octets of JSON around each zone.
const JSON_OVERHEAD: usize = 16;

/// The zones in batches for one request each. A zone that is too long for any is alone in its batch: the daemon says so.
fn batches<T>(zones: Vec<T>, len: impl Fn(&T) -> usize) -> impl Iterator<Item = Vec<T>> {
    // A backslash takes two octets in JSON.
    let len = move |zone: &T| 2 * len(zone) + JSON_OVERHEAD;
    let mut zones = zones.into_iter().peekable();
    std::iter::from_fn(move || {
        let first = zones.next()?;
        let (mut octets, mut batch) = (len(&first), vec![first]);
        while let Some(zone) = zones.next_if(|zone| octets + len(zone) < MAX_BATCH_LEN) {
            octets += len(&zone);
            batch.push(zone);
        }
        Some(batch)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_sent_in_batches_and_none_is_held_back_for_its_length() {
        let lens = |zones: Vec<usize>| batches(zones, |len| *len).map(|batch| batch.len()).collect::<Vec<_>>();
        assert_eq!(lens(vec![]), [] as [usize; 0]);
        assert_eq!(lens(vec![20; 100]), [100]);
        assert_eq!(lens(vec![100_000; 5]), [2, 2, 1]);
        assert_eq!(lens(vec![1, MAX_BATCH_LEN, 1]), [1, 1, 1]);
    }
}
