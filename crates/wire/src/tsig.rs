//! TSIG (RFC 8945): signing and verifying messages with a shared secret. No sockets, no clock.
//!
//! Client: [`TsigSigner::for_query`] signs the query, a [`TsigVerifier`] checks the responses. Server: [`verify_query`] returns
//! the [`TsigSigner`] of the responses or a [`VerificationFailure`]. The caller passes times, in seconds since 1970.

mod digest;
mod key;
mod record;
mod sign;
#[cfg(test)]
mod tests;
mod verify;

pub use digest::Mac;
pub use key::{ALGORITHM_NAMES, TsigKey, TsigKeyError};
pub use record::{Tsig, find};
pub use sign::TsigSigner;
pub use verify::{TsigVerifier, VerificationFailure, verify_query};

use crate::message::Rcode;

/// The default fudge: how many seconds the clocks of both sides may differ (RFC 8945 10 recommends 300).
pub const FUDGE_S: u16 = 300;

/// Why verification failed (RFC 8945 3 and 5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TsigError {
    /// The record is malformed, not the last one, or not the only one; or no algorithm has a MAC of its length.
    #[error("the TSIG record is malformed")]
    Malformed,
    /// The MAC does not match the message.
    #[error("the MAC is wrong (BADSIG)")]
    BadSig,
    /// The key or its algorithm is unknown, or not the expected one.
    #[error("the key or the algorithm is not known (BADKEY)")]
    BadKey,
    /// The time signed differs from the current time by more than the fudge.
    #[error("the time signed is outside of the fudge interval (BADTIME)")]
    BadTime,
    /// The MAC is truncated to fewer octets than the key accepts.
    #[error("the MAC is truncated (BADTRUNC)")]
    BadTrunc,
    /// A required TSIG record is missing (RFC 8945 5.3.1).
    #[error("the message is not signed")]
    Unsigned,
    /// The peer rejected the query's TSIG with this error code.
    #[error("the server refuses the signature with {}", error_name(*.0))]
    FromPeer(u16),
}

/// The message has no room left for its TSIG record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the message is too long to be signed")]
pub struct MessageTooLong;

/// BADSIG (RFC 8945 3): in the RCODE registry its number means BADVERS.
const BADSIG: u16 = 16;

impl TsigError {
    /// The code in the record's error field (RFC 8945 3); 0 for errors that have none.
    fn code(self) -> u16 {
        match self {
            TsigError::BadSig => BADSIG,
            TsigError::BadKey => Rcode::BADKEY.0,
            TsigError::BadTime => Rcode::BADTIME.0,
            TsigError::BadTrunc => Rcode::BADTRUNC.0,
            TsigError::FromPeer(code) => code,
            TsigError::Malformed | TsigError::Unsigned => 0,
        }
    }
}

/// The mnemonic of a TSIG error code (RFC 8945 3).
fn error_name(code: u16) -> String {
    if code == BADSIG { "BADSIG".into() } else { Rcode(code).to_string() }
}
