//! Random text and records.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use wire::{Name, NameRef, Rtype};

use super::{Lines, ParseOptions, ParseOutcome, apex, parse, source};
use crate::FilePosition;
use crate::text::chunk::ChunkSizes;
use crate::text::print::{OwnerStyle, write_record};
use crate::text::{Field, IncludedFile, RecordLimits, RecordSink, ZoneRecord, file, rdata};

/// Lines that affect each other: directives, omitted owners and TTLs, open quotes and parentheses, errors.
fn line() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "a",
        "b.c",
        "www.example.",
        "@",
        "x.test.",
        "a..b",
        "A",
        "NS",
        "TXT",
        "MX",
        "SOA",
        "IN",
        "CH",
        "1",
        "5m",
        "3000000000",
        "192.0.2.1",
        "\"q\"",
        "\"",
        "(",
        ")",
        "; c",
        "\\",
        "=\"v\"",
        "$TTL",
        "$ORIGIN",
        "$INCLUDE",
        "$GENERATE",
        "1-3",
        "h$",
        "\t",
        "\r",
        "\0",
        "é",
        "\\# 0",
    ]);
    let whole = prop::sample::select(vec![
        "a A 192.0.2.1",
        "b 7 A 192.0.2.2",
        " A 192.0.2.3",
        " 9 NS b",
        "a TXT \"two\nb A 192.0.2.4\nlines\"",
        "$TTL 60",
        "$TTL 5",
        "$ORIGIN sub",
        "$ORIGIN example.",
        "$ORIGIN sub.example.",
        "@ SOA a b (\n1 2 3\n4 5 )",
        "$INCLUDE inner",
        "c NS d (",
        "c )",
        "e TXT \"",
        "@ SOA a b 1 2 3 4 5",
        "$GENERATE 1-3 g$ A 192.0.2.$",
        "f TXT ( a\nb TXT c\n\"d\" )",
        "; comment",
        "",
    ]);
    prop_oneof![
        3 => whole.prop_map(str::to_owned),
        1 => prop::collection::vec(words, 0..6).prop_map(|words| words.join(" ")),
    ]
}

fn text() -> impl Strategy<Value = String> {
    let ends = prop::sample::select(vec!["\n", "\n", "\n", "\r\n", "\r"]);
    prop::collection::vec((line(), ends), 0..40)
        .prop_map(|lines| lines.into_iter().flat_map(|(line, end)| [line, end.to_owned()]).collect())
}

/// Any octet, mostly one with a meaning.
fn octet() -> impl Strategy<Value = u8> {
    prop_oneof![1 => any::<u8>(), 4 => prop::sample::select(b" \t\n\r\n;\"()\\$@.aA10".as_slice())]
}

fn read_in_chunks(
    text: &[u8],
    threads: usize,
    sizes: ChunkSizes,
    error_limit: usize,
    limits: RecordLimits,
) -> ParseOutcome {
    let apex = apex();
    let included = b"i NS i\n$ORIGIN in.example.\n 4 NS i\nj NS i\n A 192.0.2.7\n$TTL 8\nk A x";
    let include = |_: &Path, _: &FilePosition| {
        Ok(IncludedFile { name: "included".into(), id: (0, 0), text: Box::new(included.to_vec()) })
    };
    let options = ParseOptions { threads, include: &include, error_limit, limits, ..ParseOptions::new(apex.as_ref()) };
    file::parse(source(text), &options, &Lines::default, sizes).into()
}

/// No chunks.
fn whole(max_entry: usize) -> ChunkSizes {
    ChunkSizes { min_parallel: usize::MAX, head: 0, chunk: usize::MAX, max_entry }
}

/// Often none, often low enough to be exceeded.
fn limit() -> impl Strategy<Value = u64> {
    prop_oneof![Just(u64::MAX), 0u64..12]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, ..ProptestConfig::default() })]

    /// The result does not depend on how a file is split.
    #[test]
    fn chunks_equal_one_pass(
        text in text(),
        head in 1usize..200,
        chunk in 1usize..100,
        max_entry in prop_oneof![Just(usize::MAX), 1usize..400],
        error_limit in 0usize..6,
        (records, generated) in (limit(), limit()),
    ) {
        let limits = RecordLimits { records, generated };
        let sizes = ChunkSizes { min_parallel: 0, head, chunk: head.max(chunk), max_entry };
        let once = read_in_chunks(text.as_bytes(), 1, whole(max_entry), error_limit, limits);
        prop_assert_eq!(read_in_chunks(text.as_bytes(), 2, sizes, error_limit, limits), once);
    }

    /// Random octets do not panic, and the result does not depend on the chunks.
    #[test]
    fn random_octets_are_parsed_to_the_end(text in prop::collection::vec(octet(), 0..400)) {
        let sizes = ChunkSizes { min_parallel: 0, head: 16, chunk: 16, max_entry: 64 };
        let read = |threads, sizes| read_in_chunks(&text, threads, sizes, 100, RecordLimits::DEFAULT);
        prop_assert_eq!(read(2, sizes), read(1, whole(sizes.max_entry)));
    }

    /// Printed records are parsed to the same records, with absolute and with relative owners.
    #[test]
    fn printed_records_are_parsed_back(
        labels in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..6), 0..4),
        ttl in 0..=i32::MAX as u32,
        (rtype, octets) in rdata_octets(),
        root in any::<bool>(),
    ) {
        let origin = if root { Name::root() } else { apex() };
        let mut owner: Vec<u8> = labels.iter().flat_map(|label| [&[label.len() as u8], &label[..]].concat()).collect();
        owner.extend_from_slice(origin.wire());
        let owner = NameRef::from_wire(&owner).expect("a name");
        let record = ZoneRecord { owner, rtype, ttl, rdata: &octets, file: 0, line: 1 };
        for style in [OwnerStyle::Absolute, OwnerStyle::RelativeTo(origin.as_ref())] {
            let mut line = String::new();
            write_record(&mut line, &record, style);
            let parsed = parse(source(line.as_bytes()), &ParseOptions::new(origin.as_ref()), Kept::default);
            prop_assert_eq!(&parsed.findings, &[], "{}", &line);
            let kept = (owner.wire().to_vec(), rtype, ttl, octets.clone());
            prop_assert_eq!(&parsed.sinks[0].0, &[kept], "{}", &line);
        }
    }
}

/// Keeps records as octets.
#[derive(Debug, Default)]
struct Kept(Vec<(Vec<u8>, Rtype, u32, Vec<u8>)>);

impl RecordSink for Kept {
    fn record(&mut self, record: ZoneRecord<'_>) {
        self.0.push((record.owner.wire().to_vec(), record.rtype, record.ttl, record.rdata.to_vec()));
    }
}

/// A type and well-formed RDATA of it.
fn rdata_octets() -> impl Strategy<Value = (Rtype, Vec<u8>)> {
    let texts = prop::sample::select(vec![
        (Rtype::A, "192.0.2.1"),
        (Rtype::NS, "a\\.b.c."),
        (Rtype::SOA, "a. b. 1 2 3 4 5"),
        (Rtype::MX, "10 ."),
        (Rtype::HTTPS, "1 . alpn=h2,h3"),
        (Rtype::NSEC, "a. A NS TYPE731"),
        (Rtype(731), "\\# 2 0102"),
        (Rtype(731), "\\# 0"),
    ]);
    let fixed = texts.prop_map(|(rtype, text)| {
        let fields: Vec<_> =
            text.split(' ').map(|word| Field { text: word.as_bytes(), quoted: false, line: 1, column: 1 }).collect();
        let mut octets = Vec::new();
        rdata::parse(rtype, &fields, NameRef::ROOT, &mut octets).expect("good RDATA");
        (rtype, octets)
    });
    let string = prop::collection::vec(any::<u8>(), 0..20);
    let strings = prop::collection::vec(string, 1..4)
        .prop_map(|all| (Rtype::TXT, all.iter().flat_map(|one| [&[one.len() as u8], &one[..]].concat()).collect()));
    prop_oneof![fixed, strings]
}

/// Progress covers all octets, on one thread and on several, and those of included files.
#[test]
fn progress_covers_all_octets() {
    let text = "a 1 A 192.0.2.1\n".repeat(200) + "$INCLUDE f\n";
    let included = "b 1 A 192.0.2.2\n".repeat(100);
    let include = |_: &Path, _: &FilePosition| {
        Ok(IncludedFile { name: "included".into(), id: (0, 1), text: Box::new(included.clone().into_bytes()) })
    };
    for threads in [1, 3] {
        let read = AtomicU64::new(0);
        let progress = |octets| _ = read.fetch_add(octets, Ordering::Relaxed);
        let apex = apex();
        let options =
            ParseOptions { threads, include: &include, progress: &progress, ..ParseOptions::new(apex.as_ref()) };
        let sizes = ChunkSizes { min_parallel: 0, head: 100, chunk: 500, max_entry: 1000 };
        let parsed = file::parse(source(text.as_bytes()), &options, &Lines::default, sizes);
        assert_eq!(parsed.sinks.iter().map(|sink| sink.0.len()).sum::<usize>(), 300);
        let (least, read) = (text.len() + included.len(), read.into_inner() as usize);
        assert!((least..2 * least).contains(&read), "{read}, at least {least}");
    }
}

/// A chunk with a right guess is not parsed again: its sink is kept. Changing origins, even relative ones, and TTLs are guessed.
#[test]
fn right_guesses_are_kept() {
    let part = |n: u32| {
        format!("$ORIGIN a{n}.example.\n$TTL {n}\nx A 192.0.2.1\n$ORIGIN b\nx (\nA\n192.0.2.2 )\n A 192.0.2.3\n")
    };
    let text: String = (0..100).map(part).collect();
    let apex = apex();
    let options = ParseOptions { threads: 2, ..ParseOptions::new(apex.as_ref()) };
    let sizes = ChunkSizes { min_parallel: 0, head: 40, chunk: 200, max_entry: 1000 };
    let parsed = file::parse(source(text.as_bytes()), &options, &Lines::default, sizes);
    assert_eq!(parsed.findings, []);
    assert_eq!(parsed.sinks.iter().map(|sink| sink.0.len()).sum::<usize>(), 300);
    let chunks = text.len() / (sizes.chunk + part(99).len());
    assert!(parsed.sinks.len() > chunks, "{} sinks, at least {chunks} chunks", parsed.sinks.len());
}
