//! Socket addresses in kernel form (`sockaddr_in`, `sockaddr_in6`), converted to `std` types on demand.

use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// An IPv4 or IPv6 socket address in kernel form.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) union RawAddress {
    family: libc::sa_family_t,
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

impl RawAddress {
    /// No address: space for the kernel to write one.
    pub(crate) fn unspecified() -> RawAddress {
        // SAFETY: all members are plain integers, for which zero is a value.
        unsafe { mem::zeroed() }
    }

    /// The `socklen_t` of addresses of this family.
    pub(crate) fn len_for(address: SocketAddr) -> libc::socklen_t {
        match address {
            SocketAddr::V4(_) => mem::size_of::<libc::sockaddr_in>() as libc::socklen_t,
            SocketAddr::V6(_) => mem::size_of::<libc::sockaddr_in6>() as libc::socklen_t,
        }
    }

    /// The address. Any family but AF_INET6 is read as IPv4: call only after the kernel wrote an address.
    #[inline]
    pub(crate) fn socket_addr(&self) -> SocketAddr {
        // SAFETY: `family` has the same offset in all members and says which one the kernel wrote;
        // every bit pattern is valid for each.
        unsafe {
            if libc::c_int::from(self.family) == libc::AF_INET6 {
                let port = u16::from_be(self.v6.sin6_port);
                let ip = Ipv6Addr::from(self.v6.sin6_addr.s6_addr);
                SocketAddr::V6(SocketAddrV6::new(ip, port, self.v6.sin6_flowinfo, self.v6.sin6_scope_id))
            } else {
                let ip = Ipv4Addr::from(self.v4.sin_addr.s_addr.to_ne_bytes());
                SocketAddr::V4(SocketAddrV4::new(ip, u16::from_be(self.v4.sin_port)))
            }
        }
    }

    /// The address without the port.
    #[inline]
    pub(crate) fn ip(&self) -> IpAddr {
        self.socket_addr().ip()
    }
}

impl From<SocketAddr> for RawAddress {
    fn from(address: SocketAddr) -> RawAddress {
        let mut raw = RawAddress::unspecified();
        match address {
            SocketAddr::V4(v4) => {
                raw.v4 = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: v4.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) },
                    sin_zero: [0; 8],
                }
            }
            SocketAddr::V6(v6) => {
                raw.v6 = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: v6.port().to_be(),
                    sin6_flowinfo: v6.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                    sin6_scope_id: v6.scope_id(),
                }
            }
        }
        raw
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_round_trip() {
        for text in
            ["192.0.2.1:53", "0.0.0.0:0", "255.255.255.255:65535", "[2001:db8::1]:53", "[::]:0", "[fe80::1%7]:853"]
        {
            let address: SocketAddr = text.parse().expect("a literal");
            assert_eq!(RawAddress::from(address).socket_addr(), address);
            assert_eq!(RawAddress::from(address).ip(), address.ip());
        }
    }
}
