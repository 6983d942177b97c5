//! QUIC: on each stream a query and its answer (RFC 9250), on as many connections as clients open.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use bytes::BytesMut;
use netio::epoll::{Events, Interest, Poll};
use netio::udp_endpoint::{Datagram, UdpEndpoint};
use netio::udp_server::ServerSocketOptions;
use quinn_proto::{
    Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, Event, Incoming, ReadError, ServerConfig, StreamEvent,
    StreamId, Transmit, VarInt,
};
use wire::framing::{frame, split_message};

use super::EchoCounters;
use super::answer::Answerer;
use crate::STOP_INTERVAL;

/// RFC 9250 4.3: DOQ_NO_ERROR.
const NO_ERROR: VarInt = VarInt::from_u32(0);

/// A thread's server.
pub struct QuicServer {
    socket: UdpEndpoint,
    poll: Poll,
    endpoint: Endpoint,
    clients: HashMap<ConnectionHandle, Client>,
    /// Clients with a timer.
    timers: BTreeSet<(Instant, ConnectionHandle)>,
    answerer: Answerer,
    counters: EchoCounters,
}

struct Client {
    connection: Connection,
    timer: Option<Instant>,
    streams: HashMap<StreamId, Stream>,
}

enum Stream {
    /// What has arrived of a query.
    Query(Vec<u8>),
    /// What is left of an answer.
    Answer(Vec<u8>),
}

impl QuicServer {
    /// Binds a socket.
    pub fn bind(
        address: SocketAddr,
        options: &ServerSocketOptions,
        config: Arc<ServerConfig>,
        answerer: Answerer,
    ) -> io::Result<QuicServer> {
        let (socket, poll) = (UdpEndpoint::bind(address, options)?, Poll::new()?);
        poll.add(&socket, 0, Interest::Readable)?;
        let endpoint = Endpoint::new(Arc::default(), Some(config), false, None);
        let (clients, timers, counters) = (HashMap::new(), BTreeSet::new(), EchoCounters::default());
        Ok(QuicServer { socket, poll, endpoint, clients, timers, answerer, counters })
    }

    pub fn local_addr(&self) -> SocketAddr {
        self.socket.local_addr()
    }

    /// Serves on the calling thread until `stop`.
    pub fn serve(mut self, stop: &AtomicBool) -> io::Result<EchoCounters> {
        let mut events = Events::with_capacity(1);
        while !stop.load(Ordering::Relaxed) {
            let next = self.timers.first().map(|(at, _)| at.saturating_duration_since(Instant::now()));
            self.poll.wait_precise(&mut events, next.map_or(STOP_INTERVAL, |next| next.min(STOP_INTERVAL)))?;
            let mut moved = self.receive()?;
            self.fire_timers(&mut moved);
            if !moved.is_empty() {
                self.answerer.begin_batch();
            }
            moved.into_iter().for_each(|handle| self.advance(handle));
            self.socket.flush();
        }
        Ok(self.counters)
    }

    /// Handles the datagrams that have arrived; returns the connections that they are for.
    fn receive(&mut self) -> io::Result<BTreeSet<ConnectionHandle>> {
        let mut moved = BTreeSet::new();
        for at in 0..self.socket.receive()? {
            let Some(Datagram { octets, peer, local_ip }) = self.socket.datagram(at) else { continue };
            let (octets, now) = (BytesMut::from(octets), Instant::now());
            match self.endpoint.handle(now, peer, local_ip, None, octets, self.socket.buffer()) {
                Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                    if let Some(client) = self.clients.get_mut(&handle) {
                        client.connection.handle_event(event);
                        moved.insert(handle);
                    }
                }
                Some(DatagramEvent::NewConnection(incoming)) => moved.extend(self.accept(incoming, now)),
                Some(DatagramEvent::Response(transmit)) => queue(&mut self.socket, &transmit),
                None => {}
            }
        }
        Ok(moved)
    }

    fn accept(&mut self, incoming: Incoming, now: Instant) -> Option<ConnectionHandle> {
        match self.endpoint.accept(incoming, now, self.socket.buffer(), None) {
            Ok((handle, connection)) => {
                self.counters.connections += 1;
                self.clients.insert(handle, Client { connection, timer: None, streams: HashMap::new() });
                Some(handle)
            }
            Err(error) => {
                error.response.iter().for_each(|transmit| queue(&mut self.socket, transmit));
                None
            }
        }
    }

    fn fire_timers(&mut self, moved: &mut BTreeSet<ConnectionHandle>) {
        let now = Instant::now();
        while let Some((_, handle)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            self.timers.pop_first();
            if let Some(client) = self.clients.get_mut(&handle) {
                client.timer = None;
                client.connection.handle_timeout(now);
                moved.insert(handle);
            }
        }
    }

    /// Does all that a connection can do now.
    fn advance(&mut self, handle: ConnectionHandle) {
        let Some(client) = self.clients.get_mut(&handle) else { return };
        let mut is_over = false;
        while let Some(event) = client.connection.poll_endpoint_events() {
            is_over |= event.is_drained();
            if let Some(event) = self.endpoint.handle_event(handle, event) {
                client.connection.handle_event(event);
            }
        }
        client.take_events(&mut self.answerer, &mut self.counters);
        let segments = self.socket.max_segments();
        while let Some(transmit) = client.connection.poll_transmit(Instant::now(), segments, self.socket.buffer()) {
            queue(&mut self.socket, &transmit);
        }
        let timer = if is_over { None } else { client.connection.poll_timeout() };
        if timer != client.timer {
            client.timer.map(|at| self.timers.remove(&(at, handle)));
            self.timers.extend(timer.map(|at| (at, handle)));
            client.timer = timer;
        }
        if is_over {
            self.clients.remove(&handle);
        }
    }
}

impl Client {
    fn take_events(&mut self, answerer: &mut Answerer, counters: &mut EchoCounters) {
        while let Some(event) = self.connection.poll() {
            match event {
                Event::Stream(StreamEvent::Opened { dir: Dir::Bi }) => {
                    while let Some(id) = self.connection.streams().accept(Dir::Bi) {
                        self.streams.insert(id, Stream::Query(Vec::new()));
                        self.read(id, answerer, counters);
                    }
                }
                Event::Stream(StreamEvent::Readable { id }) => self.read(id, answerer, counters),
                Event::Stream(StreamEvent::Writable { id }) => self.write(id),
                Event::Stream(StreamEvent::Stopped { id, .. }) => _ = self.streams.remove(&id),
                Event::ConnectionLost { .. } => self.streams.clear(),
                _ => {}
            }
        }
    }

    /// Reads what has arrived of a query, and answers it if it is complete. A stream without an answer is reset.
    fn read(&mut self, id: StreamId, answerer: &mut Answerer, counters: &mut EchoCounters) {
        let Some(Stream::Query(query)) = self.streams.get_mut(&id) else { return };
        let mut stream = self.connection.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else { return };
        let has_ended = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => query.extend_from_slice(&chunk.bytes),
                Ok(None) | Err(ReadError::Reset(_)) => break true,
                Err(ReadError::Blocked) => break false,
            }
        };
        // What the client may send again is announced with the next packet.
        _ = chunks.finalize();
        if !has_ended {
            return;
        }
        counters.quic.queries += 1;
        let mut answer = split_message(query).map_or(Vec::new(), |(query, _)| vec![0; answerer.max_len(query.len())]);
        let len = split_message(query).and_then(|(query, _)| answerer.answer(query, &mut answer));
        let Some(len) = len else {
            self.streams.remove(&id);
            // It fails if the client has stopped the stream.
            _ = self.connection.send_stream(id).reset(NO_ERROR);
            return;
        };
        counters.quic.responses += 1;
        self.streams.insert(id, Stream::Answer(frame(&answer[..len])));
        self.write(id);
    }

    /// Writes what the connection accepts of an answer.
    fn write(&mut self, id: StreamId) {
        let Some(Stream::Answer(answer)) = self.streams.get_mut(&id) else { return };
        while !answer.is_empty() {
            let Ok(accepted) = self.connection.send_stream(id).write(answer) else { return };
            answer.drain(..accepted);
        }
        _ = self.connection.send_stream(id).finish();
        self.streams.remove(&id);
    }
}

fn queue(socket: &mut UdpEndpoint, transmit: &Transmit) {
    let segment = transmit.segment_size.and_then(|len| u16::try_from(len).ok());
    socket.queue(transmit.destination, transmit.src_ip, segment);
}
