//! The turns of connections in a round: for what has arrived, for late responses, and for timers.

use super::{DatagramQueue, QuicEndpoint};
use crate::listen::Responder;
use crate::listen::late_reply::LateResponse;
use crate::listen::panic_guard::catch_panic;
use crate::listen::quic::DoqError;
use crate::listen::quic::connection::QuicConnection;
use quinn_proto::{ConnectionHandle, Endpoint};
use std::time::Instant;

/// Datagrams or bursts that a connection sends in a turn.
const TURN_TRANSMITS: usize = 8;

impl<R: Responder> QuicEndpoint<R> {
    /// One turn of a connection, which may be its last. If `may_fill`, a transfer may write more of its zone.
    pub(super) fn turn(&mut self, index: u32, may_fill: bool, now: Instant, out: &mut impl DatagramQueue) {
        let begin = self.begin_step(index);
        let (endpoint, table, mut turn) = self.parts(may_fill, now);
        let state = catch_panic(|| {
            table.update(index, now, |connection| {
                let progress = connection.turn(&mut turn);
                let is_over = handle_endpoint_events(endpoint, index, connection);
                let is_blocked = is_over || transmit(connection, now, out);
                ((is_over, !is_blocked || connection.wants_turn), progress)
            })
        });
        self.charge(begin);
        let Some(state) = state else {
            self.counters.panics.add(1);
            return self.forget(index, now);
        };
        match state {
            Some((true, _)) => _ = self.table.remove(index),
            Some((false, has_more)) => {
                if has_more {
                    self.make_ready(index);
                }
                if catch_panic(|| self.enforce_limits(index, now, out)).is_none() {
                    self.counters.panics.add(1);
                    self.forget(index, now);
                }
            }
            None => {}
        }
    }

    /// Gives turns to connections with transfers, which share the octets of the round. Those for which none are left are the first in the next
    /// round, for which there is no wait.
    pub(super) fn transfer_turns(&mut self, mut indexes: Vec<u32>, now: Instant, out: &mut impl DatagramQueue) {
        self.responder.share_among_transfers(indexes.len());
        let first = indexes.partition_point(|index| *index < self.next_transfer);
        indexes.rotate_left(first);
        for index in indexes {
            if self.responder.may_transfer() {
                self.next_transfer = index + 1;
            }
            self.turn(index, true, now, out);
        }
    }

    pub(super) fn queue_late_responses(&mut self, now: Instant) {
        for response in self.responder.late.take() {
            if catch_panic(|| self.queue_late_response(&response, now)).is_none() {
                self.counters.panics.add(1);
            }
        }
    }

    fn queue_late_response(&mut self, response: &LateResponse, now: Instant) {
        let Some((index, id)) = self.late.take(response.index) else { return };
        self.table.update(index, now, |connection| (connection.respond_late(id, &response.octets), true));
        self.make_ready(index);
    }

    pub(super) fn handle_timers(&mut self, now: Instant) {
        while let Some((index, is_expired)) = self.table.fired(now) {
            if catch_panic(|| self.handle_timer(index, is_expired, now)).is_none() {
                self.counters.panics.add(1);
                self.forget(index, now);
            }
        }
    }

    fn handle_timer(&mut self, index: u32, is_expired: bool, now: Instant) {
        let Some(connection) = self.table.get(index) else { return };
        let is_kept = is_expired && connection.awaits_late_response(&self.responder);
        self.table.update(index, now, |connection| (connection.inner.handle_timeout(now), is_kept));
        if is_expired && !is_kept {
            self.counters.expired.add(1);
            let is_idle = self.table.get(index).is_some_and(QuicConnection::is_idle);
            self.close(index, if is_idle { DoqError::NoError } else { DoqError::ExcessiveLoad }, now);
        }
        self.make_ready(index);
    }
}

/// Passes what a connection reports on to the endpoint. Returns whether that was its last event.
fn handle_endpoint_events(endpoint: &mut Endpoint, index: u32, connection: &mut QuicConnection) -> bool {
    let mut is_over = false;
    while let Some(event) = connection.inner.poll_endpoint_events() {
        is_over |= event.is_drained();
        if let Some(event) = endpoint.handle_event(ConnectionHandle(index as usize), event) {
            connection.inner.handle_event(event);
        }
    }
    is_over
}

/// Queues what a connection may send; returns whether that was all.
pub(super) fn transmit(connection: &mut QuicConnection, now: Instant, out: &mut impl DatagramQueue) -> bool {
    for _ in 0..TURN_TRANSMITS {
        let segments = out.max_segments(connection.socket);
        let buffer = out.buffer(connection.socket);
        match connection.inner.poll_transmit(now, segments, buffer) {
            Some(transmit) => out.queue(connection.socket, &transmit),
            None => return true,
        }
    }
    false
}
