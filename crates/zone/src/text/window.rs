//! The part of a text that is in memory. For the parser only.

use std::io;

use super::ReadAt;
use super::scan::{LineStart, Scanner, owner_line};

/// A part of a text, from the start of a line on.
///
/// Offsets are those of the text. No window is longer than the longest entry: so an entry that is too long shows in all
/// windows alike, however the text is cut.
pub(super) struct Window<'t> {
    text: &'t dyn ReadAt,
    /// Called with the number of octets just read.
    progress: &'t (dyn Fn(u64) + Sync),
    /// The length of the longest entry.
    longest: usize,
    start: usize,
    octets: Vec<u8>,
}

impl<'t> Window<'t> {
    /// Nothing of a text yet.
    pub fn new(text: &'t dyn ReadAt, progress: &'t (dyn Fn(u64) + Sync), longest: usize) -> Window<'t> {
        Window { text, progress, longest, start: 0, octets: Vec::new() }
    }

    /// Moves to `start`; takes `len` octets if there are as many and the longest entry is not shorter.
    pub fn load(&mut self, start: usize, len: usize) -> io::Result<()> {
        self.start = start;
        self.octets.resize(len.min(self.longest).min(self.text.size() - start), 0);
        self.text.read_at(start, &mut self.octets).inspect_err(|_| self.octets.clear())?;
        (self.progress)(self.octets.len() as u64);
        Ok(())
    }

    /// Moves to `at` unless it is within already.
    pub fn reach(&mut self, at: usize, len: usize) -> io::Result<()> {
        if (self.start..self.end()).contains(&at) { Ok(()) } else { self.load(at, len) }
    }

    /// Moves to `at`, the start of an entry that goes on behind the window.
    pub fn extend(&mut self, at: usize, len: usize) -> io::Result<()> {
        self.load(at, if at == self.start { self.longest } else { len })
    }

    /// The end of the text in memory.
    pub fn end(&self) -> usize {
        self.start + self.octets.len()
    }

    /// Whether it ends where the text does.
    pub fn is_last(&self) -> bool {
        self.end() == self.text.size()
    }

    /// The octets of the window.
    pub fn octets(&self) -> &[u8] {
        &self.octets
    }

    /// The octets from the start to `stop`.
    pub fn octets_to(&self, stop: usize) -> &[u8] {
        &self.octets[..stop - self.start]
    }

    /// The first line at or behind `from` that states an owner.
    pub fn owner_line(&self, from: usize) -> Option<usize> {
        owner_line(&self.octets, from - self.start).map(|at| self.start + at)
    }

    /// A scanner of the window from a position of the text on, and the offset in the scanner's text of `stop`.
    pub fn scanner(&self, from: LineStart, stop: usize) -> (Scanner<'_>, usize) {
        let from = LineStart { at: from.at - self.start, ..from };
        let longest = if self.is_last() { 0 } else { self.longest };
        (Scanner::of_part(&self.octets, from, longest), stop.min(self.end()) - self.start)
    }

    /// Where a scanner of the window stands in the text.
    pub fn position(&self, scanner: &Scanner<'_>) -> LineStart {
        let LineStart { at, line } = scanner.position();
        LineStart { at: self.start + at, line }
    }
}
