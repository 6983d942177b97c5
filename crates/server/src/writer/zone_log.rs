//! Logs the changes of zones: one line per zone, and a summary after many, as 100,000 files may be missing at once.

use tracing::{error, info, warn};

use crate::report::{FindingReport, ZoneReport};

/// Zones logged with each level between two summaries. More would hide what else is in the log.
const MAX_LINES: usize = 100;

/// Counts the zones since the last summary.
#[derive(Default)]
pub struct ZoneLog {
    failed: usize,
    with_findings: usize,
    changed: usize,
}

impl ZoneLog {
    /// Logs a zone with its first error, or else its first warning, unless many were logged.
    pub fn add(&mut self, zone: &ZoneReport) {
        let (is_failure, has_findings) = (zone.change.is_failure(), !zone.findings.is_empty());
        let count = match (is_failure, has_findings) {
            (true, _) => &mut self.failed,
            (false, true) => &mut self.with_findings,
            (false, false) => &mut self.changed,
        };
        *count += 1;
        if *count > MAX_LINES {
            return;
        }
        match (is_failure, has_findings) {
            (true, _) => error!("{}", line(zone)),
            (false, true) => warn!("{}", line(zone)),
            (false, false) => info!("{}", line(zone)),
        }
    }

    /// Logs how many zones were not logged, and starts again.
    pub fn summarize(&mut self) {
        let ZoneLog { failed, with_findings, changed } = std::mem::take(self);
        if let Some(more) = unlogged(failed) {
            error!("{more} more zones are NOT LOADED; `zonda check` lists their errors");
        }
        if let Some(more) = unlogged(with_findings) {
            warn!("{more} more zones are loaded with warnings; `zonda check` lists them");
        }
        if let Some(more) = unlogged(changed) {
            info!("{more} more zones have changed");
        }
    }
}

fn unlogged(count: usize) -> Option<usize> {
    count.checked_sub(MAX_LINES).filter(|more| *more > 0)
}

/// The change, the first error or else the first warning, and how many more there are.
fn line(zone: &ZoneReport) -> String {
    let Some(first) = zone.findings.iter().find(|finding| finding.is_error()).or(zone.findings.first()) else {
        return zone.to_string();
    };
    let first = FindingReport { zone: None, ..first.clone() };
    match zone.findings.len() - 1 {
        0 => format!("{zone}: {first}"),
        more => format!("{zone}: {first} (and {more} more errors or warnings)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Change;

    fn finding(severity: &str, line: u32) -> FindingReport {
        let (severity, message) = (severity.to_owned(), "bad".to_owned());
        FindingReport { severity, zone: Some("a.".into()), file: "f".into(), line, column: 1, message, help: "".into() }
    }

    #[test]
    fn a_zone_is_one_line_with_its_first_error() {
        let mut zone = ZoneReport {
            zone: "a.".into(),
            change: Change::Failed,
            old_serial: None,
            serial: None,
            findings: vec![finding("error", 2)],
        };
        assert_eq!(line(&zone), "a.: NOT LOADED, answered with SERVFAIL: f:2:1: error: bad");
        zone.findings.insert(0, finding("warning", 1));
        let expected = "a.: NOT LOADED, answered with SERVFAIL: f:2:1: error: bad (and 1 more errors or warnings)";
        assert_eq!(line(&zone), expected);
        let zone = ZoneReport { change: Change::Added, serial: Some(7), findings: Vec::new(), ..zone };
        assert_eq!(line(&zone), "a.: added, serial 7");
    }
}
