//! Creating sockets and setting their options (socket(7), ip(7), ipv6(7)); errors name the option.

use crate::checked;
use crate::socket_address::RawAddress;
use std::io;
use std::mem;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// A close-on-exec socket of the address's family; `kind` is `SOCK_DGRAM` or `SOCK_STREAM`, with flags.
pub(crate) fn socket(address: SocketAddr, kind: libc::c_int) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    // SAFETY: no pointers.
    let fd = checked(unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: `fd` is new and owned by nothing else.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    if address.is_ipv6() {
        // RFC 3493 5.3: IPv4 has sockets of its own, and peers never have IPv4-mapped addresses.
        set(&fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1, "IPV6_V6ONLY")?;
    }
    Ok(fd)
}

/// bind(2).
pub(crate) fn bind(fd: &OwnedFd, address: SocketAddr) -> io::Result<()> {
    let raw = RawAddress::from(address);
    // SAFETY: `raw` lives through the call and has at least `len_for` octets.
    checked(unsafe { libc::bind(fd.as_raw_fd(), (&raw const raw).cast(), RawAddress::len_for(address)) })?;
    Ok(())
}

/// connect(2); a non-blocking socket may still be connecting when this returns.
pub(crate) fn connect(fd: &OwnedFd, address: SocketAddr) -> io::Result<()> {
    let raw = RawAddress::from(address);
    // SAFETY: `raw` lives through the call and has at least `len_for` octets.
    let result = unsafe { libc::connect(fd.as_raw_fd(), (&raw const raw).cast(), RawAddress::len_for(address)) };
    match checked(result) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(()),
    }
}

/// Sets an option of type `int`; `name` is for the error.
pub(crate) fn set(
    fd: &OwnedFd,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
    name: &str,
) -> io::Result<()> {
    let len = mem::size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: `value` lives through the call and has `len` octets.
    let result = unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, (&raw const value).cast(), len) };
    checked(result).map_err(|error| io::Error::new(error.kind(), format!("setsockopt {name}: {error}")))?;
    Ok(())
}

/// The kernel's memory of a socket (SO_MEMINFO, sock_diag(7)), and what it dropped because that was full.
pub(crate) struct SocketMemory {
    /// Octets of written but unacknowledged data: more than the data itself, as whole buffers are counted.
    pub(crate) send_octets: u32,
    /// The limit of the receive buffer, in octets.
    pub(crate) receive_limit: u32,
    /// Datagrams that were dropped, mostly because the receive buffer was full; it wraps around.
    pub(crate) drops: u32,
}

impl SocketMemory {
    pub(crate) fn of(fd: &impl AsRawFd) -> io::Result<SocketMemory> {
        let mut values = [0u32; 9];
        let mut len = mem::size_of_val(&values) as libc::socklen_t;
        // SAFETY: `values` and `len` live through the call; `len` is the size of `values`.
        let result = unsafe {
            let values = (&raw mut values).cast();
            libc::getsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_MEMINFO, values, &mut len)
        };
        checked(result)?;
        // SK_MEMINFO_RCVBUF, SK_MEMINFO_WMEM_QUEUED, SK_MEMINFO_DROPS (linux/sock_diag.h).
        let [_, receive_limit, _, _, _, send_octets, _, _, drops] = values;
        Ok(SocketMemory { send_octets, receive_limit, drops })
    }
}

/// Sets the sizes of the receive and send buffers in octets; over net.core.rmem_max and wmem_max only with CAP_NET_ADMIN.
pub(crate) fn set_buffers(fd: &OwnedFd, receive: usize, send: usize) -> io::Result<()> {
    for (force, plain, octets, name) in [
        (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, receive, "SO_RCVBUF"),
        (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, send, "SO_SNDBUF"),
    ] {
        let octets = libc::c_int::try_from(octets).unwrap_or(libc::c_int::MAX);
        set(fd, libc::SOL_SOCKET, force, octets, name).or_else(|_| set(fd, libc::SOL_SOCKET, plain, octets, name))?;
    }
    Ok(())
}

/// Makes the kernel say which address each datagram was sent to, by a control message.
pub(crate) fn report_destinations(fd: &OwnedFd, local: SocketAddr) -> io::Result<()> {
    match local {
        SocketAddr::V4(_) => set(fd, libc::IPPROTO_IP, libc::IP_PKTINFO, 1, "IP_PKTINFO"),
        SocketAddr::V6(_) => set(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1, "IPV6_RECVPKTINFO"),
    }
}
