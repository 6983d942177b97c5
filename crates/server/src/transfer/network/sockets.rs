//! The sockets of the transfer thread, as the engine uses them.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, UdpSocket};
use std::time::{Duration, Instant};

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
/// How long a socket for NOTIFY is kept after the last message: longer than an answer over UDP counts, which is until the last try
/// over TCP is given up.
const NOTIFY_KEPT: Duration = Duration::from_secs(180);

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
pub(super) struct TransferSockets<T> {
    pub(super) poll: Poll,
    connector: Box<dyn Connector>,
    pub(super) streams: HashMap<ConnectionId, PrimaryStream>,
    /// Connections that failed at once.
    pub(super) failed: Vec<(ConnectionId, String)>,
    pub(super) probes: HashMap<PrimaryId, ClientSocket>,
    /// Sockets for NOTIFY: one for each source address in use.
    notify: Vec<NotifySocket>,
    next_notify: u64,
    batch: SendBatch,
    /// Whose datagrams are in `batch`.
    batch_of: Option<PrimaryId>,
    pub(super) received: ReceiveBatch,
    make_sink: SinkMaker<T>,
    on_event: Box<dyn FnMut(TransferEvent<T>) + Send>,
}

/// A socket for NOTIFY.
struct NotifySocket {
    /// Its number in [`Token::Notify`], which no other socket ever has.
    number: u64,
    /// Unspecified for a target without one.
    source: IpAddr,
    socket: UdpSocket,
    used: Instant,
}

/// A connection.
pub(super) struct PrimaryStream {
    pub(super) stream: Box<dyn ByteStream>,
    pub(super) interest: Interest,
    pub(super) is_established: bool,
}

impl<T> TransferSockets<T> {
    pub(super) fn new(
        connector: Box<dyn Connector>,
        make_sink: SinkMaker<T>,
        on_event: Box<dyn FnMut(TransferEvent<T>) + Send>,
    ) -> io::Result<TransferSockets<T>> {
        Ok(TransferSockets {
            poll: Poll::new()?,
            connector,
            streams: HashMap::new(),
            failed: Vec::new(),
            probes: HashMap::new(),
            notify: Vec::new(),
            next_notify: 0,
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
    fn notify_socket(&mut self, target: &PeerConfig, now: Instant) -> io::Result<&UdpSocket> {
        let source = target.source.unwrap_or_else(|| netio::unspecified(target.address.ip()));
        let index = match self.notify.iter().position(|known| known.source == source) {
            Some(index) => index,
            None => {
                // A reload may have replaced the addresses of those before.
                self.notify.retain(|known| now < known.used + NOTIFY_KEPT);
                self.open_notify_socket(source, now)?
            }
        };
        let socket = &mut self.notify[index];
        socket.used = now;
        Ok(&socket.socket)
    }

    fn open_notify_socket(&mut self, source: IpAddr, now: Instant) -> io::Result<usize> {
        let socket = UdpSocket::bind((source, 0))?;
        socket.set_nonblocking(true)?;
        let number = self.next_notify;
        self.poll.add(&socket, Token::Notify(number).to_u64(), Interest::Readable)?;
        self.next_notify += 1;
        self.notify.push(NotifySocket { number, source, socket, used: now });
        Ok(self.notify.len() - 1)
    }

    /// The socket for NOTIFY with this number, unless it was closed.
    pub(super) fn notify_by_number(&self, number: u64) -> Option<&UdpSocket> {
        self.notify.iter().find(|known| known.number == number).map(|known| &known.socket)
    }

    fn open(&mut self, id: ConnectionId, config: &PeerConfig) -> io::Result<()> {
        let stream = self.connector.connect(config)?;
        let interest = stream.interest(false);
        self.poll.add(stream.socket(), Token::Connection(id).to_u64(), interest)?;
        self.streams.insert(id, PrimaryStream { stream, interest, is_established: false });
        Ok(())
    }
}

impl<T: TransferSink> TransferIo for TransferSockets<T> {
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
        let sent =
            self.notify_socket(target, Instant::now()).and_then(|socket| socket.send_to(datagram, target.address));
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
    use super::super::byte_stream::TcpConnector;
    use super::*;

    /// Otherwise each reload with another `source` takes a descriptor for good.
    #[test]
    fn sockets_for_notify_of_former_source_addresses_are_closed() {
        let sockets = TransferSockets::<()>::new(Box::new(TcpConnector), Box::new(|_| ()), Box::new(|_| ()));
        let mut sockets = sockets.expect("a descriptor");
        let to = PeerConfig::plain("127.0.0.1:53".parse().expect("an address"));
        let from = |last: u8| PeerConfig { source: Some([127, 0, 4, last].into()), ..to.clone() };
        let begin = Instant::now();
        sockets.notify_socket(&to, begin).expect("loopback");
        for (last, at) in (1..).zip([0, 1, 2]) {
            sockets.notify_socket(&from(last), begin + at * NOTIFY_KEPT / 2).expect("loopback");
        }
        let numbers: Vec<u64> = sockets.notify.iter().map(|known| known.number).collect();
        assert_eq!(numbers, [2, 3], "those of the last half");
        assert!(sockets.notify_by_number(1).is_none() && sockets.notify_by_number(2).is_some());
        for last in 4..100 {
            sockets.notify_socket(&from(last), begin + u32::from(last) * NOTIFY_KEPT).expect("loopback");
        }
        assert_eq!(sockets.notify.len(), 1);
    }

    #[test]
    fn tokens_are_read_back() {
        let large = Token::Connection(ConnectionId(1 << 40));
        for token in [Token::Waker, large, Token::Probes(PrimaryId(u32::MAX)), Token::Notify(3)] {
            assert_eq!(Token::from_u64(token.to_u64()), token);
        }
    }
}
