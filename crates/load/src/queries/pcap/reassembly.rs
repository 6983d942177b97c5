//! TCP streams of a capture put together again, one direction of them.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use super::frame::{Payload, Segment};
use crate::stream::split_message;

/// Octets that a stream may hold beyond what is whole: a lost segment must not make it hold the rest of the capture.
const MAX_HELD: usize = 256 << 10;

/// The streams of a capture, by their ends.
#[derive(Default)]
pub struct Streams(HashMap<(IpAddr, u16, IpAddr, u16), Stream>);

#[derive(Default)]
struct Stream {
    /// The sequence number of the octet behind `whole`.
    next: Option<u32>,
    /// Octets in order that make no whole message yet.
    whole: Vec<u8>,
    /// Segments ahead of them, by their sequence numbers.
    ahead: BTreeMap<u32, Vec<u8>>,
    held: usize,
}

impl Streams {
    /// Takes a segment; returns the messages that it makes whole.
    pub fn take(&mut self, segment: &Segment<'_>) -> Vec<Vec<u8>> {
        let Payload::Tcp { port, sequence, is_syn, octets } = segment.payload else { return Vec::new() };
        let stream = self.0.entry((segment.source, segment.source_port, segment.destination, port)).or_default();
        if is_syn {
            // RFC 9293 3.4: the SYN takes a sequence number.
            *stream = Stream { next: Some(sequence.wrapping_add(1)), ..Stream::default() };
        }
        stream.take(if is_syn { sequence.wrapping_add(1) } else { sequence }, octets);
        stream.messages()
    }
}

impl Stream {
    fn take(&mut self, sequence: u32, octets: &[u8]) {
        if octets.is_empty() || self.held + octets.len() > MAX_HELD {
            return;
        }
        // A stream that began before the capture is taken from where it is seen first.
        self.next.get_or_insert(sequence);
        self.held += octets.len();
        self.ahead.insert(sequence, octets.to_vec());
        while let Some((sequence, octets)) = self.following() {
            let next = self.next.unwrap_or(sequence);
            let known = next.wrapping_sub(sequence) as usize;
            self.held -= octets.len();
            if let Some(new) = octets.get(known..) {
                self.whole.extend_from_slice(new);
                self.next = Some(next.wrapping_add(new.len() as u32));
            }
        }
    }

    /// Takes out a segment that begins at or before the next octet.
    fn following(&mut self) -> Option<(u32, Vec<u8>)> {
        let next = self.next?;
        let is_due = |sequence: u32| next.wrapping_sub(sequence) < 1 << 31;
        let sequence = *self.ahead.keys().find(|&&sequence| is_due(sequence))?;
        self.ahead.remove_entry(&sequence)
    }

    fn messages(&mut self) -> Vec<Vec<u8>> {
        let (mut messages, mut rest) = (Vec::new(), &self.whole[..]);
        while let Some((message, behind)) = split_message(rest) {
            messages.push(message.to_vec());
            rest = behind;
        }
        self.whole = rest.to_vec();
        messages
    }
}
