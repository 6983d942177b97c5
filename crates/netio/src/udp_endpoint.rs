//! Batched UDP for protocols that send when they want, such as QUIC: datagrams are received, and queued to any peer, without waiting.
//!
//! One [`UdpEndpoint`] per thread and address: [`UdpEndpoint::receive`], [`UdpEndpoint::datagram`] for each; and for each datagram
//! to send [`UdpEndpoint::buffer`], [`UdpEndpoint::queue`], in the end [`UdpEndpoint::flush`].

use crate::control_messages::ControlMessages;
use crate::send_queue::send_queued;
use crate::socket_address::RawAddress;
use crate::udp_server::{self, ServerSocketOptions};
use crate::{empty_header, empty_part, none_if_transient};
use std::io;
use std::mem;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr;

/// Datagrams per system call.
pub const BATCH: usize = 32;
/// The longest datagram received whole, in octets: what fits into an Ethernet frame. Longer ones are dropped.
pub const DATAGRAM_LEN: usize = 1500;
/// The most datagrams of a segment burst (UDP_SEGMENT in udp(7)); the kernel allows 64 and 64 KiB.
pub const MAX_SEGMENTS: usize = 32;

/// A bound, non-blocking UDP socket and its buffers.
pub struct UdpEndpoint {
    socket: UdpSocket,
    local: SocketAddr,
    received: Vec<Received>,
    /// The number of datagrams of the last [`UdpEndpoint::receive`].
    count: usize,
    outgoing: Vec<Outgoing>,
    /// The number of queued datagrams or bursts.
    queued: usize,
    /// Datagrams and bursts that the kernel has rejected since the last [`UdpEndpoint::flush`].
    unsent: usize,
    /// The most datagrams of a burst: 1 once the kernel has rejected a burst of datagrams that it accepts one by one.
    max_segments: usize,
}

struct Received {
    octets: Box<[u8]>,
    peer: RawAddress,
    control: ControlMessages,
    len: usize,
    local_ip: Option<IpAddr>,
    is_truncated: bool,
}

struct Outgoing {
    octets: Vec<u8>,
    peer: RawAddress,
    from: Option<IpAddr>,
    segment: Option<u16>,
    control: ControlMessages,
}

/// A received datagram.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// What it contains.
    pub octets: &'a [u8],
    /// The sender.
    pub peer: SocketAddr,
    /// The address that it was sent to; `None` if the socket has only one.
    pub local_ip: Option<IpAddr>,
}

impl UdpEndpoint {
    /// Binds a socket. Errors are those of the system calls and name the option that failed.
    pub fn bind(address: SocketAddr, options: &ServerSocketOptions) -> io::Result<UdpEndpoint> {
        // PROBE: with the DF bit, whatever path MTU the kernel has heard of. The protocol finds out what arrives.
        let probe = [libc::IP_PMTUDISC_PROBE, libc::IPV6_PMTUDISC_PROBE];
        let socket = udp_server::bind(address, options, libc::SOCK_NONBLOCK, probe)?;
        let local = socket.local_addr()?;
        let received = (0..BATCH).map(|_| Received::new()).collect();
        let outgoing = (0..BATCH).map(|_| Outgoing::new()).collect();
        Ok(UdpEndpoint {
            socket,
            local,
            received,
            count: 0,
            outgoing,
            queued: 0,
            unsent: 0,
            max_segments: MAX_SEGMENTS,
        })
    }

    /// The local address, with the port that the kernel chose if it was 0.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Receives the datagrams that are available, at most [`BATCH`]; returns their number.
    pub fn receive(&mut self) -> io::Result<usize> {
        self.count = 0;
        let (mut parts, mut headers) = ([empty_part(); BATCH], [empty_header(); BATCH]);
        for ((received, part), header) in self.received.iter_mut().zip(&mut parts).zip(&mut headers) {
            *part = libc::iovec { iov_base: received.octets.as_mut_ptr().cast(), iov_len: received.octets.len() };
            let header = &mut header.msg_hdr;
            header.msg_name = (&raw mut received.peer).cast();
            header.msg_namelen = RawAddress::len_for(self.local);
            (header.msg_iov, header.msg_iovlen) = (part, 1);
            received.control.offer(header);
        }
        // SAFETY: `headers` are BATCH headers, which point at buffers of the lengths they state; all live through the call.
        let result = unsafe {
            libc::recvmmsg(
                self.socket.as_raw_fd(),
                headers.as_mut_ptr(),
                BATCH as _,
                libc::MSG_DONTWAIT,
                ptr::null_mut(),
            )
        };
        let Ok(count) = usize::try_from(result) else { return none_if_transient(io::Error::last_os_error()) };
        for (received, header) in self.received.iter_mut().zip(&headers[..count]) {
            received.len = header.msg_len as usize;
            received.is_truncated = header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0;
            received.local_ip = received.control.read(&header.msg_hdr).destination;
        }
        self.count = count;
        Ok(count)
    }

    /// A datagram of the last [`UdpEndpoint::receive`]; `None` if it was too long.
    ///
    /// # Panics
    /// When `index` is not below what `receive` returned.
    pub fn datagram(&self, index: usize) -> Option<Datagram<'_>> {
        let received = &self.received[..self.count][index];
        (!received.is_truncated).then(|| Datagram {
            octets: &received.octets[..received.len],
            peer: received.peer.socket_addr(),
            local_ip: received.local_ip,
        })
    }

    /// How many datagrams a burst may have now, at most [`MAX_SEGMENTS`].
    pub fn max_segments(&self) -> usize {
        self.max_segments
    }

    /// An empty buffer for what is queued next. There is always one: a full queue is sent first.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        if self.queued == self.outgoing.len() {
            self.send_queue();
        }
        let octets = &mut self.outgoing[self.queued].octets;
        octets.clear();
        octets
    }

    /// Queues what was written to the [`UdpEndpoint::buffer`]: one datagram, or a burst of datagrams of `segment` octets each,
    /// of which the last may be shorter. It is sent from the address `from`, if the socket has several.
    pub fn queue(&mut self, peer: SocketAddr, from: Option<IpAddr>, segment: Option<u16>) {
        let outgoing = &mut self.outgoing[self.queued];
        outgoing.peer = RawAddress::from(peer);
        (outgoing.from, outgoing.segment) = (from, segment);
        self.queued += 1;
    }

    /// Sends what is queued; returns how many datagrams and bursts the kernel has rejected since the last flush. None is sent again.
    pub fn flush(&mut self) -> usize {
        self.send_queue();
        mem::take(&mut self.unsent)
    }

    fn send_queue(&mut self) {
        let unsent = send_queued(self.queued, |next| match self.send_from(next) {
            Err(error) if self.outgoing[next].segment.is_some() && may_be_segmentation(&error) => {
                self.send_singly(next, error)
            }
            result => result,
        });
        self.queued = 0;
        self.unsent += unsent;
    }

    /// Sends the datagrams of a burst one by one, as the kernel has rejected it with this error.
    fn send_singly(&mut self, index: usize, error: io::Error) -> io::Result<usize> {
        let Outgoing { octets, peer, from, segment, .. } = &self.outgoing[index];
        let single = |octets: &[u8]| Outgoing { octets: octets.to_vec(), peer: *peer, from: *from, ..Outgoing::new() };
        let mut singles: Vec<Outgoing> = octets.chunks(segment.map_or(1, usize::from)).map(single).collect();
        let unsent = send_queued(singles.len(), |next| send(&self.socket, self.local, &mut singles[next..]));
        if unsent == singles.len() {
            // The error is about the peer or the route, not about bursts.
            return Err(error);
        }
        self.max_segments = 1;
        self.unsent += unsent;
        Ok(1)
    }

    fn send_from(&mut self, first: usize) -> io::Result<usize> {
        send(&self.socket, self.local, &mut self.outgoing[first..self.queued])
    }
}

/// Sends at most [`BATCH`] datagrams or bursts, from the first on; returns how many the kernel accepted.
fn send(socket: &UdpSocket, local: SocketAddr, waiting: &mut [Outgoing]) -> io::Result<usize> {
    let (mut parts, mut headers) = ([empty_part(); BATCH], [empty_header(); BATCH]);
    let count = waiting.len().min(BATCH);
    for ((outgoing, part), header) in waiting.iter_mut().zip(&mut parts).zip(&mut headers) {
        *part = libc::iovec { iov_base: outgoing.octets.as_mut_ptr().cast(), iov_len: outgoing.octets.len() };
        let header = &mut header.msg_hdr;
        header.msg_name = (&raw mut outgoing.peer).cast();
        header.msg_namelen = RawAddress::len_for(local);
        (header.msg_iov, header.msg_iovlen) = (part, 1);
        outgoing.control.attach(outgoing.segment, outgoing.from, header);
    }
    // SAFETY: `headers` has at least `count` headers, which point at buffers of the lengths they state; all live through the call,
    // which writes to none of them but the headers.
    let result = unsafe { libc::sendmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), count as _, libc::MSG_DONTWAIT) };
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Whether the kernel may have rejected a burst because it cannot split it (udp(7)): without checksum offload on the route, or
/// with segments longer than the device's MTU. Errors of the address are the same.
fn may_be_segmentation(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EIO | libc::EINVAL))
}

impl AsFd for UdpEndpoint {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Received {
    fn new() -> Received {
        let (peer, control) = (RawAddress::unspecified(), ControlMessages::empty());
        Received { octets: vec![0; DATAGRAM_LEN].into(), peer, control, len: 0, local_ip: None, is_truncated: false }
    }
}

impl Outgoing {
    fn new() -> Outgoing {
        let (octets, control) = (Vec::new(), ControlMessages::empty());
        Outgoing { octets, peer: RawAddress::unspecified(), from: None, segment: None, control }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket_options;
    use std::time::Duration;

    fn endpoint(address: &str) -> UdpEndpoint {
        let options = ServerSocketOptions { reuse_port: false, ..ServerSocketOptions::default() };
        UdpEndpoint::bind(address.parse().expect("a literal"), &options).expect("loopback")
    }

    fn client(address: &str) -> UdpSocket {
        let client = UdpSocket::bind(address).expect("loopback");
        client.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
        client
    }

    /// Waits for one datagram.
    fn receive(endpoint: &mut UdpEndpoint) -> Datagram<'_> {
        while endpoint.receive().expect("the socket is open") == 0 {
            std::thread::yield_now();
        }
        endpoint.datagram(0).expect("it is short")
    }

    #[test]
    fn datagrams_of_a_wildcard_socket_have_their_address_and_replies_come_from_it() {
        for (wildcard, loopback) in [("0.0.0.0:0", "127.0.0.9:0"), ("[::]:0", "[::1]:0")] {
            let mut endpoint = endpoint(wildcard);
            let client =
                client(&SocketAddr::new(loopback.parse::<SocketAddr>().expect("a literal").ip(), 0).to_string());
            let ip = client.local_addr().expect("bound").ip();
            let target = SocketAddr::new(ip, endpoint.local_addr().port());
            client.send_to(b"question", target).expect("loopback");
            let Datagram { octets, peer, local_ip } = receive(&mut endpoint);
            assert_eq!((octets, peer, local_ip), (&b"question"[..], client.local_addr().expect("bound"), Some(ip)));
            endpoint.buffer().extend_from_slice(b"reply");
            endpoint.queue(peer, local_ip, None);
            assert_eq!(endpoint.flush(), 0);
            let mut reply = [0; 16];
            assert_eq!(client.recv_from(&mut reply).expect("a reply"), (5, target));
        }
    }

    #[test]
    fn a_burst_arrives_as_datagrams() {
        let (mut endpoint, client) = (endpoint("127.0.0.1:0"), client("127.0.0.1:0"));
        let peer = client.local_addr().expect("bound");
        for _ in 0..BATCH + 1 {
            endpoint.buffer().extend_from_slice(&[7; 250]);
            endpoint.queue(peer, None, Some(100));
        }
        assert_eq!(endpoint.flush(), 0);
        let mut octets = [0; 300];
        for len in [100, 100, 50].repeat(BATCH + 1) {
            assert_eq!(client.recv(&mut octets).expect("a datagram"), len);
        }
    }

    #[test]
    fn rejected_bursts_are_sent_as_single_datagrams() {
        for (bound, loopback) in [("127.0.0.1:0", "127.0.0.1"), ("0.0.0.0:0", "127.0.0.7")] {
            let (mut endpoint, client) = (endpoint(bound), client("127.0.0.1:0"));
            let from = IpAddr::V4(loopback.parse().expect("a literal"));
            // UDP_SEGMENT needs checksums, so the kernel rejects it.
            let fd = endpoint.socket.try_clone().expect("a descriptor").into();
            socket_options::set(&fd, libc::SOL_SOCKET, libc::SO_NO_CHECK, 1, "SO_NO_CHECK")
                .expect("known to all kernels");
            for segment in [Some(100), None, Some(100)] {
                endpoint.buffer().extend_from_slice(&[7; 250][..segment.map_or(50, |_| 250)]);
                endpoint.queue(client.local_addr().expect("bound"), Some(from), segment);
            }
            assert_eq!(endpoint.flush(), 0);
            for expected in [100, 100, 50, 50, 100, 100, 50] {
                let mut octets = [0; 300];
                let (len, peer) = client.recv_from(&mut octets).expect("a datagram");
                assert_eq!((len, peer.ip()), (expected, from));
            }
            assert_eq!(endpoint.max_segments(), 1);
        }
    }

    #[test]
    fn an_unreachable_peer_does_not_end_segmentation() {
        let mut endpoint = endpoint("127.0.0.1:0");
        endpoint.buffer().extend_from_slice(&[7; 250]);
        endpoint.queue("127.0.0.1:0".parse().expect("a literal"), None, Some(100));
        assert_eq!((endpoint.flush(), endpoint.max_segments()), (1, MAX_SEGMENTS));
    }

    #[test]
    fn datagrams_that_made_room_in_the_queue_are_counted_if_they_are_rejected() {
        let mut endpoint = endpoint("127.0.0.1:0");
        for _ in 0..BATCH + 1 {
            endpoint.buffer().push(1);
            endpoint.queue("0.0.0.1:0".parse().expect("a literal"), None, None);
        }
        assert_eq!((endpoint.flush(), endpoint.flush()), (BATCH + 1, 0));
    }

    #[test]
    fn too_long_datagrams_are_flagged_and_one_unreachable_peer_costs_no_other_its_reply() {
        let (mut endpoint, client) = (endpoint("127.0.0.1:0"), client("127.0.0.1:0"));
        client.send_to(&[0; DATAGRAM_LEN + 1], endpoint.local_addr()).expect("loopback");
        while endpoint.receive().expect("the socket is open") == 0 {
            std::thread::yield_now();
        }
        assert!(endpoint.datagram(0).is_none());
        endpoint.buffer().push(1);
        endpoint.queue("0.0.0.1:0".parse().expect("a literal"), None, None);
        endpoint.buffer().push(2);
        endpoint.queue(client.local_addr().expect("bound"), None, None);
        assert_eq!(endpoint.flush(), 1);
        let mut octets = [0; 4];
        assert_eq!((client.recv(&mut octets).expect("a datagram"), octets[0]), (1, 2));
    }
}
