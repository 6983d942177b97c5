//! Parses a zone file and the files it includes, in order (RFC 1035 5.1).
//!
//! The chunks of a big file are parsed in parallel by [`super::chunk`], each from a guess of the parser's state at its
//! start. A chunk whose guess was wrong is parsed again here.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use super::chunk::{Chunk, ChunkParser, ChunkSizes};
use super::directive::Include;
use super::entry::StopReason;
use super::error::{LineColumn, ParseError};
use super::limits::RecordCounter;
use super::record::{Checkpoint, ParserState, RecordParser};
use super::scan::LineStart;
use super::source::{FileId, InputFile};
use super::window::Window;
use super::{ErrorText, IncludedFile, ParseOptions, Parsed, ReadAt, RecordLimits, RecordSink, Source};
use crate::finding::{FilePosition, Findings, Severity};

/// The maximum depth of `$INCLUDE`.
const MAX_INCLUDE_DEPTH: usize = 16;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

pub(super) fn parse<S: RecordSink + Send, T: ReadAt + ?Sized>(
    source: Source<'_, T>,
    options: &ParseOptions<'_>,
    make_sink: &(impl Fn() -> S + Sync),
    sizes: ChunkSizes,
) -> Parsed<S> {
    let mut parser = FileParser {
        chunks: ChunkParser { options, make_sink, sizes },
        files: vec![source.name.clone()],
        included: HashMap::new(),
        findings: Findings::new(options.error_limit),
        counter: RecordCounter::new(options.limits),
        sinks: Vec::new(),
        sink: None,
    };
    let file = InputFile { id: FileId { name: &source.name, number: 0 }, text: &source.bytes, parent: None };
    parser.parse_file(&file, ParserState::new(options.apex));
    parser.sinks.extend(parser.sink);
    let findings = parser.findings.finish(&source.name);
    Parsed { sinks: parser.sinks, files: parser.files, findings }
}

struct FileParser<'a, S, M> {
    chunks: ChunkParser<'a, M>,
    /// File names by number.
    files: Vec<Arc<str>>,
    /// The numbers of included files by device and inode.
    included: HashMap<(u64, u64), u16>,
    findings: Findings,
    counter: RecordCounter,
    /// Finished sinks, in the order of the text.
    sinks: Vec<S>,
    /// The sink of entries parsed in order.
    sink: Option<S>,
}

impl<S: RecordSink + Send, M: Fn() -> S + Sync> FileParser<'_, S, M> {
    /// Parses a file; returns the state at its end.
    fn parse_file(&mut self, file: &InputFile<'_>, state: ParserState) -> ParserState {
        let ChunkParser { options, sizes, .. } = self.chunks;
        let mut window = Window::new(file.text, options.progress, sizes.max_entry);
        let mut checkpoint = Checkpoint { position: LineStart { at: 0, line: 1 }, state };
        let read = self.parse_text(file, &mut window, &mut checkpoint);
        if let Err(error) = read.and_then(|()| file.text.check_unchanged()) {
            let help = "reload when it is complete; to replace a zone file, rename the new one over it";
            let at = LineColumn { line: 0, column: 0 };
            let error = ParseError::new(at, format!("the file cannot be read: {error}"), help);
            error.report(Severity::Error, file.id.name, &mut self.findings);
        }
        checkpoint.state
    }

    fn parse_text(
        &mut self,
        file: &InputFile<'_>,
        window: &mut Window<'_>,
        checkpoint: &mut Checkpoint,
    ) -> io::Result<()> {
        let (size, sizes) = (file.text.size(), self.chunks.sizes);
        window.load(0, sizes.window_len())?;
        if window.octets().starts_with(BYTE_ORDER_MARK) {
            checkpoint.position.at = BYTE_ORDER_MARK.len();
        }
        // Records of a file included again are counted in order.
        let is_parallel = self.chunks.options.threads > 1 && size >= sizes.min_parallel && !self.counter.is_generated;
        if is_parallel && let Some(head_end) = window.owner_line(sizes.head) {
            self.parse_in_order(file, window, checkpoint, head_end)?;
            for chunk in self.chunks.parse_chunks(file, checkpoint, head_end) {
                self.accept(file, window, checkpoint, chunk)?;
            }
        }
        while checkpoint.position.at < size {
            let stop = size.min(checkpoint.position.at.saturating_add(sizes.chunk));
            self.parse_in_order(file, window, checkpoint, stop)?;
        }
        Ok(())
    }

    /// Parses the entries that start before `stop`.
    fn parse_in_order(
        &mut self,
        file: &InputFile<'_>,
        window: &mut Window<'_>,
        checkpoint: &mut Checkpoint,
        stop: usize,
    ) -> io::Result<()> {
        let window_len = self.chunks.sizes.window_len();
        while checkpoint.position.at < stop {
            window.reach(checkpoint.position.at, window_len)?;
            let sink = self.sink.get_or_insert_with(self.chunks.make_sink);
            let (mut scanner, scanner_stop) = window.scanner(checkpoint.position, stop);
            let (options, state) = (self.chunks.options, &mut checkpoint.state);
            let mut parser = RecordParser::new(options, file.id, sink, &mut self.findings, state, &mut self.counter);
            let reason = parser.parse_entries(&mut scanner, scanner_stop);
            checkpoint.position = window.position(&scanner);
            match reason {
                StopReason::Done => {}
                StopReason::Include(include) => self.include(file, &mut checkpoint.state, &include),
                StopReason::BeforeEntry => window.extend(checkpoint.position.at, window_len)?,
                StopReason::TooLong => checkpoint.position.at = file.text.size(),
            }
        }
        Ok(())
    }

    /// Takes a chunk if its guessed initial state is right; otherwise parses it again.
    fn accept(
        &mut self,
        file: &InputFile<'_>,
        window: &mut Window<'_>,
        known: &mut Checkpoint,
        chunk: Chunk<S>,
    ) -> io::Result<()> {
        let stop = chunk.stop;
        if chunk.is_valid_after(known) && self.counter.add(chunk.records) {
            self.sinks.extend(self.sink.take());
            self.sinks.push(chunk.sink);
            self.findings.append(chunk.findings);
            let last_ttl = if chunk.stated_ttl { chunk.end.state.last_ttl } else { known.state.last_ttl };
            *known = chunk.end;
            known.state.last_ttl = last_ttl;
            if let Some(include) = chunk.include {
                self.include(file, &mut known.state, &include);
            }
        }
        self.parse_in_order(file, window, known, stop)
    }

    //----------- $INCLUDE -----------------------------------------------------

    /// Parses an included file.
    ///
    /// RFC 1035 5.1: it changes neither the origin nor the owner of the file that includes it. A `$TTL` in it stays in
    /// effect, as in BIND.
    fn include(&mut self, parent: &InputFile<'_>, state: &mut ParserState, include: &Include) {
        let file = match self.open(parent, include) {
            Ok(file) => file,
            Err(ErrorText { message, help }) => {
                let message = format!("{} is not included: {message}", include.path.display());
                let error = ParseError::new(include.at, message, help);
                return error.report(Severity::Error, parent.id.name, &mut self.findings);
            }
        };
        let was_generated = self.counter.is_generated;
        let known = self.included.get(&file.id).copied();
        self.counter.is_generated |= known.is_some();
        let number = known.unwrap_or(self.files.len() as u16);
        if known.is_none() {
            self.files.push(file.name.clone());
            self.included.insert(file.id, number);
        }
        let input = InputFile { id: FileId { name: &file.name, number }, text: &*file.text, parent: Some(parent) };
        let mut inner = state.clone();
        inner.origin = include.origin.clone().unwrap_or(inner.origin);
        let end = self.parse_file(&input, inner);
        self.counter.is_generated = was_generated;
        state.default_ttl = end.default_ttl;
        state.last_ttl = end.last_ttl;
    }

    fn open(&mut self, parent: &InputFile<'_>, include: &Include) -> Result<IncludedFile, ErrorText> {
        let error = |message: String, help| Err(ErrorText { message, help });
        if parent.include_chain().count() > MAX_INCLUDE_DEPTH {
            return error(format!("files are included {MAX_INCLUDE_DEPTH} levels deep"), "nest them less");
        }
        if self.files.len() > usize::from(u16::MAX) {
            return error("65535 files are included already".into(), "join some of them");
        }
        let LineColumn { line, column } = include.at;
        let position = FilePosition { file: parent.id.name.clone(), line, column };
        let file = (self.chunks.options.include)(&include.path, &position)?;
        if let Some(number) = self.included.get(&file.id) {
            if let Some(includer) = parent.include_chain().find(|input| input.id.number == *number) {
                return error(format!("it is {}, which includes it", includer.id.name), "break the cycle");
            }
            // An empty file counts as well.
            self.counter.count_text(RecordLimits::UNIT + file.text.size())?;
        }
        Ok(file)
    }
}
