//! Receiving batches of responses (recvmmsg(2)).

use super::ClientSocket;
use crate::control_messages::{ControlMessages, ReceivedControl};
use crate::socket_address::RawAddress;
use crate::{empty_header, is_not_ready};
use std::io;
use std::os::fd::AsRawFd;
use std::ptr;
use std::time::Duration;

/// The size of a buffer: the most that UDP_GRO coalesces, and the longest datagram.
const BUFFER_LEN: usize = 1 << 16;
/// A cache line more than a power of two, so that buffers do not map to the same cache sets.
const STRIDE: usize = BUFFER_LEN + 64;

/// Buffers for datagrams received from one socket at a time. The kernel may coalesce consecutive datagrams of one peer and length
/// (UDP_GRO); they are split here.
///
/// The headers point into the other vectors, which [`ReceiveBatch::new`] fills and nothing resizes.
pub struct ReceiveBatch {
    bytes: Vec<u8>,
    peers: Vec<RawAddress>,
    controls: Vec<ControlMessages>,
    headers: Vec<libc::mmsghdr>,
    _parts: Vec<libc::iovec>,
}

// SAFETY: as for `SendBatch`.
unsafe impl Send for ReceiveBatch {}

/// One received datagram.
pub struct ReceivedDatagram<'a> {
    /// The payload.
    pub bytes: &'a [u8],
    /// The index of the source address that it was sent to; `None` if that is no source address, or the sender is not the server.
    pub source: Option<u32>,
    /// When the kernel received it, since 1970, with [`ClientSocket::enable_timestamps`].
    pub received_at: Option<Duration>,
}

impl ReceiveBatch {
    /// `slots` buffers of 64 KiB each, of which only the pages written to take memory.
    pub fn new(slots: usize) -> ReceiveBatch {
        let mut batch = ReceiveBatch {
            bytes: vec![0; slots * STRIDE],
            peers: vec![RawAddress::unspecified(); slots],
            controls: vec![ControlMessages::empty(); slots],
            headers: vec![empty_header(); slots],
            _parts: vec![libc::iovec { iov_base: ptr::null_mut(), iov_len: BUFFER_LEN }; slots],
        };
        for slot in 0..slots {
            let part = &mut batch._parts[slot];
            part.iov_base = batch.bytes[slot * STRIDE..].as_mut_ptr().cast();
            let header = &mut batch.headers[slot].msg_hdr;
            header.msg_name = (&raw mut batch.peers[slot]).cast();
            header.msg_iov = part;
            header.msg_iovlen = 1;
        }
        batch
    }

    /// Receives what is available, at most one buffer per slot, and passes each datagram to `take`; returns the number of buffers
    /// received.
    pub fn receive(&mut self, socket: &ClientSocket, take: impl FnMut(ReceivedDatagram<'_>)) -> io::Result<usize> {
        match self.receive_or_refused(socket, take) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(0),
            result => result,
        }
    }

    /// As [`ReceiveBatch::receive`], but fails with [`io::ErrorKind::ConnectionRefused`] if an earlier datagram of a connected socket was
    /// refused (ICMP): nothing listens there.
    pub fn receive_or_refused(
        &mut self,
        socket: &ClientSocket,
        mut take: impl FnMut(ReceivedDatagram<'_>),
    ) -> io::Result<usize> {
        let name_len = if socket.sources.is_some() { RawAddress::len_for(socket.server) } else { 0 };
        for (header, control) in self.headers.iter_mut().zip(&mut self.controls) {
            header.msg_hdr.msg_namelen = name_len;
            control.offer(&mut header.msg_hdr);
        }
        let slots = self.headers.len() as libc::c_uint;
        let (fd, flags) = (socket.fd.as_raw_fd(), libc::MSG_DONTWAIT as _);
        // SAFETY: `headers` has `slots` headers; `new` pointed them at buffers of at least the lengths they state, which live
        // as long as `self` and are not borrowed during the call.
        let result = unsafe { libc::recvmmsg(fd, self.headers.as_mut_ptr(), slots, flags, ptr::null_mut()) };
        let count = match usize::try_from(result) {
            Ok(count) => count,
            Err(_) => {
                let error = io::Error::last_os_error();
                return if is_not_ready(&error) { Ok(0) } else { Err(error) };
            }
        };
        for index in 0..count {
            self.split(index, socket, &mut take);
        }
        Ok(count)
    }

    #[inline]
    fn split(&self, index: usize, socket: &ClientSocket, take: &mut impl FnMut(ReceivedDatagram<'_>)) {
        let header = &self.headers[index];
        let bytes = &self.bytes[index * STRIDE..][..header.msg_len as usize];
        let ReceivedControl { destination, segment_len, received_at } = self.controls[index].read(&header.msg_hdr);
        let source = match socket.sources {
            // A connected socket only receives from its server.
            None => Some(0),
            Some(sources) if self.peers[index].socket_addr() == socket.server => {
                destination.and_then(|ip| sources.index_of(ip))
            }
            Some(_) => None,
        };
        match segment_len {
            None => take(ReceivedDatagram { bytes, source, received_at }),
            Some(len) => bytes.chunks(len).for_each(|bytes| take(ReceivedDatagram { bytes, source, received_at })),
        }
    }
}
