//! TLS over the socket of a connection: the handshake, and what the client proved in it.

use crate::tls::{MIN_BUFFER, ServerTls, TlsStream};
use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use wire::Name;

/// The TLS side of a connection.
pub(super) struct TlsConnection {
    pub(super) stream: TlsStream,
    server: Arc<ServerTls>,
    client_names: Box<[Name]>,
}

impl TlsConnection {
    /// For a connection that was just accepted.
    pub(super) fn new(server: &Arc<ServerTls>) -> Result<TlsConnection, rustls::Error> {
        Ok(TlsConnection { stream: server.accept()?, server: server.clone(), client_names: Box::default() })
    }

    /// The names of the client's certificate.
    pub(super) fn client_names(&self) -> &[Name] {
        &self.client_names
    }

    /// Reads once, using the first half of `buffer` for encrypted octets; returns what was decrypted, or `None`.
    pub(super) fn receive<'b>(&mut self, socket: &TcpStream, buffer: &'b mut [u8]) -> io::Result<Option<&'b [u8]>> {
        debug_assert!(buffer.len() >= 2 * MIN_BUFFER);
        let was_handshaking = self.stream.is_handshaking();
        let (records, octets) = buffer.split_at_mut(buffer.len() / 2);
        let received = self.stream.receive(&mut &*socket, records, octets)?;
        if was_handshaking && !self.stream.is_handshaking() {
            self.client_names = self.server.client_names(&mut self.stream);
        }
        Ok(received.map(|len| &octets[..len]))
    }
}
