//! Limits on TCP connections: their number, transfers per client, memory, idle time, and which connection is closed first
//! (RFC 7766 6.2.3).

use super::Responder;
use super::connection_pool::ConnectionPool;
use super::idle_timeout::shortened_ms;
use super::limits::{EVICTION_CANDIDATES, TRANSFERS_PER_CLIENT};
use super::tcp_connection::TcpConnection;
use super::tcp_worker::TcpWorker;

/// An active connection without progress for this long, more than a lost segment costs, is closed before idle ones.
const STUCK_MS: u32 = 1000;
/// Connections closed at a time for another thread's descriptors: a few, as that thread pauses until it tries again.
const RELEASED: usize = 16;

impl<R: Responder> TcpWorker<R> {
    /// Enforces the limits on transfers and memory after a turn of a connection.
    pub(super) fn enforce_limits(&mut self, index: u32) {
        if let Some(connection) = self.pool.get(index)
            && connection.transfer().is_some()
            && self.pool.transfers_of(connection.peer()) > TRANSFERS_PER_CLIENT
        {
            let peer = connection.peer();
            self.warn(format_args!("{peer} has {TRANSFERS_PER_CLIENT} transfers in progress; another one is refused"));
            self.counters.refused.add(1);
            self.abort(index);
        }
        while self.pool.memory() > self.memory_limit
            && let Some(index) = self.largest_of_oldest()
        {
            if self.remeasure(index) && self.pool.memory() > self.memory_limit {
                self.evict(index);
            }
        }
    }

    /// Of the oldest active connections, the one with the most memory; one that waits for this server only if all of them do.
    fn largest_of_oldest(&mut self) -> Option<u32> {
        // Those at the head of the list that wait for this server are moved to its end.
        self.oldest_not_owed(ConnectionPool::oldest_active);
        let memory = |index| self.pool.get(index).map_or(0, TcpConnection::memory);
        let oldest = self.pool.active().take(EVICTION_CANDIDATES);
        oldest.max_by_key(|index| (!self.responder.late.keeps_open(*index), memory(*index)))
    }

    /// Measures the kernel's memory for a connection again, as its client may have received everything since. Returns whether it is
    /// still active.
    fn remeasure(&mut self, index: u32) -> bool {
        let updated = self.pool.update(index, self.now_ms, |connection| {
            connection.measure_kernel_memory();
            Ok(false)
        });
        updated.is_ok() && self.pool.get(index).is_some_and(TcpConnection::is_active)
    }

    /// Closes a connection to make room: one stuck in the middle of a message or of unread responses, else the longest idle, else
    /// the oldest. Of each list, up to [`EVICTION_CANDIDATES`] that wait for this server are passed over. Returns whether there was one.
    pub(super) fn make_room(&mut self) -> bool {
        let index = self
            .stuck()
            .or_else(|| self.oldest_not_owed(ConnectionPool::oldest_idle))
            .or_else(|| self.oldest_not_owed(ConnectionPool::oldest_active))
            .or_else(|| self.pool.oldest_idle())
            .or_else(|| self.pool.oldest_active());
        index.inspect(|index| self.evict(*index)).is_some()
    }

    /// Closes stuck and idle connections for their descriptors.
    pub(super) fn release_descriptors(&mut self) {
        for _ in 0..RELEASED {
            let index = self.stuck().or_else(|| self.oldest_not_owed(ConnectionPool::oldest_idle));
            let Some(index) = index else { return };
            self.evict(index);
        }
    }

    /// The oldest active connection, if it is stuck.
    fn stuck(&mut self) -> Option<u32> {
        while let Some(index) = self.oldest_not_owed(ConnectionPool::oldest_active)
            && self.pool.age_ms(index, self.now_ms) >= STUCK_MS
        {
            if self.remeasure(index) {
                return Some(index);
            }
        }
        None
    }

    /// The oldest connection of a list that does not wait for this server, which may take seconds to forward or store an update.
    fn oldest_not_owed(&mut self, oldest: fn(&ConnectionPool) -> Option<u32>) -> Option<u32> {
        for _ in 0..EVICTION_CANDIDATES {
            let index = oldest(&self.pool)?;
            if !self.renew_if_owed(index) {
                return Some(index);
            }
        }
        None
    }

    /// RFC 7766 3: a connection is not idle before it has all its responses. Counts one that waits for this server as new; returns whether
    /// it does.
    fn renew_if_owed(&mut self, index: u32) -> bool {
        let is_owed = self.responder.late.keeps_open(index);
        if is_owed {
            // It fails only if the change does.
            _ = self.pool.update(index, self.now_ms, |_| Ok(true));
        }
        is_owed
    }

    fn evict(&mut self, index: u32) {
        self.counters.evicted.add(1);
        self.abort(index);
    }

    /// Closes connections for which other threads need the places.
    pub(super) fn close_excess(&mut self) {
        while self.pool.has_excess() && self.make_room() {}
    }

    /// The idle timeout: as configured while half of the places are vacant, then less and less, down to a tenth when none is
    /// (RFC 7766 6.2.3). Clients that ask for it are sent the current one (RFC 7828 3.4).
    pub(super) fn idle_timeout_ms(&self) -> u32 {
        let (connections, places) = self.pool.occupancy();
        shortened_ms(self.configured_idle_timeout_ms, connections, places)
    }

    /// Closes the connections without progress for the idle timeout, unless they wait for this server.
    pub(super) fn close_expired(&mut self) {
        while let Some(index) = self.pool.expired(self.now_ms, self.idle_timeout_ms()) {
            if !self.renew_if_owed(index) {
                self.counters.expired.add(1);
                self.abort(index);
            }
        }
    }

    pub(super) fn abort(&mut self, index: u32) {
        if let Some(connection) = self.remove(index) {
            connection.abort();
        }
    }
}
