//! Sending batches of queries (sendmmsg(2)), with generic segmentation offload (UDP_SEGMENT in udp(7)).

use super::ClientSocket;
use crate::control_messages::ControlMessages;
use crate::socket_address::RawAddress;
use crate::{empty_header, empty_part};
use std::io;
use std::os::fd::AsRawFd;
use std::ptr;

/// The kernel's limit of datagrams per segment burst (UDP_MAX_SEGMENTS was 64 before Linux 6.9).
const MAX_SEGMENTS: usize = 64;
/// Below the kernel's limit of octets per segment burst, which includes the headers.
const MAX_SEGMENTED_LEN: usize = 60_000;

/// Datagrams queued for one socket. If there may be several segments, consecutive datagrams of the same length and source, and a shorter
/// one after them, form a segment burst (UDP_SEGMENT); the first burst that the kernel rejects disables segmentation.
///
/// The headers point into the other vectors, which [`SendBatch::new`] fills and nothing resizes.
pub struct SendBatch {
    bytes: Vec<u8>,
    /// The offset in `bytes` of the next datagram.
    at: usize,
    sends: Vec<SegmentBurst>,
    headers: Vec<libc::mmsghdr>,
    parts: Vec<libc::iovec>,
    controls: Vec<ControlMessages>,
    server: RawAddress,
    /// The most datagrams in a segment burst; 1 to send each on its own.
    max_segments: usize,
    datagrams: usize,
}

// SAFETY: the pointers point into vectors that `self` owns, which move with it and are accessed by nothing else.
unsafe impl Send for SendBatch {}

/// One message of sendmmsg(2): one datagram, or several that the kernel splits.
#[derive(Clone, Copy)]
struct SegmentBurst {
    start: usize,
    len: usize,
    datagram_len: usize,
    count: usize,
    source: u32,
}

/// The result of [`SendBatch::send`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendResult {
    /// Datagrams that the kernel accepted.
    pub datagrams: usize,
    /// Datagrams that the kernel rejected.
    pub refused: usize,
}

impl SendBatch {
    /// A batch of up to `slots` datagrams of up to `datagram_len` octets, in segment bursts of up to `max_segments`.
    pub fn new(slots: usize, datagram_len: usize, max_segments: usize) -> SendBatch {
        SendBatch {
            bytes: vec![0; slots * datagram_len],
            at: 0,
            sends: Vec::with_capacity(slots),
            headers: vec![empty_header(); slots],
            parts: vec![empty_part(); slots],
            controls: vec![ControlMessages::empty(); slots],
            server: RawAddress::unspecified(),
            max_segments: max_segments.min(MAX_SEGMENTS),
            datagrams: 0,
        }
    }

    /// Whether segmentation is enabled and was not rejected so far.
    pub fn is_segmented(&self) -> bool {
        self.max_segments > 1
    }

    /// Whether another datagram of `len` octets does not fit.
    pub fn is_full(&self, len: usize) -> bool {
        self.datagrams == self.headers.len() || self.at + len > self.bytes.len()
    }

    /// Queues a datagram from the source address of that index (0 without sources) and returns its octets, which may still be changed.
    ///
    /// # Panics
    /// If [`SendBatch::is_full`].
    #[inline]
    pub fn push(&mut self, source: u32, datagram: &[u8]) -> &mut [u8] {
        let (start, len) = (self.at, datagram.len());
        self.at += len;
        self.datagrams += 1;
        match self.sends.last_mut().filter(|send| send.count < self.max_segments && send.can_take(len, source)) {
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

    /// Sends all queued datagrams through one socket; blocks while the kernel's send buffer is full.
    pub fn send(&mut self, socket: &ClientSocket) -> SendResult {
        self.link(socket);
        let (mut next, mut refused, mut tries) = (0, 0, 0);
        while next < self.sends.len() {
            match self.send_from(next, socket) {
                Ok(count) => {
                    next += count;
                    tries = 0;
                }
                // A connected socket reports that an earlier datagram was refused (ICMP): retry.
                Err(error) if tries < 2 && is_transient(&error) => tries += 1,
                // udp(7): no checksum offload on the route, or the path MTU is smaller than the segments. Single datagrams may pass.
                Err(_) if self.sends[next].count > 1 => {
                    self.max_segments = 1;
                    self.sends = self.sends[next..].iter().flat_map(SegmentBurst::split).collect();
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
            let segment = (send.count > 1).then_some(send.datagram_len as u16);
            let source = socket.sources.map(|sources| sources.at(send.source));
            self.controls[index].attach(segment, source, header);
            (header.msg_name, header.msg_namelen) = match socket.sources {
                Some(_) => ((&raw mut self.server).cast(), RawAddress::len_for(socket.server)),
                None => (ptr::null_mut(), 0),
            };
        }
    }

    fn send_from(&mut self, first: usize, socket: &ClientSocket) -> io::Result<usize> {
        let headers = &mut self.headers[first..self.sends.len()];
        let count = headers.len() as libc::c_uint;
        // SAFETY: `headers` are `count` headers; `link` pointed them at buffers of the lengths they state, which live as
        // long as `self`.
        let result = unsafe { libc::sendmmsg(socket.fd.as_raw_fd(), headers.as_mut_ptr(), count, 0) };
        usize::try_from(result).map_err(|_| io::Error::last_os_error())
    }
}

impl SegmentBurst {
    /// udp(7), UDP_SEGMENT: all datagrams of a burst have the same length, except that the last may be shorter.
    fn can_take(&self, len: usize, source: u32) -> bool {
        len <= self.datagram_len
            && self.len == self.count * self.datagram_len
            && self.source == source
            && self.len + len <= MAX_SEGMENTED_LEN
    }

    /// The same datagrams as single ones.
    fn split(&self) -> impl Iterator<Item = SegmentBurst> + use<> {
        let (whole, source) = (*self, self.source);
        (0..whole.count).map(move |index| {
            let start = whole.start + index * whole.datagram_len;
            let len = whole.datagram_len.min(whole.start + whole.len - start);
            SegmentBurst { start, len, datagram_len: len, count: 1, source }
        })
    }
}

/// Errors of a call that may succeed if it is repeated at once.
fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::ConnectionRefused)
}
