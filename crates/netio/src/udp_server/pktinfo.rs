//! The destination address of a datagram (IP_PKTINFO in ip(7), IPV6_PKTINFO in RFC 3542 6.2), used as the source of its reply.

use std::mem;
use std::net::Ipv6Addr;

/// A control message (cmsg(3)) with the local address of a datagram.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct PktInfoControl {
    header: libc::cmsghdr,
    data: PacketInfo,
}

#[derive(Clone, Copy)]
#[repr(C)]
union PacketInfo {
    v4: libc::in_pktinfo,
    v6: libc::in6_pktinfo,
}

// SAFETY: only computes a size.
const _: () =
    assert!(mem::size_of::<PktInfoControl>() == unsafe { libc::CMSG_SPACE(20) } as usize, "the layout of cmsg(3)");

impl PktInfoControl {
    pub(super) fn empty() -> PktInfoControl {
        // SAFETY: all members are plain integers, for which zero is a value.
        unsafe { mem::zeroed() }
    }

    /// Clears the interface, so that the kernel routes the reply, and keeps the source address. A link-local address keeps its
    /// interface, as it is meaningless without.
    #[inline]
    pub(super) fn clear_interface(&mut self) {
        // SAFETY: the header says which member the kernel wrote; every bit pattern is valid for each.
        unsafe {
            match (self.header.cmsg_level, self.header.cmsg_type) {
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => self.data.v4.ipi_ifindex = 0,
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    let info = &mut self.data.v6;
                    let link_local = Ipv6Addr::from(info.ipi6_addr.s6_addr).is_unicast_link_local();
                    info.ipi6_ifindex *= u32::from(link_local);
                }
                _ => {}
            }
        }
    }
}
