//! Zone text: the master format of RFC 1035 section 5 with the extensions in use, in and out.
//!
//! [`parse`] reads text into a [`Sink`], on several threads where the text is big; [`mod@print`] writes it.

mod chunk;
mod directive;
mod fault;
mod file;
mod generate;
mod name;
pub mod print;
pub mod rdata;
mod reader;
mod scan;
mod suggest;
#[cfg(test)]
mod tests;
mod ttl;

use std::sync::Arc;

use wire::{NameRef, Rtype};

use crate::{Checks, Diagnostic, Place};

/// A zone file.
#[derive(Clone, Debug)]
pub struct Source<'a> {
    /// As the user named the file.
    pub name: Arc<str>,
    /// What stands in it.
    pub bytes: &'a [u8],
}

/// Reads an included file by its path as written, at a place: returns its name, from which the places of what it includes
/// are told, and its text; an error says why it cannot be had.
pub type ReadFile<'a> = dyn Fn(&str, &Place) -> Result<(Arc<str>, Vec<u8>), String> + Sync + 'a;

/// How to read zone text.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// The name of the zone: the initial `$ORIGIN`. Records of owners elsewhere are errors and not delivered.
    pub apex: NameRef<'a>,
    /// How many threads a big file may have.
    pub threads: usize,
    /// Reads the file that an `$INCLUDE` names.
    pub include: &'a ReadFile<'a>,
    /// Is told now and then how many octets of the zone file are done; called by several threads.
    pub progress: &'a (dyn Fn(u64) + Sync),
    /// How many errors are listed, and how many warnings; of further ones only the number is told.
    pub error_limit: usize,
    /// Whether odd records fail the zone.
    pub checks: Checks,
}

impl<'a> Options<'a> {
    /// One thread, no included files, no progress, 100 errors, lenient.
    pub fn new(apex: NameRef<'a>) -> Options<'a> {
        Options {
            apex,
            threads: 1,
            include: &|_, _| Err("files are not included here".into()),
            progress: &|_| (),
            error_limit: 100,
            checks: Checks::Lenient,
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
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads a zone file; goes on behind a mistake, so that all are found in one run.
///
/// A big file is cut into chunks that are read on [`Options::threads`] threads, each into a sink of its own. Records and
/// diagnostics are those of one pass from top to bottom.
pub fn parse<S: Sink + Send>(source: Source<'_>, options: &Options<'_>, make_sink: impl Fn() -> S + Sync) -> Parsed<S> {
    file::parse(source, options, &make_sink, chunk::Plan::DEFAULT)
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
pub struct Record<'a> {
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
pub trait Sink {
    /// One record.
    fn record(&mut self, record: Record<'_>);
}
