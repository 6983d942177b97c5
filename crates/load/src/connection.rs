//! A connection that does not block, plain or in TLS: driven by what [`netio::stream::Poll`] tells, read and written
//! like a stream.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use netio::stream::{self, Interest};
use rustls::HandshakeKind;
use rustls::client::ClientConnection;

use crate::tls::Tls;

/// One connection to a server.
pub struct Line {
    stream: TcpStream,
    tls: Option<Box<ClientConnection>>,
}

impl Line {
    /// Begins a connection; see [`stream::connect`]. It wants [`Interest::Writable`] first.
    pub fn connect(server: SocketAddr, local: Option<SocketAddr>, tls: Option<&Tls>) -> io::Result<Line> {
        let tls = tls.map(|tls| tls.begin().map(Box::new)).transpose().map_err(io::Error::other)?;
        Ok(Line { stream: stream::connect(server, local)?, tls })
    }

    /// Goes on to establish the connection, when there was an event; returns whether it stands.
    pub fn establish(&mut self) -> io::Result<bool> {
        if let Some(error) = self.stream.take_error()? {
            return Err(error);
        }
        let Some(tls) = &mut self.tls else { return Ok(true) };
        let received = receive(tls, &mut self.stream);
        // Also the alert that tells the server what is wrong.
        send(tls, &mut self.stream)?;
        match received {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(!tls.is_handshaking()),
        }
    }

    /// Whether it took up an earlier session.
    pub fn is_resumed(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.handshake_kind() == Some(HandshakeKind::Resumed))
    }

    /// What it waits for, besides `wanted`, for itself.
    pub fn interest(&self, wanted: Interest) -> Interest {
        match &self.tls {
            Some(tls) if tls.wants_write() => Interest::Both,
            Some(tls) if tls.is_handshaking() => Interest::Readable,
            _ => wanted,
        }
    }

    /// Tells the server that it ends here, as far as that can be told without waiting (RFC 8446 6.1).
    pub fn say_goodbye(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            // Whoever is gone need not be told.
            let _ = send(tls, &mut self.stream);
        }
    }

    /// Closes it by RST.
    pub fn reset(self) -> io::Result<()> {
        stream::reset(self.stream)
    }
}

/// Reads what has come, up to a record or so; returns how many octets came over the network.
fn receive(tls: &mut ClientConnection, stream: &mut TcpStream) -> io::Result<usize> {
    let len = tls.read_tls(stream)?;
    tls.process_new_packets().map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
    Ok(len)
}

/// Sends what TLS holds, as far as the kernel takes it.
fn send(tls: &mut ClientConnection, stream: &mut TcpStream) -> io::Result<()> {
    while tls.wants_write() {
        match tls.write_tls(stream) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

impl Read for Line {
    /// With TLS, `buffer` has room for at least a record (16 KiB): what does not fit would be told by no event.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else { return self.stream.read(buffer) };
        receive(tls, &mut self.stream)?;
        tls.reader().read(buffer)
    }
}

impl Write for Line {
    /// Takes no more than there is room for in the buffers of TLS and of the kernel.
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

impl AsFd for Line {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
