//! Tests of the zone text parser.

mod directives;
mod errors;
mod random;
mod real;
mod records;
mod window;

use std::sync::Arc;

use wire::Name;

use super::print::{OwnerStyle, write_record};
use super::{ParseOptions, Parsed, RecordSink, Source, ZoneRecord, parse};

/// Collects records as lines of text.
#[derive(Debug, Default, PartialEq)]
struct Lines(Vec<String>);

impl RecordSink for Lines {
    fn record(&mut self, record: ZoneRecord<'_>) {
        let mut line = format!("{}:{} ", record.file, record.line);
        write_record(&mut line, &record, OwnerStyle::Absolute);
        self.0.push(line.trim_end().to_owned());
    }
}

/// Records as `FILE:LINE OWNER TTL IN TYPE RDATA`, and findings as text.
#[derive(Debug, PartialEq)]
struct ParseOutcome {
    records: Vec<String>,
    findings: Vec<String>,
}

impl From<Parsed<Lines>> for ParseOutcome {
    fn from(parsed: Parsed<Lines>) -> ParseOutcome {
        let records = parsed.sinks.into_iter().flat_map(|sink| sink.0).collect();
        let findings = parsed.findings.iter().map(ToString::to_string).collect();
        ParseOutcome { records, findings }
    }
}

fn apex() -> Name {
    "example.".parse().expect("a name")
}

fn source(text: &[u8]) -> Source<'_> {
    Source { name: Arc::from("zone"), bytes: text }
}

/// Parses a text with apex `example.`.
fn read(text: &[u8]) -> ParseOutcome {
    parse(source(text), &ParseOptions::new(apex().as_ref()), Lines::default).into()
}

/// The records of a text without errors, without file and line.
fn records(text: impl AsRef<[u8]>) -> Vec<String> {
    let outcome = read(text.as_ref());
    assert_eq!(outcome.findings, [""; 0], "{}", text.as_ref().escape_ascii());
    outcome.records.iter().map(|line| line.split_once(' ').expect("file and line").1.to_owned()).collect()
}
