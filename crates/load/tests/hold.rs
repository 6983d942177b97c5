//! Held and hostile connections, as a server sees them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use load::hold::{Behaviour, HoldConfig, HoldResult};
use load::queries::{QueryTemplate, file};
use netio::tcp::{Listener, ListenerOptions};

/// Runs `handle` for each of `count` connections on its own thread.
fn serve<T: Send + 'static>(
    count: usize,
    handle: impl Fn(TcpStream) -> T + Send + Copy + 'static,
) -> (SocketAddr, JoinHandle<Vec<T>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("bound");
    let server = thread::spawn(move || {
        let threads: Vec<_> = (0..count)
            .map(|_| {
                let (stream, _) = listener.accept().expect("loopback");
                thread::spawn(move || handle(stream))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    (address, server)
}

fn hold(server: SocketAddr, behaviour: Behaviour, connections: usize, hold: Duration) -> HoldResult {
    let queries = file::read(b"www.example A", &QueryTemplate::default()).expect("a query");
    let config = HoldConfig {
        server,
        sources: None,
        tls: None,
        connections,
        rate: 500.0,
        hold,
        until_answered: false,
        behaviour,
        queries: &queries,
    };
    run(&config)
}

fn run(config: &HoldConfig) -> HoldResult {
    let mut opened = None;
    let held = config.run(&AtomicBool::new(false), |held| opened = Some(held.established)).expect("loopback");
    assert_eq!(opened, Some(held.established), "called when all were established");
    held
}

/// Reads to the end of the stream; returns the octets and whether it ended with RST.
fn read_all(mut stream: TcpStream) -> (Vec<u8>, bool) {
    let mut octets = Vec::new();
    let was_reset = stream.read_to_end(&mut octets).is_err();
    (octets, was_reset)
}

const QUERY_LEN: usize = 2 + 12 + 13 + 4;

#[test]
fn connections_are_opened_at_a_rate_and_held_in_silence() {
    let (server, served) = serve(50, |stream| (read_all(stream).0.len(), Instant::now()));
    let began = Instant::now();
    let held = hold(server, Behaviour::Silence, 50, Duration::from_millis(300));
    assert!(began.elapsed() >= Duration::from_millis(98 + 300));
    assert_eq!((held.established, held.failed, held.closed_by_peer, held.first_closed_s), (50, 0, 0, None));
    assert!(held.open_s >= 0.098);
    for (len, closed) in served.join().expect("no panic") {
        assert_eq!(len, 0);
        assert!(closed - began >= Duration::from_millis(98 + 300), "{:?}", closed - began);
    }
}

#[test]
fn connections_closed_by_the_server_are_counted_with_their_age() {
    let (server, _served) = serve(5, |stream| {
        thread::sleep(Duration::from_millis(200));
        drop(stream);
    });
    let held = hold(server, Behaviour::Silence, 5, Duration::from_millis(600));
    assert_eq!((held.closed_by_peer, held.closed_unanswered, held.established), (5, 5, 5));
    let (first, last) = (held.first_closed_s.expect("closed"), held.last_closed_s.expect("closed"));
    assert!(first > 0.15 && first <= last && last < 0.6, "{first} {last}");
}

/// A server that accepted and closed all connections had all of them "open".
#[test]
fn connections_that_the_server_closes_at_once_are_not_open() {
    let (server, _served) = serve(50, drop);
    let mut opened = None;
    let queries = file::read(b"www.example A", &QueryTemplate::default()).expect("a query");
    let config = HoldConfig {
        server,
        sources: None,
        tls: None,
        connections: 50,
        rate: 200.0,
        hold: Duration::from_millis(100),
        until_answered: false,
        behaviour: Behaviour::Silence,
        queries: &queries,
    };
    let stop = AtomicBool::new(false);
    let held = config.run(&stop, |held| opened = Some((held.open, held.established))).expect("loopback");
    // The last ones may have been closed a moment later.
    assert!(opened.is_some_and(|(open, established)| open <= 10 && established == 50), "{opened:?}");
    assert_eq!((held.closed_by_peer, Some((held.open, 50))), (50, opened));
}

#[test]
fn one_query_is_sent_on_each_connection() {
    let (server, _served) = serve(5, |mut stream| {
        let mut query = [0; QUERY_LEN];
        stream.read_exact(&mut query).expect("a whole query");
        stream.write_all(&query).expect("loopback");
        read_all(stream)
    });
    let held = hold(server, Behaviour::Ask, 5, Duration::from_millis(200));
    assert_eq!((held.responses, held.closed_by_peer), (5, 0));
}

#[test]
fn a_storm_ends_when_all_are_answered() {
    let (server, _served) = serve(5, |mut stream| {
        let mut query = [0; QUERY_LEN];
        stream.read_exact(&mut query).expect("a whole query");
        thread::sleep(Duration::from_millis(300));
        stream.write_all(&query).expect("loopback");
        read_all(stream)
    });
    let queries = file::read(b"www.example A", &QueryTemplate::default()).expect("a query");
    let held = run(&HoldConfig {
        server,
        sources: None,
        tls: None,
        connections: 5,
        rate: 500.0,
        hold: Duration::from_secs(20),
        until_answered: true,
        behaviour: Behaviour::Ask,
        queries: &queries,
    });
    assert_eq!((held.responses, held.late_connections), (5, 0));
    let last = held.last_response_s.expect("answered");
    assert!((0.3..10.0).contains(&last), "{last}");
}

/// One response arrives in two parts, one late, and one connection is closed without any.
#[test]
fn a_storm_ends_when_each_connection_is_answered_or_closed() {
    let (server, _served) = serve(3, |mut stream| {
        let mut query = [0; QUERY_LEN];
        stream.read_exact(&mut query).expect("a whole query");
        let qtype = query[QUERY_LEN - 3];
        match qtype {
            1 => {
                stream.write_all(&query[..2]).expect("loopback");
                thread::sleep(Duration::from_millis(100));
                stream.write_all(&query[2..]).expect("loopback");
            }
            2 => {
                thread::sleep(Duration::from_millis(300));
                stream.write_all(&query).expect("loopback");
            }
            _ => return,
        }
        read_all(stream);
    });
    let queries = file::read(b"www.example A\nwww.example NS\nwww.example MX", &QueryTemplate::default());
    let begin = Instant::now();
    let held = run(&HoldConfig {
        server,
        sources: None,
        tls: None,
        connections: 3,
        rate: 500.0,
        hold: Duration::from_secs(20),
        until_answered: true,
        behaviour: Behaviour::Ask,
        queries: &queries.expect("three queries"),
    });
    assert_eq!((held.responses, held.closed_by_peer), (2, 1));
    assert!(held.last_response_s.is_some_and(|last| last >= 0.3), "{:?}", held.last_response_s);
    assert!(begin.elapsed() < Duration::from_secs(10));
}

/// A listener that does not accept has places for two connections; the kernel drops the SYN of a third and gets it again a second later.
#[test]
fn connections_whose_syn_was_dropped_are_late() {
    let options = ListenerOptions { backlog: 1, ..ListenerOptions::default() };
    let listener = Listener::bind("127.0.0.1:0".parse().expect("an address"), &options).expect("loopback");
    let server = listener.local_addr().expect("bound");
    let served = thread::spawn(move || {
        thread::sleep(Duration::from_millis(500));
        let accepted = [listener.accept(), listener.accept()];
        thread::sleep(Duration::from_secs(2));
        accepted.map(|accepted| accepted.is_ok())
    });
    let held = hold(server, Behaviour::Silence, 3, Duration::ZERO);
    assert_eq!((held.established, held.failed, held.late_connections, held.last_response_s), (3, 0, 1, None));
    assert_eq!(served.join().expect("no panic"), [true; 2]);
}

#[test]
fn hostile_clients_behave_as_named() {
    let seen = |behaviour, millis| {
        let (server, served) = serve(2, read_all);
        hold(server, behaviour, 2, Duration::from_millis(millis));
        served.join().expect("no panic")
    };
    assert!(seen(Behaviour::HalfQuery, 100).iter().all(|(octets, _)| octets.len() == QUERY_LEN / 2));
    assert!(seen(Behaviour::Random, 100).iter().all(|(octets, _)| octets.len() == 512));
    assert!(seen(Behaviour::Reset, 100).iter().all(|(_, was_reset)| *was_reset));
    let floods = seen(Behaviour::Handshake, 100);
    assert!(floods.iter().all(|(octets, was_reset)| octets.is_empty() && *was_reset), "{floods:?}");
    let slow = seen(Behaviour::ByteASecond, 1500);
    assert!(slow.iter().all(|(octets, _)| octets[..] == [0, QUERY_LEN as u8 - 2]), "{slow:?}");
}

#[test]
fn a_client_that_never_reads_fills_all_buffers() {
    let (server, served) = serve(1, |mut stream| {
        // Responds until writing blocks.
        stream.set_write_timeout(Some(Duration::from_millis(200))).expect("an option");
        let mut query = [0; QUERY_LEN];
        let mut answered = 0;
        while stream.read_exact(&mut query).is_ok() && stream.write_all(&[0; 4096]).is_ok() {
            answered += 1;
        }
        answered
    });
    let held = hold(server, Behaviour::NeverRead, 1, Duration::from_millis(1500));
    let answered = served.join().expect("no panic")[0];
    assert!(answered > 16, "{answered} answers");
    assert_eq!(held.responses, 0);
}

#[test]
fn failed_connections_are_counted() {
    let nobody = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("loopback");
    let held = hold(nobody, Behaviour::Silence, 3, Duration::ZERO);
    assert_eq!((held.established, held.failed), (0, 3));
    assert!(held.first_failure.is_some_and(|why| why.contains("refused")));
}
