//! Queries over TCP (RFC 7766) or TLS (RFC 7858): a pool of connections, on which queries are pipelined.
//!
//! Each connection has an id, which is reused once it is closed and no query of it is outstanding. Events of [`Poll`]
//! go to [`ConnectionPool::handle`].

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, ErrorKind, Read};
use std::net::SocketAddr;

use netio::epoll::{Event, Interest, Poll};
use netio::udp_client::Sources;

use crate::connection::Connection;
use crate::framing::split_message;
use crate::metrics::Metrics;
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

struct PooledConnection {
    connection: Connection,
    slot: usize,
    opened_ns: u64,
    is_established: bool,
    /// Whether it gets no further queries.
    is_draining: bool,
    interest: Interest,
    /// Queries sent, or queued to be sent.
    sent: u32,
    /// Queries answered or timed out.
    completed: u32,
    /// When the last outstanding query was answered or timed out.
    idle_since_ns: u64,
    has_idle_check: bool,
    outgoing: Vec<u8>,
    /// The beginning of an incomplete message.
    incoming: Vec<u8>,
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
            buffer: vec![0; READ_LEN],
        }
    }

    /// The id of the connection for the next query, or for one of a captured client; opens it if needed.
    pub fn choose(&mut self, client: Option<u32>, poll: &Poll, now_ns: u64) -> io::Result<u32> {
        let slot = client.map_or_else(|| self.choose_slot(), |client| client as usize) % self.slots.len();
        self.next_slot = (slot + 1) % self.slots.len();
        let id = match self.slots[slot] {
            Some(id) => id,
            None => self.open(slot, poll, now_ns)?,
        };
        let limit = self.config.queries_per_connection;
        let connection = self.get_open(id).expect("slots have open connections");
        connection.sent += 1;
        if connection.sent == limit {
            connection.is_draining = true;
            self.slots[slot] = None;
        }
        Ok(id)
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

    fn open(&mut self, slot: usize, poll: &Poll, now_ns: u64) -> io::Result<u32> {
        let local = self.config.sources.map(|sources| SocketAddr::new(sources.at(self.opened % sources.count), 0));
        let connection = Connection::connect(self.server, local, self.config.tls.as_ref())?;
        self.opened = self.opened.wrapping_add(1);
        let id = self.free_ids.pop().unwrap_or(self.entries.len() as u32);
        poll.add(&connection, self.token(id), Interest::Writable)?;
        let entry = PoolEntry::Open(Box::new(PooledConnection {
            connection,
            slot,
            opened_ns: now_ns,
            is_established: false,
            is_draining: false,
            interest: Interest::Writable,
            sent: 0,
            completed: 0,
            idle_since_ns: now_ns,
            has_idle_check: false,
            outgoing: Vec::new(),
            incoming: Vec::new(),
        }));
        if id as usize == self.entries.len() {
            self.entries.push(entry);
        } else {
            self.entries[id as usize] = entry;
        }
        self.slots[slot] = Some(id);
        Ok(id)
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

    /// Queues a query, preceded by its length (RFC 1035 4.2.2).
    pub fn push(&mut self, id: u32, message_id: u16, message: &[u8]) {
        let Some(connection) = self.get_open(id) else { return };
        let was_flushed = connection.outgoing.is_empty();
        let outgoing = &mut connection.outgoing;
        outgoing.extend_from_slice(&(message.len() as u16).to_be_bytes());
        outgoing.extend_from_slice(&message_id.to_be_bytes());
        outgoing.extend_from_slice(&message[2..]);
        if was_flushed {
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

    /// Handles an event of a connection. `on_response` gets the connection's id and each complete response, and returns
    /// whether it matches an outstanding query.
    pub fn handle(
        &mut self,
        event: Event,
        poll: &Poll,
        now_ns: u64,
        metrics: &mut Metrics,
        mut on_response: impl FnMut(u32, &[u8], &mut Metrics) -> bool,
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
        let read = if event.readable {
            pooled.read(&mut self.buffer, |response| on_response(id, response, metrics))
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

impl PooledConnection {
    fn is_idle(&self) -> bool {
        self.completed >= self.sent
    }

    fn is_drained(&self) -> bool {
        self.is_draining && self.is_idle()
    }

    fn record_established(&mut self, now_ns: u64, metrics: &mut Metrics) {
        self.is_established = true;
        metrics.handshakes += 1;
        metrics.handshakes_resumed += u64::from(self.connection.is_resumed());
        metrics.handshake.saturating_record(now_ns - self.opened_ns);
    }

    fn write(&mut self) -> io::Result<()> {
        self.connection.write_queued(&mut self.outgoing)
    }

    /// Reads once and passes each complete message to `on_response`. The end of the stream is an error.
    fn read(&mut self, buffer: &mut [u8], mut on_response: impl FnMut(&[u8]) -> bool) -> io::Result<()> {
        let buffered = self.incoming.len();
        buffer[..buffered].copy_from_slice(&self.incoming);
        let len = match self.connection.read(&mut buffer[buffered..]) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(len) => buffered + len,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return Ok(()),
            Err(error) => return Err(error),
        };
        let mut rest = &buffer[..len];
        while let Some((message, after)) = split_message(rest) {
            self.completed += u32::from(on_response(message));
            rest = after;
        }
        self.incoming.clear();
        self.incoming.extend_from_slice(rest);
        Ok(())
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
