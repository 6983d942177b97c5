//! Queries over TCP (RFC 7766) or TLS (RFC 7858): pipelined on connections that stay open, or a number of queries a connection.
//!
//! A connection has a number for as long as it lives. It is driven by [`Streams::handle`] with what [`Poll`] tells.

use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;

use netio::client::Sources;
use netio::stream::{Event, Interest, Poll};

use crate::line::Line;
use crate::measure::Measure;
use crate::tls::Tls;

/// Octets that are read in one call: more than the longest message.
const READ_LEN: usize = 128 << 10;

/// How many connections that do not stand yet a query looks beyond.
const MAX_PASSED_OVER: usize = 128;

/// How connections are used.
#[derive(Clone, Debug)]
pub struct Usage {
    /// How many are open at a time.
    pub connections: usize,
    /// How many queries each has, after which it is closed; 0 for no limit.
    pub queries_per_connection: u32,
    /// Whether queries go by connections that stand where there are any, as in a closed loop: else all that may be in flight
    /// soon wait for the connections that do not.
    pub passes_over_begun: bool,
    /// The addresses they come from.
    pub sources: Option<Sources>,
    /// How they are encrypted, if they are.
    pub tls: Option<Tls>,
}

/// The connections of a worker.
pub struct Streams {
    server: SocketAddr,
    usage: Usage,
    /// The token of connection 0.
    first_token: u64,
    /// Which connection each of the `usage.connections` places has at the moment.
    slots: Vec<Option<u32>>,
    turn: usize,
    connections: Vec<Place>,
    free: Vec<u32>,
    /// Numbers that may be given out again when the events at hand are through.
    freed: Vec<u32>,
    /// Connections that have something to write.
    dirty: Vec<u32>,
    opened: u32,
    buffer: Vec<u8>,
}

/// What a number stands for.
enum Place {
    Open(Box<Connection>),
    /// A connection that is gone, with queries whose time is not out yet.
    Closed {
        unsettled: u32,
    },
}

struct Connection {
    line: Line,
    slot: usize,
    began_ns: u64,
    is_up: bool,
    /// Whether it gets no further queries.
    is_retired: bool,
    interest: Interest,
    asked: u32,
    /// Queries that were answered or timed out.
    settled: u32,
    outgoing: Vec<u8>,
    /// The beginning of a message whose end has not come yet.
    incoming: Vec<u8>,
}

impl Streams {
    /// No connections yet; they are opened when queries need them.
    pub fn new(server: SocketAddr, usage: Usage, first_token: u64) -> Streams {
        Streams {
            server,
            first_token,
            slots: vec![None; usage.connections.max(1)],
            usage,
            turn: 0,
            connections: Vec::new(),
            free: Vec::new(),
            freed: Vec::new(),
            dirty: Vec::new(),
            opened: 0,
            buffer: vec![0; READ_LEN],
        }
    }

    /// The number of the connection for the next query, or for that of a captured client; opens it where there is none.
    pub fn choose(&mut self, client: Option<u32>, poll: &Poll, now_ns: u64) -> io::Result<u32> {
        let slot = client.map_or_else(|| self.next_slot(), |client| client as usize) % self.slots.len();
        self.turn = (slot + 1) % self.slots.len();
        let number = match self.slots[slot] {
            Some(number) => number,
            None => self.open(slot, poll, now_ns)?,
        };
        let limit = self.usage.queries_per_connection;
        let connection = self.open_at(number).expect("slots have open connections");
        connection.asked += 1;
        if connection.asked == limit {
            connection.is_retired = true;
            self.slots[slot] = None;
        }
        Ok(number)
    }

    /// The place whose turn it is, or the next one that is free or has a connection that stands, if that is wanted.
    fn next_slot(&self) -> usize {
        let tries = if self.usage.passes_over_begun { self.slots.len().min(MAX_PASSED_OVER) } else { 0 };
        let mut places = (0..tries).map(|step| (self.turn + step) % self.slots.len());
        let is_ready =
            |number| matches!(&self.connections[number as usize], Place::Open(connection) if connection.is_up);
        places.find(|&slot| self.slots[slot].is_none_or(is_ready)).unwrap_or(self.turn)
    }

    /// Whether there has been a connection for each place.
    pub fn has_begun_all(&self) -> bool {
        self.opened as usize >= self.slots.len()
    }

    fn open(&mut self, slot: usize, poll: &Poll, now_ns: u64) -> io::Result<u32> {
        let local = self.usage.sources.map(|sources| SocketAddr::new(sources.at(self.opened % sources.count), 0));
        let line = Line::connect(self.server, local, self.usage.tls.as_ref())?;
        self.opened = self.opened.wrapping_add(1);
        let number = self.free.pop().unwrap_or(self.connections.len() as u32);
        poll.add(&line, self.first_token + u64::from(number), Interest::Writable)?;
        let connection = Place::Open(Box::new(Connection {
            line,
            slot,
            began_ns: now_ns,
            is_up: false,
            is_retired: false,
            interest: Interest::Writable,
            asked: 0,
            settled: 0,
            outgoing: Vec::new(),
            incoming: Vec::new(),
        }));
        if number as usize == self.connections.len() {
            self.connections.push(connection);
        } else {
            self.connections[number as usize] = connection;
        }
        self.slots[slot] = Some(number);
        Ok(number)
    }

    fn open_at(&mut self, number: u32) -> Option<&mut Connection> {
        match self.connections.get_mut(number as usize)? {
            Place::Open(connection) => Some(connection),
            Place::Closed { .. } => None,
        }
    }

    /// How many numbers connections have had at most.
    pub fn number_count(&self) -> usize {
        self.connections.len()
    }

    /// Queues a query behind its length (RFC 1035 4.2.2).
    pub fn push(&mut self, number: u32, id: u16, message: &[u8]) {
        let Some(connection) = self.open_at(number) else { return };
        let was_clean = connection.outgoing.is_empty();
        let outgoing = &mut connection.outgoing;
        outgoing.extend_from_slice(&(message.len() as u16).to_be_bytes());
        outgoing.extend_from_slice(&id.to_be_bytes());
        outgoing.extend_from_slice(&message[2..]);
        if was_clean {
            self.dirty.push(number);
        }
    }

    /// Writes what is queued, as far as the connections take it.
    pub fn flush(&mut self, poll: &Poll, measure: &mut Measure) {
        self.free.append(&mut self.freed);
        for number in std::mem::take(&mut self.dirty) {
            let Some(connection) = self.open_at(number) else { continue };
            if connection.is_up && connection.write().is_err() {
                self.close(number, measure);
                continue;
            }
            self.watch(number, poll);
        }
    }

    /// Has `poll` tell what the connection waits for.
    fn watch(&mut self, number: u32, poll: &Poll) {
        let token = self.first_token + u64::from(number);
        let Some(connection) = self.open_at(number) else { return };
        let wanted = connection.line.interest(match (connection.is_up, connection.outgoing.is_empty()) {
            (false, _) => Interest::Writable,
            (true, true) => Interest::Readable,
            (true, false) => Interest::Both,
        });
        if wanted != connection.interest {
            connection.interest = wanted;
            poll.modify(&connection.line, token, wanted).expect("the descriptor was added and is open");
        }
    }

    /// Goes on with the connection that an event is about; `take` gets its number and each whole answer,
    /// and says whether it is one to a query in flight.
    pub fn handle(
        &mut self,
        event: Event,
        poll: &Poll,
        now_ns: u64,
        measure: &mut Measure,
        mut take: impl FnMut(u32, &[u8], &mut Measure) -> bool,
    ) {
        let number = (event.token - self.first_token) as u32;
        let Place::Open(connection) = &mut self.connections[number as usize] else { return };
        let was_up = connection.is_up;
        if !was_up {
            match connection.line.establish() {
                Ok(true) => connection.stands(now_ns, measure),
                Ok(false) => return self.watch(number, poll),
                Err(error) => {
                    measure.handshake_failed(&error);
                    return self.close(number, measure);
                }
            }
        }
        let written = if event.writable || !was_up { connection.write() } else { Ok(()) };
        let read = if event.readable {
            connection.read(&mut self.buffer, |answer| take(number, answer, measure))
        } else {
            Ok(())
        };
        if written.and(read).is_err() || connection.is_done() {
            return self.close(number, measure);
        }
        self.watch(number, poll);
    }

    /// Tells that the time of one of the connection's queries is out.
    pub fn settle(&mut self, number: u32, measure: &mut Measure) {
        match &mut self.connections[number as usize] {
            Place::Open(connection) => {
                connection.settled += 1;
                if connection.is_done() {
                    self.close(number, measure);
                }
            }
            Place::Closed { unsettled } => {
                *unsettled -= 1;
                if *unsettled == 0 {
                    self.freed.push(number);
                }
            }
        }
    }

    fn close(&mut self, number: u32, measure: &mut Measure) {
        let Place::Open(connection) = &mut self.connections[number as usize] else { return };
        connection.line.say_goodbye();
        if self.slots[connection.slot] == Some(number) {
            self.slots[connection.slot] = None;
        }
        let unsettled = connection.asked - connection.settled;
        measure.closed_early += u64::from(connection.is_up && unsettled > 0);
        self.connections[number as usize] = Place::Closed { unsettled };
        if unsettled == 0 {
            self.freed.push(number);
        }
    }
}

impl Connection {
    fn is_done(&self) -> bool {
        self.is_retired && self.settled >= self.asked
    }

    fn stands(&mut self, now_ns: u64, measure: &mut Measure) {
        self.is_up = true;
        measure.handshakes += 1;
        measure.handshakes_resumed += u64::from(self.line.is_resumed());
        measure.handshake.saturating_record(now_ns - self.began_ns);
    }

    fn write(&mut self) -> io::Result<()> {
        let mut written = 0;
        while written < self.outgoing.len() {
            match self.line.write(&self.outgoing[written..]) {
                Ok(len) => written += len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.outgoing.drain(..written);
        self.line.flush()
    }

    /// Reads once and gives every whole message to `take`; an error at the end of the connection.
    fn read(&mut self, buffer: &mut [u8], mut take: impl FnMut(&[u8]) -> bool) -> io::Result<()> {
        let held = self.incoming.len();
        buffer[..held].copy_from_slice(&self.incoming);
        let len = match self.line.read(&mut buffer[held..]) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(len) => held + len,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return Ok(()),
            Err(error) => return Err(error),
        };
        let mut rest = &buffer[..len];
        while let Some((message, behind)) = split_message(rest) {
            self.settled += u32::from(take(message));
            rest = behind;
        }
        self.incoming.clear();
        self.incoming.extend_from_slice(rest);
        Ok(())
    }
}

/// The first whole message of a stream without its length, and what is behind it.
pub fn split_message(octets: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = octets.split_first_chunk()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*len)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(passes_over_begun: bool) -> Vec<u32> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
        let usage = Usage { connections: 3, queries_per_connection: 0, passes_over_begun, sources: None, tls: None };
        let mut streams = Streams::new(listener.local_addr().expect("bound"), usage, 0);
        let poll = Poll::new().expect("a descriptor");
        let first: Vec<u32> = (0..4).map(|_| streams.choose(None, &poll, 0).expect("loopback")).collect();
        assert_eq!(first, [0, 1, 2, 0], "what has its turn, where none stands");
        streams.open_at(1).expect("chosen").is_up = true;
        (0..4).map(|_| streams.choose(None, &poll, 0).expect("loopback")).collect()
    }

    #[test]
    fn queries_of_a_closed_loop_go_by_connections_that_stand() {
        assert_eq!(chosen(true), [1, 1, 1, 1]);
        assert_eq!(chosen(false), [1, 2, 0, 1], "an open loop asks as scheduled, or it would hide what waits");
    }
}
