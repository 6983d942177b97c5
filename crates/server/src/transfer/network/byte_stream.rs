//! A byte stream to a primary: TCP, or a layer over it.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use netio::epoll::Interest;

use super::super::primary::PeerConfig;

/// The shortest buffer to read into: TLS decrypts whole records.
pub const MIN_READ_BUFFER: usize = 64 << 10;

/// What a stream knows of a response besides its complete messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponsePart {
    /// Octets of a message that is not complete.
    Octets(usize),
    /// There are no more messages.
    End,
}

/// A non-blocking stream. TLS implements it over [`TcpByteStream`], QUIC over a socket of its own.
pub trait ByteStream: Send {
    /// Goes on connecting when the socket is ready; returns whether the stream is established. Not to be called after that.
    fn establish(&mut self) -> io::Result<bool>;
    /// As [`Read::read`], into at least [`MIN_READ_BUFFER`] octets.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize>;
    /// As [`Write::write`].
    fn write(&mut self, octets: &[u8]) -> io::Result<usize>;
    /// Sends what an earlier write accepted and the socket did not.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
    /// The time until [`ByteStream::flush`] and [`ByteStream::read`] (or [`ByteStream::establish`]) must be called even if the
    /// socket is not ready; zero for now.
    fn until_due(&mut self) -> Option<Duration> {
        None
    }
    /// The parts of responses that have arrived since the last call, with the IDs of their queries, once all complete messages are read.
    fn parts(&mut self) -> Vec<(u16, ResponsePart)> {
        Vec::new()
    }
    /// Closes the connection because of a protocol error; the next read fails for this reason.
    fn refuse(&mut self, _reason: &str) {}
    /// Cancels the query with this ID, whose response is not wanted any more, where each has a stream of its own.
    fn cancel(&mut self, _id: u16) {}
    /// What to wait for; `has_output` says whether the session has octets to send.
    fn interest(&self, has_output: bool) -> Interest;
    /// The socket.
    fn socket(&self) -> BorrowedFd<'_>;
    /// Closes the stream, which is not needed any more, without a TIME_WAIT state: a secondary of many zones would run out of ports.
    fn close(self: Box<Self>);
}

/// Opens streams to primaries.
pub trait Connector: Send {
    /// Begins to connect; `peer.tls` says how.
    fn connect(&mut self, peer: &PeerConfig) -> io::Result<Box<dyn ByteStream>>;
}

/// Opens TCP connections only.
pub struct TcpConnector;

impl Connector for TcpConnector {
    fn connect(&mut self, peer: &PeerConfig) -> io::Result<Box<dyn ByteStream>> {
        if peer.tls != 0 {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "TLS is not available"));
        }
        Ok(Box::new(TcpByteStream::connect(peer)?))
    }
}

/// A TCP connection.
pub struct TcpByteStream {
    stream: TcpStream,
    is_established: bool,
}

impl TcpByteStream {
    /// Begins to connect, from the configured source address.
    pub fn connect(peer: &PeerConfig) -> io::Result<TcpByteStream> {
        let source = peer.source.map(|ip| SocketAddr::new(ip, 0));
        Ok(TcpByteStream { stream: netio::tcp::connect(peer.address, source)?, is_established: false })
    }
}

impl ByteStream for TcpByteStream {
    fn establish(&mut self) -> io::Result<bool> {
        if !self.is_established {
            if let Some(error) = self.stream.take_error()? {
                return Err(error);
            }
            self.is_established = match self.stream.peer_addr() {
                Ok(_) => true,
                Err(error) if error.kind() == io::ErrorKind::NotConnected => false,
                Err(error) => return Err(error),
            };
        }
        Ok(self.is_established)
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.read(buffer)
    }

    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.stream.write(octets)
    }

    fn interest(&self, has_output: bool) -> Interest {
        match (self.is_established, has_output) {
            (false, _) => Interest::Writable,
            (true, true) => Interest::Both,
            (true, false) => Interest::Readable,
        }
    }

    fn socket(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    fn close(self: Box<Self>) {
        // Fails only if the connection is gone already.
        _ = netio::tcp::reset(self.stream);
    }
}
