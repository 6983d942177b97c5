//! What the listeners hand to [`crate::respond`], and what they get back.

use std::net::IpAddr;

use zone::axfr::AxfrStream;

/// The largest UDP response, whatever the client and the configuration allow: the size of the UDP workers' buffers.
pub const MAX_UDP: usize = 4096;
/// The largest UDP response without EDNS (RFC 1035 2.3.4).
pub(crate) const MIN_UDP: usize = 512;

/// A query and how it arrived.
pub struct Request<'a> {
    /// The message as received, without TCP's length prefix.
    pub message: &'a [u8],
    /// The client's address.
    pub peer: IpAddr,
    /// How the query arrived.
    pub transport: Transport,
    /// Seconds since 1970, from a clock read once per batch.
    pub now_s: u32,
}

/// The transport protocol of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A datagram; EDNS and the configuration limit the response.
    Udp,
    /// A stream; the response may have 65,535 octets.
    Tcp {
        /// The idle timeout to announce (RFC 7828), in units of 100 ms.
        idle_ds: u16,
    },
}

/// What to do about a query.
pub enum Response {
    /// Send this many octets of the output buffer.
    Send(usize),
    /// Send nothing.
    Drop,
    /// Stream the zone (RFC 5936); the client is allowed to transfer it.
    Transfer(Box<AxfrStream>),
}
