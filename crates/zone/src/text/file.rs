//! A zone file read from top to bottom, with the files it includes (RFC 1035 5.1).
//!
//! A big file is cut at lines that state an owner, and the chunks are read at the same time, each from a guess of what the
//! text before it means ([`State`]). A chunk whose guess turns out wrong is read again from the truth.

use std::sync::Arc;

use super::chunk::{Chunk, Plan, Setup};
use super::directive::Include;
use super::fault::{Fault, Findings};
use super::reader::{File, Reader, State};
use super::scan::{Position, Scanner, owner_line};
use super::{Options, Parsed, Sink, Source};
use crate::Place;

/// How deep files may include files.
const MAX_DEPTH: usize = 16;

/// Reads a zone file.
pub(super) fn parse<S: Sink + Send>(
    source: Source<'_>,
    options: &Options<'_>,
    make_sink: &(impl Fn() -> S + Sync),
    plan: Plan,
) -> Parsed<S> {
    let mut driver = Driver {
        setup: Setup { options, make_sink, plan },
        files: vec![source.name.clone()],
        findings: Findings::new(options.error_limit),
        sinks: Vec::new(),
        sink: None,
    };
    let text = Text { name: &source.name, number: 0, bytes: source.bytes, parent: None };
    let mut progress = Progress { position: text.start(), state: State::new(options.apex) };
    driver.text(&text, &mut progress);
    driver.sinks.extend(driver.sink);
    let diagnostics = driver.findings.finish(&source.name);
    Parsed { sinks: driver.sinks, files: driver.files, diagnostics }
}

/// A file and those that include it.
pub(super) struct Text<'a> {
    name: &'a Arc<str>,
    number: u16,
    pub bytes: &'a [u8],
    parent: Option<&'a Text<'a>>,
}

/// How far a file is read, and what that means for the rest.
#[derive(Clone)]
pub(super) struct Progress {
    pub position: Position,
    pub state: State,
}

/// What reading a zone file gathers.
struct Driver<'a, S, M> {
    setup: Setup<'a, M>,
    files: Vec<Arc<str>>,
    findings: Findings,
    /// Full, in the order of the file.
    sinks: Vec<S>,
    /// The one that takes what is read in order.
    sink: Option<S>,
}

impl<'a> Text<'a> {
    /// For the reader.
    pub fn file(&self) -> File<'a> {
        File { name: self.name, number: self.number }
    }

    /// The start, behind a byte order mark.
    fn start(&self) -> Position {
        let at = if self.bytes.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        Position { at, line: 1 }
    }

    /// Tells how much of the zone file is done.
    pub fn report(&self, options: &Options<'_>, done: usize) {
        if self.parent.is_none() {
            (options.progress)(done as u64);
        }
    }

    /// This file and those that include it, from the inside out.
    fn nest(&self) -> impl Iterator<Item = &Text<'a>> {
        std::iter::successors(Some(self), |text| text.parent)
    }
}

impl<S: Sink + Send, M: Fn() -> S + Sync> Driver<'_, S, M> {
    /// Reads a file from where `progress` stands to its end.
    fn text(&mut self, text: &Text<'_>, progress: &mut Progress) {
        let len = text.bytes.len();
        if self.setup.options.threads > 1 && len >= self.setup.plan.big {
            let head = owner_line(text.bytes, self.setup.plan.head);
            self.read(text, progress, head);
            for chunk in self.setup.guessed(text, progress, head) {
                self.accept(text, progress, chunk);
            }
        }
        while progress.position.at < len {
            self.read(text, progress, len.min(progress.position.at.saturating_add(self.setup.plan.chunk)));
            text.report(self.setup.options, progress.position.at);
        }
    }

    /// Reads the entries that start before `stop`, in order.
    fn read(&mut self, text: &Text<'_>, progress: &mut Progress, stop: usize) {
        while progress.position.at < stop {
            let sink = self.sink.get_or_insert_with(self.setup.make_sink);
            let mut scanner = Scanner::new(text.bytes, progress.position);
            let (options, state) = (self.setup.options, &mut progress.state);
            let include = Reader::new(options, text.file(), sink, &mut self.findings, state).run(&mut scanner, stop);
            progress.position = scanner.position();
            if let Some(include) = include {
                self.include(text, &mut progress.state, include);
            }
        }
    }

    //----------- included files -----------------------------------------------

    /// Reads an included file.
    ///
    /// RFC 1035 5.1: it does not change the origin of the file that includes it; neither does it the owner. A `$TTL` in
    /// it holds on, as in BIND.
    fn include(&mut self, parent: &Text<'_>, state: &mut State, include: Box<Include>) {
        let (name, bytes) = match self.included_file(parent, &include) {
            Ok(file) => file,
            Err(fault) => return self.findings.add(parent.name, *fault),
        };
        let number = self.files.len() as u16;
        self.files.push(name.clone());
        let text = Text { name: &name, number, bytes: &bytes, parent: Some(parent) };
        let mut progress = Progress { position: text.start(), state: state.clone() };
        progress.state.origin = include.origin.unwrap_or_else(|| state.origin.clone());
        self.text(&text, &mut progress);
        state.default_ttl = progress.state.default_ttl;
        state.last_ttl = progress.state.last_ttl;
    }

    fn included_file(&self, parent: &Text<'_>, include: &Include) -> Result<(Arc<str>, Vec<u8>), Box<Fault>> {
        let path = &include.path;
        let fault = |message: String, help| Err(Fault::new(include.spot, message, help));
        if parent.nest().count() > MAX_DEPTH {
            return fault(format!("{path} is not included: files include files {MAX_DEPTH} deep"), "nest them less");
        }
        if self.files.len() > usize::from(u16::MAX) {
            return fault(format!("{path} is not included: there are 65535 included files already"), "join some");
        }
        let place = Place { file: parent.name.clone(), line: include.spot.line, column: include.spot.column };
        let (name, bytes) = match (self.setup.options.include)(path, &place) {
            Ok(file) => file,
            Err(reason) => return fault(format!("{path} is not included: {reason}"), "mend the path or the file"),
        };
        // Whatever the paths are: a file with the same text as one it is included by would include itself for ever.
        match parent.nest().find(|text| text.bytes == bytes) {
            Some(text) => {
                fault(format!("{path} is not included: it is {}, which includes it", text.name), "break the cycle")
            }
            None => Ok((name, bytes)),
        }
    }

    //----------- chunks -------------------------------------------------------

    /// Takes a chunk if its guess is what is known now; otherwise reads it again.
    fn accept(&mut self, text: &Text<'_>, known: &mut Progress, chunk: Chunk<S>) {
        let stop = chunk.stop;
        if chunk.is_right(known) {
            self.sinks.extend(self.sink.take());
            self.sinks.push(chunk.sink);
            self.findings.append(chunk.findings);
            let last_ttl = if chunk.stated_ttl { chunk.end.state.last_ttl } else { known.state.last_ttl };
            *known = chunk.end;
            known.state.last_ttl = last_ttl;
            if let Some(include) = chunk.include {
                self.include(text, &mut known.state, include);
            }
        }
        self.read(text, known, stop);
    }
}
