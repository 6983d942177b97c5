//! A big file read in chunks on several threads, each from a guess of what the text before it means. For `file` only.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, ScopedJoinHandle};

use memchr::{memchr, memmem};

use super::directive::{Include, origin};
use super::file::{Checkpoint, InputFile};
use super::limits::RecordCounter;
use super::record::{ParserState, RecordParser, StopReason};
use super::scan::{LineStart, Scanner, count_lines};
use super::window::Window;
use super::{ParseOptions, RecordSink, ttl};
use crate::finding::Findings;

/// How a file is cut; in octets.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChunkSizes {
    /// Smaller files are read in one go.
    pub big: usize,
    /// Read before the rest is cut, as it most likely has the directives that hold for all of it; also the smallest chunk,
    /// and what is read behind a chunk for an entry that goes on there.
    pub head: usize,
    /// The largest chunk.
    pub chunk: usize,
    /// The longest entry, and the most text that a thread holds. RDATA takes 320 KiB at most, comments in it left out: a
    /// blank and `\DDD` for each octet.
    pub longest: usize,
}

impl ChunkSizes {
    pub const DEFAULT: ChunkSizes = ChunkSizes { big: 1 << 20, head: 64 << 10, chunk: 4 << 20, longest: 8 << 20 };

    /// How much is held of a text that is read in order.
    pub fn window_len(&self) -> usize {
        self.chunk.saturating_add(self.head)
    }
}

/// A part of a file that was read from a guess.
pub(super) struct Chunk<S> {
    guess: Checkpoint,
    /// Entries that start before this offset were read.
    pub stop: usize,
    /// Where it ended.
    pub end: Checkpoint,
    /// The `$INCLUDE` at the end, if it ended there.
    pub include: Option<Box<Include>>,
    relied_on_last_ttl: bool,
    /// Whether it has a last TTL of its own to pass on.
    pub stated_ttl: bool,
    /// How many records there are in it.
    pub records: u64,
    pub sink: S,
    pub findings: Findings,
}

/// How to read, for all threads.
pub(super) struct ChunkParser<'a, M> {
    pub options: &'a ParseOptions<'a>,
    pub make_sink: &'a M,
    pub plan: ChunkSizes,
}

impl<S: RecordSink + Send, M: Fn() -> S + Sync> ChunkParser<'_, M> {
    /// Reads the chunks of a file behind `from` on all threads; `known` is what is known before it.
    pub fn guessed(&self, text: &InputFile<'_>, known: &Checkpoint, from: usize) -> Vec<Chunk<S>> {
        let cutter = Mutex::new(ChunkSplitter::new(known, from, self.chunk_len(text.source.size()), self.plan));
        let records = AtomicU64::new(0);
        let work = || {
            let mut chunks = Vec::new();
            let mut window = Window::new(text.source, self.options.progress, self.plan.longest);
            while records.load(Relaxed) <= self.options.limits.records {
                let next = cutter.lock().unwrap_or_else(PoisonError::into_inner).next(&mut window);
                let Some((guess, stop)) = next else { break };
                let chunk = self.guess(text, &window, guess, stop);
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

    /// Small enough that all threads end at about the same time.
    fn chunk_len(&self, len: usize) -> usize {
        (len / (4 * self.options.threads)).clamp(self.plan.head, self.plan.chunk)
    }

    /// Reads a chunk, which the window holds, from a guess.
    fn guess(&self, text: &InputFile<'_>, window: &Window<'_>, guess: Checkpoint, stop: usize) -> Chunk<S> {
        let mut sink = (self.make_sink)();
        let mut findings = Findings::new(self.options.error_limit);
        let mut budget = RecordCounter::new(self.options.limits);
        let mut end = guess.clone();
        let (mut scanner, scanner_stop) = window.scanner(guess.position, stop);
        let state = &mut end.state;
        let mut reader = RecordParser::new(self.options, text.file(), &mut sink, &mut findings, state, &mut budget);
        reader.is_in_order = false;
        let include = match reader.run(&mut scanner, scanner_stop) {
            StopReason::Include(include) => Some(include),
            _ => None,
        };
        let (relied_on_last_ttl, stated_ttl) = (reader.relied_on_last_ttl, reader.stated_ttl);
        end.position = window.position(&scanner);
        let records = budget.records();
        Chunk { guess, stop, end, include, relied_on_last_ttl, stated_ttl, records, sink, findings }
    }
}

impl<S> Chunk<S> {
    /// Whether it was read from what is known to be true. Its first line states an owner, so that the last one has no say.
    pub fn is_right(&self, known: &Checkpoint) -> bool {
        let (guess, truth) = (&self.guess.state, &known.state);
        self.guess.position == known.position
            && guess.origin.wire() == truth.origin.wire()
            && guess.default_ttl == truth.default_ttl
            && (guess.last_ttl == truth.last_ttl || !self.relied_on_last_ttl)
    }
}

/// Cuts a file into chunks and guesses what the text before each of them means: what `$ORIGIN` and `$TTL` lines say, be they
/// in quotes or parentheses or not.
struct ChunkSplitter {
    /// `None` at the end, and where the rest has to be read in order.
    next: Option<Checkpoint>,
    chunk_len: usize,
    plan: ChunkSizes,
}

impl ChunkSplitter {
    fn new(known: &Checkpoint, from: usize, chunk_len: usize, plan: ChunkSizes) -> ChunkSplitter {
        let position = LineStart { at: from, line: known.position.line };
        ChunkSplitter { next: Some(Checkpoint { position, state: known.state.clone() }), chunk_len, plan }
    }

    /// Reads the next chunk, and what is behind it as far as an entry may go on there; its guess and its end.
    fn next(&mut self, window: &mut Window<'_>) -> Option<(Checkpoint, usize)> {
        let guess = self.next.take()?;
        let start = guess.position.at;
        let stop = self.load(window, start)?;
        let state = guessed_state(guess.state.clone(), window.octets_to(stop));
        let line = guess.position.line + count_lines(window.octets_to(stop));
        let is_end = window.is_last() && stop == window.end();
        self.next = (!is_end).then_some(Checkpoint { position: LineStart { at: stop, line }, state });
        Some((guess, stop))
    }

    /// Loads a chunk; its end, unless it has none or cannot be read: reading in order will show.
    fn load(&self, window: &mut Window<'_>, start: usize) -> Option<usize> {
        let len = self.chunk_len.saturating_add(self.plan.head);
        for len in [len, self.plan.longest] {
            window.load(start, len).ok()?;
            let stop = window.owner_line(start.saturating_add(self.chunk_len));
            if stop.is_some() || window.is_last() {
                return stop.or(Some(window.end()));
            }
        }
        None
    }
}

/// What the text of a chunk means for what follows it, if all its directives are what they seem to be.
fn guessed_state(mut state: ParserState, chunk: &[u8]) -> ParserState {
    for newline in memmem::find_iter(chunk, b"\n$") {
        let line = &chunk[newline + 1..];
        obey(&mut state, &line[..memchr(b'\n', line).unwrap_or(line.len())]);
    }
    state
}

/// Obeys the directive in a line, if it can be.
fn obey(state: &mut ParserState, line: &[u8]) {
    let mut fields = Vec::new();
    let read = Scanner::new(line, LineStart { at: 0, line: 1 }).entry(&mut fields);
    let (Ok(()), Some((name, arguments))) = (read, fields.split_first()) else { return };
    if name.text.eq_ignore_ascii_case(b"$ORIGIN") {
        state.origin = origin(name, arguments, state.origin.as_ref()).unwrap_or_else(|_| state.origin.clone());
    } else if name.text.eq_ignore_ascii_case(b"$TTL") {
        let seconds = arguments.first().and_then(|field| ttl::parse(field.text).ok());
        state.default_ttl = seconds.or(state.default_ttl);
    }
}
