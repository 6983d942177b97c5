//! TSIG (RFC 8945): messages that are signed with a shared secret, in exchanges of one answer or of many. No sockets, no clock.
//!
//! Who asks: [`Signer::of_query`], then a [`Verifier`] for the answers. Who answers: [`verify_query`], which gives the [`Signer`]
//! of the answers or a [`Refusal`]. Times are seconds since 1970 and come from the caller.

mod key;
mod record;
mod sign;
#[cfg(test)]
mod tests;
mod verify;

use aws_lc_rs::hmac;

pub use key::{Key, KeyError};
pub use sign::{Signer, TooLong};
pub use verify::{Refusal, Verifier, verify_query, write_key_refusal};

use crate::message::Rcode;
use record::Tsig;

/// How many seconds the clocks of both sides may differ (RFC 8945 10: 300 is recommended).
pub const FUDGE_S: u16 = 300;

/// What is wrong with a signature (RFC 8945 3 and 5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The record is broken, not the last one, or not the only one; or its MAC has a length that none can have.
    #[error("the TSIG record is malformed")]
    Malformed,
    /// The MAC is not that of the message: BADSIG.
    #[error("the MAC is wrong (BADSIG)")]
    Mac,
    /// The key or its algorithm is not the right one: BADKEY.
    #[error("the key or the algorithm is not known (BADKEY)")]
    Key,
    /// It was signed too long ago or in the future: BADTIME.
    #[error("it was not signed at this time (BADTIME)")]
    Time,
    /// The MAC is shorter than is accepted here, which is whole: BADTRUNC.
    #[error("the MAC is truncated (BADTRUNC)")]
    Truncation,
    /// There is no signature where one must be (RFC 8945 5.3.1).
    #[error("the message is not signed")]
    Unsigned,
    /// The other side refused the query's signature, with this code.
    #[error("the server refuses the signature with {}", code_name(*.0))]
    Refused(u16),
}

impl Fault {
    /// The code that tells the other side (RFC 8945 3); 0 for those that have none.
    fn code(self) -> u16 {
        match self {
            Fault::Mac => 16,
            Fault::Key => 17,
            Fault::Time => 18,
            Fault::Truncation => 22,
            Fault::Refused(code) => code,
            Fault::Malformed | Fault::Unsigned => 0,
        }
    }
}

/// The mnemonic of a TSIG error (RFC 8945 3), which shares the registry of RCODEs but for 16.
fn code_name(code: u16) -> String {
    if code == 16 { "BADSIG".into() } else { Rcode(code).to_string() }
}

/// A message authentication code, of up to 64 octets.
#[derive(Clone, Copy, Debug)]
pub struct Mac {
    octets: [u8; Mac::MAX_LEN],
    len: u8,
}

impl Mac {
    /// Octets of the longest one, which is that of HMAC-SHA512.
    const MAX_LEN: usize = 64;

    /// `None` for more octets than any algorithm has.
    fn new(octets: &[u8]) -> Option<Mac> {
        let mut mac = Mac { octets: [0; Mac::MAX_LEN], len: octets.len() as u8 };
        mac.octets.get_mut(..octets.len())?.copy_from_slice(octets);
        Some(mac)
    }

    fn octets(&self) -> &[u8] {
        &self.octets[..usize::from(self.len)]
    }
}

//----------- what the MAC is over ---------------------------------------------

/// Whether a message is the first that its side signs in an exchange: later ones have shorter digests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    First,
    Later,
}

/// RFC 8945 4.3.1, 5.3.1: what follows a MAC begins with it, behind its length.
fn follow(key: &Key, prior: Option<&Mac>) -> hmac::Context {
    let mut digest = hmac::Context::with_key(key.hmac());
    if let Some(prior) = prior {
        digest.update(&u16::from(prior.len).to_be_bytes());
        digest.update(prior.octets());
    }
    digest
}

/// RFC 8945 4.3.3: the variables of the record, of which 5.3.1 leaves the times to later messages.
fn digest_variables(digest: &mut hmac::Context, place: Place, tsig: &Tsig<'_>) {
    if place == Place::First {
        digest.update(tsig.owner.wire());
        digest.update(&[0, 255, 0, 0, 0, 0]);
        digest.update(tsig.algorithm.wire());
    }
    digest.update(&tsig.time_s.to_be_bytes()[2..]);
    digest.update(&tsig.fudge_s.to_be_bytes());
    if place == Place::First {
        digest.update(&tsig.error.to_be_bytes());
        digest.update(&(tsig.other.len() as u16).to_be_bytes());
        digest.update(tsig.other);
    }
}
