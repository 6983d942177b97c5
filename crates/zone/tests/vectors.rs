//! Loads the vectors of `vectors/*.zone`: they state which records load, warn or fail, leniently and strictly.

use std::fmt;
use std::path::Path;

use wire::{Name, Rtype};
use zone::load::{LoadOptions, load};
use zone::text::{self, RecordSink, Source, ZoneRecord};
use zone::{CheckMode, Severity};

/// The start of the zone file of every vector.
const HEAD: &str = "$ORIGIN example.\n$TTL 60\n@ SOA ns.invalid. host.invalid. 1 2 3 4 60\n@ NS ns.invalid.\n";

/// A vector: the expected results, a note, the lines, and lines that parse to the same records.
#[derive(Default)]
struct Vector {
    decisions: [String; 2],
    note: String,
    text: String,
    same: String,
}

impl fmt::Display for Vector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}", self.note, self.text)
    }
}

/// Parses vectors: `;; LENIENT STRICT | RFC | NOTE`, the lines, and `;=` before lines that parse to the same records.
fn vectors(file: &str) -> Vec<Vector> {
    let mut vectors: Vec<Vector> = Vec::new();
    for line in file.lines() {
        if let Some(header) = line.strip_prefix(";; ") {
            let (decisions, note) = header.split_once(" | ").expect("a header has decisions and a note");
            let (lenient, strict) = decisions.split_once(' ').expect("two decisions");
            assert!(note.contains(" | "), "{note} lacks a document");
            let decisions = [lenient, strict].map(str::to_owned);
            vectors.push(Vector { decisions, note: note.to_owned(), ..Vector::default() });
        } else if let Some(vector) = vectors.last_mut() {
            let (text, line) = match line.strip_prefix(";= ") {
                Some(same) => (&mut vector.same, same),
                None => (&mut vector.text, line),
            };
            text.push_str(line);
            text.push('\n');
        }
    }
    vectors
}

fn options(apex: &Name, checks: CheckMode) -> text::ParseOptions<'_> {
    text::ParseOptions { check_mode: checks, ..text::ParseOptions::new(apex.as_ref()) }
}

fn source(text: &str) -> Source<'_> {
    Source { name: "vector".into(), bytes: text.as_bytes() }
}

/// `load`, `warn` or `error`, and the findings.
fn decision(lines: &str, checks: CheckMode) -> (&'static str, Vec<String>) {
    let apex: Name = "example.".parse().expect("a name");
    let text = format!("{HEAD}{lines}");
    let options = LoadOptions { thorough: true, ..LoadOptions::new(options(&apex, checks)) };
    let outcome = load(source(&text), &options);
    let has_error = outcome.findings.iter().any(|found| found.severity == Severity::Error);
    assert_eq!(outcome.zone.is_none(), has_error, "{lines}: {:?}", outcome.findings);
    let word = match (has_error, outcome.findings.is_empty()) {
        (true, _) => "error",
        (false, true) => "load",
        (false, false) => "warn",
    };
    (word, outcome.findings.iter().map(ToString::to_string).collect())
}

#[derive(Default)]
struct Records(Vec<String>);

impl RecordSink for Records {
    fn record(&mut self, record: ZoneRecord<'_>) {
        self.0.push(format!("{} {} {} {:02x?}", record.owner, record.ttl, record.rtype.0, record.rdata));
    }
}

fn records(lines: &str) -> Vec<String> {
    let apex: Name = "example.".parse().expect("a name");
    let text = format!("{HEAD}{lines}");
    let parsed = text::parse(source(&text), &options(&apex, CheckMode::Lenient), Records::default);
    parsed.sinks.into_iter().flat_map(|sink| sink.0).collect()
}

#[test]
fn vectors_load_as_decided() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    let (mut wrong, mut count) = (Vec::new(), 0);
    for entry in std::fs::read_dir(folder).expect("the folder is there") {
        let file = std::fs::read_to_string(entry.expect("an entry").path()).expect("text");
        for vector in vectors(&file) {
            count += 1;
            for (checks, expected) in [CheckMode::Lenient, CheckMode::Strict].into_iter().zip(&vector.decisions) {
                let (decided, found) = decision(&vector.text, checks);
                if decided != expected {
                    wrong.push(format!("{checks:?}: {decided}, not {expected}: {vector}{found:#?}"));
                }
            }
            if !vector.same.is_empty() && records(&vector.text) != records(&vector.same) {
                wrong.push(format!("other records: {vector}{:#?}", records(&vector.text)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 150, "only {count} vectors were read");
}

#[test]
fn rfc_3597_3_records_with_reserved_type_codes_are_stored() {
    let apex: Name = "example.".parse().expect("a name");
    let text = format!("{HEAD}@ TYPE0 \\# 1 00\n@ TYPE200 \\# 1 00\n@ TYPE65535 \\# 1 00\n");
    let outcome = load(source(&text), &LoadOptions::new(options(&apex, CheckMode::Lenient)));
    let zone = outcome.zone.expect("it loads");
    for code in [0, 6, 200, 65535] {
        assert!(zone.apex_node().rrset(Rtype(code)).is_some_and(|rrset| rrset.count == 1), "{code}");
    }
}
