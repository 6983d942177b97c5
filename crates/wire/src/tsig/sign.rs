//! Signing: a query, or the answers of an exchange one after the other.

use super::record::Tsig;
use super::{FUDGE_S, Key, Mac, Place, digest_variables, follow};

/// The longest message (RFC 1035 4.2.2).
const MAX_MESSAGE_LEN: usize = 65_535;

/// A message with no room left for its signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the message is too long to be signed")]
pub struct TooLong;

/// Signs the messages of one side of an exchange, in their order. All of them are signed (RFC 8945 5.3.1).
#[derive(Clone, Debug)]
pub struct Signer<'k> {
    key: &'k Key,
    /// The last MAC of the exchange.
    prior: Option<Mac>,
    place: Place,
}

impl<'k> Signer<'k> {
    /// For a query, which begins an exchange.
    pub fn of_query(key: &'k Key) -> Signer<'k> {
        Signer { key, prior: None, place: Place::First }
    }

    /// For the answers to a query with this MAC.
    pub(super) fn of_answers(key: &'k Key, query_mac: Mac) -> Signer<'k> {
        Signer { key, prior: Some(query_mac), place: Place::First }
    }

    /// Signs the message that `out` has from `start` to its end, by appending the record. The message has a header.
    pub fn sign(&mut self, out: &mut Vec<u8>, start: usize, now_s: u64) -> Result<Mac, TooLong> {
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

    /// The same with times and codes of the caller's.
    pub(super) fn sign_as(&mut self, tsig: Tsig<'_>, out: &mut Vec<u8>, start: usize) -> Result<Mac, TooLong> {
        if out.len() - start + tsig.len() + self.key.mac_len() > MAX_MESSAGE_LEN {
            return Err(TooLong);
        }
        let mut digest = follow(self.key, self.prior.as_ref());
        digest.update(&out[start..]);
        digest_variables(&mut digest, self.place, &tsig);
        let mac = Mac::new(digest.sign().as_ref()).expect("no algorithm has more octets");
        Tsig { mac: mac.octets(), ..tsig }.append(out, start);
        (self.prior, self.place) = (Some(mac), Place::Later);
        Ok(mac)
    }
}
