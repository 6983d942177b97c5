//! Limits on TCP clients: idle time, work per turn, memory, connections.

use super::{
    EXPENSIVE, IDLE_TIMEOUT, LONGEST, SOON, config, connect, exchange, framed_query, is_closed, read_id, read_message,
    serve, tcp_totals, with_short_idle_timeout,
};
use server::listen::ListenConfig;
use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

#[test]
fn idle_connections_are_closed_after_the_idle_timeout() {
    let (running, server) = serve(&with_short_idle_timeout());
    let mut stream = connect(server);
    for id in 0..4 {
        assert_eq!(exchange(&mut stream, id).expect("an answer"), id, "activity extends the timeout");
        std::thread::sleep(Duration::from_millis(150));
    }
    stream.write_all(&framed_query(5, IDLE_TIMEOUT)).expect("loopback");
    assert_eq!(read_message(&mut stream).expect("an answer")[6..], [0, 5], "500 ms in the units of RFC 7828 3.1");
    let begin = Instant::now();
    assert!(is_closed(&mut stream));
    assert!(begin.elapsed() > Duration::from_millis(50) && begin.elapsed() < SOON, "{:?}", begin.elapsed());
    assert_eq!(tcp_totals(&running).expired, 1);
    running.stop();
}

/// Single octets do not count as progress; complete messages do.
#[test]
fn an_incomplete_message_does_not_extend_the_idle_timeout() {
    let (running, server) = serve(&with_short_idle_timeout());
    let mut stream = connect(server);
    let begin = Instant::now();
    while stream.write_all(&[1]).is_ok() {
        assert!(begin.elapsed() < SOON, "the server still takes octets");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(tcp_totals(&running).expired, 1);
    running.stop();
}

/// The responses for a client that does not read are limited, and are dropped at the idle timeout.
#[test]
fn slow_readers_are_limited_and_do_not_delay_others() {
    let (running, server) = serve(&with_short_idle_timeout());
    let mut greedy = connect(server);
    greedy.set_write_timeout(Some(Duration::from_millis(100))).expect("a valid timeout");
    let queries: Vec<u8> = (0..2000).flat_map(|id| framed_query(id, LONGEST)).collect();
    // The server stops reading while its responses are not read, so the write may be incomplete.
    let _ = greedy.write_all(&queries);
    let mut polite = connect(server);
    assert_eq!(exchange(&mut polite, 7).expect("an answer"), 7);
    assert!(
        tcp_totals(&running).queries < 1000,
        "{} responses are queued for one client",
        tcp_totals(&running).queries
    );
    let begin = Instant::now();
    while tcp_totals(&running).expired == 0 {
        assert!(begin.elapsed() < SOON);
        let _ = exchange(&mut polite, 8);
        std::thread::sleep(Duration::from_millis(20));
    }
    running.stop();
}

/// Ten clients that do not read exceed the memory limit together, so the oldest are closed.
#[test]
fn the_memory_of_all_connections_is_limited() {
    let (running, server) = serve(&ListenConfig { memory_limit: 1 << 20, ..config() });
    let queries: Vec<u8> = (0..300).flat_map(|id| framed_query(id, LONGEST)).collect();
    let mut greedy: Vec<TcpStream> = (0..10).map(|_| connect(server)).collect();
    for stream in &mut greedy {
        stream.write_all(&queries).expect("3 KB fit into the socket");
        std::thread::sleep(Duration::from_millis(20));
    }
    let evicted = tcp_totals(&running).evicted;
    assert!((1..10).contains(&evicted), "{evicted} of 10 with about 300 KB each");
    assert_eq!(read_id(&mut greedy[9]).expect("the last is not the oldest"), 0);
    drop(greedy);
    running.stop();
}

/// Sending continues without a gap when the client reads again.
#[test]
fn late_readers_get_all_responses() {
    let (running, server) = serve(&with_short_idle_timeout());
    let mut stream = connect(server);
    let queries: Vec<u8> = (0..300).flat_map(|id| framed_query(id, LONGEST)).collect();
    stream.write_all(&queries).expect("3 KB fit into the socket");
    std::thread::sleep(Duration::from_millis(150));
    for id in 0..300u16 {
        let message = read_message(&mut stream).expect("an answer");
        assert_eq!((message.len(), &message[..2]), (65_535, &id.to_be_bytes()[..]));
    }
    assert_eq!(tcp_totals(&running).answers, 300);
    running.stop();
}

#[test]
fn the_longest_idle_connection_is_closed_for_a_new_one() {
    let (running, server) = serve(&ListenConfig { connections: 3, ..with_long_idle_timeout() });
    let mut streams: Vec<TcpStream> = (0..3).map(|_| connect(server)).collect();
    for (id, stream) in (0..).zip(&mut streams) {
        assert_eq!(exchange(stream, id).expect("an answer"), id);
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(exchange(&mut streams[0], 9).expect("an answer"), 9);
    let mut fourth = connect(server);
    assert_eq!(exchange(&mut fourth, 4).expect("an answer"), 4);
    assert!(is_closed(&mut streams[1]), "the second is the oldest: the first asked again");
    for stream in [0, 2] {
        assert_eq!(exchange(&mut streams[stream], 5).expect("an answer"), 5);
    }
    assert_eq!((tcp_totals(&running).evicted, tcp_totals(&running).connections), (1, 4));
    running.stop();
}

#[test]
fn threads_share_the_limit_of_connections() {
    let (running, server) = serve(&ListenConfig { connections: 6, tcp_workers: 3, ..with_long_idle_timeout() });
    // The kernel does not distribute them evenly.
    let mut streams: Vec<TcpStream> = (0..6).map(|_| connect(server)).collect();
    for round in 0..2 {
        for (id, stream) in (0..).zip(&mut streams) {
            assert_eq!(exchange(stream, id).expect("an answer"), id, "round {round}");
        }
    }
    assert_eq!(tcp_totals(&running).evicted, 0);
    let mut seventh = connect(server);
    assert_eq!(exchange(&mut seventh, 7).expect("an answer"), 7);
    // If its thread has room in its share, another closes one in its next round.
    let deadline = Instant::now() + Duration::from_secs(10);
    while tcp_totals(&running).evicted == 0 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(tcp_totals(&running).evicted, 1);
    running.stop();
}

/// Seconds that a full pool leaves must be enough for a busy machine.
fn with_long_idle_timeout() -> ListenConfig {
    ListenConfig { idle_timeout: Duration::from_secs(60), ..config() }
}

#[test]
fn rfc_7828_3_4_a_shorter_idle_timeout_is_announced_when_many_connections_are_open() {
    let (running, server) = serve(&ListenConfig { connections: 4, ..with_long_idle_timeout() });
    let mut streams = Vec::new();
    for expected_ds in [600u16, 600, 300, 60] {
        let mut stream = connect(server);
        // The new connection counts from the next round on.
        assert_eq!(exchange(&mut stream, 1).expect("an answer"), 1);
        stream.write_all(&framed_query(2, super::IDLE_TIMEOUT)).expect("open");
        assert_eq!(read_message(&mut stream).expect("an answer")[6..], expected_ds.to_be_bytes());
        streams.push(stream);
    }
    streams.truncate(1);
    let begin = Instant::now();
    loop {
        streams[0].write_all(&framed_query(3, super::IDLE_TIMEOUT)).expect("open");
        if read_message(&mut streams[0]).expect("an answer")[6..] == 600u16.to_be_bytes() {
            break;
        }
        assert!(begin.elapsed() < SOON, "the timeout stays short");
    }
    running.stop();
}

/// A connection in the middle of a message is closed before one that has been idle for longer.
#[test]
fn a_stuck_connection_is_closed_before_an_idle_one() {
    let (running, server) = serve(&ListenConfig { connections: 2, ..with_long_idle_timeout() });
    let (mut polite, mut stuck) = (connect(server), connect(server));
    assert_eq!(exchange(&mut polite, 1).expect("an answer"), 1);
    stuck.write_all(&framed_query(2, 0)[..5]).expect("loopback");
    std::thread::sleep(Duration::from_millis(1200));
    assert_eq!(exchange(&mut connect(server), 3).expect("an answer"), 3);
    assert!(is_closed(&mut stuck));
    assert_eq!(exchange(&mut polite, 4).expect("an answer"), 4);
    running.stop();
}

/// Only a few expensive queries are answered per turn, so that other connections get their turns.
#[test]
fn expensive_queries_of_one_connection_do_not_delay_others() {
    let (running, server) = serve(&config());
    let (mut expensive, mut polite) = (connect(server), connect(server));
    assert_eq!(exchange(&mut polite, 1).expect("an answer"), 1);
    let queries: Vec<u8> = (0..200).flat_map(|id| framed_query(id, EXPENSIVE)).collect();
    expensive.write_all(&queries).expect("loopback");
    assert_eq!(read_id(&mut expensive).expect("an answer"), 0);
    assert_eq!(exchange(&mut polite, 2).expect("an answer"), 2);
    let answers = tcp_totals(&running).answers;
    assert!(answers < 100, "{answers} responses before its turn");
    for id in 1..200 {
        assert_eq!(read_id(&mut expensive).expect("an answer, without sending anything more"), id);
    }
    running.stop();
}

/// Messages without a response do not count as progress.
#[test]
fn empty_messages_do_not_extend_the_idle_timeout() {
    let (running, server) = serve(&with_short_idle_timeout());
    let mut stream = connect(server);
    let begin = Instant::now();
    while stream.write_all(&[0, 0]).is_ok() {
        assert!(begin.elapsed() < SOON, "the server still takes empty messages");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(tcp_totals(&running).expired, 1);
    running.stop();
}

/// RFC 9293 3.6: a client that has closed its half and reads late gets all responses, then the end of the stream.
#[test]
fn a_half_closed_connection_is_closed_after_its_responses() {
    let (running, server) = serve(&config());
    let mut stream = connect(server);
    let queries: Vec<u8> = (0..50).flat_map(|id| framed_query(id, LONGEST)).collect();
    stream.write_all(&queries).expect("loopback");
    stream.shutdown(std::net::Shutdown::Write).expect("connected");
    std::thread::sleep(Duration::from_millis(100));
    let begin = Instant::now();
    for id in 0..50u16 {
        assert_eq!(read_message(&mut stream).expect("an answer")[..2], id.to_be_bytes());
    }
    assert!(is_closed(&mut stream));
    assert!(begin.elapsed() < Duration::from_secs(2), "the end came after {:?}", begin.elapsed());
    running.stop();
}

#[test]
fn connections_per_client_are_limited() {
    let (running, server) = serve(&ListenConfig { connections_per_client: 2, tcp_workers: 3, ..config() });
    // Three threads accept: each answer shows that a connection is counted before the next one comes.
    let mut first = connect(server);
    assert_eq!(exchange(&mut first, 1).expect("an answer"), 1);
    let mut second = connect(server);
    assert_eq!(exchange(&mut second, 2).expect("an answer"), 2);
    assert!(exchange(&mut connect(server), 3).is_err());
    drop(first);
    let begin = Instant::now();
    while exchange(&mut connect(server), 4).is_err() {
        assert!(begin.elapsed() < SOON, "a closed connection must not be counted any more");
    }
    assert!(tcp_totals(&running).refused > 0);
    running.stop();
}
