//! Queries over TCP (RFC 7766) or TLS (RFC 7858): a pool of connections, on which queries are pipelined.
//!
//! Each connection has an id, which is reused once it is closed and no query of it is outstanding. Events of [`Poll`]
//! go to [`ConnectionPool::handle`].

mod pooled_connection;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::net::SocketAddr;

use netio::epoll::{Event, Interest, Poll};
use netio::udp_client::Sources;

use self::pooled_connection::PooledConnection;
use crate::answer_window::Handshake;
use crate::connection::Connection;
use crate::metrics::Metrics;
use crate::replay::{ClientEnd, is_port_unavailable};
use crate::tls::TlsConfig;

/// The read buffer in octets; longer than any message.
const READ_LEN: usize = 128 << 10;

/// How many connections that are not established yet are skipped in search of one that is.
const MAX_SKIPPED: usize = 128;

/// How connections are used.
#[derive(Clone, Debug, Default)]
pub struct PoolConfig {
    /// The number of connections that are open at a time.
    pub connections: usize,
    /// A connection is closed after this many queries; 0: never.
    pub queries_per_connection: u32,
    /// Whether to prefer established connections. In a closed loop, all queries that may be outstanding would otherwise
    /// soon wait for connections that are still opening.
    pub prefer_established: bool,
    /// Whether the first query of a connection goes with the SYN where the server allows it.
    pub fast_open: bool,
    pub sources: Option<Sources>,
    pub tls: Option<TlsConfig>,
    /// A connection is closed when it has had no outstanding query for so long.
    pub idle_timeout_ns: Option<u64>,
}

/// The TCP connections of a worker.
pub struct ConnectionPool {
    server: SocketAddr,
    config: PoolConfig,
    /// The poll token of connection 0.
    first_token: u64,
    /// The difference between the tokens of consecutive connections.
    token_step: u64,
    /// The id of the connection in each of the `config.connections` slots.
    slots: Vec<Option<u32>>,
    next_slot: usize,
    entries: Vec<PoolEntry>,
    free_ids: Vec<u32>,
    /// Ids that are free once all events of the current poll are handled.
    released_ids: Vec<u32>,
    /// Connections with queries to write.
    unflushed: Vec<u32>,
    opened: u32,
    /// Ports of captured clients that were not free.
    ports_replaced: u64,
    /// When to check whether a connection has been idle for too long, and its id; at most one entry for each connection.
    idle_checks: BinaryHeap<Reverse<(u64, u32)>>,
    buffer: Vec<u8>,
}

enum PoolEntry {
    Open(Box<PooledConnection>),
    Closed {
        /// Its queries that have not timed out yet.
        outstanding: u32,
    },
}

impl ConnectionPool {
    /// A pool without connections; [`ConnectionPool::choose`] opens them. The tokens are the first one and their difference.
    pub fn new(server: SocketAddr, config: PoolConfig, (first_token, token_step): (u64, u64)) -> ConnectionPool {
        ConnectionPool {
            server,
            first_token,
            token_step,
            idle_checks: BinaryHeap::new(),
            slots: vec![None; config.connections.max(1)],
            config,
            next_slot: 0,
            entries: Vec::new(),
            free_ids: Vec::new(),
            released_ids: Vec::new(),
            unflushed: Vec::new(),
            opened: 0,
            ports_replaced: 0,
            buffer: vec![0; READ_LEN],
        }
    }

    /// The id of the connection for the next query, or for a captured one; opens it if needed.
    pub fn choose(&mut self, end: Option<ClientEnd>, poll: &Poll, now_ns: u64) -> io::Result<u32> {
        let slot = end.map_or_else(|| self.choose_slot(), |end| end.slot as usize) % self.slots.len();
        self.next_slot = (slot + 1) % self.slots.len();
        let id = self.open_slot(slot, end, poll, now_ns)?;
        let limit = self.config.queries_per_connection;
        let connection = self.get_open(id).expect("slots have open connections");
        connection.sent += 1;
        if connection.sent == limit {
            connection.is_draining = true;
            self.slots[slot] = None;
        }
        Ok(id)
    }

    /// Opens a captured connection, if it is not open.
    pub fn open(&mut self, end: ClientEnd, poll: &Poll, now_ns: u64) -> io::Result<()> {
        self.open_slot(end.slot as usize % self.slots.len(), Some(end), poll, now_ns).map(|_| ())
    }

    /// Closes a captured connection once its queries are answered.
    pub fn finish(&mut self, end: ClientEnd, metrics: &mut Metrics) {
        let Some(id) = self.slots.get_mut(end.slot as usize).and_then(Option::take) else { return };
        let Some(connection) = self.get_open(id) else { return };
        connection.is_draining = true;
        metrics.closed_captured += 1;
        if connection.is_drained() {
            self.close(id, metrics);
        }
    }

    /// How many ports of captured clients were not free, so that the kernel chose others.
    pub fn ports_replaced(&self) -> u64 {
        self.ports_replaced
    }

    /// The next slot in round-robin order; if configured, the next one that is empty or has an established connection.
    fn choose_slot(&self) -> usize {
        let tries = if self.config.prefer_established { self.slots.len().min(MAX_SKIPPED) } else { 0 };
        let mut candidates = (0..tries).map(|step| (self.next_slot + step) % self.slots.len());
        let is_established =
            |id| matches!(&self.entries[id as usize], PoolEntry::Open(connection) if connection.is_established);
        candidates.find(|&slot| self.slots[slot].is_none_or(is_established)).unwrap_or(self.next_slot)
    }

    /// Whether as many connections have been opened as there are slots.
    pub fn all_opened(&self) -> bool {
        self.opened as usize >= self.slots.len()
    }

    /// The id of the connection in a slot, which it opens if needed.
    fn open_slot(&mut self, slot: usize, end: Option<ClientEnd>, poll: &Poll, now_ns: u64) -> io::Result<u32> {
        if let Some(id) = self.slots[slot] {
            return Ok(id);
        }
        let connection = self.connect(end)?;
        self.opened = self.opened.wrapping_add(1);
        let id = self.free_ids.pop().unwrap_or(self.entries.len() as u32);
        poll.add(&connection, self.token(id), Interest::Writable)?;
        let entry = PoolEntry::Open(Box::new(PooledConnection::opening(connection, slot, now_ns)));
        if id as usize == self.entries.len() {
            self.entries.push(entry);
        } else {
            self.entries[id as usize] = entry;
        }
        self.slots[slot] = Some(id);
        Ok(id)
    }

    /// Connects from the address of a captured client, or from the next one in turn.
    fn connect(&mut self, end: Option<ClientEnd>) -> io::Result<Connection> {
        let turn = end.map_or(self.opened, |end| end.client);
        let connect = if self.config.fast_open { Connection::connect_fast_open } else { Connection::connect };
        let address = self.config.sources.map(|sources| sources.at(turn % sources.count));
        if let Some(port) = end.map(|end| end.port).filter(|port| *port > 0) {
            let any = || netio::unspecified(self.server.ip());
            let local = SocketAddr::new(address.unwrap_or_else(any), port);
            match connect(self.server, Some(local), self.config.tls.as_ref()) {
                Err(error) if is_port_unavailable(&error) => self.ports_replaced += 1,
                result => return result,
            }
        }
        let local = address.map(|address| SocketAddr::new(address, 0));
        connect(self.server, local, self.config.tls.as_ref())
    }

    fn token(&self, id: u32) -> u64 {
        self.first_token + u64::from(id) * self.token_step
    }

    fn get_open(&mut self, id: u32) -> Option<&mut PooledConnection> {
        match self.entries.get_mut(id as usize)? {
            PoolEntry::Open(connection) => Some(connection),
            PoolEntry::Closed { .. } => None,
        }
    }

    /// All ids so far are below this.
    pub fn id_count(&self) -> usize {
        self.entries.len()
    }

    /// Queues a query.
    pub fn push(&mut self, id: u32, message_id: u16, message: &[u8]) {
        if self.get_open(id).is_some_and(|connection| connection.push(message_id, message)) {
            self.unflushed.push(id);
        }
    }

    /// Writes the queued queries, until the sockets would block.
    pub fn flush(&mut self, poll: &Poll, metrics: &mut Metrics) {
        self.free_ids.append(&mut self.released_ids);
        for id in std::mem::take(&mut self.unflushed) {
            let Some(connection) = self.get_open(id) else { continue };
            if connection.is_established && connection.write().is_err() {
                self.close(id, metrics);
                continue;
            }
            self.update_interest(id, poll);
        }
    }

    fn update_interest(&mut self, id: u32, poll: &Poll) {
        let token = self.token(id);
        let Some(pooled) = self.get_open(id) else { return };
        let wanted = pooled.connection.interest(match (pooled.is_established, pooled.outgoing.is_empty()) {
            (false, _) => Interest::Writable,
            (true, true) => Interest::Readable,
            (true, false) => Interest::Both,
        });
        if wanted != pooled.interest {
            pooled.interest = wanted;
            poll.modify(&pooled.connection, token, wanted).expect("the descriptor was added and is open");
        }
    }

    /// Handles an event of a connection. `on_response` gets the connection's id and handshake and each complete response,
    /// and returns whether it matches an outstanding query.
    pub fn handle(
        &mut self,
        event: Event,
        poll: &Poll,
        now_ns: u64,
        metrics: &mut Metrics,
        mut on_response: impl FnMut(u32, Handshake, &[u8], &mut Metrics) -> bool,
    ) {
        let id = ((event.token - self.first_token) / self.token_step) as u32;
        let PoolEntry::Open(pooled) = &mut self.entries[id as usize] else { return };
        let was_established = pooled.is_established;
        if !was_established {
            match pooled.connection.establish() {
                Ok(true) => pooled.record_established(now_ns, metrics),
                Ok(false) => return self.update_interest(id, poll),
                Err(error) => {
                    metrics.record_failed_handshake(&error);
                    return self.close(id, metrics);
                }
            }
        }
        let written = if event.writable || !was_established { pooled.write() } else { Ok(()) };
        let handshake = pooled.handshake;
        let read = if event.readable {
            pooled.read(&mut self.buffer, |response| on_response(id, handshake, response, metrics))
        } else {
            Ok(())
        };
        if written.and(read).is_err() || pooled.is_drained() {
            return self.close(id, metrics);
        }
        self.check_idle(id, now_ns);
        self.update_interest(id, poll);
    }

    /// Plans to close a connection that has become idle.
    fn check_idle(&mut self, id: u32, now_ns: u64) {
        let Some(timeout_ns) = self.config.idle_timeout_ns else { return };
        let Some(connection) = self.get_open(id).filter(|connection| connection.is_idle()) else { return };
        connection.idle_since_ns = now_ns;
        if !std::mem::replace(&mut connection.has_idle_check, true) {
            self.idle_checks.push(Reverse((now_ns + timeout_ns, id)));
        }
    }

    /// Closes the connections that have been idle for too long.
    pub fn close_idle(&mut self, now_ns: u64, metrics: &mut Metrics) {
        let Some(timeout_ns) = self.config.idle_timeout_ns else { return };
        while self.idle_checks.peek().is_some_and(|Reverse((due_ns, _))| *due_ns <= now_ns) {
            let Reverse((_, id)) = self.idle_checks.pop().expect("one was peeked");
            let Some(connection) = self.get_open(id) else { continue };
            connection.has_idle_check = false;
            let due_ns = connection.idle_since_ns + timeout_ns;
            if connection.is_idle() && due_ns <= now_ns {
                metrics.closed_idle += 1;
                self.close(id, metrics);
            } else if connection.is_idle() {
                connection.has_idle_check = true;
                self.idle_checks.push(Reverse((due_ns, id)));
            }
        }
    }

    /// Records that a query of the connection will not be answered.
    pub fn query_timed_out(&mut self, id: u32, now_ns: u64, metrics: &mut Metrics) {
        match &mut self.entries[id as usize] {
            PoolEntry::Open(connection) => {
                connection.completed += 1;
                match connection.is_drained() {
                    true => self.close(id, metrics),
                    false => self.check_idle(id, now_ns),
                }
            }
            PoolEntry::Closed { outstanding } => {
                *outstanding -= 1;
                if *outstanding == 0 {
                    self.released_ids.push(id);
                }
            }
        }
    }

    fn close(&mut self, id: u32, metrics: &mut Metrics) {
        let PoolEntry::Open(pooled) = &mut self.entries[id as usize] else { return };
        pooled.connection.close_notify();
        if self.slots[pooled.slot] == Some(id) {
            self.slots[pooled.slot] = None;
        }
        let outstanding = pooled.sent - pooled.completed;
        metrics.closed_early += u64::from(pooled.is_established && outstanding > 0);
        self.entries[id as usize] = PoolEntry::Closed { outstanding };
        if outstanding == 0 {
            self.released_ids.push(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(prefer_established: bool) -> Vec<u32> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
        let config = PoolConfig { connections: 3, prefer_established, ..PoolConfig::default() };
        let mut pool = ConnectionPool::new(listener.local_addr().expect("bound"), config, (0, 1));
        let poll = Poll::new().expect("a descriptor");
        let first: Vec<u32> = (0..4).map(|_| pool.choose(None, &poll, 0).expect("loopback")).collect();
        assert_eq!(first, [0, 1, 2, 0], "round robin while none is established");
        pool.get_open(1).expect("chosen").is_established = true;
        (0..4).map(|_| pool.choose(None, &poll, 0).expect("loopback")).collect()
    }

    #[test]
    fn a_closed_loop_prefers_established_connections() {
        assert_eq!(chosen(true), [1, 1, 1, 1]);
        assert_eq!(chosen(false), [1, 2, 0, 1], "an open loop sends as scheduled, or it would hide the wait");
    }
}
