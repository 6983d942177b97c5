//! Errors and warnings about a zone or a configuration: what is wrong, where, and how to fix it.

use std::fmt;
use std::sync::Arc;

/// An error or a warning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Whether it is an error or a warning.
    pub severity: Severity,
    /// Where it is.
    pub position: FilePosition,
    /// What is wrong: one sentence without a full stop.
    pub message: String,
    /// How to fix it: one sentence without a full stop; empty if the message makes it obvious.
    pub help: String,
}

/// Whether a finding is an error or a warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The zone is loaded.
    Warning,
    /// The zone is not loaded.
    Error,
}

/// What to do with a record that can be stored and served but violates its RFC.
///
/// Errors that make a zone impossible to serve do not depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CheckMode {
    /// Load it and warn.
    #[default]
    Lenient,
    /// Refuse the zone.
    Strict,
}

impl CheckMode {
    /// The severity of such a record.
    pub fn severity(self) -> Severity {
        match self {
            CheckMode::Lenient => Severity::Warning,
            CheckMode::Strict => Severity::Error,
        }
    }
}

/// A position in a zone file or configuration file. Line and column count from 1; 0 means unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FilePosition {
    /// The file, as the user named it.
    pub file: Arc<str>,
    /// The line.
    pub line: u32,
    /// The column in octets.
    pub column: u32,
}

impl FilePosition {
    /// A whole file.
    pub fn of_file(file: &Arc<str>) -> FilePosition {
        FilePosition { file: file.clone(), line: 0, column: 0 }
    }
}

impl fmt::Display for FilePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.line, self.column) {
            (0, _) => write!(f, "{}", self.file),
            (line, 0) => write!(f, "{}:{line}", self.file),
            (line, column) => write!(f, "{}:{line}:{column}", self.file),
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Warning => "warning",
            Severity::Error => "error",
        })
    }
}

impl fmt::Display for Finding {
    /// `FILE:LINE:COLUMN: error: MESSAGE (help: HELP)`, a form that editors parse.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { severity, position, message, help } = self;
        if !position.file.is_empty() {
            write!(f, "{position}: ")?;
        }
        write!(f, "{severity}: {message}")?;
        if help.is_empty() { Ok(()) } else { write!(f, " (help: {help})") }
    }
}

/// A list of at most `limit` errors and `limit` warnings; further ones are counted.
#[derive(Debug)]
pub struct Findings {
    limit: usize,
    list: Vec<Finding>,
    /// By severity, including those not listed.
    counts: [usize; 2],
}

/// The limit of [`Findings::default`].
const DEFAULT_LIMIT: usize = 200;

impl Default for Findings {
    fn default() -> Findings {
        Findings::new(DEFAULT_LIMIT)
    }
}

impl Findings {
    /// An empty list with this limit.
    pub fn new(limit: usize) -> Findings {
        Findings { limit, list: Vec::new(), counts: [0; 2] }
    }

    /// Whether there is an error, listed or not.
    pub fn has_errors(&self) -> bool {
        self.counts[Severity::Error as usize] > 0
    }

    /// Whether nothing was found.
    pub(crate) fn is_empty(&self) -> bool {
        self.counts == [0; 2]
    }

    /// Adds what `finding` returns, which is not called once the limit is reached.
    pub fn add_with(&mut self, severity: Severity, finding: impl FnOnce() -> Finding) {
        let count = &mut self.counts[severity as usize];
        *count += 1;
        if *count <= self.limit {
            self.list.push(finding());
        }
    }

    /// Appends `later`, as if its findings had been added one by one.
    pub(crate) fn append(&mut self, later: Findings) {
        let unlisted = [Severity::Warning, Severity::Error].map(|severity| later.unlisted(severity));
        for finding in later.list {
            self.add_with(finding.severity, || finding);
        }
        self.counts.iter_mut().zip(unlisted).for_each(|(count, unlisted)| *count += unlisted);
    }

    pub(crate) fn sort_by_position(&mut self) {
        self.list.sort_by(|a, b| a.position.cmp(&b.position));
    }

    /// The list, with one more finding about `file` for each severity that reached the limit.
    pub fn finish(mut self, file: &Arc<str>) -> Vec<Finding> {
        for (severity, plural) in [(Severity::Warning, "warnings"), (Severity::Error, "errors")] {
            let unlisted = self.unlisted(severity);
            if unlisted > 0 {
                let message = format!("{unlisted} more {plural} are not listed");
                let help = "fix those listed and check again".into();
                self.list.push(Finding { severity, position: FilePosition::of_file(file), message, help });
            }
        }
        self.list
    }

    fn unlisted(&self, severity: Severity) -> usize {
        self.counts[severity as usize].saturating_sub(self.limit)
    }
}
