//! Queries from a pcap or pcapng capture, with the time, client and transport of each.
//!
//! The formats: draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng. TCP streams are reassembled; IP fragments are not.

mod frame;
mod reader;
mod reassembly;

use std::collections::HashMap;
use std::net::IpAddr;

use super::{CaptureOrigin, CapturedConnection, Queries, QueryEncoder, QueryTemplate};
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

/// Reads the queries that were sent to `port`, and changes them as `template` says. A truncated file is read up to its
/// end.
pub fn read(file: &[u8], port: u16, template: &QueryTemplate) -> Result<Capture, CaptureError> {
    let mut collector = QueryCollector {
        port,
        encoder: QueryEncoder::new(template),
        first_ns: None,
        last_ns: 0,
        clients: HashMap::new(),
        reassembler: TcpReassembler::default(),
        connections: Vec::new(),
        capture: Capture::default(),
    };
    reader::for_each_frame(file, |time_ns, link_type, frame| collector.add_packet(time_ns, link_type, frame))?;
    collector.capture.queries.set_connections(collector.connections);
    Ok(collector.capture)
}

struct QueryCollector {
    port: u16,
    encoder: QueryEncoder,
    first_ns: Option<u64>,
    /// The time of the last packet, after the first one.
    last_ns: u64,
    clients: HashMap<IpAddr, u32>,
    reassembler: TcpReassembler,
    connections: Vec<CapturedConnection>,
    capture: Capture,
}

impl QueryCollector {
    fn add_packet(&mut self, time_ns: u64, link_type: u32, frame: &[u8]) -> Result<(), CaptureError> {
        let Some(packet) = frame::dissect(link_type, frame)? else { return Ok(()) };
        match packet.payload {
            Payload::Fragment => self.capture.fragments += 1,
            Payload::Udp { port, message } if port == self.port => {
                let (time_ns, client) = (self.relative_ns(time_ns), self.client(packet.source));
                let origin = CaptureOrigin { time_ns, client, port: packet.source_port, connection: None };
                self.push_query(origin, message);
            }
            Payload::Tcp { port, .. } if port == self.port => self.add_segment(time_ns, &packet),
            _ => {}
        }
        Ok(())
    }

    fn add_segment(&mut self, time_ns: u64, packet: &Packet<'_>) {
        let time_ns = self.relative_ns(time_ns);
        let Some(effect) = self.reassembler.add(time_ns, packet) else { return };
        let client = self.client(packet.source);
        if let Some(opened_ns) = effect.opened_ns {
            let port = packet.source_port;
            self.connections.push(CapturedConnection { client, port, opened_ns, closed_ns: None });
        }
        let connection = Some(effect.connection);
        for message in &effect.messages {
            self.push_query(CaptureOrigin { time_ns, client, port: packet.source_port, connection }, message);
        }
        let closed_ns = &mut self.connections[effect.connection as usize].closed_ns;
        // A segment that was overtaken by the last one may complete a query later.
        if effect.is_closed && closed_ns.is_none() || !effect.messages.is_empty() && closed_ns.is_some() {
            *closed_ns = Some(time_ns);
        }
    }

    /// The time after the first packet. Captures made on several processors may be slightly out of order, but a schedule
    /// must ascend.
    fn relative_ns(&mut self, time_ns: u64) -> u64 {
        let first_ns = *self.first_ns.get_or_insert(time_ns);
        self.last_ns = time_ns.saturating_sub(first_ns).max(self.last_ns);
        self.last_ns
    }

    fn client(&mut self, address: IpAddr) -> u32 {
        let next = self.clients.len() as u32;
        *self.clients.entry(address).or_insert(next)
    }

    fn push_query(&mut self, origin: CaptureOrigin, message: &[u8]) {
        let rewritten = self.encoder.rewrite(message);
        let pushed = rewritten.is_some_and(|query| self.capture.queries.push_captured(&query, origin).is_ok());
        self.capture.unusable += u64::from(!pushed);
    }
}

#[cfg(test)]
mod tests;
