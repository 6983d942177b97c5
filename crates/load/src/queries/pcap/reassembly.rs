//! Reassembles captured TCP streams, one direction of each.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use wire::framing::split_message;

use super::frame::{Packet, Payload};

/// How many octets may wait for a missing segment: a lost one must not make a stream buffer the rest of the capture.
const MAX_BUFFERED: usize = 256 << 10;

/// The streams of a capture, by source and destination.
#[derive(Default)]
pub struct TcpReassembler {
    streams: HashMap<(IpAddr, u16, IpAddr, u16), ReassembledStream>,
    /// How many connections have been opened.
    connections: u32,
}

/// What a segment means for its connection.
#[derive(Debug, PartialEq, Eq)]
pub struct SegmentEffect {
    /// The number of the connection, in the order in which they were established.
    pub connection: u32,
    /// If the segment is the first one of an established connection: the time of its SYN, or of the segment if the
    /// connection is older than the capture.
    pub opened_ns: Option<u64>,
    /// Whether the client has closed it.
    pub is_closed: bool,
    /// The messages that the segment completes.
    pub messages: Vec<Vec<u8>>,
}

#[derive(Default)]
struct ReassembledStream {
    /// When the SYN was captured.
    opened_ns: Option<u64>,
    /// The number of the connection, once it is established.
    connection: Option<u32>,
    /// The sequence number that follows `in_order`.
    next: Option<u32>,
    /// Reassembled octets of an incomplete message.
    in_order: Vec<u8>,
    /// Segments not reassembled yet, by sequence number.
    segments: BTreeMap<u32, Vec<u8>>,
    /// The octets in `segments`.
    buffered: usize,
}

impl TcpReassembler {
    /// Adds a TCP segment; `None` if it belongs to no connection that was established, such as a scan.
    pub fn add(&mut self, time_ns: u64, packet: &Packet<'_>) -> Option<SegmentEffect> {
        let Payload::Tcp { port, sequence, is_syn, is_end, octets } = packet.payload else { return None };
        let stream = self.streams.entry((packet.source, packet.source_port, packet.destination, port)).or_default();
        // RFC 9293 3.4: the SYN occupies a sequence number.
        let first = sequence.wrapping_add(u32::from(is_syn));
        // The segment may be a retransmitted SYN.
        if is_syn && (stream.next != Some(first) || stream.connection.is_some()) {
            *stream = ReassembledStream { next: Some(first), opened_ns: Some(time_ns), ..ReassembledStream::default() };
        }
        let is_established = !is_syn && (stream.opened_ns.is_some() && !is_end || !octets.is_empty());
        let is_new = is_established && stream.connection.is_none();
        if is_new {
            stream.connection = Some(self.connections);
            self.connections += 1;
        }
        stream.add(first, octets);
        let opened_ns = is_new.then(|| stream.opened_ns.unwrap_or(time_ns));
        stream.connection.map(|connection| SegmentEffect {
            connection,
            opened_ns,
            is_closed: is_end,
            messages: stream.complete_messages(),
        })
    }
}

impl ReassembledStream {
    fn add(&mut self, sequence: u32, octets: &[u8]) {
        if octets.is_empty() || self.buffered + octets.len() > MAX_BUFFERED {
            return;
        }
        // A stream that is older than the capture begins at its first captured segment.
        self.next.get_or_insert(sequence);
        // A retransmission may have more octets than the segment before it, or fewer.
        let known_len = self.segments.get(&sequence).map_or(0, Vec::len);
        if octets.len() > known_len {
            self.buffered += octets.len() - known_len;
            self.segments.insert(sequence, octets.to_vec());
        }
        while let Some((sequence, octets)) = self.next_segment() {
            let next = self.next.unwrap_or(sequence);
            let known = next.wrapping_sub(sequence) as usize;
            self.buffered -= octets.len();
            if let Some(new) = octets.get(known..) {
                self.in_order.extend_from_slice(new);
                self.next = Some(next.wrapping_add(new.len() as u32));
            }
        }
    }

    /// Removes a segment that begins at or before the next octet.
    fn next_segment(&mut self) -> Option<(u32, Vec<u8>)> {
        let next = self.next?;
        let is_due = |sequence: u32| next.wrapping_sub(sequence) < 1 << 31;
        let sequence = *self.segments.keys().find(|&&sequence| is_due(sequence))?;
        self.segments.remove_entry(&sequence)
    }

    fn complete_messages(&mut self) -> Vec<Vec<u8>> {
        let (mut messages, mut rest) = (Vec::new(), &self.in_order[..]);
        while let Some((message, after)) = split_message(rest) {
            messages.push(message.to_vec());
            rest = after;
        }
        self.in_order = rest.to_vec();
        messages
    }
}
