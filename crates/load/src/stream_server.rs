//! A server over TCP (RFC 7766) and TLS (RFC 7858): one thread serves all connections of its listeners.

use std::io::{self, ErrorKind, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use netio::epoll::{Event, Events, Interest, Poll};
use netio::is_not_ready;
use netio::tcp::{Listener, is_out_of_descriptors};
use rustls::ServerConfig;
use wire::framing::split_message;

use crate::STOP_INTERVAL;
use crate::connection::Connection;

/// Responds to the queries of a [`StreamServer`].
pub trait StreamResponder {
    /// What is left of a response that is sent piece by piece.
    type Rest;

    /// Called before the events of a wait are handled: it may pause.
    fn begin_batch(&mut self) {}

    /// Appends the response, with its length prefix, or nothing; or returns a response that [`StreamResponder::resume`]
    /// appends. An error closes the connection.
    fn respond(&mut self, query: &[u8], is_tls: bool, out: &mut Vec<u8>) -> io::Result<Option<Self::Rest>>;

    /// Appends the next message, with its length prefix; returns whether it is the last one.
    fn resume(&mut self, rest: &mut Self::Rest, out: &mut Vec<u8>) -> io::Result<bool>;
}

/// The connections of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamCounters {
    /// Connections that were accepted.
    pub connections: u64,
    /// TLS connections that resumed a session.
    pub handshakes_resumed: u64,
}

/// The poll tokens of the listeners; connections follow.
const TCP_TOKEN: u64 = 0;
const TLS_TOKEN: u64 = 1;
const FIRST_CONNECTION: u64 = 2;
/// Connections accepted before events are handled again, so that open connections do not wait long.
const MAX_ACCEPTED_PER_TURN: usize = 64;
/// Times that a connection may fill its buffer in one event: a long response must not keep the others waiting.
const MAX_WRITES_PER_EVENT: usize = 16;
/// The read buffer in octets: longer than any message, with room for what is read next.
const READ_LEN: usize = 128 << 10;
/// A client that does not read its responses gets no more once this many octets wait; they fit into the processor cache.
const MAX_UNSENT: usize = 256 << 10;
/// How long to wait for descriptors to be closed when there are none left.
const DESCRIPTOR_PAUSE: Duration = Duration::from_millis(1);

/// A thread's server for TCP and TLS.
pub struct StreamServer<R: StreamResponder> {
    poll: Poll,
    tcp: Listener,
    tls: Option<(Listener, Arc<ServerConfig>)>,
    /// By poll token.
    clients: Vec<Option<Box<Client<R::Rest>>>>,
    free: Vec<usize>,
    responder: R,
    buffer: Vec<u8>,
    counters: StreamCounters,
}

struct Client<T> {
    connection: Connection,
    is_tls: bool,
    is_established: bool,
    interest: Interest,
    /// Queries that are not answered yet, and the beginning of an incomplete one.
    incoming: Vec<u8>,
    /// Octets that are not sent yet.
    outgoing: Vec<u8>,
    /// What follows them.
    rest: Option<T>,
}

impl<R: StreamResponder> StreamServer<R> {
    pub fn new(tcp: Listener, tls: Option<(Listener, Arc<ServerConfig>)>, responder: R) -> io::Result<StreamServer<R>> {
        let poll = Poll::new()?;
        poll.add(&tcp, TCP_TOKEN, Interest::Readable)?;
        if let Some((listener, _)) = &tls {
            poll.add(listener, TLS_TOKEN, Interest::Readable)?;
        }
        let (clients, free, buffer) = (Vec::new(), Vec::new(), vec![0; READ_LEN]);
        Ok(StreamServer { poll, tcp, tls, clients, free, responder, buffer, counters: StreamCounters::default() })
    }

    /// Serves until `stop`.
    pub fn run(mut self, stop: &AtomicBool) -> io::Result<(R, StreamCounters)> {
        let mut events = Events::with_capacity(256);
        while !stop.load(Ordering::Relaxed) {
            self.poll.wait(&mut events, STOP_INTERVAL)?;
            if !events.is_empty() {
                self.responder.begin_batch();
            }
            for index in 0..events.len() {
                match events.at(index) {
                    Event { token: TCP_TOKEN | TLS_TOKEN, .. } => self.accept(events.at(index).token)?,
                    event => self.serve(event)?,
                }
            }
        }
        Ok((self.responder, self.counters))
    }

    fn accept(&mut self, token: u64) -> io::Result<()> {
        for _ in 0..MAX_ACCEPTED_PER_TURN {
            let (listener, config) = match &self.tls {
                Some((listener, config)) if token == TLS_TOKEN => (listener, Some(config)),
                _ => (&self.tcp, None),
            };
            let connection = match listener.accept() {
                Ok((stream, _)) => Connection::accepted(stream, config)?,
                Err(error) if is_out_of_descriptors(&error) => {
                    thread::sleep(DESCRIPTOR_PAUSE);
                    return Ok(());
                }
                // None is pending, or the client has gone.
                Err(_) => return Ok(()),
            };
            let is_tls = config.is_some();
            self.add(connection, is_tls)?;
        }
        Ok(())
    }

    fn add(&mut self, connection: Connection, is_tls: bool) -> io::Result<()> {
        let index = self.free.pop().unwrap_or(self.clients.len());
        self.poll.add(&connection, FIRST_CONNECTION + index as u64, Interest::Readable)?;
        self.counters.connections += 1;
        let client = Some(Box::new(Client {
            connection,
            is_tls,
            is_established: !is_tls,
            interest: Interest::Readable,
            incoming: Vec::new(),
            outgoing: Vec::new(),
            rest: None,
        }));
        match self.clients.get_mut(index) {
            Some(slot) => *slot = client,
            None => self.clients.push(client),
        }
        Ok(())
    }

    fn serve(&mut self, event: Event) -> io::Result<()> {
        let index = (event.token - FIRST_CONNECTION) as usize;
        let Some(client) = &mut self.clients[index] else { return Ok(()) };
        let was_established = client.is_established;
        let served = client.handle(event, &mut self.buffer, &mut self.responder);
        if !was_established && client.is_established {
            self.counters.handshakes_resumed += u64::from(client.connection.is_resumed());
        }
        // An error means that the client has closed the connection, or broke the protocol.
        if served.is_err() {
            self.clients[index] = None;
            self.free.push(index);
            return Ok(());
        }
        let wanted = client.wanted();
        if wanted != client.interest {
            client.interest = wanted;
            self.poll.modify(&client.connection, event.token, wanted)?;
        }
        Ok(())
    }
}

impl<T> Client<T> {
    /// Handles an event; an error ends the connection.
    fn handle(
        &mut self,
        event: Event,
        buffer: &mut [u8],
        responder: &mut impl StreamResponder<Rest = T>,
    ) -> io::Result<()> {
        if !self.is_established {
            self.is_established = self.connection.establish()?;
            if !self.is_established {
                return Ok(());
            }
        }
        self.write()?;
        let (mut may_read, mut writes) = (event.readable, 0);
        while self.outgoing.is_empty() && writes < MAX_WRITES_PER_EVENT {
            let has_responded = self.respond(buffer, may_read, responder)?;
            self.write()?;
            if !has_responded {
                break;
            }
            // One read for each event: level-triggered events report the rest.
            (may_read, writes) = (false, writes + 1);
        }
        Ok(())
    }

    /// Continues a response, and answers the complete queries, of which it first reads more if it may; returns whether
    /// there was anything to answer.
    fn respond(
        &mut self,
        buffer: &mut [u8],
        may_read: bool,
        responder: &mut impl StreamResponder<Rest = T>,
    ) -> io::Result<bool> {
        let mut len = self.incoming.len();
        buffer[..len].copy_from_slice(&self.incoming);
        if may_read && self.rest.is_none() && split_message(&self.incoming).is_none() {
            len += self.read(&mut buffer[len..])?;
        }
        let (mut octets, mut has_responded) = (&buffer[..len], false);
        while self.outgoing.len() < MAX_UNSENT {
            if let Some(rest) = &mut self.rest {
                if responder.resume(rest, &mut self.outgoing)? {
                    self.rest = None;
                }
            } else {
                let Some((query, after)) = split_message(octets) else { break };
                octets = after;
                self.rest = responder.respond(query, self.is_tls, &mut self.outgoing)?;
            }
            has_responded = true;
        }
        self.incoming.clear();
        self.incoming.extend_from_slice(octets);
        Ok(has_responded)
    }

    /// Reads once; 0 if nothing has arrived. The end of the stream is an error.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.connection.read(buffer) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Err(error) if is_not_ready(&error) => Ok(0),
            result => result,
        }
    }

    /// Writes until the socket would block.
    fn write(&mut self) -> io::Result<()> {
        self.connection.write_queued(&mut self.outgoing)
    }

    /// The events to wait for: a client with responses to read, or queries that were read but not answered, is not read
    /// from.
    fn wanted(&self) -> Interest {
        let is_idle = self.outgoing.is_empty() && self.rest.is_none() && split_message(&self.incoming).is_none();
        if is_idle { self.connection.interest(Interest::Readable) } else { Interest::Writable }
    }
}
