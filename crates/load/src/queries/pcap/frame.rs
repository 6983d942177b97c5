//! Parses captured frames: link layer, IPv4 or IPv6, UDP or TCP.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::CaptureError;

/// A UDP, TCP or fragmented packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'p> {
    pub source: IpAddr,
    pub destination: IpAddr,
    /// The source port; 0 for fragments.
    pub source_port: u16,
    pub payload: Payload<'p>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload<'p> {
    Udp {
        port: u16,
        message: &'p [u8],
    },
    Tcp {
        port: u16,
        /// The sequence number (RFC 9293 3.1).
        sequence: u32,
        is_syn: bool,
        /// FIN or RST: the client sends nothing more.
        is_end: bool,
        octets: &'p [u8],
    },
    Fragment,
}

/// Parses a frame; `None` if it is malformed, or neither UDP nor TCP.
pub fn dissect(link_type: u32, frame: &[u8]) -> Result<Option<Packet<'_>>, CaptureError> {
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
    while matches!(u16_at(frame, at)?, 0x8100 | 0x88a8 | 0x9100) {
        at += 4;
    }
    frame.get(at + 2..)
}

/// Parses an IPv4 packet (RFC 791 3.1).
fn ipv4(packet: &[u8]) -> Option<Packet<'_>> {
    let header_len = usize::from(packet[0] & 0x0f) * 4;
    let total_len = usize::from(u16_at(packet, 2)?);
    let address = |at: usize| packet.get(at..)?.first_chunk::<4>().map(|octets| Ipv4Addr::from(*octets).into());
    let (source, destination) = (address(12)?, address(16)?);
    // The MF flag or the fragment offset.
    if u16_at(packet, 6)? & 0x3fff != 0 {
        return Some(Packet { source, destination, source_port: 0, payload: Payload::Fragment });
    }
    let payload = packet.get(header_len..total_len.min(packet.len()))?;
    transport(source, destination, packet[9], payload)
}

/// Parses an IPv6 packet (RFC 8200 3) with its extension headers (RFC 8200 4).
fn ipv6(packet: &[u8]) -> Option<Packet<'_>> {
    let address = |at: usize| packet.get(at..)?.first_chunk::<16>().map(|octets| Ipv6Addr::from(*octets).into());
    let (source, destination) = (address(8)?, address(24)?);
    let end = packet.len().min(40 + usize::from(u16_at(packet, 4)?));
    let (mut next, mut at) = (*packet.get(6)?, 40);
    // Hop-by-hop, routing and destination options. None is empty, so the loop ends within the packet.
    while matches!(next, 0 | 43 | 60) {
        (next, at) = (*packet.get(at)?, at + 8 + 8 * usize::from(*packet.get(at + 1)?));
    }
    if next == 44 {
        return Some(Packet { source, destination, source_port: 0, payload: Payload::Fragment });
    }
    transport(source, destination, next, packet.get(at..end)?)
}

fn transport(source: IpAddr, destination: IpAddr, protocol: u8, octets: &[u8]) -> Option<Packet<'_>> {
    let (source_port, port) = (u16_at(octets, 0)?, u16_at(octets, 2)?);
    let payload = match protocol {
        17 => Payload::Udp { port, message: octets.get(8..usize::from(u16_at(octets, 4)?).min(octets.len()))? },
        6 => {
            let sequence = u32::from_be_bytes(*octets.get(4..)?.first_chunk()?);
            let header_len = usize::from(*octets.get(12)? >> 4) * 4;
            let flags = octets.get(13)?;
            let (is_syn, is_end) = (flags & 0x02 != 0, flags & 0x05 != 0);
            Payload::Tcp { port, sequence, is_syn, is_end, octets: octets.get(header_len..)? }
        }
        _ => return None,
    };
    Some(Packet { source, destination, source_port, payload })
}

fn u16_at(octets: &[u8], at: usize) -> Option<u16> {
    octets.get(at..)?.first_chunk().copied().map(u16::from_be_bytes)
}
