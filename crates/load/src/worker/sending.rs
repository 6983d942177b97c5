//! Sends the queries that are due, over UDP or a connection.

use super::Worker;
use crate::pacer::Due;
use crate::udp::UdpSockets;

/// Queries sent before responses are received again: enough to catch up, few enough not to timestamp responses late.
const MAX_SENT_PER_TURN: usize = 64;
/// Queries written to connections before they are flushed, without UDP.
const TCP_BATCH: usize = 8;
/// Connections that a closed loop opens without waiting for responses: fewer than a short listen backlog holds (10 in
/// BIND and Knot). The kernel drops a SYN that does not fit and retransmits it after a second, which says nothing about
/// the server.
const INITIAL_CONNECTIONS: usize = 8;
/// A closed loop opens a further connection at least this often, so that a distant server does not slow it down.
const CONNECTION_INTERVAL_NS: u64 = 5_000_000;
/// Missed queries skipped before responses are received again: at a rate that cannot be kept there is always another.
const MAX_MISSED_PER_TURN: usize = 1024;
/// The pool of TCP connections, or of TLS if all queries use it, and that of TLS in a mix.
const TCP_POOL: usize = 0;
const TLS_POOL: usize = 1;

impl Worker {
    /// Sends a few batches of due queries; returns whether more may be due.
    pub(super) fn send_due(&mut self) -> bool {
        let mut sent = 0;
        while sent < MAX_SENT_PER_TURN {
            let now = self.now();
            self.open_connections(now);
            let was_full = self.collect_batch(now);
            sent += self.batch.len();
            for at in 0..self.batch.len() {
                let (number, intended_ns) = self.batch[at];
                self.send(number, intended_ns, now);
            }
            self.flush();
            if !was_full {
                // Not earlier: what was captured before the end of a connection is sent on it.
                self.close_connections(now);
            }
            if !was_full || self.batch.is_empty() {
                return was_full;
            }
        }
        true
    }

    /// Opens the connections that a replay has by now.
    fn open_connections(&mut self, now: u64) {
        let Some(pools) = &mut self.pools else { return };
        while let Some(end) = self.replay.next_open(now) {
            if let Err(error) = pools.open(end, &self.poll, now) {
                self.metrics.record_failed_handshake(&error);
            }
        }
    }

    /// Closes the connections that a replay no longer has.
    fn close_connections(&mut self, now: u64) {
        let Some(pools) = &mut self.pools else { return };
        while let Some(end) = self.replay.next_close(now) {
            pools.finish(end, &mut self.metrics);
        }
    }

    /// Collects the next batch of due queries; returns whether it is full, so that more may be due.
    fn collect_batch(&mut self, now: u64) -> bool {
        self.batch.clear();
        let batch_len = self.udp.as_ref().map_or(TCP_BATCH, UdpSockets::batch_len);
        let (max_outstanding, mut missed) = (self.max_outstanding(now), 0);
        let mut is_full = true;
        while self.batch.len() < batch_len && missed < MAX_MISSED_PER_TURN {
            let outstanding = self.ledger.outstanding.len() + self.batch.len();
            match self.pacer.next(now, outstanding, max_outstanding) {
                Some(Due::Query { number, intended_ns }) => {
                    let number = self.order.get(number as usize).copied().unwrap_or(number);
                    self.batch.push((number, intended_ns));
                }
                Some(Due::Missed { intended_ns }) => {
                    self.ledger.record_missed(intended_ns, now, &mut self.metrics);
                    missed += 1;
                }
                None => {
                    is_full = false;
                    break;
                }
            }
        }
        if let (Some(udp), false) = (&mut self.udp, self.batch.is_empty()) {
            udp.begin_batch();
        }
        is_full
    }

    /// The limit for a closed loop while it opens its connections: each query opens one.
    fn max_outstanding(&self, now: u64) -> usize {
        match (&self.udp, &self.pools) {
            (None, Some(pools)) if !pools.all_opened() => INITIAL_CONNECTIONS + (now / CONNECTION_INTERVAL_NS) as usize,
            _ => usize::MAX,
        }
    }

    fn send(&mut self, number: u32, intended_ns: u64, now: u64) {
        if let Some(pool) = self.choose_pool(number) {
            return self.send_on_connection(pool, number, intended_ns, now);
        }
        let Some(udp) = &mut self.udp else { return };
        let source = match self.replay.udp_client(number) {
            None => udp.next_source(),
            Some((client, port)) => udp.source_of_client(client, port),
        };
        let Some(id) = self.ledger.record_sent(source.number, number, intended_ns, now, &mut self.metrics) else {
            return;
        };
        let refused = udp.push(source, id, self.ledger.message(number));
        self.metrics.refused += refused as u64;
    }

    /// The connection pool for a query; `None` for UDP.
    fn choose_pool(&mut self, number: u32) -> Option<usize> {
        match (&self.udp, &self.pools) {
            (_, None) => None,
            (None, Some(_)) => Some(TCP_POOL),
            (Some(_), Some(_)) if self.tcp_share + self.tls_share == 0.0 => {
                self.ledger.queries.origin(number)?.connection.map(|_| TCP_POOL)
            }
            (Some(_), Some(_)) => match self.random.f64() {
                random if random < self.tcp_share => Some(TCP_POOL),
                random if random < self.tcp_share + self.tls_share => Some(TLS_POOL),
                _ => None,
            },
        }
    }

    fn send_on_connection(&mut self, pool: usize, number: u32, intended_ns: u64, now: u64) {
        let Some(pools) = &mut self.pools else { return };
        match pools.choose(pool, self.replay.end_of(number), &self.poll, now) {
            Ok(connection) => {
                let source = self.ledger.first_connection + connection;
                let sources = self.ledger.first_connection as usize + pools.connection_count();
                self.ledger.outstanding.reserve_sources(sources);
                match self.ledger.record_sent(source, number, intended_ns, now, &mut self.metrics) {
                    Some(id) => pools.push(connection, id, self.ledger.message(number)),
                    None => pools.query_timed_out(connection, now, &mut self.metrics),
                }
            }
            // Out of descriptors or ports.
            Err(error) => {
                self.metrics.record_failed_handshake(&error);
                self.ledger.record_missed(intended_ns, now, &mut self.metrics);
            }
        }
    }

    fn flush(&mut self) {
        if let Some(udp) = &mut self.udp {
            self.metrics.refused += udp.flush() as u64;
        }
        if let Some(pools) = &mut self.pools {
            pools.flush(&self.poll, &mut self.metrics);
        }
    }
}
