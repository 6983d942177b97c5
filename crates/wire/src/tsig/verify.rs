//! Verifying: a query by whoever answers it, or the answers of an exchange by whoever asked.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;

use super::record::{Tsig, find};
use super::{Fault, Key, Mac, Place, Signer, TooLong, digest_variables, follow};
use crate::NameRef;
use crate::message::Rcode;

/// RFC 8945 5.3.1: so many messages of a transfer may follow each other without a signature.
const MAX_UNSIGNED: u8 = 99;

/// Verifies a query; `None` for one that is not signed, else what signs the answers. `key_of` finds a key by its name, in lower case.
pub fn verify_query<'k, 'q>(
    query: &'q [u8],
    key_of: impl FnOnce(NameRef<'_>) -> Option<&'k Key>,
    now_s: u64,
) -> Result<Option<Signer<'k>>, Refusal<'k, 'q>> {
    let refusal = |key| move |fault| Refusal { fault, query, key };
    let Some((tsig, start)) = find(query).map_err(refusal(None))? else { return Ok(None) };
    let name = NameRef::from_wire(tsig.owner.wire()).expect("it was just read");
    let key = key_of(name).ok_or(Fault::Key).map_err(refusal(None))?;
    let mac = check(follow(key, None), key, Place::First, query, start, &tsig, now_s).map_err(refusal(Some(key)))?;
    Ok(Some(Signer::of_answers(key, mac)))
}

/// Why a query is not taken, and how that is told.
#[derive(Clone, Copy, Debug)]
pub struct Refusal<'k, 'q> {
    /// What is wrong.
    pub fault: Fault,
    query: &'q [u8],
    key: Option<&'k Key>,
}

impl Refusal<'_, '_> {
    /// RFC 8945 5.2: FORMERR for a malformed record, else NOTAUTH.
    pub fn rcode(&self) -> Rcode {
        if self.fault == Fault::Malformed { Rcode::FORMERR } else { Rcode::NOTAUTH }
    }

    /// Appends the record that tells the error to the answer that `out` has from `start` to its end; none to malformed queries.
    /// RFC 8945 5.3.2: wrong keys and MACs are answered unsigned, wrong times and truncated MACs signed.
    pub fn sign(&self, out: &mut Vec<u8>, start: usize, now_s: u64) -> Result<(), TooLong> {
        let tsig = match find(self.query) {
            Ok(Some((tsig, _))) if self.fault != Fault::Malformed => tsig,
            _ => return Ok(()),
        };
        let now = &now_s.to_be_bytes()[2..];
        // RFC 8945 5.2.3: the time of the query comes back, and the clock of the server beside it.
        let other = if self.fault == Fault::Time { now } else { &[] };
        let answer = tsig.refused(self.fault, other, [out[start], out[start + 1]]);
        match (self.fault, self.key, Mac::new(tsig.mac)) {
            (Fault::Time | Fault::Truncation, Some(key), Some(mac)) => {
                Signer::of_answers(key, mac).sign_as(answer, out, start).map(drop)
            }
            _ => {
                answer.append(out, start);
                Ok(())
            }
        }
    }
}

/// Writes to the start of `out` the record by which a server without any key answers a signed query (RFC 8945 5.2.1, 5.3.2), and
/// returns its length; `None` where the query has no proper one, or it does not fit.
pub fn write_key_refusal(query: &[u8], out: &mut [u8]) -> Option<usize> {
    let (tsig, _) = find(query).ok()??;
    let answer = tsig.refused(Fault::Key, &[], [query[0], query[1]]);
    let out = out.get_mut(..answer.len())?;
    answer.write(out);
    Some(out.len())
}

/// Verifies the answers to a query, in their order.
#[derive(Clone)]
pub struct Verifier<'k> {
    key: &'k Key,
    /// The last MAC and the messages behind it, none of them signed.
    digest: hmac::Context,
    place: Place,
    unsigned: u8,
}

impl<'k> Verifier<'k> {
    /// For the answers to the query that was signed with this MAC.
    pub fn new(key: &'k Key, query_mac: &Mac) -> Verifier<'k> {
        Verifier { key, digest: follow(key, Some(query_mac)), place: Place::First, unsigned: 0 }
    }

    /// Takes an answer. RFC 8945 5.3.1: the first one is signed, and one of every hundred; what is not yet signed for is not to be
    /// relied on before [`Verifier::finish`].
    pub fn take(&mut self, answer: &[u8], now_s: u64) -> Result<(), Fault> {
        let Some((tsig, start)) = find(answer)? else {
            if self.place == Place::First || self.unsigned == MAX_UNSIGNED {
                return Err(Fault::Unsigned);
            }
            self.unsigned += 1;
            self.digest.update(answer);
            return Ok(());
        };
        // RFC 8945 5.3.2: such answers cannot be signed, the server not having the key.
        if tsig.mac.is_empty() && tsig.error != 0 {
            return Err(Fault::Refused(tsig.error));
        }
        let digest = std::mem::replace(&mut self.digest, hmac::Context::with_key(self.key.hmac()));
        let mac = check(digest, self.key, self.place, answer, start, &tsig, now_s)?;
        if tsig.error != 0 {
            return Err(Fault::Refused(tsig.error));
        }
        self.digest = follow(self.key, Some(&mac));
        (self.place, self.unsigned) = (Place::Later, 0);
        Ok(())
    }

    /// RFC 8945 5.3.1: the last message is signed.
    pub fn finish(&self) -> Result<(), Fault> {
        if self.place == Place::First || self.unsigned > 0 { Err(Fault::Unsigned) } else { Ok(()) }
    }
}

/// Verifies a record in the order of RFC 8945 5.2; returns its MAC. `start` is where the record begins in the message.
fn check(
    mut digest: hmac::Context,
    key: &Key,
    place: Place,
    message: &[u8],
    start: usize,
    tsig: &Tsig<'_>,
    now_s: u64,
) -> Result<Mac, Fault> {
    if tsig.owner.wire() != key.name().wire() || tsig.algorithm != key.algorithm() {
        return Err(Fault::Key);
    }
    // RFC 8945 5.2.2.1: longer than the algorithm's, shorter than half of it or than 10 octets.
    if !(10.max(key.mac_len() / 2)..=key.mac_len()).contains(&tsig.mac.len()) {
        return Err(Fault::Malformed);
    }
    // RFC 8945 4.3.2: as it was before the record was added, with the id that was signed.
    let additional = u16::from_be_bytes([message[10], message[11]]) - 1;
    digest.update(&tsig.original_id);
    digest.update(&message[2..10]);
    digest.update(&additional.to_be_bytes());
    digest.update(&message[12..start]);
    digest_variables(&mut digest, place, &Tsig { algorithm: key.algorithm(), ..*tsig });
    let mac = digest.sign();
    verify_slices_are_equal(&mac.as_ref()[..tsig.mac.len()], tsig.mac).map_err(|_| Fault::Mac)?;
    if now_s.abs_diff(tsig.time_s) > tsig.fudge_s.into() {
        return Err(Fault::Time);
    }
    if tsig.mac.len() < key.mac_len() {
        return Err(Fault::Truncation);
    }
    Ok(Mac::new(tsig.mac).expect("it is as long as the algorithm's"))
}
