//! The settings of QUIC connections: little memory for each, and nothing that DNS does not need.

use std::sync::Arc;
use std::time::Duration;

use quinn_proto::crypto::rustls::NoInitialCipherSuite;
use quinn_proto::{EndpointConfig, IdleTimeout, ServerConfig, TransportConfig, VarInt};

use super::super::client_counts::ClientCounts;
use super::super::counters::ListenerCounters;
use super::super::late_reply::MAX_LATE;
use super::initial_queue::InitialKeys;
use super::tls_session::TlsAcceptor;

/// RFC 9000 15: the version.
const QUIC_V1: u32 = 1;
/// RFC 9250 5.8: queries that a client may have in progress on a connection.
pub(super) const STREAMS: u32 = 100;
/// The same until it has half as many: `quinn-proto` keeps memory for each stream that may be opened.
pub(super) const FIRST_STREAMS: u32 = 16;
/// Octets of a stream and of all streams of a connection that may arrive before they are read, which is at once where none is
/// missing before them. Longer messages arrive in several windows.
const STREAM_WINDOW: u32 = 8 << 10;
const CONNECTION_WINDOW: u32 = 32 << 10;
/// Octets of responses that wait to be acknowledged: a transfer of 25 Mbit/s with a round-trip time of 80 ms.
pub(super) const SEND_WINDOW: u64 = 256 << 10;
/// Octets that may arrive for a connection attempt that waits, and for all of a thread.
const WAITING_OCTETS: u64 = 8 << 10;
const ALL_WAITING_OCTETS: u64 = 1 << 20;

/// The settings of connections that are closed after this time without progress. `quinn-proto` gives them up later: one that waits for a
/// late response has no packets meanwhile.
pub(super) fn transport(idle_timeout: Duration) -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(VarInt::from_u32(FIRST_STREAMS))
        // RFC 9250 4.3.3: there are no unidirectional streams.
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .max_idle_timeout(IdleTimeout::try_from(idle_timeout + MAX_LATE).ok())
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
        .receive_window(VarInt::from_u32(CONNECTION_WINDOW))
        .send_window(SEND_WINDOW)
        .datagram_receive_buffer_size(None)
        // Most connections end before the probes of a path would pay.
        .mtu_discovery_config(None);
    transport
}

/// What new connections are accepted with.
pub(super) fn server_config(
    tls: &Arc<rustls::ServerConfig>,
    initial_keys: &Arc<InitialKeys>,
    counters: &Arc<ListenerCounters>,
    transport: &Arc<TransportConfig>,
) -> Result<Arc<ServerConfig>, NoInitialCipherSuite> {
    let mut config = ServerConfig::with_crypto(Arc::new(TlsAcceptor::new(tls, initial_keys, counters)?));
    config
        .transport_config(transport.clone())
        // RFC 9250 5.5.4: clients should begin a new session when their address changes. The kernel distributes clients over the threads by
        // their address, so a connection cannot change it.
        .migration(false)
        .incoming_buffer_size(WAITING_OCTETS)
        .incoming_buffer_size_total(ALL_WAITING_OCTETS);
    Ok(Arc::new(config))
}

/// The same with other TLS settings. The key of Retry tokens stays, so that clients can use those that they have.
pub(super) fn with_tls(
    config: &ServerConfig,
    tls: &Arc<rustls::ServerConfig>,
    initial_keys: &Arc<InitialKeys>,
    counters: &Arc<ListenerCounters>,
) -> Result<Arc<ServerConfig>, NoInitialCipherSuite> {
    let mut config = config.clone();
    config.crypto = Arc::new(TlsAcceptor::new(tls, initial_keys, counters)?);
    Ok(Arc::new(config))
}

/// The settings of a thread. Its connection IDs are its own, so that it drops packets for those of other threads (RFC 9000 10.3).
pub(super) fn endpoint_config() -> Arc<EndpointConfig> {
    let mut config = EndpointConfig::default();
    // Without the drafts of it.
    config.supported_versions(vec![QUIC_V1]);
    Arc::new(config)
}

/// What all threads share.
#[derive(Clone)]
pub(in crate::listen) struct QuicShared {
    /// The kernel distributes the connections of a client by its ports, too.
    pub(super) clients: ClientCounts,
}

impl QuicShared {
    /// For this many connections, without any.
    pub(in crate::listen) fn new(connections: usize) -> QuicShared {
        QuicShared { clients: ClientCounts::new(connections) }
    }
}
