//! The asking side of UDP: many sockets, many source addresses on each, and batches shared between them.
//!
//! A thread has one [`Outbox`] and one [`Inbox`] for all its [`Socket`]s, so that few buffers stay in the caches.

use crate::address::RawAddress;
use crate::option;
use std::io;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;

/// The longest answer that is received whole, in octets; of a longer one the rest is lost.
pub const ANSWER_LEN: usize = 4096;
/// The kernel's limit of datagrams in one segmented send (UDP_MAX_SEGMENTS was 64 before Linux 6.2).
const MAX_SEGMENTS: usize = 64;
/// The kernel's limit of octets in one segmented send, with room for the headers.
const MAX_SEGMENTED_LEN: usize = 60_000;

/// The addresses that queries come from: `count` of them from `first` on, each local to this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sources {
    /// The lowest address.
    pub first: IpAddr,
    /// How many there are, at least one.
    pub count: u32,
}

impl Sources {
    /// The address at `index`, which is below `count`.
    pub fn at(&self, index: u32) -> IpAddr {
        match self.first {
            IpAddr::V4(first) => Ipv4Addr::from_bits(first.to_bits().wrapping_add(index)).into(),
            IpAddr::V6(first) => Ipv6Addr::from_bits(first.to_bits().wrapping_add(index.into())).into(),
        }
    }

    /// The index of an address; `None` for one that is not among them.
    pub fn index_of(&self, address: IpAddr) -> Option<u32> {
        let distance = match (self.first, address) {
            (IpAddr::V4(first), IpAddr::V4(ip)) => u128::from(ip.to_bits().checked_sub(first.to_bits())?),
            (IpAddr::V6(first), IpAddr::V6(ip)) => ip.to_bits().checked_sub(first.to_bits())?,
            _ => return None,
        };
        u32::try_from(distance).ok().filter(|&index| index < self.count)
    }
}

/// A socket that asks one server.
pub struct Socket {
    fd: OwnedFd,
    server: SocketAddr,
    /// Set where the socket is bound to the wildcard and the source is told with every datagram.
    sources: Option<Sources>,
}

impl Socket {
    /// A socket with a port of its own. Without `sources` the kernel chooses the address once, by its route to the server.
    pub fn open(server: SocketAddr, sources: Option<Sources>, buffer_len: usize) -> io::Result<Socket> {
        let fd = option::socket(server, libc::SOCK_DGRAM)?;
        option::set_buffer(&fd, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, buffer_len, "SO_RCVBUF")?;
        option::set_buffer(&fd, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, buffer_len, "SO_SNDBUF")?;
        match (sources, server) {
            (None, _) => option::connect(&fd, server)?,
            (Some(_), SocketAddr::V4(_)) => {
                option::set(&fd, libc::IPPROTO_IP, libc::IP_PKTINFO, 1, "IP_PKTINFO")?;
                option::bind(&fd, (Ipv4Addr::UNSPECIFIED, 0).into())?;
            }
            (Some(_), SocketAddr::V6(_)) => {
                option::set(&fd, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1, "IPV6_RECVPKTINFO")?;
                option::set(&fd, libc::IPPROTO_IPV6, libc::IPV6_FREEBIND, 1, "IPV6_FREEBIND")?;
                option::bind(&fd, (Ipv6Addr::UNSPECIFIED, 0).into())?;
            }
        }
        Ok(Socket { fd, server, sources })
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

//----------- Outbox -----------------------------------------------------------

/// Datagrams on their way to one socket. Neighbours of the same length and source leave as one segmented send
/// (UDP_SEGMENT), if that is wanted.
///
/// The headers point into the other vectors, which are filled in [`Outbox::new`] and never resized.
pub struct Outbox {
    bytes: Vec<u8>,
    /// Where in `bytes` the next datagram goes.
    at: usize,
    sends: Vec<Departure>,
    headers: Vec<libc::mmsghdr>,
    parts: Vec<libc::iovec>,
    controls: Vec<Controls>,
    server: RawAddress,
    segmented: bool,
    /// How many of `sends` wait.
    queued: usize,
    datagrams: usize,
}

// SAFETY: the pointers lead into vectors that `self` owns, which move with it and are touched by nobody else.
unsafe impl Send for Outbox {}

/// One send: one datagram, or several that the kernel cuts apart.
#[derive(Clone, Copy)]
struct Departure {
    start: usize,
    len: usize,
    datagram_len: usize,
    count: usize,
    source: u32,
}

/// What came of [`Outbox::send`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Datagrams that the kernel took.
    pub datagrams: usize,
    /// Datagrams that it did not take.
    pub refused: usize,
}

impl Outbox {
    /// Room for `slots` datagrams of up to `datagram_len` octets.
    pub fn new(slots: usize, datagram_len: usize, segmented: bool) -> Outbox {
        Outbox {
            bytes: vec![0; slots * datagram_len],
            at: 0,
            sends: vec![Departure { start: 0, len: 0, datagram_len: 0, count: 0, source: 0 }; slots],
            headers: vec![empty_header(); slots],
            parts: vec![libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; slots],
            controls: vec![Controls([0; CONTROLS_LEN]); slots],
            server: RawAddress::unspecified(),
            segmented,
            queued: 0,
            datagrams: 0,
        }
    }

    /// Whether there is no room for a further datagram of `len` octets.
    pub fn is_full(&self, len: usize) -> bool {
        self.queued == self.sends.len() || self.at + len > self.bytes.len()
    }

    /// Queues a datagram from the source of that index (0 without sources) and returns it, to be changed before it leaves.
    ///
    /// # Panics
    /// When [`Outbox::is_full`].
    #[inline]
    pub fn push(&mut self, source: u32, datagram: &[u8]) -> &mut [u8] {
        let (start, len) = (self.at, datagram.len());
        self.at += len;
        self.datagrams += 1;
        let last = self.queued.checked_sub(1).map(|last| &mut self.sends[last]);
        match last.filter(|send| self.segmented && send.can_take(len, source)) {
            Some(send) => {
                send.len += len;
                send.count += 1;
            }
            None => {
                self.sends[self.queued] = Departure { start, len, datagram_len: len, count: 1, source };
                self.queued += 1;
            }
        }
        let bytes = &mut self.bytes[start..start + len];
        bytes.copy_from_slice(datagram);
        bytes
    }

    /// Sends what is queued, all of it by the one socket; blocks while the kernel's buffer is full.
    pub fn send(&mut self, socket: &Socket) -> Sent {
        self.link(socket);
        let (mut next, mut refused, mut tries) = (0, 0, 0);
        while next < self.queued {
            match self.send_from(next, socket) {
                Ok(count) => {
                    next += count;
                    tries = 0;
                }
                // A connected socket tells of an earlier datagram that found no server: the same call again goes through.
                Err(error) if tries < 2 && is_passing(&error) => tries += 1,
                Err(_) => {
                    refused += self.sends[next].count;
                    next += 1;
                    tries = 0;
                }
            }
        }
        let datagrams = self.datagrams - refused;
        (self.queued, self.at, self.datagrams) = (0, 0, 0);
        Sent { datagrams, refused }
    }

    fn link(&mut self, socket: &Socket) {
        self.server = socket.server.into();
        for index in 0..self.queued {
            let send = self.sends[index];
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

    fn send_from(&mut self, first: usize, socket: &Socket) -> io::Result<usize> {
        let headers = &mut self.headers[first..self.queued];
        let count = headers.len() as libc::c_uint;
        // SAFETY: `headers` are `count` headers; `link` pointed them at buffers of the lengths they tell, which live as
        // long as `self`.
        let result = unsafe { libc::sendmmsg(socket.fd.as_raw_fd(), headers.as_mut_ptr(), count, 0) };
        usize::try_from(result).map_err(|_| io::Error::last_os_error())
    }
}

impl Departure {
    /// udp(7), UDP_SEGMENT: all datagrams of a send are equally long.
    fn can_take(&self, len: usize, source: u32) -> bool {
        self.datagram_len == len
            && self.source == source
            && self.count < MAX_SEGMENTS
            && self.len + len <= MAX_SEGMENTED_LEN
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::ConnectionRefused)
}

//----------- Inbox ------------------------------------------------------------

/// Datagrams that were received, from one socket at a time.
///
/// The headers point into the other vectors, which are filled in [`Inbox::new`] and never resized.
pub struct Inbox {
    bytes: Vec<u8>,
    peers: Vec<RawAddress>,
    controls: Vec<Controls>,
    headers: Vec<libc::mmsghdr>,
    _parts: Vec<libc::iovec>,
}

// SAFETY: as for `Outbox`.
unsafe impl Send for Inbox {}

/// One received datagram.
pub struct Answer<'a> {
    /// Its octets, up to [`ANSWER_LEN`] of them.
    pub bytes: &'a [u8],
    /// The index of the source that it came to; `None` when it did not come from the server, or came to another address.
    pub source: Option<u32>,
}

impl Inbox {
    /// Room for `slots` datagrams a call.
    pub fn new(slots: usize) -> Inbox {
        // A cache line more than a power of two, so that the slots do not fight for the same cache sets.
        const STRIDE: usize = ANSWER_LEN + 64;
        let mut inbox = Inbox {
            bytes: vec![0; slots * STRIDE],
            peers: vec![RawAddress::unspecified(); slots],
            controls: vec![Controls([0; CONTROLS_LEN]); slots],
            headers: vec![empty_header(); slots],
            _parts: vec![libc::iovec { iov_base: ptr::null_mut(), iov_len: ANSWER_LEN }; slots],
        };
        for slot in 0..slots {
            let part = &mut inbox._parts[slot];
            part.iov_base = inbox.bytes[slot * STRIDE..].as_mut_ptr().cast();
            let header = &mut inbox.headers[slot].msg_hdr;
            header.msg_name = (&raw mut inbox.peers[slot]).cast();
            header.msg_control = inbox.controls[slot].0.as_mut_ptr().cast();
            header.msg_iov = part;
            header.msg_iovlen = 1;
        }
        inbox
    }

    /// Takes what is there, at most as many datagrams as there are slots, and gives each to `take`; returns how many.
    pub fn receive(&mut self, socket: &Socket, mut take: impl FnMut(Answer<'_>)) -> io::Result<usize> {
        let name_len = if socket.sources.is_some() { RawAddress::len_for(socket.server) } else { 0 };
        for header in &mut self.headers {
            header.msg_hdr.msg_namelen = name_len;
            header.msg_hdr.msg_controllen = if name_len == 0 { 0 } else { CONTROLS_LEN as _ };
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
                return if is_passing(&error) || error.kind() == io::ErrorKind::WouldBlock {
                    Ok(0)
                } else {
                    Err(error)
                };
            }
        };
        for index in 0..count {
            take(self.answer(index, socket));
        }
        Ok(count)
    }

    fn answer(&self, index: usize, socket: &Socket) -> Answer<'_> {
        let header = &self.headers[index];
        let start = index * (ANSWER_LEN + 64);
        let bytes = &self.bytes[start..start + header.msg_len as usize];
        let source = match socket.sources {
            // The kernel lets nothing through to a connected socket but what its server sends.
            None => Some(0),
            Some(sources) if self.peers[index].socket_addr() == socket.server => {
                let controls_len = header.msg_hdr.msg_controllen;
                self.controls[index].destination(controls_len).and_then(|ip| sources.index_of(ip))
            }
            Some(_) => None,
        };
        Answer { bytes, source }
    }
}

//----------- control messages -------------------------------------------------

/// Room for a segment size and an address with its interface, as cmsg(3) lays them out.
const CONTROLS_LEN: usize = 64;

#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Controls([u8; CONTROLS_LEN]);

impl Controls {
    /// Writes the control messages that are wanted; returns how many octets they take.
    fn fill(&mut self, segment: Option<u16>, source: Option<IpAddr>) -> usize {
        let mut len = 0;
        if let Some(segment) = segment {
            len = self.push(len, libc::SOL_UDP, libc::UDP_SEGMENT, &segment.to_ne_bytes());
        }
        match source {
            Some(IpAddr::V4(ip)) => {
                // in_pktinfo: interface, local address, destination (ip(7)).
                let mut info = [0; 12];
                info[4..8].copy_from_slice(&ip.octets());
                self.push(len, libc::IPPROTO_IP, libc::IP_PKTINFO, &info)
            }
            Some(IpAddr::V6(ip)) => {
                // in6_pktinfo: address, interface (RFC 3542 6.2).
                let mut info = [0; 20];
                info[..16].copy_from_slice(&ip.octets());
                self.push(len, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info)
            }
            None => len,
        }
    }

    fn push(&mut self, at: usize, level: libc::c_int, kind: libc::c_int, data: &[u8]) -> usize {
        let head = mem::size_of::<libc::cmsghdr>();
        let len = head + data.len();
        self.0[at..at + 8].copy_from_slice(&len.to_ne_bytes());
        self.0[at + 8..at + 12].copy_from_slice(&level.to_ne_bytes());
        self.0[at + 12..at + head].copy_from_slice(&kind.to_ne_bytes());
        self.0[at + head..at + len].copy_from_slice(data);
        at + len.next_multiple_of(8)
    }

    /// The local address that a received datagram came to, from the first message of `len` octets.
    fn destination(&self, len: usize) -> Option<IpAddr> {
        let head = mem::size_of::<libc::cmsghdr>();
        let number = |at: usize| libc::c_int::from_ne_bytes(*self.0[at..].first_chunk().expect("inside the array"));
        match (len, number(8), number(12)) {
            (28.., libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                self.0[head + 8..].first_chunk::<4>().map(|octets| Ipv4Addr::from(*octets).into())
            }
            (36.., libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                self.0[head..].first_chunk::<16>().map(|octets| Ipv6Addr::from(*octets).into())
            }
            _ => None,
        }
    }
}

const _: () = assert!(mem::size_of::<libc::cmsghdr>() == 16, "the layout that `Controls` writes: 64-bit Linux");

fn empty_header() -> libc::mmsghdr {
    // SAFETY: integers and raw pointers, for which zero is a value.
    unsafe { mem::zeroed() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    /// Sends datagrams and has them echoed; returns who asked, and the sources that the echoes came back to.
    fn exchange(sources: Option<Sources>, segmented: bool, datagrams: &[(u32, &[u8])]) -> (Vec<SocketAddr>, Vec<u32>) {
        let server = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        let socket = Socket::open(server.local_addr().expect("bound"), sources, 1 << 20).expect("loopback");
        let mut outbox = Outbox::new(16, 64, segmented);
        for (source, datagram) in datagrams {
            outbox.push(*source, datagram)[0] = b'!';
        }
        assert_eq!(outbox.send(&socket), Sent { datagrams: datagrams.len(), refused: 0 });
        let mut peers = Vec::new();
        for (_, datagram) in datagrams {
            let mut octets = [0; 64];
            let (len, peer) = server.recv_from(&mut octets).expect("it was sent");
            assert_eq!((octets[0], &octets[1..len]), (b'!', &datagram[1..]));
            server.send_to(&octets[..len], peer).expect("loopback");
            peers.push(peer);
        }
        let mut returned = Vec::new();
        let mut inbox = Inbox::new(4);
        while returned.len() < datagrams.len() {
            inbox.receive(&socket, |answer| returned.push(answer.source.expect("from the server"))).expect("open");
        }
        (peers, returned)
    }

    #[test]
    fn one_socket_asks_from_many_addresses() {
        let sources = Sources { first: "127.9.0.250".parse().expect("a literal"), count: 300 };
        let (peers, returned) =
            exchange(Some(sources), true, &[(0, b"one"), (7, b"two"), (7, b"six"), (299, b"three")]);
        let ips: Vec<String> = peers.iter().map(|peer| peer.ip().to_string()).collect();
        assert_eq!(ips, ["127.9.0.250", "127.9.1.1", "127.9.1.1", "127.9.2.37"]);
        assert_eq!(returned, [0, 7, 7, 299]);
    }

    #[test]
    fn segmented_sends_arrive_as_single_datagrams() {
        for segmented in [false, true] {
            let (_, returned) = exchange(None, segmented, &[(0, b"aaaa"), (0, b"bbbb"), (0, b"cccc"), (0, b"dd")]);
            assert_eq!(returned, [0; 4]);
        }
    }

    #[test]
    fn answers_from_others_have_no_source() {
        let (server, other) =
            (UdpSocket::bind("127.0.0.1:0").expect("loopback"), UdpSocket::bind("127.0.0.1:0").expect("loopback"));
        let sources = Sources { first: "127.9.0.1".parse().expect("a literal"), count: 1 };
        let socket = Socket::open(server.local_addr().expect("bound"), Some(sources), 1 << 20).expect("loopback");
        let mut outbox = Outbox::new(1, 8, false);
        outbox.push(0, b"x");
        outbox.send(&socket);
        let (_, peer) = server.recv_from(&mut [0; 8]).expect("it was sent");
        other.send_to(b"forged", peer).expect("loopback");
        let (mut inbox, mut found) = (Inbox::new(4), Vec::new());
        while found.is_empty() {
            inbox.receive(&socket, |answer| found.push((answer.bytes.to_vec(), answer.source))).expect("open");
        }
        assert_eq!(found, [(b"forged".to_vec(), None)]);
    }
}
