//! A connection of a [`super::ConnectionPool`]: its outstanding queries, what it has to write and what it has read.

use std::io::{self, ErrorKind, Read};

use netio::epoll::Interest;
use netio::is_not_ready;
use wire::framing::split_message;

use crate::answer_window::Handshake;
use crate::connection::Connection;
use crate::metrics::Metrics;

/// A connection of a pool, with its queries.
pub struct PooledConnection {
    pub connection: Connection,
    pub slot: usize,
    /// Until it is established, `established_ns` is when it was opened.
    pub handshake: Handshake,
    pub is_established: bool,
    /// Whether it gets no further queries.
    pub is_draining: bool,
    pub interest: Interest,
    /// Queries sent, or queued to be sent.
    pub sent: u32,
    /// Queries answered or timed out.
    pub completed: u32,
    /// When the last outstanding query was answered or timed out.
    pub idle_since_ns: u64,
    pub has_idle_check: bool,
    pub outgoing: Vec<u8>,
    /// The beginning of an incomplete message.
    pub incoming: Vec<u8>,
}

impl PooledConnection {
    /// A connection that is being established.
    pub fn opening(connection: Connection, slot: usize, now_ns: u64) -> PooledConnection {
        PooledConnection {
            connection,
            slot,
            handshake: Handshake { opened_ns: now_ns, established_ns: now_ns },
            is_established: false,
            is_draining: false,
            interest: Interest::Writable,
            sent: 0,
            completed: 0,
            idle_since_ns: now_ns,
            has_idle_check: false,
            outgoing: Vec::new(),
            incoming: Vec::new(),
        }
    }

    /// Queues a query, preceded by its length (RFC 1035 4.2.2); returns whether none was queued before.
    pub fn push(&mut self, message_id: u16, message: &[u8]) -> bool {
        let was_flushed = self.outgoing.is_empty();
        self.outgoing.extend_from_slice(&(message.len() as u16).to_be_bytes());
        self.outgoing.extend_from_slice(&message_id.to_be_bytes());
        self.outgoing.extend_from_slice(&message[2..]);
        was_flushed
    }

    pub fn is_idle(&self) -> bool {
        self.completed >= self.sent
    }

    pub fn is_drained(&self) -> bool {
        self.is_draining && self.is_idle()
    }

    pub fn record_established(&mut self, now_ns: u64, metrics: &mut Metrics) {
        self.is_established = true;
        metrics.handshakes += 1;
        metrics.handshakes_resumed += u64::from(self.connection.is_resumed());
        self.handshake.established_ns = now_ns;
        metrics.handshake.saturating_record(now_ns - self.handshake.opened_ns);
    }

    pub fn write(&mut self) -> io::Result<()> {
        self.connection.write_queued(&mut self.outgoing)
    }

    /// Reads once and passes each complete message to `on_response`. The end of the stream is an error.
    pub fn read(&mut self, buffer: &mut [u8], mut on_response: impl FnMut(&[u8]) -> bool) -> io::Result<()> {
        let buffered = self.incoming.len();
        buffer[..buffered].copy_from_slice(&self.incoming);
        let len = match self.connection.read(&mut buffer[buffered..]) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(len) => buffered + len,
            Err(error) if is_not_ready(&error) => return Ok(()),
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
