//! Mistakes in zone text while it is read, and the bounded list of them. For the parser only.

use std::borrow::Cow;
use std::sync::Arc;

use super::Field;
use crate::{Diagnostic, Place, Severity};

/// A line and column of the text at hand, both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    pub line: u32,
    pub column: u32,
}

/// A mistake, where it is and how to fix it; the file is known elsewhere.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    pub severity: Severity,
    pub spot: Spot,
    pub message: Cow<'static, str>,
    pub help: Cow<'static, str>,
}

impl Spot {
    /// Where a field starts.
    pub fn of(field: &Field<'_>) -> Spot {
        Spot { line: field.line, column: field.column }
    }

    /// Behind a field: where the next one is missing.
    pub fn behind(field: &Field<'_>) -> Spot {
        let len = field.text.len() + if field.quoted { 2 } else { 0 };
        Spot { line: field.line, column: field.column.saturating_add(len as u32) }
    }
}

impl Fault {
    /// A mistake at a spot that fails the zone.
    pub fn new(spot: Spot, message: impl Into<Cow<'static, str>>, help: impl Into<Cow<'static, str>>) -> Box<Fault> {
        Box::new(Fault { severity: Severity::Error, spot, message: message.into(), help: help.into() })
    }

    /// A mistake in a field.
    pub fn at(
        field: &Field<'_>,
        message: impl Into<Cow<'static, str>>,
        help: impl Into<Cow<'static, str>>,
    ) -> Box<Fault> {
        Fault::new(Spot::of(field), message, help)
    }
}

/// The findings so far: at most `limit` errors and `limit` warnings are listed, all are counted.
#[derive(Debug)]
pub(super) struct Findings {
    limit: usize,
    list: Vec<Diagnostic>,
    /// How many there are, by severity.
    counts: [usize; 2],
}

impl Findings {
    pub fn new(limit: usize) -> Findings {
        Findings { limit, list: Vec::new(), counts: [0; 2] }
    }

    pub fn add(&mut self, file: &Arc<str>, fault: Fault) {
        if self.count(fault.severity) {
            let place = Place { file: file.clone(), line: fault.spot.line, column: fault.spot.column };
            let (message, help) = (fault.message.into_owned(), fault.help.into_owned());
            self.list.push(Diagnostic { severity: fault.severity, place, message, help });
        }
    }

    /// Puts what was found further down behind what is here, as if found one by one.
    pub fn append(&mut self, later: Findings) {
        let hidden = [Severity::Warning, Severity::Error].map(|severity| later.hidden(severity));
        for diagnostic in later.list {
            if self.count(diagnostic.severity) {
                self.list.push(diagnostic);
            }
        }
        for (count, hidden) in self.counts.iter_mut().zip(hidden) {
            *count += hidden;
        }
    }

    /// The list, with a word on what is not listed.
    pub fn finish(mut self, file: &Arc<str>) -> Vec<Diagnostic> {
        for (severity, what) in [(Severity::Warning, "warnings"), (Severity::Error, "errors")] {
            let hidden = self.hidden(severity);
            if hidden > 0 {
                let place = Place { file: file.clone(), ..Place::default() };
                let message = format!("further {what} are not listed: {hidden}");
                let help = "fix those listed and check again".into();
                self.list.push(Diagnostic { severity, place, message, help });
            }
        }
        self.list
    }

    /// Counts one; whether it is to be listed.
    fn count(&mut self, severity: Severity) -> bool {
        let count = &mut self.counts[severity as usize];
        *count += 1;
        *count <= self.limit
    }

    fn hidden(&self, severity: Severity) -> usize {
        self.counts[severity as usize].saturating_sub(self.limit)
    }
}
