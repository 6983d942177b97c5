//! Signing: a query, or the responses of an exchange one after the other.

use std::ops::Deref;

use super::digest::{Envelope, Mac, digest_tsig_variables, start_digest};
use super::record::Tsig;
use super::{FUDGE_S, MessageTooLong, TsigKey};

/// The longest message over TCP, in octets (RFC 1035 4.2.2).
const MAX_MESSAGE_LEN: usize = 65_535;

/// Signs every message of one side of an exchange, in order (RFC 8945 5.3.1). `K` is a reference to the key, or an `Arc` where
/// the exchange outlives the caller.
#[derive(Clone, Debug)]
pub struct TsigSigner<K> {
    key: K,
    /// The last MAC of the exchange.
    prior: Option<Mac>,
    envelope: Envelope,
}

impl<K: Deref<Target = TsigKey>> TsigSigner<K> {
    /// A signer for a query, the start of an exchange.
    pub fn for_query(key: K) -> TsigSigner<K> {
        TsigSigner { key, prior: None, envelope: Envelope::First }
    }

    /// A signer for the responses to a query with this MAC.
    pub(super) fn for_responses(key: K, query_mac: Mac) -> TsigSigner<K> {
        TsigSigner { key, prior: Some(query_mac), envelope: Envelope::First }
    }

    /// The key.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// How many octets a signature adds to a message.
    pub fn record_len(&self) -> usize {
        record(&self.key, [0; 2], 0).len() + self.key.mac_len()
    }

    /// Signs the message in `out[start..]`, which starts with a header, by appending the TSIG record.
    pub fn sign(&mut self, out: &mut Vec<u8>, start: usize, now_s: u64) -> Result<Mac, MessageTooLong> {
        let end = out.len();
        out.resize(end + self.record_len(), 0);
        let signed = self.sign_in_place(&mut out[start..], end - start, now_s);
        if signed.is_err() {
            out.truncate(end);
        }
        signed.map(|_| self.prior.expect("that of this message"))
    }

    /// Signs the message in `out[..len]`, which starts with a header; the TSIG record follows it. Returns the new length.
    pub fn sign_in_place(&mut self, out: &mut [u8], len: usize, now_s: u64) -> Result<usize, MessageTooLong> {
        let tsig = record(&self.key, [out[0], out[1]], now_s);
        let (len, mac) = sign_as(&self.key, self.prior.as_ref(), self.envelope, tsig, out, len)?;
        (self.prior, self.envelope) = (Some(mac), Envelope::Subsequent);
        Ok(len)
    }
}

/// The unsigned record of a message.
fn record(key: &TsigKey, original_id: [u8; 2], time_s: u64) -> Tsig<'_> {
    Tsig {
        owner: key.name().into(),
        algorithm: key.algorithm(),
        time_s,
        fudge_s: FUDGE_S,
        mac: &[],
        original_id,
        error: 0,
        other: &[],
    }
}

/// Signs the message in `out[..len]` with the fields of `tsig`; returns the new length and the MAC.
pub(super) fn sign_as(
    key: &TsigKey,
    prior: Option<&Mac>,
    envelope: Envelope,
    tsig: Tsig<'_>,
    out: &mut [u8],
    len: usize,
) -> Result<(usize, Mac), MessageTooLong> {
    if len + tsig.len() + key.mac_len() > MAX_MESSAGE_LEN {
        return Err(MessageTooLong);
    }
    let mut digest = start_digest(key, prior);
    digest.update(&out[..len]);
    digest_tsig_variables(&mut digest, envelope, &tsig);
    let mac = Mac::new(digest.sign().as_ref()).expect("no algorithm has more octets");
    Ok((Tsig { mac: mac.octets(), ..tsig }.append(out, len)?, mac))
}
