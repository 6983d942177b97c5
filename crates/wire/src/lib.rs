//! DNS bytes: names, types, messages, EDNS, TSIG. No I/O, no clock, no unsafe code.
//!
//! Everything here works on byte slices in the wire form of RFC 1035 section 4 and is used by all other crates.
#![forbid(unsafe_code)]

pub mod message;
pub mod name;
pub mod rdata;
pub mod rtype;
pub mod serial;
pub mod tsig;

pub use message::Message;
pub use name::{Name, NameRef};
pub use rtype::{Class, Rtype};

/// The fixed header of a message, in octets (RFC 1035 4.1.1).
pub const HEADER_LEN: usize = 12;
/// The longest name on the wire, in octets with the root label (RFC 1035 2.3.4).
pub const MAX_NAME_LEN: usize = 255;
/// The longest label, in octets (RFC 1035 2.3.4).
pub const MAX_LABEL_LEN: usize = 63;
