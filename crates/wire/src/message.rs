//! Whole messages that own their data: for tests, clients and tools.
//!
//! The server's hot path has a reader and a writer of its own; nothing here is called per query served.

mod codes;
mod read;
#[cfg(test)]
mod tests;
mod write;

pub use codes::{Opcode, Rcode};

use crate::{Class, Name, Rtype};

/// A message (RFC 1035 4.1) with its EDNS (RFC 6891) taken out of the additional section.
///
/// [`Message::parse`] reads one, [`Message::to_wire`] writes one; a query is made with [`Message::query`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// Chosen by whoever asks, repeated by whoever answers.
    pub id: u16,
    /// The kind of query; 4 bits.
    pub opcode: Opcode,
    /// The bits of the header.
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
    /// What the OPT record says, if there is one.
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
    /// The one bit without a meaning, Z.
    pub reserved: bool,
    pub authentic_data: bool,
    pub checking_disabled: bool,
}

/// One entry of the question section (RFC 1035 4.1.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The name asked for.
    pub name: Name,
    /// The type asked for.
    pub qtype: Rtype,
    /// The class asked for.
    pub qclass: Class,
}

/// A record of a message (RFC 1035 4.1.3).
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
    /// The RDATA with all its names uncompressed.
    pub rdata: Vec<u8>,
}

/// What an OPT record says (RFC 6891 6.1), but for the upper bits of the response code, which [`Message::rcode`] has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edns {
    /// The largest datagram that the sender takes, in octets.
    pub payload: u16,
    /// The version; 0 is the only one.
    pub version: u8,
    /// DO: the sender wants DNSSEC records (RFC 3225).
    pub dnssec_ok: bool,
    /// The 15 flag bits without a meaning.
    pub reserved: u16,
    /// The options in their order.
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
    /// Its code.
    pub code: u16,
    /// Its data, as it stands on the wire.
    pub data: Vec<u8>,
}

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// The bytes end within the message.
    #[error("the message ends too early")]
    Short,
    /// Bytes are left behind the last record.
    #[error("bytes are left behind the last record")]
    Trailing,
    /// A label that is neither a length up to 63 nor a pointer (RFC 1035 4.1.4).
    #[error("a label has a type that does not exist")]
    LabelType,
    /// A name of more than 255 octets (RFC 1035 2.3.4).
    #[error("a name is longer than 255 octets")]
    LongName,
    /// A compression pointer to itself, forwards, into the header, or one too many (RFC 1035 4.1.4).
    #[error("a compression pointer does not point to an earlier name")]
    Pointer,
    /// RDATA that is too short or too long for its type.
    #[error("the RDATA of a record of type {0} does not fit its type")]
    Rdata(Rtype),
    /// A second OPT record, or one with a wrong owner, in a wrong section or with broken options (RFC 6891 6.1.1).
    #[error("the OPT record is misplaced or broken")]
    Opt,
}

/// DO among the flags of an OPT record (RFC 3225 3).
const DNSSEC_OK: u16 = 0x8000;

impl Flags {
    /// The flags in the second 16 bits of a header.
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

    /// The flags as they stand in the second 16 bits of a header.
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
