//! What clients may take over TCP: time, turns, memory, connections.

use super::{
    DIGESTS, GREAT, SOON, TRANSPORT, ask, connect, framed, impatient, is_closed, options, read_id, read_message, serve,
};
use server::listen::ListenConfig;
use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

#[test]
fn idle_connections_are_closed_after_the_idle_timeout() {
    let (running, server) = serve(&impatient());
    let mut stream = connect(server);
    for id in 0..4 {
        assert_eq!(ask(&mut stream, id).expect("an answer"), id, "activity puts the end off");
        std::thread::sleep(Duration::from_millis(150));
    }
    stream.write_all(&framed(5, TRANSPORT)).expect("loopback");
    assert_eq!(read_message(&mut stream).expect("an answer")[6..], [0, 5], "500 ms in the units of RFC 7828 3.1");
    let begin = Instant::now();
    assert!(is_closed(&mut stream));
    assert!(begin.elapsed() > Duration::from_millis(50) && begin.elapsed() < SOON, "{:?}", begin.elapsed());
    assert_eq!(running.tcp_totals().expired, 1);
    running.stop();
}

/// One octet now and then keeps no connection open: it is whole messages that count.
#[test]
fn a_message_that_never_ends_does_not_hold_the_connection() {
    let (running, server) = serve(&impatient());
    let mut stream = connect(server);
    let begin = Instant::now();
    while stream.write_all(&[1]).is_ok() {
        assert!(begin.elapsed() < SOON, "the server still takes octets");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(running.tcp_totals().expired, 1);
    running.stop();
}

/// A client that asks for much and reads nothing: its answers are held within bounds and for the idle timeout only.
#[test]
fn slow_readers_are_bounded_and_in_nobodys_way() {
    let (running, server) = serve(&impatient());
    let mut greedy = connect(server);
    greedy.set_write_timeout(Some(Duration::from_millis(100))).expect("a valid timeout");
    let queries: Vec<u8> = (0..2000).flat_map(|id| framed(id, GREAT)).collect();
    // The server stops reading when its answers are not read, so that not all of it may be taken.
    let _ = greedy.write_all(&queries);
    let mut polite = connect(server);
    assert_eq!(ask(&mut polite, 7).expect("an answer"), 7);
    assert!(running.tcp_totals().queries < 1000, "{} answers are held for one client", running.tcp_totals().queries);
    let begin = Instant::now();
    while running.tcp_totals().expired == 0 {
        assert!(begin.elapsed() < SOON);
        let _ = ask(&mut polite, 8);
        std::thread::sleep(Duration::from_millis(20));
    }
    running.stop();
}

/// Ten clients that read nothing make the server and the kernel hold more than they may together: the first of them have to go.
#[test]
fn what_connections_hold_together_is_bounded() {
    let (running, server) = serve(&ListenConfig { memory_limit: 1 << 20, ..options() });
    let queries: Vec<u8> = (0..300).flat_map(|id| framed(id, GREAT)).collect();
    let mut greedy: Vec<TcpStream> = (0..10).map(|_| connect(server)).collect();
    for stream in &mut greedy {
        stream.write_all(&queries).expect("3 KB fit into the socket");
        std::thread::sleep(Duration::from_millis(20));
    }
    let evicted = running.tcp_totals().evicted;
    assert!((1..10).contains(&evicted), "{evicted} of 10, each of which holds some 300 KB");
    assert_eq!(read_id(&mut greedy[9]).expect("the last is not the oldest"), 0);
    drop(greedy);
    running.stop();
}

/// What was stopped by a full socket goes on when it is read, without a gap.
#[test]
fn late_readers_get_every_answer() {
    let (running, server) = serve(&impatient());
    let mut stream = connect(server);
    let queries: Vec<u8> = (0..300).flat_map(|id| framed(id, GREAT)).collect();
    stream.write_all(&queries).expect("3 KB fit into the socket");
    std::thread::sleep(Duration::from_millis(150));
    for id in 0..300u16 {
        let message = read_message(&mut stream).expect("an answer");
        assert_eq!((message.len(), &message[..2]), (65_535, &id.to_be_bytes()[..]));
    }
    assert_eq!(running.tcp_totals().answers, 300);
    running.stop();
}

#[test]
fn the_longest_idle_connection_makes_room() {
    let (running, server) = serve(&ListenConfig { connections: 3, ..options() });
    let mut streams: Vec<TcpStream> = (0..3).map(|_| connect(server)).collect();
    for (id, stream) in (0..).zip(&mut streams) {
        assert_eq!(ask(stream, id).expect("an answer"), id);
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(ask(&mut streams[0], 9).expect("an answer"), 9);
    let mut fourth = connect(server);
    assert_eq!(ask(&mut fourth, 4).expect("an answer"), 4);
    assert!(is_closed(&mut streams[1]), "the second is the oldest: the first asked again");
    for stream in [0, 2] {
        assert_eq!(ask(&mut streams[stream], 5).expect("an answer"), 5);
    }
    assert_eq!((running.tcp_totals().evicted, running.tcp_totals().connections), (1, 4));
    running.stop();
}

/// Whoever is stuck in a message goes before a client that behaves, however long that one is idle.
#[test]
fn a_stuck_connection_makes_room_before_an_idle_one() {
    let (running, server) = serve(&ListenConfig { connections: 2, ..options() });
    let (mut polite, mut stuck) = (connect(server), connect(server));
    assert_eq!(ask(&mut polite, 1).expect("an answer"), 1);
    stuck.write_all(&framed(2, 0)[..5]).expect("loopback");
    std::thread::sleep(Duration::from_millis(1200));
    assert_eq!(ask(&mut connect(server), 3).expect("an answer"), 3);
    assert!(is_closed(&mut stuck));
    assert_eq!(ask(&mut polite, 4).expect("an answer"), 4);
    running.stop();
}

/// Queries that cost much are answered a few in a turn: other connections have theirs in between.
#[test]
fn costly_queries_of_one_connection_leave_the_others_their_turns() {
    let (running, server) = serve(&options());
    let (mut costly, mut polite) = (connect(server), connect(server));
    assert_eq!(ask(&mut polite, 1).expect("an answer"), 1);
    let queries: Vec<u8> = (0..200).flat_map(|id| framed(id, DIGESTS)).collect();
    costly.write_all(&queries).expect("loopback");
    assert_eq!(read_id(&mut costly).expect("an answer"), 0);
    assert_eq!(ask(&mut polite, 2).expect("an answer"), 2);
    let answers = running.tcp_totals().answers;
    assert!(answers < 100, "{answers} answers before its turn came");
    for id in 1..200 {
        assert_eq!(read_id(&mut costly).expect("an answer, without sending anything more"), id);
    }
    running.stop();
}

/// Messages that deserve no answer are no reason to keep a connection.
#[test]
fn empty_messages_do_not_put_the_end_off() {
    let (running, server) = serve(&impatient());
    let mut stream = connect(server);
    let begin = Instant::now();
    while stream.write_all(&[0, 0]).is_ok() {
        assert!(begin.elapsed() < SOON, "the server still takes empty messages");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(running.tcp_totals().expired, 1);
    running.stop();
}

/// RFC 9293 3.6: a client that has closed its half gets all answers, late as it reads them, and then the end.
#[test]
fn a_half_closed_connection_is_delivered_and_ended() {
    let (running, server) = serve(&options());
    let mut stream = connect(server);
    let queries: Vec<u8> = (0..50).flat_map(|id| framed(id, GREAT)).collect();
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
fn one_client_has_only_its_share() {
    let (running, server) = serve(&ListenConfig { connections_per_client: 2, ..options() });
    let (mut first, mut second, mut third) = (connect(server), connect(server), connect(server));
    assert_eq!([1, 2], [ask(&mut first, 1).expect("an answer"), ask(&mut second, 2).expect("an answer")]);
    assert!(ask(&mut third, 3).is_err());
    drop(first);
    let begin = Instant::now();
    while ask(&mut connect(server), 4).is_err() {
        assert!(begin.elapsed() < SOON, "a closed connection must be counted off");
    }
    assert!(running.tcp_totals().refused > 0);
    running.stop();
}
