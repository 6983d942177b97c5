//! What is wrong with a zone, where, and how to fix it: the one form in which text, checks and loading report.

use std::fmt;
use std::sync::Arc;

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Whether the zone can be served all the same.
    pub severity: Severity,
    /// Where it is.
    pub place: Place,
    /// What is wrong: one sentence without a final stop.
    pub message: String,
    /// What to do about it: one sentence without a final stop; empty where the message says it.
    pub help: String,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Served as it is, but worth a look.
    Warning,
    /// The zone is not taken.
    Error,
}

/// What to do with a record that can be stored and served but breaks a rule of its RFC.
///
/// Errors that make a zone impossible to serve do not depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Checks {
    /// Load it and warn.
    #[default]
    Lenient,
    /// Refuse the zone.
    Strict,
}

impl Checks {
    /// The severity of such a record.
    pub fn severity(self) -> Severity {
        match self {
            Checks::Lenient => Severity::Warning,
            Checks::Strict => Severity::Error,
        }
    }
}

/// A place in zone text; line and column count from 1, 0 is "not known".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The file, as the user named it.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: u32,
    /// The column in octets, from 1.
    pub column: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.line, self.column) {
            (0, _) => write!(f, "{}", self.file),
            (line, 0) => write!(f, "{}:{line}", self.file),
            (line, column) => write!(f, "{}:{line}:{column}", self.file),
        }
    }
}

impl fmt::Display for Diagnostic {
    /// `FILE:LINE:COLUMN: error: MESSAGE (HELP)`, the form that editors understand.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        write!(f, "{}: {severity}: {}", self.place, self.message)?;
        if !self.help.is_empty() {
            write!(f, " ({})", self.help)?;
        }
        Ok(())
    }
}
