//! Opens and holds connections: hundreds of thousands of idle ones, or those of slow and hostile clients.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::ValueEnum;
use netio::clock;
use netio::epoll::{Event, Events, Interest, Poll};
use netio::is_not_ready;
use netio::udp_client::Sources;
use serde::Serialize;
use wire::framing::frame;

use crate::connection::Connection;
use crate::metrics::LatencyHistogram;
use crate::opening::{MAX_BEGUN_PER_TURN, Opening};
use crate::queries::Queries;
use crate::tls::TlsConfig;
use fastrand::Rng;

/// What a client does once its connection is established.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Behaviour {
    /// Send half a query.
    HalfQuery,
    /// Send queries at one octet per second.
    ByteASecond,
    /// Send queries continuously and never read.
    NeverRead,
    /// Send a query and close with RST.
    Reset,
    /// Complete the handshake of TCP, TLS or QUIC and close at once, TCP with RST: a flood of handshakes, at the rate of opening.
    Handshake,
    /// Connect and send nothing.
    Silence,
    /// Send random octets; over QUIC a datagram for each connection, every second with the header of a first packet.
    Random,
    /// Send one query, read the response, and be idle after that; not hostile.
    #[value(skip)]
    Ask,
}

impl Behaviour {
    /// Whether a client closes its connection as soon as it is established, so that few are open at a time.
    pub fn closes_at_once(self) -> bool {
        matches!(self, Behaviour::Reset | Behaviour::Handshake)
    }
}

/// Which connections are held, and how long.
pub struct HoldConfig<'q> {
    /// The server under test.
    pub server: SocketAddr,
    /// The source addresses; `None` for the one that the kernel chooses.
    pub sources: Option<Sources>,
    /// Set for TLS; those over QUIC have theirs in [`crate::quic::hostile::run`].
    pub tls: Option<TlsConfig>,
    /// The number of connections.
    pub connections: usize,
    /// Connections opened per second.
    pub rate: f64,
    /// How long to hold them after the last one is established or has failed.
    pub hold: Duration,
    /// Whether to end earlier, once every connection has a response, has failed, or was closed without one.
    pub until_answered: bool,
    /// What the clients do.
    pub behaviour: Behaviour,
    /// Their queries, used in turn; at least one.
    pub queries: &'q Queries,
}

/// The result of holding connections.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HoldResult {
    /// Connections that were open once all were established or had failed: those that neither side had closed.
    pub open: u64,
    /// Connections that were established.
    pub established: u64,
    /// Connections that could not be established.
    pub failed: u64,
    /// How long opening them all took, in seconds.
    pub open_s: f64,
    /// Connections with a response; further ones are not counted.
    #[serde(rename = "held_responses")]
    pub responses: u64,
    /// When the last of them began, in seconds after the first connection was opened.
    pub last_response_s: Option<f64>,
    /// Connections that took longer than one second to establish, so that a packet of their handshake was lost.
    pub late_connections: u64,
    /// Connections that the server closed.
    pub closed_by_peer: u64,
    /// Of these, the ones without a response.
    pub closed_unanswered: u64,
    /// The age in seconds of the youngest connection that the server closed.
    pub first_closed_s: Option<f64>,
    /// The age in seconds of the oldest.
    pub last_closed_s: Option<f64>,
    /// The error of the first failed connection.
    #[serde(skip)]
    pub first_failure: Option<String>,
    /// From opening a connection until it is established, in nanoseconds.
    #[serde(skip)]
    pub handshake: LatencyHistogram,
}

impl HoldResult {
    /// Counts the connections that are open now that all are established or have failed.
    pub fn finish_opening(&mut self, took: Duration, behaviour: Behaviour) {
        self.open_s = took.as_secs_f64();
        let closed = if behaviour.closes_at_once() { self.established } else { self.closed_by_peer };
        self.open = self.established.saturating_sub(closed);
    }

    /// Counts a connection that could not be established.
    pub fn record_failure(&mut self, error: &dyn fmt::Display) {
        self.failed += 1;
        self.first_failure.get_or_insert_with(|| error.to_string());
    }

    /// Counts a connection that the server closed at this age.
    pub fn record_closed(&mut self, age: Duration) {
        let age_s = age.as_secs_f64();
        self.closed_by_peer += 1;
        self.first_closed_s = Some(self.first_closed_s.map_or(age_s, |first| first.min(age_s)));
        self.last_closed_s = Some(self.last_closed_s.map_or(age_s, |last| last.max(age_s)));
    }
}

/// How many octets a client that never reads sends: more than all buffers between it and the server hold.
const NEVER_READ_LEN: usize = 16 << 20;
/// How many octets [`Behaviour::Random`] sends.
const RANDOM_LEN: usize = 512;
/// The interval of [`Behaviour::ByteASecond`].
const SLOW_INTERVAL: Duration = Duration::from_secs(1);
/// The longest wait for events.
pub(crate) const MAX_WAIT: Duration = Duration::from_millis(20);
/// When the kernel sends a SYN again.
const SYN_TIMEOUT: Duration = Duration::from_secs(1);

impl HoldConfig<'_> {
    /// Opens the connections, holds them, closes them. Calls `on_opened` once all are established or have failed.
    pub fn run(&self, stop: &AtomicBool, on_opened: impl FnOnce(&HoldResult)) -> io::Result<HoldResult> {
        clock::minimize_timer_slack();
        let mut held = HeldConnections::new(self)?;
        while !held.all_opened() && !stop.load(Ordering::Relaxed) {
            held.open_due();
            held.turn()?;
        }
        held.result.finish_opening(held.now(), self.behaviour);
        on_opened(&held.result);
        let end = held.now() + self.hold;
        while held.now() < end && !held.is_finished() && !stop.load(Ordering::Relaxed) {
            held.turn()?;
        }
        Ok(held.result)
    }
}

struct HeldConnections<'h> {
    config: &'h HoldConfig<'h>,
    start: Duration,
    opening: Opening,
    clients: Vec<Client>,
    /// Clients whose connection is neither established nor failed.
    connecting: usize,
    /// Clients of [`Behaviour::ByteASecond`] with the time of their next octet, in that order.
    slow: VecDeque<(Duration, usize)>,
    poll: Poll,
    events: Events,
    buffer: Vec<u8>,
    result: HoldResult,
}

struct Client {
    connection: Option<Connection>,
    is_established: bool,
    /// Whether its response has begun to arrive.
    is_answered: bool,
    /// When it was established; until then, when it was opened.
    since: Duration,
    /// Octets sent.
    sent: usize,
}

impl<'h> HeldConnections<'h> {
    fn new(config: &'h HoldConfig<'h>) -> io::Result<HeldConnections<'h>> {
        Ok(HeldConnections {
            config,
            start: clock::monotonic_exact(),
            opening: Opening::new(config.connections, config.rate),
            clients: Vec::with_capacity(config.connections),
            connecting: 0,
            slow: VecDeque::new(),
            poll: Poll::new()?,
            events: Events::with_capacity(512),
            buffer: vec![0; 64 << 10],
            result: HoldResult::default(),
        })
    }

    fn now(&self) -> Duration {
        clock::monotonic_exact() - self.start
    }

    fn all_opened(&self) -> bool {
        self.opening.all_begun() && self.connecting == 0
    }

    /// Whether there is nothing left to wait for.
    fn is_finished(&self) -> bool {
        let ended = self.result.responses + self.result.failed + self.result.closed_unanswered;
        self.config.until_answered && ended >= self.config.connections as u64
    }

    fn open_due(&mut self) {
        let now = self.now();
        for _ in 0..MAX_BEGUN_PER_TURN {
            let Some(index) = self.opening.next_due(now) else { return };
            let connection = self.connect(index).map_err(|error| self.result.record_failure(&error)).ok();
            self.connecting += usize::from(connection.is_some());
            self.clients.push(Client { connection, is_established: false, is_answered: false, since: now, sent: 0 });
        }
    }

    fn connect(&self, index: usize) -> io::Result<Connection> {
        let source = self.config.sources.map(|sources| SocketAddr::new(sources.at(index as u32 % sources.count), 0));
        let connection = Connection::connect(self.config.server, source, self.config.tls.as_ref())?;
        self.poll.add(&connection, index as u64, Interest::Writable)?;
        Ok(connection)
    }

    /// Waits for events until the next connection or octet is due, and handles them.
    fn turn(&mut self) -> io::Result<()> {
        let now = self.now();
        let next_slow = self.slow.front().map(|(due, _)| due.saturating_sub(now));
        let wait = self.opening.wait(now).into_iter().chain(next_slow).fold(MAX_WAIT, Duration::min);
        self.poll.wait_precise(&mut self.events, wait)?;
        for index in 0..self.events.len() {
            self.handle(self.events.at(index));
        }
        self.send_slow();
        self.expire_connecting();
        Ok(())
    }

    fn handle(&mut self, event: Event) {
        let index = event.token as usize;
        let Client { connection: Some(connection), is_established, .. } = &mut self.clients[index] else { return };
        if !*is_established {
            match connection.establish() {
                Ok(true) => self.established(index),
                Ok(false) => self.update_interest(index, Interest::Writable),
                Err(error) => self.fail_connecting(index, &error),
            }
        } else if self.config.behaviour == Behaviour::NeverRead {
            if event.writable {
                self.send_queries(index);
            }
        } else {
            if event.readable {
                self.read(index);
            }
            if event.writable {
                self.finish_writing(index);
            }
        }
    }

    fn established(&mut self, index: usize) {
        self.connecting -= 1;
        self.result.established += 1;
        let now = self.now();
        let client = &mut self.clients[index];
        let took = now - client.since;
        self.result.late_connections += u64::from(took > SYN_TIMEOUT);
        self.result.handshake.saturating_record(took.as_nanos() as u64);
        (client.is_established, client.since) = (true, now);
        self.start_behaviour(index);
    }

    fn start_behaviour(&mut self, index: usize) {
        let query = self.framed_query(index);
        let is_open = match self.config.behaviour {
            Behaviour::Silence | Behaviour::Handshake => true,
            Behaviour::Ask | Behaviour::Reset => self.write(index, &query),
            Behaviour::HalfQuery => self.write(index, &query[..query.len() / 2]),
            Behaviour::Random => {
                let mut random = Rng::with_seed(index as u64);
                self.write(index, &[(); RANDOM_LEN].map(|()| random.u8(..)))
            }
            Behaviour::ByteASecond => {
                // Every client waits the same time after its first octet, so the queue is in order.
                self.slow.push_back((self.now() + SLOW_INTERVAL, index));
                self.write(index, &query[..1])
            }
            // Writes when the connection becomes writable.
            Behaviour::NeverRead => return self.update_interest(index, Interest::Writable),
        };
        if self.config.behaviour.closes_at_once() {
            // The connection is gone in any case.
            let _ = self.clients[index].connection.take().map(Connection::reset);
        } else if is_open {
            self.update_interest(index, Interest::Readable);
        }
    }

    fn update_interest(&self, index: usize, wanted: Interest) {
        if let Some(connection) = &self.clients[index].connection {
            // TLS asks to read at times, which a client that never reads must not do.
            let never_reads = self.clients[index].is_established && self.config.behaviour == Behaviour::NeverRead;
            let wanted = if never_reads { wanted } else { connection.interest(wanted) };
            self.poll.modify(connection, index as u64, wanted).expect("the descriptor was added and is open");
        }
    }

    /// Sends what TLS has buffered.
    fn finish_writing(&mut self, index: usize) {
        if self.write(index, &[]) {
            self.update_interest(index, Interest::Readable);
        }
    }

    /// Continues [`Behaviour::NeverRead`].
    fn send_queries(&mut self, index: usize) {
        if self.clients[index].sent >= NEVER_READ_LEN {
            return self.update_interest(index, Interest::Nothing);
        }
        // The last write may have ended inside a query.
        let query = self.framed_query(index);
        let offset = self.clients[index].sent % query.len();
        let octets: Vec<u8> = query.iter().copied().cycle().skip(offset).take(32 * query.len()).collect();
        self.write(index, &octets);
    }

    /// Continues [`Behaviour::ByteASecond`] for every client whose next octet is due.
    fn send_slow(&mut self) {
        let now = self.now();
        while let Some((due, index)) = self.slow.front().copied().filter(|(due, _)| *due <= now) {
            self.slow.pop_front();
            let query = self.framed_query(index);
            let next = query[self.clients[index].sent % query.len()];
            if self.write(index, &[next]) {
                self.slow.push_back((due + SLOW_INTERVAL, index));
            }
        }
    }

    fn expire_connecting(&mut self) {
        if self.connecting == 0 || !self.opening.all_begun() || !self.opening.is_overdue(self.now()) {
            return;
        }
        for index in 0..self.clients.len() {
            if self.clients[index].connection.is_some() && !self.clients[index].is_established {
                self.fail_connecting(index, &ErrorKind::TimedOut.into());
            }
        }
    }

    fn fail_connecting(&mut self, index: usize, error: &io::Error) {
        self.clients[index].connection = None;
        self.connecting -= 1;
        self.result.record_failure(error);
    }

    fn framed_query(&self, index: usize) -> Vec<u8> {
        frame(self.config.queries.at((index % self.config.queries.len()) as u32).message)
    }

    /// Writes as much as there is room for; returns whether the connection is still open.
    fn write(&mut self, index: usize, octets: &[u8]) -> bool {
        let client = &mut self.clients[index];
        let Some(connection) = &mut client.connection else { return false };
        match connection.write(octets) {
            Ok(len) => client.sent += len,
            Err(error) => self.close_on(&error, index),
        }
        self.clients[index].connection.is_some()
    }

    /// Reads and discards. A response may arrive in several parts.
    fn read(&mut self, index: usize) {
        let Some(connection) = &mut self.clients[index].connection else { return };
        match connection.read(&mut self.buffer) {
            Ok(0) => self.close_on(&ErrorKind::UnexpectedEof.into(), index),
            Ok(_) if self.clients[index].is_answered => {}
            Ok(_) => {
                self.clients[index].is_answered = true;
                self.result.responses += 1;
                self.result.last_response_s = Some(self.now().as_secs_f64());
            }
            Err(error) => self.close_on(&error, index),
        }
    }

    /// Records that the server closed a connection, unless the error is temporary.
    fn close_on(&mut self, error: &io::Error, index: usize) {
        if is_not_ready(error) {
            return;
        }
        self.clients[index].connection = None;
        self.result.closed_unanswered += u64::from(!self.clients[index].is_answered);
        self.result.record_closed(self.now() - self.clients[index].since);
    }
}
