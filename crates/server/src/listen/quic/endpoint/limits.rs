//! Limits on QUIC connections: transfers per client, memory, their number, and which connection is closed first.

use super::turns::transmit;
use super::{DatagramQueue, QuicEndpoint};
use crate::listen::Responder;
use crate::listen::limits::TRANSFERS_PER_CLIENT;
use crate::listen::panic_guard::catch_panic;
use crate::listen::quic::DoqError;
use crate::listen::quic::connection::{ConnectionTurn, QuicConnection};
use quinn_proto::{ConnectionHandle, EndpointEvent};
use std::time::Instant;

impl<R: Responder> QuicEndpoint<R> {
    /// Enforces the limits on transfers and memory after a turn of a connection.
    pub(super) fn enforce_limits(&mut self, index: u32, now: Instant, out: &mut impl DatagramQueue) {
        while let Some(connection) = self.table.get(index)
            && connection.transfers() > 0
            && self.table.transfers_of(connection.peer.ip()) > TRANSFERS_PER_CLIENT
        {
            self.counters.refused.add(1);
            self.warn("a client has too many transfers in progress; another one is refused");
            self.change(index, now, |connection, turn| connection.refuse_transfer(turn));
            self.make_ready(index);
        }
        while self.table.memory() > self.memory_limit
            && let Some(largest) = self.largest_of_oldest(now)
        {
            self.evict(largest, now, out);
        }
    }

    /// Of the oldest connections with memory besides what each has, the one with the most; one that waits for this server only if all of
    /// them do.
    fn largest_of_oldest(&mut self, now: Instant) -> Option<u32> {
        self.renew_owed(now);
        let oldest = self.table.oldest_with_memory();
        oldest.max_by_key(|(memory, index)| (!self.is_owed(*index), *memory)).map(|(_, index)| index)
    }

    /// Closes the connection with the least recent progress; one that waits for this server only if all of the oldest do. Returns whether
    /// there was one.
    pub(super) fn make_room(&mut self, now: Instant, out: &mut impl DatagramQueue) -> bool {
        self.renew_owed(now);
        let oldest = self.table.oldest().min_by_key(|(progress, index)| (self.is_owed(*index), *progress));
        oldest.inspect(|(_, index)| self.evict(*index, now, out)).is_some()
    }

    /// RFC 7766 3, as over TCP: counts those of the oldest connections as new that wait for this server, which may take seconds to forward or
    /// store an update.
    fn renew_owed(&mut self, now: Instant) {
        let owed = self.table.oldest().map(|(_, index)| index).filter(|index| self.is_owed(*index));
        for index in owed.collect::<Vec<u32>>() {
            self.table.update(index, now, |_| ((), true));
        }
    }

    fn is_owed(&self, index: u32) -> bool {
        self.table.get(index).is_some_and(|connection| connection.awaits_late_response(&self.responder))
    }

    /// Closes a connection and forgets it: further packets of its client are answered by a stateless reset.
    fn evict(&mut self, index: u32, now: Instant, out: &mut impl DatagramQueue) {
        let close = || {
            if self.table.get(index).is_some_and(|connection| !connection.inner.is_closed()) {
                self.counters.evicted.add(1);
                self.close(index, DoqError::ExcessiveLoad, now);
            }
            self.table.update(index, now, |connection| (transmit(connection, now, out), false));
        };
        if catch_panic(close).is_none() {
            self.counters.panics.add(1);
        }
        self.forget(index, now);
    }

    pub(super) fn forget(&mut self, index: u32, now: Instant) {
        // It still has streams if it panicked, and may panic again.
        let drop_streams = || self.change(index, now, |connection, turn| connection.drop_streams(turn));
        if catch_panic(drop_streams).is_none() {
            self.counters.panics.add(1);
        }
        if self.table.remove(index).is_some() {
            self.endpoint.handle_event(ConnectionHandle(index as usize), EndpointEvent::drained());
        }
    }

    pub(super) fn close(&mut self, index: u32, error: DoqError, now: Instant) {
        self.change(index, now, |connection, turn| connection.close(error, turn));
    }

    fn change(
        &mut self,
        index: u32,
        now: Instant,
        change: impl FnOnce(&mut QuicConnection, &mut ConnectionTurn<'_, R>),
    ) {
        let (_, table, mut turn) = self.parts(false, now);
        table.update(index, now, |connection| (change(connection, &mut turn), false));
    }
}
