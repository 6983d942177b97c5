//! The sockets of servers and their options.

use crate::socket_options;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

/// The options of a server socket.
#[derive(Clone, Copy, Debug)]
pub struct ServerSocketOptions {
    /// SO_REUSEPORT: several sockets share the address, and the kernel distributes clients over them.
    pub reuse_port: bool,
    /// SO_RCVBUF, in octets.
    pub receive_buffer: usize,
    /// SO_SNDBUF, in octets.
    pub send_buffer: usize,
    /// The longest time that [`ServerBatch::receive`](super::ServerBatch::receive) blocks.
    pub wake_interval: Duration,
}

impl Default for ServerSocketOptions {
    /// 8 MiB hold about 10,000 datagrams: 10 ms at a million per second.
    fn default() -> ServerSocketOptions {
        ServerSocketOptions {
            reuse_port: true,
            receive_buffer: 8 << 20,
            send_buffer: 8 << 20,
            wake_interval: Duration::from_millis(500),
        }
    }
}

/// A bound UDP socket of a server.
pub struct ServerSocket {
    pub(super) inner: UdpSocket,
    pub(super) local: SocketAddr,
}

impl ServerSocket {
    /// Binds a socket. Errors are those of the system calls and name the option that failed.
    pub fn bind(address: SocketAddr, options: &ServerSocketOptions) -> io::Result<ServerSocket> {
        // OMIT: no DF bit, and the path MTU is ignored, as a forged one would make the kernel send small fragments (RFC 9715).
        // The response size limit avoids fragmentation.
        let inner = bind(address, options, 0, [libc::IP_PMTUDISC_OMIT, libc::IPV6_PMTUDISC_OMIT])?;
        inner.set_read_timeout(Some(options.wake_interval))?;
        let local = inner.local_addr()?;
        Ok(ServerSocket { inner, local })
    }

    /// The local address, with the port that the kernel chose if it was 0.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// The limit of the receive buffer in octets: the kernel doubles the SO_RCVBUF that it allows (socket(7)).
    pub fn receive_buffer(&self) -> io::Result<u32> {
        socket_options::SocketMemory::of(&self.inner).map(|memory| memory.receive_limit)
    }
}

/// A bound socket with these options, except for the wake interval. `flags` are those of socket(2); `mtu_discovery` is what the kernel does
/// about the path MTU with IPv4, and with IPv6.
pub(crate) fn bind(
    address: SocketAddr,
    options: &ServerSocketOptions,
    flags: libc::c_int,
    mtu_discovery: [libc::c_int; 2],
) -> io::Result<UdpSocket> {
    let fd = socket_options::socket(address, libc::SOCK_DGRAM | flags)?;
    if options.reuse_port {
        socket_options::set(&fd, libc::SOL_SOCKET, libc::SO_REUSEPORT, 1, "SO_REUSEPORT")?;
    }
    socket_options::set_buffers(&fd, options.receive_buffer, options.send_buffer)?;
    let [v4, v6] = mtu_discovery;
    match address {
        SocketAddr::V4(_) => {
            socket_options::set(&fd, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, v4, "IP_MTU_DISCOVER")?;
        }
        SocketAddr::V6(_) => {
            socket_options::set(&fd, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, v6, "IPV6_MTU_DISCOVER")?;
        }
    }
    if address.ip().is_unspecified() {
        socket_options::report_destinations(&fd, address)?;
    }
    socket_options::bind(&fd, address)?;
    Ok(UdpSocket::from(fd))
}
