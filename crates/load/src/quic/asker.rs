//! The queries of a QUIC connection, each on a stream of its own.

use std::collections::HashMap;
use std::time::Instant;

use quinn_proto::{Connection, StreamId, VarInt};

/// RFC 9250 4.3: DOQ_REQUEST_CANCELLED.
const REQUEST_CANCELLED: VarInt = VarInt::from_u32(3);

/// The queries of a connection.
#[derive(Default)]
pub(super) struct Asker {
    pub(super) responses: u64,
    /// When the last response had arrived.
    answered: Option<Instant>,
    /// The server has given no stream for the last query.
    pub(super) is_out_of_streams: bool,
    pub(super) exchanges: HashMap<StreamId, Exchange>,
}

/// A query and its response.
pub(super) struct Exchange {
    pub(super) query: u32,
    /// When it should have been sent; in a closed loop, when it was.
    pub(super) intended: Instant,
    pub(super) sent: Instant,
    /// Whether it was sent after the warm-up.
    pub(super) is_counted: bool,
    pub(super) input: Vec<u8>,
}

impl Asker {
    /// Reads what has arrived on a stream; returns its exchange once it has ended.
    pub(super) fn read(&mut self, connection: &mut Connection, id: StreamId) -> Option<Exchange> {
        let exchange = self.exchanges.get_mut(&id)?;
        let mut stream = connection.recv_stream(id);
        let mut chunks = stream.read(true).ok()?;
        let has_ended = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => exchange.input.extend_from_slice(&chunk.bytes),
                Ok(None) => break true,
                Err(quinn_proto::ReadError::Blocked) => break false,
                Err(quinn_proto::ReadError::Reset(_)) => break true,
            }
        };
        _ = chunks.finalize(); // Window updates are sent with the next datagrams.
        if !has_ended {
            return None;
        }
        self.responses += 1;
        self.answered = Some(Instant::now());
        self.exchanges.remove(&id)
    }

    /// Whether the query that was sent at this time on the stream has no response yet.
    pub(super) fn awaits(&self, id: StreamId, sent: Instant) -> bool {
        self.exchanges.get(&id).is_some_and(|exchange| exchange.sent == sent)
    }

    /// Cancels the query of a stream (RFC 9250 4.3.1) and returns its exchange.
    pub(super) fn cancel(&mut self, connection: &mut Connection, id: StreamId) -> Option<Exchange> {
        _ = connection.recv_stream(id).stop(REQUEST_CANCELLED);
        self.exchanges.remove(&id)
    }

    /// Whether nothing has been answered since then.
    pub(super) fn is_silent_since(&self, since: Instant) -> bool {
        self.answered.is_none_or(|at| at < since)
    }
}
