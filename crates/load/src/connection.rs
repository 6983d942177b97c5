//! A non-blocking connection, over TCP or TLS, driven by the events of [`netio::epoll::Poll`].

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use netio::epoll::Interest;
use netio::tcp;
use rustls::{Connection as TlsSession, HandshakeKind, ServerConfig, ServerConnection};

use crate::tls::TlsConfig;

/// A connection to a server, or one that a client opened.
pub struct Connection {
    stream: TcpStream,
    tls: Option<Box<TlsSession>>,
}

impl Connection {
    /// Starts to connect, without waiting; see [`tcp::connect`]. Poll for [`Interest::Writable`] first.
    pub fn connect(server: SocketAddr, local: Option<SocketAddr>, tls: Option<&TlsConfig>) -> io::Result<Connection> {
        Connection::over(tcp::connect(server, local)?, tls)
    }

    /// As [`Connection::connect`], with TCP fast open; see [`tcp::connect_fast_open`].
    pub fn connect_fast_open(
        server: SocketAddr,
        local: Option<SocketAddr>,
        tls: Option<&TlsConfig>,
    ) -> io::Result<Connection> {
        Connection::over(tcp::connect_fast_open(server, local)?, tls)
    }

    fn over(stream: TcpStream, tls: Option<&TlsConfig>) -> io::Result<Connection> {
        let session = tls.map(TlsConfig::new_session).transpose().map_err(io::Error::other)?;
        Ok(Connection { stream, tls: session.map(|session| Box::new(session.into())) })
    }

    /// A connection that a client opened. Poll for [`Interest::Readable`] first; with TLS it is not established yet.
    pub fn accepted(stream: TcpStream, tls: Option<&Arc<ServerConfig>>) -> io::Result<Connection> {
        let session = tls.map(|config| ServerConnection::new(config.clone())).transpose().map_err(io::Error::other)?;
        Ok(Connection { stream, tls: session.map(|session| Box::new(session.into())) })
    }

    /// Continues the TCP and TLS handshakes after an event; returns whether the connection is established.
    pub fn establish(&mut self) -> io::Result<bool> {
        if let Some(error) = self.stream.take_error()? {
            return Err(error);
        }
        let Some(tls) = &mut self.tls else { return Ok(true) };
        let received = receive(tls, &mut self.stream);
        // Before the error is returned, so that the server gets the alert.
        send(tls, &mut self.stream)?;
        match received {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(!tls.is_handshaking()),
        }
    }

    /// Whether it resumed a TLS session.
    pub fn is_resumed(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.handshake_kind() == Some(HandshakeKind::Resumed))
    }

    /// The events to poll for: `wanted`, unless TLS needs others first.
    pub fn interest(&self, wanted: Interest) -> Interest {
        match &self.tls {
            Some(tls) if tls.wants_write() => Interest::Both,
            Some(tls) if tls.is_handshaking() => Interest::Readable,
            _ => wanted,
        }
    }

    /// Writes queued octets until the socket would block, and removes what was written from `outgoing`.
    pub fn write_queued(&mut self, outgoing: &mut Vec<u8>) -> io::Result<()> {
        let mut written = 0;
        while written < outgoing.len() {
            match self.write(&outgoing[written..]) {
                Ok(len) => written += len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        outgoing.drain(..written);
        self.flush()
    }

    /// Sends the TLS closure alert (RFC 8446 6.1) if that is possible without waiting.
    pub fn close_notify(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            // An error means that the server has closed the connection already.
            let _ = send(tls, &mut self.stream);
        }
    }

    pub fn reset(self) -> io::Result<()> {
        tcp::reset(self.stream)
    }
}

/// Reads what has arrived, about one TLS record; returns the number of octets read from the socket.
fn receive(tls: &mut TlsSession, stream: &mut TcpStream) -> io::Result<usize> {
    let len = tls.read_tls(stream)?;
    tls.process_new_packets().map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
    Ok(len)
}

/// Sends what TLS has buffered, until the socket would block.
fn send(tls: &mut TlsSession, stream: &mut TcpStream) -> io::Result<()> {
    while tls.wants_write() {
        match tls.write_tls(stream) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

impl Read for Connection {
    /// With TLS, `buffer` must hold a whole record (16 KiB): no event announces the part that does not fit.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else { return self.stream.read(buffer) };
        match receive(tls, &mut self.stream) {
            // The end of the handshake may have come with data.
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => tls.reader().read(buffer),
        }
    }
}

impl Write for Connection {
    /// Writes no more than the buffers of TLS and of the kernel have room for.
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else { return self.stream.write(octets) };
        let len = tls.writer().write(octets)?;
        send(tls, &mut self.stream)?;
        if len == 0 && !octets.is_empty() { Err(ErrorKind::WouldBlock.into()) } else { Ok(len) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.tls.as_mut().map_or(Ok(()), |tls| send(tls, &mut self.stream))
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
