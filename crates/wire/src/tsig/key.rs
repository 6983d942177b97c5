//! Keys: a name, an algorithm and a secret.

use std::str::FromStr;

use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::name::NameError;
use crate::{Name, NameRef};

/// A shared secret with its name and algorithm. Its text form is `ALGORITHM:NAME:SECRET`, the secret in base64.
#[derive(Clone, Debug)]
pub struct Key {
    /// In lower case, as digests have it (RFC 8945 4.3.3).
    name: Name,
    algorithm: Name,
    hmac: hmac::Key,
}

/// Why a text is no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// It has not three parts.
    #[error("not of the form ALGORITHM:NAME:SECRET")]
    Form,
    /// The algorithm is not known.
    #[error("no algorithm of that name; there are hmac-sha1, hmac-sha224, hmac-sha256, hmac-sha384 and hmac-sha512")]
    Algorithm,
    /// The name is none.
    #[error("the name of the key: {0}")]
    Name(#[from] NameError),
    /// The secret is not base64, or empty.
    #[error("the secret is not base64")]
    Secret,
}

/// RFC 8945 6: all that are not forbidden to use, but for the truncated forms. HMAC-MD5 is.
const ALGORITHMS: [(&str, hmac::Algorithm); 5] = [
    ("hmac-sha1", hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY),
    ("hmac-sha224", hmac::HMAC_SHA224),
    ("hmac-sha256", hmac::HMAC_SHA256),
    ("hmac-sha384", hmac::HMAC_SHA384),
    ("hmac-sha512", hmac::HMAC_SHA512),
];

impl Key {
    /// A key; `algorithm` is its name in any case, with or without a final dot.
    pub fn new(algorithm: &str, name: NameRef<'_>, secret: &[u8]) -> Result<Key, KeyError> {
        let wanted = algorithm.trim_end_matches('.');
        let (text, hmac) =
            ALGORITHMS.into_iter().find(|(text, _)| text.eq_ignore_ascii_case(wanted)).ok_or(KeyError::Algorithm)?;
        if secret.is_empty() {
            return Err(KeyError::Secret);
        }
        let (name, algorithm) = (name.to_owned().to_lowercase(), text.parse()?);
        Ok(Key { name, algorithm, hmac: hmac::Key::new(hmac, secret) })
    }

    /// Its name, in lower case.
    pub fn name(&self) -> NameRef<'_> {
        self.name.as_ref()
    }

    /// The name of its algorithm, in lower case.
    pub fn algorithm(&self) -> NameRef<'_> {
        self.algorithm.as_ref()
    }

    pub(super) fn hmac(&self) -> &hmac::Key {
        &self.hmac
    }

    /// Octets of a whole MAC.
    pub(super) fn mac_len(&self) -> usize {
        self.hmac.algorithm().digest_algorithm().output_len()
    }
}

impl FromStr for Key {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Key, KeyError> {
        let mut parts = text.splitn(3, ':');
        let (Some(algorithm), Some(name), Some(secret)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(KeyError::Form);
        };
        let name: Name = name.parse()?;
        let secret = STANDARD.decode(secret).map_err(|_| KeyError::Secret)?;
        Key::new(algorithm, name.as_ref(), &secret)
    }
}
