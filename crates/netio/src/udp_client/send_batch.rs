//! Sending queries.

use super::ClientSocket;
use super::control_messages::ControlMessages;
use super::{empty_header, is_transient};
use crate::socket_address::RawAddress;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr;

/// The kernel's limit of datagrams in one segmented send (UDP_MAX_SEGMENTS was 64 before Linux 6.9).
const MAX_SEGMENTS: usize = 64;
/// The kernel's limit of octets in one segmented send, with room for the headers.
const MAX_SEGMENTED_LEN: usize = 60_000;

/// Datagrams on their way to one socket. Neighbours of the same length and source, and a shorter one behind them, leave as
/// one segmented send (UDP_SEGMENT), if that is wanted, until the kernel refuses one.
///
/// The headers point into the other vectors, which are filled in [`SendBatch::new`] and never resized.
pub struct SendBatch {
    bytes: Vec<u8>,
    /// Where in `bytes` the next datagram goes.
    at: usize,
    sends: Vec<SegmentBurst>,
    headers: Vec<libc::mmsghdr>,
    parts: Vec<libc::iovec>,
    controls: Vec<ControlMessages>,
    server: RawAddress,
    segmented: bool,
    datagrams: usize,
}

// SAFETY: the pointers lead into vectors that `self` owns, which move with it and are touched by nobody else.
unsafe impl Send for SendBatch {}

/// One send: one datagram, or several that the kernel cuts apart.
#[derive(Clone, Copy)]
struct SegmentBurst {
    start: usize,
    len: usize,
    datagram_len: usize,
    count: usize,
    source: u32,
}

/// What came of [`SendBatch::send`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendResult {
    /// Datagrams that the kernel took.
    pub datagrams: usize,
    /// Datagrams that it did not take.
    pub refused: usize,
}

impl SendBatch {
    /// Room for `slots` datagrams of up to `datagram_len` octets.
    pub fn new(slots: usize, datagram_len: usize, segmented: bool) -> SendBatch {
        SendBatch {
            bytes: vec![0; slots * datagram_len],
            at: 0,
            sends: Vec::with_capacity(slots),
            headers: vec![empty_header(); slots],
            parts: vec![libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; slots],
            controls: vec![ControlMessages::empty(); slots],
            server: RawAddress::unspecified(),
            segmented,
            datagrams: 0,
        }
    }

    /// Whether neighbours leave together: wanted, and not refused so far.
    pub fn is_segmented(&self) -> bool {
        self.segmented
    }

    /// Whether there is no room for a further datagram of `len` octets.
    pub fn is_full(&self, len: usize) -> bool {
        self.datagrams == self.headers.len() || self.at + len > self.bytes.len()
    }

    /// Queues a datagram from the source of that index (0 without sources) and returns it, to be changed before it leaves.
    ///
    /// # Panics
    /// When [`SendBatch::is_full`].
    #[inline]
    pub fn push(&mut self, source: u32, datagram: &[u8]) -> &mut [u8] {
        let (start, len) = (self.at, datagram.len());
        self.at += len;
        self.datagrams += 1;
        match self.sends.last_mut().filter(|send| self.segmented && send.can_take(len, source)) {
            Some(send) => {
                send.len += len;
                send.count += 1;
            }
            None => self.sends.push(SegmentBurst { start, len, datagram_len: len, count: 1, source }),
        }
        let bytes = &mut self.bytes[start..start + len];
        bytes.copy_from_slice(datagram);
        bytes
    }

    /// Sends what is queued, all of it by the one socket; blocks while the kernel's buffer is full.
    pub fn send(&mut self, socket: &ClientSocket) -> SendResult {
        self.link(socket);
        let (mut next, mut refused, mut tries) = (0, 0, 0);
        while next < self.sends.len() {
            match self.send_from(next, socket) {
                Ok(count) => {
                    next += count;
                    tries = 0;
                }
                // A connected socket tells of an earlier datagram that found no server: the same call again goes through.
                Err(error) if tries < 2 && is_transient(&error) => tries += 1,
                // udp(7): no checksum offload on the way, or a path too narrow for the segments. One by one they may pass.
                Err(_) if self.sends[next].count > 1 => {
                    self.segmented = false;
                    self.sends = self.sends[next..].iter().flat_map(SegmentBurst::singly).collect();
                    next = 0;
                    self.link(socket);
                }
                Err(_) => {
                    refused += self.sends[next].count;
                    next += 1;
                    tries = 0;
                }
            }
        }
        let datagrams = self.datagrams - refused;
        self.sends.clear();
        (self.at, self.datagrams) = (0, 0);
        SendResult { datagrams, refused }
    }

    fn link(&mut self, socket: &ClientSocket) {
        self.server = socket.server.into();
        for (index, send) in self.sends.iter().enumerate() {
            let part = &mut self.parts[index];
            part.iov_base = self.bytes[send.start..].as_mut_ptr().cast();
            part.iov_len = send.len;
            let header = &mut self.headers[index].msg_hdr;
            header.msg_iov = part;
            header.msg_iovlen = 1;
            let control = &mut self.controls[index];
            let segment = (send.count > 1).then_some(send.datagram_len as u16);
            let source = socket.sources.map(|sources| sources.at(send.source));
            header.msg_controllen = control.fill(segment, source) as _;
            header.msg_control =
                if header.msg_controllen == 0 { ptr::null_mut() } else { control.0.as_mut_ptr().cast() };
            (header.msg_name, header.msg_namelen) = match socket.sources {
                Some(_) => ((&raw mut self.server).cast(), RawAddress::len_for(socket.server)),
                None => (ptr::null_mut(), 0),
            };
        }
    }

    fn send_from(&mut self, first: usize, socket: &ClientSocket) -> io::Result<usize> {
        let headers = &mut self.headers[first..self.sends.len()];
        let count = headers.len() as libc::c_uint;
        // SAFETY: `headers` are `count` headers; `link` pointed them at buffers of the lengths they tell, which live as
        // long as `self`.
        let result = unsafe { libc::sendmmsg(socket.fd.as_raw_fd(), headers.as_mut_ptr(), count, 0) };
        usize::try_from(result).map_err(|_| io::Error::last_os_error())
    }
}

impl SegmentBurst {
    /// udp(7), UDP_SEGMENT: all datagrams of a send are equally long, but the last may be shorter.
    fn can_take(&self, len: usize, source: u32) -> bool {
        len <= self.datagram_len
            && self.len == self.count * self.datagram_len
            && self.source == source
            && self.count < MAX_SEGMENTS
            && self.len + len <= MAX_SEGMENTED_LEN
    }

    /// The same datagrams, each for itself.
    fn singly(&self) -> impl Iterator<Item = SegmentBurst> + use<> {
        let (whole, source) = (*self, self.source);
        (0..whole.count).map(move |index| {
            let start = whole.start + index * whole.datagram_len;
            let len = whole.datagram_len.min(whole.start + whole.len - start);
            SegmentBurst { start, len, datagram_len: len, count: 1, source }
        })
    }
}
