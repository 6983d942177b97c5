//! Control messages of client datagrams in the layout of cmsg(3): segment length (UDP_SEGMENT, UDP_GRO in udp(7)), local address
//! (IP_PKTINFO in ip(7), IPV6_PKTINFO in RFC 3542 6.2) and time of arrival (SO_TIMESTAMPNS in socket(7)).

use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// The size of a segment length, an address with its interface, and a time.
pub(super) const CONTROL_LEN: usize = 96;
const HEAD: usize = mem::size_of::<libc::cmsghdr>();

#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(super) struct ControlMessages(pub(super) [u8; CONTROL_LEN]);

/// The control messages of a received buffer.
#[derive(Default)]
pub(super) struct ReceivedControl {
    /// The destination address.
    pub(super) destination: Option<IpAddr>,
    /// The length of each datagram but the last, if several were coalesced (UDP_GRO).
    pub(super) segment_len: Option<usize>,
    /// When the kernel received it, since 1970.
    pub(super) received_at: Option<Duration>,
}

impl ControlMessages {
    pub(super) fn empty() -> ControlMessages {
        ControlMessages([0; CONTROL_LEN])
    }

    /// Writes the requested control messages; returns their length.
    pub(super) fn fill(&mut self, segment_len: Option<u16>, source: Option<IpAddr>) -> usize {
        let mut len = 0;
        if let Some(segment_len) = segment_len {
            len = self.push(len, libc::SOL_UDP, libc::UDP_SEGMENT, &segment_len.to_ne_bytes());
        }
        match source {
            Some(IpAddr::V4(ip)) => {
                // in_pktinfo: interface, local address, destination (ip(7)).
                let mut info = [0; 12];
                info[4..8].copy_from_slice(&ip.octets());
                self.push(len, libc::IPPROTO_IP, libc::IP_PKTINFO, &info)
            }
            Some(IpAddr::V6(ip)) => {
                // in6_pktinfo: address, interface (RFC 3542 6.2).
                let mut info = [0; 20];
                info[..16].copy_from_slice(&ip.octets());
                self.push(len, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info)
            }
            None => len,
        }
    }

    fn push(&mut self, at: usize, level: libc::c_int, kind: libc::c_int, data: &[u8]) -> usize {
        let len = HEAD + data.len();
        self.0[at..at + 8].copy_from_slice(&len.to_ne_bytes());
        self.0[at + 8..at + 12].copy_from_slice(&level.to_ne_bytes());
        self.0[at + 12..at + HEAD].copy_from_slice(&kind.to_ne_bytes());
        self.0[at + HEAD..at + len].copy_from_slice(data);
        at + len.next_multiple_of(8)
    }

    /// Reads the messages in the first `len` octets.
    pub(super) fn read(&self, len: usize) -> ReceivedControl {
        let (mut received, mut rest) = (ReceivedControl::default(), &self.0[..len.min(CONTROL_LEN)]);
        while let Some((head, _)) = rest.split_at_checked(HEAD) {
            let message_len = usize::from_ne_bytes(*head.first_chunk().expect("a header is longer")).max(HEAD);
            let Some(data) = rest.get(HEAD..message_len) else { break };
            let number = |at: usize| libc::c_int::from_ne_bytes(*head[at..].first_chunk().expect("inside the header"));
            match (number(8), number(12)) {
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                    received.destination =
                        data.get(8..).and_then(<[u8]>::first_chunk).map(|ip| Ipv4Addr::from(*ip).into());
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    received.destination = data.first_chunk::<16>().map(|ip| Ipv6Addr::from(*ip).into());
                }
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                    let number = |at: usize| data.get(at..)?.first_chunk().map(|octets| u64::from_ne_bytes(*octets));
                    // struct timespec: seconds, nanoseconds.
                    received.received_at = number(0).zip(number(8)).map(|(s, ns)| Duration::new(s, ns as u32));
                }
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    let segment_len = data.first_chunk().map(|len| libc::c_int::from_ne_bytes(*len));
                    received.segment_len = segment_len.and_then(|len| usize::try_from(len).ok()).filter(|&len| len > 0);
                }
                _ => {}
            }
            rest = rest.get(message_len.next_multiple_of(8)..).unwrap_or_default();
        }
        received
    }
}

const _: () = assert!(HEAD == 16, "the layout that `ControlMessages` writes: 64-bit Linux");
