//! Queries from a capture, with the time, the client and the transport of each.
//!
//! Reads pcap and pcapng files (draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng). Fragments are left out and counted.

mod frame;
mod reader;
mod stream;

use std::collections::HashMap;
use std::net::IpAddr;

use super::{Origin, Queries};
use frame::{Payload, Segment};
use stream::Streams;

/// What was read from a capture.
#[derive(Debug, Default)]
pub struct Capture {
    /// The queries in the order of the capture.
    pub queries: Queries,
    /// Packets to the port that hold no query which can be sent again: broken, too long, or no query.
    pub unusable: u64,
    /// Fragments of datagrams.
    pub fragments: u64,
}

/// Why a file is no capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CaptureError {
    /// It begins with no magic number of a capture.
    #[error("neither a pcap nor a pcapng file")]
    Magic,
    /// The packets are those of a link that is not known.
    #[error("link type {0} is not known")]
    LinkType(u32),
}

/// Reads the queries that were sent to `port`. A file that was cut off is read as far as it goes.
pub fn read(file: &[u8], port: u16) -> Result<Capture, CaptureError> {
    let mut collector = Collector { port, ..Collector::default() };
    reader::for_each_packet(file, |time_ns, link_type, packet| collector.take(time_ns, link_type, packet))?;
    Ok(collector.capture)
}

#[derive(Default)]
struct Collector {
    port: u16,
    first_ns: Option<u64>,
    clients: HashMap<IpAddr, u32>,
    streams: Streams,
    capture: Capture,
}

impl Collector {
    fn take(&mut self, time_ns: u64, link_type: u32, packet: &[u8]) -> Result<(), CaptureError> {
        let Some(segment) = frame::dissect(link_type, packet)? else { return Ok(()) };
        match segment.payload {
            Payload::Fragment => self.capture.fragments += 1,
            Payload::Udp { port, message } if port == self.port => self.push(time_ns, segment.source, false, message),
            Payload::Tcp { port, .. } if port == self.port => {
                let Segment { source, .. } = segment;
                for message in self.streams.take(&segment) {
                    self.push(time_ns, source, true, &message);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn push(&mut self, time_ns: u64, source: IpAddr, stream: bool, message: &[u8]) {
        let first_ns = *self.first_ns.get_or_insert(time_ns);
        let next = self.clients.len() as u32;
        let client = *self.clients.entry(source).or_insert(next);
        let last_ns = self.capture.queries.origins().last().map_or(0, |last| last.time_ns);
        // Captures of several processors are not quite in order; the schedule has to be.
        let time_ns = time_ns.saturating_sub(first_ns).max(last_ns);
        let pushed = self.capture.queries.push_captured(message, Origin { time_ns, client, stream });
        self.capture.unusable += u64::from(pushed.is_err());
    }
}

#[cfg(test)]
mod tests;
