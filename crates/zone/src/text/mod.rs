//! Zone text: the master format of RFC 1035 section 5 with the extensions in use, in and out.

pub mod rdata;

use wire::{NameRef, Rtype};

/// One field of a record as it stands in the text: raw bytes with escapes intact, without enclosing quotes.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    /// The bytes of the field; inside quotes everything up to the closing quote.
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
