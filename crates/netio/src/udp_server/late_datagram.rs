//! A reply that is sent after its batch, by any thread.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::Arc;

use super::pktinfo::PktInfoControl;
use crate::socket_address::RawAddress;

/// Where to send the reply to a datagram, and from which address.
pub struct LateDatagram {
    socket: Arc<UdpSocket>,
    peer: RawAddress,
    /// The destination address of the datagram, and the length that the kernel wrote; none if the socket has only one address.
    control: Option<(PktInfoControl, ControlLen)>,
}

/// The type of `msg_controllen`, which depends on the C library.
#[cfg(target_env = "musl")]
pub(super) type ControlLen = libc::socklen_t;
#[cfg(not(target_env = "musl"))]
pub(super) type ControlLen = libc::size_t;

impl LateDatagram {
    pub(super) fn new(
        socket: Arc<UdpSocket>,
        peer: RawAddress,
        control: Option<(PktInfoControl, ControlLen)>,
    ) -> LateDatagram {
        LateDatagram { socket, peer, control }
    }

    /// The sender of the datagram.
    pub fn peer(&self) -> SocketAddr {
        self.peer.socket_addr()
    }

    /// Sends the reply without waiting.
    pub fn send(mut self, reply: &[u8]) -> io::Result<()> {
        let mut part = libc::iovec { iov_base: reply.as_ptr().cast_mut().cast(), iov_len: reply.len() };
        let name_len = RawAddress::len_for(self.peer.socket_addr());
        let mut header = crate::empty_header().msg_hdr;
        header.msg_name = (&raw mut self.peer).cast();
        header.msg_namelen = name_len;
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        if let Some((control, len)) = &mut self.control {
            control.clear_interface();
            header.msg_control = (&raw mut *control).cast();
            header.msg_controllen = *len;
        }
        // SAFETY: the header points at the address, the part and the control message, which have the lengths that it states and
        // live through the call; sendmsg(2) writes to none of them.
        let sent = unsafe { libc::sendmsg(self.socket.as_raw_fd(), ptr::from_ref(&header), libc::MSG_DONTWAIT) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}
