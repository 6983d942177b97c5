//! Messages as owned structures, for tests, clients and tools. The server's hot path reads and writes messages in place instead.

mod codes;
mod compressed_labels;
mod parse;
mod raw_records;
#[cfg(test)]
mod tests;
mod uncompressed_rdata;
mod write;

pub use codes::{Opcode, Rcode, header_rcode};
pub use compressed_labels::{CompressedLabels, append_name, read_name};
pub use raw_records::{RawRecord, RawRecords, Section};
pub use uncompressed_rdata::append_rdata;

use crate::{Class, Name, Rtype};

/// A message (RFC 1035 4.1). Its OPT record is in `edns`, not in the additional section.
///
/// See [`Message::parse`], [`Message::to_wire`] and [`Message::query`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The message ID; a response repeats that of its query.
    pub id: u16,
    /// The opcode; 4 bits.
    pub opcode: Opcode,
    /// The header flags.
    pub flags: Flags,
    /// The response code: 12 bits with EDNS, 4 without.
    pub rcode: Rcode,
    /// The question section.
    pub questions: Vec<Question>,
    /// The answer section.
    pub answer: Vec<Record>,
    /// The authority section.
    pub authority: Vec<Record>,
    /// The additional section without its OPT record.
    pub additional: Vec<Record>,
    /// The OPT record, if there is one.
    pub edns: Option<Edns>,
}

/// The flag bits of a header (RFC 1035 4.1.1, RFC 4035 3).
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    pub response: bool,
    pub authoritative: bool,
    pub truncated: bool,
    pub recursion_desired: bool,
    pub recursion_available: bool,
    /// The reserved bit Z.
    pub reserved: bool,
    pub authentic_data: bool,
    pub checking_disabled: bool,
}

/// One entry of the question section (RFC 1035 4.1.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// QNAME.
    pub name: Name,
    /// QTYPE.
    pub qtype: Rtype,
    /// QCLASS.
    pub qclass: Class,
}

/// A resource record (RFC 1035 4.1.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The owner name.
    pub owner: Name,
    /// The type.
    pub rtype: Rtype,
    /// The class.
    pub class: Class,
    /// The time to live, in seconds.
    pub ttl: u32,
    /// The RDATA, with uncompressed names.
    pub rdata: Vec<u8>,
}

/// The contents of an OPT record (RFC 6891 6.1), except the upper RCODE bits, which are in [`Message::rcode`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edns {
    /// The requestor's UDP payload size, in octets.
    pub payload: u16,
    /// The EDNS version; only 0 is defined.
    pub version: u8,
    /// DO: the sender wants DNSSEC records (RFC 3225).
    pub dnssec_ok: bool,
    /// The 15 reserved flag bits.
    pub reserved: u16,
    /// The options, in order.
    pub options: Vec<EdnsOption>,
}

impl Default for Edns {
    fn default() -> Edns {
        Edns { payload: 1232, version: 0, dnssec_ok: false, reserved: 0, options: Vec::new() }
    }
}

/// An EDNS option (RFC 6891 6.1.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdnsOption {
    /// The option code.
    pub code: u16,
    /// The option data, in wire form.
    pub data: Vec<u8>,
}

/// Why octets are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// The message is incomplete.
    #[error("the message ends too early")]
    Short,
    /// Octets follow the last record.
    #[error("octets follow the last record")]
    Trailing,
    /// A label that is neither at most 63 octets long nor a pointer (RFC 1035 4.1.4).
    #[error("a label has an unknown type")]
    LabelType,
    /// A name of more than 255 octets (RFC 1035 2.3.4).
    #[error("a name is longer than 255 octets")]
    LongName,
    /// A compression pointer to itself, forwards or into the header, or too many pointers (RFC 1035 4.1.4).
    #[error("a compression pointer does not point to an earlier name")]
    Pointer,
    /// RDATA that is too short or too long for its type.
    #[error("the RDATA of a record of type {0} does not fit its type")]
    Rdata(Rtype),
    /// A second OPT record, or one with a wrong owner, in a wrong section or with malformed options (RFC 6891 6.1.1).
    #[error("the OPT record is misplaced or malformed")]
    Opt,
}

/// The DO flag of an OPT record (RFC 3225 3).
const DNSSEC_OK: u16 = 0x8000;

impl Flags {
    /// The flags from the second 16 bits of a header.
    fn from_bits(bits: u16) -> Flags {
        let bit = |position: u16| bits >> position & 1 == 1;
        Flags {
            response: bit(15),
            authoritative: bit(10),
            truncated: bit(9),
            recursion_desired: bit(8),
            recursion_available: bit(7),
            reserved: bit(6),
            authentic_data: bit(5),
            checking_disabled: bit(4),
        }
    }

    /// The flags as in the second 16 bits of a header.
    fn bits(self) -> u16 {
        u16::from(self.response) << 15
            | u16::from(self.authoritative) << 10
            | u16::from(self.truncated) << 9
            | u16::from(self.recursion_desired) << 8
            | u16::from(self.recursion_available) << 7
            | u16::from(self.reserved) << 6
            | u16::from(self.authentic_data) << 5
            | u16::from(self.checking_disabled) << 4
    }
}
