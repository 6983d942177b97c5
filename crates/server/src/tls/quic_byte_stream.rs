//! QUIC connections to primaries (RFC 9250), for the transfer thread: one stream for each query, shown as one stream of octets.
//!
//! RFC 9250 4.2.1: messages have the ID 0 on the wire. The caller's ID is kept with the stream and given back with each response
//! on it, so that a session over QUIC is like one over TCP. Responses come whole, in the order in which they are complete.

use std::collections::{HashMap, VecDeque};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::slice;
use std::sync::Arc;
use std::time::{Duration, Instant};

use answer::has_keepalive;
use bytes::{Bytes, BytesMut};
use netio::epoll::Interest;
use netio::is_not_ready;
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event, ReadError,
    StreamEvent, StreamId, TransportConfig, VarInt,
};
use wire::framing::{PREFIX_LEN, split_message};

use super::{ClientTls, RETIRED_IDS};
use crate::transfer::network::byte_stream::{ByteStream, ResponsePart};
use crate::transfer::primary::PeerConfig;

/// Octets that may arrive before they are read, on a stream and on all of them: 40 Mbit/s with a round-trip time of 100 ms.
const WINDOW: u32 = 512 << 10;
/// Datagrams received before their content is read.
const BATCH: usize = 64;
/// The longest datagram: the transport does not announce more.
const DATAGRAM_LEN: usize = 2048;
/// The length of a message's ID.
const ID_LEN: usize = 2;
/// RFC 9250 4.3: DOQ_NO_ERROR, DOQ_PROTOCOL_ERROR and DOQ_REQUEST_CANCELLED.
const NO_ERROR: VarInt = VarInt::from_u32(0);
const PROTOCOL_ERROR: VarInt = VarInt::from_u32(2);
const REQUEST_CANCELLED: VarInt = VarInt::from_u32(3);

/// A connection. The engine's deadline for connecting includes the handshake.
pub(super) struct QuicByteStream {
    socket: UdpSocket,
    remote: SocketAddr,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    connection: Connection,
    is_established: bool,
    /// Why the connection has ended.
    lost: Option<String>,
    exchanges: HashMap<StreamId, StreamExchange>,
    /// Streams with something to read, each once. They are read in turns.
    readable: VecDeque<StreamId>,
    /// Complete messages with their lengths, from `taken` on.
    ready: Vec<u8>,
    taken: usize,
    /// Of responses, besides.
    parts: Vec<(u16, ResponsePart)>,
    /// A datagram that the socket did not accept.
    unsent: Vec<u8>,
}

/// A query and its response.
struct StreamExchange {
    id: [u8; ID_LEN],
    /// What flow control did not let pass yet.
    output: Bytes,
    /// The start of a message.
    input: Vec<u8>,
}

impl QuicByteStream {
    /// Begins to connect, from the configured source address.
    pub(super) fn connect(peer: &PeerConfig, tls: &ClientTls) -> io::Result<QuicByteStream> {
        let any = || netio::unspecified(peer.address.ip());
        let socket = UdpSocket::bind((peer.source.unwrap_or_else(any), 0))?;
        socket.set_nonblocking(true)?;
        socket.connect(peer.address)?;
        let mut endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, false, None);
        let mut config = ClientConfig::new(Arc::new(tls.quic().map_err(io::Error::other)?));
        config.transport_config(Arc::new(transport()));
        let name = tls.server_name(peer.address.ip());
        let (handle, connection) =
            endpoint.connect(Instant::now(), config, peer.address, &name).map_err(io::Error::other)?;
        let mut stream = QuicByteStream {
            socket,
            remote: peer.address,
            endpoint,
            handle,
            connection,
            is_established: false,
            lost: None,
            exchanges: HashMap::new(),
            readable: VecDeque::new(),
            ready: Vec::new(),
            taken: 0,
            parts: Vec::new(),
            unsent: Vec::new(),
        };
        stream.transmit()?;
        Ok(stream)
    }

    /// Takes the datagrams that have arrived, and does what they and the time cause.
    fn advance(&mut self) -> io::Result<()> {
        let (mut datagram, mut reply) = ([0; DATAGRAM_LEN], Vec::new());
        for _ in 0..BATCH {
            let len = match self.socket.recv(&mut datagram) {
                Ok(len) => len,
                Err(error) if is_not_ready(&error) => break,
                Err(error) if self.is_established => {
                    // RFC 9000 21.1: a forged ICMP message must not end a connection.
                    tracing::debug!(%error, primary = %self.remote, "QUIC: an error of the socket is ignored");
                    break;
                }
                Err(error) => return Err(error),
            };
            let octets = BytesMut::from(&datagram[..len]);
            reply.clear();
            match self.endpoint.handle(Instant::now(), self.remote, None, None, octets, &mut reply) {
                Some(DatagramEvent::ConnectionEvent(_, event)) => self.connection.handle_event(event),
                Some(DatagramEvent::Response(_)) => _ = self.socket.send(&reply),
                Some(DatagramEvent::NewConnection(_)) | None => {}
            }
        }
        let now = Instant::now();
        if self.connection.poll_timeout().is_some_and(|at| at <= now) {
            self.connection.handle_timeout(now);
        }
        self.handle_events();
        self.transmit()
    }

    fn handle_events(&mut self) {
        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.connection.handle_event(event);
            }
        }
        while let Some(event) = self.connection.poll() {
            match event {
                Event::Connected => self.is_established = true,
                Event::ConnectionLost { reason } => _ = self.lost.get_or_insert(format!("QUIC: {reason}")),
                Event::Stream(StreamEvent::Readable { id }) => self.queue_readable(id),
                Event::Stream(StreamEvent::Writable { id }) => self.write_stream(id),
                Event::Stream(StreamEvent::Stopped { id, error_code }) => self.give_up(id, error_code),
                _ => {}
            }
        }
        // A connection does not last for long.
        if self.lost.is_none() && self.connection.stats().frame_rx.retire_connection_id > RETIRED_IDS {
            self.refuse("QUIC: the primary retires connection IDs without end");
        }
    }

    /// RFC 9250 4.3.3: the primary must not stop the stream of a query.
    fn give_up(&mut self, id: StreamId, code: VarInt) {
        if self.exchanges.remove(&id).is_some() {
            self.refuse(&format!("QUIC: the primary cancelled a query (code {code})"));
        }
    }

    /// Sends what the connection has to send, as far as the socket accepts it.
    fn transmit(&mut self) -> io::Result<()> {
        loop {
            if self.unsent.is_empty() && self.connection.poll_transmit(Instant::now(), 1, &mut self.unsent).is_none() {
                return Ok(());
            }
            match self.socket.send(&self.unsent) {
                Err(error) if is_not_ready(&error) => return Ok(()),
                Err(error) if !self.is_established => return Err(error),
                // Sent, or lost like any datagram.
                _ => self.unsent.clear(),
            }
        }
    }

    /// Writes what remains of a query; the end of the stream follows it (RFC 9250 4.2).
    fn write_stream(&mut self, id: StreamId) {
        let Some(exchange) = self.exchanges.get_mut(&id) else { return };
        let mut stream = self.connection.send_stream(id);
        while !exchange.output.is_empty() {
            // What is blocked is tried again, what was stopped is reported by an event.
            let Ok(_) = stream.write_chunks(slice::from_mut(&mut exchange.output)) else { return };
        }
        _ = stream.finish(); // Fails if it is finished already, or stopped.
    }

    fn queue_readable(&mut self, id: StreamId) {
        if !self.readable.contains(&id) {
            self.readable.push_back(id);
        }
    }

    /// Reads from the streams until `wanted` octets are ready.
    fn read_streams(&mut self, wanted: usize) {
        while self.ready.len() - self.taken < wanted
            && let Some(id) = self.readable.pop_front()
        {
            self.read_stream(id, wanted);
        }
    }

    fn read_stream(&mut self, id: StreamId, wanted: usize) {
        let Some(exchange) = self.exchanges.get_mut(&id) else { return };
        let mut stream = self.connection.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else { return };
        let (mut has_ended, mut budget, mut arrived) = (false, wanted, 0);
        loop {
            match chunks.next(budget.max(1)) {
                Ok(Some(chunk)) => {
                    exchange.input.extend_from_slice(&chunk.bytes);
                    arrived += chunk.bytes.len();
                    budget = budget.saturating_sub(chunk.bytes.len());
                    if budget == 0 {
                        self.readable.push_back(id);
                        break;
                    }
                }
                Ok(None) => break has_ended = true,
                Err(ReadError::Blocked) => break,
                Err(ReadError::Reset(code)) => {
                    _ = chunks.finalize();
                    self.exchanges.remove(&id);
                    // RFC 9250 4.3.2: the session cannot know which query failed, so that the connection ends.
                    let reason = format!("QUIC: the primary reset the stream of a response (code {code})");
                    return self.end(NO_ERROR, &reason);
                }
            }
        }
        _ = chunks.finalize(); // Window updates are sent with the next datagrams.
        let used = match take_messages(&exchange.input, exchange.id, &mut self.ready) {
            Ok(used) => used,
            Err(reason) => {
                self.exchanges.remove(&id);
                return self.refuse(reason);
            }
        };
        exchange.input.drain(..used);
        let (query, kept) = (u16::from_be_bytes(exchange.id), exchange.input.len());
        // Those of complete messages are counted when they are read.
        if arrived.min(kept) > 0 {
            self.parts.push((query, ResponsePart::Octets(arrived.min(kept))));
        }
        if has_ended {
            self.exchanges.remove(&id);
            self.parts.push((query, ResponsePart::End));
            if kept > 0 {
                self.refuse("QUIC: the stream of a response ended within a message (RFC 9250 4.3.3)");
            }
        }
    }

    /// Ends the connection with the next datagram; the caller gets an error.
    fn end(&mut self, code: VarInt, reason: &str) {
        self.lost.get_or_insert(reason.into());
        self.connection.close(Instant::now(), code, Bytes::new());
    }

    /// An error once the connection has ended and everything that arrived is read.
    fn check(&self) -> io::Result<()> {
        match &self.lost {
            Some(reason) => Err(io::Error::new(ErrorKind::ConnectionAborted, reason.clone())),
            None => Ok(()),
        }
    }
}

impl ByteStream for QuicByteStream {
    fn establish(&mut self) -> io::Result<bool> {
        self.advance()?;
        self.check()?;
        Ok(self.is_established)
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.advance()?;
        self.read_streams(buffer.len());
        self.transmit()?;
        let ready = &self.ready[self.taken..];
        if ready.is_empty() {
            self.check()?;
            return Err(ErrorKind::WouldBlock.into());
        }
        let len = ready.len().min(buffer.len());
        buffer[..len].copy_from_slice(&ready[..len]);
        self.taken += len;
        if self.taken == self.ready.len() {
            (self.ready, self.taken) = (Vec::new(), 0);
        }
        Ok(len)
    }

    /// Takes whole queries only, each for a stream of its own.
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        let mut used = 0;
        while let Some(message) = first_message(&octets[used..])
            && let Some(stream) = self.connection.streams().open(Dir::Bi)
        {
            let mut output = message.to_vec();
            let id = output[PREFIX_LEN..].first_chunk_mut::<ID_LEN>().map_or([0; ID_LEN], std::mem::take);
            used += message.len();
            self.exchanges.insert(stream, StreamExchange { id, output: output.into(), input: Vec::new() });
            self.write_stream(stream);
        }
        self.transmit()?;
        if used == 0 { Err(ErrorKind::WouldBlock.into()) } else { Ok(used) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.advance()
    }

    fn parts(&mut self) -> Vec<(u16, ResponsePart)> {
        if self.ready.is_empty() { std::mem::take(&mut self.parts) } else { Vec::new() }
    }

    fn refuse(&mut self, reason: &str) {
        self.end(PROTOCOL_ERROR, reason);
    }

    /// RFC 9250 4.3.1: stops the stream of the response.
    fn cancel(&mut self, id: u16) {
        let mut exchanges = self.exchanges.iter();
        let found = exchanges.find(|(_, exchange)| exchange.id == id.to_be_bytes()).map(|(stream, _)| *stream);
        if let Some(stream) = found {
            self.exchanges.remove(&stream);
            // They fail if the directions have ended.
            _ = self.connection.recv_stream(stream).stop(REQUEST_CANCELLED);
            _ = self.connection.send_stream(stream).reset(REQUEST_CANCELLED);
        }
    }

    fn interest(&self, _has_output: bool) -> Interest {
        if self.unsent.is_empty() { Interest::Readable } else { Interest::Both }
    }

    fn until_due(&mut self) -> Option<Duration> {
        if self.taken < self.ready.len() || !self.readable.is_empty() || self.lost.is_some() {
            return Some(Duration::ZERO);
        }
        self.connection.poll_timeout().map(|at| at.saturating_duration_since(Instant::now()))
    }

    fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn close(mut self: Box<Self>) {
        self.connection.close(Instant::now(), NO_ERROR, Bytes::new());
        _ = self.transmit(); // If it is lost, the primary's idle timeout ends the connection.
    }
}

fn transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport
        // RFC 9250 4.2: the server opens no streams.
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .stream_receive_window(VarInt::from_u32(WINDOW))
        .receive_window(VarInt::from_u32(WINDOW))
        .datagram_receive_buffer_size(None)
        .mtu_discovery_config(None);
    transport
}

/// The first message of `octets` with its length, if it is whole.
fn first_message(octets: &[u8]) -> Option<&[u8]> {
    let (message, _) = split_message(octets)?;
    Some(&octets[..PREFIX_LEN + message.len()])
}

/// Appends the whole messages at the start of `input` to `ready`, with this ID; returns how many octets they take. RFC 9250 4.3.3:
/// fails if one has another ID than 0 on the wire, or edns-tcp-keepalive.
fn take_messages(input: &[u8], id: [u8; ID_LEN], ready: &mut Vec<u8>) -> Result<usize, &'static str> {
    let mut used = 0;
    while let Some(message) = first_message(&input[used..]) {
        if has_keepalive(&message[PREFIX_LEN..]) {
            return Err("QUIC: the primary sent edns-tcp-keepalive (RFC 9250 5.5.2)");
        }
        let at = ready.len();
        ready.extend_from_slice(message);
        if let Some(theirs) = ready[at + PREFIX_LEN..].first_chunk_mut() {
            if *theirs != [0; ID_LEN] {
                ready.truncate(at);
                return Err("QUIC: the primary sent a message ID other than 0 (RFC 9250 4.3.3)");
            }
            *theirs = id;
        }
        used += message.len();
    }
    Ok(used)
}

#[cfg(test)]
mod tests;
