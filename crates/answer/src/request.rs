//! What the listeners hand to [`crate::respond`].

use std::net::IpAddr;

use wire::Name;

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
    pub transport: Transport<'a>,
    /// Seconds since 1970, from a clock read once per batch.
    pub now_s: u32,
}

/// The transport protocol of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport<'a> {
    /// A datagram; EDNS and the configuration limit the response.
    Udp,
    /// A stream; the response may have 65,535 octets.
    Tcp {
        /// The idle timeout to announce (RFC 7828), in units of 100 ms.
        idle_ds: u16,
    },
    /// TLS over TCP (RFC 7858).
    Tls {
        /// As for TCP.
        idle_ds: u16,
        /// The names of the client's certificate, if it has one that was verified.
        client_names: &'a [Name],
    },
    /// QUIC (RFC 9250): as TLS, but its idle timeout is not announced by EDNS.
    Quic {
        /// As for TLS.
        client_names: &'a [Name],
    },
}

impl Transport<'_> {
    /// Whether it is UDP.
    #[inline]
    pub fn is_udp(self) -> bool {
        matches!(self, Transport::Udp)
    }

    /// Whether nobody between client and server can read it.
    #[inline]
    pub(crate) fn is_encrypted(self) -> bool {
        matches!(self, Transport::Tls { .. } | Transport::Quic { .. })
    }

    /// The idle timeout to announce.
    #[inline]
    pub(crate) fn idle_ds(self) -> Option<u16> {
        match self {
            // RFC 9250 5.5.2: the option must not be sent over QUIC.
            Transport::Udp | Transport::Quic { .. } => None,
            Transport::Tcp { idle_ds } | Transport::Tls { idle_ds, .. } => Some(idle_ds),
        }
    }
}
