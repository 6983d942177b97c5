//! A client of the tests, and the network between it and the endpoint: datagrams in memory, and a clock that is set.

use super::super::endpoint::{Arrival, DatagramQueue, QuicEndpoint};
use super::super::transport::QuicShared;
use super::Scripted;
use crate::config::remote_server::RemoteTls;
use crate::listen::counters::{CounterTotals, ListenerCounters};
use crate::listen::worker_setup::WorkerSetup;
use crate::listen::{ListenConfig, QuicConfig};
use crate::tls::test_certificates::TestCertificates;
use crate::tls::{ALPN_DOQ, ClientTls, OwnCertificate, ServerTls, ServerTlsFiles};
use bytes::BytesMut;
use netio::epoll::Waker;
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{ClientConfig, Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint};
use quinn_proto::{Event, ReadError, StreamEvent, StreamId, Transmit, TransportConfig};
use rustls::pki_types::CertificateDer;
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(super) const SERVER: &str = "192.0.2.53:853";

/// Datagrams that the endpoint has sent.
#[derive(Default)]
pub(super) struct Network {
    buffer: Vec<u8>,
    sent: VecDeque<(SocketAddr, Vec<u8>)>,
    /// Whether the next datagram to send causes a panic.
    pub(super) panics: bool,
}

impl DatagramQueue for Network {
    fn max_segments(&self, _socket: usize) -> usize {
        netio::udp_endpoint::MAX_SEGMENTS
    }

    fn buffer(&mut self, _socket: usize) -> &mut Vec<u8> {
        assert!(!self.panics, "as the test commands");
        self.buffer.clear();
        &mut self.buffer
    }

    fn queue(&mut self, _socket: usize, transmit: &Transmit) {
        let segment = transmit.segment_size.unwrap_or(self.buffer.len());
        self.sent.extend(self.buffer.chunks(segment).map(|octets| (transmit.destination, octets.to_vec())));
    }
}

/// How a stream ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StreamEnd {
    Open,
    Finished,
    Reset(u64),
}

pub(super) struct Client {
    pub(super) endpoint: Endpoint,
    handle: ConnectionHandle,
    pub(super) connection: Connection,
    pub(super) address: SocketAddr,
    pub(super) received: HashMap<StreamId, (Vec<u8>, StreamEnd)>,
    pub(super) closed: Option<ConnectionError>,
    pub(super) is_connected: bool,
    /// Whether it reads responses.
    pub(super) reads: bool,
}

/// An endpoint and its clients.
pub(super) struct World {
    pub(super) now: Instant,
    pub(super) server: QuicEndpoint<Scripted>,
    pub(super) network: Network,
    pub(super) clients: Vec<Client>,
    pub(super) counters: Arc<ListenerCounters>,
    pub(super) certificates: TestCertificates,
    tls: Arc<ServerTls>,
    /// The octets of a stream that new clients accept before they read.
    pub(super) client_window: Option<u32>,
    /// Datagrams that the sockets of clients hold; what arrives at once beyond them is lost.
    pub(super) client_buffer: usize,
}

impl World {
    pub(super) fn new(change: impl FnOnce(&mut QuicConfig)) -> World {
        World::of_thread(QuicShared::new(10_000), change)
    }

    /// That of one thread of several.
    pub(super) fn of_thread(shared: QuicShared, change: impl FnOnce(&mut QuicConfig)) -> World {
        let certificates = TestCertificates::new();
        let tls = Arc::new(ServerTls::read(&new_files(&certificates)).expect("the files of the test"));
        let (counters, now) = (Arc::new(ListenerCounters::default()), Instant::now());
        // The time of the network is not that of handshakes.
        let mut options = QuicConfig { handshake_percent: 100_000, ..ListenConfig::default().quic };
        change(&mut options);
        let waker = Arc::new(Waker::new().expect("a descriptor"));
        let setup = WorkerSetup { responder: Scripted::default(), counters: counters.clone(), waker };
        let server = QuicEndpoint::new(setup, tls.clone(), shared, &options, now).expect("a cipher suite");
        World {
            now,
            server,
            network: Network::default(),
            clients: Vec::new(),
            counters,
            certificates,
            tls,
            client_window: None,
            client_buffer: usize::MAX,
        }
    }

    /// Gives the server another certificate.
    pub(super) fn reload(&self) {
        self.reload_with(Some(self.certificates.authority()));
    }

    /// Gives the server another certificate, and other authorities of clients.
    pub(super) fn reload_with(&self, authorities: Option<PathBuf>) {
        let files = ServerTlsFiles { authorities, ..new_files(&self.certificates) };
        self.tls.reload(&files).expect("the files of the test");
    }

    pub(super) fn totals(&self) -> CounterTotals {
        CounterTotals::of(std::slice::from_ref(&self.counters))
    }

    /// The TLS settings of clients.
    pub(super) fn tls(&self, remote: &RemoteTls) -> rustls::ClientConfig {
        let mut tls = ClientTls::read(remote, None).expect("the files of the test").config().clone();
        tls.alpn_protocols = vec![ALPN_DOQ.to_vec()];
        tls.enable_early_data = true;
        tls
    }

    /// A client with an address of this number that has sent nothing yet.
    pub(super) fn start(&mut self, number: u16, tls: rustls::ClientConfig) -> usize {
        let [high, low] = number.to_be_bytes();
        let address = SocketAddr::from(([10, 0, high, low], 4000));
        let mut endpoint = Endpoint::new(Arc::default(), None, false, None);
        let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).expect("TLS 1.3")));
        if let Some(window) = self.client_window {
            let mut transport = TransportConfig::default();
            transport.stream_receive_window(window.into());
            config.transport_config(Arc::new(transport));
        }
        let server = SERVER.parse().expect("a literal");
        let (handle, connection) =
            endpoint.connect(self.now, config, server, "ns1.example.net").expect("valid settings");
        let (received, closed) = (HashMap::new(), None);
        let client =
            Client { endpoint, handle, connection, address, received, closed, is_connected: false, reads: true };
        self.clients.push(client);
        self.clients.len() - 1
    }

    /// A client that is connected.
    pub(super) fn connect(&mut self, number: u16) -> usize {
        let tls = self.tls(&RemoteTls::default());
        let client = self.start(number, tls);
        self.run();
        assert!(self.clients[client].is_connected, "{:?}", self.clients[client].closed);
        client
    }

    /// Sends a query on a stream of its own.
    pub(super) fn ask(&mut self, client: usize, message: &[u8]) -> StreamId {
        let length = (message.len() as u16).to_be_bytes();
        self.send(client, &[&length, message].concat(), true)
    }

    /// Sends octets on a new stream.
    pub(super) fn send(&mut self, client: usize, octets: &[u8], ends: bool) -> StreamId {
        let connection = &mut self.clients[client].connection;
        let id = connection.streams().open(Dir::Bi).expect("a stream is left");
        assert_eq!(connection.send_stream(id).write(octets), Ok(octets.len()));
        if ends {
            connection.send_stream(id).finish().expect("open");
        }
        id
    }

    /// Asks, and returns the response.
    pub(super) fn exchange(&mut self, client: usize, message: &[u8]) -> Vec<u8> {
        let id = self.ask(client, message);
        self.run();
        let (octets, end) = self.clients[client].received[&id].clone();
        assert_eq!(
            (end, octets.len()),
            (StreamEnd::Finished, 2 + usize::from(octets[0]) * 256 + usize::from(octets[1]))
        );
        octets[2..].to_vec()
    }

    /// Delivers what a client has to send, within a round of the server; returns the number of datagrams.
    pub(super) fn deliver_from(&mut self, client: usize) -> usize {
        let Client { address, .. } = self.clients[client];
        let datagrams = self.clients[client].transmits(self.now);
        for octets in &datagrams {
            self.server.receive(arrival(address, octets), self.now, &mut self.network);
        }
        datagrams.len()
    }

    /// Delivers what clients have to send.
    pub(super) fn deliver_to_server(&mut self) -> usize {
        self.server.begin_round(Duration::ZERO);
        let arrived = (0..self.clients.len()).map(|client| self.deliver_from(client)).sum();
        self.server.finish_round(self.now, &mut self.network);
        arrived
    }

    /// Delivers what the server has sent.
    pub(super) fn deliver_to_clients(&mut self) -> usize {
        let count = self.network.sent.len();
        for (to, octets) in std::mem::take(&mut self.network.sent).into_iter().take(self.client_buffer) {
            if let Some(client) = self.clients.iter_mut().find(|client| client.address == to) {
                client.receive(self.now, &octets);
            }
        }
        count
    }

    /// Delivers what both sides have to send; a millisecond passes. Returns the number of datagrams.
    pub(super) fn step(&mut self) -> usize {
        let moved = self.deliver_to_server() + self.deliver_to_clients();
        self.now += Duration::from_millis(1);
        moved
    }

    /// Delivers datagrams until nobody has more to send. The time passes by a millisecond per round.
    pub(super) fn run(&mut self) {
        for _ in 0..5000 {
            if self.step() == 0 && self.server.next_round(self.now) != Some(self.now) {
                return;
            }
        }
        panic!("the datagrams never end");
    }

    /// Lets time pass, with what timers cause.
    pub(super) fn wait(&mut self, duration: Duration) {
        self.wait_in_steps(duration, Duration::from_millis(50));
    }

    pub(super) fn wait_in_steps(&mut self, duration: Duration, step: Duration) {
        let until = self.now + duration;
        while self.now < until {
            self.now = until.min(self.now + step);
            for client in &mut self.clients {
                client.connection.handle_timeout(self.now);
                client.handle_events();
            }
            self.deliver_to_server();
            self.deliver_to_clients();
        }
    }

    /// The octets that a client has received of a response.
    pub(super) fn received(&self, client: usize, id: StreamId) -> usize {
        self.clients[client].received.get(&id).map_or(0, |(octets, _)| octets.len())
    }

    /// The application error that the server closed a connection with.
    pub(super) fn close_code(&self, client: usize) -> Option<u64> {
        match &self.clients[client].closed {
            Some(ConnectionError::ApplicationClosed(close)) => Some(close.error_code.into_inner()),
            _ => None,
        }
    }
}

/// The files of the server, with a new certificate.
fn new_files(certificates: &TestCertificates) -> ServerTlsFiles {
    let own = certificates.issue("server", &["ns1.example.net"]);
    ServerTlsFiles {
        own: OwnCertificate::Files { certificate: own.certificate, key: own.key },
        authorities: Some(certificates.authority()),
        ticket_keys: None,
    }
}

pub(super) fn arrival(peer: SocketAddr, octets: &[u8]) -> Arrival {
    Arrival { socket: 0, peer, local_ip: None, octets: BytesMut::from(octets) }
}

impl Client {
    /// The certificate of the server.
    pub(super) fn server_certificate(&self) -> Vec<u8> {
        let chain = self.connection.crypto_session().peer_identity().expect("it is connected");
        chain.downcast::<Vec<CertificateDer<'static>>>().expect("TLS")[0].to_vec()
    }

    /// The datagrams that it has to send.
    pub(super) fn transmits(&mut self, now: Instant) -> Vec<Vec<u8>> {
        let mut datagrams = Vec::new();
        let mut buffer = Vec::new();
        while self.connection.poll_transmit(now, 1, &mut buffer).is_some() {
            datagrams.push(std::mem::take(&mut buffer));
        }
        datagrams
    }

    fn receive(&mut self, now: Instant, octets: &[u8]) {
        let (server, mut buffer) = (SERVER.parse().expect("a literal"), Vec::new());
        let event = self.endpoint.handle(now, server, None, None, BytesMut::from(octets), &mut buffer);
        if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
            self.connection.handle_event(event);
        }
        self.handle_events();
    }

    fn handle_events(&mut self) {
        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.connection.handle_event(event);
            }
        }
        while let Some(event) = self.connection.poll() {
            match event {
                Event::Connected => self.is_connected = true,
                Event::ConnectionLost { reason } => _ = self.closed.get_or_insert(reason),
                Event::Stream(StreamEvent::Readable { id }) if self.reads => self.read(id),
                _ => {}
            }
        }
    }

    fn read(&mut self, id: StreamId) {
        let (octets, end) = self.received.entry(id).or_insert((Vec::new(), StreamEnd::Open));
        let mut stream = self.connection.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else { return };
        loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => octets.extend_from_slice(&chunk.bytes),
                Ok(None) => break *end = StreamEnd::Finished,
                Err(ReadError::Reset(code)) => break *end = StreamEnd::Reset(code.into_inner()),
                Err(ReadError::Blocked) => break,
            }
        }
        _ = chunks.finalize();
    }
}
