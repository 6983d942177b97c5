//! TLS over the socket of a connection: the handshake, and what the client proved in it.

use crate::tls::{ClientCertificate, MIN_BUFFER, ServerTls, TlsStream};
use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use wire::Name;

/// The TLS side of a connection.
pub(super) struct TlsConnection {
    pub(super) stream: TlsStream,
    server: Arc<ServerTls>,
    client: Option<Box<ClientCertificate>>,
}

impl TlsConnection {
    /// For a connection that was just accepted.
    pub(super) fn new(server: &Arc<ServerTls>) -> Result<TlsConnection, rustls::Error> {
        Ok(TlsConnection { stream: server.accept()?, server: server.clone(), client: None })
    }

    /// The names of the client's certificate, as the authorities of the last reload certify them.
    pub(super) fn client_names(&mut self) -> &[Name] {
        self.client.as_mut().map_or(&[], |client| self.server.client_names(client))
    }

    /// Reads once, using the first half of `buffer` for encrypted octets; returns what was decrypted, or `None`.
    pub(super) fn receive<'b>(&mut self, socket: &TcpStream, buffer: &'b mut [u8]) -> io::Result<Option<&'b [u8]>> {
        debug_assert!(buffer.len() >= 2 * MIN_BUFFER);
        let was_handshaking = self.stream.is_handshaking();
        let (records, octets) = buffer.split_at_mut(buffer.len() / 2);
        let received = self.stream.receive(&mut &*socket, records, octets)?;
        if was_handshaking && !self.stream.is_handshaking() {
            self.client = self.stream.take_client().map(|chain| self.server.client_certificate(chain));
        }
        Ok(received.map(|len| &octets[..len]))
    }
}
