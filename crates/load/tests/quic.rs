//! Clients over QUIC with a server that answers nothing, or few queries: hostile ones, and some whose queries are lost.

use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use bytes::BytesMut;
use load::hold::{Behaviour, HoldConfig, HoldResult};
use load::metrics::Metrics;
use load::queries::{Queries, QueryTemplate, file};
use load::quic::{QuicConfig, TIMEOUT, hostile};
use load::tls::{self, Purpose, TlsConfig, TlsOffer};
use load::verify::ResponseChecker;
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::{
    Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint, Event, ServerConfig, StreamEvent,
    StreamId, TokenLog, TokenReuseError, TransportConfig, ValidationTokenConfig,
};
use rustls::pki_types::ServerName;

use crate::tries::passes_in_one_of_ten;

#[path = "shared/tries.rs"]
mod tries;

/// What a server has seen.
#[derive(Default, Debug)]
struct Seen {
    datagrams: usize,
    /// Datagrams that begin like the first one of a connection.
    initials: usize,
    /// Attempts to connect.
    attempts: usize,
    /// Those with a token of an earlier connection.
    with_token: usize,
    established: usize,
    /// Connections that the client closed.
    closed: usize,
    streams: usize,
    /// Queries that the client cancelled.
    cancelled: usize,
}

/// Which queries of each connection a server answers.
#[derive(Clone, Copy, PartialEq)]
enum Answers {
    Nothing,
    /// Those of so many streams; there are no more.
    Streams(u32),
    /// All but every `n`-th.
    AllButEvery(u64),
    /// The first ones.
    First(u64),
    /// The first ones at once, the others after this time.
    Slowly(u64, Duration),
}

/// A server that accepts connections, and answers some queries.
struct Server {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Seen>,
}

impl Server {
    fn start(idle_timeout: Duration) -> Server {
        Server::answering(idle_timeout, Answers::Nothing)
    }

    fn answering(idle_timeout: Duration, answers: Answers) -> Server {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        socket.set_read_timeout(Some(Duration::from_millis(1))).expect("an option");
        let (address, stop) = (socket.local_addr().expect("bound"), Arc::new(AtomicBool::new(false)));
        let flag = stop.clone();
        Server { address, stop, thread: thread::spawn(move || serve(&socket, idle_timeout, answers, &flag)) }
    }

    fn stop(self) -> Seen {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("no panic")
    }
}

fn server_config(idle_timeout: Duration, answers: Answers) -> Arc<ServerConfig> {
    let (certificates, key) = tls::self_signed().expect("random numbers");
    let tls = tls::server_config(certificates, key, Purpose::Transfers).expect("a matching pair");
    let mut tls = rustls::ServerConfig::clone(&tls);
    tls.alpn_protocols = vec![b"doq".to_vec()];
    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls).expect("TLS 1.3")));
    let mut transport = TransportConfig::default();
    transport.max_idle_timeout(Some(idle_timeout.try_into().expect("a short time")));
    if let Answers::Streams(limit) = answers {
        transport.max_concurrent_bidi_streams(limit.into());
    }
    config.transport_config(Arc::new(transport));
    let mut tokens = ValidationTokenConfig::default();
    tokens.sent(2).log(Arc::new(AcceptsTokens));
    config.validation_token_config(tokens);
    Arc::new(config)
}

struct AcceptsTokens;

impl TokenLog for AcceptsTokens {
    fn check_and_insert(&self, _: u128, _: SystemTime, _: Duration) -> Result<(), TokenReuseError> {
        Ok(())
    }
}

fn serve(socket: &UdpSocket, idle_timeout: Duration, answers: Answers, stop: &AtomicBool) -> Seen {
    let mut endpoint = Endpoint::new(Arc::default(), Some(server_config(idle_timeout, answers)), false, None);
    let mut connections: HashMap<ConnectionHandle, Connection> = HashMap::new();
    let (mut seen, mut octets, mut delayed) = (Seen::default(), [0; 2048], Vec::new());
    while !stop.load(Ordering::Relaxed) {
        if let Ok((len, peer)) = socket.recv_from(&mut octets) {
            seen.datagrams += 1;
            seen.initials += usize::from(octets[0] & 0xf0 == 0xc0 && octets[1..5] == [0, 0, 0, 1]);
            let (now, mut reply) = (Instant::now(), Vec::new());
            match endpoint.handle(now, peer, None, None, BytesMut::from(&octets[..len]), &mut reply) {
                Some(DatagramEvent::NewConnection(incoming)) => {
                    seen.attempts += 1;
                    seen.with_token += usize::from(incoming.remote_address_validated());
                    // Here it is decrypted, which fails with random octets.
                    if let Ok((handle, connection)) = endpoint.accept(incoming, now, &mut reply, None) {
                        connections.insert(handle, connection);
                    }
                }
                Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                    connections.get_mut(&handle).expect("it was accepted").handle_event(event);
                }
                _ => {}
            }
        }
        for (handle, connection) in &mut connections {
            advance(&mut endpoint, *handle, connection, socket, &mut seen);
            let slow = if answers == Answers::Nothing { Vec::new() } else { answer(connection, answers) };
            delayed.extend(slow.into_iter().map(|answer| (*handle, answer)));
        }
        for (handle, (_, id, answer)) in delayed.extract_if(.., |(_, (due, ..))| *due <= Instant::now()) {
            respond(connections.get_mut(&handle).expect("it was accepted"), id, &answer);
        }
    }
    seen
}

fn advance(
    endpoint: &mut Endpoint,
    handle: ConnectionHandle,
    connection: &mut Connection,
    socket: &UdpSocket,
    seen: &mut Seen,
) {
    let now = Instant::now();
    if connection.poll_timeout().is_some_and(|at| at <= now) {
        connection.handle_timeout(now);
    }
    while let Some(event) = connection.poll_endpoint_events() {
        if let Some(event) = endpoint.handle_event(handle, event) {
            connection.handle_event(event);
        }
    }
    while let Some(event) = connection.poll() {
        match event {
            Event::Connected => seen.established += 1,
            Event::ConnectionLost { reason: ConnectionError::ApplicationClosed(_) } => seen.closed += 1,
            Event::Stream(StreamEvent::Opened { .. }) => seen.streams += 1,
            Event::Stream(StreamEvent::Stopped { error_code, .. }) => {
                assert_eq!(u64::from(error_code), 3, "RFC 9250 4.3: DOQ_REQUEST_CANCELLED");
                seen.cancelled += 1;
            }
            _ => {}
        }
    }
    let mut datagram = Vec::new();
    while let Some(transmit) = connection.poll_transmit(now, 1, &mut datagram) {
        socket.send_to(&datagram, transmit.destination).expect("loopback");
        datagram.clear();
    }
}

/// Answers the queries that have arrived with themselves; returns those that are answered later, with their times.
fn answer(connection: &mut Connection, answers: Answers) -> Vec<(Instant, StreamId, Vec<u8>)> {
    if matches!(answers, Answers::Streams(_)) {
        connection.set_max_concurrent_streams(Dir::Bi, 0u32.into());
    }
    let mut later = Vec::new();
    while let Some(id) = connection.streams().accept(Dir::Bi) {
        let (mut query, mut stream) = (Vec::new(), connection.recv_stream(id));
        let mut chunks = stream.read(true).expect("it is open");
        while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
            query.extend_from_slice(&chunk.bytes);
        }
        _ = chunks.finalize();
        match answers {
            Answers::Slowly(first, delay) if id.index() >= first => later.push((Instant::now() + delay, id, query)),
            Answers::First(first) if id.index() >= first => {}
            Answers::AllButEvery(nth) if id.index() % nth == nth - 1 => {}
            _ => respond(connection, id, &query),
        }
    }
    later
}

fn respond(connection: &mut Connection, id: StreamId, answer: &[u8]) {
    assert_eq!(connection.send_stream(id).write(answer), Ok(answer.len()));
    connection.send_stream(id).finish().expect("it is open");
}

/// A client that accepts any certificate.
fn trusting() -> TlsConfig {
    let name = ServerName::try_from("localhost").expect("a literal");
    TlsConfig::new(&TlsOffer::default(), name, Vec::new(), false, Purpose::Transfers).expect("a good configuration")
}

fn queries() -> Queries {
    file::read(b"www.example A", &QueryTemplate::default()).expect("a query")
}

/// Runs some clients against a server; returns both results.
fn run(behaviour: Behaviour, connections: usize, hold_ms: u64, idle_timeout_ms: u64) -> (HoldResult, Seen) {
    let server = Server::start(Duration::from_millis(idle_timeout_ms));
    let (tls, queries) = (trusting(), queries());
    let config = HoldConfig {
        server: server.address,
        sources: None,
        tls: None,
        connections,
        rate: 200.0,
        hold: Duration::from_millis(hold_ms),
        until_answered: false,
        behaviour,
        queries: &queries,
    };
    let mut opened = None;
    let held =
        hostile::run(&config, &tls, &AtomicBool::new(false), |held| opened = Some(held.established)).expect("loopback");
    assert_eq!(opened, Some(held.established), "called when all were established");
    (held, server.stop())
}

#[test]
fn a_flood_of_handshakes_completes_and_closes_each() {
    let (held, seen) = run(Behaviour::Handshake, 20, 300, 10_000);
    assert_eq!((held.established, held.failed, held.closed_by_peer, held.handshake.len()), (20, 0, 0, 20));
    assert!(held.open_s >= 0.09, "{}", held.open_s);
    assert_eq!((seen.attempts, seen.established, seen.closed, seen.streams), (20, 20, 20, 0), "{seen:?}");
}

#[test]
fn silent_connections_stay_open_until_the_server_closes_them() {
    let (held, seen) = run(Behaviour::Silence, 10, 200, 10_000);
    assert_eq!((held.established, held.failed, held.closed_by_peer), (10, 0, 0));
    assert_eq!((seen.established, seen.closed, seen.streams), (10, 0, 0), "{seen:?}");
    let (held, _) = run(Behaviour::Silence, 10, 1500, 300);
    assert_eq!((held.established, held.failed, held.closed_by_peer), (10, 0, 10));
    let (first, last) = (held.first_closed_s.expect("closed"), held.last_closed_s.expect("closed"));
    assert!(first > 0.2 && first <= last && last < 1.5, "{first} {last}");
}

#[test]
fn every_second_random_datagram_begins_like_a_connection() {
    let (held, seen) = run(Behaviour::Random, 10, 100, 10_000);
    assert_eq!((held.established, held.failed), (10, 0));
    assert_eq!((seen.datagrams, seen.initials, seen.established), (10, 5, 0), "{seen:?}");
    // Keys are derived for all five; two reserved bits are 0 in a quarter of them.
    assert!((1..5).contains(&seen.attempts), "{seen:?}");
}

fn config<'q>(server: SocketAddr, tls: &'q TlsConfig, queries: &'q Queries) -> QuicConfig<'q> {
    QuicConfig {
        server,
        sources: None,
        tls,
        connections: 2,
        rate: 200.0,
        query_rate: None,
        outstanding: 0,
        queries_per_connection: 0,
        warm_up: Duration::ZERO,
        duration: Duration::from_millis(800),
        queries,
        checker: ResponseChecker::Question,
    }
}

/// A thread that sleeps until a query is due wakes up too late for it.
#[test]
fn queries_at_a_rate_leave_when_they_are_due() {
    let server = Server::start(Duration::from_secs(10));
    let (tls, queries) = (trusting(), queries());
    let duration = Duration::from_millis(100);
    let config =
        QuicConfig { connections: 1, query_rate: Some(400.0), duration, ..config(server.address, &tls, &queries) };
    passes_in_one_of_ten(|| {
        let metrics = config.run(&AtomicBool::new(false), |_| ()).expect("loopback").metrics;
        assert!(metrics.queries >= 20, "{} queries", metrics.queries);
        let (median_ns, sleeper_ns) = (metrics.schedule_error.value_at_quantile(0.5), oversleeping_ns());
        assert!(median_ns < sleeper_ns / 2, "{median_ns} ns, a thread that sleeps {sleeper_ns} ns");
    });
    server.stop();
}

/// By how much a thread that sleeps wakes up too late on this machine now, in the median.
fn oversleeping_ns() -> u64 {
    let time = Duration::from_micros(2500);
    let mut late_ns: Vec<u64> = (0..41)
        .map(|_| {
            let began = Instant::now();
            std::thread::sleep(time);
            (began.elapsed() - time).as_nanos() as u64
        })
        .collect();
    late_ns.sort_unstable();
    late_ns[20]
}

/// The connection was chosen by the number of the query, so that a file with one query used one connection.
#[test]
fn queries_at_a_rate_go_to_each_connection_in_turn() {
    let server = Server::start(Duration::from_secs(10));
    let (tls, queries) = (trusting(), queries());
    let config = QuicConfig { connections: 4, query_rate: Some(400.0), ..config(server.address, &tls, &queries) };
    let metrics = config.run(&AtomicBool::new(false), |_| ()).expect("loopback").metrics;
    // A connection has 100 streams, and none is ever closed.
    assert!(metrics.queries >= 200 && metrics.missed == 0, "{} queries, {} missed", metrics.queries, metrics.missed);
    server.stop();
}

/// Each connection had as many queries as the one with most, and time-outs were also those of queries of the warm-up.
#[test]
fn a_closed_loop_has_its_queries_outstanding_and_counts_them_after_the_warm_up() {
    let server = Server::start(Duration::from_millis(200));
    let (tls, queries) = (trusting(), queries());
    let config = QuicConfig { connections: 3, outstanding: 4, ..config(server.address, &tls, &queries) };
    let metrics = run_until(&config, Duration::from_millis(100));
    assert_eq!((metrics.queries, metrics.interrupted), (4, 4), "{metrics:?}");
    let config = QuicConfig { warm_up: Duration::from_millis(100), ..config };
    let metrics = config.run(&AtomicBool::new(false), |_| ()).expect("loopback").metrics;
    // Each connection that is lost is replaced, and asked again.
    assert!(metrics.closed_early >= 3 && metrics.queries > 0, "{metrics:?}");
    assert_eq!((metrics.timeouts, metrics.interrupted), (metrics.queries, 0));
    server.stop();
}

/// Runs clients that are stopped after this time.
fn run_until(config: &QuicConfig<'_>, end: Duration) -> Metrics {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(end);
            stop.store(true, Ordering::Relaxed);
        });
        config.run(&stop, |_| ()).expect("loopback").metrics
    })
}

/// Such a query kept its place, so that after a while none was asked any more.
#[test]
fn a_query_without_an_answer_frees_its_place_after_the_time_out() {
    let server = Server::answering(Duration::from_secs(10), Answers::AllButEvery(10));
    let (tls, queries) = (trusting(), queries());
    let duration = TIMEOUT * 5 / 2;
    let config = QuicConfig { outstanding: 4, duration, ..config(server.address, &tls, &queries) };
    let metrics = config.run(&AtomicBool::new(false), |_| ()).expect("loopback").metrics;
    // Each connection loses two in the first moments, and again after each time-out. On a busy machine both time out at once, so that the
    // connection has answered nothing since the second one.
    assert!(metrics.timeouts >= 12, "{metrics:?}");
    assert_eq!((metrics.responses + metrics.timeouts, metrics.interrupted), (metrics.queries, 0));
    assert!(metrics.responses >= 100, "{metrics:?}");
    // The last ones may come when the server has stopped.
    assert!(server.stop().cancelled >= 4);
}

/// It stood still until the end, as did a closed loop over Knot DNS, which had closed its side of all connections.
#[test]
fn a_connection_that_answers_nothing_for_the_time_out_is_replaced() {
    let server = Server::answering(Duration::from_secs(10), Answers::First(5));
    let (tls, queries) = (trusting(), queries());
    let duration = TIMEOUT * 5 / 2;
    for (outstanding, query_rate) in [(4, None), (0, Some(100.0))] {
        let config = QuicConfig { outstanding, query_rate, duration, ..config(server.address, &tls, &queries) };
        let metrics = config.run(&AtomicBool::new(false), |_| ()).expect("loopback").metrics;
        assert!(metrics.handshakes == 4 && metrics.responses == 30, "two after each time-out: {metrics:?}");
        assert_eq!((metrics.closed_silent, metrics.closed_early), (metrics.handshakes, 0), "{metrics:?}");
        assert_eq!(metrics.responses + metrics.timeouts + metrics.missed, metrics.scheduled.max(metrics.queries));
    }
    server.stop();
}

/// All queries outstanding at the end counted as lost: 200 in each window with so many.
#[test]
fn answers_after_the_end_are_waited_for_and_late() {
    let server = Server::answering(Duration::from_secs(10), Answers::Slowly(10, TIMEOUT / 5));
    let (tls, queries) = (trusting(), queries());
    let config = QuicConfig { outstanding: 4, duration: TIMEOUT / 2, ..config(server.address, &tls, &queries) };
    let result = config.run(&AtomicBool::new(false), |_| ()).expect("loopback");
    let metrics = result.metrics;
    assert!(metrics.queries > 24 && metrics.responses == metrics.queries, "{metrics:?}");
    assert_eq!((metrics.interrupted, metrics.timeouts, metrics.responses_after_window), (0, 0, 4), "{metrics:?}");
    assert!(result.counted < TIMEOUT * 3 / 5, "{:?}", result.counted);
    assert_eq!(server.stop().established, 2);
}

/// Queries on lost connections were time-outs without a latency, so that the latencies were those of the others alone.
#[test]
fn queries_on_lost_connections_have_the_time_out_as_latency() {
    let server = Server::start(Duration::from_millis(200));
    let (tls, queries) = (trusting(), queries());
    let config = QuicConfig { outstanding: 6, ..config(server.address, &tls, &queries) };
    let metrics = config.run(&AtomicBool::new(false), |_| ()).expect("loopback").metrics;
    assert!(metrics.closed_early >= 2 && metrics.timeouts >= 6, "{metrics:?}");
    assert_eq!((metrics.responses, metrics.latency_actual.len()), (0, metrics.timeouts));
    // With three significant digits, the bucket of the time-out begins slightly below it.
    assert!(metrics.latency_actual.min() >= TIMEOUT.as_nanos() as u64 / 1000 * 999, "{metrics:?}");
    let seen = server.stop();
    assert!(seen.established >= 4 && seen.with_token == 0, "a connection is of another client: {seen:?}");
}

/// Knot DNS gives each connection 1024 streams: the clients waited for more, and the rate was that of the first ones.
#[test]
fn a_connection_without_streams_is_replaced() {
    let server = Server::answering(Duration::from_secs(10), Answers::Streams(5));
    let (tls, queries) = (trusting(), queries());
    let duration = Duration::from_millis(500);
    for (outstanding, query_rate) in [(4, None), (0, Some(400.0))] {
        let config = QuicConfig { outstanding, query_rate, duration, ..config(server.address, &tls, &queries) };
        let metrics = config.run(&AtomicBool::new(false), |_| ()).expect("loopback").metrics;
        assert!(metrics.responses > 30 && metrics.timeouts == 0 && metrics.closed_early == 0, "{metrics:?}");
        assert!(metrics.handshakes * 6 >= metrics.responses, "{metrics:?}");
    }
    server.stop();
}

/// It was always 0, so that the lab took the limit of the generator for that of the server.
#[test]
fn the_generator_is_as_busy_as_it_does_not_wait() {
    let server = Server::start(Duration::from_secs(10));
    let (tls, queries) = (trusting(), queries());
    let config = QuicConfig { query_rate: Some(10.0), ..config(server.address, &tls, &queries) };
    let result = config.run(&AtomicBool::new(false), |_| ()).expect("loopback");
    assert!(0.0 < result.busy && result.busy < 0.5, "{}", result.busy);
    server.stop();
}

/// The failure of a handshake was forgotten when the counters began, and the reason was "no answer".
#[test]
fn connections_that_cannot_be_opened_have_a_reason() {
    let server = Server::start(Duration::from_secs(10));
    let name = ServerName::try_from("localhost").expect("a literal");
    let (untrusted, _) = tls::self_signed().expect("random numbers");
    let tls =
        TlsConfig::new(&TlsOffer::default(), name, untrusted, false, Purpose::Transfers).expect("a good configuration");
    let queries = queries();
    let config = QuicConfig { connections: 1, query_rate: Some(10.0), ..config(server.address, &tls, &queries) };
    let stop = AtomicBool::new(false);
    let result = thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(500));
            stop.store(true, Ordering::Relaxed);
        });
        config.run(&stop, |_| ()).expect("loopback")
    });
    let failure = result.opening_metrics.handshake_failure.expect("the certificate is another one");
    assert!(result.open == 0 && failure.contains("certificate"), "{failure}");
    server.stop();
}

#[test]
fn kinds_that_need_a_stream_are_refused() {
    let run = |kind: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zonda-load"));
        command.args(["hostile", "--kind", kind, "--transport", "quic", "--server", "127.0.0.1", "--port", "9"]);
        command.args(["--connections", "1", "--seconds", "0"]).output().expect("the program was built")
    };
    let refused = run("half-query");
    let error = String::from_utf8(refused.stderr).expect("UTF-8");
    assert!(refused.status.code() == Some(2) && error.contains("TCP and TLS only"), "{error}");
    let sent = run("random");
    let output = String::from_utf8(sent.stdout).expect("UTF-8");
    for part in [r#""transport":"quic""#, r#""type":"quic_conn""#, r#""open":1"#, r#""handshakes":0"#] {
        assert!(output.contains(part), "{part}: {output}");
    }
}
