//! The TLS listeners over loopback, with a responder that each query commands.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use answer::{Request, Response, Transport};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use wire::AddressPrefix;

use super::test_certificates::{CertificateFiles, TestCertificates};
use super::tests::{client, mutual, pinned, server_files};
use super::{ClientTls, ServerTls, ServerTlsFiles};
use crate::config::remote_server::RemoteTls;
use crate::listen::{self, CounterTotals, ListenConfig, ListenerThreads, Responder};

const SOON: Duration = Duration::from_secs(10);

/// Responds with the query and QR set; the fifth octet may ask for one of these.
#[derive(Default)]
struct ScriptedResponder(answer::Counters);

/// The longest message.
const LONGEST: u8 = 1;
/// The number of names of the client's certificate in the last octet.
const CLIENT_NAMES: u8 = 2;

impl Responder for ScriptedResponder {
    fn refresh(&mut self) {}

    fn counters(&self) -> &answer::Counters {
        &self.0
    }

    fn answer(&mut self, request: Request<'_>, out: &mut [u8]) -> Response {
        let client_names: &[_] = match request.transport {
            Transport::Tls { client_names, idle_ds: 1.. } => client_names,
            Transport::Tcp { idle_ds: 1.. } => &[],
            _ => panic!("neither TLS nor TCP"),
        };
        let len = request.message.len();
        out[..len].copy_from_slice(request.message);
        out[2] |= 0x80;
        match request.message[4] {
            LONGEST => {
                out[len..].fill(request.message[1]);
                return Response::Send(out.len());
            }
            CLIENT_NAMES => out[len - 1] = client_names.len() as u8,
            _ => {}
        }
        Response::Send(len)
    }
}

struct Server {
    certificates: TestCertificates,
    own: CertificateFiles,
    tls: Arc<ServerTls>,
    address: SocketAddr,
    /// For TCP without TLS.
    plain_address: SocketAddr,
    running: ListenerThreads,
}

fn config() -> ListenConfig {
    ListenConfig {
        idle_timeout: Duration::from_secs(5),
        grace: Duration::from_secs(2),
        udp: netio::udp_server::ServerSocketOptions { wake_interval: Duration::from_millis(50), ..Default::default() },
        ..ListenConfig::default()
    }
}

fn serve(config: &ListenConfig) -> Server {
    let certificates = TestCertificates::new();
    let own = certificates.issue("server", &["ns1.example.net"]);
    let tls = Arc::new(ServerTls::read(&server_files(&certificates, &own)).expect("the files of the test"));
    let any = "127.0.0.1:0".parse().expect("a literal");
    let mut listeners = listen::bind(&[any], config).expect("loopback");
    listeners.bind_tls(&[any], &tls).expect("loopback");
    let (address, plain_address) = (listeners.tls_addresses()[0], listeners.addresses()[0]);
    let running = listeners.serve(ScriptedResponder::default).expect("threads");
    Server { certificates, own, tls, address, plain_address, running }
}

type Client = StreamOwned<ClientConnection, TcpStream>;

trait Stream: Read + Write {}

impl<T: Read + Write> Stream for T {}

impl Server {
    /// To the address for TLS.
    fn tcp(&self) -> TcpStream {
        tcp(self.address)
    }

    fn connect_with(&self, settings: &ClientTls) -> Client {
        let name = ServerName::try_from("ns1.example.net").expect("a name");
        let session = ClientConnection::new(Arc::new(settings.config().clone()), name).expect("valid settings");
        StreamOwned::new(session, self.tcp())
    }

    fn connect(&self) -> Client {
        self.connect_with(&client(&self.certificates, &RemoteTls::default()))
    }

    /// The counters of all TLS threads.
    fn totals(&self) -> CounterTotals {
        let [.., (_, tls), _] = self.running.counters().totals();
        tls
    }

    /// A connection with TLS or without.
    fn open(&self, is_tls: bool) -> Box<dyn Stream> {
        if is_tls { Box::new(self.connect()) } else { Box::new(tcp(self.plain_address)) }
    }
}

fn tcp(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("loopback");
    stream.set_read_timeout(Some(SOON)).expect("an option");
    stream.set_nodelay(true).expect("an option");
    stream
}

fn query(id: u16, command: u8) -> Vec<u8> {
    let [high, low] = id.to_be_bytes();
    vec![0, 8, high, low, 0, 0, command, 0, 0, 0]
}

fn read_message(stream: &mut impl Read) -> Vec<u8> {
    let mut prefix = [0; 2];
    stream.read_exact(&mut prefix).expect("an answer");
    let mut message = vec![0; usize::from(u16::from_be_bytes(prefix))];
    stream.read_exact(&mut message).expect("a whole answer");
    message
}

fn exchange(stream: &mut impl Stream, id: u16) {
    stream.write_all(&query(id, 0)).expect("open");
    assert_eq!(read_message(stream)[..2], id.to_be_bytes());
}

/// Whether a query is answered.
fn is_served(stream: &mut impl Stream) -> bool {
    let mut answer = query(0, 0);
    stream.write_all(&answer).is_ok() && stream.read_exact(&mut answer).is_ok()
}

/// Sends the last queries, and close_notify in the same segment.
fn send_last(stream: &mut Client, queries: &[u8]) {
    stream.conn.writer().write_all(queries).expect("open");
    stream.conn.send_close_notify();
    let mut segment = Vec::new();
    while stream.conn.wants_write() {
        stream.conn.write_tls(&mut segment).expect("a vector");
    }
    stream.sock.write_all(&segment).expect("loopback");
}

/// The server closes the connection, with an alert at most.
fn assert_closed(stream: &mut TcpStream) {
    let mut answer = Vec::new();
    let end = stream.read_to_end(&mut answer);
    assert!(end.is_ok() || end.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset));
    assert!(answer.is_empty() || answer[0] == 21, "{answer:?}");
}

/// The header of a proxy that terminates no TLS precedes the handshake.
#[test]
fn a_proxy_names_its_client_before_the_handshake() {
    let loopback = AddressPrefix::single([127, 0, 0, 1].into());
    let server = serve(&ListenConfig { proxies: listen::Proxies::from(vec![loopback]), ..config() });
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".to_vec();
    header.extend([192, 0, 2, 7, 198, 51, 100, 1, 0x30, 0x39, 3, 85]);
    let mut stream = server.connect();
    stream.sock.write_all(&header).expect("loopback");
    (0..3).for_each(|id| exchange(&mut stream, id));
    let mut without = server.connect();
    assert!(without.write_all(&query(9, 0)).is_err() || without.read(&mut [0; 2]).is_err());
    assert_eq!(server.totals().proxy_refused, 1);
    server.running.stop();
}

#[test]
fn queries_over_tls_are_answered_like_those_over_tcp() {
    let server = serve(&config());
    let mut stream = server.connect();
    // Pipelined, in many records and in one.
    (0..100).for_each(|id| stream.write_all(&query(id, 0)).expect("open"));
    stream.write_all(&(100..2000).flat_map(|id| query(id, 0)).collect::<Vec<u8>>()).expect("open");
    (0..2000u16).for_each(|id| assert_eq!(read_message(&mut stream)[..2], id.to_be_bytes()));
    // Octet by octet.
    for octet in query(7, 0) {
        stream.write_all(&[octet]).expect("open");
    }
    assert_eq!(read_message(&mut stream)[..3], [0, 7, 0x80]);
    let [_, (_, tcp), (_, tls), _] = server.running.counters().totals();
    assert_eq!((tls.queries, tls.answers, tls.connections, tls.panics), (2001, 2001, 1, 0));
    assert_eq!(tcp.connections, 0);
    // The answers of a stop are complete, and the end is a close_notify.
    server.running.stop();
    assert_eq!(stream.read(&mut [0; 1]).expect("close_notify, not a torn stream"), 0);
}

#[test]
fn rfc_8446_4_6_3_clients_may_change_their_keys_and_the_servers_at_any_time() {
    let server = serve(&config());
    let mut stream = server.connect();
    for round in 0..50u16 {
        // Also before the first query, in the flight that ends the handshake.
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock).expect("a handshake");
        }
        stream.conn.refresh_traffic_keys().expect("TLS 1.3");
        exchange(&mut stream, 2 * round);
        exchange(&mut stream, 2 * round + 1);
    }
    let mut many = server.connect();
    exchange(&mut many, 1);
    (0..40).for_each(|_| many.conn.refresh_traffic_keys().expect("TLS 1.3"));
    let refused = many.write_all(&query(2, 0)).and_then(|()| many.read(&mut [0; 1]));
    assert!(!matches!(refused, Ok(1..)), "{refused:?}");
    server.running.stop();
}

#[test]
fn rfc_8446_6_1_close_notify_in_the_segment_of_the_last_query_ends_the_connection() {
    let server = serve(&ListenConfig { idle_timeout: 20 * SOON, ..config() });
    for queries in [1, 100] {
        let mut stream = server.connect();
        exchange(&mut stream, 0);
        send_last(&mut stream, &(0..queries).flat_map(|id| query(id, 0)).collect::<Vec<u8>>());
        (0..queries).for_each(|id| assert_eq!(read_message(&mut stream)[..2], id.to_be_bytes()));
        assert_eq!(stream.read(&mut [0; 1]).expect("close_notify"), 0);
    }
    server.running.stop();
}

#[test]
fn rfc_8446_4_4_4_data_in_the_flight_that_ends_the_handshake_is_answered() {
    let server = serve(&config());
    for len in [1, 100, 20_000] {
        let mut stream = server.connect();
        // It waits in the session until there are keys, and follows Finished at once.
        let queries: Vec<u8> = (0..len).flat_map(|id| query(id, 0)).collect();
        let accepted = stream.conn.writer().write(&queries).expect("a buffer") / 10;
        (0..accepted as u16).for_each(|id| assert_eq!(read_message(&mut stream)[..2], id.to_be_bytes()));
    }
    server.running.stop();
}

#[test]
fn long_answers_arrive_whole_at_a_slow_reader() {
    let server = serve(&config());
    let mut stream = server.connect();
    let count = 100u16;
    stream.write_all(&(0..count).flat_map(|id| query(id, LONGEST)).collect::<Vec<u8>>()).expect("open");
    for id in 0..count {
        let message = read_message(&mut stream);
        assert_eq!((message.len(), &message[..2]), (65_535, &id.to_be_bytes()[..]));
        assert!(message[8..].iter().all(|octet| *octet == id as u8));
        if id % 10 == 0 {
            thread::sleep(Duration::from_millis(20));
        }
    }
    server.running.stop();
}

/// The kernel has no room for the end of the answers, and for close_notify, until the client reads.
#[test]
fn rfc_8446_6_1_close_notify_follows_long_answers_at_a_slow_reader() {
    let server = serve(&config());
    for count in 10..20u16 {
        let mut stream = server.connect();
        exchange(&mut stream, 0);
        send_last(&mut stream, &(0..count).flat_map(|id| query(id, LONGEST)).collect::<Vec<u8>>());
        for id in 0..count {
            thread::sleep(Duration::from_millis(5));
            assert_eq!(read_message(&mut stream)[..2], id.to_be_bytes());
        }
        assert_eq!(stream.read(&mut [0; 1]).expect("close_notify"), 0);
    }
    server.running.stop();
}

#[test]
fn the_names_of_a_verified_client_certificate_come_with_its_queries() {
    let server = serve(&config());
    let own = server.certificates.issue("client", &["a.example", "b.example"]);
    for (settings, names) in [(mutual(&own), 2), (RemoteTls::default(), 0)] {
        let mut stream = server.connect_with(&client(&server.certificates, &settings));
        stream.write_all(&query(1, CLIENT_NAMES)).expect("open");
        assert_eq!(read_message(&mut stream)[7], names);
    }
    // A certificate that cannot be verified ends the handshake.
    let others = TestCertificates::new();
    let mut stream = server.connect_with(&client(&others, &mutual(&others.issue("client", &["a.example"]))));
    let result = stream.write_all(&query(1, 0)).and_then(|()| stream.read(&mut [0; 1]));
    assert!(!matches!(result, Ok(1..)), "{result:?}");
    server.running.stop();
}

#[test]
fn a_reload_of_other_authorities_takes_the_names_of_open_connections() {
    let server = serve(&config());
    let own = server.certificates.issue("client", &["a.example"]);
    let mut open = server.connect_with(&client(&server.certificates, &mutual(&own)));
    let mut names = || {
        open.write_all(&query(1, CLIENT_NAMES)).expect("open");
        read_message(&mut open)[7]
    };
    assert_eq!(names(), 1);
    let (files, others) = (server_files(&server.certificates, &server.own), TestCertificates::new());
    for (authorities, expected) in [(Some(others.authority()), 0), (None, 0), (files.authorities.clone(), 1)] {
        server.tls.reload(&ServerTlsFiles { authorities, ..files.clone() }).expect("the files of the test");
        assert_eq!(names(), expected);
    }
    server.running.stop();
}

#[test]
fn half_a_handshake_and_silence_ends_after_the_idle_timeout_and_delays_nobody() {
    let server = serve(&ListenConfig { idle_timeout: Duration::from_millis(500), ..config() });
    let mut hello = Vec::new();
    let mut session =
        client(&server.certificates, &RemoteTls::default()).connect(server.address.ip()).expect("valid settings");
    session.flush(&mut hello).expect("a buffer");
    let begin = Instant::now();
    let mut halves: Vec<TcpStream> = (0..50).map(|_| server.tcp()).collect();
    for half in &mut halves {
        half.write_all(&hello[..hello.len() / 2]).expect("loopback");
    }
    let mut open = server.connect();
    for id in 0..20 {
        exchange(&mut open, id);
        thread::sleep(Duration::from_millis(50));
    }
    for half in &mut halves {
        assert_closed(half);
    }
    assert!(begin.elapsed() < SOON);
    assert!(server.totals().expired >= 50, "{:?}", server.totals());
    server.running.stop();
}

#[test]
fn rfc_7858_3_4_an_idle_connection_ends_with_close_notify() {
    let server = serve(&ListenConfig { idle_timeout: Duration::from_secs(2), ..config() });
    let mut stream = server.connect();
    (0..5).for_each(|id| exchange(&mut stream, id));
    assert_eq!(stream.read(&mut [0; 1]).expect("close_notify, not a torn stream"), 0);
    assert_eq!(server.totals().expired, 1);
    server.running.stop();
}

#[test]
fn plain_dns_on_the_tls_port_is_closed() {
    let server = serve(&config());
    let mut stream = server.tcp();
    stream.write_all(&query(1, 0)).expect("loopback");
    assert_closed(&mut stream);
    exchange(&mut server.connect(), 1);
    server.running.stop();
}

#[test]
fn a_client_that_reads_nothing_is_closed_when_memory_is_short() {
    let server = serve(&ListenConfig { memory_limit: 1 << 20, ..config() });
    let mut clients: Vec<Client> = (0..8).map(|_| server.connect()).collect();
    let queries: Vec<u8> = (0..200).flat_map(|id| query(id, LONGEST)).collect();
    for client in &mut clients {
        // It may be closed already.
        _ = client.write_all(&queries);
    }
    let begin = Instant::now();
    while server.totals().evicted == 0 && begin.elapsed() < SOON {
        thread::sleep(Duration::from_millis(20));
    }
    assert!(server.totals().evicted > 0, "{:?}", server.totals());
    exchange(&mut server.connect(), 1);
    server.running.stop();
}

#[test]
fn idle_sessions_do_not_count_against_the_limit_of_memory() {
    const SESSIONS: usize = 64;
    let server = serve(&ListenConfig {
        memory_limit: SESSIONS * crate::tls::SESSION_MEMORY,
        idle_timeout: 20 * SOON,
        ..config()
    });
    let mut clients: Vec<Client> = Vec::new();
    for id in 0..SESSIONS as u16 + 4 {
        clients.push(server.connect());
        exchange(clients.last_mut().expect("it was pushed"), id);
    }
    clients.iter_mut().for_each(|client| exchange(client, 1));
    assert_eq!(server.totals().evicted, 0);
    server.running.stop();
}

/// RFC 9210 4.4: those of one kind are closed for the other.
#[test]
fn rfc_9210_4_4_tcp_and_tls_connections_share_the_places() {
    for is_tls_first in [false, true] {
        let server = serve(&ListenConfig { connections: 4, idle_timeout: 20 * SOON, ..config() });
        let mut streams = Vec::new();
        for id in 0..6 {
            let mut stream = server.open((id < 4) == is_tls_first);
            exchange(&mut stream, id);
            streams.push(stream);
        }
        let evicted = || server.running.counters().totals().iter().map(|(_, totals)| totals.evicted).sum::<u64>();
        let begin = Instant::now();
        while evicted() < 2 && begin.elapsed() < SOON {
            thread::sleep(Duration::from_millis(20));
        }
        let served: Vec<usize> = (0..6).filter(|number| is_served(&mut streams[*number])).collect();
        assert!(evicted() >= 2 && served.len() <= 4, "TLS first: {is_tls_first}, {served:?}");
        assert!(served.ends_with(&[4, 5]), "TLS first: {is_tls_first}, {served:?}");
        server.running.stop();
    }
}

#[test]
fn rfc_9210_4_4_tcp_and_tls_connections_of_a_client_are_counted_together() {
    let server = serve(&ListenConfig { connections_per_client: 2, ..config() });
    let (mut plain, mut tls) = (server.open(false), server.open(true));
    exchange(&mut plain, 1);
    exchange(&mut tls, 2);
    for is_tls in [false, true] {
        assert!(!is_served(&mut server.open(is_tls)), "TLS: {is_tls}");
    }
    let [_, (_, tcp), (_, tls_totals), _] = server.running.counters().totals();
    assert_eq!((tcp.refused, tls_totals.refused), (1, 1));
    exchange(&mut plain, 3);
    exchange(&mut tls, 4);
    server.running.stop();
}

#[test]
fn several_threads_do_handshakes() {
    let server = serve(&ListenConfig { handshake_workers: 2, tls_workers: 2, ..config() });
    // The kernel chooses the thread by the port of the client.
    let mut clients: Vec<Client> = (0..20).map(|_| server.connect()).collect();
    clients.iter_mut().zip(0..).for_each(|(client, id)| exchange(client, id));
    assert_eq!(server.running.tls_threads_with_connections(), 2);
    server.running.stop();
}

#[test]
fn many_handshakes_at_once_all_succeed() {
    let server = serve(&config());
    let settings = client(&server.certificates, &RemoteTls::default());
    let mut clients: Vec<Client> = (0..60).map(|_| server.connect_with(&settings)).collect();
    // All ClientHellos first.
    for client in &mut clients {
        client.conn.write_tls(&mut client.sock).expect("loopback");
    }
    for (id, client) in clients.iter_mut().enumerate() {
        exchange(client, id as u16);
    }
    server.running.stop();
}

#[test]
fn open_connections_are_answered_while_handshakes_wait_for_their_share() {
    let server = serve(&ListenConfig { handshake_percent: 4, idle_timeout: 20 * SOON, ..config() });
    let mut open = server.connect();
    exchange(&mut open, 0);
    let settings = client(&server.certificates, &RemoteTls::default());
    let mut clients: Vec<Client> = (0..200).map(|_| server.connect_with(&settings)).collect();
    for client in &mut clients {
        client.conn.write_tls(&mut client.sock).expect("loopback");
    }
    // Some are gone before their turn.
    clients.truncate(180);
    (0..50).for_each(|id| exchange(&mut open, id));
    let is_answered = |client: &Client| {
        client.sock.set_nonblocking(true).expect("an option");
        let peeked = client.sock.peek(&mut [0]);
        client.sock.set_nonblocking(false).expect("an option");
        peeked.is_ok()
    };
    assert!(!clients.iter().all(is_answered), "handshakes wait");
    clients.iter_mut().for_each(|client| exchange(client, 51));
    exchange(&mut open, 52);
    server.running.stop();
}

#[test]
fn a_reload_changes_the_certificate_of_new_connections_only() {
    let server = serve(&config());
    let mut open = server.connect_with(&client(&server.certificates, &pinned(server.own.pin)));
    exchange(&mut open, 1);
    let new = server.certificates.issue("new", &["ns1.example.net"]);
    server.tls.reload(&server_files(&server.certificates, &new)).expect("the files of the test");
    exchange(&mut open, 2);
    exchange(&mut server.connect_with(&client(&server.certificates, &pinned(new.pin))), 3);
    let mut refused = server.connect_with(&client(&server.certificates, &pinned(server.own.pin)));
    assert!(refused.write_all(&query(4, 0)).is_err());
    server.running.stop();
}

#[test]
fn resumed_handshakes_are_counted() {
    let server = serve(&config());
    let settings = client(&server.certificates, &RemoteTls::default());
    for resumed in 0..3 {
        exchange(&mut server.connect_with(&settings), 1);
        assert_eq!(server.totals().resumed, resumed);
    }
    server.running.stop();
}
