//! Parses the chunks of a big file in parallel, each from a guess of the parser's state at its start.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, ScopedJoinHandle};

use memchr::{memchr, memmem};

use super::directive::{Include, origin};
use super::entry::StopReason;
use super::limits::RecordCounter;
use super::record::{Checkpoint, ParserState, RecordParser};
use super::scan::{LineStart, Scanner, count_lines};
use super::source::InputFile;
use super::window::Window;
use super::{ParseOptions, RecordSink, ttl};
use crate::finding::Findings;

/// How a file is split, in octets.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChunkSizes {
    /// Smaller files are parsed in order.
    pub min_parallel: usize,
    /// Parsed in order before the rest is split: it most likely has the directives for the whole file. Also the minimum
    /// chunk, and how much is read after a chunk for an entry that continues there.
    pub head: usize,
    /// The maximum chunk.
    pub chunk: usize,
    /// The maximum entry, and the most text that a thread holds. RDATA takes at most 320 KiB without comments: a blank and
    /// `\DDD` for each octet.
    pub max_entry: usize,
}

impl ChunkSizes {
    pub const DEFAULT: ChunkSizes =
        ChunkSizes { min_parallel: 1 << 20, head: 64 << 10, chunk: 4 << 20, max_entry: 8 << 20 };

    /// How much of a text parsed in order is in memory.
    pub fn window_len(&self) -> usize {
        self.chunk.saturating_add(self.head)
    }
}

/// The fewest chunks of a big file, unless they would be shorter than the minimum. While it is parsed, a chunk takes about as much memory
/// as its text, which is several times that of its part of the zone.
const MIN_CHUNKS: usize = 100;

/// A chunk parsed from a guessed state.
pub(super) struct Chunk<S> {
    guess: Checkpoint,
    /// Entries that start before this offset were parsed.
    pub stop: usize,
    pub end: Checkpoint,
    /// The `$INCLUDE` at which parsing stopped.
    pub include: Option<Box<Include>>,
    used_initial_ttl: bool,
    /// Whether `last_ttl` at the end was stated in the chunk.
    pub stated_ttl: bool,
    /// The number of records.
    pub records: u64,
    pub sink: S,
    pub findings: Findings,
}

pub(super) struct ChunkParser<'a, M> {
    pub options: &'a ParseOptions<'a>,
    pub make_sink: &'a M,
    pub sizes: ChunkSizes,
}

impl<S: RecordSink + Send, M: Fn() -> S + Sync> ChunkParser<'_, M> {
    /// Parses the chunks of a file from `start` on, on all threads. `known` is a checkpoint before it.
    pub fn parse_chunks(&self, file: &InputFile<'_>, known: &Checkpoint, start: usize) -> Vec<Chunk<S>> {
        let splitter = Mutex::new(ChunkSplitter::new(known, start, self.chunk_len(file.text.size()), self.sizes));
        let records = AtomicU64::new(0);
        let work = || {
            let mut chunks = Vec::new();
            let mut window = Window::new(file.text, self.options.progress, self.sizes.max_entry);
            while records.load(Relaxed) <= self.options.limits.records {
                let next = splitter.lock().unwrap_or_else(PoisonError::into_inner).next(&mut window);
                let Some((guess, stop)) = next else { break };
                let chunk = self.parse_chunk(file, &window, guess, stop);
                records.fetch_add(chunk.records, Relaxed);
                chunks.push(chunk);
            }
            chunks
        };
        let mut chunks: Vec<_> = thread::scope(|scope| {
            let workers: Vec<_> = (0..self.options.threads).map(|_| scope.spawn(work)).collect();
            let join = |worker: ScopedJoinHandle<'_, _>| {
                worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            workers.into_iter().flat_map(join).collect()
        });
        chunks.sort_by_key(|chunk| chunk.stop);
        chunks
    }

    /// A length for which all threads finish at about the same time, and the chunks in memory are a small part of the text.
    fn chunk_len(&self, len: usize) -> usize {
        (len / MIN_CHUNKS.max(4 * self.options.threads)).clamp(self.sizes.head, self.sizes.chunk)
    }

    /// Parses the chunk in the window.
    fn parse_chunk(&self, file: &InputFile<'_>, window: &Window<'_>, guess: Checkpoint, stop: usize) -> Chunk<S> {
        let mut sink = (self.make_sink)();
        let mut findings = Findings::new(self.options.error_limit);
        let mut counter = RecordCounter::new(self.options.limits);
        let mut end = guess.clone();
        let (mut scanner, scanner_stop) = window.scanner(guess.position, stop);
        let state = &mut end.state;
        let mut parser = RecordParser::new(self.options, file.id, &mut sink, &mut findings, state, &mut counter);
        parser.is_in_order = false;
        let include = match parser.parse_entries(&mut scanner, scanner_stop) {
            StopReason::Include(include) => Some(include),
            _ => None,
        };
        let (used_initial_ttl, stated_ttl) = (parser.used_initial_ttl, parser.stated_ttl);
        end.position = window.position(&scanner);
        let records = counter.records();
        sink.end();
        Chunk { guess, stop, end, include, used_initial_ttl, stated_ttl, records, sink, findings }
    }
}

impl<S> Chunk<S> {
    /// Whether the guess agrees with the known checkpoint, apart from the owner: a chunk starts with a line that states one.
    pub fn is_valid_after(&self, known: &Checkpoint) -> bool {
        let (guess, truth) = (&self.guess.state, &known.state);
        self.guess.position == known.position
            && guess.origin.wire() == truth.origin.wire()
            && guess.default_ttl == truth.default_ttl
            && (guess.last_ttl == truth.last_ttl || !self.used_initial_ttl)
    }
}

/// Splits a file into chunks and guesses the state at the start of each from lines that look like `$ORIGIN` and `$TTL`,
/// even those in quotes or parentheses.
struct ChunkSplitter {
    /// The start of the next chunk; `None` at the end, and where the rest must be parsed in order.
    next: Option<Checkpoint>,
    chunk_len: usize,
    sizes: ChunkSizes,
}

impl ChunkSplitter {
    fn new(known: &Checkpoint, start: usize, chunk_len: usize, sizes: ChunkSizes) -> ChunkSplitter {
        let position = LineStart { at: start, line: known.position.line };
        ChunkSplitter { next: Some(Checkpoint { position, state: known.state.clone() }), chunk_len, sizes }
    }

    /// Loads the next chunk, and what its last entry may need; returns the checkpoint at its start and its end.
    fn next(&mut self, window: &mut Window<'_>) -> Option<(Checkpoint, usize)> {
        let guess = self.next.take()?;
        let start = guess.position.at;
        let stop = self.load(window, start)?;
        let state = guess_state(guess.state.clone(), window.octets_to(stop));
        let line = guess.position.line + count_lines(window.octets_to(stop));
        let is_end = window.is_last() && stop == window.end();
        self.next = (!is_end).then_some(Checkpoint { position: LineStart { at: stop, line }, state });
        Some((guess, stop))
    }

    /// Loads a chunk and returns its end; `None` if there is no line to split at, or on a read error, which parsing in order
    /// meets again and reports.
    fn load(&self, window: &mut Window<'_>, start: usize) -> Option<usize> {
        let len = self.chunk_len.saturating_add(self.sizes.head);
        for len in [len, self.sizes.max_entry] {
            window.load(start, len).ok()?;
            let stop = window.owner_line(start.saturating_add(self.chunk_len));
            if stop.is_some() || window.is_last() {
                return stop.or(Some(window.end()));
            }
        }
        None
    }
}

/// The state after a chunk, if all lines in it that look like directives are.
fn guess_state(mut state: ParserState, chunk: &[u8]) -> ParserState {
    for newline in memmem::find_iter(chunk, b"\n$") {
        let line = &chunk[newline + 1..];
        guess_directive(&mut state, &line[..memchr(b'\n', line).unwrap_or(line.len())]);
    }
    state
}

fn guess_directive(state: &mut ParserState, line: &[u8]) {
    let mut fields = Vec::new();
    let scanned = Scanner::new(line, LineStart { at: 0, line: 1 }).entry(&mut fields);
    let (Ok(()), Some((name, arguments))) = (scanned, fields.split_first()) else { return };
    if name.text.eq_ignore_ascii_case(b"$ORIGIN") {
        state.origin = origin(name, arguments, state.origin.as_ref()).unwrap_or_else(|_| state.origin.clone());
    } else if name.text.eq_ignore_ascii_case(b"$TTL") {
        let seconds = arguments.first().and_then(|field| ttl::parse(field.text).ok());
        state.default_ttl = seconds.or(state.default_ttl);
    }
}
