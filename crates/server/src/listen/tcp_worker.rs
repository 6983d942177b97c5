//! Connections: one thread accepts, reads, answers and streams transfers for all of its connections.
//!
//! Each ready connection has a turn of bounded cost: one read, answers in order to the whole messages in it (RFC 7766 6.2.1.1), one
//! write. Who has input left comes again after all others that are ready. Whatever a connection waits for, a part of a message or
//! that its client reads, has to come within the idle timeout; and all connections of a thread together hold no more memory,
//! here and in the kernel, than [`ListenConfig::held`].

use super::connection_pool::ConnectionPool;
use super::counters::ListenerCounters;
use super::panic_guard::catch_panic;
use super::rate_limited_log::RateLimitedLog;
use super::tcp_connection::{READ_LEN, TcpConnection};
use super::tcp_responder::TcpResponder;
use super::{ListenConfig, Responder};
use netio::clock;
use netio::epoll::{Events, Interest, Poll, Waker};
use netio::tcp::{Listener, is_out_of_descriptors};
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
/// How many transfers one client may have under way on one thread: each may hold a version of its zone that was replaced since.
const TRANSFERS_PER_CLIENT: usize = 100;
/// How long a connection that is in the middle of something may make no progress before it goes ahead of idle ones when there is
/// no room: longer than a lost segment takes.
const STUCK_MS: u32 = 1000;
/// How many of the oldest connections are looked at for the one that holds the most.
const CANDIDATES: usize = 16;
/// The longest wait: idle threads, too, are to let go of zones that were replaced.
const WAIT_MS: u32 = 500;

/// Tokens of what is not a connection; those of connections are their indices.
const WAKER: u64 = u64::MAX;
const FIRST_LISTENER: u64 = 1 << 32;

/// One thread's work.
pub(super) struct TcpWorker<R> {
    poll: Poll,
    events: Events,
    listeners: Vec<Listener>,
    /// Until when the listeners are left alone.
    starved_until_ms: Option<u32>,
    pool: ConnectionPool,
    responder: TcpResponder<R>,
    /// What idle connections read into; shared by all.
    input: Box<[u8]>,
    /// How much memory the connections may hold, in octets.
    held_max: usize,
    now_ms: u32,
    counters: Arc<ListenerCounters>,
    stop: Arc<AtomicBool>,
    waker: Arc<Waker>,
    idle_timeout_ms: u32,
    grace_ms: u32,
    per_client: usize,
    log: RateLimitedLog,
}

impl<R: Responder> TcpWorker<R> {
    pub(super) fn new(
        listeners: Vec<Listener>,
        responder: R,
        counters: Arc<ListenerCounters>,
        stop: Arc<AtomicBool>,
        waker: Arc<Waker>,
        options: &ListenConfig,
    ) -> io::Result<TcpWorker<R>> {
        let poll = Poll::new()?;
        poll.add(&*waker, WAKER, Interest::Readable)?;
        for (number, listener) in listeners.iter().enumerate() {
            poll.add(listener, FIRST_LISTENER + number as u64, Interest::Readable)?;
        }
        let connections = options.connections.div_ceil(options.tcp_workers).max(1);
        Ok(TcpWorker {
            poll,
            events: Events::with_capacity(EVENTS),
            listeners,
            starved_until_ms: None,
            pool: ConnectionPool::new(connections),
            responder: TcpResponder::new(responder, counters.clone(), options.idle_timeout),
            input: vec![0; READ_LEN].into(),
            held_max: options.held,
            now_ms: now_ms(),
            counters,
            stop,
            waker,
            idle_timeout_ms: whole_ms(options.idle_timeout),
            grace_ms: whole_ms(options.grace),
            per_client: options.connections_per_client,
            log: RateLimitedLog::new(1, Duration::from_secs(10)),
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
        self.responder.begin_round(clock::real());
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
        self.responder.end_round();
        self.close_expired();
        self.listen_again();
    }

    fn wait_ms(&self) -> u32 {
        let expiry = self.pool.until_expiry_ms(self.now_ms, self.idle_timeout_ms).unwrap_or(WAIT_MS);
        let pause = if self.starved_until_ms.is_some() { STARVED_PAUSE_MS } else { WAIT_MS };
        expiry.min(pause)
    }

    //---------- Turns

    /// One turn of a connection, which may be its last.
    fn turn(&mut self, index: u32) {
        let (responder, input, poll, panics) =
            (&mut self.responder, &mut self.input, &self.poll, &self.counters.panics);
        let result = self.pool.update(index, self.now_ms, |connection| {
            let waited_for = connection.interest();
            let progress = catch_panic(|| connection.turn(responder, input)).unwrap_or_else(|| {
                panics.add(1);
                Err(io::Error::other("a panic"))
            })?;
            match connection.interest() {
                same if same == waited_for => {}
                Interest::Nothing => poll.remove(connection.stream())?,
                interest => poll.modify(connection.stream(), index.into(), interest)?,
            }
            Ok(progress)
        });
        match result {
            Ok(()) => self.enforce_limits(index),
            Err(_) => drop(self.remove(index)),
        }
    }

    /// Gives up what is too much after a turn: transfers of one client, the memory of all connections.
    fn enforce_limits(&mut self, index: u32) {
        if let Some(connection) = self.pool.get(index)
            && connection.transfer().is_some()
            && self.pool.transfers_of(connection.peer()) > TRANSFERS_PER_CLIENT
        {
            let peer = connection.peer();
            self.warn(format_args!("{peer} has {TRANSFERS_PER_CLIENT} transfers under way: no further one is begun"));
            self.counters.refused.add(1);
            self.give_up(index);
        }
        while self.pool.held() > self.held_max
            && let Some(index) = self.largest_of_oldest()
        {
            if self.recount(index) && self.pool.held() > self.held_max {
                self.evict(index);
            }
        }
    }

    /// The connection that holds the most of those without progress for the longest.
    fn largest_of_oldest(&self) -> Option<u32> {
        let held = |index: &u32| self.pool.get(*index).map_or(0, TcpConnection::held);
        self.pool.active().take(CANDIDATES).max_by_key(held)
    }

    /// Asks the kernel anew what it holds for a connection: one whose client has taken everything may be idle by now. Returns
    /// whether it is still active.
    fn recount(&mut self, index: u32) -> bool {
        let recounted = self.pool.update(index, self.now_ms, |connection| {
            connection.count_kernel();
            Ok(false)
        });
        recounted.is_ok() && self.pool.get(index).is_some_and(TcpConnection::is_active)
    }

    //---------- Coming and going

    fn accept(&mut self, listener: usize) {
        let mut made_room = false;
        for _ in 0..ACCEPTS {
            match self.listeners[listener].accept() {
                Ok((stream, peer)) => {
                    made_room = false;
                    self.admit(stream, peer);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if is_out_of_descriptors(&error) => {
                    // Once for each connection: where it did not help, somebody else takes what becomes free.
                    if made_room || !self.make_room() {
                        return self.starve(&error);
                    }
                    made_room = true;
                    self.warn(format_args!("no descriptor for a connection ({error}): old ones make room"));
                }
                // accept(2): the trouble of that one connection, which is gone.
                Err(_) => {}
            }
        }
    }

    fn admit(&mut self, stream: TcpStream, peer: SocketAddr) {
        self.counters.connections.add(1);
        if self.pool.connections_of(peer.ip()) >= self.per_client {
            return self.counters.refused.add(1);
        }
        if self.pool.is_full() && self.make_room() {
            self.warn(format_args!("all connections are taken: old ones make room; see `tcp-connections`"));
        }
        let Some(index) = self.pool.insert(stream, peer.ip(), self.now_ms) else { return };
        let Some(connection) = self.pool.get(index) else { return };
        if self.poll.add(connection.stream(), index.into(), Interest::Readable).is_err() {
            return drop(self.remove(index));
        }
        // Its first query has most likely arrived with it (TCP_DEFER_ACCEPT).
        self.turn(index);
    }

    /// Gives up a connection that is stuck in a message or in answers that its client does not read; else the one that is idle
    /// for the longest, else any. Returns whether there was one.
    fn make_room(&mut self) -> bool {
        let index = self.stuck().or_else(|| self.pool.oldest_idle()).or_else(|| self.pool.oldest_active());
        index.inspect(|index| self.evict(*index)).is_some()
    }

    /// The active connection without progress for the longest, if that is long.
    fn stuck(&mut self) -> Option<u32> {
        while let Some(index) = self.pool.oldest_active()
            && self.pool.age_ms(index, self.now_ms) >= STUCK_MS
        {
            if self.recount(index) {
                return Some(index);
            }
        }
        None
    }

    fn evict(&mut self, index: u32) {
        self.counters.evicted.add(1);
        self.give_up(index);
    }

    fn close_expired(&mut self) {
        while let Some(index) = self.pool.expired(self.now_ms, self.idle_timeout_ms) {
            self.counters.expired.add(1);
            self.give_up(index);
        }
    }

    fn give_up(&mut self, index: u32) {
        if let Some(connection) = self.remove(index) {
            connection.give_up();
        }
    }

    /// Takes out a connection, which closes it unless the caller does something else with it.
    fn remove(&mut self, index: u32) -> Option<TcpConnection> {
        let connection = self.pool.remove(index)?;
        if let Some(transfer) = connection.transfer() {
            self.responder.log_transfer(connection.peer(), transfer, "zone transfer broken off");
        }
        Some(connection)
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
            tracing::warn!(evicted = self.counters.evicted.value(), left_out, "TCP: {what}");
        }
    }

    //---------- The end

    /// Answers what has arrived, and gives connections that have answers or a transfer under way the time to read them.
    fn finish(&mut self) {
        let until_ms = now_ms().wrapping_add(self.grace_ms);
        (0..self.listeners.len()).for_each(|listener| self.accept(listener));
        self.listeners.clear();
        // The kernel reports ready connections in turns, so that this reaches all of them once.
        for _ in 0..=self.pool.len() / EVENTS {
            self.step(0);
        }
        self.close_silent();
        while self.pool.len() > 0 && until_ms.wrapping_sub(now_ms()) <= self.grace_ms {
            self.step(50);
            self.close_silent();
        }
    }

    /// Closes the connections that have nothing to be written to.
    fn close_silent(&mut self) {
        let is_silent = |(_, connection): &(u32, &TcpConnection)| connection.interest() != Interest::Writable;
        let silent: Vec<u32> = self.pool.iter().filter(is_silent).map(|(index, _)| index).collect();
        silent.into_iter().for_each(|index| drop(self.remove(index)));
    }
}

/// Milliseconds of a clock that wraps every 49 days, longer than any timeout.
fn now_ms() -> u32 {
    clock::monotonic().as_millis() as u32
}

fn whole_ms(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX / 2).min(u32::MAX / 2)
}
