//! Connections: one thread accepts, reads, answers and streams transfers for all of its connections.
//!
//! Each ready connection has a turn of bounded size: one read, the answers to all whole messages in it (RFC 7766 6.2.1.1), one write.
//! Whatever a connection holds while it waits, a part of a message or answers it does not read, it has to finish within the
//! idle timeout; and all connections of a thread together hold no more than [`Options::held`].

use super::clients::Clients;
use super::connection::{self, Desk, READ_LEN, Turn};
use super::connection_pool::{Table, Work};
use super::counters::Counters;
use super::guard::guard;
use super::rate_limited_log::RateLimitedLog;
use super::{Answer, Options};
use netio::clock;
use netio::stream::{Events, Interest, Listener, Poll, Waker, is_out_of_descriptors};
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// How many ready connections a wait reports.
const EVENTS: usize = 256;
/// How many connections are accepted before the others have their turns again.
const ACCEPTS: usize = 64;
/// How long to leave a listener alone when there is no descriptor for what it has, so that the thread does not spin.
const STARVED_PAUSE_MS: u32 = 100;
/// The longest wait: idle threads, too, are to let go of zones that were replaced.
const WAIT_MS: u32 = 500;

/// Tokens of what is not a connection; those of connections are their indices.
const WAKER: u64 = u64::MAX;
const FIRST_LISTENER: u64 = 1 << 32;

/// One thread's work.
pub(super) struct Worker<A> {
    poll: Poll,
    events: Events,
    listeners: Vec<Listener>,
    /// Until when the listeners are left alone.
    starved_until_ms: Option<u32>,
    table: Table,
    clients: Clients,
    desk: Desk<A>,
    /// What is read from a connection at rest; shared by all.
    input: Box<[u8]>,
    /// The octets that connections hold, and how many they may.
    held: usize,
    held_max: usize,
    now_ms: u32,
    counters: Arc<Counters>,
    stop: Arc<AtomicBool>,
    waker: Arc<Waker>,
    idle_timeout_ms: u32,
    grace_ms: u32,
    per_client: usize,
    log: RateLimitedLog,
}

impl<A: Answer> Worker<A> {
    pub(super) fn new(
        listeners: Vec<Listener>,
        answer: A,
        counters: Arc<Counters>,
        stop: Arc<AtomicBool>,
        waker: Arc<Waker>,
        options: &Options,
    ) -> io::Result<Worker<A>> {
        let poll = Poll::new()?;
        poll.add(&*waker, WAKER, Interest::Readable)?;
        for (number, listener) in listeners.iter().enumerate() {
            poll.add(listener, FIRST_LISTENER + number as u64, Interest::Readable)?;
        }
        let connections = options.connections.div_ceil(options.tcp_workers).max(1);
        Ok(Worker {
            poll,
            events: Events::with_capacity(EVENTS),
            listeners,
            starved_until_ms: None,
            table: Table::new(connections),
            clients: Clients::new(connections),
            desk: Desk::new(answer, counters.clone(), options.idle_timeout),
            input: vec![0; READ_LEN].into(),
            held: 0,
            held_max: options.held,
            now_ms: now_ms(),
            counters,
            stop,
            waker,
            idle_timeout_ms: whole_ms(options.idle_timeout),
            grace_ms: whole_ms(options.grace),
            per_client: options.connections_per_client,
            log: RateLimitedLog::new(Duration::from_secs(10)),
        })
    }

    /// Serves until it is stopped, then finishes what is under way.
    pub(super) fn run(mut self) {
        while !self.stop.load(Ordering::Relaxed) {
            let wait_ms = self.wait_ms();
            self.step(wait_ms);
        }
        self.finish();
    }

    /// Waits at most `wait_ms`, gives every ready connection its turn, accepts new ones, closes old ones.
    fn step(&mut self, wait_ms: u32) {
        if let Err(error) = self.poll.wait(&mut self.events, Duration::from_millis(wait_ms.into())) {
            self.warn(format_args!("cannot wait for connections: {error}"));
            thread::sleep(Duration::from_millis(STARVED_PAUSE_MS.into()));
        }
        self.now_ms = now_ms();
        self.desk.begin(clock::real());
        for at in 0..self.events.len() {
            if let Ok(index) = u32::try_from(self.events.at(at).token) {
                self.turn(index);
            }
        }
        // Only now: a place that became vacant above is not taken while an event of its last connection may be waiting.
        for at in 0..self.events.len() {
            match self.events.at(at).token {
                WAKER => self.waker.clear(),
                token if token >= FIRST_LISTENER => self.accept((token - FIRST_LISTENER) as usize),
                _ => {}
            }
        }
        self.desk.end();
        self.close_expired();
        self.listen_again();
    }

    fn wait_ms(&self) -> u32 {
        let expiry = self.table.until_expiry_ms(self.now_ms, self.idle_timeout_ms).unwrap_or(WAIT_MS);
        let pause = if self.starved_until_ms.is_some() { STARVED_PAUSE_MS } else { WAIT_MS };
        expiry.min(pause)
    }

    //---------- Turns

    /// One turn of a connection, which may be its last.
    fn turn(&mut self, index: u32) {
        let held = self.held_by(index);
        let Some((stream, peer, work)) = self.table.parts(index) else { return };
        let (desk, input) = (&mut self.desk, &mut self.input);
        let turn = guard(|| match work {
            None => desk.turn_at_rest(stream, peer, input),
            Some(work) => desk.turn_at_work(stream, peer, work),
        });
        self.held = self.held - held + self.held_by(index);
        self.counters.panics.add(usize::from(turn.is_none()));
        match turn.map(|turn| turn.and_then(|turn| self.settle(index, turn))) {
            Some(Ok(())) => self.shed(),
            _ => self.close(index),
        }
    }

    /// Notes what a turn came to, and what the connection waits for next.
    fn settle(&mut self, index: u32, turn: Turn) -> io::Result<()> {
        let waited_for = self.interest(index);
        match turn {
            Turn::Waiting => {}
            Turn::Active => self.table.touch(index, self.now_ms),
            Turn::Begun(work) => {
                self.held += work.held();
                self.table.set_work(index, Some(work), self.now_ms);
            }
            Turn::Finished => {
                self.held -= self.held_by(index);
                self.table.set_work(index, None, self.now_ms);
            }
        }
        let Some((stream, _, work)) = self.table.parts(index) else { return Ok(()) };
        let interest = work.as_ref().map_or(Interest::Readable, |work| work.wants());
        if interest != waited_for {
            self.poll.modify(stream, index.into(), interest)?;
        }
        if let Some(work) = work {
            work.interest = interest;
        }
        Ok(())
    }

    fn held_by(&mut self, index: u32) -> usize {
        self.table.parts(index).and_then(|(_, _, work)| work).map_or(0, |work| work.held())
    }

    fn interest(&mut self, index: u32) -> Interest {
        self.table.parts(index).and_then(|(_, _, work)| work).map_or(Interest::Readable, |work| work.interest)
    }

    /// Closes connections until the others hold no more than they may.
    fn shed(&mut self) {
        while self.held > self.held_max
            && let Some(index) = self.table.oldest_working()
        {
            self.evict(index);
        }
    }

    //---------- Coming and going

    fn accept(&mut self, listener: usize) {
        for _ in 0..ACCEPTS {
            match self.listeners[listener].accept() {
                Ok((stream, peer)) => self.admit(stream, peer),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if is_out_of_descriptors(&error) => {
                    if !self.make_room() {
                        return self.starve(&error);
                    }
                }
                // accept(2): the trouble of that one connection, which is gone.
                Err(_) => {}
            }
        }
    }

    fn admit(&mut self, stream: TcpStream, peer: SocketAddr) {
        self.counters.connections.add(1);
        if self.clients.count(peer.ip()) >= self.per_client {
            return self.counters.refused.add(1);
        }
        if self.table.is_full() && self.make_room() {
            self.warn(format_args!(
                "all connections are taken, the ones at rest the longest are closed; see tcp-connections"
            ));
        }
        let Some(index) = self.table.insert(stream, peer.ip(), self.now_ms) else { return };
        self.clients.add(peer.ip());
        let Some((stream, _, _)) = self.table.parts(index) else { return };
        if self.poll.add(stream, index.into(), Interest::Readable).is_err() {
            return self.close(index);
        }
        // Its first query has most likely arrived with it (TCP_DEFER_ACCEPT).
        self.turn(index);
    }

    /// Closes the connection at rest the longest or else the one at work the longest; tells whether there was one.
    fn make_room(&mut self) -> bool {
        let oldest = self.table.oldest_resting().or_else(|| self.table.oldest_working());
        oldest.inspect(|index| self.evict(*index)).is_some()
    }

    fn evict(&mut self, index: u32) {
        self.counters.evicted.add(1);
        self.close(index);
    }

    fn close_expired(&mut self) {
        while let Some(index) = self.table.expired(self.now_ms, self.idle_timeout_ms) {
            self.counters.expired.add(1);
            self.close(index);
        }
    }

    fn close(&mut self, index: u32) {
        if let Some((_stream, peer, work)) = self.table.remove(index) {
            self.clients.remove(peer);
            let Some(work) = work else { return };
            self.held -= work.held();
            if let Some(transfer) = &work.transfer {
                connection::log(peer, transfer, "zone transfer broken off");
            }
        }
    }

    /// Leaves the listeners alone for a while: other parts of the process have all descriptors.
    fn starve(&mut self, error: &io::Error) {
        self.counters.starved.add(1);
        self.warn(format_args!("no descriptor for a connection ({error}); raise the limit or lower tcp-connections"));
        self.starved_until_ms = Some(self.now_ms.wrapping_add(STARVED_PAUSE_MS));
        self.watch_listeners(Interest::Nothing);
    }

    fn listen_again(&mut self) {
        if self.starved_until_ms.is_some_and(|until_ms| until_ms.wrapping_sub(self.now_ms) > STARVED_PAUSE_MS) {
            self.starved_until_ms = None;
            self.watch_listeners(Interest::Readable);
        }
    }

    fn watch_listeners(&mut self, interest: Interest) {
        for (number, listener) in self.listeners.iter().enumerate() {
            if let Err(error) = self.poll.modify(listener, FIRST_LISTENER + number as u64, interest) {
                tracing::error!(%error, "cannot change what a listener waits for");
            }
        }
    }

    fn warn(&mut self, what: fmt::Arguments<'_>) {
        if let Some(left_out) = self.log.permit() {
            tracing::warn!(left_out, "TCP: {what}");
        }
    }

    //---------- The end

    /// Answers what has arrived, and gives connections that have answers or a transfer under way the time to read them.
    fn finish(&mut self) {
        let until_ms = now_ms().wrapping_add(self.grace_ms);
        (0..self.listeners.len()).for_each(|listener| self.accept(listener));
        self.listeners.clear();
        // The kernel reports ready connections in turns, so that this reaches all of them once.
        for _ in 0..=self.table.len() / EVENTS {
            self.step(0);
        }
        self.close_silent();
        while self.table.len() > 0 && until_ms.wrapping_sub(now_ms()) <= self.grace_ms {
            self.step(50);
            self.close_silent();
        }
    }

    /// Closes the connections that have nothing to be written to.
    fn close_silent(&mut self) {
        for index in 0..self.table.places() {
            if self.interest(index) == Interest::Readable {
                self.close(index);
            }
        }
    }
}

impl Work {
    /// Whether the connection has to be written to before there is a point in reading from it.
    fn wants(&self) -> Interest {
        if self.can_go_on() { Interest::Writable } else { Interest::Readable }
    }
}

/// Milliseconds of a clock that wraps every 49 days, longer than any timeout.
fn now_ms() -> u32 {
    clock::monotonic().as_millis() as u32
}

fn whole_ms(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX / 2).min(u32::MAX / 2)
}
