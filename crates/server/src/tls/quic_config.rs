//! The TLS side of QUIC listeners (RFC 9001): the certificate and the authorities of the TLS listeners, with an ALPN, tickets and
//! early data of their own.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::server::StoresServerSessions;

use super::quic_sessions::QuicSessions;

/// RFC 9250 4.1: the ALPN of DNS over QUIC.
pub const ALPN_DOQ: &[u8] = b"doq";

/// Connection IDs that a peer may retire. `quinn-proto` makes another one for each, and keeps it until it is acknowledged, however many
/// there are.
pub const RETIRED_IDS: u64 = 64;

/// Sessions that clients may resume, of all threads: about 500 octets each without a client certificate.
const SESSIONS: usize = 16_384;

/// Where sessions are kept. RFC 8446 8.1: early data needs single-use tickets, so that it is accepted once, and state to know.
pub(super) fn sessions() -> Arc<dyn StoresServerSessions> {
    Arc::new(QuicSessions::new(SESSIONS))
}

/// The configuration for QUIC beside `tls`.
pub(super) fn for_quic(tls: &ServerConfig, sessions: Arc<dyn StoresServerSessions>) -> ServerConfig {
    let mut config = tls.clone();
    config.alpn_protocols = vec![ALPN_DOQ.to_vec()];
    config.session_storage = sessions;
    // The default: tickets name stored sessions.
    config.ticketer = Arc::new(StoredSessions);
    config.send_tls13_tickets = 1;
    // RFC 9001 4.6.1: the only value besides 0.
    config.max_early_data_size = u32::MAX;
    config
}

/// No tickets with the session in them.
#[derive(Debug)]
struct StoredSessions;

impl rustls::server::ProducesTickets for StoredSessions {
    fn enabled(&self) -> bool {
        false
    }

    fn lifetime(&self) -> u32 {
        0
    }

    fn encrypt(&self, _plain: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn decrypt(&self, _ticket: &[u8]) -> Option<Vec<u8>> {
        None
    }
}
