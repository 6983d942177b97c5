//! The queries of a run, encoded before it starts: to send one is to copy it and to set its id.

pub mod file;
pub mod maintenance;
pub mod pcap;
mod template;
pub mod zone;

use std::cmp::Reverse;
use std::sync::Arc;

use wire::{HEADER_LEN, NameRef, Rtype};

pub use self::template::{OPTION_COOKIE, OPTION_ECS, QueryEncoder, QueryTemplate};

/// The maximum length of a query, in octets.
pub const MAX_QUERY_LEN: usize = 1400;

/// Encoded queries, numbered from 0. A run sends them in order, and from the start again after the last one.
#[derive(Clone, Debug, Default)]
pub struct Queries {
    bytes: Vec<u8>,
    spans: Vec<Span>,
    /// By number; empty unless the queries were captured.
    origins: Vec<CaptureOrigin>,
    /// By number, in the order of opening.
    connections: Vec<CapturedConnection>,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    start: usize,
    len: u16,
    question_end: u16,
}

/// When, by whom and over what a query was sent when it was captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureOrigin {
    /// Nanoseconds after the capture's first packet to the server.
    pub time_ns: u64,
    /// The number of the client (its address), in order of appearance.
    pub client: u32,
    /// The client's port.
    pub port: u16,
    /// The number of the TCP connection that it was sent on; `None` for UDP.
    pub connection: Option<u32>,
}

/// A TCP connection in a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapturedConnection {
    /// The number of the client.
    pub client: u32,
    /// The client's port.
    pub port: u16,
    /// When the client opened it, in nanoseconds as in [`CaptureOrigin::time_ns`].
    pub opened_ns: u64,
    /// When the client closed it; `None` if the capture ended first.
    pub closed_ns: Option<u64>,
}

/// An encoded query.
#[derive(Clone, Copy, Debug)]
pub struct Query<'q> {
    /// The message, with id 0.
    pub message: &'q [u8],
    question_end: usize,
}

impl<'q> Query<'q> {
    /// Its question in wire format: name, type, class.
    #[inline]
    pub fn question(&self) -> &'q [u8] {
        &self.message[HEADER_LEN..self.question_end]
    }
}

/// Why a message cannot be sent as a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// It is a response, or does not have exactly one question.
    #[error("the message is not a query with one question")]
    Kind,
    /// It is truncated.
    #[error("the message ends too early")]
    Short,
    /// It is longer than [`MAX_QUERY_LEN`].
    #[error("the message has more than {MAX_QUERY_LEN} octets")]
    Long,
}

impl Queries {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Query number `number`, which is below [`Queries::len`].
    #[inline]
    pub fn at(&self, number: u32) -> Query<'_> {
        let span = self.spans[number as usize];
        let message = &self.bytes[span.start..span.start + usize::from(span.len)];
        Query { message, question_end: span.question_end.into() }
    }

    /// The origin of a captured query.
    pub fn origin(&self, number: u32) -> Option<CaptureOrigin> {
        self.origins.get(number as usize).copied()
    }

    /// The origins of all queries; empty unless they were captured.
    pub fn origins(&self) -> &[CaptureOrigin] {
        &self.origins
    }

    /// The numbers of the captured queries that worker number `index` of `count` sends: those of its clients, so that no client
    /// has its connections in two threads.
    pub fn share(&self, index: usize, count: usize) -> Arc<[u32]> {
        let origins = self.origins.iter().zip(0..);
        origins.filter(|(origin, _)| origin.client as usize % count == index).map(|(_, number)| number).collect()
    }

    /// The TCP connections of the capture, also those without a query.
    pub fn connections(&self) -> &[CapturedConnection] {
        &self.connections
    }

    /// The numbers of all queries, sorted by descending length within every `window` consecutive ones.
    ///
    /// A segment burst has equal lengths, except for a shorter last one; so bursts in this order are longer.
    pub fn sorted_by_length(&self, window: usize) -> Arc<[u32]> {
        let mut order: Vec<u32> = (0..self.len() as u32).collect();
        for consecutive in order.chunks_mut(window) {
            consecutive.sort_by_key(|&number| Reverse(self.at(number).message.len()));
        }
        order.into()
    }

    /// Adds a query message (RFC 1035 4.1); its id is set to 0.
    pub fn push(&mut self, message: &[u8]) -> Result<(), QueryError> {
        let (header, rest) = message.split_at_checked(HEADER_LEN).ok_or(QueryError::Short)?;
        if header[2] & 0x80 != 0 || header[4..6] != [0, 1] {
            return Err(QueryError::Kind);
        }
        if message.len() > MAX_QUERY_LEN {
            return Err(QueryError::Long);
        }
        let name = NameRef::from_wire(rest).map_err(|_| QueryError::Short)?;
        let question_end = HEADER_LEN + name.wire().len() + 4;
        if message.len() < question_end {
            return Err(QueryError::Short);
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(message);
        self.bytes[start..start + 2].fill(0);
        self.spans.push(Span { start, len: message.len() as u16, question_end: question_end as u16 });
        Ok(())
    }

    /// Adds a captured query.
    pub fn push_captured(&mut self, message: &[u8], origin: CaptureOrigin) -> Result<(), QueryError> {
        self.push(message)?;
        self.origins.push(origin);
        Ok(())
    }

    /// Sets the connections that captured queries refer to.
    pub fn set_connections(&mut self, connections: Vec<CapturedConnection>) {
        self.connections = connections;
    }

    /// The type that a query asks for.
    pub fn qtype(&self, number: u32) -> Rtype {
        let question = self.at(number).question();
        Rtype(u16::from_be_bytes([question[question.len() - 4], question[question.len() - 3]]))
    }

    /// The question of a query as text, `name type`.
    pub fn describe(&self, number: u32) -> String {
        describe_question(self.at(number).question())
    }
}

/// A question in wire format as text, `name type`.
pub fn describe_question(question: &[u8]) -> String {
    let describe = || {
        let name = NameRef::from_wire(question).ok()?;
        let rtype = question.get(name.wire().len()..)?.first_chunk()?;
        Some(format!("{name} {}", Rtype(u16::from_be_bytes(*rtype))))
    };
    describe().unwrap_or_else(|| "a malformed question".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Class;

    #[test]
    fn only_queries_are_accepted() {
        let mut queries = Queries::default();
        let mut encoder = QueryEncoder::new(&QueryTemplate::default());
        encoder.push(NameRef::ROOT, Rtype::NS, Class::IN);
        let good = encoder.finish().at(0).message.to_vec();
        assert_eq!(queries.push(&good), Ok(()));
        assert_eq!(queries.push(&good[..good.len() - 1]), Err(QueryError::Short));
        let mut response = good.clone();
        response[2] |= 0x80;
        assert_eq!(queries.push(&response), Err(QueryError::Kind));
        assert_eq!(queries.len(), 1);
    }
}
