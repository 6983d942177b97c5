//! Receiving answers.

use super::ClientSocket;
use super::control_messages::{CONTROL_LEN, ControlMessages, ReceivedControl};
use super::{empty_header, is_transient};
use crate::socket_address::RawAddress;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr;

/// Room for what comes in one piece: as much as the kernel joins, and the longest datagram there is.
const PIECE_LEN: usize = 1 << 16;
/// A cache line more than a power of two, so that the slots do not fight for the same cache sets.
const STRIDE: usize = PIECE_LEN + 64;

/// Datagrams that were received, from one socket at a time. Of those that came in a row from one peer with one length the
/// kernel may make one piece (UDP_GRO), which is taken apart here.
///
/// The headers point into the other vectors, which are filled in [`ReceiveBatch::new`] and never resized.
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
    /// Its octets.
    pub bytes: &'a [u8],
    /// The index of the source that it came to; `None` when it did not come from the server, or came to another address.
    pub source: Option<u32>,
}

impl ReceiveBatch {
    /// Room for `slots` pieces a call: 64 KiB each, of which only those pages take memory that were written to.
    pub fn new(slots: usize) -> ReceiveBatch {
        let mut batch = ReceiveBatch {
            bytes: vec![0; slots * STRIDE],
            peers: vec![RawAddress::unspecified(); slots],
            controls: vec![ControlMessages::empty(); slots],
            headers: vec![empty_header(); slots],
            _parts: vec![libc::iovec { iov_base: ptr::null_mut(), iov_len: PIECE_LEN }; slots],
        };
        for slot in 0..slots {
            let part = &mut batch._parts[slot];
            part.iov_base = batch.bytes[slot * STRIDE..].as_mut_ptr().cast();
            let header = &mut batch.headers[slot].msg_hdr;
            header.msg_name = (&raw mut batch.peers[slot]).cast();
            header.msg_control = batch.controls[slot].0.as_mut_ptr().cast();
            header.msg_iov = part;
            header.msg_iovlen = 1;
        }
        batch
    }

    /// Takes what is there, at most as many pieces as there are slots, and gives each datagram to `take`; returns how many
    /// pieces there were.
    pub fn receive(&mut self, socket: &ClientSocket, mut take: impl FnMut(ReceivedDatagram<'_>)) -> io::Result<usize> {
        let name_len = if socket.sources.is_some() { RawAddress::len_for(socket.server) } else { 0 };
        for header in &mut self.headers {
            header.msg_hdr.msg_namelen = name_len;
            header.msg_hdr.msg_controllen = CONTROL_LEN as _;
        }
        let slots = self.headers.len() as libc::c_uint;
        let (fd, flags) = (socket.fd.as_raw_fd(), libc::MSG_DONTWAIT as _);
        // SAFETY: `headers` has `slots` headers; `new` pointed them at buffers that have at least the lengths told and live
        // as long as `self`; nobody borrows them during the call.
        let result = unsafe { libc::recvmmsg(fd, self.headers.as_mut_ptr(), slots, flags, ptr::null_mut()) };
        let count = match usize::try_from(result) {
            Ok(count) => count,
            Err(_) => {
                let error = io::Error::last_os_error();
                return if is_transient(&error) || error.kind() == io::ErrorKind::WouldBlock {
                    Ok(0)
                } else {
                    Err(error)
                };
            }
        };
        for index in 0..count {
            self.take_apart(index, socket, &mut take);
        }
        Ok(count)
    }

    #[inline]
    fn take_apart(&self, index: usize, socket: &ClientSocket, take: &mut impl FnMut(ReceivedDatagram<'_>)) {
        let header = &self.headers[index];
        let bytes = &self.bytes[index * STRIDE..][..header.msg_len as usize];
        let controls_len = header.msg_hdr.msg_controllen;
        let ReceivedControl { destination, segment_len } = self.controls[index].read(controls_len);
        let source = match socket.sources {
            // The kernel lets nothing through to a connected socket but what its server sends.
            None => Some(0),
            Some(sources) if self.peers[index].socket_addr() == socket.server => {
                destination.and_then(|ip| sources.index_of(ip))
            }
            Some(_) => None,
        };
        match segment_len {
            None => take(ReceivedDatagram { bytes, source }),
            Some(len) => bytes.chunks(len).for_each(|bytes| take(ReceivedDatagram { bytes, source })),
        }
    }
}
