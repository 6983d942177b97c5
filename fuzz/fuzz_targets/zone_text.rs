//! Parses any text as a zone, prints the records, parses them to the same records, and loads the zone.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::{Name, NameRef, Rtype};
use zone::load::{self, load};
use zone::text::print::{OwnerStyle, write_record};
use zone::text::{ParseOptions, ZoneRecord, RecordSink, Source, parse};
use zone::Severity;

/// A record without its position.
type Line = (Name, Rtype, u32, Vec<u8>);

/// Collects records in the order of the text.
#[derive(Default)]
struct Records(Vec<Line>);

impl RecordSink for Records {
    fn record(&mut self, record: ZoneRecord<'_>) {
        self.0.push((record.owner.to_owned(), record.rtype, record.ttl, record.rdata.to_vec()));
    }
}

fn options() -> ParseOptions<'static> {
    ParseOptions::new(NameRef::ROOT)
}

fn read(text: &[u8]) -> (Vec<Line>, usize) {
    let source = Source { name: "fuzz".into(), bytes: text };
    let parsed = parse(source, &options(), Records::default);
    let errors = parsed.findings.iter().filter(|finding| finding.severity == Severity::Error).count();
    (parsed.sinks.into_iter().flat_map(|records| records.0).collect(), errors)
}

fuzz_target!(|text: &[u8]| {
    let (records, _) = read(text);
    let mut printed = String::new();
    for (owner, rtype, ttl, rdata) in &records {
        let record = ZoneRecord { owner: owner.as_ref(), rtype: *rtype, ttl: *ttl, rdata, file: 0, line: 1 };
        write_record(&mut printed, &record, OwnerStyle::Absolute);
    }
    let (again, errors) = read(printed.as_bytes());
    assert_eq!(errors, 0, "{printed}");
    assert_eq!(again, records, "{printed}");
    load(
        Source { name: "fuzz".into(), bytes: text },
        &load::LoadOptions { thorough: true, ..load::LoadOptions::new(options()) },
    );
});
