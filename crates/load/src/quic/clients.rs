//! QUIC connections over some sockets: `quinn-proto` knows neither sockets nor clocks, and gets both here.
//!
//! After each [`QuicClients::turn`], those that it returns have their events taken and are given to [`QuicClients::transmit`].

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use netio::clock;
use netio::epoll::{Events, Interest, Poll};
use netio::udp_client::{ClientSocket, ReceiveBatch, SendBatch, Sources};
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Endpoint, EndpointConfig, EndpointEvent, Event,
    NoneTokenStore, TransportConfig, VarInt,
};

use crate::tls::TlsConfig;
use crate::udp::SOCKET_BUFFER_LEN;

/// Sockets, so that servers that spread clients over threads get some for each.
const MAX_SOCKETS: usize = 64;
/// Sockets if there are as many source addresses.
const MAX_SOURCES: usize = 1024;
/// The longest datagram that is sent: the MTU is not searched for.
const DATAGRAM_LEN: usize = 1500;
/// Datagrams in one system call.
const BATCH: usize = 32;
/// RFC 9250 4.3: DOQ_NO_ERROR.
const NO_ERROR: VarInt = VarInt::from_u32(0);

/// The connections to one server, by number. The number of one that is gone is given to the next one.
pub(super) struct QuicClients<'q> {
    server: SocketAddr,
    tls: &'q TlsConfig,
    config: ClientConfig,
    ports: Vec<Port>,
    clients: Vec<QuicClient>,
    vacant: Vec<usize>,
    /// Clients with a timer.
    timers: BTreeSet<(Instant, usize)>,
    poll: Poll,
    events: Events,
    receive_batch: ReceiveBatch,
    waited: Duration,
}

/// A socket with the connections on it.
struct Port {
    socket: ClientSocket,
    endpoint: Endpoint,
    /// The numbers of the clients, by handle.
    clients: HashMap<ConnectionHandle, usize>,
    send_batch: SendBatch,
}

/// A connection.
pub(super) struct QuicClient {
    port: usize,
    handle: ConnectionHandle,
    pub(super) connection: Connection,
    /// When it was opened.
    pub(super) since: Instant,
    pub(super) is_established: bool,
    /// Whether the server has sent its certificate.
    pub(super) has_certificate: bool,
    timer: Option<Instant>,
}

impl<'q> QuicClients<'q> {
    /// Sockets for at most `count` connections at a time, without any. The waits of the calling thread become precise.
    pub(super) fn new(
        server: SocketAddr,
        sources: Option<Sources>,
        tls: &'q TlsConfig,
        count: usize,
    ) -> io::Result<QuicClients<'q>> {
        let most = sources.map_or(MAX_SOCKETS, |sources| (sources.count as usize).clamp(MAX_SOCKETS, MAX_SOURCES));
        let source = |number: usize| sources.map(|sources| sources.at(number as u32 % sources.count));
        let open = |number| Port::open(server, source(number));
        let ports = (0..count.clamp(1, most)).map(open).collect::<io::Result<Vec<_>>>()?;
        clock::minimize_timer_slack();
        let poll = Poll::new()?;
        ports.iter().zip(0..).try_for_each(|(port, token)| poll.add(&port.socket, token, Interest::Readable))?;
        let mut config = ClientConfig::new(Arc::new(tls.quic().map_err(io::Error::other)?));
        config.transport_config(Arc::new(transport()));
        // Each connection is of another client, which has no token of this server (RFC 9000 8.1.3). With one, Knot DNS 3.6-dev claims to have
        // sent a Retry, which ends the handshake.
        config.token_store(Arc::new(NoneTokenStore));
        Ok(QuicClients {
            server,
            tls,
            config,
            ports,
            clients: Vec::new(),
            vacant: Vec::new(),
            timers: BTreeSet::new(),
            poll,
            events: Events::with_capacity(MAX_SOCKETS),
            receive_batch: ReceiveBatch::new(2 * BATCH),
            waited: Duration::ZERO,
        })
    }

    /// How long all turns have waited for datagrams and timers.
    pub(super) fn waited(&self) -> Duration {
        self.waited
    }

    /// The number of connections, those that are gone included.
    pub(super) fn len(&self) -> usize {
        self.clients.len()
    }

    pub(super) fn client(&mut self, number: usize) -> &mut QuicClient {
        &mut self.clients[number]
    }

    /// All connections, those that are gone included.
    pub(super) fn iter(&self) -> impl Iterator<Item = &QuicClient> {
        self.clients.iter()
    }

    /// Starts to open a connection from the `nth` socket, in turn; returns its number. It has something to send.
    pub(super) fn open(&mut self, nth: usize) -> io::Result<usize> {
        let number = self.vacant.last().copied().unwrap_or(self.clients.len());
        let port = nth % self.ports.len();
        let Port { endpoint, clients, .. } = &mut self.ports[port];
        let (since, name) = (Instant::now(), self.tls.server_name());
        let connected = endpoint.connect(since, self.config.clone(), self.server, &name);
        let (handle, connection) = connected.map_err(io::Error::other)?;
        clients.insert(handle, number);
        let (is_established, has_certificate) = (false, false);
        let client = QuicClient { port, handle, connection, since, is_established, has_certificate, timer: None };
        match self.vacant.pop() {
            Some(number) => self.clients[number] = client,
            None => self.clients.push(client),
        }
        Ok(number)
    }

    /// Sends what is queued, and handles what arrives or is due within this time. Returns the numbers of those that may have events or
    /// something to send.
    pub(super) fn turn(&mut self, longest: Duration) -> io::Result<Vec<usize>> {
        self.flush();
        let before = Instant::now();
        let next = self.timers.first().map_or(longest, |(at, _)| at.saturating_duration_since(before));
        self.poll.wait_precise(&mut self.events, next.min(longest))?;
        self.waited += before.elapsed();
        let mut moved = Vec::new();
        for index in 0..self.events.len() {
            self.receive(self.events.at(index).token as usize, &mut moved)?;
        }
        let now = Instant::now();
        while let Some((_, number)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            self.timers.pop_first();
            self.clients[number].timer = None;
            self.clients[number].connection.handle_timeout(now);
            moved.push(number);
        }
        moved.sort_unstable();
        moved.dedup();
        Ok(moved)
    }

    fn receive(&mut self, port: usize, moved: &mut Vec<usize>) -> io::Result<()> {
        let (server, now, mut reply) = (self.server, Instant::now(), Vec::new());
        let Port { socket, endpoint, clients, send_batch } = &mut self.ports[port];
        let (all, tls) = (&mut self.clients, self.tls);
        self.receive_batch.receive(socket, |datagram| {
            reply.clear();
            match endpoint.handle(now, server, None, None, BytesMut::from(datagram.bytes), &mut reply) {
                Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                    if let Some(&number) = clients.get(&handle) {
                        let before = tls.full_handshakes();
                        all[number].connection.handle_event(event);
                        all[number].has_certificate |= tls.full_handshakes() > before;
                        moved.push(number);
                    }
                }
                Some(DatagramEvent::Response(_)) if !send_batch.is_full(reply.len()) => {
                    send_batch.push(0, &reply);
                }
                _ => {}
            }
        })?;
        Ok(())
    }

    /// The next event of a connection.
    pub(super) fn next_event(&mut self, number: usize) -> Option<Event> {
        let client = &mut self.clients[number];
        let endpoint = &mut self.ports[client.port].endpoint;
        while let Some(event) = client.connection.poll_endpoint_events() {
            if let Some(event) = endpoint.handle_event(client.handle, event) {
                client.connection.handle_event(event);
            }
        }
        let event = client.connection.poll();
        client.is_established |= matches!(event, Some(Event::Connected));
        event
    }

    /// Queues what a connection may send, and sets its timer.
    pub(super) fn transmit(&mut self, number: usize) {
        let client = &mut self.clients[number];
        let port = &mut self.ports[client.port];
        let mut datagram = Vec::with_capacity(DATAGRAM_LEN);
        while client.connection.poll_transmit(Instant::now(), 1, &mut datagram).is_some() {
            port.push(&datagram);
            datagram.clear();
        }
        let timer = client.connection.poll_timeout();
        if timer != client.timer {
            client.timer.map(|at| self.timers.remove(&(at, number)));
            self.timers.extend(timer.map(|at| (at, number)));
            client.timer = timer;
        }
    }

    /// Queues a datagram of no connection, from the `nth` socket, in turn.
    pub(super) fn send_datagram(&mut self, nth: usize, datagram: &[u8]) {
        let port = nth % self.ports.len();
        self.ports[port].push(datagram);
    }

    /// Closes a connection.
    pub(super) fn close(&mut self, number: usize) {
        self.clients[number].connection.close(Instant::now(), NO_ERROR, Bytes::new());
        self.transmit(number);
    }

    /// Forgets a connection, which must not be used any more; its number is given to the next one.
    pub(super) fn forget(&mut self, number: usize) {
        let client = &mut self.clients[number];
        client.timer.take().map(|at| self.timers.remove(&(at, number)));
        let port = &mut self.ports[client.port];
        port.clients.remove(&client.handle);
        port.endpoint.handle_event(client.handle, EndpointEvent::drained());
        self.vacant.push(number);
    }

    /// Sends what is queued.
    pub(super) fn flush(&mut self) {
        self.ports.iter_mut().for_each(Port::flush);
    }

    /// How many datagrams the kernel has dropped because receive buffers were full.
    pub(super) fn receive_drops(&self) -> io::Result<u64> {
        self.ports.iter().map(|port| port.socket.receive_drops().map(u64::from)).sum()
    }
}

impl Port {
    fn open(server: SocketAddr, source: Option<IpAddr>) -> io::Result<Port> {
        let endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, false, None);
        let socket = match source {
            Some(source) => ClientSocket::open_from(server, source, SOCKET_BUFFER_LEN)?,
            None => ClientSocket::open(server, None, SOCKET_BUFFER_LEN)?,
        };
        Ok(Port { socket, endpoint, clients: HashMap::new(), send_batch: SendBatch::new(BATCH, DATAGRAM_LEN, 1) })
    }

    fn push(&mut self, datagram: &[u8]) {
        if self.send_batch.is_full(datagram.len()) {
            self.flush();
        }
        self.send_batch.push(0, datagram);
    }

    /// Sends what is queued. What the kernel refuses is lost like any datagram.
    fn flush(&mut self) {
        self.send_batch.send(&self.socket);
    }
}

fn transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport
        // RFC 9000 10.1: the lower one of both sides counts, so that of the server.
        .max_idle_timeout(None)
        // RFC 9250 4.2: the server opens no streams.
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .datagram_receive_buffer_size(None)
        .mtu_discovery_config(None);
    transport
}
