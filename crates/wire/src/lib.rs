//! The DNS wire format: names, types, RDATA, messages, EDNS, TSIG, and address prefixes. No I/O, no clock, no unsafe code.
#![forbid(unsafe_code)]

mod address_prefix;
pub mod framing;
pub mod message;
pub mod name;
pub mod rdata;
pub mod rtype;
pub mod serial;
pub mod soa;
pub mod tsig;

pub use address_prefix::AddressPrefix;
pub use message::Message;
pub use name::{Name, NameRef};
pub use rtype::{Class, Rtype};

/// The length of the message header, in octets (RFC 1035 4.1.1).
pub const HEADER_LEN: usize = 12;
/// The length of the longest name on the wire, in octets with the root label (RFC 1035 2.3.4).
pub const MAX_NAME_LEN: usize = 255;
/// The length of the longest label, in octets (RFC 1035 2.3.4).
pub const MAX_LABEL_LEN: usize = 63;
