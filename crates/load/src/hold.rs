//! Connections that are opened at a rate and held: idle ones by the hundred thousand, and those of slow and hostile clients.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;
use netio::client::Sources;
use netio::clock;
use netio::stream::{Event, Events, Interest, Poll};

use crate::line::Line;
use crate::measure::histogram;
use crate::queries::Queries;
use crate::random::Random;
use crate::tls::Tls;

/// What a client does when its connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// Nothing.
    Silence,
    /// Asks one query, reads the answer, and then nothing.
    Ask,
    /// Sends half of a query.
    HalfQuery,
    /// Sends a query at one octet a second, and then the next.
    ByteASecond,
    /// Asks on and on and never reads an answer.
    NeverRead,
    /// Asks a query and closes by RST.
    Reset,
    /// Sends random octets.
    Random,
}

/// What is held, and how long.
pub struct Hold<'q> {
    /// The server.
    pub server: SocketAddr,
    /// Where the connections come from.
    pub sources: Option<Sources>,
    /// How they are encrypted, if they are.
    pub tls: Option<Tls>,
    /// How many.
    pub connections: usize,
    /// How many are opened a second.
    pub rate: f64,
    /// How long they are held when the last one is open or has failed.
    pub hold: Duration,
    /// What the clients do.
    pub behaviour: Behaviour,
    /// What they ask, in turn; not empty.
    pub queries: &'q Queries,
}

/// What became of the connections.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    /// Connections that stood.
    pub open: u64,
    /// Connections that could not be opened.
    pub failed: u64,
    /// How long opening them took, in seconds.
    pub open_s: f64,
    /// Answers that came.
    pub responses: u64,
    /// Connections that the server closed.
    pub closed_by_peer: u64,
    /// How long the connection stood that the server closed after the shortest time, in seconds.
    pub first_closed_s: Option<f64>,
    /// The same after the longest time.
    pub last_closed_s: Option<f64>,
    /// Why the first of the failed ones failed.
    pub first_failure: Option<String>,
    /// From the begin of a connection until it stood, in nanoseconds.
    pub handshake: Histogram<u64>,
}

impl Default for Held {
    fn default() -> Held {
        Held {
            open: 0,
            failed: 0,
            open_s: 0.0,
            responses: 0,
            closed_by_peer: 0,
            first_closed_s: None,
            last_closed_s: None,
            first_failure: None,
            handshake: histogram(),
        }
    }
}

/// Octets that a client which never reads sends at most: more than all buffers between it and the server.
const NEVER_READ_LEN: usize = 16 << 20;
/// Octets that are random.
const RANDOM_LEN: usize = 512;
/// Between two octets of a slow client.
const SLOW_STEP: Duration = Duration::from_secs(1);
/// The longest wait for anything.
const TICK: Duration = Duration::from_millis(20);
/// Connections begun before events are looked at, so that none waits long.
const OPENED_AT_ONCE: usize = 64;
/// How long a connection may take to stand.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

impl Hold<'_> {
    /// Opens, holds, closes. `opened` is told once, when the last connection stands or has failed.
    pub fn run(&self, stop: &AtomicBool, opened: impl FnOnce(&Held)) -> io::Result<Held> {
        clock::sharpen_timers();
        let mut crowd = Crowd::new(self)?;
        while !crowd.is_open() && !stop.load(Ordering::Relaxed) {
            crowd.open_due();
            crowd.turn()?;
        }
        crowd.held.open_s = crowd.now().as_secs_f64();
        opened(&crowd.held);
        let end = crowd.now() + self.hold;
        while crowd.now() < end && !stop.load(Ordering::Relaxed) {
            crowd.turn()?;
        }
        Ok(crowd.held)
    }
}

/// All clients.
struct Crowd<'h> {
    plan: &'h Hold<'h>,
    start: Duration,
    clients: Vec<Client>,
    /// How many are neither up nor failed.
    connecting: usize,
    /// Clients that send an octet at a time, in the order in which the next is due.
    slow: VecDeque<(Duration, usize)>,
    poll: Poll,
    events: Events,
    buffer: Vec<u8>,
    noise: Vec<u8>,
    held: Held,
}

struct Client {
    line: Option<Line>,
    is_up: bool,
    /// When it began to connect; when it stands, since when.
    since: Duration,
    /// Octets that were sent.
    sent: usize,
}

impl<'h> Crowd<'h> {
    fn new(plan: &'h Hold<'h>) -> io::Result<Crowd<'h>> {
        let mut random = Random::new(plan.connections as u64);
        Ok(Crowd {
            plan,
            start: clock::monotonic_exact(),
            clients: Vec::with_capacity(plan.connections),
            connecting: 0,
            slow: VecDeque::new(),
            poll: Poll::new()?,
            events: Events::with_capacity(512),
            buffer: vec![0; 64 << 10],
            noise: (0..RANDOM_LEN).map(|_| random.bits() as u8).collect(),
            held: Held::default(),
        })
    }

    fn now(&self) -> Duration {
        clock::monotonic_exact() - self.start
    }

    fn is_open(&self) -> bool {
        self.clients.len() == self.plan.connections && self.connecting == 0
    }

    fn due_at(&self, index: usize) -> Duration {
        Duration::from_secs_f64(index as f64 / self.plan.rate)
    }

    fn open_due(&mut self) {
        let now = self.now();
        for _ in 0..OPENED_AT_ONCE {
            let index = self.clients.len();
            if index == self.plan.connections || self.due_at(index) > now {
                return;
            }
            let line = self.connect(index).map_err(|error| self.fail(&error)).ok();
            self.connecting += usize::from(line.is_some());
            self.clients.push(Client { line, is_up: false, since: now, sent: 0 });
        }
    }

    fn connect(&self, index: usize) -> io::Result<Line> {
        let source = self.plan.sources.map(|sources| SocketAddr::new(sources.at(index as u32 % sources.count), 0));
        let line = Line::connect(self.plan.server, source, self.plan.tls.as_ref())?;
        self.poll.add(&line, index as u64, Interest::Writable)?;
        Ok(line)
    }

    fn fail(&mut self, error: &io::Error) {
        self.held.failed += 1;
        self.held.first_failure.get_or_insert_with(|| error.to_string());
    }

    /// Waits for something, and deals with it.
    fn turn(&mut self) -> io::Result<()> {
        let now = self.now();
        let next_open = (self.clients.len() < self.plan.connections).then(|| self.due_at(self.clients.len()));
        let next_slow = self.slow.front().map(|(due, _)| *due);
        let next = next_open.into_iter().chain(next_slow).min().map_or(TICK, |due| due.saturating_sub(now));
        self.poll.wait_exact(&mut self.events, next.min(TICK))?;
        for index in 0..self.events.len() {
            self.handle(self.events.at(index));
        }
        self.send_slow();
        self.give_up_connecting();
        Ok(())
    }

    fn handle(&mut self, event: Event) {
        let index = event.token as usize;
        let Client { line: Some(line), is_up, .. } = &mut self.clients[index] else { return };
        if !*is_up {
            match line.establish() {
                Ok(true) => {}
                Ok(false) => return self.watch(index, Interest::Writable),
                Err(error) => return self.drop_connecting(index, &error),
            }
            self.connecting -= 1;
            self.held.open += 1;
            let now = self.now();
            self.held.handshake.saturating_record((now - self.clients[index].since).as_nanos() as u64);
            (self.clients[index].is_up, self.clients[index].since) = (true, now);
            return self.begin(index);
        }
        if event.readable && !self.reads(index) {
            self.closed(index);
        } else if event.writable && self.plan.behaviour == Behaviour::NeverRead {
            self.go_on(index);
        } else if event.writable {
            self.finish_writing(index);
        }
    }

    fn drop_connecting(&mut self, index: usize, error: &io::Error) {
        self.clients[index].line = None;
        self.connecting -= 1;
        self.fail(error);
    }

    /// What a client does first.
    fn begin(&mut self, index: usize) {
        let query = self.framed(index);
        let is_up = match self.plan.behaviour {
            Behaviour::Silence => true,
            Behaviour::Ask | Behaviour::Reset => self.write(index, &query),
            Behaviour::HalfQuery => self.write(index, &query[..query.len() / 2]),
            Behaviour::Random => {
                let noise = std::mem::take(&mut self.noise);
                let is_up = self.write(index, &noise);
                self.noise = noise;
                is_up
            }
            Behaviour::ByteASecond => {
                // The first octet at once, so that the queue stays in the order of the times.
                self.slow.push_back((self.now() + SLOW_STEP, index));
                self.write(index, &query[..1])
            }
            // Goes on when the connection can be written to.
            Behaviour::NeverRead => return self.watch(index, Interest::Writable),
        };
        if !is_up {
            return self.closed(index);
        }
        let client = &mut self.clients[index];
        if self.plan.behaviour == Behaviour::Reset {
            // What is closed by RST has nothing left that could fail.
            let _ = client.line.take().map(Line::reset);
        } else {
            self.watch(index, Interest::Readable);
        }
    }

    /// Has `poll` tell what a client waits for.
    fn watch(&self, index: usize, wanted: Interest) {
        if let Some(line) = &self.clients[index].line {
            // Whoever never reads is not told what could be read.
            let never_reads = self.clients[index].is_up && self.plan.behaviour == Behaviour::NeverRead;
            let wanted = if never_reads { wanted } else { line.interest(wanted) };
            self.poll.modify(line, index as u64, wanted).expect("the descriptor was added and is open");
        }
    }

    /// Sends what TLS still holds.
    fn finish_writing(&mut self, index: usize) {
        if self.write(index, &[]) {
            self.watch(index, Interest::Readable);
        } else {
            self.closed(index);
        }
    }

    /// What a client does that never reads, whenever there is room.
    fn go_on(&mut self, index: usize) {
        if self.clients[index].sent >= NEVER_READ_LEN {
            return self.watch(index, Interest::Nothing);
        }
        // From where the last write ended, within a query or not.
        let query = self.framed(index);
        let offset = self.clients[index].sent % query.len();
        let octets: Vec<u8> = query.iter().copied().cycle().skip(offset).take(32 * query.len()).collect();
        if !self.write(index, &octets) {
            self.closed(index);
        }
    }

    /// Sends an octet of each slow client whose second is over.
    fn send_slow(&mut self) {
        let now = self.now();
        while let Some((due, index)) = self.slow.front().copied().filter(|(due, _)| *due <= now) {
            self.slow.pop_front();
            let query = self.framed(index);
            let next = query[self.clients[index].sent % query.len()];
            if self.clients[index].line.is_none() {
                continue;
            }
            if self.write(index, &[next]) {
                self.slow.push_back((due + SLOW_STEP, index));
            } else {
                self.closed(index);
            }
        }
    }

    fn give_up_connecting(&mut self) {
        let now = self.now();
        if self.connecting == 0 || self.clients.len() < self.plan.connections {
            return;
        }
        if self.due_at(self.plan.connections) + CONNECT_TIMEOUT < now {
            for index in 0..self.clients.len() {
                if self.clients[index].line.is_some() && !self.clients[index].is_up {
                    self.drop_connecting(index, &ErrorKind::TimedOut.into());
                }
            }
        }
    }

    /// The query of a client behind its length.
    fn framed(&self, index: usize) -> Vec<u8> {
        let message = self.plan.queries.at((index % self.plan.queries.len()) as u32).message;
        [&(message.len() as u16).to_be_bytes()[..], message].concat()
    }

    /// Writes as much as there is room for; false when the connection is gone.
    fn write(&mut self, index: usize, octets: &[u8]) -> bool {
        let client = &mut self.clients[index];
        let Some(line) = &mut client.line else { return false };
        match line.write(octets) {
            Ok(len) => {
                client.sent += len;
                true
            }
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }

    /// Reads and forgets; false when the connection is gone.
    fn reads(&mut self, index: usize) -> bool {
        if self.plan.behaviour == Behaviour::NeverRead {
            return true;
        }
        let Some(line) = &mut self.clients[index].line else { return false };
        match line.read(&mut self.buffer) {
            Ok(0) => false,
            Ok(_) => {
                self.held.responses += 1;
                true
            }
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }

    fn closed(&mut self, index: usize) {
        let stood_s = (self.now() - self.clients[index].since).as_secs_f64();
        self.clients[index].line = None;
        let held = &mut self.held;
        held.closed_by_peer += 1;
        held.first_closed_s = Some(held.first_closed_s.map_or(stood_s, |first| first.min(stood_s)));
        held.last_closed_s = Some(held.last_closed_s.map_or(stood_s, |last| last.max(stood_s)));
    }
}
