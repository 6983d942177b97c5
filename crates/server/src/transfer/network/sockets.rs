//! The sockets of the transfer thread, as the engine uses them.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, UdpSocket};

use netio::epoll::{Interest, Poll};
use netio::udp_client::{ClientSocket, ReceiveBatch, SendBatch};

use super::super::engine::{RequestedTransfer, TransferEvent, TransferIo};
use super::super::link::ConnectionId;
use super::super::primary::{PeerConfig, PrimaryId};
use super::super::session::TransferSink;
use super::byte_stream::{ByteStream, Connector};

/// Datagrams per sendmmsg(2).
const SEND_BATCH: usize = 512;
/// The room per datagram in a batch: a query of the longest name, with TSIG, has fewer than 1024 octets.
const DATAGRAM_LEN: usize = 1024;
/// Datagrams per recvmmsg(2).
const RECEIVE_BATCH: usize = 64;
/// The socket buffers for probes: responses to some thousand probes arrive at once.
const BUFFER_LEN: usize = 4 << 20;

/// What the events of a token are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Waker,
    ClockChanges,
    Connection(ConnectionId),
    Probes(PrimaryId),
    Notify(u64),
}

impl Token {
    pub(super) fn to_u64(self) -> u64 {
        match self {
            Token::Waker => 0,
            Token::ClockChanges => 1 << 2,
            Token::Connection(id) => id.0 << 2 | 1,
            Token::Probes(id) => u64::from(id.0) << 2 | 2,
            Token::Notify(index) => index << 2 | 3,
        }
    }

    pub(super) fn from_u64(token: u64) -> Token {
        match token & 3 {
            0 if token == 0 => Token::Waker,
            0 => Token::ClockChanges,
            1 => Token::Connection(ConnectionId(token >> 2)),
            2 => Token::Probes(PrimaryId((token >> 2) as u32)),
            _ => Token::Notify(token >> 2),
        }
    }
}

/// Makes the receiver of a transfer; see [`TransferIo::new_sink`].
pub(super) type SinkMaker<T> = Box<dyn FnMut(RequestedTransfer<'_>) -> T + Send>;

/// All sockets, and what the engine's results are passed to.
pub(super) struct Sockets<T> {
    pub(super) poll: Poll,
    connector: Box<dyn Connector>,
    pub(super) streams: HashMap<ConnectionId, Stream>,
    /// Connections that failed at once.
    pub(super) failed: Vec<(ConnectionId, String)>,
    pub(super) probes: HashMap<PrimaryId, ClientSocket>,
    /// Sockets for NOTIFY by source address, unspecified without one.
    pub(super) notify: Vec<(IpAddr, UdpSocket)>,
    batch: SendBatch,
    /// Whose datagrams are in `batch`.
    batch_of: Option<PrimaryId>,
    pub(super) received: ReceiveBatch,
    make_sink: SinkMaker<T>,
    on_event: Box<dyn FnMut(TransferEvent<T>) + Send>,
}

/// A connection.
pub(super) struct Stream {
    pub(super) stream: Box<dyn ByteStream>,
    pub(super) interest: Interest,
    pub(super) is_established: bool,
}

impl<T> Sockets<T> {
    pub(super) fn new(
        connector: Box<dyn Connector>,
        make_sink: SinkMaker<T>,
        on_event: Box<dyn FnMut(TransferEvent<T>) + Send>,
    ) -> io::Result<Sockets<T>> {
        Ok(Sockets {
            poll: Poll::new()?,
            connector,
            streams: HashMap::new(),
            failed: Vec::new(),
            probes: HashMap::new(),
            notify: Vec::new(),
            batch: SendBatch::new(SEND_BATCH, DATAGRAM_LEN, 1),
            batch_of: None,
            received: ReceiveBatch::new(RECEIVE_BATCH),
            make_sink,
            on_event,
        })
    }

    /// Sends the probes that are in the batch.
    pub(super) fn flush(&mut self) {
        if let Some(socket) = self.batch_of.take().and_then(|primary| self.probes.get(&primary)) {
            // What the kernel refuses is sent again after the timeout.
            self.batch.send(socket);
        }
    }

    fn probe_socket(&mut self, primary: PrimaryId, config: &PeerConfig) -> io::Result<()> {
        if self.probes.contains_key(&primary) {
            return Ok(());
        }
        let socket = match config.source {
            Some(source) => ClientSocket::open_from(config.address, source, BUFFER_LEN)?,
            None => ClientSocket::open(config.address, None, BUFFER_LEN)?,
        };
        self.poll.add(&socket, Token::Probes(primary).to_u64(), Interest::Readable)?;
        self.probes.insert(primary, socket);
        Ok(())
    }

    /// The socket for NOTIFY to this target.
    fn notify_socket(&mut self, target: &PeerConfig) -> io::Result<&UdpSocket> {
        let source = target.source.unwrap_or_else(|| netio::unspecified(target.address.ip()));
        let index = match self.notify.iter().position(|(of, _)| *of == source) {
            Some(index) => index,
            None => {
                let socket = UdpSocket::bind((source, 0))?;
                socket.set_nonblocking(true)?;
                let index = self.notify.len();
                self.poll.add(&socket, Token::Notify(index as u64).to_u64(), Interest::Readable)?;
                self.notify.push((source, socket));
                index
            }
        };
        Ok(&self.notify[index].1)
    }

    fn open(&mut self, id: ConnectionId, config: &PeerConfig) -> io::Result<()> {
        let stream = self.connector.connect(config)?;
        let interest = stream.interest(false);
        self.poll.add(stream.socket(), Token::Connection(id).to_u64(), interest)?;
        self.streams.insert(id, Stream { stream, interest, is_established: false });
        Ok(())
    }
}

impl<T: TransferSink> TransferIo for Sockets<T> {
    type Sink = T;

    fn send_probe(&mut self, primary: PrimaryId, config: &PeerConfig, datagram: &[u8]) {
        if self.batch_of != Some(primary) || self.batch.is_full(datagram.len()) {
            self.flush();
            if let Err(error) = self.probe_socket(primary, config) {
                // The probe times out, as if the network had lost it.
                return tracing::error!(primary = %config.address, %error, "cannot open a socket for SOA queries");
            }
            self.batch_of = Some(primary);
        }
        self.batch.push(0, datagram);
    }

    fn send_notify(&mut self, target: &PeerConfig, datagram: &[u8]) {
        let sent = self.notify_socket(target).and_then(|socket| socket.send_to(datagram, target.address));
        if let Err(error) = sent {
            // It is sent again after the timeout.
            tracing::debug!(target_address = %target.address, %error, "cannot send NOTIFY");
        }
    }

    fn forget(&mut self, primary: PrimaryId) {
        self.flush();
        self.probes.remove(&primary);
    }

    fn connect(&mut self, connection: ConnectionId, config: &PeerConfig) {
        if let Err(error) = self.open(connection, config) {
            self.failed.push((connection, error.to_string()));
        }
    }

    fn close(&mut self, connection: ConnectionId) {
        if let Some(stream) = self.streams.remove(&connection) {
            stream.stream.close();
        }
    }

    fn new_sink(&mut self, transfer: RequestedTransfer<'_>) -> T {
        (self.make_sink)(transfer)
    }

    fn event(&mut self, event: TransferEvent<T>) {
        (self.on_event)(event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_back() {
        let large = Token::Connection(ConnectionId(1 << 40));
        for token in [Token::Waker, large, Token::Probes(PrimaryId(u32::MAX)), Token::Notify(3)] {
            assert_eq!(Token::from_u64(token.to_u64()), token);
        }
    }
}
