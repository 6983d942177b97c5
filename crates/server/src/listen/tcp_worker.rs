//! TCP and TLS workers: each thread reads, answers and streams transfers for all of its connections. TCP threads accept theirs.
//! TLS threads get theirs after the handshake from threads that do nothing else, so that handshakes delay no answer.
//!
//! Each ready connection gets a turn of bounded cost: one read, responses to the complete messages in order (RFC 7766 6.2.1.1),
//! one write. A connection with input left gets its next turn after all others that are ready. `connection_eviction.rs` closes
//! connections that make no progress or take too much.

mod handshakes;
mod transfer_turns;

use super::connection_pool::{ConnectionPool, SharedCounts};
use super::counters::ListenerCounters;
use super::handover::Route;
use super::handshake_queue::HandshakeQueue;
use super::limits::{HANDSHAKE_TIMEOUT, MAX_WAIT};
use super::panic_guard::catch_panic;
use super::proxy::{Proxies, ProxyError};
use super::stream_responder::StreamResponder;
use super::tcp_connection::{READ_LEN, TcpConnection};
use super::worker_setup::WorkerSetup;
use super::{ListenConfig, Responder};
use crate::rate_limited_log::RateLimitedLog;
use crate::tls::MIN_BUFFER;
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
use transfer_turns::TransferTurns;

/// Ready connections reported per epoll_wait.
const EVENTS: usize = 256;
/// Connections accepted before the others get their turns.
const ACCEPTS: usize = 64;
/// Rounds of them at a stop: together as many as the longest accept queue of all kernels has.
const LAST_ACCEPTS: usize = 65_536 / ACCEPTS;
/// Pause of the listeners while no descriptor is free, so that the thread does not spin.
const STARVED_PAUSE_MS: u32 = 100;
/// [`MAX_WAIT`] in milliseconds.
const WAIT_MS: u32 = MAX_WAIT.as_millis() as u32;

/// Tokens of the waker and the listeners; the token of a connection is its index.
const WAKER: u64 = u64::MAX;
const FIRST_LISTENER: u64 = 1 << 32;

/// A TCP thread.
pub(super) struct TcpWorker<R> {
    poll: Poll,
    events: Events,
    listeners: Vec<Listener>,
    route: Route,
    /// Counts the connections given away.
    given: usize,
    /// When to poll the listeners again.
    starved_until_ms: Option<u32>,
    pub(super) pool: ConnectionPool,
    pub(super) responder: StreamResponder<R>,
    /// The read buffer of all idle connections.
    input: Box<[u8]>,
    /// Maximum memory of the connections besides what each idle one takes, in octets.
    pub(super) memory_limit: usize,
    pub(super) now_ms: u32,
    pub(super) counters: Arc<ListenerCounters>,
    waker: Arc<Waker>,
    handshakes: HandshakeQueue,
    transfers: TransferTurns,
    /// As configured, but for handshakes; see [`TcpWorker::idle_timeout_ms`].
    pub(super) configured_idle_timeout_ms: u32,
    grace_ms: u32,
    max_per_client: usize,
    proxies: Proxies,
    log: RateLimitedLog,
}

impl<R: Responder> TcpWorker<R> {
    /// A thread with these listeners, one for each address. Clones of `shared` are those of the other threads.
    pub(super) fn new(
        setup: WorkerSetup<R>,
        listeners: Vec<Listener>,
        route: Route,
        shared: SharedCounts,
        options: &ListenConfig,
    ) -> io::Result<TcpWorker<R>> {
        let poll = Poll::new()?;
        poll.add(&*setup.waker, WAKER, Interest::Readable)?;
        for (number, listener) in listeners.iter().enumerate() {
            poll.add(listener, FIRST_LISTENER + number as u64, Interest::Readable)?;
        }
        let is_tls = !matches!(route, Route::Own);
        let idle_timeout_ms = whole_ms(options.idle_timeout);
        let configured_idle_timeout_ms = match route {
            Route::Give(..) => idle_timeout_ms.min(whole_ms(HANDSHAKE_TIMEOUT)),
            Route::Own | Route::Take(_) => idle_timeout_ms,
        };
        let input_len = if is_tls { 2 * READ_LEN.max(MIN_BUFFER) } else { READ_LEN };
        Ok(TcpWorker {
            poll,
            events: Events::with_capacity(EVENTS),
            listeners,
            route,
            given: 0,
            starved_until_ms: None,
            pool: ConnectionPool::new(shared),
            counters: setup.counters.clone(),
            waker: setup.waker.clone(),
            responder: StreamResponder::new(setup, options.idle_timeout),
            input: vec![0; input_len].into(),
            memory_limit: options.memory_limit,
            now_ms: now_ms(),
            handshakes: HandshakeQueue::new(handshake_share(options), now_ms()),
            transfers: TransferTurns::default(),
            configured_idle_timeout_ms,
            grace_ms: whole_ms(options.grace),
            max_per_client: options.connections_per_client,
            proxies: options.proxies.clone(),
            log: RateLimitedLog::new(1, Duration::from_secs(10)),
        })
    }

    /// Serves until it is stopped, then finishes responses and transfers in progress.
    pub(super) fn run(mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            let wait_ms = self.wait_ms();
            self.run_round(wait_ms);
        }
        self.finish();
    }

    /// Waits at most `wait_ms`, gives every ready connection a turn, accepts new ones, closes expired ones.
    fn run_round(&mut self, wait_ms: u32) {
        if let Err(error) = self.poll.wait(&mut self.events, Duration::from_millis(wait_ms.into())) {
            self.warn(format_args!("cannot wait for connections: {error}"));
            thread::sleep(Duration::from_millis(STARVED_PAUSE_MS.into()));
        }
        self.now_ms = now_ms();
        self.responder.begin_round(clock::real(), self.events.len());
        self.responder.announce_idle_timeout(self.idle_timeout_ms());
        for at in 0..self.events.len() {
            let Ok(index) = u32::try_from(self.events.at(at).token) else { continue };
            match self.pool.get(index) {
                Some(connection) if connection.is_handshaking() => {
                    // It is not polled for until its turn: even without an interest, epoll reports a reset again and again.
                    _ = self.poll.remove(connection.stream());
                    self.handshakes.push(index, connection.peer(), connection.awaits_finished());
                }
                Some(connection) if connection.transfer().is_some() => self.transfers.push(index),
                _ => self.turn(index),
            }
        }
        self.transfer_turns();
        self.handshake_turns();
        // Accept last: a slot that became vacant above must not be reused while an event for its old connection is pending.
        for at in 0..self.events.len() {
            match self.events.at(at).token {
                WAKER => {
                    self.waker.clear();
                    self.queue_late_responses();
                    self.take_connections();
                }
                token if token >= FIRST_LISTENER => _ = self.accept((token - FIRST_LISTENER) as usize),
                _ => {}
            }
        }
        self.responder.end_round();
        self.close_expired();
        self.close_excess();
        self.resume_listeners();
    }

    fn wait_ms(&self) -> u32 {
        let expiry = self.pool.until_expiry_ms(self.now_ms, self.idle_timeout_ms()).unwrap_or(WAIT_MS);
        let pause = if self.starved_until_ms.is_some() { STARVED_PAUSE_MS } else { WAIT_MS };
        expiry.min(pause).min(self.handshakes.until_next_ms().unwrap_or(WAIT_MS))
    }

    //---------- Turns

    /// One turn of a connection, which may be its last.
    fn turn(&mut self, index: u32) {
        if self.pool.get(index).is_some_and(TcpConnection::awaits_proxy_header) && !self.proxy_turn(index) {
            return;
        }
        self.responder.late.begin_turn(index);
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
            Err(error) => self.fail(index, &error),
        }
    }

    /// Reads the PROXY header of a connection; returns whether messages follow now.
    #[cold]
    fn proxy_turn(&mut self, index: u32) -> bool {
        let mut received = None;
        let result = self.pool.update(index, self.now_ms, |connection| {
            received = connection.receive_proxy_header()?;
            Ok(received.is_some())
        });
        if let Err(error) = result {
            self.fail(index, &error);
            return false;
        }
        let Some(header) = received else { return false };
        if let Some(client) = header.client {
            if self.pool.connections_of(client) >= self.max_per_client {
                self.counters.refused.add(1);
                self.close(index);
                return false;
            }
            self.pool.set_peer(index, client);
        }
        self.begin(index)
    }

    /// Queues the responses to earlier messages that other threads have sent.
    fn queue_late_responses(&mut self) {
        for response in self.responder.late.take() {
            let (index, poll) = (response.index, &self.poll);
            let queued = self.pool.update(index, self.now_ms, |connection| {
                let waited_for = connection.interest();
                connection.queue_response(&response.octets);
                match waited_for {
                    Interest::Nothing => poll.add(connection.stream(), index.into(), connection.interest())?,
                    _ => poll.modify(connection.stream(), index.into(), connection.interest())?,
                }
                Ok(true)
            });
            if queued.is_err() {
                self.close(index);
            }
        }
    }

    //---------- Accepting and closing

    /// Accepts connections; returns whether there may be more.
    fn accept(&mut self, listener: usize) -> bool {
        let mut made_room = false;
        for _ in 0..ACCEPTS {
            match self.listeners[listener].accept() {
                Ok((stream, peer)) => {
                    made_room = false;
                    self.admit(stream, peer);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                Err(error) if is_out_of_descriptors(&error) => {
                    // Once per connection: if that did not help, something else takes the free descriptors.
                    if made_room || !self.release_descriptor(&error) {
                        self.pause_listeners(&error);
                        return false;
                    }
                    made_room = true;
                }
                // accept(2): an error of that one connection, which is gone.
                Err(_) => {}
            }
        }
        true
    }

    /// Closes a connection for its descriptor; returns whether that was possible here and now.
    fn release_descriptor(&mut self, error: &io::Error) -> bool {
        if let Route::Give(_, threads) = &self.route {
            // Idle connections hold the descriptors; closing a handshake would waste the work on it.
            threads.iter().for_each(|thread| thread.request_descriptors());
            return false;
        }
        let is_released = self.make_room();
        if is_released {
            self.warn(format_args!("no file descriptor for a connection ({error}); old ones are closed"));
        }
        is_released
    }

    fn admit(&mut self, stream: TcpStream, peer: SocketAddr) {
        self.counters.connections.add(1);
        let is_proxy = self.proxies.contains(peer.ip());
        // The limit is for the clients of a proxy, once they are known.
        if !is_proxy && self.pool.connections_of(peer.ip()) >= self.max_per_client {
            return self.counters.refused.add(1);
        }
        self.make_room_if_full();
        let Some(index) = self.pool.insert(stream, peer.ip(), self.now_ms) else { return };
        let Some(connection) = self.pool.get(index) else { return };
        if self.poll.add(connection.stream(), index.into(), Interest::Readable).is_err() {
            return drop(self.remove(index));
        }
        if is_proxy {
            self.change(index, TcpConnection::await_proxy_header);
        }
        // The first octets have often arrived by now.
        if is_proxy || self.begin(index) {
            self.turn(index);
        }
    }

    fn make_room_if_full(&mut self) {
        if self.pool.is_full() && self.make_room() {
            self.warn(format_args!("the limit of connections (`tcp-connections`) is reached; old ones are closed"));
        }
    }

    fn change(&mut self, index: u32, change: impl FnOnce(&mut TcpConnection)) {
        let changed = self.pool.update(index, self.now_ms, |connection| {
            change(connection);
            Ok(true)
        });
        debug_assert!(changed.is_ok());
    }

    /// Closes a connection after an error.
    fn fail(&mut self, index: u32, error: &io::Error) {
        let refused = error.get_ref().and_then(|error| error.downcast_ref::<ProxyError>());
        if let Some((error, connection)) = refused.zip(self.pool.get(index)) {
            let peer = connection.peer();
            self.counters.proxy_refused.add(1);
            self.warn(format_args!("a connection of {peer} is closed: {error}"));
        }
        match self.remove(index) {
            // Little is not delivered, or else it would not be closed yet.
            Some(connection) if error.kind() == io::ErrorKind::UnexpectedEof => connection.close(),
            Some(connection) => connection.refuse(),
            None => {}
        }
    }

    /// Closes a connection.
    fn close(&mut self, index: u32) {
        if let Some(connection) = self.remove(index) {
            connection.close();
        }
    }

    /// Removes a connection, which closes it when it is dropped.
    pub(super) fn remove(&mut self, index: u32) -> Option<TcpConnection> {
        let connection = self.pool.remove(index)?;
        self.responder.late.forget(index);
        self.handshakes.forget(index);
        self.transfers.forget(index);
        if let Some(transfer) = connection.transfer() {
            self.responder.broken_off(connection.peer(), transfer);
        }
        Some(connection)
    }

    /// Pauses the listeners: other parts of the process hold all descriptors.
    fn pause_listeners(&mut self, error: &io::Error) {
        self.counters.starved.add(1);
        self.warn(format_args!(
            "no file descriptor for a connection: {error} (help: raise the limit of open files or lower `tcp-connections`)"
        ));
        self.starved_until_ms = Some(self.now_ms.wrapping_add(STARVED_PAUSE_MS));
        self.poll_listeners(Interest::Nothing);
    }

    fn resume_listeners(&mut self) {
        if self.starved_until_ms.is_some_and(|until_ms| until_ms.wrapping_sub(self.now_ms) > STARVED_PAUSE_MS) {
            self.starved_until_ms = None;
            self.poll_listeners(Interest::Readable);
        }
    }

    fn poll_listeners(&mut self, interest: Interest) {
        for (number, listener) in self.listeners.iter().enumerate() {
            if let Err(error) = self.poll.modify(listener, FIRST_LISTENER + number as u64, interest) {
                tracing::error!(%error, "cannot change the polling of a listener");
            }
        }
    }

    pub(super) fn warn(&mut self, what: fmt::Arguments<'_>) {
        if let Some(left_out) = self.log.permit() {
            tracing::warn!(
                evicted = self.counters.evicted.value(),
                left_out,
                "{}: {what}",
                if matches!(self.route, Route::Own) { "TCP" } else { "TLS" }
            );
        }
    }

    //---------- Stop

    /// Answers what has arrived, and gives clients time to read their responses and transfers.
    fn finish(&mut self) {
        let until_ms = now_ms().wrapping_add(self.grace_ms);
        self.empty_accept_queues(until_ms);
        self.listeners.clear();
        // epoll reports ready connections in rotation, so that this reaches each once.
        for _ in 0..=self.pool.len() / EVENTS {
            self.run_round(0);
        }
        self.close_finished();
        while self.pool.len() > 0 && until_ms.wrapping_sub(now_ms()) <= self.grace_ms {
            self.run_round(50);
            self.close_finished();
        }
    }

    /// Accepts all who have connected: the kernel resets those that are left when a listener closes, though their queries have arrived.
    fn empty_accept_queues(&mut self, until_ms: u32) {
        for _ in 0..LAST_ACCEPTS {
            let mut more = false;
            for listener in 0..self.listeners.len() {
                more |= self.accept(listener);
            }
            if !more || until_ms.wrapping_sub(now_ms()) > self.grace_ms {
                break;
            }
            self.run_round(0);
        }
    }

    /// Closes the connections that wait neither for output to be accepted nor for a late response.
    fn close_finished(&mut self) {
        let late = &self.responder.late;
        let is_finished = |(index, connection): &(u32, &TcpConnection)| {
            connection.interest() != Interest::Writable && !late.waits(*index)
        };
        let finished: Vec<u32> = self.pool.iter().filter(is_finished).map(|(index, _)| index).collect();
        finished.into_iter().for_each(|index| self.close(index));
    }
}

/// Milliseconds of a clock that wraps after 49 days, longer than any timeout.
fn now_ms() -> u32 {
    clock::monotonic().as_millis() as u32
}

/// The processor time for the handshakes of a thread, in thousandths of a processor.
fn handshake_share(options: &ListenConfig) -> u32 {
    (options.handshake_percent * 10 / options.handshake_workers.max(1)) as u32
}

fn whole_ms(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX / 2).min(u32::MAX / 2)
}

#[cfg(test)]
mod echo_worker;
#[cfg(test)]
mod handshake_tests;
#[cfg(test)]
mod stop_tests;
