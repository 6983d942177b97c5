//! The input of the MAC (RFC 8945 4.3): prior MAC, message, TSIG variables.

use aws_lc_rs::hmac;

use super::key::TsigKey;
use super::record::Tsig;

/// A message authentication code, of up to 64 octets.
#[derive(Clone, Copy, Debug)]
pub struct Mac {
    octets: [u8; Mac::MAX_LEN],
    len: u8,
}

impl Mac {
    /// The length of the longest MAC, that of HMAC-SHA512.
    const MAX_LEN: usize = 64;

    /// `None` if no algorithm has a MAC that long.
    pub(super) fn new(octets: &[u8]) -> Option<Mac> {
        let mut mac = Mac { octets: [0; Mac::MAX_LEN], len: octets.len() as u8 };
        mac.octets.get_mut(..octets.len())?.copy_from_slice(octets);
        Some(mac)
    }

    pub(super) fn octets(&self) -> &[u8] {
        &self.octets[..usize::from(self.len)]
    }
}

/// Whether a message is the first of its direction in an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Envelope {
    First,
    Subsequent,
}

/// RFC 8945 5.3.1: each digest starts with the prior MAC of the exchange, preceded by its length.
pub(super) fn start_digest(key: &TsigKey, prior: Option<&Mac>) -> hmac::Context {
    let mut digest = hmac::Context::with_key(key.hmac());
    if let Some(prior) = prior {
        digest.update(&u16::from(prior.len).to_be_bytes());
        digest.update(prior.octets());
    }
    digest
}

/// RFC 8945 4.3.3: the TSIG variables; subsequent messages have only the timers (5.3.1).
pub(super) fn digest_tsig_variables(digest: &mut hmac::Context, envelope: Envelope, tsig: &Tsig<'_>) {
    if envelope == Envelope::First {
        digest.update(tsig.owner.wire());
        digest.update(&[0, 255, 0, 0, 0, 0]);
        digest.update(tsig.algorithm.wire());
    }
    digest.update(&tsig.time_s.to_be_bytes()[2..]);
    digest.update(&tsig.fudge_s.to_be_bytes());
    if envelope == Envelope::First {
        digest.update(&tsig.error.to_be_bytes());
        digest.update(&(tsig.other.len() as u16).to_be_bytes());
        digest.update(tsig.other);
    }
}
