//! Reassembles captured TCP streams, one direction of each.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use super::frame::{Packet, Payload};
use crate::framing::split_message;

/// How many octets may wait for a missing segment: a lost one must not make a stream buffer the rest of the capture.
const MAX_BUFFERED: usize = 256 << 10;

/// The streams of a capture, by source and destination.
#[derive(Default)]
pub struct TcpReassembler(HashMap<(IpAddr, u16, IpAddr, u16), ReassembledStream>);

#[derive(Default)]
struct ReassembledStream {
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
    /// Adds a TCP segment; returns the messages that it completes.
    pub fn add(&mut self, packet: &Packet<'_>) -> Vec<Vec<u8>> {
        let Payload::Tcp { port, sequence, is_syn, octets } = packet.payload else { return Vec::new() };
        let stream = self.0.entry((packet.source, packet.source_port, packet.destination, port)).or_default();
        if is_syn {
            // RFC 9293 3.4: the SYN occupies a sequence number.
            *stream = ReassembledStream { next: Some(sequence.wrapping_add(1)), ..ReassembledStream::default() };
        }
        stream.add(if is_syn { sequence.wrapping_add(1) } else { sequence }, octets);
        stream.complete_messages()
    }
}

impl ReassembledStream {
    fn add(&mut self, sequence: u32, octets: &[u8]) {
        if octets.is_empty() || self.buffered + octets.len() > MAX_BUFFERED {
            return;
        }
        // A stream that is older than the capture begins at its first captured segment.
        self.next.get_or_insert(sequence);
        self.buffered += octets.len();
        self.segments.insert(sequence, octets.to_vec());
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
