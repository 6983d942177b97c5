//! The part of a text that is in memory.

use std::io;

use super::ReadAt;
use super::scan::{LineStart, Scanner, owner_line};

/// A part of a text, from the start of a line on. Offsets are those of the whole text.
///
/// No window is longer than the maximum entry, so that whether an entry is too long does not depend on the chunks.
pub(super) struct Window<'t> {
    text: &'t dyn ReadAt,
    /// Called with the number of octets just read.
    progress: &'t (dyn Fn(u64) + Sync),
    max_entry: usize,
    start: usize,
    octets: Vec<u8>,
}

impl<'t> Window<'t> {
    /// An empty window.
    pub fn new(text: &'t dyn ReadAt, progress: &'t (dyn Fn(u64) + Sync), max_entry: usize) -> Window<'t> {
        Window { text, progress, max_entry, start: 0, octets: Vec::new() }
    }

    /// Moves to `start` and reads up to `len` octets, at most the maximum entry.
    pub fn load(&mut self, start: usize, len: usize) -> io::Result<()> {
        self.start = start;
        self.octets.resize(len.min(self.max_entry).min(self.text.size() - start), 0);
        self.text.read_at(start, &mut self.octets).inspect_err(|_| self.octets.clear())?;
        (self.progress)(self.octets.len() as u64);
        Ok(())
    }

    /// Moves to `at` unless the window contains it.
    pub fn reach(&mut self, at: usize, len: usize) -> io::Result<()> {
        if (self.start..self.end()).contains(&at) { Ok(()) } else { self.load(at, len) }
    }

    /// Moves to `at`, the start of an entry that continues after the window.
    pub fn extend(&mut self, at: usize, len: usize) -> io::Result<()> {
        self.load(at, if at == self.start { self.max_entry } else { len })
    }

    pub fn end(&self) -> usize {
        self.start + self.octets.len()
    }

    /// Whether it ends where the text does.
    pub fn is_last(&self) -> bool {
        self.end() == self.text.size()
    }

    pub fn octets(&self) -> &[u8] {
        &self.octets
    }

    /// The octets before `stop`.
    pub fn octets_to(&self, stop: usize) -> &[u8] {
        &self.octets[..stop - self.start]
    }

    /// The first line at or after `from` that states an owner.
    pub fn owner_line(&self, from: usize) -> Option<usize> {
        owner_line(&self.octets, from - self.start).map(|at| self.start + at)
    }

    /// A scanner of the window from a position of the text on, and the offset of `stop` in the scanner's text.
    pub fn scanner(&self, from: LineStart, stop: usize) -> (Scanner<'_>, usize) {
        let from = LineStart { at: from.at - self.start, ..from };
        let max_entry = if self.is_last() { 0 } else { self.max_entry };
        (Scanner::of_part(&self.octets, from, max_entry), stop.min(self.end()) - self.start)
    }

    /// The position in the text of a scanner of the window.
    pub fn position(&self, scanner: &Scanner<'_>) -> LineStart {
        let LineStart { at, line } = scanner.position();
        LineStart { at: self.start + at, line }
    }
}
