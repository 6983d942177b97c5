//! From a captured frame to what it carries: link, IPv4 or IPv6, UDP or TCP.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::CaptureError;

/// What a frame carries, and from whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment<'p> {
    /// Who sent it.
    pub source: IpAddr,
    /// To whom.
    pub destination: IpAddr,
    /// From which port.
    pub source_port: u16,
    /// What it carries.
    pub payload: Payload<'p>,
}

/// The part of a frame behind its IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload<'p> {
    /// A whole datagram.
    Udp {
        /// The port it is for.
        port: u16,
        /// What it carries.
        message: &'p [u8],
    },
    /// A part of a stream.
    Tcp {
        /// The port it is for.
        port: u16,
        /// The number of its first octet (RFC 9293 3.1).
        sequence: u32,
        /// Whether it begins the stream.
        is_syn: bool,
        /// What it carries.
        octets: &'p [u8],
    },
    /// A part of a datagram.
    Fragment,
}

/// Takes a frame apart; `None` for one that is neither UDP nor TCP, or broken.
pub fn dissect(link_type: u32, frame: &[u8]) -> Result<Option<Segment<'_>>, CaptureError> {
    let packet = match link_type {
        0 | 108 => frame.get(4..),
        1 => ethernet(frame),
        12 | 101 | 228 | 229 => Some(frame),
        113 => frame.get(16..),
        276 => frame.get(20..),
        other => return Err(CaptureError::LinkType(other)),
    };
    Ok(packet.and_then(|packet| match packet.first()? >> 4 {
        4 => ipv4(packet),
        6 => ipv6(packet),
        _ => None,
    }))
}

/// IEEE 802.3 with any number of 802.1Q tags.
fn ethernet(frame: &[u8]) -> Option<&[u8]> {
    let mut at = 12;
    while matches!(half(frame, at)?, 0x8100 | 0x88a8 | 0x9100) {
        at += 4;
    }
    frame.get(at + 2..)
}

/// The header of IPv4 (RFC 791 3.1).
fn ipv4(packet: &[u8]) -> Option<Segment<'_>> {
    let header_len = usize::from(packet[0] & 0x0f) * 4;
    let total_len = usize::from(half(packet, 2)?);
    let address = |at: usize| packet.get(at..)?.first_chunk::<4>().map(|octets| Ipv4Addr::from(*octets).into());
    let (source, destination) = (address(12)?, address(16)?);
    // More fragments follow, or came before.
    if half(packet, 6)? & 0x3fff != 0 {
        return Some(Segment { source, destination, source_port: 0, payload: Payload::Fragment });
    }
    let carried = packet.get(header_len..total_len.min(packet.len()))?;
    transport(source, destination, packet[9], carried)
}

/// The header of IPv6 (RFC 8200 3) and those that extend it (RFC 8200 4).
fn ipv6(packet: &[u8]) -> Option<Segment<'_>> {
    let address = |at: usize| packet.get(at..)?.first_chunk::<16>().map(|octets| Ipv6Addr::from(*octets).into());
    let (source, destination) = (address(8)?, address(24)?);
    let end = packet.len().min(40 + usize::from(half(packet, 4)?));
    let (mut next, mut at) = (*packet.get(6)?, 40);
    // Hop-by-hop, routing, destination options; each is longer than nothing, so the loop ends with the packet.
    while matches!(next, 0 | 43 | 60) {
        (next, at) = (*packet.get(at)?, at + 8 + 8 * usize::from(*packet.get(at + 1)?));
    }
    if next == 44 {
        return Some(Segment { source, destination, source_port: 0, payload: Payload::Fragment });
    }
    transport(source, destination, next, packet.get(at..end)?)
}

fn transport(source: IpAddr, destination: IpAddr, protocol: u8, octets: &[u8]) -> Option<Segment<'_>> {
    let (source_port, port) = (half(octets, 0)?, half(octets, 2)?);
    let payload = match protocol {
        17 => Payload::Udp { port, message: octets.get(8..usize::from(half(octets, 4)?).min(octets.len()))? },
        6 => {
            let sequence = u32::from_be_bytes(*octets.get(4..)?.first_chunk()?);
            let header_len = usize::from(*octets.get(12)? >> 4) * 4;
            let is_syn = octets.get(13)? & 0x02 != 0;
            Payload::Tcp { port, sequence, is_syn, octets: octets.get(header_len..)? }
        }
        _ => return None,
    };
    Some(Segment { source, destination, source_port, payload })
}

fn half(octets: &[u8], at: usize) -> Option<u16> {
    octets.get(at..)?.first_chunk().copied().map(u16::from_be_bytes)
}
