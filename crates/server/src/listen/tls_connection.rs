//! TLS over the socket of a connection: the handshake, and what the client proved in it.

use crate::tls::{MIN_BUFFER, ServerTls, TlsStream};
use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use wire::Name;

/// The TLS side of a connection.
pub(super) struct TlsConnection {
    stream: TlsStream,
    server: Arc<ServerTls>,
    client_names: Box<[Name]>,
}

impl TlsConnection {
    /// For a connection that was just accepted.
    pub(super) fn new(server: &Arc<ServerTls>) -> Result<TlsConnection, rustls::Error> {
        Ok(TlsConnection { stream: server.accept()?, server: server.clone(), client_names: Box::default() })
    }

    pub(super) fn is_handshaking(&self) -> bool {
        self.stream.is_handshaking()
    }

    /// Whether it is in its handshake, has the start of a record, or output waits.
    pub(super) fn is_active(&self) -> bool {
        self.stream.is_active()
    }

    /// Whether encrypted output waits.
    pub(super) fn has_output(&self) -> bool {
        self.stream.has_output()
    }

    pub(super) fn memory(&self) -> usize {
        self.stream.memory()
    }

    /// The names of the client's certificate.
    pub(super) fn client_names(&self) -> &[Name] {
        &self.client_names
    }

    /// Reads once, using the first half of `buffer` for encrypted octets; returns what was decrypted, or `None`.
    pub(super) fn receive<'b>(&mut self, socket: &TcpStream, buffer: &'b mut [u8]) -> io::Result<Option<&'b [u8]>> {
        debug_assert!(buffer.len() >= 2 * MIN_BUFFER);
        let was_handshaking = self.is_handshaking();
        let (records, octets) = buffer.split_at_mut(buffer.len() / 2);
        let received = self.stream.receive(&mut &*socket, records, octets)?;
        if was_handshaking && !self.is_handshaking() {
            self.client_names = self.server.client_names(&mut self.stream);
        }
        Ok(received.map(|len| &octets[..len]))
    }

    /// Encrypts and writes; returns how many octets are accepted.
    pub(super) fn send(&mut self, socket: &TcpStream, octets: &[u8]) -> io::Result<usize> {
        self.stream.send(&mut &*socket, octets)
    }

    /// Writes what waits; returns how many octets the kernel accepted.
    pub(super) fn flush(&mut self, socket: &TcpStream) -> io::Result<usize> {
        self.stream.flush(&mut &*socket)
    }

    pub(super) fn close_notify(&mut self, socket: &TcpStream) {
        self.stream.close_notify(&mut &*socket);
    }
}
