//! The streams whose responses another thread sends later, by their tickets: what [`LateReplies`] calls the index of a connection.
//!
//! [`LateReplies`]: super::super::late_reply::LateReplies

use quinn_proto::StreamId;
use std::collections::HashMap;

/// The streams of one thread that wait. Bounded by the queue of updates.
#[derive(Default)]
pub(super) struct LateStreams {
    waiting: HashMap<u32, (u32, StreamId)>,
    next: u32,
}

impl LateStreams {
    /// A ticket that no stream has.
    pub(super) fn next_ticket(&mut self) -> u32 {
        while self.waiting.contains_key(&self.next) {
            self.next = self.next.wrapping_add(1);
        }
        self.next
    }

    /// The response to the query of a stream comes later.
    pub(super) fn wait(&mut self, ticket: u32, connection: u32, id: StreamId) {
        self.waiting.insert(ticket, (connection, id));
        self.next = ticket.wrapping_add(1);
    }

    /// The connection and the stream that wait for a response, which has come.
    pub(super) fn take(&mut self, ticket: u32) -> Option<(u32, StreamId)> {
        self.waiting.remove(&ticket)
    }

    /// A stream is over.
    pub(super) fn forget(&mut self, ticket: u32) {
        self.waiting.remove(&ticket);
    }
}
