//! A zone file read from top to bottom, with the files it includes (RFC 1035 5.1).
//!
//! A big file is cut at lines that state an owner, and the chunks are read at the same time, each from a guess of what the
//! text before it means ([`ParserState`]). A chunk whose guess turns out wrong is read again from the truth.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use super::chunk::{Chunk, ChunkParser, ChunkSizes};
use super::directive::Include;
use super::error::{LineColumn, ParseError};
use super::limits::RecordCounter;
use super::record::{FileId, ParserState, RecordParser, StopReason};
use super::scan::LineStart;
use super::window::Window;
use super::{ErrorText, IncludedFile, ParseOptions, Parsed, ReadAt, RecordLimits, RecordSink, Source};
use crate::finding::{FilePosition, Findings, Severity};

/// How deep files may include files.
const MAX_DEPTH: usize = 16;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads a zone file.
pub(super) fn parse<S: RecordSink + Send, T: ReadAt + ?Sized>(
    source: Source<'_, T>,
    options: &ParseOptions<'_>,
    make_sink: &(impl Fn() -> S + Sync),
    plan: ChunkSizes,
) -> Parsed<S> {
    let mut driver = FileParser {
        setup: ChunkParser { options, make_sink, plan },
        files: vec![source.name.clone()],
        included: HashMap::new(),
        findings: Findings::new(options.error_limit),
        budget: RecordCounter::new(options.limits),
        sinks: Vec::new(),
        sink: None,
    };
    let text = InputFile { name: &source.name, number: 0, source: &source.bytes, parent: None };
    driver.text(&text, ParserState::new(options.apex));
    driver.sinks.extend(driver.sink);
    let findings = driver.findings.finish(&source.name);
    Parsed { sinks: driver.sinks, files: driver.files, findings }
}

/// A file and those that include it.
pub(super) struct InputFile<'a> {
    name: &'a Arc<str>,
    number: u16,
    pub source: &'a dyn ReadAt,
    parent: Option<&'a InputFile<'a>>,
}

/// How far a file is read, and what that means for the rest.
#[derive(Clone)]
pub(super) struct Checkpoint {
    pub position: LineStart,
    pub state: ParserState,
}

/// What reading a zone file gathers.
struct FileParser<'a, S, M> {
    setup: ChunkParser<'a, M>,
    /// By number.
    files: Vec<Arc<str>>,
    /// The numbers of included files by what identifies them.
    included: HashMap<(u64, u64), u16>,
    findings: Findings,
    budget: RecordCounter,
    /// Full, in the order of the file.
    sinks: Vec<S>,
    /// The one that takes what is read in order.
    sink: Option<S>,
}

impl<'a> InputFile<'a> {
    /// For the reader.
    pub fn file(&self) -> FileId<'a> {
        FileId { name: self.name, number: self.number }
    }

    /// This file and those that include it, from the inside out.
    fn nest(&self) -> impl Iterator<Item = &InputFile<'a>> {
        std::iter::successors(Some(self), |text| text.parent)
    }
}

impl<S: RecordSink + Send, M: Fn() -> S + Sync> FileParser<'_, S, M> {
    /// Reads a file; returns what it means for what follows it.
    fn text(&mut self, text: &InputFile<'_>, state: ParserState) -> ParserState {
        let ChunkParser { options, plan, .. } = self.setup;
        let mut window = Window::new(text.source, options.progress, plan.longest);
        let mut progress = Checkpoint { position: LineStart { at: 0, line: 1 }, state };
        let read = self.read_all(text, &mut window, &mut progress);
        if let Err(error) = read.and_then(|()| text.source.check_unchanged()) {
            let help = "reload when it is complete; to replace a zone file, rename a new one into its place";
            let fault =
                ParseError::new(LineColumn { line: 0, column: 0 }, format!("the file cannot be read: {error}"), help);
            fault.report(Severity::Error, text.name, &mut self.findings);
        }
        progress.state
    }

    fn read_all(&mut self, text: &InputFile<'_>, window: &mut Window<'_>, progress: &mut Checkpoint) -> io::Result<()> {
        let (size, plan) = (text.source.size(), self.setup.plan);
        window.load(0, plan.window_len())?;
        if window.octets().starts_with(BYTE_ORDER_MARK) {
            progress.position.at = BYTE_ORDER_MARK.len();
        }
        // Records of a file that is included again are counted in order.
        let is_cut = self.setup.options.threads > 1 && size >= plan.big && !self.budget.is_generated;
        if is_cut && let Some(head) = window.owner_line(plan.head) {
            self.read(text, window, progress, head)?;
            for chunk in self.setup.guessed(text, progress, head) {
                self.accept(text, window, progress, chunk)?;
            }
        }
        while progress.position.at < size {
            self.read(text, window, progress, size.min(progress.position.at.saturating_add(plan.chunk)))?;
        }
        Ok(())
    }

    /// Reads the entries that start before `stop`, in order.
    fn read(
        &mut self,
        text: &InputFile<'_>,
        window: &mut Window<'_>,
        progress: &mut Checkpoint,
        stop: usize,
    ) -> io::Result<()> {
        let window_len = self.setup.plan.window_len();
        while progress.position.at < stop {
            window.reach(progress.position.at, window_len)?;
            let sink = self.sink.get_or_insert_with(self.setup.make_sink);
            let (mut scanner, scanner_stop) = window.scanner(progress.position, stop);
            let (options, state) = (self.setup.options, &mut progress.state);
            let stopped = RecordParser::new(options, text.file(), sink, &mut self.findings, state, &mut self.budget)
                .run(&mut scanner, scanner_stop);
            progress.position = window.position(&scanner);
            match stopped {
                StopReason::Done => {}
                StopReason::Include(include) => self.include(text, &mut progress.state, &include),
                StopReason::Before => window.extend(progress.position.at, window_len)?,
                StopReason::TooLong => progress.position.at = text.source.size(),
            }
        }
        Ok(())
    }

    //----------- included files -----------------------------------------------

    /// Reads an included file.
    ///
    /// RFC 1035 5.1: it does not change the origin of the file that includes it; neither does it the owner. A `$TTL` in
    /// it holds on, as in BIND.
    fn include(&mut self, parent: &InputFile<'_>, state: &mut ParserState, include: &Include) {
        let file = match self.open(parent, include) {
            Ok(file) => file,
            Err(ErrorText { message, help }) => {
                let fault = ParseError::new(include.at, format!("{} is not included: {message}", include.path), help);
                return fault.report(Severity::Error, parent.name, &mut self.findings);
            }
        };
        let was_generated = self.budget.is_generated;
        let known = self.included.get(&file.id).copied();
        self.budget.is_generated |= known.is_some();
        let number = known.unwrap_or(self.files.len() as u16);
        if known.is_none() {
            self.files.push(file.name.clone());
            self.included.insert(file.id, number);
        }
        let text = InputFile { name: &file.name, number, source: &*file.text, parent: Some(parent) };
        let mut inner = state.clone();
        inner.origin = include.origin.clone().unwrap_or(inner.origin);
        let end = self.text(&text, inner);
        self.budget.is_generated = was_generated;
        state.default_ttl = end.default_ttl;
        state.last_ttl = end.last_ttl;
    }

    fn open(&mut self, parent: &InputFile<'_>, include: &Include) -> Result<IncludedFile, ErrorText> {
        let refused = |message: String, help| Err(ErrorText { message, help });
        if parent.nest().count() > MAX_DEPTH {
            return refused(format!("files include files {MAX_DEPTH} deep"), "nest them less");
        }
        if self.files.len() > usize::from(u16::MAX) {
            return refused("there are 65535 included files already".into(), "join some");
        }
        let position = FilePosition { file: parent.name.clone(), line: include.at.line, column: include.at.column };
        let file = (self.setup.options.include)(&include.path, &position)?;
        if let Some(number) = self.included.get(&file.id) {
            if let Some(text) = parent.nest().find(|text| text.number == *number) {
                return refused(format!("it is {}, which includes it", text.name), "break the cycle");
            }
            // An empty file counts as well.
            self.budget.text(RecordLimits::UNIT + file.text.size())?;
        }
        Ok(file)
    }

    //----------- chunks -------------------------------------------------------

    /// Takes a chunk if its guess is what is known now; otherwise reads it again.
    fn accept(
        &mut self,
        text: &InputFile<'_>,
        window: &mut Window<'_>,
        known: &mut Checkpoint,
        chunk: Chunk<S>,
    ) -> io::Result<()> {
        let stop = chunk.stop;
        if chunk.is_right(known) && self.budget.add(chunk.records) {
            self.sinks.extend(self.sink.take());
            self.sinks.push(chunk.sink);
            self.findings.append(chunk.findings);
            let last_ttl = if chunk.stated_ttl { chunk.end.state.last_ttl } else { known.state.last_ttl };
            *known = chunk.end;
            known.state.last_ttl = last_ttl;
            if let Some(include) = chunk.include {
                self.include(text, &mut known.state, &include);
            }
        }
        self.read(text, window, known, stop)
    }
}
