//! TSIG keys: name, algorithm and secret.

use std::ops::RangeInclusive;
use std::str::FromStr;

use aws_lc_rs::hmac;
use data_encoding::BASE64;

use crate::name::NameError;
use crate::{Name, NameRef};

/// A shared secret with its name and algorithm; in text `ALGORITHM:NAME:SECRET`, the secret in base64.
#[derive(Clone, Debug)]
pub struct TsigKey {
    /// In lower case, as the digest needs it (RFC 8945 4.3.3).
    name: Name,
    algorithm: Name,
    hmac: hmac::Key,
    /// Shorter MACs are refused.
    min_mac_len: usize,
}

/// Why text is not a TSIG key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TsigKeyError {
    /// Fewer than three parts.
    #[error("not of the form ALGORITHM:NAME:SECRET")]
    Form,
    /// Unknown algorithm.
    #[error("no algorithm of that name; there are hmac-sha1, hmac-sha224, hmac-sha256, hmac-sha384 and hmac-sha512")]
    Algorithm,
    /// Invalid key name.
    #[error("the name of the key: {0}")]
    Name(#[from] NameError),
    /// The secret is empty or not base64.
    #[error("the secret is not base64")]
    Secret,
    /// RFC 8945 5.2.2.1 permits no MACs of this length.
    #[error("a MAC of this algorithm may be truncated to {min} octets, and has at most {max}")]
    MacLength {
        /// The least octets of a truncated MAC.
        min: usize,
        /// The octets of a full MAC.
        max: usize,
    },
}

/// RFC 8945 6: all algorithms except HMAC-MD5, which must not be used, and the truncated ones.
const ALGORITHMS: [(&str, hmac::Algorithm); 5] = [
    ("hmac-sha1", hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY),
    ("hmac-sha224", hmac::HMAC_SHA224),
    ("hmac-sha256", hmac::HMAC_SHA256),
    ("hmac-sha384", hmac::HMAC_SHA384),
    ("hmac-sha512", hmac::HMAC_SHA512),
];

/// The names of the algorithms of keys.
pub const ALGORITHM_NAMES: [&str; 5] = {
    let [(sha1, _), (sha224, _), (sha256, _), (sha384, _), (sha512, _)] = ALGORITHMS;
    [sha1, sha224, sha256, sha384, sha512]
};

impl PartialEq for TsigKey {
    /// Whether both have the same name, algorithm, secret and policy. The secret itself is not accessible; equal secrets make equal MACs.
    fn eq(&self, other: &TsigKey) -> bool {
        let mac = |key: &TsigKey| hmac::sign(&key.hmac, b"");
        let parts = |key: &TsigKey| (key.name.clone(), key.algorithm.clone(), key.min_mac_len);
        parts(self) == parts(other) && mac(self).as_ref() == mac(other).as_ref()
    }
}

impl TsigKey {
    /// A key that accepts full MACs only; `algorithm` is a name in any case, with or without the final dot.
    pub fn new(algorithm: &str, name: NameRef<'_>, secret: &[u8]) -> Result<TsigKey, TsigKeyError> {
        let wanted = algorithm.trim_end_matches('.');
        let (text, hmac) = ALGORITHMS
            .into_iter()
            .find(|(text, _)| text.eq_ignore_ascii_case(wanted))
            .ok_or(TsigKeyError::Algorithm)?;
        if secret.is_empty() {
            return Err(TsigKeyError::Secret);
        }
        let (name, algorithm) = (name.to_owned().to_lowercase(), text.parse()?);
        let min_mac_len = hmac.digest_algorithm().output_len();
        Ok(TsigKey { name, algorithm, hmac: hmac::Key::new(hmac, secret), min_mac_len })
    }

    /// The same key, which also accepts MACs that were truncated to this many octets or more: the local policy of RFC 8945 5.2.2.1. It
    /// signs with full MACs, since those of responses are to be at least as long as those of requests.
    pub fn with_min_mac_len(self, octets: usize) -> Result<TsigKey, TsigKeyError> {
        let lengths = self.mac_lengths();
        match lengths.contains(&octets) {
            true => Ok(TsigKey { min_mac_len: octets, ..self }),
            false => Err(TsigKeyError::MacLength { min: *lengths.start(), max: *lengths.end() }),
        }
    }

    /// The name of the key, in lower case.
    pub fn name(&self) -> NameRef<'_> {
        self.name.as_ref()
    }

    /// The name of the algorithm, in lower case.
    pub fn algorithm(&self) -> NameRef<'_> {
        self.algorithm.as_ref()
    }

    pub(super) fn hmac(&self) -> &hmac::Key {
        &self.hmac
    }

    /// The length of a full MAC, in octets.
    pub(super) fn mac_len(&self) -> usize {
        self.hmac.algorithm().digest_algorithm().output_len()
    }

    /// The lengths that a MAC may have (RFC 8945 5.2.2.1): not shorter than half of the full one, or than 10 octets.
    pub(super) fn mac_lengths(&self) -> RangeInclusive<usize> {
        10.max(self.mac_len() / 2)..=self.mac_len()
    }

    /// The length of the shortest MAC that is accepted, in octets; that of a full one if none may be truncated.
    pub fn min_mac_len(&self) -> usize {
        self.min_mac_len
    }

    /// Whether truncated MACs are accepted.
    pub fn accepts_truncated(&self) -> bool {
        self.min_mac_len < self.mac_len()
    }
}

impl FromStr for TsigKey {
    type Err = TsigKeyError;

    fn from_str(text: &str) -> Result<TsigKey, TsigKeyError> {
        let mut parts = text.splitn(3, ':');
        let (Some(algorithm), Some(name), Some(secret)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(TsigKeyError::Form);
        };
        let name: Name = name.parse()?;
        let secret = BASE64.decode(secret.as_bytes()).map_err(|_| TsigKeyError::Secret)?;
        TsigKey::new(algorithm, name.as_ref(), &secret)
    }
}
