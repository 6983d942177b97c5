//! Replays of captures, as a server sees them: ports, connections and changed queries.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use load::job::{Job, Timing, Transport};
use load::metrics::Metrics;
use load::queries::{CaptureOrigin, CapturedConnection, Queries, QueryTemplate, file};
use netio::udp_client::Sources;

/// An address and port of a client.
type Client = SocketAddr;

/// A server over UDP and TCP on one port that answers each query with itself.
struct Server {
    address: SocketAddr,
    /// How many queries have arrived over UDP, by client.
    udp: Arc<Mutex<BTreeMap<Client, usize>>>,
    /// Each connection that has ended, with the number of its queries.
    ended: Receiver<(Client, usize)>,
}

impl Server {
    fn start() -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let address = listener.local_addr().expect("bound");
        let socket = UdpSocket::bind(address).expect("the port is free over UDP too");
        let (udp, (sender, ended)) = (Arc::<Mutex<BTreeMap<_, _>>>::default(), channel());
        let counts = udp.clone();
        thread::spawn(move || {
            let mut octets = [0; 512];
            while let Ok((len, client)) = socket.recv_from(&mut octets) {
                *counts.lock().expect("no panic").entry(client).or_default() += 1;
                octets[2] |= 0x80;
                _ = socket.send_to(&octets[..len], client);
            }
        });
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, sender) = (stream.expect("loopback"), sender.clone());
                thread::spawn(move || answer_all(stream, &sender));
            }
        });
        Server { address, udp, ended }
    }

    /// The next `count` connections that end.
    fn connections(&self, count: usize) -> BTreeMap<Client, usize> {
        let next = |_| self.ended.recv_timeout(Duration::from_secs(20)).expect("a connection ends");
        (0..count).map(next).collect()
    }
}

fn answer_all(mut stream: TcpStream, ended: &Sender<(Client, usize)>) {
    let client = stream.peer_addr().expect("connected");
    let mut queries = 0;
    let mut len = [0; 2];
    while stream.read_exact(&mut len).is_ok() {
        let mut message = vec![0; u16::from_be_bytes(len).into()];
        stream.read_exact(&mut message).expect("a whole query");
        message[2] |= 0x80;
        queries += 1;
        stream.write_all(&[&len[..], &message].concat()).expect("the client reads");
    }
    ended.send((client, queries)).expect("the test waits");
}

/// Ports that are free on all addresses.
fn free_ports<const N: usize>() -> [u16; N] {
    let listeners = [(); N].map(|()| TcpListener::bind("0.0.0.0:0").expect("loopback"));
    listeners.map(|listener| listener.local_addr().expect("bound").port())
}

const MS: u64 = 1_000_000;

/// A capture of queries (milliseconds, client, port, connection) and connections (client, port, open, close).
fn captured(sent: &[(u64, u32, u16, Option<u32>)], connections: &[(u32, u16, u64, Option<u64>)]) -> Arc<Queries> {
    let query = file::read(b". NS", &QueryTemplate::default()).expect("a query");
    let mut queries = Queries::default();
    for &(at_ms, client, port, connection) in sent {
        let origin = CaptureOrigin { time_ns: at_ms * MS, client, port, connection };
        queries.push_captured(query.at(0).message, origin).expect("a query");
    }
    let connections = connections.iter().map(|&(client, port, opened_ms, closed_ms)| CapturedConnection {
        client,
        port,
        opened_ns: opened_ms * MS,
        closed_ns: closed_ms.map(|ms| ms * MS),
    });
    queries.set_connections(connections.collect());
    Arc::new(queries)
}

fn job(server: &Server, queries: Arc<Queries>) -> Job {
    let sources = Some(Sources { first: [127, 8, 0, 1].into(), count: 4 });
    let job = Job::new(server.address, queries, Timing::Trace { speed: 2.0 });
    Job { transport: Transport::Mixed, sources, keep_ports: true, timeout: Duration::from_secs(20), ..job }
}

fn run(job: &Job) -> Metrics {
    let metrics = job.run(&AtomicBool::new(false), |_| ()).expect("loopback").metrics;
    assert_eq!((metrics.responses, metrics.missed, metrics.wrong), (metrics.scheduled, 0, 0));
    assert_eq!(metrics.schedule_error.len(), metrics.queries);
    metrics
}

fn client(number: u8, port: u16) -> Client {
    ([127, 8, 0, 1 + number], port).into()
}

#[test]
fn connections_and_ports_are_those_of_the_clients() {
    let server = Server::start();
    let [udp, other_udp, with_queries, idle, kept] = free_ports();
    let queries = captured(
        &[
            (0, 0, udp, None),
            (60, 1, with_queries, Some(0)),
            (80, 1, with_queries, Some(0)),
            (90, 2, other_udp, None),
            (300, 0, udp, None),
            (300, 3, kept, Some(2)),
        ],
        &[(1, with_queries, 20, Some(200)), (2, idle, 40, Some(100)), (3, kept, 50, None)],
    );
    let metrics = run(&job(&server, queries));
    assert_eq!((metrics.handshakes, metrics.closed_captured, metrics.closed_early), (3, 2, 0));
    assert_eq!(metrics.ports_replaced, 0);
    let expected = [(client(1, with_queries), 2), (client(2, idle), 0), (client(3, kept), 1)];
    assert_eq!(server.connections(3), BTreeMap::from(expected));
    let udp = BTreeMap::from([(client(0, udp), 2), (client(2, other_udp), 1)]);
    assert_eq!(*server.udp.lock().expect("no panic"), udp);
}

#[test]
fn threads_divide_clients_and_not_their_connections() {
    let server = Server::start();
    let sent: Vec<_> = (0..60).map(|number| (number, number as u32 % 3, 1, Some(number as u32 % 3))).collect();
    let queries = captured(&sent, &[(0, 1, 0, Some(59)), (1, 1, 0, Some(59)), (2, 1, 0, Some(59))]);
    let metrics = run(&Job { keep_ports: false, cpus: vec![0, 0], ..job(&server, queries) });
    assert_eq!((metrics.queries, metrics.handshakes), (60, 3));
    assert!(server.connections(3).values().all(|&queries| queries == 20));
}

/// A connection is closed by its captured end, not by the end of the run; a later query of it opens another.
#[test]
fn a_connection_that_has_ended_is_opened_again_for_a_later_query() {
    let server = Server::start();
    let [port] = free_ports();
    let queries = captured(&[(10, 0, port, Some(0)), (400, 0, port, Some(0))], &[(0, port, 0, Some(100))]);
    let metrics = run(&Job { keep_ports: false, ..job(&server, queries) });
    assert_eq!((metrics.handshakes, metrics.closed_captured), (2, 1));
    let ended = server.connections(2);
    assert!(ended.values().all(|&queries| queries == 1), "{ended:?}");
}

#[test]
fn a_port_that_is_in_use_is_replaced() {
    let server = Server::start();
    let port = server.address.port();
    let queries = captured(&[(0, 0, port, None), (10, 1, port, Some(0))], &[(1, port, 0, None)]);
    // The server listens on this port of 127.0.0.1, so no socket for all addresses can have it.
    let metrics = run(&Job { sources: None, ..job(&server, queries) });
    assert_eq!(metrics.ports_replaced, 2);
}
