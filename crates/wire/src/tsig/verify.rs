//! TSIG verification, the time check included: queries on a server, responses on a client.

use std::ops::Deref;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;

use super::digest::{Envelope, Mac, digest_tsig_variables, start_digest};
use super::record::{Tsig, find};
use super::sign::sign_as;
use super::{MessageTooLong, TsigError, TsigKey, TsigSigner};
use crate::NameRef;
use crate::message::Rcode;

/// RFC 8945 5.3.1: how many consecutive messages of a transfer may be unsigned.
const MAX_UNSIGNED: u8 = 99;

/// Verifies a query and returns the signer of its responses; `None` for an unsigned query. `key_of` finds a key by its name, in
/// lower case. `K` is a reference to the key, or an `Arc` where the responses outlive the caller.
pub fn verify_query<K: Deref<Target = TsigKey>>(
    query: &[u8],
    key_of: impl FnOnce(NameRef<'_>) -> Option<K>,
    now_s: u64,
) -> Result<Option<TsigSigner<K>>, VerificationFailure<'_, K>> {
    let failure = |error, key| VerificationFailure { error, query, key };
    let Some((tsig, start)) = find(query).map_err(|error| failure(error, None))? else { return Ok(None) };
    let name = NameRef::from_wire(tsig.owner.wire()).expect("`find` read it");
    let key = key_of(name).ok_or_else(|| failure(TsigError::BadKey, None))?;
    match check(start_digest(&key, None), &key, Envelope::First, query, start, &tsig, now_s) {
        Ok(mac) => Ok(Some(TsigSigner::for_responses(key, mac))),
        Err(error) => Err(failure(error, Some(key))),
    }
}

/// Why a query failed verification, and the error response it gets.
#[derive(Clone, Copy, Debug)]
pub struct VerificationFailure<'q, K> {
    /// The reason.
    pub error: TsigError,
    query: &'q [u8],
    key: Option<K>,
}

impl<K: Deref<Target = TsigKey>> VerificationFailure<'_, K> {
    /// RFC 8945 5.2: FORMERR for a malformed record, else NOTAUTH.
    pub fn rcode(&self) -> Rcode {
        if self.error == TsigError::Malformed { Rcode::FORMERR } else { Rcode::NOTAUTH }
    }

    /// The most octets that [`VerificationFailure::sign_in_place`] adds to a message.
    pub fn record_len(&self) -> usize {
        let mac_len = self.key.as_ref().map_or(0, |key| key.mac_len());
        self.tsig().map_or(0, |tsig| Tsig { mac: &[], other: &[], ..tsig }.len() + mac_len + SERVER_TIME_LEN)
    }

    /// Appends the TSIG record with the error code to the response in `out[start..]`; none for a malformed query.
    pub fn sign(&self, out: &mut Vec<u8>, start: usize, now_s: u64) -> Result<(), MessageTooLong> {
        let end = out.len();
        out.resize(end + self.record_len(), 0);
        let signed = self.sign_in_place(&mut out[start..], end - start, now_s);
        out.truncate(start + signed.unwrap_or(end - start));
        signed.map(drop)
    }

    /// Appends the TSIG record with the error code to the response in `out[..len]`; none for a malformed query. Returns the new
    /// length. RFC 8945 5.3.2: BADKEY and BADSIG responses are unsigned, BADTIME and BADTRUNC responses are signed.
    pub fn sign_in_place(&self, out: &mut [u8], len: usize, now_s: u64) -> Result<usize, MessageTooLong> {
        let Some(tsig) = self.tsig() else { return Ok(len) };
        let now = &now_s.to_be_bytes()[8 - SERVER_TIME_LEN..];
        // RFC 8945 5.2.3: a BADTIME response repeats the time signed of the query and adds the server's time as other data.
        let other = if self.error == TsigError::BadTime { now } else { &[] };
        let response = tsig.error_response(self.error, other, [out[0], out[1]]);
        match (self.error, &self.key, Mac::new(tsig.mac)) {
            (TsigError::BadTime | TsigError::BadTrunc, Some(key), Some(mac)) => {
                sign_as(key, Some(&mac), Envelope::First, response, out, len).map(|(len, _)| len)
            }
            _ => response.append(out, len),
        }
    }

    /// The record of the query, if it is well-formed.
    fn tsig(&self) -> Option<Tsig<'_>> {
        if self.error == TsigError::Malformed {
            return None;
        }
        find(self.query).ok()?.map(|(tsig, _)| tsig)
    }
}

/// The length of the server's time in a BADTIME response.
const SERVER_TIME_LEN: usize = 6;

/// Verifies the responses to a query, in order. `K` is a reference to the key, or an `Arc` where the exchange outlives the caller.
#[derive(Clone)]
pub struct TsigVerifier<K> {
    key: K,
    /// Over the last MAC and the unsigned messages since.
    digest: hmac::Context,
    envelope: Envelope,
    unsigned: u8,
}

impl<K: Deref<Target = TsigKey>> TsigVerifier<K> {
    /// A verifier for the responses to the query with this MAC.
    pub fn new(key: K, query_mac: &Mac) -> TsigVerifier<K> {
        let digest = start_digest(&key, Some(query_mac));
        TsigVerifier { key, digest, envelope: Envelope::First, unsigned: 0 }
    }

    /// Verifies the next response. RFC 8945 5.3.1: the first one and at least one of every hundred must be signed; unsigned ones are
    /// authenticated only by the next signed one, see [`TsigVerifier::finish`].
    pub fn verify(&mut self, response: &[u8], now_s: u64) -> Result<(), TsigError> {
        let Some((tsig, start)) = find(response)? else {
            if self.envelope == Envelope::First || self.unsigned == MAX_UNSIGNED {
                return Err(TsigError::Unsigned);
            }
            self.unsigned += 1;
            self.digest.update(response);
            return Ok(());
        };
        // RFC 8945 5.3.2: BADKEY and BADSIG responses are unsigned.
        if tsig.mac.is_empty() && tsig.error != 0 {
            return Err(TsigError::FromPeer(tsig.error));
        }
        let digest = std::mem::replace(&mut self.digest, hmac::Context::with_key(self.key.hmac()));
        let mac = check(digest, &self.key, self.envelope, response, start, &tsig, now_s)?;
        if tsig.error != 0 {
            return Err(TsigError::FromPeer(tsig.error));
        }
        self.digest = start_digest(&self.key, Some(&mac));
        (self.envelope, self.unsigned) = (Envelope::Subsequent, 0);
        Ok(())
    }

    /// Checks that the last response was signed (RFC 8945 5.3.1).
    pub fn finish(&self) -> Result<(), TsigError> {
        if self.envelope == Envelope::First || self.unsigned > 0 { Err(TsigError::Unsigned) } else { Ok(()) }
    }
}

/// Checks key, MAC, time and truncation in the order of RFC 8945 5.2; returns the MAC. The record starts at `start`.
fn check(
    mut digest: hmac::Context,
    key: &TsigKey,
    envelope: Envelope,
    message: &[u8],
    start: usize,
    tsig: &Tsig<'_>,
    now_s: u64,
) -> Result<Mac, TsigError> {
    if tsig.owner.wire() != key.name().wire() || tsig.algorithm != key.algorithm() {
        return Err(TsigError::BadKey);
    }
    if !key.mac_lengths().contains(&tsig.mac.len()) {
        return Err(TsigError::Malformed);
    }
    // RFC 8945 4.3.2: the message without the TSIG record, with the original ID.
    let additional = u16::from_be_bytes([message[10], message[11]]) - 1;
    digest.update(&tsig.original_id);
    digest.update(&message[2..10]);
    digest.update(&additional.to_be_bytes());
    digest.update(&message[12..start]);
    digest_tsig_variables(&mut digest, envelope, &Tsig { algorithm: key.algorithm(), ..*tsig });
    let mac = digest.sign();
    verify_slices_are_equal(&mac.as_ref()[..tsig.mac.len()], tsig.mac).map_err(|_| TsigError::BadSig)?;
    if now_s.abs_diff(tsig.time_s) > tsig.fudge_s.into() {
        return Err(TsigError::BadTime);
    }
    // RFC 8945 5.2.2.1: how short a truncated MAC may be is a matter of policy.
    if tsig.mac.len() < key.min_mac_len() {
        return Err(TsigError::BadTrunc);
    }
    // The next digest has the MAC as it was sent, truncated or not (RFC 8945 4.3.1).
    Ok(Mac::new(tsig.mac).expect("no longer than a full MAC"))
}
