//! PROXY headers (version 2) before messages and connections.

use super::{
    CLIENT, SOON, config, connect, exchange, framed_query, is_closed, read_message, serve, tcp_totals, udp_client,
    udp_totals,
};
use server::listen::{ListenConfig, ListenerThreads, Proxies};
use std::io::Write;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;
use wire::AddressPrefix;

/// A header whose source is 192.0.2.`host`.
fn header(host: u8) -> Vec<u8> {
    let addresses = [192, 0, 2, host, 198, 51, 100, 1, 0x30, 0x39, 0, 53];
    [&b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c"[..], &addresses].concat()
}

/// A header of a proxy's own connection.
const LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";

fn behind(proxy: [u8; 4]) -> ListenConfig {
    let proxies = Proxies::from(vec![AddressPrefix::single(IpAddr::from(proxy))]);
    ListenConfig { proxies, ..config() }
}

fn serve_behind(proxy: [u8; 4]) -> (ListenerThreads, SocketAddr) {
    serve(&behind(proxy))
}

const THIS_PROXY: [u8; 4] = [127, 0, 0, 1];
const OTHER_PROXY: [u8; 4] = [127, 0, 0, 9];

/// The last octet of the address that the server takes for the client's.
fn client_seen(stream: &mut TcpStream, before: &[u8]) -> std::io::Result<u8> {
    stream.write_all(&[before, &framed_query(1, CLIENT)].concat())?;
    read_message(stream).map(|message| message[7])
}

#[test]
fn a_datagram_is_from_the_client_in_its_header_and_answered_to_the_proxy() {
    let (running, server) = serve_behind(THIS_PROXY);
    let proxy = udp_client(server);
    let query = &framed_query(1, CLIENT)[2..];
    for (before, seen) in [(header(7), 7), (header(8), 8), (LOCAL.to_vec(), 1)] {
        proxy.send(&[&before[..], query].concat()).expect("loopback");
        let mut answer = [0; 64];
        assert_eq!(proxy.recv(&mut answer).expect("an answer"), 8);
        assert_eq!(answer[7], seen);
    }
    proxy.set_read_timeout(Some(Duration::from_millis(200))).expect("an option");
    for refused in [query, &header(7)[..20]] {
        proxy.send(refused).expect("loopback");
        assert!(proxy.recv(&mut [0; 64]).is_err());
    }
    let totals = udp_totals(&running);
    assert_eq!((totals.queries, totals.answers, totals.proxy_refused), (5, 3, 2));
    running.stop();
}

#[test]
fn datagrams_with_headers_are_refused_from_other_addresses() {
    let (running, server) = serve_behind(OTHER_PROXY);
    let client = udp_client(server);
    client.send(&[header(7), framed_query(1, 0)[2..].to_vec()].concat()).expect("loopback");
    client.send(&framed_query(2, 0)[2..]).expect("loopback");
    let mut answer = [0; 64];
    client.recv(&mut answer).expect("an answer");
    assert_eq!((answer[1], udp_totals(&running).proxy_refused), (2, 1));
    running.stop();
}

#[test]
fn a_connection_is_of_the_client_in_its_header_however_it_arrives() {
    let (running, server) = serve_behind(THIS_PROXY);
    assert_eq!(client_seen(&mut connect(server), &header(7)).expect("an answer"), 7);
    assert_eq!(client_seen(&mut connect(server), LOCAL).expect("an answer"), 1);
    let mut slow = connect(server);
    for octet in header(9) {
        slow.write_all(&[octet]).expect("loopback");
        std::thread::sleep(Duration::from_millis(2));
    }
    for _ in 0..2 {
        assert_eq!(client_seen(&mut slow, &[]).expect("an answer"), 9);
    }
    assert_eq!(tcp_totals(&running).proxy_refused, 0);
    running.stop();
}

#[test]
fn a_proxy_that_sends_no_header_or_never_ends_it_is_refused() {
    let idle_timeout = Duration::from_millis(500);
    let (running, server) = serve(&ListenConfig { idle_timeout, ..behind(THIS_PROXY) });
    for wrong in [&framed_query(1, 0)[..], b"\r\n\r\n\0\r\nQUIT\n\x31\0\0\0", &[&LOCAL[..14], &[255; 2]].concat()] {
        let mut stream = connect(server);
        stream.write_all(wrong).expect("loopback");
        assert!(is_closed(&mut stream), "{wrong:?}");
    }
    let totals = tcp_totals(&running);
    assert_eq!((totals.queries, totals.proxy_refused), (0, 3));
    let mut unfinished = connect(server);
    unfinished.write_all(&header(7)[..20]).expect("loopback");
    assert!(is_closed(&mut unfinished));
    assert_eq!((tcp_totals(&running).expired, tcp_totals(&running).proxy_refused), (1, 3));
    running.stop();
}

/// Without the check it would be the start of a message of 3338 octets, and the client would wait for the idle timeout.
#[test]
fn connections_with_headers_are_refused_from_other_addresses() {
    let octets = header(7);
    let whole_message = [&octets[..], &[0; 3338]].concat();
    for options in [behind(OTHER_PROXY), config()] {
        let (running, server) = serve(&ListenConfig { idle_timeout: 4 * SOON, ..options });
        // However it is split, and whatever follows it.
        let splits = [&[&octets[..]][..], &[&octets[..1], &octets[1..]], &[&octets[..11], &octets[11..12]]];
        for parts in splits.into_iter().chain([&[&whole_message[..]][..]]) {
            let mut stream = connect(server);
            for part in parts {
                stream.write_all(part).expect("loopback");
                std::thread::sleep(Duration::from_millis(20));
            }
            assert!(is_closed(&mut stream));
        }
        assert_eq!((tcp_totals(&running).queries, tcp_totals(&running).proxy_refused), (0, 4));
        // What only begins like a header is a message: of 3338 octets, with the ID 0x0D0A.
        let mut message = header(7);
        message[11] = 0;
        message.resize(2 + 3338, 0);
        let mut stream = connect(server);
        for part in [&message[..11], &message[11..]] {
            stream.write_all(part).expect("loopback");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(read_message(&mut stream).expect("an answer")[..2], *b"\r\n");
        assert_eq!(exchange(&mut connect(server), 5).expect("an answer"), 5);
        running.stop();
    }
}

#[test]
fn the_limit_per_client_is_for_the_clients_of_a_proxy() {
    let (running, server) = serve(&ListenConfig { connections_per_client: 2, ..behind(THIS_PROXY) });
    let mut streams: Vec<TcpStream> = (0..6).map(|_| connect(server)).collect();
    for (stream, host) in streams.iter_mut().zip([1, 1, 2, 2, 3, 3]) {
        assert_eq!(client_seen(stream, &header(host)).expect("an answer"), host);
    }
    assert!(client_seen(&mut connect(server), &header(3)).is_err());
    assert_eq!(tcp_totals(&running).refused, 1);
    streams.truncate(5);
    // The server notices the end of the connection before the next one arrives, or soon after.
    let again = (0..100).find_map(|_| {
        std::thread::sleep(Duration::from_millis(10));
        client_seen(&mut connect(server), &header(3)).ok()
    });
    assert_eq!(again, Some(3));
    running.stop();
}
