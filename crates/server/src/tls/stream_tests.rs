//! The stream: how octets are split and buffered, its end, and what is no TLS.

use std::io::ErrorKind;

use super::MIN_BUFFER;
use super::test_certificates::TestCertificates;
use super::tests::{PRIMARY, Side, client, connect, server};
use crate::config::remote_server::RemoteTls;

/// An established connection.
fn established() -> (Side, Side) {
    let certificates = TestCertificates::new();
    let server = server(&certificates, &certificates.issue("server", &["ns1.example.net"]));
    connect(&client(&certificates, &RemoteTls::default()), &server).expect("a handshake")
}

#[test]
fn octets_arrive_however_they_are_split() {
    let (mut client, mut server) = established();
    assert!(!client.stream.is_active() && !server.stream.is_active());
    let octets: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    for max in [1, 7, 1000, 50_000] {
        let mut sent = 0;
        server.received.clear();
        while server.received.len() < octets.len() {
            sent += client.send(&octets[sent..]);
            server.take(&mut client, max).expect("open");
        }
        assert!(server.received == octets, "{max} at a time");
        assert_eq!((server.stream.is_active(), server.stream.memory()), (false, 0));
    }
}

#[test]
fn an_incomplete_record_is_counted_as_memory() {
    let (mut client, mut server) = established();
    client.send(&[1; 10_000]);
    server.take(&mut client, 5000).expect("open");
    assert!(server.received.is_empty() && server.stream.is_active());
    assert!((5000..6000).contains(&server.stream.memory()), "{}", server.stream.memory());
    server.take(&mut client, usize::MAX).expect("open");
    assert_eq!((server.received.len(), server.stream.memory()), (10_000, 0));
}

/// `rustls` keeps the start of a message that comes in many records.
#[test]
fn an_incomplete_message_of_the_handshake_is_counted_as_memory() {
    let certificates = TestCertificates::new();
    let server = server(&certificates, &certificates.issue("server", &["ns1.example.net"]));
    let mut side = Side::new(server.accept().expect("valid settings"));
    let before = side.stream.memory();
    // A ClientHello of 60,000 octets.
    let (mut message, mut other) = (vec![0; 48_000], Side::new(server.accept().expect("valid settings")));
    message[..4].copy_from_slice(&[1, 0, 0xea, 0x60]);
    for content in message.chunks(16_000) {
        let [high, low] = (content.len() as u16).to_be_bytes();
        other.socket.outgoing.extend([22, 3, 3, high, low]);
        other.socket.outgoing.extend(content);
    }
    side.take(&mut other, usize::MAX).expect("nothing to refuse yet");
    assert!(side.stream.memory() >= before + 2 * message.len(), "{}", side.stream.memory());
}

#[test]
fn output_that_the_socket_does_not_accept_is_bounded_and_counted() {
    let (mut client, mut server) = established();
    client.socket.room = 10_000;
    let octets = vec![3; 1 << 20];
    let mut sent = client.send(&octets);
    assert!((10_000..80_000).contains(&sent), "{sent}");
    assert!(client.stream.has_output() && client.stream.is_active() && client.stream.memory() >= sent - 10_000);
    assert_eq!(client.send(&octets[sent..]), 0, "no room");
    while server.received.len() < octets.len() {
        server.take(&mut client, usize::MAX).expect("open");
        sent += client.send(&octets[sent..]);
    }
    client.stream.flush(&mut client.socket).expect("open");
    assert_eq!((client.stream.has_output(), client.stream.memory()), (false, 0));
}

#[test]
fn rfc_8446_6_1_close_notify_ends_the_stream() {
    let (mut client, mut server) = established();
    client.send(b"last");
    client.stream.close_notify(&mut client.socket);
    // The data is received first.
    let (mut records, mut out) = (vec![0; MIN_BUFFER], vec![0; MIN_BUFFER]);
    server.socket.incoming.extend(client.socket.outgoing.drain(..));
    let received = server.stream.receive(&mut server.socket, &mut records, &mut out).expect("data");
    assert_eq!(received.map(|len| &out[..len]), Some(&b"last"[..]));
    // The end follows without another octet.
    assert!(server.stream.is_closed());
    let end = server.stream.receive(&mut server.socket, &mut records, &mut out).expect_err("the end");
    assert_eq!(end.kind(), ErrorKind::UnexpectedEof);
    let (mut client, mut server) = established();
    client.stream.close_notify(&mut client.socket);
    let end = server.take(&mut client, usize::MAX).expect_err("the end");
    assert_eq!(end.kind(), ErrorKind::UnexpectedEof);
}

#[test]
fn what_is_not_tls_is_refused_at_once() {
    let certificates = TestCertificates::new();
    let server = server(&certificates, &certificates.issue("server", &["ns1.example.net"]));
    // A DNS query over TCP, HTTP, and a record that is too long.
    let query = [0, 28, 0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 7, b'e', b'x'];
    for octets in [&query[..], b"GET / HTTP/1.1\r\n\r\n", &[22, 3, 1, 0xff, 0xff, 1]] {
        let mut side = Side::new(server.accept().expect("valid settings"));
        side.socket.incoming.extend(octets);
        let (mut records, mut out) = (vec![0; MIN_BUFFER], vec![0; MIN_BUFFER]);
        let error = side.stream.receive(&mut side.socket, &mut records, &mut out).expect_err("no TLS");
        assert!(error.to_string().contains("does not speak TLS on this port"), "{error}");
    }
}

#[test]
fn random_octets_never_panic() {
    let certificates = TestCertificates::new();
    let tls = server(&certificates, &certificates.issue("server", &["ns1.example.net"]));
    let client = client(&certificates, &RemoteTls::default());
    let mut random = 0x2545_f491_4f6c_dd1du64;
    let mut refused = 0;
    for _ in 0..300 {
        // A real ClientHello with three octets changed.
        let mut hello = Side::new(client.connect(PRIMARY).expect("valid settings"));
        hello.stream.flush(&mut hello.socket).expect("a pipe");
        for _ in 0..3 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = (random >> 33) as usize % hello.socket.outgoing.len();
            hello.socket.outgoing[at] ^= (random >> 25) as u8;
        }
        let mut side = Side::new(tls.accept().expect("valid settings"));
        refused += usize::from(side.take(&mut hello, usize::MAX).is_err());
    }
    assert!(refused > 20, "{refused}");
}
