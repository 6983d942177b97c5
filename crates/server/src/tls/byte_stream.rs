//! TLS and QUIC connections to primaries, for the transfer thread.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::BorrowedFd;

use netio::epoll::Interest;

use super::client_config::check_alpn;
use super::quic_byte_stream::QuicByteStream;
use super::{MIN_BUFFER, TlsPeers, TlsStream};
use crate::transfer::network::byte_stream::{ByteStream, Connector, MIN_READ_BUFFER, TcpByteStream, TcpConnector};
use crate::transfer::primary::PeerConfig;

/// Opens TLS or QUIC connections to peers with TLS settings, and TCP connections to others.
pub struct TlsConnector(pub TlsPeers);

impl Connector for TlsConnector {
    fn connect(&mut self, peer: &PeerConfig) -> io::Result<Box<dyn ByteStream>> {
        if peer.tls == 0 {
            return TcpConnector.connect(peer);
        }
        let settings = self.0.config(peer.tls).map_err(io::Error::other)?;
        if settings.is_quic() {
            return Ok(Box::new(QuicByteStream::connect(peer, &settings)?));
        }
        let tls = settings.connect(peer.address.ip()).map_err(io::Error::other)?;
        Ok(Box::new(TlsByteStream { tcp: TcpByteStream::connect(peer)?, tls }))
    }
}

/// TLS over TCP. The engine's deadline for connecting includes the handshake.
struct TlsByteStream {
    tcp: TcpByteStream,
    tls: TlsStream,
}

/// The stream below TLS.
struct Socket<'a>(&'a mut TcpByteStream);

impl Read for Socket<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Socket<'_> {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.0.write(octets)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl ByteStream for TlsByteStream {
    fn establish(&mut self) -> io::Result<bool> {
        if !self.tcp.establish()? {
            return Ok(false);
        }
        let mut socket = Socket(&mut self.tcp);
        self.tls.flush(&mut socket)?;
        match self.tls.receive(&mut socket, &mut [0; MIN_BUFFER], &mut [0; MIN_BUFFER]) {
            Ok(Some(_)) => Err(io::Error::new(ErrorKind::InvalidData, "TLS: the server sent data before a query")),
            Ok(None) if self.tls.is_handshaking() => Ok(false),
            Ok(None) => {
                check_alpn(&self.tls).map(|()| true).map_err(|what| io::Error::new(ErrorKind::InvalidData, what))
            }
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Err(io::Error::new(
                ErrorKind::UnexpectedEof,
                "TLS: the server closed the connection during the handshake",
            )),
            Err(error) => Err(error),
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.tls.receive(&mut Socket(&mut self.tcp), &mut [0; MIN_READ_BUFFER], buffer) {
            Ok(Some(len)) => Ok(len),
            Ok(None) => Err(ErrorKind::WouldBlock.into()),
            // What a transfer lacks shows its messages: an end without close_notify is not more than an end (RFC 8446 6.1).
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(0),
            Err(error) => Err(error),
        }
    }

    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        match self.tls.send(&mut Socket(&mut self.tcp), octets)? {
            0 if !octets.is_empty() => Err(ErrorKind::WouldBlock.into()),
            len => Ok(len),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.tls.flush(&mut Socket(&mut self.tcp)).map(drop)
    }

    fn interest(&self, has_output: bool) -> Interest {
        match self.tcp.interest(has_output || self.tls.has_output()) {
            Interest::Both if self.tls.is_handshaking() && !self.tls.has_output() => Interest::Readable,
            interest => interest,
        }
    }

    fn socket(&self) -> BorrowedFd<'_> {
        self.tcp.socket()
    }

    fn close(mut self: Box<Self>) {
        self.tls.close_notify(&mut Socket(&mut self.tcp));
        Box::new(self.tcp).close();
    }
}
