//! Zone text: the master format of RFC 1035 section 5 with the extensions in use, in and out.
//!
//! [`parse`] reads text into a [`RecordSink`], on several threads where the text is big. [`mod@print`] writes it: tests and fuzzers
//! make zones with it, and the parser must read back what it has written.

mod chunk;
mod directive;
mod error;
mod file;
mod generate;
mod limits;
mod name;
pub mod print;
pub mod rdata;
mod record;
mod scan;
mod suggest;
#[cfg(test)]
mod tests;
mod ttl;
mod window;

use std::io;
use std::sync::Arc;

use wire::{NameRef, Rtype};

use crate::{CheckMode, FilePosition, Finding};

/// A zone file.
#[derive(Clone, Debug)]
pub struct Source<'a, T: ?Sized = [u8]> {
    /// As the user named the file.
    pub name: Arc<str>,
    /// Its text.
    pub bytes: &'a T,
}

/// Text in memory or in a file, read in parts by several threads.
pub trait ReadAt: Sync {
    /// The length in octets.
    fn size(&self) -> usize;

    /// Fills `buffer` with the octets from `offset` on; an error if there are fewer.
    fn read_at(&self, offset: usize, buffer: &mut [u8]) -> io::Result<()>;

    /// An error if the text may have changed since it was opened. Called when all of it was read.
    fn check_unchanged(&self) -> io::Result<()> {
        Ok(())
    }
}

impl ReadAt for [u8] {
    fn size(&self) -> usize {
        self.len()
    }

    fn read_at(&self, offset: usize, buffer: &mut [u8]) -> io::Result<()> {
        let octets = self.get(offset..offset + buffer.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(octets);
        Ok(())
    }
}

impl ReadAt for Vec<u8> {
    fn size(&self) -> usize {
        self.len()
    }

    fn read_at(&self, offset: usize, buffer: &mut [u8]) -> io::Result<()> {
        self.as_slice().read_at(offset, buffer)
    }
}

impl<T: ReadAt + ?Sized> ReadAt for &T {
    fn size(&self) -> usize {
        T::size(self)
    }

    fn read_at(&self, offset: usize, buffer: &mut [u8]) -> io::Result<()> {
        T::read_at(self, offset, buffer)
    }

    fn check_unchanged(&self) -> io::Result<()> {
        T::check_unchanged(self)
    }
}

/// An included file.
pub struct IncludedFile {
    /// Its name, for places and for what it includes in turn.
    pub name: Arc<str>,
    /// The same for the same file under another name: its device and inode.
    pub id: (u64, u64),
    /// Its text.
    pub text: Box<dyn ReadAt>,
}

/// Opens an included file by its path as written, at a place; an error says why it cannot.
pub type OpenFile<'a> = dyn Fn(&str, &FilePosition) -> Result<IncludedFile, ErrorText> + Sync + 'a;

/// Why a file is not included, and what to do about it.
#[derive(Clone, Debug)]
pub struct ErrorText {
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub help: &'static str,
}

/// How large a zone may become; `u64::MAX` is no limit.
#[derive(Clone, Copy, Debug)]
pub struct RecordLimits {
    /// Records, those that are left out included.
    pub records: u64,
    /// Records that are not in the text one by one: those of `$GENERATE`, and those of a file included again. One of more
    /// than [`RecordLimits::UNIT`] octets, in text or on the wire, counts as several.
    pub generated: u64,
}

impl RecordLimits {
    /// The octets that count as one generated record.
    pub const UNIT: usize = 256;
    /// Any number of records, a million generated ones: a network of 20 bits with one for each address.
    pub const DEFAULT: RecordLimits = RecordLimits { records: u64::MAX, generated: 1_000_000 };
}

/// How to read zone text.
#[derive(Clone, Copy)]
pub struct ParseOptions<'a> {
    /// The name of the zone: the initial `$ORIGIN`. Records of owners elsewhere are reported and not delivered.
    pub apex: NameRef<'a>,
    /// How many threads a big file may have.
    pub threads: usize,
    /// Opens the file that an `$INCLUDE` names.
    pub include: &'a OpenFile<'a>,
    /// Called with the number of octets just read of any of the files, by several threads.
    pub progress: &'a (dyn Fn(u64) + Sync),
    /// How many errors are listed, and how many warnings; of further ones only the number is told.
    pub error_limit: usize,
    /// Whether odd records fail the zone.
    pub check_mode: CheckMode,
    /// A zone that would become larger is refused.
    pub limits: RecordLimits,
}

impl<'a> ParseOptions<'a> {
    /// One thread, no included files, no progress, 100 errors, lenient, the default limits.
    pub fn new(apex: NameRef<'a>) -> ParseOptions<'a> {
        ParseOptions {
            apex,
            threads: 1,
            include: &|_, _| Err(ErrorText { message: "files are not included here".into(), help: "" }),
            progress: &|_| (),
            error_limit: 100,
            check_mode: CheckMode::Lenient,
            limits: RecordLimits::DEFAULT,
        }
    }
}

/// What came of a zone file.
#[derive(Debug)]
pub struct Parsed<S> {
    /// The sinks in the order of the file: one, or several if the file was big.
    pub sinks: Vec<S>,
    /// The files by the number that records carry: the zone file, then included ones.
    pub files: Vec<Arc<str>>,
    /// What was found, in the order of the file.
    pub findings: Vec<Finding>,
}

/// Reads a zone file; goes on behind a mistake, so that all are found in one run.
///
/// A big file is cut into chunks that are read on [`ParseOptions::threads`] threads, each into a sink of its own. Records and
/// findings are those of one pass from top to bottom. A few megabytes of the text for each thread are in memory at a time.
pub fn parse<S: RecordSink + Send, T: ReadAt + ?Sized>(
    source: Source<'_, T>,
    options: &ParseOptions<'_>,
    make_sink: impl Fn() -> S + Sync,
) -> Parsed<S> {
    file::parse(source, options, &make_sink, chunk::ChunkSizes::DEFAULT)
}

/// One field of an entry as it stands in the text: raw bytes with escapes intact, without enclosing quotes.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    /// The bytes of the field; inside quotes everything up to the closing quote.
    ///
    /// In an SVCB or HTTPS record a value in quotes stays with its key, quotes included: `alpn="h2,h3"` (RFC 9460 2.1).
    pub text: &'a [u8],
    /// Whether it stood in double quotes.
    pub quoted: bool,
    /// Line, from 1.
    pub line: u32,
    /// Column in octets, from 1.
    pub column: u32,
}

/// A record read from zone text. The class is always IN: others are refused by the parser.
#[derive(Clone, Copy, Debug)]
pub struct ZoneRecord<'a> {
    /// The owner, absolute, in the case of the file.
    pub owner: NameRef<'a>,
    /// The type.
    pub rtype: Rtype,
    /// The TTL in seconds.
    pub ttl: u32,
    /// The RDATA in uncompressed wire form, checked.
    pub rdata: &'a [u8],
    /// The number of the file, in order of appearance: 0 is the zone file itself, others are included ones.
    pub file: u16,
    /// The line where the record starts, from 1.
    pub line: u32,
}

/// Takes the records of a zone in the order of the file. Implemented by the builder, by printers and by tests.
pub trait RecordSink {
    /// One record.
    fn record(&mut self, record: ZoneRecord<'_>);
}
