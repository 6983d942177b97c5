//! TLS over the socket of a connection: the handshake, and what the client proved in it.

use super::proxy::{self, ProxyError};
use crate::tls::{ClientCertificate, MIN_BUFFER, ServerTls, TlsStream};
use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use wire::Name;

/// The TLS side of a connection.
pub(super) struct TlsConnection {
    /// Nothing before the first [`TlsConnection::receive`]: until a client sends or closes, it takes no more memory than an idle session.
    stream: Option<TlsStream>,
    server: Arc<ServerTls>,
    client: Option<Box<ClientCertificate>>,
}

impl TlsConnection {
    /// For a connection that was just accepted.
    pub(super) fn new(server: &Arc<ServerTls>) -> TlsConnection {
        TlsConnection { stream: None, server: server.clone(), client: None }
    }

    /// Nothing before the first [`TlsConnection::receive`].
    pub(super) fn stream(&self) -> Option<&TlsStream> {
        self.stream.as_ref()
    }

    pub(super) fn stream_mut(&mut self) -> Option<&mut TlsStream> {
        self.stream.as_mut()
    }

    /// Whether the handshake is not complete.
    pub(super) fn is_handshaking(&self) -> bool {
        self.stream().is_none_or(TlsStream::is_handshaking)
    }

    /// Whether there is more than an established session that waits, or a client that has had no turn.
    pub(super) fn is_active(&self) -> bool {
        self.stream().is_some_and(TlsStream::is_active)
    }

    /// The names of the client's certificate, as the authorities of the last reload certify them.
    pub(super) fn client_names(&mut self) -> &[Name] {
        self.client.as_mut().map_or(&[], |client| self.server.client_names(client))
    }

    /// Reads once, using the first half of `buffer` for encrypted octets; returns what was decrypted, or `None`.
    pub(super) fn receive<'b>(&mut self, socket: &TcpStream, buffer: &'b mut [u8]) -> io::Result<Option<&'b [u8]>> {
        debug_assert!(buffer.len() >= 2 * MIN_BUFFER);
        let (records, octets) = buffer.split_at_mut(buffer.len() / 2);
        let is_first = self.stream.is_none();
        let stream = match &mut self.stream {
            Some(stream) => stream,
            none => {
                // Another connection may have left one in the buffer.
                proxy::erase_header(records);
                none.insert(self.server.accept().map_err(io::Error::other)?)
            }
        };
        let was_handshaking = stream.is_handshaking();
        let received = stream.receive(&mut &*socket, records, octets).map_err(|error| {
            if is_first && proxy::is_header(records) { ProxyError::Unexpected.into() } else { error }
        })?;
        if was_handshaking && !stream.is_handshaking() {
            self.client = stream.take_client().map(|chain| self.server.client_certificate(chain));
        }
        Ok(received.map(|len| &octets[..len]))
    }
}
