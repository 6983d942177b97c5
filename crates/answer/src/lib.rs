//! Query bytes to answer bytes over the published zones.
//!
//! [`respond`] is the one door: UDP, TCP, tests, fuzzers and benchmarks all come through it.
#![forbid(unsafe_code)]

use std::net::IpAddr;
use std::sync::Arc;

pub mod published;

pub use published::{Publisher, Reader};

/// All that is served: one immutable value, published as a whole.
pub struct Served {}

/// What one worker keeps between queries: buffers, counters, rate limits. Never shared.
pub struct Scratch {}

impl Scratch {
    /// A worker's scratch space.
    pub fn new() -> Scratch {
        Scratch {}
    }
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch::new()
    }
}

/// A query and how it came.
pub struct Ask<'a> {
    /// The message as received, without the length prefix of TCP.
    pub message: &'a [u8],
    /// Who asks.
    pub peer: IpAddr,
    /// Over what.
    pub transport: Transport,
    /// Seconds since 1970, from a clock read once per batch.
    pub now_s: u32,
}

/// What a query came over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A datagram; the answer is limited by EDNS and the configuration.
    Udp,
    /// A stream; the answer may have 65,535 octets. `idle_ds` is what EDNS keepalive tells (RFC 7828), in tenths of a second.
    Tcp {
        /// The idle timeout to announce, in units of 100 ms.
        idle_ds: u16,
    },
}

/// What to do with a query.
pub enum Reply {
    /// Send this many octets of the output buffer.
    Send(usize),
    /// Say nothing.
    Drop,
    /// Stream a zone (RFC 5936); the peer may have it.
    Transfer(Box<Transfer>),
}

/// An outgoing zone transfer, holding its version of the zone to the end.
pub struct Transfer {}

impl Transfer {
    /// Writes the next message into `out` (at least 65,535 octets, without the length prefix of TCP);
    /// `None` when all was sent.
    pub fn next_message(&mut self, _out: &mut [u8]) -> Option<usize> {
        None
    }
}

/// Answers one query into `out`. Allocates nothing, locks nothing, reads no clock.
///
/// `out` must hold the largest answer of the transport: 4,096 octets for UDP, 65,535 for TCP.
pub fn respond(_served: &Arc<Served>, _scratch: &mut Scratch, _ask: Ask<'_>, _out: &mut [u8]) -> Reply {
    Reply::Drop
}
