//! Control messages (cmsg(3)) of a datagram: its local address (ip(7), RFC 3542 6.2), and the length of segments (udp(7)).

use crate::udp_server::ControlLen;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ptr;

/// Room for an address and a segment length.
const LEN: usize = 64;

/// The control messages of one datagram.
#[repr(C, align(8))]
pub(super) struct ControlBuffer {
    octets: [u8; LEN],
    len: usize,
}

// SAFETY: only computes sizes.
const _: () = assert!(
    unsafe { libc::CMSG_SPACE(mem::size_of::<libc::in6_pktinfo>() as _) + libc::CMSG_SPACE(2) } as usize <= LEN
);

impl ControlBuffer {
    pub(super) fn new() -> ControlBuffer {
        ControlBuffer { octets: [0; LEN], len: 0 }
    }

    /// Lets the kernel write all of it.
    pub(super) fn set_room(&mut self, header: &mut libc::msghdr) {
        self.len = LEN;
        self.attach(header);
    }

    /// How much the kernel wrote.
    pub(super) fn set_len(&mut self, len: ControlLen) {
        // What the type is depends on the C library.
        #[allow(clippy::unnecessary_cast)]
        let len = len as usize;
        self.len = len.min(LEN);
    }

    /// Makes it the control messages of `header`.
    pub(super) fn attach(&mut self, header: &mut libc::msghdr) {
        header.msg_control = if self.len == 0 { ptr::null_mut() } else { self.octets.as_mut_ptr().cast() };
        header.msg_controllen = self.len as _;
    }

    /// The destination address of a received datagram, if the kernel wrote it.
    pub(super) fn local_ip(&self) -> Option<IpAddr> {
        let head: libc::cmsghdr = self.read(0)?;
        // SAFETY: only computes a length.
        let data = unsafe { libc::CMSG_LEN(0) } as usize;
        match (head.cmsg_level, head.cmsg_type) {
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                let info: libc::in_pktinfo = self.read(data)?;
                Some(Ipv4Addr::from(info.ipi_addr.s_addr.to_ne_bytes()).into())
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                let info: libc::in6_pktinfo = self.read(data)?;
                Some(Ipv6Addr::from(info.ipi6_addr.s6_addr).into())
            }
            _ => None,
        }
    }

    /// A value at an offset, if the messages are that long. `T` is a plain type of the kernel.
    fn read<T: Copy>(&self, at: usize) -> Option<T> {
        let octets = self.octets[..self.len].get(at..at + mem::size_of::<T>())?;
        // SAFETY: `octets` is as long as `T`, of which every bit pattern is a value.
        Some(unsafe { octets.as_ptr().cast::<T>().read_unaligned() })
    }

    /// The messages for a datagram to send: its source address, and the length of its segments.
    pub(super) fn write(&mut self, from: Option<IpAddr>, segment: Option<u16>) {
        self.len = 0;
        match from {
            Some(IpAddr::V4(ip)) => {
                let address = libc::in_addr { s_addr: u32::from_ne_bytes(ip.octets()) };
                let info = libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst: address, ipi_addr: address };
                self.push(libc::IPPROTO_IP, libc::IP_PKTINFO, info);
            }
            Some(IpAddr::V6(ip)) => {
                let address = libc::in6_addr { s6_addr: ip.octets() };
                self.push(
                    libc::IPPROTO_IPV6,
                    libc::IPV6_PKTINFO,
                    libc::in6_pktinfo { ipi6_addr: address, ipi6_ifindex: 0 },
                );
            }
            None => {}
        }
        if let Some(segment) = segment {
            self.push(libc::SOL_UDP, libc::UDP_SEGMENT, segment);
        }
    }

    /// Appends a message. `T` is a plain type of the kernel without padding.
    fn push<T: Copy>(&mut self, level: libc::c_int, kind: libc::c_int, data: T) {
        // SAFETY: only computes lengths.
        let (head_len, space) = unsafe {
            let size = mem::size_of::<T>() as libc::c_uint;
            (libc::CMSG_LEN(0) as usize, libc::CMSG_SPACE(size) as usize)
        };
        let message = &mut self.octets[self.len..self.len + space];
        message.fill(0);
        // SAFETY: integers, for which zero is a value.
        let mut head: libc::cmsghdr = unsafe { mem::zeroed() };
        head.cmsg_len = (head_len + mem::size_of::<T>()) as _;
        (head.cmsg_level, head.cmsg_type) = (level, kind);
        // SAFETY: `message` has room for a head and, after `head_len` octets, for a `T` (CMSG_SPACE); unaligned writes need no
        // more.
        unsafe {
            message.as_mut_ptr().cast::<libc::cmsghdr>().write_unaligned(head);
            message.as_mut_ptr().add(head_len).cast::<T>().write_unaligned(data);
        }
        self.len += space;
    }
}
