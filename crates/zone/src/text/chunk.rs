//! A big file read in chunks on several threads, each from a guess of what the text before it means. For `file` only.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, ScopedJoinHandle};

use memchr::{memchr, memmem};

use super::directive::{Include, origin};
use super::fault::Findings;
use super::file::{Progress, Text};
use super::reader::Reader;
use super::scan::{Position, Scanner, count_lines, owner_line};
use super::{Options, Sink, ttl};

/// How a file is cut; in octets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// Smaller files are read in one go.
    pub big: usize,
    /// Read before the rest is cut, as it most likely has the directives that hold for all of it; also the smallest chunk.
    pub head: usize,
    /// The largest chunk.
    pub chunk: usize,
}

impl Plan {
    pub const DEFAULT: Plan = Plan { big: 1 << 20, head: 64 << 10, chunk: 4 << 20 };
}

/// A part of a file that was read from a guess.
pub(super) struct Chunk<S> {
    guess: Progress,
    /// Entries that start before this offset were read.
    pub stop: usize,
    /// Where it ended.
    pub end: Progress,
    /// The `$INCLUDE` at the end, if it ended there.
    pub include: Option<Box<Include>>,
    relied_on_last_ttl: bool,
    /// Whether it has a last TTL of its own to pass on.
    pub stated_ttl: bool,
    pub sink: S,
    pub findings: Findings,
}

/// How to read, for all threads.
pub(super) struct Setup<'a, M> {
    pub options: &'a Options<'a>,
    pub make_sink: &'a M,
    pub plan: Plan,
}

impl<S: Sink + Send, M: Fn() -> S + Sync> Setup<'_, M> {
    /// Reads the chunks of a file behind `from` on all threads; `known` is what is known before it.
    pub fn guessed(&self, text: &Text<'_>, known: &Progress, from: usize) -> Vec<Chunk<S>> {
        let cutter = Mutex::new(Cutter::new(text.bytes, known, from, self.chunk_len(text.bytes.len())));
        let done = AtomicUsize::new(from);
        let work = || {
            let mut chunks = Vec::new();
            loop {
                let next = cutter.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some((guess, stop)) = next else { return chunks };
                let len = stop - guess.position.at;
                chunks.push(self.guess(text, guess, stop));
                text.report(self.options, done.fetch_add(len, Relaxed) + len);
            }
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

    /// Reads a chunk from a guess.
    fn guess(&self, text: &Text<'_>, guess: Progress, stop: usize) -> Chunk<S> {
        let mut sink = (self.make_sink)();
        let mut findings = Findings::new(self.options.error_limit);
        let mut end = guess.clone();
        let mut scanner = Scanner::new(text.bytes, guess.position);
        let mut reader = Reader::new(self.options, text.file(), &mut sink, &mut findings, &mut end.state);
        let include = reader.run(&mut scanner, stop);
        let (relied_on_last_ttl, stated_ttl) = (reader.relied_on_last_ttl, reader.stated_ttl);
        end.position = scanner.position();
        Chunk { guess, stop, end, include, relied_on_last_ttl, stated_ttl, sink, findings }
    }
}

impl<S> Chunk<S> {
    /// Whether it was read from what is known to be true. Its first line states an owner, so that the last one has no say.
    pub fn is_right(&self, known: &Progress) -> bool {
        let (guess, truth) = (&self.guess.state, &known.state);
        self.guess.position == known.position
            && guess.origin.wire() == truth.origin.wire()
            && guess.default_ttl == truth.default_ttl
            && (guess.last_ttl == truth.last_ttl || !self.relied_on_last_ttl)
    }
}

/// Cuts a file into chunks and guesses what the text before each of them means: what `$ORIGIN` and `$TTL` lines say, be they
/// in quotes or parentheses or not.
struct Cutter<'a> {
    text: &'a [u8],
    next: Progress,
    chunk_len: usize,
}

impl<'a> Cutter<'a> {
    fn new(text: &'a [u8], known: &Progress, from: usize, chunk_len: usize) -> Cutter<'a> {
        let mut next = known.clone();
        let skipped = text.get(known.position.at..from).map_or(0, count_lines);
        next.position = Position { at: from, line: known.position.line + skipped };
        Cutter { text, next, chunk_len }
    }

    /// Moves the guess behind the next chunk, which ends at `stop`.
    fn skip(&mut self, stop: usize) {
        let chunk = &self.text[self.next.position.at..stop];
        for newline in memmem::find_iter(chunk, b"\n$") {
            let line = &chunk[newline + 1..];
            self.obey(&line[..memchr(b'\n', line).unwrap_or(line.len())]);
        }
        self.next.position = Position { at: stop, line: self.next.position.line + count_lines(chunk) };
    }

    /// Obeys the directive in a line, if it can be.
    fn obey(&mut self, line: &[u8]) {
        let mut fields = Vec::new();
        let read = Scanner::new(line, Position { at: 0, line: 1 }).entry(&mut fields);
        let (Ok(()), Some((name, arguments))) = (read, fields.split_first()) else { return };
        let state = &mut self.next.state;
        if name.text.eq_ignore_ascii_case(b"$ORIGIN") {
            state.origin = origin(name, arguments, state.origin.as_ref()).unwrap_or_else(|_| state.origin.clone());
        } else if name.text.eq_ignore_ascii_case(b"$TTL") {
            let seconds = arguments.first().and_then(|field| ttl::parse(field.text).ok());
            state.default_ttl = seconds.or(state.default_ttl);
        }
    }
}

impl Iterator for Cutter<'_> {
    type Item = (Progress, usize);

    fn next(&mut self) -> Option<(Progress, usize)> {
        let start = self.next.position.at;
        if start >= self.text.len() {
            return None;
        }
        let guess = self.next.clone();
        let stop = owner_line(self.text, start.saturating_add(self.chunk_len));
        self.skip(stop);
        Some((guess, stop))
    }
}
