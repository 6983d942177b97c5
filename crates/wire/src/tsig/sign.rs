//! Signing: a query, or the responses of an exchange one after the other.

use super::digest::{Envelope, Mac, digest_tsig_variables, start_digest};
use super::record::Tsig;
use super::{FUDGE_S, TsigKey};

/// The longest message over TCP, in octets (RFC 1035 4.2.2).
const MAX_MESSAGE_LEN: usize = 65_535;

/// The message has no room left for its TSIG record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the message is too long to be signed")]
pub struct MessageTooLong;

/// Signs every message of one side of an exchange, in order (RFC 8945 5.3.1).
#[derive(Clone, Debug)]
pub struct TsigSigner<'k> {
    key: &'k TsigKey,
    /// The last MAC of the exchange.
    prior: Option<Mac>,
    envelope: Envelope,
}

impl<'k> TsigSigner<'k> {
    /// A signer for a query, the start of an exchange.
    pub fn for_query(key: &'k TsigKey) -> TsigSigner<'k> {
        TsigSigner { key, prior: None, envelope: Envelope::First }
    }

    /// A signer for the responses to a query with this MAC.
    pub(super) fn for_responses(key: &'k TsigKey, query_mac: Mac) -> TsigSigner<'k> {
        TsigSigner { key, prior: Some(query_mac), envelope: Envelope::First }
    }

    /// Signs the message in `out[start..]`, which starts with a header, by appending the TSIG record.
    pub fn sign(&mut self, out: &mut Vec<u8>, start: usize, now_s: u64) -> Result<Mac, MessageTooLong> {
        let tsig = Tsig {
            owner: self.key.name().into(),
            algorithm: self.key.algorithm(),
            time_s: now_s,
            fudge_s: FUDGE_S,
            mac: &[],
            original_id: [out[start], out[start + 1]],
            error: 0,
            other: &[],
        };
        self.sign_as(tsig, out, start)
    }

    /// As [`TsigSigner::sign`], with the fields of `tsig`.
    pub(super) fn sign_as(&mut self, tsig: Tsig<'_>, out: &mut Vec<u8>, start: usize) -> Result<Mac, MessageTooLong> {
        if out.len() - start + tsig.len() + self.key.mac_len() > MAX_MESSAGE_LEN {
            return Err(MessageTooLong);
        }
        let mut digest = start_digest(self.key, self.prior.as_ref());
        digest.update(&out[start..]);
        digest_tsig_variables(&mut digest, self.envelope, &tsig);
        let mac = Mac::new(digest.sign().as_ref()).expect("no algorithm has more octets");
        Tsig { mac: mac.octets(), ..tsig }.append(out, start);
        (self.prior, self.envelope) = (Some(mac), Envelope::Subsequent);
        Ok(mac)
    }
}
