//! The traffic secrets of a handshake by `rustls`, of which the record layer makes its keys.
//!
//! `rustls` gives keys away, and the secrets by which they are replaced (RFC 8446 7.2) only to a [`KeyLog`]. So each handshake has
//! one of its own, and the keys made of its secrets are compared with those of `rustls`. Its module `kernel` keeps the secrets as
//! well, beside much that an established connection of a server does not need.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use rustls::{ConnectionTrafficSecrets, ExtractedSecrets, KeyLog};
use zeroize::Zeroizing;

use super::record_layer::{CipherSuite, RecordLayer, TrafficKeys};

/// The names of the secrets in a key log of NSS.
const CLIENT: &str = "CLIENT_TRAFFIC_SECRET_0";
const SERVER: &str = "SERVER_TRAFFIC_SECRET_0";

/// The secrets of both directions of one connection.
#[derive(Default)]
pub(super) struct TrafficSecrets(Mutex<[Secret; 2]>);

/// Part of the configuration of `rustls`, which can be printed; the secrets are not.
impl fmt::Debug for TrafficSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TrafficSecrets")
    }
}

type Secret = Zeroizing<Vec<u8>>;

impl KeyLog for TrafficSecrets {
    fn will_log(&self, label: &str) -> bool {
        direction(label).is_some()
    }

    fn log(&self, label: &str, _client_random: &[u8], secret: &[u8]) {
        if let Some(direction) = direction(label) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)[direction] = Zeroizing::new(secret.to_vec());
        }
    }
}

fn direction(label: &str) -> Option<usize> {
    [CLIENT, SERVER].iter().position(|name| *name == label)
}

impl TrafficSecrets {
    /// The record layer of the server; `None` if `rustls` has other keys.
    pub(super) fn record_layer(&self, rustls: &ExtractedSecrets) -> Option<RecordLayer> {
        let secrets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let [client, server] = &*secrets;
        Some(RecordLayer::new(keys(client, &rustls.rx)?, keys(server, &rustls.tx)?))
    }
}

fn keys(secret: &Secret, (sequence, rustls): &(u64, ConnectionTrafficSecrets)) -> Option<TrafficKeys> {
    let suite = CipherSuite::of(rustls).filter(|suite| suite.secret_len() == secret.len())?;
    Some(TrafficKeys::new(suite, secret, *sequence)).filter(|keys| keys.matches(rustls))
}
