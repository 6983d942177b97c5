//! Tests of the client side of DNS over QUIC, with a primary in this process.

use super::*;
use crate::config::remote_server::RemoteTls;
use crate::tls::{OwnCertificate, ServerTls, ServerTlsFiles};
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::{ConnectionError, ServerConfig};

/// A primary that answers what the test commands.
struct Primary {
    socket: UdpSocket,
    endpoint: Endpoint,
    client: Option<SocketAddr>,
    connection: Option<(ConnectionHandle, Connection)>,
    /// Whether it retires a connection ID with each datagram.
    retires_ids: bool,
    /// The code of the last STOP_SENDING.
    stopped: Option<VarInt>,
    /// The code with which the client has closed the connection.
    closed: Option<VarInt>,
}

impl Primary {
    fn new() -> Primary {
        let files = ServerTlsFiles { own: OwnCertificate::SelfSigned, authorities: None, ticket_keys: None };
        let tls = ServerTls::read(&files).expect("no files").quic();
        let crypto = QuicServerConfig::try_from(tls).expect("a cipher suite");
        let config = Arc::new(ServerConfig::with_crypto(Arc::new(crypto)));
        let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        socket.set_nonblocking(true).expect("an option");
        Primary {
            socket,
            endpoint: Endpoint::new(Arc::default(), Some(config), false, None),
            client: None,
            connection: None,
            retires_ids: false,
            stopped: None,
            closed: None,
        }
    }

    /// Receives and sends what there is.
    fn run(&mut self) {
        let (mut datagram, mut out, now) = ([0; DATAGRAM_LEN], Vec::new(), Instant::now());
        let mut has_received = false;
        while let Ok((len, from)) = self.socket.recv_from(&mut datagram) {
            (self.client, has_received) = (Some(from), true);
            match self.endpoint.handle(now, from, None, None, BytesMut::from(&datagram[..len]), &mut out) {
                Some(DatagramEvent::NewConnection(incoming)) => {
                    let accepted = self.endpoint.accept(incoming, now, &mut out, None);
                    self.connection = accepted.ok();
                }
                Some(DatagramEvent::ConnectionEvent(_, event)) => {
                    self.connection.as_mut().expect("it is the one").1.handle_event(event);
                }
                _ => {}
            }
        }
        let (Some((handle, connection)), Some(to)) = (&mut self.connection, self.client) else { return };
        connection.handle_timeout(now);
        while let Some(event) = connection.poll() {
            match event {
                Event::Stream(StreamEvent::Stopped { error_code, .. }) => self.stopped = Some(error_code),
                Event::ConnectionLost { reason: ConnectionError::ApplicationClosed(close) } => {
                    self.closed = Some(close.error_code);
                }
                _ => {}
            }
        }
        if self.retires_ids && has_received {
            connection.local_address_changed();
        }
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(event);
            }
        }
        out.clear();
        while connection.poll_transmit(now, 1, &mut out).is_some() {
            self.socket.send_to(&out, to).expect("loopback");
            out.clear();
        }
    }
}

/// A connection to a primary that begins.
fn connect(primary: &Primary) -> QuicByteStream {
    let address = primary.socket.local_addr().expect("bound");
    let settings = ClientTls::read(&RemoteTls { quic: true, ..RemoteTls::default() }, None).expect("no files");
    let peer = PeerConfig { address, key: None, source: None, tls: 1 };
    QuicByteStream::connect(&peer, &settings).expect("loopback")
}

/// Lets both sides run until the condition holds.
fn run_until(
    primary: &mut Primary,
    stream: &mut QuicByteStream,
    is_met: impl Fn(&mut Primary, &QuicByteStream) -> bool,
) {
    let begin = Instant::now();
    while !is_met(primary, stream) {
        assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", stream.lost);
        primary.run();
        stream.flush().expect("loopback");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A primary that has received queries with the IDs from 1 to `count` over a connection.
fn asked(count: u8) -> (Primary, QuicByteStream) {
    let mut primary = Primary::new();
    let mut stream = connect(&primary);
    run_until(&mut primary, &mut stream, |_, stream| stream.is_established);
    for id in 1..=count {
        assert_eq!(stream.write(&[0, 3, 0, id, 9]).expect("a stream"), 5);
    }
    run_until(&mut primary, &mut stream, |primary, _| {
        primary.connection.as_ref().is_some_and(|(_, of)| of.stats().frame_rx.stream >= count.into())
    });
    (primary, stream)
}

impl Primary {
    /// The stream of the next query.
    fn next_query(&mut self) -> (&mut Connection, StreamId) {
        let (_, connection) = self.connection.as_mut().expect("it is connected");
        let id = connection.streams().accept(Dir::Bi).expect("a query");
        (connection, id)
    }

    /// Answers the next query with these octets.
    fn answer(&mut self, octets: &[u8], ends: bool) {
        let (connection, id) = self.next_query();
        assert_eq!(connection.send_stream(id).write(octets), Ok(octets.len()));
        if ends {
            connection.send_stream(id).finish().expect("open");
        }
    }
}

#[test]
fn concurrent_responses_are_read_in_turns() {
    let (mut primary, mut stream) = asked(2);
    let messages = [&[0x9cu8, 0x40][..], &[0; 40_000]].concat().repeat(3);
    (0..2).for_each(|_| primary.answer(&messages, true));
    run_until(&mut primary, &mut stream, |primary, _| {
        primary.connection.as_mut().is_some_and(|(_, of)| of.streams().send_streams() == 0)
    });
    let mut buffer = vec![0; 6 * 40_002];
    let mut len = 0;
    while len < 2 * 40_002 {
        len += stream.read(&mut buffer[len..][..1 << 16]).expect("a message");
    }
    assert_ne!(buffer[3], buffer[40_002 + 3], "the IDs");
}

#[test]
fn the_parts_of_a_message_and_the_end_of_a_stream_are_reported() {
    let (mut primary, mut stream) = asked(2);
    let message = [&[0u8, 100][..], &[0; 100]].concat();
    primary.answer(&message[..40], false);
    primary.answer(&message, true);
    let mut buffer = [0; 256];
    let mut parts = Vec::new();
    while !parts.contains(&(2, ResponsePart::End)) {
        let begin = Instant::now();
        run_until(&mut primary, &mut stream, |_, stream| {
            !stream.readable.is_empty() || begin.elapsed() > Duration::from_secs(10)
        });
        assert!(begin.elapsed() < Duration::from_secs(10), "{parts:?}");
        while let Ok(len) = stream.read(&mut buffer) {
            assert_eq!((len, buffer[3]), (102, 2), "the complete message");
        }
        parts.extend(stream.parts());
    }
    assert_eq!(parts, [(1, ResponsePart::Octets(40)), (2, ResponsePart::End)]);
    stream.refuse("as the test commands");
    run_until(&mut primary, &mut stream, |primary, _| primary.closed.is_some());
    assert_eq!(primary.closed, Some(PROTOCOL_ERROR));
    assert!(stream.read(&mut buffer).is_err());
}

#[test]
fn rfc_9250_4_3_1_the_stream_of_a_cancelled_query_is_stopped() {
    let (mut primary, mut stream) = asked(2);
    stream.cancel(7);
    stream.cancel(2);
    run_until(&mut primary, &mut stream, |primary, _| primary.stopped.is_some());
    assert_eq!(primary.stopped, Some(REQUEST_CANCELLED));
    // The other one goes on.
    primary.answer(&[0, 2, 0, 0], true);
    run_until(&mut primary, &mut stream, |_, stream| !stream.readable.is_empty());
    let mut buffer = [0; 64];
    assert_eq!(stream.read(&mut buffer).expect("a message"), 4);
    assert_eq!(buffer[..4], [0, 2, 0, 1]);
}

#[test]
fn a_primary_that_retires_connection_ids_without_end_is_left() {
    let mut primary = Primary { retires_ids: true, ..Primary::new() };
    let mut stream = connect(&primary);
    let (begin, mut is_established) = (Instant::now(), false);
    while begin.elapsed() < Duration::from_secs(60) {
        primary.run();
        match stream.establish() {
            Ok(now) => is_established |= now,
            Err(error) => {
                assert!(is_established && error.to_string().contains("retires connection IDs"), "{error}");
                return;
            }
        }
    }
    panic!("it stays connected");
}

#[test]
fn messages_get_their_ids_back_once_they_are_whole() {
    let input = [0, 3, 0, 0, 7, 0, 2, 0, 0, 0, 1, 9, 0, 5, 0];
    let mut ready = vec![1];
    assert_eq!(take_messages(&input, [0xab, 0xcd], &mut ready), Ok(12));
    // The third message is too short for an ID.
    assert_eq!(ready, [1, 0, 3, 0xab, 0xcd, 7, 0, 2, 0xab, 0xcd, 0, 1, 9]);
    assert_eq!(take_messages(&[0], [1, 2], &mut ready), Ok(0));
}

#[test]
fn rfc_9250_4_3_3_another_message_id_than_0_is_an_error() {
    let mut ready = Vec::new();
    assert!(take_messages(&[0, 2, 0, 0, 0, 2, 0, 1], [1, 2], &mut ready).is_err());
    assert_eq!(ready, [0, 2, 1, 2], "what came before");
}

#[test]
fn rfc_9250_5_5_2_a_response_with_keepalive_ends_the_connection() {
    let (mut primary, mut stream) = asked(1);
    let header = [0u8, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    let opt = [0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 4, 0, 11, 0, 0];
    primary.answer(&[&[0, 27][..], &header, &opt].concat(), true);
    run_until(&mut primary, &mut stream, |_, stream| !stream.readable.is_empty());
    let error = stream.read(&mut [0; 256]).expect_err("a protocol error");
    assert!(error.to_string().contains("edns-tcp-keepalive"), "{error}");
    run_until(&mut primary, &mut stream, |primary, _| primary.closed == Some(PROTOCOL_ERROR));
}

#[test]
fn rfc_9250_4_3_3_a_primary_that_stops_a_query_gets_an_error() {
    let (mut primary, mut stream) = asked(1);
    // Of an acknowledged query, quinn-proto does not report it.
    let id = *stream.exchanges.keys().next().expect("the query");
    stream.give_up(id, REQUEST_CANCELLED);
    run_until(&mut primary, &mut stream, |primary, _| primary.closed == Some(PROTOCOL_ERROR));
    let error = stream.read(&mut [0; 256]).expect_err("a protocol error");
    assert!(error.to_string().contains("cancelled a query"), "{error}");
}

#[test]
fn rfc_9250_4_3_2_the_connection_is_closed_after_a_response_that_was_reset() {
    let (mut primary, mut stream) = asked(1);
    let (connection, id) = primary.next_query();
    connection.send_stream(id).reset(VarInt::from_u32(1)).expect("open");
    run_until(&mut primary, &mut stream, |_, stream| !stream.readable.is_empty());
    let error = stream.read(&mut [0; 256]).expect_err("a failure");
    assert!(error.to_string().contains("reset the stream"), "{error}");
    run_until(&mut primary, &mut stream, |primary, _| primary.closed == Some(NO_ERROR));
}
