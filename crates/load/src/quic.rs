//! DNS over QUIC (RFC 9250) in a closed loop: a stream for each query, over open connections, or over new ones for few queries each.
//!
//! `quinn-proto` knows neither sockets nor clocks; [`QuicConfig::run`] gives it both. Clients share some sockets.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use netio::epoll::{Events, Interest, Poll};
use netio::udp_client::{ClientSocket, ReceiveBatch, SendBatch};
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, EndpointEvent, Event,
    StreamEvent, StreamId, TransportConfig, VarInt,
};
use wire::HEADER_LEN;
use wire::framing::{frame, split_message};

use crate::metrics::Metrics;
use crate::queries::Queries;
use crate::tls::TlsConfig;
use crate::verify::matches_question;

/// What the clients do.
pub struct QuicConfig<'q> {
    /// The server under test.
    pub server: SocketAddr,
    /// How they verify it.
    pub tls: &'q TlsConfig,
    /// The number of connections.
    pub connections: usize,
    /// Connections opened per second, until all are open.
    pub rate: f64,
    /// Queries outstanding on each connection; 0: the connections are idle.
    pub outstanding: usize,
    /// After this many responses a connection is closed and another one opened; 0: never.
    pub queries_per_connection: u64,
    /// How long queries are sent but not counted, once all connections are open.
    pub warm_up: Duration,
    /// How long they are counted.
    pub duration: Duration,
    /// The queries, in turn; at least one.
    pub queries: &'q Queries,
}

/// What they have seen.
#[derive(Debug, Default)]
pub struct QuicResult {
    /// Connections that were open at the end of the opening.
    pub open: usize,
    /// How long opening them took.
    pub opening: Duration,
    /// How long queries were counted.
    pub counted: Duration,
    /// Of that time; of idle connections, of the whole run. Lost connections count as `closed_early`.
    pub metrics: Metrics,
}

/// Sockets, so that servers that spread clients over threads get some for each.
const MAX_SOCKETS: usize = 64;
const BUFFER_LEN: usize = 4 << 20;
/// The longest datagram that is sent: the MTU is not searched for.
const DATAGRAM_LEN: usize = 1500;
/// Datagrams in one system call.
const BATCH: usize = 32;
/// How often to look at the stop flag.
const MAX_WAIT: Duration = Duration::from_millis(50);
/// Connections opened before datagrams are handled again.
const MAX_OPENED_PER_TURN: usize = 16;
/// Opening ends this long after the last connection was begun.
const OPENING_TIMEOUT: Duration = Duration::from_secs(10);
/// A query without a response after this time is lost: much longer than QUIC takes to repeat it.
pub const TIMEOUT: Duration = Duration::from_secs(1);
/// RFC 9250 4.3: DOQ_NO_ERROR.
const NO_ERROR: VarInt = VarInt::from_u32(0);

impl QuicConfig<'_> {
    /// Opens the connections, calls `on_opened`, and asks, or is idle, for the configured time.
    pub fn run(&self, stop: &AtomicBool, on_opened: impl FnOnce(&QuicResult)) -> io::Result<QuicResult> {
        let mut load = QuicLoad::new(self)?;
        let begun = Instant::now();
        let latest = begun + Duration::from_secs_f64(self.connections as f64 / self.rate) + OPENING_TIMEOUT;
        while load.is_opening() && Instant::now() < latest && !stop.load(Ordering::Relaxed) {
            load.open_due(begun)?;
            load.turn()?;
        }
        let mut result = QuicResult { open: load.open, opening: begun.elapsed(), ..QuicResult::default() };
        on_opened(&result);
        load.outstanding = self.outstanding;
        load.ask_everywhere();
        load.turn_until(Instant::now() + self.warm_up, stop)?;
        if self.outstanding > 0 {
            load.metrics = Metrics::default();
        }
        let since = Instant::now();
        load.turn_until(since + self.duration, stop)?;
        result.counted = since.elapsed();
        load.record_unanswered(Instant::now());
        for port in &load.ports {
            load.metrics.receive_drops += u64::from(port.socket.receive_drops()?);
        }
        load.close_all();
        result.metrics = load.metrics;
        Ok(result)
    }
}

struct QuicLoad<'q> {
    config: &'q QuicConfig<'q>,
    client_config: ClientConfig,
    /// 0 while connections are opened.
    outstanding: usize,
    ports: Vec<Port>,
    clients: Vec<Client>,
    /// Clients with a timer.
    timers: BTreeSet<(Instant, usize)>,
    /// Connections that are established.
    open: usize,
    next_query: u32,
    poll: Poll,
    events: Events,
    receive_batch: ReceiveBatch,
    metrics: Metrics,
}

/// A socket with the connections on it.
struct Port {
    socket: ClientSocket,
    endpoint: Endpoint,
    /// The numbers of the clients, by handle.
    clients: HashMap<ConnectionHandle, usize>,
    send_batch: SendBatch,
}

struct Client {
    handle: ConnectionHandle,
    connection: Connection,
    since: Instant,
    is_established: bool,
    /// Whether the server has sent its certificate.
    has_certificate: bool,
    responses: u64,
    exchanges: HashMap<StreamId, Exchange>,
    timer: Option<Instant>,
}

/// A query and its response.
struct Exchange {
    query: u32,
    sent: Instant,
    input: Vec<u8>,
}

impl<'q> QuicLoad<'q> {
    fn new(config: &'q QuicConfig<'q>) -> io::Result<QuicLoad<'q>> {
        let poll = Poll::new()?;
        let ports: Vec<Port> =
            (0..config.connections.min(MAX_SOCKETS)).map(|_| Port::open(config.server)).collect::<io::Result<_>>()?;
        ports.iter().zip(0..).try_for_each(|(port, token)| poll.add(&port.socket, token, Interest::Readable))?;
        let mut client_config = ClientConfig::new(Arc::new(config.tls.quic().map_err(io::Error::other)?));
        client_config.transport_config(Arc::new(transport()));
        Ok(QuicLoad {
            config,
            client_config,
            outstanding: 0,
            ports,
            clients: Vec::with_capacity(config.connections),
            timers: BTreeSet::new(),
            open: 0,
            next_query: 0,
            poll,
            events: Events::with_capacity(MAX_SOCKETS),
            receive_batch: ReceiveBatch::new(2 * BATCH),
            metrics: Metrics::default(),
        })
    }

    fn is_opening(&self) -> bool {
        self.clients.len() < self.config.connections || self.clients.iter().any(|client| !client.is_established)
    }

    fn open_due(&mut self, begun: Instant) -> io::Result<()> {
        for _ in 0..MAX_OPENED_PER_TURN {
            let number = self.clients.len();
            let due = begun + Duration::from_secs_f64(number as f64 / self.config.rate);
            if number == self.config.connections || due > Instant::now() {
                return Ok(());
            }
            let client = self.connect(number)?;
            self.clients.push(client);
            self.advance(number);
        }
        Ok(())
    }

    fn connect(&mut self, number: usize) -> io::Result<Client> {
        let port = number % self.ports.len();
        let Port { endpoint, clients, .. } = &mut self.ports[port];
        let (now, name) = (Instant::now(), self.config.tls.server_name());
        let connected = endpoint.connect(now, self.client_config.clone(), self.config.server, &name);
        let (handle, connection) = connected.map_err(io::Error::other)?;
        clients.insert(handle, number);
        let exchanges = HashMap::new();
        let (is_established, has_certificate) = (false, false);
        let (responses, timer) = (0, None);
        Ok(Client { handle, connection, since: now, is_established, has_certificate, responses, exchanges, timer })
    }

    /// Counts the queries without a response at the end: old ones are lost, as those to a server that has died.
    fn record_unanswered(&mut self, end: Instant) {
        for exchange in self.clients.iter().flat_map(|client| client.exchanges.values()) {
            let waited = end.saturating_duration_since(exchange.sent);
            if waited < TIMEOUT {
                self.metrics.interrupted += 1;
            } else {
                self.metrics.record_timeout(waited.as_nanos() as u64, waited.as_nanos() as u64);
            }
        }
    }

    fn turn_until(&mut self, end: Instant, stop: &AtomicBool) -> io::Result<()> {
        while Instant::now() < end && !stop.load(Ordering::Relaxed) {
            self.turn()?;
        }
        Ok(())
    }

    /// Sends what is queued, and handles what arrives or is due within a short time.
    fn turn(&mut self) -> io::Result<()> {
        self.ports.iter_mut().for_each(Port::flush);
        let next = self.timers.first().map_or(MAX_WAIT, |(at, _)| at.saturating_duration_since(Instant::now()));
        let is_opening = self.clients.len() < self.config.connections;
        let longest = if is_opening { Duration::from_millis(1) } else { MAX_WAIT };
        self.poll.wait_precise(&mut self.events, next.min(longest))?;
        for index in 0..self.events.len() {
            self.receive(self.events.at(index).token as usize)?;
        }
        let now = Instant::now();
        while let Some(&(at, number)) = self.timers.first()
            && at <= now
        {
            self.clients[number].connection.handle_timeout(now);
            self.advance(number);
        }
        Ok(())
    }

    fn receive(&mut self, port: usize) -> io::Result<()> {
        let (server, now, mut reply, mut moved) = (self.config.server, Instant::now(), Vec::new(), Vec::new());
        let Port { socket, endpoint, clients, send_batch } = &mut self.ports[port];
        let (all, tls) = (&mut self.clients, self.config.tls);
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
        moved.sort_unstable();
        moved.dedup();
        moved.into_iter().for_each(|number| self.advance(number));
        Ok(())
    }

    fn ask_everywhere(&mut self) {
        (0..self.clients.len()).for_each(|number| self.advance(number));
    }

    /// Does all that a client can do now: takes events, asks, queues datagrams, sets its timer.
    fn advance(&mut self, number: usize) {
        let lost = self.take_events(number);
        let client = &self.clients[number];
        let limit = self.config.queries_per_connection;
        let is_done = limit > 0 && client.responses >= limit && client.exchanges.is_empty();
        if let Some(reason) = lost {
            self.record_loss(number, reason);
        } else if !is_done {
            self.ask(number);
            return self.transmit(number);
        }
        self.replace(number);
    }

    /// Takes the events of a connection; returns why it is lost, if it is.
    fn take_events(&mut self, number: usize) -> Option<String> {
        let port = number % self.ports.len();
        let (client, endpoint) = (&mut self.clients[number], &mut self.ports[port].endpoint);
        while let Some(event) = client.connection.poll_endpoint_events() {
            if let Some(event) = endpoint.handle_event(client.handle, event) {
                client.connection.handle_event(event);
            }
        }
        while let Some(event) = client.connection.poll() {
            match event {
                Event::Connected => {
                    client.is_established = true;
                    self.open += 1;
                    self.metrics.handshakes += 1;
                    self.metrics.handshakes_resumed += u64::from(!client.has_certificate);
                    self.metrics.handshake.saturating_record(client.since.elapsed().as_nanos() as u64);
                }
                Event::ConnectionLost { reason } => return Some(reason.to_string()),
                Event::Stream(StreamEvent::Readable { id }) => client.read(id, self.config.queries, &mut self.metrics),
                _ => {}
            }
        }
        None
    }

    fn ask(&mut self, number: usize) {
        let client = &mut self.clients[number];
        let limit = self.config.queries_per_connection;
        while client.is_established
            && client.exchanges.len() < self.outstanding
            && (limit == 0 || client.responses + (client.exchanges.len() as u64) < limit)
            && let Some(id) = client.connection.streams().open(Dir::Bi)
        {
            let query = self.next_query;
            self.next_query = (query + 1) % self.config.queries.len() as u32;
            let message = self.config.queries.at(query).message;
            // RFC 9250 4.2.1: the ID is 0, as in all encoded queries. A query is far shorter than the window.
            let framed = frame(message);
            let mut stream = client.connection.send_stream(id);
            if stream.write(&framed) == Ok(framed.len()) && stream.finish().is_ok() {
                client.exchanges.insert(id, Exchange { query, sent: Instant::now(), input: Vec::new() });
                self.metrics.record_sent(message.len(), 0);
            }
        }
    }

    fn transmit(&mut self, number: usize) {
        let port = number % self.ports.len();
        let (client, port) = (&mut self.clients[number], &mut self.ports[port]);
        let mut datagram = Vec::with_capacity(DATAGRAM_LEN);
        while client.connection.poll_transmit(Instant::now(), 1, &mut datagram).is_some() {
            if port.send_batch.is_full(datagram.len()) {
                port.flush();
            }
            port.send_batch.push(0, &datagram);
            datagram.clear();
        }
        let timer = client.connection.poll_timeout();
        if timer != client.timer {
            client.timer.map(|at| self.timers.remove(&(at, number)));
            self.timers.extend(timer.map(|at| (at, number)));
            client.timer = timer;
        }
    }

    fn record_loss(&mut self, number: usize, reason: String) {
        let client = &self.clients[number];
        if client.is_established {
            self.metrics.closed_early += 1;
            self.metrics.timeouts += client.exchanges.len() as u64;
        } else {
            self.metrics.record_failed_handshake(&io::Error::other(reason));
        }
    }

    /// Closes all connections, so that the server need not wait for their end.
    fn close_all(&mut self) {
        (0..self.clients.len()).for_each(|number| self.close(number));
        self.ports.iter_mut().for_each(Port::flush);
    }

    fn close(&mut self, number: usize) {
        self.clients[number].connection.close(Instant::now(), NO_ERROR, Bytes::new());
        self.transmit(number);
    }

    /// Closes a connection and opens another one in its place.
    fn replace(&mut self, number: usize) {
        self.close(number);
        let Client { handle, timer, is_established, .. } = self.clients[number];
        timer.map(|at| self.timers.remove(&(at, number)));
        self.open -= usize::from(is_established);
        let port = number % self.ports.len();
        let port = &mut self.ports[port];
        port.clients.remove(&handle);
        port.endpoint.handle_event(handle, EndpointEvent::drained());
        // It was possible with the same settings before.
        self.clients[number] = self.connect(number).expect("valid settings");
        self.transmit(number);
    }
}

impl Port {
    fn open(server: SocketAddr) -> io::Result<Port> {
        let endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, false, None);
        let socket = ClientSocket::open(server, None, BUFFER_LEN)?;
        Ok(Port { socket, endpoint, clients: HashMap::new(), send_batch: SendBatch::new(BATCH, DATAGRAM_LEN, 1) })
    }

    /// Sends what is queued. What the kernel refuses is lost like any datagram.
    fn flush(&mut self) {
        self.send_batch.send(&self.socket);
    }
}

impl Client {
    fn read(&mut self, id: StreamId, queries: &Queries, metrics: &mut Metrics) {
        let Some(exchange) = self.exchanges.get_mut(&id) else { return };
        let mut stream = self.connection.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else { return };
        let has_ended = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => exchange.input.extend_from_slice(&chunk.bytes),
                Ok(None) => break true,
                Err(quinn_proto::ReadError::Blocked) => break false,
                Err(quinn_proto::ReadError::Reset(_)) => break true,
            }
        };
        _ = chunks.finalize(); // Window updates are sent with the next datagrams.
        if has_ended && let Some(exchange) = self.exchanges.remove(&id) {
            self.responses += 1;
            exchange.record(queries, metrics);
        }
    }
}

impl Exchange {
    /// Counts and checks the response: one message with ID 0 and the question (RFC 9250 4.2).
    fn record(&self, queries: &Queries, metrics: &mut Metrics) {
        let latency_ns = self.sent.elapsed().as_nanos() as u64;
        let query = queries.at(self.query);
        match split_message(&self.input) {
            Some((response, [])) if response.len() >= HEADER_LEN => {
                metrics.record_response(response, latency_ns, latency_ns);
                if response[..2] != [0, 0] || !matches_question(query.question(), response) {
                    metrics.record_wrong(|| format!("a response to another question than query {}", self.query));
                }
            }
            _ => metrics.record_timeout(latency_ns, latency_ns),
        }
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
