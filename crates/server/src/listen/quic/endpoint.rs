//! The connections of a thread as a state machine: it is given datagrams and the time, and queues datagrams.
//!
//! Each round: [`QuicEndpoint::receive`] for every datagram, then [`QuicEndpoint::finish_round`], in which connections get their turns
//! and new ones are accepted. An attempt to connect is not accepted without a proof of its address (Retry, RFC 9000 8.1.2) while there are
//! many handshakes, its client has many connections, or the table is full.

mod limits;
mod turns;

use super::super::counters::ListenerCounters;
use super::super::panic_guard::catch_panic;
use super::super::stream_responder::StreamResponder;
use super::super::worker_setup::WorkerSetup;
use super::super::{QuicConfig, Responder};
use super::DoqError;
use super::connection::{ConnectionTurn, QuicConnection};
use super::connection_table::ConnectionTable;
use super::initial_queue::{InitialKeys, InitialQueue};
use super::key_exchange_queue::{KeyExchangeQueue, Waiting};
use super::late_streams::LateStreams;
use super::transport::{QuicShared, endpoint_config, server_config, transport, with_tls};
use crate::rate_limited_log::RateLimitedLog;
use crate::tls::ServerTls;
use bytes::BytesMut;
use netio::clock;
use quinn_proto::Transmit;
use quinn_proto::crypto::rustls::NoInitialCipherSuite;
use quinn_proto::{ConnectionEvent, ConnectionHandle, DatagramEvent, Endpoint, Incoming, ServerConfig};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Handshakes in progress above which addresses are verified first: more than 500 new clients per second with a round-trip time of
/// 100 ms.
const RETRY_ABOVE: usize = 50;
/// The octets of an established connection that waits: 70,260 measured after 90 queries at once.
pub(in crate::listen) const CONNECTION_MEMORY: usize = 72 << 10;

/// The bit of long headers in the first octet (RFC 9000 17.2).
const LONG_HEADER: u8 = 0x80;

/// A datagram that has arrived.
#[derive(Clone)]
pub(super) struct Arrival {
    /// The number of its socket.
    pub(super) socket: usize,
    pub(super) peer: SocketAddr,
    /// The address that it was sent to, if the socket has several.
    pub(super) local_ip: Option<IpAddr>,
    pub(super) octets: BytesMut,
}

/// Where datagrams are queued.
pub(super) trait DatagramQueue {
    /// How many datagrams a burst may have.
    fn max_segments(&self, socket: usize) -> usize;
    /// An empty buffer for what [`DatagramQueue::queue`] sends.
    fn buffer(&mut self, socket: usize) -> &mut Vec<u8>;
    /// Queues what the buffer has.
    fn queue(&mut self, socket: usize, transmit: &Transmit);
}

/// The connections of a thread.
pub(super) struct QuicEndpoint<R> {
    endpoint: Endpoint,
    tls: Arc<ServerTls>,
    /// The TLS settings that `config` was made from.
    tls_config: Arc<rustls::ServerConfig>,
    config: Arc<ServerConfig>,
    table: ConnectionTable,
    initial_keys: Arc<InitialKeys>,
    initials: InitialQueue<Arrival>,
    key_exchanges: KeyExchangeQueue,
    /// Connections that get a turn.
    ready: BTreeSet<u32>,
    /// The first connection whose transfer gets a turn in the next round.
    next_transfer: u32,
    responder: StreamResponder<R>,
    late: LateStreams,
    counters: Arc<ListenerCounters>,
    max_connections: usize,
    max_per_client: usize,
    memory_limit: usize,
    idle_timeout: Duration,
    is_stopping: bool,
    log: RateLimitedLog,
}

impl<R: Responder> QuicEndpoint<R> {
    /// An endpoint without connections. Clones of `shared` are those of the other threads.
    pub(super) fn new(
        setup: WorkerSetup<R>,
        tls: Arc<ServerTls>,
        shared: QuicShared,
        options: &QuicConfig,
        now: Instant,
    ) -> Result<QuicEndpoint<R>, NoInitialCipherSuite> {
        let transport = Arc::new(transport(options.idle_timeout));
        let tls_config = tls.quic();
        let counters = setup.counters.clone();
        let initial_keys = Arc::new(InitialKeys::default());
        let config = server_config(&tls_config, &initial_keys, &counters, &transport)?;
        let max_connections = options.connections.div_ceil(options.workers.max(1)).max(1);
        // Thousandths of a processor.
        let share = (options.handshake_percent * 10 / options.workers.max(1)) as u32;
        Ok(QuicEndpoint {
            endpoint: Endpoint::new(endpoint_config(), Some(config.clone()), false, None),
            responder: StreamResponder::new(setup, options.idle_timeout),
            table: ConnectionTable::new(max_connections, shared.clients, options.idle_timeout, now),
            tls,
            tls_config,
            config,
            initials: InitialQueue::new(share, now, initial_keys.clone()),
            initial_keys,
            key_exchanges: KeyExchangeQueue::new(share, now),
            ready: BTreeSet::new(),
            next_transfer: 0,
            late: LateStreams::default(),
            counters,
            max_connections,
            max_per_client: options.connections_per_client,
            memory_limit: options.memory_limit,
            idle_timeout: options.idle_timeout,
            is_stopping: false,
            log: RateLimitedLog::new(1, Duration::from_secs(10)),
        })
    }

    /// A round begins; `real` is the time since 1970.
    pub(super) fn begin_round(&mut self, real: Duration) {
        self.responder.begin_round(real, 1);
    }

    /// Gives every ready connection its turn, accepts new ones, and closes those without progress.
    pub(super) fn finish_round(&mut self, now: Instant, out: &mut impl DatagramQueue) {
        self.queue_late_responses(now);
        self.initial_turns(now, out);
        self.handshake_turn(now, out);
        self.handle_timers(now);
        let mut transferring = Vec::new();
        for index in std::mem::take(&mut self.ready) {
            // A transfer that begins is among these in the next round: those in progress do not wait for it.
            match self.table.get(index).is_some_and(|of| of.transfers() > 0) {
                true => transferring.push(index),
                false => self.turn(index, false, now, out),
            }
        }
        self.transfer_turns(transferring, now, out);
        self.responder.end_round();
    }

    /// When the next round must begin; `now` if there is work left.
    pub(super) fn next_round(&self, now: Instant) -> Option<Instant> {
        if !self.ready.is_empty() {
            return Some(now);
        }
        let turns = self.initials.next_turn(now).into_iter().chain(self.key_exchanges.next_turn(now));
        turns.chain(self.table.next_timer()).min()
    }

    //---------- Datagrams and attempts to connect

    /// Handles a datagram, unless it may begin a connection and must wait for that.
    pub(super) fn receive(&mut self, arrival: Arrival, now: Instant, out: &mut impl DatagramQueue) {
        // RFC 9000 17: packets of open connections have short headers, and need no look at the share.
        if arrival.octets.first().is_none_or(|first| first & LONG_HEADER == 0) {
            return self.handle(arrival, now, out);
        }
        if self.initials.begin(now) {
            return self.handle_initial(arrival, now, out);
        }
        let copy = arrival.clone();
        self.handle(arrival, now, out);
        if self.initials.end() {
            let peer = copy.peer.ip();
            self.counters.initials_dropped.add(self.initials.push(copy, peer).into());
        }
    }

    /// Handles those that have waited.
    fn initial_turns(&mut self, now: Instant, out: &mut impl DatagramQueue) {
        while let Some(arrival) = self.initials.next(now) {
            if catch_panic(|| self.handle_initial(arrival, now, out)).is_none() {
                self.counters.panics.add(1);
            }
        }
    }

    /// Handles a datagram, and charges the share of the handshakes if it may have begun a connection.
    fn handle_initial(&mut self, arrival: Arrival, now: Instant, out: &mut impl DatagramQueue) {
        let begin = clock::thread_cpu();
        self.handle(arrival, now, out);
        if self.initials.end() {
            let cost = clock::thread_cpu().saturating_sub(begin);
            self.initials.charge(cost);
            self.key_exchanges.charge(cost);
        }
    }

    fn handle(&mut self, arrival: Arrival, now: Instant, out: &mut impl DatagramQueue) {
        let Arrival { socket, peer, local_ip, octets } = arrival;
        match self.endpoint.handle(now, peer, local_ip, None, octets, out.buffer(socket)) {
            None => {}
            Some(DatagramEvent::Response(transmit)) => out.queue(socket, &transmit),
            Some(DatagramEvent::NewConnection(incoming)) => self.consider(socket, incoming, out),
            Some(DatagramEvent::ConnectionEvent(ConnectionHandle(index), event)) => {
                self.deliver(index as u32, event, now);
            }
        }
    }

    /// Gives a connection its datagram; in its turn, if a key exchange may follow.
    fn deliver(&mut self, index: u32, event: ConnectionEvent, now: Instant) {
        let connection = self.table.get(index).filter(|connection| connection.is_before_key_exchange());
        if let Some(peer) = connection.map(|connection| connection.peer.ip()) {
            return self.enqueue(Waiting::Datagram(index, peer, event));
        }
        let begin = self.begin_step(index);
        self.handle_event(index, event, now);
        self.charge(begin);
    }

    fn handle_event(&mut self, index: u32, event: ConnectionEvent, now: Instant) {
        self.table.update(index, now, |connection| (connection.inner.handle_event(event), false));
        self.make_ready(index);
    }

    /// Refuses an attempt to connect, asks for a proof of its address, or lets it wait for its handshake.
    fn consider(&mut self, socket: usize, incoming: Incoming, out: &mut impl DatagramQueue) {
        let peer = incoming.remote_address().ip();
        // Attempts that wait are accepted without another check.
        let connections = self.table.connections_of(peer) + self.key_exchanges.attempts_of(peer);
        let is_busy = self.table.handshaking() + self.key_exchanges.len() >= RETRY_ABOVE;
        // Nobody may have connections closed in the name of another.
        let is_full = self.table.len() + self.key_exchanges.len() >= self.max_connections;
        if self.is_stopping {
            self.endpoint.ignore(incoming);
        } else if !incoming.remote_address_validated() && (is_busy || is_full || connections >= self.max_per_client / 2)
        {
            // Whoever has this address may not be who sent this.
            let buffer = out.buffer(socket);
            match self.endpoint.retry(incoming, buffer) {
                Ok(transmit) => {
                    self.counters.retries.add(1);
                    out.queue(socket, &transmit);
                }
                Err(error) => self.endpoint.ignore(error.into_incoming()),
            }
        } else if connections >= self.max_per_client {
            self.counters.connections.add(1);
            self.counters.refused.add(1);
            let transmit = self.endpoint.refuse(incoming, out.buffer(socket));
            out.queue(socket, &transmit);
        } else {
            self.enqueue(Waiting::Attempt(socket, incoming));
        }
    }

    /// Lets something wait for its turn, or drops it, or something else.
    fn enqueue(&mut self, waiting: Waiting) {
        if let Some(dropped) = self.key_exchanges.push(waiting) {
            self.ignore(dropped);
        }
    }

    fn ignore(&mut self, waiting: Waiting) {
        if let Waiting::Attempt(_, incoming) = waiting {
            self.endpoint.ignore(incoming);
        }
    }

    /// Begins one handshake, or continues one, which may cost half a millisecond, if their share of the processor allows it.
    fn handshake_turn(&mut self, now: Instant, out: &mut impl DatagramQueue) {
        let Some(waiting) = self.key_exchanges.next(now) else { return };
        let begin = Some(clock::thread_cpu());
        let done = catch_panic(|| match waiting {
            Waiting::Attempt(socket, incoming) => self.accept(socket, incoming, now, out),
            // Another connection that has the index since cannot decrypt it.
            Waiting::Datagram(index, _, event) => self.handle_event(index, event, now),
        });
        self.counters.panics.add(usize::from(done.is_none()));
        self.charge(begin);
    }

    /// The processor time before a step of a connection, if it is in its handshake.
    fn begin_step(&self, index: u32) -> Option<Duration> {
        let is_handshaking = self.table.get(index).is_some_and(|connection| connection.inner.is_handshaking());
        is_handshaking.then(clock::thread_cpu)
    }

    /// Charges the share of the handshakes with a step.
    fn charge(&mut self, begin: Option<Duration>) {
        if let Some(begin) = begin {
            self.key_exchanges.charge(clock::thread_cpu().saturating_sub(begin));
        }
    }

    fn accept(&mut self, socket: usize, incoming: Incoming, now: Instant, out: &mut impl DatagramQueue) {
        self.counters.connections.add(1);
        if self.table.len() >= self.max_connections && self.make_room(now, out) {
            self.warn("the limit of connections (`quic-connections`) is reached; old ones are closed");
        }
        self.refresh_config();
        let peer = incoming.remote_address();
        let buffer = out.buffer(socket);
        match self.endpoint.accept(incoming, now, buffer, Some(self.config.clone())) {
            Ok((ConnectionHandle(index), inner)) => {
                let index = index as u32;
                self.table.insert(index, QuicConnection::new(inner, peer, socket, index), now);
                self.make_ready(index);
            }
            Err(error) => error.response.iter().for_each(|transmit| out.queue(socket, transmit)),
        }
    }

    /// Takes the certificate that the last reload has read.
    fn refresh_config(&mut self) {
        let current = self.tls.quic();
        if !Arc::ptr_eq(&current, &self.tls_config) {
            // The same cipher suites as before, so that it does not fail.
            if let Ok(config) = with_tls(&self.config, &current, &self.initial_keys, &self.counters) {
                self.endpoint.set_server_config(Some(config.clone()));
                (self.tls_config, self.config) = (current, config);
            }
        }
    }

    //---------- Turns

    fn make_ready(&mut self, index: u32) {
        self.ready.insert(index);
    }

    /// What turns of connections need, each borrowed by itself.
    fn parts(&mut self, may_fill: bool, now: Instant) -> (&mut Endpoint, &mut ConnectionTable, ConnectionTurn<'_, R>) {
        let turn = ConnectionTurn {
            now,
            responder: &mut self.responder,
            late: &mut self.late,
            counters: &self.counters,
            tls: &self.tls,
            may_fill,
            idle_timeout: self.idle_timeout,
        };
        (&mut self.endpoint, &mut self.table, turn)
    }

    pub(super) fn warn(&mut self, what: &str) {
        if let Some(left_out) = self.log.permit() {
            tracing::warn!(evicted = self.counters.evicted.value(), left_out, "QUIC: {what}");
        }
    }

    //---------- Stop

    /// Accepts no more connections, and closes those that wait for no response; handshakes too, as anybody can leave some incomplete.
    /// Returns whether none are left.
    pub(super) fn stop(&mut self, now: Instant) -> bool {
        self.is_stopping = true;
        self.initials.clear();
        while let Some(waiting) = self.key_exchanges.pop() {
            self.ignore(waiting);
        }
        self.close_all(now, |connection| !connection.owes_response());
        self.ready.is_empty() && self.table.iter().all(|(_, connection)| connection.inner.is_closed())
    }

    /// Closes the open connections that match.
    pub(super) fn close_all(&mut self, now: Instant, matches: impl Fn(&QuicConnection) -> bool) {
        let open = self.table.iter().filter(|(_, connection)| !connection.inner.is_closed() && matches(connection));
        let open: Vec<u32> = open.map(|(index, _)| index).collect();
        for index in open {
            self.close(index, DoqError::NoError, now);
            self.make_ready(index);
        }
    }
}

#[cfg(test)]
impl<R> QuicEndpoint<R> {
    /// The number of connections.
    pub(super) fn connections(&self) -> usize {
        self.table.len()
    }

    /// The number of attempts to connect, and of datagrams before a key exchange, that wait.
    pub(super) fn waiting(&self) -> usize {
        self.key_exchanges.len()
    }

    /// The number of datagrams that may begin connections and wait.
    pub(super) fn waiting_initials(&self) -> usize {
        self.initials.len()
    }

    /// The memory of all connections besides what each has, in octets.
    pub(super) fn memory(&self) -> usize {
        self.table.memory()
    }
}
