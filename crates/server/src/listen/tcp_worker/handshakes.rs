//! TLS handshakes: their threads begin and end them, and give the connections to those that serve them.

use super::TcpWorker;
use crate::listen::Responder;
use crate::listen::handover::Route;
use crate::listen::panic_guard::catch_panic;
use crate::listen::tls_connection::TlsConnection;
use netio::clock;
use std::io;

/// Turns of handshakes per round: as many as connections are accepted.
const TURNS: usize = super::ACCEPTS;

impl<R: Responder> TcpWorker<R> {
    /// Begins with the messages of a connection and returns true, or with its TLS handshake, which waits for its turn.
    pub(super) fn begin(&mut self, index: u32) -> bool {
        let Route::Give(tls, _) = &self.route else { return true };
        let tls = TlsConnection::new(tls);
        self.change(index, |connection| connection.start_tls(tls));
        false
    }

    /// A turn of a handshake that waits, after those of connections that turn out to be gone: a flood of these would fill all places otherwise.
    pub(super) fn handshake_turns(&mut self) {
        for _ in 0..TURNS {
            let Some(index) = self.handshakes.next(self.now_ms) else { return };
            let begin = clock::thread_cpu();
            let result = self.handshake_turn(index);
            self.handshakes.charge(clock::thread_cpu().saturating_sub(begin));
            match result {
                Ok(()) => return self.end_handshake_turn(index),
                Err(error) => self.fail(index, &error),
            }
        }
    }

    fn handshake_turn(&mut self, index: u32) -> io::Result<()> {
        let (input, panics) = (&mut self.input, &self.counters.panics);
        self.pool.update(index, self.now_ms, |connection| {
            catch_panic(|| connection.handshake_turn(input)).unwrap_or_else(|| {
                panics.add(1);
                Err(io::Error::other("a panic"))
            })
        })
    }

    /// Polls for a connection again, or gives it away if its handshake is complete.
    pub(super) fn end_handshake_turn(&mut self, index: u32) {
        let Some(connection) = self.pool.get(index) else { return };
        if connection.is_handshaking() {
            if self.poll.add(connection.stream(), index.into(), connection.interest()).is_err() {
                return drop(self.remove(index));
            }
            return self.enforce_limits(index);
        }
        self.counters.resumed.add(usize::from(connection.is_resumed()));
        let (Route::Give(_, threads), Some(connection)) = (&self.route, self.pool.hand_over(index)) else { return };
        self.given = self.given.wrapping_add(1);
        threads[self.given % threads.len()].give(connection);
    }

    /// Serves the connections whose handshakes are complete.
    pub(super) fn take_connections(&mut self) {
        let Route::Take(handover) = &self.route else { return };
        let handover = handover.clone();
        if handover.take_request() {
            self.release_descriptors();
        }
        for connection in handover.take() {
            self.pool.receive(&connection);
            self.make_room_if_full();
            let Some(index) = self.pool.adopt(connection, self.now_ms) else { continue };
            let Some(connection) = self.pool.get(index) else { continue };
            match self.poll.add(connection.stream(), index.into(), connection.interest()) {
                Ok(()) => self.turn(index),
                Err(_) => drop(self.remove(index)),
            }
        }
    }
}
