//! The control message of a datagram: where it came to, so that the reply goes out from there.

use std::mem;
use std::net::Ipv6Addr;

/// Room for one control message: the local address of a datagram (RFC 3542 6.2, ip(7)).
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
    assert!(mem::size_of::<PktInfoControl>() == unsafe { libc::CMSG_SPACE(20) } as usize, "as cmsg(3) lays it out");

impl PktInfoControl {
    pub(super) fn empty() -> PktInfoControl {
        // SAFETY: all members are plain integers, for which zero is a value.
        unsafe { mem::zeroed() }
    }

    /// Takes out the interface and leaves the address, so that the reply goes out from where the datagram came to but by
    /// the route the kernel has. A link-local address means nothing without its interface and keeps it.
    #[inline]
    pub(super) fn forget_interface(&mut self) {
        // SAFETY: the header tells which member the kernel wrote; every bit pattern is a value of each.
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
