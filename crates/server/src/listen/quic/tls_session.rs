//! The TLS side of connections (RFC 9001), as that of `quinn-proto`, with two differences: what `rustls` has is freed once the handshake
//! is complete, which is a fifth of a connection's memory, and handshakes that resume a session are counted.

use super::super::counters::ListenerCounters;
use super::initial_queue::InitialKeys;
use quinn_proto::crypto::rustls::{NoInitialCipherSuite, QuicServerConfig};
use quinn_proto::crypto::{
    ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, ServerConfig, Session, UnsupportedVersion,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectionId, Side, TransportError, TransportErrorCode};
use rustls::pki_types::CertificateDer;
use rustls::quic::{KeyChange, Secrets, ServerConnection, Version};
use rustls::{AlertDescription, HandshakeKind};
use std::any::Any;
use std::sync::Arc;

/// What a thread accepts connections with.
pub(super) struct TlsAcceptor {
    tls: Arc<rustls::ServerConfig>,
    /// Makes the keys of Initial packets, and the tags of Retry packets.
    initial: QuicServerConfig,
    initial_keys: Arc<InitialKeys>,
    counters: Arc<ListenerCounters>,
}

/// The TLS side of one connection.
struct TlsSession {
    acceptor: Arc<TlsAcceptor>,
    version: u32,
    /// `None` once the handshake is complete.
    handshake: Option<Box<ServerConnection>>,
    /// What the keys of key updates are derived from.
    next_secrets: Option<Secrets>,
    /// The certificate chain of the client.
    client: Option<Vec<CertificateDer<'static>>>,
}

impl TlsAcceptor {
    pub(super) fn new(
        tls: &Arc<rustls::ServerConfig>,
        initial_keys: &Arc<InitialKeys>,
        counters: &Arc<ListenerCounters>,
    ) -> Result<TlsAcceptor, NoInitialCipherSuite> {
        let (initial, initial_keys, counters) = (tls.clone().try_into()?, initial_keys.clone(), counters.clone());
        Ok(TlsAcceptor { tls: tls.clone(), initial, initial_keys, counters })
    }
}

impl ServerConfig for TlsAcceptor {
    /// Those of a packet that may begin a connection. With this error `quinn-proto` ignores it.
    fn initial_keys(&self, version: u32, id: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        if self.initial_keys.ask() { self.initial.initial_keys(version, id) } else { Err(UnsupportedVersion) }
    }

    fn retry_tag(&self, version: u32, id: &ConnectionId, packet: &[u8]) -> [u8; 16] {
        self.initial.retry_tag(version, id, packet)
    }

    fn start_session(self: Arc<Self>, version: u32, parameters: &TransportParameters) -> Box<dyn Session> {
        let mut octets = Vec::new();
        parameters.write(&mut octets);
        // As in `quinn-proto`: these drafts have a salt of their own.
        let is_draft = (0xff00_001d..=0xff00_0020).contains(&version);
        let tls_version = if is_draft { Version::V1Draft } else { Version::V1 };
        let tls = ServerConnection::new(self.tls.clone(), tls_version, octets).expect("settings for QUIC");
        let handshake = Some(Box::new(tls));
        Box::new(TlsSession { acceptor: self, version, handshake, next_secrets: None, client: None })
    }
}

impl TlsSession {
    /// The handshake is complete, and what it had to send is taken.
    fn complete(&mut self) {
        let Some(tls) = self.handshake.take() else { return };
        self.client = tls.peer_certificates().map(<[_]>::to_vec);
        let is_resumed = tls.handshake_kind() == Some(HandshakeKind::Resumed);
        self.acceptor.counters.resumed.add(usize::from(is_resumed));
    }
}

impl Session for TlsSession {
    fn initial_keys(&self, id: &ConnectionId, _: Side) -> Keys {
        self.acceptor
            .initial
            .initial_keys(self.version, id)
            .unwrap_or_else(|_| unreachable!("the version was accepted"))
    }

    /// Something once the key exchange is done.
    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        let is_done = |tls: &ServerConnection| tls.negotiated_key_exchange_group().is_some();
        self.handshake.as_deref().is_none_or(is_done).then(|| -> Box<dyn Any> { Box::new(()) })
    }

    /// That of a resumed session is there with the first query, before the client has proved that the session is its own.
    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        let of_handshake = |tls: &ServerConnection| tls.peer_certificates().map(<[_]>::to_vec);
        let chain = self.handshake.as_deref().map_or_else(|| self.client.clone(), of_handshake);
        chain.map(|chain| -> Box<dyn Any> { Box::new(chain) })
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        let keys = self.handshake.as_ref()?.zero_rtt_keys()?;
        Some((Box::new(keys.header), Box::new(keys.packet)))
    }

    fn early_data_accepted(&self) -> Option<bool> {
        None
    }

    fn is_handshaking(&self) -> bool {
        self.handshake.as_ref().is_some_and(|tls| tls.is_handshaking())
    }

    fn read_handshake(&mut self, octets: &[u8]) -> Result<bool, TransportError> {
        let Some(tls) = &mut self.handshake else {
            // RFC 9001 6: a KeyUpdate is an error, and clients send nothing else.
            return Err(alert(AlertDescription::UnexpectedMessage, "a TLS message after the handshake".into()));
        };
        tls.read_hs(octets).map_err(|error| match tls.alert() {
            Some(description) => alert(description, error.to_string()),
            None => failure(TransportErrorCode::PROTOCOL_VIOLATION, format!("TLS: {error}")),
        })?;
        Ok(false)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let octets = self.handshake.as_ref().and_then(|tls| tls.quic_transport_parameters());
        Ok(octets.map(|mut octets| TransportParameters::read(Side::Server, &mut octets)).transpose()?)
    }

    fn write_handshake(&mut self, out: &mut Vec<u8>) -> Option<Keys> {
        let tls = self.handshake.as_mut()?;
        let before = out.len();
        let Some(change) = tls.write_hs(out) else {
            if out.len() == before && !tls.is_handshaking() {
                self.complete();
            }
            return None;
        };
        let keys = match change {
            KeyChange::Handshake { keys } => keys,
            KeyChange::OneRtt { keys, next } => {
                self.next_secrets = Some(next);
                keys
            }
        };
        let header =
            KeyPair::<Box<dyn HeaderKey>> { local: Box::new(keys.local.header), remote: Box::new(keys.remote.header) };
        let packet =
            KeyPair::<Box<dyn PacketKey>> { local: Box::new(keys.local.packet), remote: Box::new(keys.remote.packet) };
        Some(Keys { header, packet })
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let keys = self.next_secrets.as_mut()?.next_packet_keys();
        Some(KeyPair { local: Box::new(keys.local), remote: Box::new(keys.remote) })
    }

    /// Of clients only.
    fn is_valid_retry(&self, _: &ConnectionId, _: &[u8], _: &[u8]) -> bool {
        false
    }

    /// Nobody asks for it.
    fn export_keying_material(&self, _: &mut [u8], _: &[u8], _: &[u8]) -> Result<(), ExportKeyingMaterialError> {
        Err(ExportKeyingMaterialError)
    }
}

/// RFC 9001 4.8: an alert as an error of the connection.
fn alert(description: AlertDescription, reason: String) -> TransportError {
    failure(TransportErrorCode::crypto(description.into()), reason)
}

fn failure(code: TransportErrorCode, reason: String) -> TransportError {
    TransportError { code, frame: None, reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::{OwnCertificate, ServerTls, ServerTlsFiles};

    #[test]
    fn rfc_9001_6_a_tls_message_after_the_handshake_is_an_error() {
        let files = ServerTlsFiles { own: OwnCertificate::SelfSigned, authorities: None, ticket_keys: None };
        let tls = ServerTls::read(&files).expect("no files").quic();
        let acceptor = TlsAcceptor::new(&tls, &Arc::default(), &Arc::default()).expect("a cipher suite");
        let (acceptor, handshake) = (Arc::new(acceptor), None);
        let mut session = TlsSession { acceptor, version: 1, handshake, next_secrets: None, client: None };
        const KEY_UPDATE: [u8; 5] = [24, 0, 0, 1, 0];
        let error = session.read_handshake(&KEY_UPDATE).expect_err("no TLS message is allowed");
        // CRYPTO_ERROR with the alert unexpected_message (10).
        assert_eq!(u64::from(error.code), 0x10a);
        assert!(session.write_handshake(&mut Vec::new()).is_none() && !session.is_handshaking());
    }
}
