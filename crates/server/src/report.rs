//! Reports of `zonda check` and `zonda reload`: findings and changed zones, as text and as JSON.

use std::fmt;

use serde::{Deserialize, Serialize};
use wire::NameRef;
use zone::{FilePosition, Finding, Severity};

use crate::printable::Printable;

/// An error or a warning about a configuration or a zone, as it is printed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindingReport {
    /// `error` or `warning`.
    pub severity: String,
    /// The zone it is about; absent for the configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// The file, as the user named it.
    pub file: String,
    /// The line, from 1; 0 is the whole file.
    pub line: u32,
    /// The column in octets, from 1; 0 is the whole line.
    pub column: u32,
    /// What is wrong.
    pub message: String,
    /// How to fix it; empty if the message makes it obvious.
    pub help: String,
}

impl FindingReport {
    /// A finding in a zone, or in the configuration.
    pub fn new(finding: &Finding, zone: Option<NameRef<'_>>) -> FindingReport {
        FindingReport {
            severity: finding.severity.to_string(),
            zone: zone.map(|zone| zone.to_string()),
            file: finding.position.file.to_string(),
            line: finding.position.line,
            column: finding.position.column,
            message: finding.message.clone(),
            help: finding.help.clone(),
        }
    }

    /// Whether it is an error: the configuration or the zone is not loaded.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error.to_string()
    }

    fn finding(&self) -> Finding {
        Finding {
            severity: if self.is_error() { Severity::Error } else { Severity::Warning },
            position: FilePosition { file: self.file.as_str().into(), line: self.line, column: self.column },
            message: self.message.clone(),
            help: self.help.clone(),
        }
    }
}

impl fmt::Display for FindingReport {
    /// As [`Finding`] is displayed, on one line, with the zone: `FINDING [zone NAME]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Printable(&self.finding().to_string()))?;
        match &self.zone {
            Some(zone) => write!(f, " [zone {}]", Printable(zone)),
            None => Ok(()),
        }
    }
}

/// The result of the initial load or of a reload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Findings in the configuration and in the certificates and keys that it names. An error in the configuration itself means that
    /// nothing was changed, and no zone is counted; with one in the others, what was read before stays in use.
    pub configuration: Vec<FindingReport>,
    /// Changed keys that take effect after a restart.
    pub waiting_for_restart: Vec<String>,
    /// The zones that were changed or could not be loaded.
    pub zones: Vec<ZoneReport>,
    /// The number of unchanged zones.
    pub unchanged: usize,
    /// The duration.
    pub seconds: f64,
}

/// The change of one zone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ZoneReport {
    /// The zone.
    pub zone: String,
    /// The kind of change.
    pub change: Change,
    /// The serial served before (RFC 1035 3.3.13).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old_serial: Option<u32>,
    /// The serial served now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial: Option<u32>,
    /// The findings in its files.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub findings: Vec<FindingReport>,
}

/// How a load or a reload changed a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// It is new, and loaded.
    Added,
    /// It has new content.
    Changed,
    /// It is no longer in the configuration.
    Removed,
    /// It could not be loaded; the version served before stays.
    Kept,
    /// It could not be loaded and has no earlier version; queries are answered with SERVFAIL.
    Failed,
    /// Reading its file makes no progress; the version served before stays, if there is one.
    Stuck,
    /// It has other settings and the same content.
    Settings,
}

impl Report {
    /// Whether the configuration and every zone were loaded.
    pub fn is_good(&self) -> bool {
        !self.configuration.iter().any(FindingReport::is_error) && self.failures() == 0
    }

    /// Whether nothing was changed because of an error in the configuration.
    fn is_rejected(&self) -> bool {
        self.configuration.iter().any(FindingReport::is_error) && self.zones.is_empty() && self.unchanged == 0
    }

    /// The number of zones that could not be loaded.
    pub fn failures(&self) -> usize {
        self.zones.iter().filter(|zone| zone.change.is_failure()).count()
    }
}

impl Change {
    /// Whether the zone, or its new version, could not be loaded.
    pub fn is_failure(self) -> bool {
        matches!(self, Change::Kept | Change::Failed | Change::Stuck)
    }
}

impl fmt::Display for ZoneReport {
    /// `NAME: CHANGE, serial OLD -> NEW`, without the findings.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let change = match self.change {
            Change::Added => "added",
            Change::Changed => "changed",
            Change::Settings => "settings changed",
            Change::Removed => "removed",
            Change::Kept => "NOT LOADED, the version from before is served",
            Change::Failed => "NOT LOADED, answered with SERVFAIL",
            Change::Stuck => "NOT LOADED YET, reading its file makes no progress",
        };
        write!(f, "{}: {change}", Printable(&self.zone))?;
        match (self.old_serial, self.serial) {
            (Some(old), Some(new)) if old != new => write!(f, ", serial {old} -> {new}"),
            (_, Some(serial)) => write!(f, ", serial {serial}"),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.configuration {
            writeln!(f, "{finding}")?;
        }
        if self.is_rejected() {
            return writeln!(f, "nothing was changed: fix the configuration first");
        }
        for zone in &self.zones {
            zone.findings.iter().try_for_each(|finding| writeln!(f, "{finding}"))?;
            writeln!(f, "{zone}")?;
        }
        if !self.waiting_for_restart.is_empty() {
            writeln!(f, "waiting for a restart: {}", Printable(&self.waiting_for_restart.join(", ")))?;
        }
        let changed = self.zones.len() - self.failures();
        writeln!(
            f,
            "{changed} zones changed, {} unchanged, {} not loaded, in {:.3} s",
            self.unchanged,
            self.failures(),
            self.seconds
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(zones: Vec<ZoneReport>) -> String {
        let finding = Finding {
            severity: Severity::Error,
            position: FilePosition::default(),
            message: "key.pem contains no private key".into(),
            help: String::new(),
        };
        Report { configuration: vec![FindingReport::new(&finding, None)], zones, ..Report::default() }.to_string()
    }

    #[test]
    fn zones_are_reported_beside_an_error_in_a_key_file() {
        let changed = ZoneReport {
            zone: "a.example.".into(),
            change: Change::Changed,
            old_serial: Some(1),
            serial: Some(2),
            findings: Vec::new(),
        };
        let text = report(vec![changed]);
        assert!(text.contains("a.example.: changed, serial 1 -> 2\n1 zones changed, "), "{text}");
        assert!(text.starts_with("error: key.pem") && !text.contains("nothing was changed"), "{text}");
        assert!(report(Vec::new()).ends_with("nothing was changed: fix the configuration first\n"));
    }
}
