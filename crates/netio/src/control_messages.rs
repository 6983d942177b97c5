//! Control messages of datagrams in the layout of cmsg(3): segment length (UDP_SEGMENT, UDP_GRO in udp(7)), local address
//! (IP_PKTINFO in ip(7), IPV6_PKTINFO in RFC 3542 6.2) and time of arrival (SO_TIMESTAMPNS in socket(7)).

use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ptr;
use std::time::Duration;

/// The size of a segment length, an address with its interface, and a time.
const CONTROL_LEN: usize = 96;
const HEAD: usize = mem::size_of::<libc::cmsghdr>();

#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(crate) struct ControlMessages([u8; CONTROL_LEN]);

/// What the control messages of a received buffer say.
#[derive(Default)]
pub(crate) struct ReceivedControl {
    /// The destination address.
    pub(crate) destination: Option<IpAddr>,
    /// The length of each datagram but the last, if several were coalesced (UDP_GRO).
    pub(crate) segment_len: Option<usize>,
    /// When the kernel received it, since 1970.
    pub(crate) received_at: Option<Duration>,
}

impl ControlMessages {
    pub(crate) fn empty() -> ControlMessages {
        ControlMessages([0; CONTROL_LEN])
    }

    /// Lets the kernel write them.
    pub(crate) fn offer(&mut self, header: &mut libc::msghdr) {
        header.msg_control = self.0.as_mut_ptr().cast();
        header.msg_controllen = CONTROL_LEN as _;
    }

    /// Makes these the control messages of a datagram to send.
    pub(crate) fn attach(&mut self, segment_len: Option<u16>, source: Option<IpAddr>, header: &mut libc::msghdr) {
        let len = self.fill(segment_len, source);
        header.msg_control = if len == 0 { ptr::null_mut() } else { self.0.as_mut_ptr().cast() };
        header.msg_controllen = len as _;
    }

    /// Writes the requested ones; returns their length.
    fn fill(&mut self, segment_len: Option<u16>, source: Option<IpAddr>) -> usize {
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

    /// Reads those that the kernel has written for a received datagram.
    pub(crate) fn read(&self, header: &libc::msghdr) -> ReceivedControl {
        // What the type is depends on the C library.
        #[allow(clippy::unnecessary_cast)]
        let len = header.msg_controllen as usize;
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
