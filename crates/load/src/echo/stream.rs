//! TCP (RFC 7766) and TLS (RFC 7858): one thread serves all connections of its listeners.

use std::io::{self, ErrorKind, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use netio::epoll::{Event, Events, Interest, Poll};
use netio::tcp::{Listener, is_out_of_descriptors};
use rustls::ServerConfig;

use super::answer::Answerer;
use super::{EchoCounters, Exchanges, STOP_INTERVAL};
use crate::connection::Connection;
use crate::framing::split_message;

/// The poll tokens of the listeners; connections follow.
const TCP_TOKEN: u64 = 0;
const TLS_TOKEN: u64 = 1;
const FIRST_CONNECTION: u64 = 2;
/// Connections accepted before events are handled again, so that open connections do not wait long.
const MAX_ACCEPTED_PER_TURN: usize = 64;
/// The read buffer in octets: longer than any message, with room for what is read next.
const READ_LEN: usize = 128 << 10;
/// A client that does not read its answers gets no more once this many octets wait.
const MAX_UNSENT: usize = 256 << 10;
/// How long to wait for descriptors to be closed when there are none left.
const DESCRIPTOR_PAUSE: Duration = Duration::from_millis(1);

/// A thread's server for TCP and TLS.
pub struct StreamServer {
    poll: Poll,
    tcp: Listener,
    tls: Option<(Listener, Arc<ServerConfig>)>,
    /// By poll token.
    clients: Vec<Option<Box<Client>>>,
    free: Vec<usize>,
    answerer: Answerer,
    buffer: Vec<u8>,
    counters: EchoCounters,
}

struct Client {
    connection: Connection,
    is_tls: bool,
    is_established: bool,
    interest: Interest,
    /// Queries that are not answered yet, and the beginning of an incomplete one.
    incoming: Vec<u8>,
    /// Answers that are not sent yet.
    outgoing: Vec<u8>,
}

impl StreamServer {
    pub fn new(
        tcp: Listener,
        tls: Option<(Listener, Arc<ServerConfig>)>,
        answerer: Answerer,
    ) -> io::Result<StreamServer> {
        let poll = Poll::new()?;
        poll.add(&tcp, TCP_TOKEN, Interest::Readable)?;
        if let Some((listener, _)) = &tls {
            poll.add(listener, TLS_TOKEN, Interest::Readable)?;
        }
        Ok(StreamServer {
            poll,
            tcp,
            tls,
            clients: Vec::new(),
            free: Vec::new(),
            answerer,
            buffer: vec![0; READ_LEN],
            counters: EchoCounters::default(),
        })
    }

    /// Serves until `stop`.
    pub fn run(mut self, stop: &AtomicBool) -> io::Result<EchoCounters> {
        let mut events = Events::with_capacity(256);
        while !stop.load(Ordering::Relaxed) {
            self.poll.wait(&mut events, STOP_INTERVAL)?;
            if !events.is_empty() {
                self.answerer.begin_batch();
            }
            for index in 0..events.len() {
                match events.at(index) {
                    Event { token: TCP_TOKEN | TLS_TOKEN, .. } => self.accept(events.at(index).token)?,
                    event => self.serve(event)?,
                }
            }
        }
        Ok(self.counters)
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
        let exchanges = if client.is_tls { &mut self.counters.tls } else { &mut self.counters.tcp };
        let was_established = client.is_established;
        let served = client.handle(event, &mut self.buffer, &mut self.answerer, exchanges);
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

impl Client {
    /// Handles an event; an error ends the connection.
    fn handle(
        &mut self,
        event: Event,
        buffer: &mut [u8],
        answerer: &mut Answerer,
        exchanges: &mut Exchanges,
    ) -> io::Result<()> {
        if !self.is_established {
            self.is_established = self.connection.establish()?;
            if !self.is_established {
                return Ok(());
            }
        }
        self.write()?;
        let mut may_read = event.readable;
        while self.outgoing.is_empty() {
            let has_answered = self.answer(buffer, may_read, answerer, exchanges)?;
            self.write()?;
            if !has_answered {
                break;
            }
            // One read for each event: level-triggered events report the rest.
            may_read = false;
        }
        Ok(())
    }

    /// Answers the complete queries, of which it first reads more if it may; returns whether it answered any.
    fn answer(
        &mut self,
        buffer: &mut [u8],
        may_read: bool,
        answerer: &mut Answerer,
        exchanges: &mut Exchanges,
    ) -> io::Result<bool> {
        let mut len = self.incoming.len();
        buffer[..len].copy_from_slice(&self.incoming);
        if may_read && split_message(&self.incoming).is_none() {
            len += self.read(&mut buffer[len..])?;
        }
        let (mut rest, before) = (&buffer[..len], exchanges.queries);
        while self.outgoing.len() < MAX_UNSENT {
            let Some((query, after)) = split_message(rest) else { break };
            rest = after;
            exchanges.queries += 1;
            exchanges.responses += u64::from(self.push_answer(query, answerer));
        }
        self.incoming.clear();
        self.incoming.extend_from_slice(rest);
        Ok(exchanges.queries > before)
    }

    /// Reads once; 0 if nothing has arrived. The end of the stream is an error.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.connection.read(buffer) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(0),
            result => result,
        }
    }

    /// Queues the answer, preceded by its length (RFC 1035 4.2.2); returns whether there is one.
    fn push_answer(&mut self, query: &[u8], answerer: &mut Answerer) -> bool {
        let at = self.outgoing.len();
        self.outgoing.resize(at + 2 + answerer.max_len(query.len()), 0);
        let len = answerer.answer(query, &mut self.outgoing[at + 2..]);
        self.outgoing.truncate(at + len.map_or(0, |len| 2 + len));
        if let Some(len) = len {
            self.outgoing[at..at + 2].copy_from_slice(&(len as u16).to_be_bytes());
        }
        len.is_some()
    }

    /// Writes until the socket would block.
    fn write(&mut self) -> io::Result<()> {
        self.connection.write_queued(&mut self.outgoing)
    }

    /// The events to wait for: a client with answers to read is not read from.
    fn wanted(&self) -> Interest {
        if self.outgoing.is_empty() { self.connection.interest(Interest::Readable) } else { Interest::Writable }
    }
}
