//! Zone text: parses and prints the master file format of RFC 1035 section 5 with its common extensions.
//!
//! [`parse`] parses text into a [`RecordSink`], big files on several threads: `file` and `chunk` read files, `scan` splits
//! text into entries and fields, `entry` tells records from directives, `record`, `directive` and `generate` parse them,
//! and `rdata` parses and prints RDATA. [`mod@print`] prints records; tests and fuzzers use it.

mod chunk;
mod directive;
mod entry;
mod error;
mod file;
mod generate;
mod limits;
mod name;
pub mod print;
pub mod rdata;
mod record;
mod scan;
mod source;
#[cfg(test)]
mod tests;
mod ttl;
mod window;

use std::sync::Arc;

use wire::{NameRef, Rtype};

use crate::{CheckMode, Finding};
pub use limits::RecordLimits;
pub use source::{ErrorText, IncludedFile, OpenFile, ReadAt, Source};

/// How to parse zone text.
#[derive(Clone, Copy)]
pub struct ParseOptions<'a> {
    /// The name of the zone: the initial `$ORIGIN`. Records with owners elsewhere are reported and not delivered.
    pub apex: NameRef<'a>,
    /// The number of threads for a big file.
    pub threads: usize,
    /// Opens the file of an `$INCLUDE`.
    pub include: &'a OpenFile<'a>,
    /// Called with the number of octets just read of any of the files, by several threads.
    pub progress: &'a (dyn Fn(u64) + Sync),
    /// The maximum number of errors listed, and of warnings; further ones are counted.
    pub error_limit: usize,
    /// Whether records that violate their RFC fail the zone.
    pub check_mode: CheckMode,
    /// A zone with more records fails.
    pub limits: RecordLimits,
}

impl<'a> ParseOptions<'a> {
    /// One thread, no included files, no progress, 100 errors, lenient, the default limits.
    pub fn new(apex: NameRef<'a>) -> ParseOptions<'a> {
        ParseOptions {
            apex,
            threads: 1,
            include: &|_, _| Err(ErrorText { message: "files cannot be included here".into(), help: "" }),
            progress: &|_| (),
            error_limit: 100,
            check_mode: CheckMode::Lenient,
            limits: RecordLimits::DEFAULT,
        }
    }
}

/// A parsed zone file.
#[derive(Debug)]
pub struct Parsed<S> {
    /// The sinks in the order of the text: one, or several if the file is big.
    pub sinks: Vec<S>,
    /// File names, by the number in [`ZoneRecord::file`]: the zone file, then included files.
    pub files: Vec<Arc<str>>,
    /// Errors and warnings, in the order of the text.
    pub findings: Vec<Finding>,
}

/// Parses a zone file; continues after an error, so that all are found in one run.
///
/// A big file is split into chunks that are parsed on [`ParseOptions::threads`] threads, each into its own sink. Records and
/// findings are those of one pass from top to bottom. A few megabytes of the text for each thread are in memory at a time.
pub fn parse<S: RecordSink + Send, T: ReadAt + ?Sized>(
    source: Source<'_, T>,
    options: &ParseOptions<'_>,
    make_sink: impl Fn() -> S + Sync,
) -> Parsed<S> {
    file::parse(source, options, &make_sink, chunk::ChunkSizes::DEFAULT)
}

/// A field of an entry: raw octets, with escapes, without enclosing quotes.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    /// The octets.
    ///
    /// In an SVCB or HTTPS record a quoted value stays with its key, including the quotes: `alpn="h2,h3"` (RFC 9460 2.1).
    pub text: &'a [u8],
    /// Whether it was in double quotes.
    pub quoted: bool,
    /// The line, from 1.
    pub line: u32,
    /// The column in octets, from 1.
    pub column: u32,
}

/// A record of class IN: the parser rejects other classes.
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
    /// The number of its file: an index of [`Parsed::files`].
    pub file: u16,
    /// The line where it starts, from 1.
    pub line: u32,
}

/// Receives the records of a zone in the order of the text.
pub trait RecordSink {
    /// Receives a record.
    fn record(&mut self, record: ZoneRecord<'_>);

    /// The chunk of a big file that this sink received is complete. Called by the thread that parsed it.
    fn end(&mut self) {}
}
