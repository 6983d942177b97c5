//! The connection pools of a worker, one for each transport that has connections.
//!
//! Connections of all pools are numbered together: that with id `i` of pool `p` of `n` has the number `i * n + p`.

use std::io;
use std::net::SocketAddr;

use netio::epoll::{Event, Poll};

use crate::answer_window::Route;
use crate::metrics::Metrics;
use crate::pool::{ConnectionPool, PoolConfig};
use crate::replay::ClientEnd;

/// The pools of a worker; at least one.
pub struct Pools {
    pools: Vec<ConnectionPool>,
    first_token: u64,
}

impl Pools {
    /// A pool for each server; connection number `c` has the poll token `first_token + c`.
    pub fn new(servers: Vec<(SocketAddr, PoolConfig)>, first_token: u64) -> Pools {
        let step = servers.len() as u64;
        let pools = servers
            .into_iter()
            .zip(0..)
            .map(|((server, config), index)| ConnectionPool::new(server, config, (first_token + index, step)));
        Pools { pools: pools.collect(), first_token }
    }

    /// The number of the connection of a pool for the next query, or for a captured one; opens it if needed.
    pub fn choose(&mut self, pool: usize, end: Option<ClientEnd>, poll: &Poll, now_ns: u64) -> io::Result<u32> {
        let id = self.pools[pool].choose(end, poll, now_ns)?;
        Ok(id * self.pools.len() as u32 + pool as u32)
    }

    /// Opens a captured connection in the first pool, if it is not open.
    pub fn open(&mut self, end: ClientEnd, poll: &Poll, now_ns: u64) -> io::Result<()> {
        self.pools[0].open(end, poll, now_ns)
    }

    /// Closes a captured connection in the first pool once its queries are answered.
    pub fn finish(&mut self, end: ClientEnd, metrics: &mut Metrics) {
        self.pools[0].finish(end, metrics);
    }

    /// How many ports of captured clients were not free, so that the kernel chose others.
    pub fn ports_replaced(&self) -> u64 {
        self.pools.iter().map(ConnectionPool::ports_replaced).sum()
    }

    /// Queues a query.
    pub fn push(&mut self, connection: u32, message_id: u16, message: &[u8]) {
        let (pool, id) = self.locate(connection);
        self.pools[pool].push(id, message_id, message);
    }

    /// Writes the queued queries, until the sockets would block.
    pub fn flush(&mut self, poll: &Poll, metrics: &mut Metrics) {
        self.pools.iter_mut().for_each(|pool| pool.flush(poll, metrics));
    }

    /// Handles an event of a connection; see [`ConnectionPool::handle`].
    pub fn handle(
        &mut self,
        event: Event,
        poll: &Poll,
        now_ns: u64,
        metrics: &mut Metrics,
        mut on_response: impl FnMut(u32, Route, &[u8], &mut Metrics) -> bool,
    ) {
        let count = self.pools.len() as u32;
        let (pool, _) = self.locate((event.token - self.first_token) as u32);
        self.pools[pool].handle(event, poll, now_ns, metrics, |id, handshake, response, metrics| {
            let route = Route { transport: 1 + pool, handshake: Some(handshake) };
            on_response(id * count + pool as u32, route, response, metrics)
        });
    }

    /// Records that a query of the connection will not be answered.
    pub fn query_timed_out(&mut self, connection: u32, now_ns: u64, metrics: &mut Metrics) {
        let (pool, id) = self.locate(connection);
        self.pools[pool].query_timed_out(id, now_ns, metrics);
    }

    /// Closes the connections that have been idle for too long.
    pub fn close_idle(&mut self, now_ns: u64, metrics: &mut Metrics) {
        self.pools.iter_mut().for_each(|pool| pool.close_idle(now_ns, metrics));
    }

    /// All connection numbers so far are below this.
    pub fn connection_count(&self) -> usize {
        self.pools.iter().map(ConnectionPool::id_count).max().unwrap_or(0) * self.pools.len()
    }

    /// Whether as many connections have been opened as there may be.
    pub fn all_opened(&self) -> bool {
        self.pools.iter().all(ConnectionPool::all_opened)
    }

    fn locate(&self, connection: u32) -> (usize, u32) {
        let count = self.pools.len() as u32;
        ((connection % count) as usize, connection / count)
    }
}
