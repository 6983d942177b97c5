//! Real zones, if available: in `ZONDA_DATA`, or in `shared/data` next to the workspace.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use wire::{Name, Rtype};

use super::source;
use crate::text::print::{OwnerStyle, write_record};
use crate::text::{ParseOptions, Parsed, RecordSink, ZoneRecord, parse};

/// Counts records and writes them as text.
#[derive(Default)]
struct Text(String, usize);

impl RecordSink for Text {
    fn record(&mut self, record: ZoneRecord<'_>) {
        write_record(&mut self.0, &record, OwnerStyle::Absolute);
        self.1 += 1;
    }
}

fn data() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let data = std::env::var_os("ZONDA_DATA").map_or(beside, PathBuf::from);
    if data.is_dir() {
        return Some(data);
    }
    let _ = writeln!(std::io::stderr(), "skipped: no real zones in {}; set ZONDA_DATA", data.display());
    None
}

/// A decompressed file.
fn unpacked(program: &str, arguments: &[&str], file: &Path) -> Option<Vec<u8>> {
    match Command::new(program).args(arguments).arg(file).output() {
        Ok(output) if output.status.success() => Some(output.stdout),
        _ => {
            let _ = writeln!(std::io::stderr(), "skipped: {program} does not unpack {}", file.display());
            None
        }
    }
}

fn read(text: &[u8], apex: &Name, threads: usize) -> Parsed<Text> {
    parse(source(text), &ParseOptions { threads, ..ParseOptions::new(apex.as_ref()) }, Text::default)
}

/// Parses a zone on one thread and on two, prints it and parses that to the same. Returns the number of records.
fn check(text: &[u8], apex: &Name) -> usize {
    let once = read(text, apex, 1);
    assert_eq!(once.findings, []);
    let printed: String = read(text, apex, 2).sinks.into_iter().map(|sink| sink.0).collect();
    assert!(printed == once.sinks[0].0, "one thread and two differ");
    let again = read(printed.as_bytes(), apex, 1);
    assert_eq!(again.findings, []);
    assert!(again.sinks[0].0 == printed, "printed text does not read back to itself");
    once.sinks[0].1
}

/// The number of records of a text with one record per line.
fn record_lines(text: &[u8]) -> usize {
    text.split(|&byte| byte == b'\n').filter(|line| line.first().is_some_and(|byte| !b";$\r".contains(byte))).count()
}

#[test]
fn root_zone_of_2021() {
    let Some(data) = data() else { return };
    let Some(text) = unpacked("xz", &["-dc"], &data.join("root/root-2021-signed.zone.xz")) else { return };
    assert_eq!(check(&text, &Name::root()), record_lines(&text));
}

#[test]
fn root_zone_of_2011() {
    let Some(data) = data() else { return };
    let Some(text) = unpacked("xz", &["-dc"], &data.join("root/root-2011-signed.zone.xz")) else { return };
    assert_eq!(check(&text, &Name::root()), record_lines(&text));
}

/// All days in sequence; one export, the second of 2026-07-27, is the error message of a web service.
#[test]
fn gov_zone_of_44_days() {
    let Some(data) = data() else { return };
    let archive = data.join("gov/gov-series-2026.tar.xz");
    let Some(text) = unpacked("tar", &["-xJOf"], &archive) else { return };
    let apex: Name = "gov.".parse().expect("a name");
    let days = read(&text, &apex, 2);
    let errors = days.findings.iter().filter(|finding| finding.severity == crate::Severity::Error);
    let places: Vec<_> = errors.map(|finding| finding.position.to_string()).collect();
    assert_eq!(places, ["zone:1427240:2"]);
    assert!(
        text.split(|&byte| byte == b'\n').nth(1_427_239).is_some_and(|line| line.starts_with(b"{\"success\":false"))
    );
    assert_eq!(days.sinks.iter().map(|sink| sink.1).sum::<usize>(), record_lines(&text) - 1);
    let soas: usize = days.sinks.iter().map(|sink| sink.0.matches(&format!(" IN {} ", Rtype::SOA)).count()).sum();
    assert_eq!(soas, 44);
}
