//! The listeners over real sockets, with a responder that each query commands.

mod descriptors;
mod limits;
mod proxy;

use answer::{Request, Response, Transport};
use server::listen::{self, CounterTotals, ListenConfig, ListenerThreads, Responder};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(5);

/// Responds with the query and QR set, unless the fifth octet of the query is one of the commands below.
#[derive(Default)]
struct ScriptedResponder(answer::Counters);

const DROP: u8 = 1;
const PANIC: u8 = 2;
/// Respond with the longest message.
const LONGEST: u8 = 3;
/// Respond slowly, with as many NSEC3 digests as one turn of a connection may cost.
const EXPENSIVE: u8 = 5;
/// Over TCP, respond with the idle timeout in the last two octets.
const IDLE_TIMEOUT: u8 = 4;
/// Respond with the last octet of the client's address in the last octet. Other commands are for 127.0.0.1 only.
const CLIENT: u8 = 6;

impl Responder for ScriptedResponder {
    fn refresh(&mut self) {}

    fn counters(&self) -> &answer::Counters {
        &self.0
    }

    fn answer(&mut self, request: Request<'_>, out: &mut [u8]) -> Response {
        if request.message.len() < 5 {
            return Response::Drop;
        }
        out[..request.message.len()].copy_from_slice(request.message);
        out[2] |= 0x80;
        if request.message[4] != CLIENT {
            assert_eq!(request.peer, IpAddr::from([127, 0, 0, 1]));
        }
        match request.message[4] {
            CLIENT => {
                out[7] = match request.peer {
                    IpAddr::V4(ip) => ip.octets()[3],
                    IpAddr::V6(ip) => ip.octets()[15],
                };
                Response::Send(8)
            }
            DROP => Response::Drop,
            PANIC => panic!("as the query commands"),
            IDLE_TIMEOUT => match request.transport {
                Transport::Tcp { idle_ds } => {
                    out[6..8].copy_from_slice(&idle_ds.to_be_bytes());
                    Response::Send(8)
                }
                Transport::Udp | Transport::Tls { .. } | Transport::Quic { .. } => Response::Drop,
            },
            EXPENSIVE => {
                self.0.nsec3_digests += 10_000;
                std::thread::sleep(Duration::from_millis(5));
                Response::Send(request.message.len())
            }
            LONGEST => {
                out[request.message.len()..].fill(7);
                Response::Send(out.len())
            }
            _ => Response::Send(request.message.len()),
        }
    }
}

/// A configuration with short timeouts.
fn config() -> ListenConfig {
    ListenConfig {
        idle_timeout: Duration::from_secs(5),
        grace: Duration::from_secs(2),
        udp: netio::udp_server::ServerSocketOptions { wake_interval: Duration::from_millis(50), ..Default::default() },
        ..ListenConfig::default()
    }
}

fn with_short_idle_timeout() -> ListenConfig {
    ListenConfig { idle_timeout: Duration::from_millis(500), ..config() }
}

fn serve(options: &ListenConfig) -> (ListenerThreads, SocketAddr) {
    let listeners = listen::bind(&["127.0.0.1:0".parse().expect("a literal")], options).expect("loopback");
    let address = listeners.addresses()[0];
    (listeners.serve(ScriptedResponder::default).expect("threads"), address)
}

/// The counters of all UDP threads.
fn udp_totals(running: &ListenerThreads) -> CounterTotals {
    let [(_, udp), ..] = running.counters().totals();
    udp
}

/// The counters of all TCP threads.
fn tcp_totals(running: &ListenerThreads) -> CounterTotals {
    let [_, (_, tcp), ..] = running.counters().totals();
    tcp
}

fn udp_client(server: SocketAddr) -> UdpSocket {
    let client = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    client.connect(server).expect("loopback");
    client.set_read_timeout(Some(SOON)).expect("a valid timeout");
    client
}

fn connect(server: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(server).expect("loopback");
    stream.set_read_timeout(Some(SOON)).expect("a valid timeout");
    stream.set_nodelay(true).expect("a valid option");
    stream
}

/// A query with its length prefix.
fn framed_query(id: u16, command: u8) -> Vec<u8> {
    let [high, low] = id.to_be_bytes();
    vec![0, 8, high, low, 0, 0, command, 0, 0, 0]
}

fn read_message(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut prefix = [0; 2];
    stream.read_exact(&mut prefix)?;
    let mut message = vec![0; usize::from(u16::from_be_bytes(prefix))];
    stream.read_exact(&mut message)?;
    Ok(message)
}

fn read_id(stream: &mut TcpStream) -> io::Result<u16> {
    read_message(stream).map(|message| {
        assert_eq!(message[2] & 0x80, 0x80);
        u16::from_be_bytes([message[0], message[1]])
    })
}

fn exchange(stream: &mut TcpStream, id: u16) -> io::Result<u16> {
    stream.write_all(&framed_query(id, 0))?;
    read_id(stream)
}

/// Reads until the server closes the connection; false if it sends data or nothing.
fn is_closed(stream: &mut TcpStream) -> bool {
    match stream.read(&mut [0; 1]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
    }
}

#[test]
fn a_panic_costs_one_datagram() {
    let (running, server) = serve(&config());
    let client = udp_client(server);
    for (id, command) in [(1, 0), (2, PANIC), (3, DROP), (4, 0)] {
        client.send(&framed_query(id, command)[2..]).expect("loopback");
    }
    let mut answer = [0; 512];
    for id in [1, 4] {
        assert_eq!(client.recv(&mut answer).expect("an answer"), 8);
        assert_eq!(answer[..3], [0, id, 0x80]);
    }
    let totals = udp_totals(&running);
    assert_eq!((totals.queries, totals.answers, totals.dropped, totals.panics), (4, 2, 1, 1));
    running.stop();
}

#[test]
fn every_worker_and_address_answers() {
    let options = ListenConfig { workers: 3, tcp_workers: 2, ..config() };
    let addresses = ["127.0.0.1:0", "127.0.0.2:0"].map(|address| address.parse().expect("a literal"));
    let listeners = listen::bind(&addresses, &options).expect("loopback");
    let addresses = listeners.addresses().to_vec();
    let running = listeners.serve(ScriptedResponder::default).expect("threads");
    for address in addresses {
        for id in 0..32 {
            let client = udp_client(address);
            client.send(&framed_query(id, 0)[2..]).expect("loopback");
            client.recv(&mut [0; 64]).expect("an answer from whichever worker the kernel chose");
            assert_eq!(exchange(&mut connect(address), id).expect("an answer"), id);
        }
    }
    assert_eq!((udp_totals(&running).answers, tcp_totals(&running).answers), (64, 64));
    running.stop();
}

/// RFC 7766 6.2.1.1: queries may be sent without waiting for responses.
#[test]
fn pipelined_queries_are_all_answered() {
    let (running, server) = serve(&config());
    let mut stream = connect(server);
    let queries: Vec<u8> = (0..10_000).flat_map(|id| framed_query(id, if id % 10 == 9 { DROP } else { 0 })).collect();
    let mut writer = stream.try_clone().expect("a descriptor");
    let writing = std::thread::spawn(move || writer.write_all(&queries));
    for id in (0..10_000).filter(|id| id % 10 != 9) {
        assert_eq!(read_id(&mut stream).expect("an answer"), id);
    }
    writing.join().expect("no panic").expect("the server reads");
    running.stop();
}

/// RFC 7766 8: a message may arrive in any number of segments.
#[test]
fn messages_may_arrive_octet_by_octet() {
    let (running, server) = serve(&config());
    let mut stream = connect(server);
    for octet in [framed_query(1, 0), framed_query(2, 0)].concat() {
        stream.write_all(&[octet]).expect("loopback");
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!([1, 2], [(); 2].map(|()| read_id(&mut stream).expect("an answer")));
    running.stop();
}

#[test]
fn messages_of_all_lengths_are_answered() {
    let (running, server) = serve(&config());
    let mut stream = connect(server);
    for len in [5, 511, 512, 513, 4096, 65_534, 65_535u16] {
        let mut query = len.to_be_bytes().to_vec();
        query.resize(2 + usize::from(len), 0);
        stream.write_all(&query).expect("loopback");
        query[4] |= 0x80;
        assert_eq!(read_message(&mut stream).expect("an answer"), query[2..]);
    }
    // Messages without a response do not affect the next query.
    stream.write_all(&[0, 0, 0, 0, 0, 1, 9]).expect("loopback");
    assert_eq!(exchange(&mut stream, 5).expect("an answer"), 5);
    running.stop();
}

/// RFC 9293 3.6: a client that has closed its half still receives.
#[test]
fn half_closed_connections_get_their_responses() {
    let (running, server) = serve(&config());
    let mut stream = connect(server);
    stream.write_all(&[framed_query(1, 0), framed_query(2, 0), vec![0, 9, 0]].concat()).expect("loopback");
    stream.shutdown(std::net::Shutdown::Write).expect("connected");
    assert_eq!([1, 2], [(); 2].map(|()| read_id(&mut stream).expect("an answer")));
    assert!(is_closed(&mut stream), "nothing follows but the truncated message");
    running.stop();
}

#[test]
fn a_panic_costs_one_connection() {
    let (running, server) = serve(&config());
    let (mut bad, mut good) = (connect(server), connect(server));
    assert_eq!(exchange(&mut good, 1).expect("an answer"), 1);
    bad.write_all(&framed_query(2, PANIC)).expect("loopback");
    assert!(is_closed(&mut bad));
    assert_eq!(exchange(&mut good, 3).expect("an answer"), 3);
    assert_eq!(tcp_totals(&running).panics, 1);
    running.stop();
}

/// A datagram longer than the receive buffer is answered by its first 2048 octets.
#[test]
fn datagrams_that_are_too_long_are_counted() {
    let (running, server) = serve(&config());
    let client = udp_client(server);
    client.send(&[0; 3000]).expect("loopback");
    assert_eq!(client.recv(&mut [0; 4096]).expect("an answer"), 2048);
    assert_eq!((udp_totals(&running).oversized, udp_totals(&running).query_octets), (1, 2048));
    running.stop();
}

#[test]
fn a_stop_completes_queued_responses() {
    let (running, server) = serve(&with_short_idle_timeout());
    let (mut idle, mut reading) = (connect(server), connect(server));
    assert_eq!(exchange(&mut idle, 1).expect("an answer"), 1);
    let queries: Vec<u8> = (0..300).flat_map(|id| framed_query(id, LONGEST)).collect();
    reading.write_all(&queries).expect("3 KB fit into the socket");
    assert_eq!(read_id(&mut reading).expect("an answer"), 0);
    let stopping = std::thread::spawn(move || running.stop());
    assert!(is_closed(&mut idle));
    for id in 1..300 {
        assert_eq!(read_id(&mut reading).expect("an answer"), id);
    }
    assert!(is_closed(&mut reading));
    stopping.join().expect("no panic");
    assert!(TcpStream::connect(server).is_err());
}

/// It does not wait for the rest of a query, and for a client that does not read only for the grace period.
#[test]
fn a_stop_waits_no_longer_than_the_grace_period() {
    for (octets, grace_ms) in
        [(vec![0], 0..350), ((0..300).flat_map(|id| framed_query(id, LONGEST)).collect(), 400..1500)]
    {
        let (running, server) = serve(&ListenConfig { grace: Duration::from_millis(400), ..config() });
        let mut stream = connect(server);
        stream.write_all(&octets).expect("3 KB fit into the socket");
        std::thread::sleep(Duration::from_millis(100));
        let begin = Instant::now();
        running.stop();
        assert!(grace_ms.contains(&begin.elapsed().as_millis()), "{:?}", begin.elapsed());
        std::io::copy(&mut stream, &mut io::sink()).ok();
        assert!(is_closed(&mut stream));
    }
}
