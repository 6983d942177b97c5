//! Text larger than the window, and text that cannot be read.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::{Lines, ParseOptions, ParseOutcome, apex, parse, source};
use crate::text::chunk::ChunkSizes;
use crate::text::{ReadAt, Source, file};

/// Parses a text with the apex `example.` on two threads, and entries of at most 100 octets.
fn read(text: &[u8]) -> ParseOutcome {
    let apex = apex();
    let options = ParseOptions { threads: 2, ..ParseOptions::new(apex.as_ref()) };
    let sizes = ChunkSizes { min_parallel: 0, head: 10, chunk: 30, max_entry: 100 };
    file::parse(source(text), &options, &Lines::default, sizes).into()
}

#[test]
fn an_entry_has_a_maximum_length() {
    let text = |blanks: usize| format!("a 1 A 192.0.2.1\na 1 A ({:blanks$}\n192.0.2.2 )\na 1 A 192.0.2.3\n", "");
    assert_eq!(read(text(70).as_bytes()).records.len(), 3);
    let ParseOutcome { records, findings } = read(text(200).as_bytes());
    assert_eq!(records, ["0:1 a.example. 1 IN A 192.0.2.1"]);
    let too_long = "zone:2:1: error: this entry is longer than any record \
                    (help: close its quotes and parentheses; the rest of the file is not read)";
    assert_eq!(findings, [too_long]);
}

#[test]
fn an_open_parenthesis_does_not_hide_what_follows() {
    let text = format!("a 1 A (\n{}", "a 1 A 192.0.2.1\n".repeat(40));
    let ParseOutcome { records, findings } = read(text.as_bytes());
    assert_eq!((records.len(), findings.len()), (40, 1), "{findings:?}");
    assert!(findings[0].starts_with("zone:1:7: error: this parenthesis is not closed"), "{findings:?}");
}

/// Text of which only this many octets can be read.
struct Broken(Vec<u8>, usize);

impl ReadAt for Broken {
    fn size(&self) -> usize {
        self.0.len()
    }

    fn read_at(&self, offset: usize, buffer: &mut [u8]) -> io::Result<()> {
        self.0[..self.1].read_at(offset, buffer)
    }
}

#[test]
fn text_that_cannot_be_read_is_an_error() {
    let text = "a 1 A 192.0.2.1\n".repeat(100).into_bytes();
    let apex = apex();
    let options = ParseOptions { threads: 2, ..ParseOptions::new(apex.as_ref()) };
    let sizes = ChunkSizes { min_parallel: 0, head: 10, chunk: 30, max_entry: 100 };
    for readable in [0, 160, 700, 1599] {
        let broken = Broken(text.clone(), readable);
        let source = Source { name: "zone".into(), bytes: &broken };
        let ParseOutcome { findings, .. } = file::parse(source, &options, &Lines::default, sizes).into();
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].contains("error: the file cannot be read: "), "{findings:?}");
    }
}

/// Text that records the longest read.
struct Watched(Vec<u8>, AtomicUsize);

impl ReadAt for Watched {
    fn size(&self) -> usize {
        self.0.len()
    }

    fn read_at(&self, offset: usize, buffer: &mut [u8]) -> io::Result<()> {
        self.1.fetch_max(buffer.len(), Relaxed);
        self.0.read_at(offset, buffer)
    }
}

#[test]
fn a_big_file_is_never_in_memory_entirely() {
    let watched = Watched("a 1 A 192.0.2.1\n".repeat(1 << 21).into_bytes(), AtomicUsize::new(0));
    for threads in [1, 2] {
        let apex = apex();
        let options = ParseOptions { threads, ..ParseOptions::new(apex.as_ref()) };
        let parsed = parse(Source { name: "zone".into(), bytes: &watched }, &options, Count::default);
        assert_eq!(parsed.sinks.iter().map(|sink| sink.0).sum::<usize>(), 1 << 21);
        assert!(watched.1.load(Relaxed) <= ChunkSizes::DEFAULT.window_len(), "{:?}", watched.1);
    }
}

#[derive(Default)]
struct Count(usize);

impl crate::text::RecordSink for Count {
    fn record(&mut self, _: crate::text::ZoneRecord<'_>) {
        self.0 += 1;
    }
}
