//! The keys of one direction: made of a traffic secret (RFC 8446 7.1 to 7.3), and the protection of single records (5.2, 5.3).

use aws_lc_rs::aead::{
    self, AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey,
};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::hkdf::{HKDF_SHA256, HKDF_SHA384, KeyType, Prk};
use rustls::ConnectionTrafficSecrets;
use zeroize::Zeroize;

/// The authentication tag of all suites, in octets.
pub(super) const TAG_LEN: usize = 16;
const MAX_SECRET_LEN: usize = 48;
const MAX_KEY_LEN: usize = 32;

/// The cipher suites of TLS 1.3 (RFC 8446 B.4) that `rustls` offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CipherSuite {
    /// TLS_AES_128_GCM_SHA256
    Aes128Gcm,
    /// TLS_AES_256_GCM_SHA384
    Aes256Gcm,
    /// TLS_CHACHA20_POLY1305_SHA256
    ChaCha20Poly1305,
}

impl CipherSuite {
    /// The suite that `rustls` has negotiated.
    pub(in crate::tls) fn of(rustls: &ConnectionTrafficSecrets) -> Option<CipherSuite> {
        match rustls {
            ConnectionTrafficSecrets::Aes128Gcm { .. } => Some(CipherSuite::Aes128Gcm),
            ConnectionTrafficSecrets::Aes256Gcm { .. } => Some(CipherSuite::Aes256Gcm),
            ConnectionTrafficSecrets::Chacha20Poly1305 { .. } => Some(CipherSuite::ChaCha20Poly1305),
            _ => None,
        }
    }

    fn aead(self) -> &'static aead::Algorithm {
        match self {
            CipherSuite::Aes128Gcm => &AES_128_GCM,
            CipherSuite::Aes256Gcm => &AES_256_GCM,
            CipherSuite::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        }
    }

    /// The length of a traffic secret: that of the suite's hash.
    pub fn secret_len(self) -> usize {
        if self == CipherSuite::Aes256Gcm { 48 } else { 32 }
    }

    /// HKDF-Expand-Label (RFC 8446 7.1) with an empty context.
    fn expand_label(self, secret: &[u8], label: &[u8], out: &mut [u8]) {
        let hash = if self == CipherSuite::Aes256Gcm { HKDF_SHA384 } else { HKDF_SHA256 };
        let (len, label_len) = ((out.len() as u16).to_be_bytes(), [6 + label.len() as u8]);
        let info = [&len[..], &label_len, b"tls13 ", label, &[0]];
        let expanded = Prk::new_less_safe(hash, secret).expand(&info, OutputLen(out.len())).map(|okm| okm.fill(out));
        assert_eq!(expanded, Ok(Ok(())), "HKDF can make 255 digests");
    }
}

struct OutputLen(usize);

impl KeyType for OutputLen {
    fn len(&self) -> usize {
        self.0
    }
}

/// The keys of one direction, and the number of its next record. The key schedule of the cipher is made when it is needed: it takes
/// 600 octets, and a fraction of a microsecond to make.
pub struct TrafficKeys {
    suite: CipherSuite,
    secret: [u8; MAX_SECRET_LEN],
    key: [u8; MAX_KEY_LEN],
    iv: [u8; NONCE_LEN],
    sequence: u64,
}

impl Drop for TrafficKeys {
    fn drop(&mut self) {
        self.secret.zeroize();
        self.key.zeroize();
        self.iv.zeroize();
    }
}

impl TrafficKeys {
    /// The keys that belong to a traffic secret, whose next record has the number `sequence`.
    ///
    /// # Panics
    /// If the secret does not have the length of the suite's hash.
    pub fn new(suite: CipherSuite, secret: &[u8], sequence: u64) -> TrafficKeys {
        let mut keys = TrafficKeys { suite, secret: [0; _], key: [0; _], iv: [0; _], sequence };
        keys.secret[..suite.secret_len()].copy_from_slice(secret);
        keys.derive();
        keys
    }

    /// RFC 8446 7.2: replaces the secret by its successor, after a KeyUpdate.
    pub(super) fn update(&mut self) {
        let mut next = [0; MAX_SECRET_LEN];
        let len = self.suite.secret_len();
        self.suite.expand_label(&self.secret[..len], b"traffic upd", &mut next[..len]);
        self.secret = next;
        next.zeroize();
        self.sequence = 0;
        self.derive();
    }

    /// RFC 8446 7.3.
    fn derive(&mut self) {
        let secret = &self.secret[..self.suite.secret_len()];
        self.suite.expand_label(secret, b"key", &mut self.key[..self.suite.aead().key_len()]);
        self.suite.expand_label(secret, b"iv", &mut self.iv);
    }

    /// Whether `rustls` has the same key and IV.
    pub(in crate::tls) fn matches(&self, rustls: &ConnectionTrafficSecrets) -> bool {
        let (key, iv) = match rustls {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv }
            | ConnectionTrafficSecrets::Aes256Gcm { key, iv }
            | ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (key, iv),
            _ => return false,
        };
        self.key[..self.suite.aead().key_len()] == *key.as_ref() && self.iv == iv.as_ref()
    }

    /// How many records these keys have protected.
    pub(super) fn records(&self) -> u64 {
        self.sequence
    }

    #[cfg(test)]
    pub(super) fn set_records(&mut self, records: u64) {
        self.sequence = records;
    }

    /// The cipher, for as many records as there are to protect now.
    pub(super) fn cipher(&self) -> RecordCipher {
        let key = UnboundKey::new(self.suite.aead(), &self.key[..self.suite.aead().key_len()]);
        RecordCipher(LessSafeKey::new(key.expect("the key has the length of the algorithm")))
    }

    /// RFC 8446 5.3: the nonce of the next record, which no other record has. 2^64 records take longer than any connection lives.
    fn next_nonce(&mut self) -> Nonce {
        let mut nonce = self.iv;
        for (octet, sequence) in nonce[4..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *octet ^= sequence;
        }
        self.sequence += 1;
        Nonce::assume_unique_for_key(nonce)
    }
}

/// The cipher of one direction, made of its current key.
pub(super) struct RecordCipher(LessSafeKey);

impl RecordCipher {
    /// Decrypts the payload of the next record in place; returns what was encrypted (RFC 8446 5.2).
    pub(super) fn open<'p>(
        &self,
        keys: &mut TrafficKeys,
        header: &[u8],
        payload: &'p mut [u8],
    ) -> Result<&'p mut [u8], Unspecified> {
        self.0.open_in_place(keys.next_nonce(), Aad::from(header), payload)
    }

    /// Encrypts `inner` in place as the next record; returns its tag.
    pub(super) fn seal(&self, keys: &mut TrafficKeys, header: &[u8], inner: &mut [u8]) -> [u8; TAG_LEN] {
        let tag = self.0.seal_in_place_separate_tag(keys.next_nonce(), Aad::from(header), inner);
        let tag = tag.expect("a record is short");
        tag.as_ref().try_into().expect("tags of TLS have 16 octets")
    }
}
