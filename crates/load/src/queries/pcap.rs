//! Queries from a pcap or pcapng capture, with the time, client and transport of each.
//!
//! The formats: draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng. TCP streams are reassembled; IP fragments are not.

mod frame;
mod reader;
mod reassembly;

use std::collections::HashMap;
use std::net::IpAddr;

use super::{CaptureOrigin, Queries};
use frame::{Packet, Payload};
use reassembly::TcpReassembler;

/// The queries of a capture.
#[derive(Debug, Default)]
pub struct Capture {
    /// In the order of the capture.
    pub queries: Queries,
    /// Messages to the port that cannot be sent again: malformed, too long, or not a query.
    pub unusable: u64,
    /// IP fragments, which were skipped.
    pub fragments: u64,
}

/// Why a file cannot be read as a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CaptureError {
    /// The magic number is unknown.
    #[error("neither a pcap nor a pcapng file")]
    Magic,
    /// The link type is unsupported.
    #[error("link type {0} is not known")]
    LinkType(u32),
}

/// Reads the queries that were sent to `port`. A truncated file is read up to its end.
pub fn read(file: &[u8], port: u16) -> Result<Capture, CaptureError> {
    let mut collector = QueryCollector { port, ..QueryCollector::default() };
    reader::for_each_frame(file, |time_ns, link_type, frame| collector.add_packet(time_ns, link_type, frame))?;
    Ok(collector.capture)
}

#[derive(Default)]
struct QueryCollector {
    port: u16,
    first_ns: Option<u64>,
    clients: HashMap<IpAddr, u32>,
    reassembler: TcpReassembler,
    capture: Capture,
}

impl QueryCollector {
    fn add_packet(&mut self, time_ns: u64, link_type: u32, frame: &[u8]) -> Result<(), CaptureError> {
        let Some(packet) = frame::dissect(link_type, frame)? else { return Ok(()) };
        match packet.payload {
            Payload::Fragment => self.capture.fragments += 1,
            Payload::Udp { port, message } if port == self.port => {
                self.push_query(time_ns, packet.source, false, message)
            }
            Payload::Tcp { port, .. } if port == self.port => {
                let Packet { source, .. } = packet;
                for message in self.reassembler.add(&packet) {
                    self.push_query(time_ns, source, true, &message);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn push_query(&mut self, time_ns: u64, source: IpAddr, is_tcp: bool, message: &[u8]) {
        let first_ns = *self.first_ns.get_or_insert(time_ns);
        let next = self.clients.len() as u32;
        let client = *self.clients.entry(source).or_insert(next);
        let last_ns = self.capture.queries.origins().last().map_or(0, |last| last.time_ns);
        // Captures made on several processors may be slightly out of order, but a schedule must ascend.
        let time_ns = time_ns.saturating_sub(first_ns).max(last_ns);
        let pushed = self.capture.queries.push_captured(message, CaptureOrigin { time_ns, client, is_tcp });
        self.capture.unusable += u64::from(pushed.is_err());
    }
}

#[cfg(test)]
mod tests;
