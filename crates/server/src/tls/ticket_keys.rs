//! Session tickets (RFC 8446 4.6.1) that several servers accept, as those behind one address should (RFC 9539 3.1): their keys come from
//! the file `tls-ticket-keys`.
//!
//! Without that file, `rustls` makes keys of its own for all threads, and replaces them every 6 hours.

use std::path::Path;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand;
use data_encoding::BASE64;
use rustls::server::ProducesTickets;
use zeroize::Zeroizing;

use super::files::{TlsFileError, read};

/// The octets of a key.
const KEY_LEN: usize = 32;
/// The octets of its identifier, with which a ticket begins; a nonce and the encrypted session follow.
const ID_LEN: usize = 8;
/// More keys than two days of replacing one every 6 hours need.
const MAX_KEYS: usize = 16;
/// How long clients keep a ticket, in seconds. It is the time between two keys of `rustls`.
const LIFETIME_S: u32 = 6 * 60 * 60;

/// The keys: the first one makes tickets, all of them are accepted.
#[derive(Debug)]
pub(super) struct TicketKeys(Vec<TicketKey>);

#[derive(Debug)]
struct TicketKey {
    id: [u8; ID_LEN],
    cipher: LessSafeKey,
}

impl TicketKeys {
    /// Reads a file of keys, one in base64 on each line. `#` starts a comment.
    pub(super) fn read(path: &Path) -> Result<TicketKeys, TlsFileError> {
        let octets = Zeroizing::new(read(path)?);
        let mut keys = Vec::new();
        for (index, line) in octets.split(|octet| *octet == b'\n').enumerate() {
            let line = line.split(|octet| *octet == b'#').next().unwrap_or_default().trim_ascii();
            if line.is_empty() {
                continue;
            }
            let key = TicketKey::parse(line).filter(|_| keys.len() < MAX_KEYS);
            keys.push(key.ok_or_else(|| TlsFileError::BadTicketKey { path: path.to_owned(), line: index + 1 })?);
        }
        if keys.is_empty() { Err(TlsFileError::NoTicketKey(path.to_owned())) } else { Ok(TicketKeys(keys)) }
    }
}

impl TicketKey {
    fn parse(text: &[u8]) -> Option<TicketKey> {
        let key = BASE64.decode(text).map(Zeroizing::new).ok().filter(|key| key.len() == KEY_LEN)?;
        let mut named = Zeroizing::new(b"identifier of a ticket key".to_vec());
        named.extend_from_slice(&key);
        let id = *digest(&SHA256, &named).as_ref().first_chunk()?;
        let cipher = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &key).ok()?);
        Some(TicketKey { id, cipher })
    }
}

impl ProducesTickets for TicketKeys {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        LIFETIME_S
    }

    fn encrypt(&self, session: &[u8]) -> Option<Vec<u8>> {
        let key = self.0.first()?;
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce).ok()?;
        let mut sealed = session.to_vec();
        key.cipher
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(key.id), &mut sealed)
            .ok()?;
        Some([&key.id[..], &nonce, &sealed].concat())
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (id, rest) = ticket.split_first_chunk::<ID_LEN>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        let key = self.0.iter().find(|key| key.id == *id)?;
        let mut session = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let len = key.cipher.open_in_place(nonce, Aad::from(key.id), &mut session).ok()?.len();
        session.truncate(len);
        Some(session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> Result<TicketKeys, String> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("tickets.keys");
        std::fs::write(&path, text).expect("written");
        TicketKeys::read(&path).map_err(|error| error.to_string())
    }

    fn key(octet: u8) -> String {
        BASE64.encode(&[octet; KEY_LEN])
    }

    #[test]
    fn tickets_of_all_keys_are_accepted_and_new_ones_have_the_first() {
        let old = keys(&format!("# the key of Monday\n{}\n", key(1))).expect("a key");
        let both = keys(&format!("{} # Tuesday\n\n{}", key(2), key(1))).expect("two keys");
        let ticket = old.encrypt(b"session").expect("random numbers");
        assert_eq!(both.decrypt(&ticket).as_deref(), Some(&b"session"[..]));
        let ticket = both.encrypt(b"session").expect("random numbers");
        assert_eq!(old.decrypt(&ticket), None);
        assert_ne!(both.encrypt(b"session"), Some(ticket.clone()), "a nonce is used once");
        for at in 0..ticket.len() {
            let mut changed = ticket.clone();
            changed[at] ^= 1;
            assert_eq!((both.decrypt(&changed), both.decrypt(&ticket[..at])), (None, None), "octet {at}");
        }
    }

    #[test]
    fn mistakes_name_the_line_and_say_how_to_make_a_key() {
        for (text, wanted) in
            [("", "no key"), ("# only this\n", "no key"), ("\nsecret\n", "line 2"), ("AAAA", "line 1")]
        {
            let error = keys(text).expect_err("a mistake");
            assert!(error.contains(wanted) && error.contains("openssl rand -base64 32"), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
        let many: String = (0..=MAX_KEYS as u8).map(|octet| key(octet) + "\n").collect();
        assert!(keys(&many).is_err_and(|error| error.contains("line 17")));
    }
}
