//! Errors in zone text, before it is known which file they are in. For the parser only.

use std::borrow::Cow;
use std::sync::Arc;

use super::Field;
use crate::finding::{FilePosition, Finding, Findings, Severity};

/// A line and column of a file, both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LineColumn {
    pub line: u32,
    pub column: u32,
}

/// An error in a file, or a warning in the same form.
#[derive(Clone, Debug)]
pub(super) struct ParseError {
    pub at: LineColumn,
    pub message: Cow<'static, str>,
    pub help: Cow<'static, str>,
}

impl LineColumn {
    /// Where a field starts.
    pub fn of(field: &Field<'_>) -> LineColumn {
        LineColumn { line: field.line, column: field.column }
    }

    /// The end of a field: where the next one is missing.
    pub fn after(field: &Field<'_>) -> LineColumn {
        let len = field.text.len() + if field.quoted { 2 } else { 0 };
        LineColumn { line: field.line, column: field.column.saturating_add(len as u32) }
    }
}

impl ParseError {
    pub fn new(
        at: LineColumn,
        message: impl Into<Cow<'static, str>>,
        help: impl Into<Cow<'static, str>>,
    ) -> Box<ParseError> {
        Box::new(ParseError { at, message: message.into(), help: help.into() })
    }

    /// An error in a field.
    pub fn at(
        field: &Field<'_>,
        message: impl Into<Cow<'static, str>>,
        help: impl Into<Cow<'static, str>>,
    ) -> Box<ParseError> {
        ParseError::new(LineColumn::of(field), message, help)
    }

    pub fn report(self, severity: Severity, file: &Arc<str>, findings: &mut Findings) {
        findings.add_with(severity, || {
            let position = FilePosition { file: file.clone(), line: self.at.line, column: self.at.column };
            Finding { severity, position, message: self.message.into_owned(), help: self.help.into_owned() }
        });
    }
}
