//! Forwarding an UPDATE message to a primary (RFC 2136 6): one exchange over a connection of its own.

use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use netio::epoll::{Events, Poll};
use netio::is_not_ready;
use wire::HEADER_LEN;
use wire::framing::{frame, split_message};

use crate::transfer::network::byte_stream::{ByteStream, Connector, MIN_READ_BUFFER};
use crate::transfer::primary::PeerConfig;

/// Sends a message with its length to a primary over TCP, TLS or QUIC, and returns the next message (RFC 2136 6.2: TCP may be used for
/// any). Blocks until `end` at most.
pub fn exchange(
    connector: &mut dyn Connector,
    primary: &PeerConfig,
    octets: &[u8],
    end: Instant,
) -> io::Result<Vec<u8>> {
    let mut stream = connector.connect(primary)?;
    let exchanged = exchange_over(&mut *stream, octets, end);
    stream.close();
    exchanged
}

/// The message with its length and another ID (RFC 2136 6: "it must allocate a new ID").
pub fn with_id(message: &[u8], id: [u8; 2]) -> Vec<u8> {
    frame(&[&id[..], &message[2..]].concat())
}

/// The message if it can be the response to an update with this ID.
pub fn check_response(message: Vec<u8>, id: [u8; 2]) -> io::Result<Vec<u8>> {
    // QR, and the same opcode.
    let is_response = message.len() >= HEADER_LEN && message[..2] == id && message[2] >> 3 == 0b1_0101;
    if is_response { Ok(message) } else { Err(ErrorKind::InvalidData.into()) }
}

fn exchange_over(stream: &mut dyn ByteStream, mut output: &[u8], end: Instant) -> io::Result<Vec<u8>> {
    let (poll, mut events) = (Poll::new()?, Events::with_capacity(1));
    let mut interest = stream.interest(true);
    poll.add(stream.socket(), 0, interest)?;
    let (mut input, mut buffer) = (Vec::new(), vec![0; MIN_READ_BUFFER]);
    let mut is_established = false;
    loop {
        is_established = is_established || stream.establish()?;
        if is_established {
            stream.flush()?;
            while !output.is_empty()
                && let Some(len) = ready(stream.write(output))?
            {
                output = &output[len..];
            }
            if let Some(message) = receive(stream, &mut input, &mut buffer)? {
                return Ok(message);
            }
        }
        let wanted = stream.interest(!output.is_empty());
        if wanted != interest {
            poll.modify(stream.socket(), 0, wanted)?;
            interest = wanted;
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        poll.wait(&mut events, left.min(MAX_WAIT))?;
    }
}

/// The longest wait for an event: TLS may have data that the socket does not show.
const MAX_WAIT: Duration = Duration::from_millis(100);

/// Reads the rest of one message; returns it once it is complete. What follows it is dropped.
fn receive(stream: &mut dyn ByteStream, input: &mut Vec<u8>, buffer: &mut [u8]) -> io::Result<Option<Vec<u8>>> {
    loop {
        if let Some((message, _)) = split_message(input) {
            return Ok(Some(message.to_vec()));
        }
        match ready(stream.read(buffer))? {
            Some(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Some(len) => input.extend_from_slice(&buffer[..len]),
            None => return Ok(None),
        }
    }
}

/// How many octets were transferred; `None` if the stream is not ready.
fn ready(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Err(error) if is_not_ready(&error) => Ok(None),
        result => result.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener};

    use super::*;
    use crate::transfer::network::byte_stream::TcpConnector;

    /// A primary that answers one message with what `respond` makes of it, in two pieces.
    fn primary(respond: impl FnOnce(Vec<u8>) -> Vec<u8> + Send + 'static) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let address = listener.local_addr().expect("bound");
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            let mut prefix = [0; 2];
            stream.read_exact(&mut prefix).expect("a message");
            let mut message = vec![0; u16::from_be_bytes(prefix).into()];
            stream.read_exact(&mut message).expect("a message");
            let response = respond(message);
            let octets = frame(&response);
            let (first, rest) = octets.split_at(octets.len().min(1));
            _ = stream.write_all(first);
            std::thread::sleep(Duration::from_millis(20));
            _ = stream.write_all(rest);
            // The client closes.
            _ = stream.read(&mut prefix);
        });
        address
    }

    const UPDATE: [u8; 12] = [0x12, 0x34, 0x28, 0, 0, 1, 0, 0, 0, 0, 0, 0];

    fn send(to: SocketAddr) -> io::Result<Vec<u8>> {
        let end = Instant::now() + Duration::from_millis(500);
        let octets = with_id(&UPDATE, [0xab, 0xcd]);
        let received = exchange(&mut TcpConnector, &PeerConfig::plain(to), &octets, end);
        received.and_then(|message| check_response(message, [0xab, 0xcd]))
    }

    fn answered(mut message: Vec<u8>) -> Vec<u8> {
        assert_eq!((&message[..2], &message[2..]), (&[0xab, 0xcd][..], &UPDATE[2..]), "only the ID is replaced");
        message[2] |= 0x80;
        message[3] = 6;
        message
    }

    #[test]
    fn the_response_of_the_primary_is_returned() {
        let got = send(primary(answered)).expect("a response");
        assert_eq!((&got[..2], got[2], got[3]), (&[0xab, 0xcd][..], 0xa8, 6));
    }

    #[test]
    fn what_is_no_response_is_an_error() {
        type Respond = fn(Vec<u8>) -> Vec<u8>;
        let cases: [(Respond, ErrorKind); 4] = [
            (|message| message, ErrorKind::InvalidData),
            (|message| [&[0, 0], &answered(message)[2..]].concat(), ErrorKind::InvalidData),
            (|message| answered(message)[..11].to_vec(), ErrorKind::InvalidData),
            (
                |_| {
                    std::thread::sleep(Duration::from_millis(700));
                    Vec::new()
                },
                ErrorKind::TimedOut,
            ),
        ];
        for (respond, error) in cases {
            assert_eq!(send(primary(respond)).map_err(|error| error.kind()), Err(error));
        }
        let closed = TcpListener::bind("127.0.0.1:0").expect("loopback").local_addr().expect("bound");
        assert_eq!(send(closed).map_err(|error| error.kind()), Err(ErrorKind::ConnectionRefused));
    }
}
