//! Connections over TCP: kept, used up, closed by the server, refused.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::Duration;

use load::job::{Job, Timing, Transport};

use crate::{at_rate, job, run};

//----------- TCP --------------------------------------------------------------

/// Accepts `connections` connections, responds to up to `responses_each` queries on each, and returns how many.
fn serve_stream(connections: usize, responses_each: usize) -> (SocketAddr, thread::JoinHandle<Vec<usize>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("bound");
    let handle = thread::spawn(move || {
        let threads: Vec<_> = (0..connections)
            .map(|_| {
                let (mut stream, _) = listener.accept().expect("loopback");
                thread::spawn(move || {
                    let mut answered = 0;
                    while answered < responses_each && respond_once(&mut stream).is_ok() {
                        answered += 1;
                    }
                    answered
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    (address, handle)
}

fn respond_once(stream: &mut (impl Read + Write)) -> std::io::Result<()> {
    let mut len = [0; 2];
    stream.read_exact(&mut len)?;
    let mut message = vec![0; usize::from(u16::from_be_bytes(len))];
    stream.read_exact(&mut message)?;
    message[2] |= 0x80;
    // In two writes, so that responses arrive in pieces.
    stream.write_all(&len)?;
    stream.write_all(&message[..5])?;
    stream.write_all(&message[5..])
}

#[test]
fn connections_stay_open_or_have_a_number_of_queries() {
    let (server, served) = serve_stream(4, usize::MAX);
    let kept = Job { transport: Transport::Tcp, ..job(server, 1000.0, 0.5) };
    let metrics = run(&kept).metrics;
    assert_eq!((metrics.responses, metrics.wrong, metrics.handshakes), (500, 0, 4));
    assert_eq!(served.join().expect("no panic"), [125; 4]);

    let (server, served) = serve_stream(48, usize::MAX);
    let timing = at_rate(1000.0, 0.144);
    let metrics = run(&Job { server, timing, queries_per_connection: 3, ..kept }).metrics;
    assert_eq!((metrics.responses, metrics.wrong, metrics.handshakes), (144, 0, 48));
    assert_eq!(served.join().expect("no panic").iter().sum::<usize>(), 144);
}

/// A listen backlog may be as short as 10 (Knot DNS, BIND): a SYN that does not fit is retransmitted after a second.
#[test]
fn a_closed_loop_opens_a_few_connections_at_a_time() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let server = listener.local_addr().expect("bound");
    let timing = Timing::Closed { outstanding: 200, seconds: 0.02 };
    let job = Job { transport: Transport::Tcp, connections: 200, timing, ..job(server, 1.0, 1.0) };
    let metrics = run(&Job { timeout: Duration::from_millis(50), ..job }).metrics;
    assert!((8..=12).contains(&metrics.queries), "{} queries before the first response", metrics.queries);
}

#[test]
fn queries_on_connections_that_the_server_closes_time_out() {
    let (server, _served) = serve_stream(1000, 1);
    let timing = at_rate(100_000.0, 0.001);
    let timeout = Duration::from_millis(200);
    let metrics = run(&Job { transport: Transport::Tcp, timing, timeout, ..job(server, 1.0, 1.0) }).metrics;
    // A response may be lost to the RST that follows it.
    assert!(metrics.responses <= metrics.handshakes, "{metrics:?}");
    assert_eq!((metrics.queries, metrics.responses + metrics.timeouts), (100, 100));
    assert!(metrics.closed_early > 0);
}

#[test]
fn a_missing_server_is_counted() {
    let refused = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("loopback");
    let timeout = Duration::from_millis(100);
    let metrics = run(&Job { transport: Transport::Tcp, timeout, ..job(refused, 100.0, 0.1) }).metrics;
    assert_eq!((metrics.responses, metrics.timeouts), (0, 10));
    assert!(metrics.handshakes_failed > 0);
    let metrics = run(&Job { timeout, ..job(refused, 100.0, 0.1) }).metrics;
    assert_eq!((metrics.responses, metrics.queries - metrics.timeouts), (0, 0));
}
