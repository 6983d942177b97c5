//! TLS for zone transfers and queries (RFC 9103, RFC 7858): configurations of both sides, and TLS over a non-blocking stream.
//!
//! Only TLS 1.3 is spoken (RFC 9103 7.2). [`ServerTls`] is for the listeners, [`TlsPeers`] for connections to primaries.

mod byte_stream;
mod certificate_verifier;
mod client_certificate;
mod client_config;
mod error_text;
mod files;
#[cfg(test)]
mod listener_tests;
mod peers;
mod quic_byte_stream;
mod quic_config;
mod quic_sessions;
pub mod record_layer;
pub mod reload;
#[cfg(test)]
mod reload_tests;
mod self_signed;
mod server_config;
mod stream;
#[cfg(test)]
mod stream_tests;
#[cfg(test)]
pub(crate) mod test_certificates;
#[cfg(test)]
mod tests;
mod ticket_keys;
mod traffic_secrets;

pub use byte_stream::TlsConnector;
pub use client_certificate::ClientCertificate;
pub use client_config::{ClientTls, TlsError};
pub use files::TlsFileError;
pub use peers::TlsPeers;
pub use quic_config::{ALPN_DOQ, RETIRED_IDS};
pub use reload::{DaemonTls, ReadTls};
pub use server_config::{OwnCertificate, ServerTls, ServerTlsFiles};
pub use stream::{MIN_BUFFER, SESSION_MEMORY, TlsStream};

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::{CipherSuite, SupportedProtocolVersion};

/// RFC 9103 7.1: the ALPN of DNS over TLS.
const ALPN_DOT: &[u8] = b"dot";

/// RFC 9103 7.2: zones are transferred over TLS 1.3 or later only. Queries on the same port need no older version.
static VERSIONS: [&SupportedProtocolVersion; 1] = [&rustls::version::TLS13];

/// The library's algorithms, suites with SHA-256 first: the key schedule of a handshake hashes some fifty blocks, and processors
/// have instructions for SHA-256, but few for SHA-384. RFC 8446 9.1 demands the first suite of every implementation.
fn crypto() -> Arc<CryptoProvider> {
    let mut provider = aws_lc_rs::default_provider();
    provider.cipher_suites.sort_by_key(|suite| suite.suite() != CipherSuite::TLS13_AES_128_GCM_SHA256);
    Arc::new(provider)
}
