//! Why incoming transfers fail. For `transfer_receiver`.

use wire::message::{MessageError, Rcode};
use wire::rdata::RdataError;
use wire::{Name, Rtype};

use crate::finding::Finding;

/// Why a transfer failed: what the primary sent, and what was expected.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// A malformed message.
    #[error("the primary sent a malformed message: {0}")]
    Message(#[from] MessageError),
    /// A message that is not a response to a query.
    #[error("the primary sent a message that is not a response to a query")]
    NotResponse,
    /// An error response.
    #[error("the primary answered {0}{help}", help = rcode_help(*.0))]
    Rcode(Rcode),
    /// TC is set. Over UDP the transfer is to be asked for over TCP.
    #[error("the primary sent a truncated response")]
    Truncated,
    /// The response to another question.
    #[error("the primary answered the question {0} {1}, which was not asked")]
    Question(Name, Rtype),
    /// The first record is not the SOA record.
    #[error("the transfer starts with a record of type {0}; expected the SOA record (RFC 5936 2.2)")]
    NoSoa(Rtype),
    /// A SOA record at another name than the apex.
    #[error("the primary sent the SOA record of {0}; expected that of {1}")]
    OtherZone(Name, Name),
    /// An earlier version than the one that is held.
    #[error(
        "the primary has serial {theirs}, which is earlier than {ours} (help: increase the serial at the primary, or force a transfer)"
    )]
    EarlierSerial {
        /// The serial of the primary.
        theirs: u32,
        /// The serial that is held.
        ours: u32,
    },
    /// The changes start with another version than the one asked for, or do not follow each other.
    #[error("the primary sent a change from serial {sent}; expected one from serial {expected} (RFC 1995 4)")]
    Gap {
        /// The serial that was sent.
        sent: u32,
        /// The serial that was expected.
        expected: u32,
    },
    /// A change that does not increase the serial, or goes past that of the whole transfer.
    #[error("the primary sent a change from serial {from} to {to} in a transfer to serial {last}")]
    NoProgressInSerial {
        /// The serial before the change.
        from: u32,
        /// The serial after the change.
        to: u32,
        /// The serial of the transfer.
        last: u32,
    },
    /// The last SOA record differs from the first one: the zone changed while it was sent.
    #[error(
        "the transfer starts with serial {first} and ends with another SOA record, of serial {last} (RFC 5936 2.2)"
    )]
    SoaMismatch {
        /// The first serial.
        first: u32,
        /// The last serial.
        last: u32,
    },
    /// Records after the last SOA record.
    #[error("the primary sent records after the last SOA record")]
    Trailing,
    /// A record of another class than IN.
    #[error("the primary sent a record of another class than IN: {0} {1}")]
    Class(Name, Rtype),
    /// Malformed RDATA.
    #[error("the primary sent a malformed {1} record of {0}: {2}")]
    Rdata(Name, Rtype, RdataError),
    /// More records than allowed.
    #[error("the primary sent more than {0} records (help: raise max-records)")]
    TooManyRecords(u64),
    /// More octets than allowed.
    #[error("the primary sent more than {0} octets of records, which is more than the memory of this machine")]
    TooManyOctets(u64),
    /// More memory than allowed.
    #[error("the records that the primary sent take more than {0} octets of memory (help: raise max-bytes)")]
    TooLarge(u64),
    /// Hardly any records.
    #[error("the primary sent {sent} octets with only {records} octets of records")]
    Padding {
        /// The octets of all messages.
        sent: u64,
        /// The octets of their records.
        records: u64,
    },
    /// The messages ended before the last SOA record.
    #[error("the primary ended the transfer before the last SOA record, after {0} records")]
    Incomplete(u64),
    /// The records do not make a valid zone. At least one finding is an error.
    #[error("the primary sent an invalid zone: {}", .0.first().map_or("no reason", |first| &first.message))]
    Invalid(Vec<Finding>),
}

/// What to check at a primary that refuses a transfer: it knows the zone otherwise.
fn rcode_help(rcode: Rcode) -> &'static str {
    match rcode {
        Rcode::REFUSED => {
            " (help: permit transfers to the address and the TSIG key of this server at the primary: `allow-transfer` in Zonda and BIND, \
             `provide-xfr` in NSD, `acl` in Knot; it refuses zones that it does not have, too)"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_to_check_at_the_primary() {
        let refused = TransferError::Rcode(Rcode::REFUSED).to_string();
        assert!(
            refused.starts_with("the primary answered REFUSED (help: ") && refused.contains("TSIG key"),
            "{refused}"
        );
        assert_eq!(TransferError::Rcode(Rcode::SERVFAIL).to_string(), "the primary answered SERVFAIL");
    }
}
