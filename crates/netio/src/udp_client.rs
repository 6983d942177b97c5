//! Batched UDP for clients: many sockets, each with many source addresses.
//!
//! A thread has one [`SendBatch`] and one [`ReceiveBatch`] for all its [`ClientSocket`]s, which keeps the buffers in the CPU caches.

mod receive_batch;
mod send_batch;

pub use receive_batch::{ReceiveBatch, ReceivedDatagram};
pub use send_batch::{SendBatch, SendResult};

use crate::socket_options;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The source addresses of queries: `count` consecutive ones from `first`, all local to this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sources {
    /// The lowest address.
    pub first: IpAddr,
    /// Their number, at least one.
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

    /// The index of an address; `None` if it is not a source address.
    pub fn index_of(&self, address: IpAddr) -> Option<u32> {
        let distance = match (self.first, address) {
            (IpAddr::V4(first), IpAddr::V4(ip)) => u128::from(ip.to_bits().checked_sub(first.to_bits())?),
            (IpAddr::V6(first), IpAddr::V6(ip)) => ip.to_bits().checked_sub(first.to_bits())?,
            _ => return None,
        };
        u32::try_from(distance).ok().filter(|&index| index < self.count)
    }
}

/// A UDP socket for queries to one server.
pub struct ClientSocket {
    fd: OwnedFd,
    server: SocketAddr,
    /// If set, the socket is bound to the wildcard address and each datagram states its source (IP_PKTINFO).
    sources: Option<Sources>,
}

impl ClientSocket {
    /// A socket with its own port. Without `sources` the kernel chooses the source address once, by the route to the server.
    pub fn open(server: SocketAddr, sources: Option<Sources>, buffer_len: usize) -> io::Result<ClientSocket> {
        ClientSocket::open_on_port(server, sources, 0, buffer_len)
    }

    /// As [`ClientSocket::open`], on a port, which the kernel chooses if it is 0.
    pub fn open_on_port(
        server: SocketAddr,
        sources: Option<Sources>,
        port: u16,
        buffer_len: usize,
    ) -> io::Result<ClientSocket> {
        let fd = socket_options::socket(server, libc::SOCK_DGRAM)?;
        socket_options::set_buffers(&fd, buffer_len, buffer_len)?;
        // Linux before 5.0 does not support UDP_GRO and delivers each datagram on its own.
        let _ = socket_options::set(&fd, libc::SOL_UDP, libc::UDP_GRO, 1, "UDP_GRO");
        if sources.is_some() {
            socket_options::report_destinations(&fd, server)?;
            if server.is_ipv6() {
                socket_options::set(&fd, libc::IPPROTO_IPV6, libc::IPV6_FREEBIND, 1, "IPV6_FREEBIND")?;
            }
        }
        if sources.is_some() || port > 0 {
            socket_options::bind(&fd, SocketAddr::new(crate::unspecified(server.ip()), port))?;
        }
        if sources.is_none() {
            socket_options::connect(&fd, server)?;
        }
        Ok(ClientSocket { fd, server, sources })
    }

    /// As [`ClientSocket::open`], from one source address.
    pub fn open_from(server: SocketAddr, source: IpAddr, buffer_len: usize) -> io::Result<ClientSocket> {
        let fd = socket_options::socket(server, libc::SOCK_DGRAM)?;
        socket_options::set_buffers(&fd, buffer_len, buffer_len)?;
        socket_options::bind(&fd, SocketAddr::new(source, 0))?;
        socket_options::connect(&fd, server)?;
        Ok(ClientSocket { fd, server, sources: None })
    }

    /// Makes the kernel note when it receives each datagram (SO_TIMESTAMPNS in socket(7)). It begins some milliseconds later; until then
    /// it notes when a datagram is read.
    pub fn enable_timestamps(&self) -> io::Result<()> {
        socket_options::set(&self.fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1, "SO_TIMESTAMPNS")
    }

    /// How many datagrams the kernel has dropped because the receive buffer was full.
    pub fn receive_drops(&self) -> io::Result<u32> {
        socket_options::SocketMemory::of(&self.fd).map(|memory| memory.drops)
    }
}

impl AsFd for ClientSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::time::Duration;

    /// Sends datagrams and echoes them; returns their senders, and the source indexes that received the echoes.
    fn exchange(sources: Option<Sources>, segmented: bool, datagrams: &[(u32, &[u8])]) -> (Vec<SocketAddr>, Vec<u32>) {
        let server = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        let socket = ClientSocket::open(server.local_addr().expect("bound"), sources, 1 << 20).expect("loopback");
        let mut batch = SendBatch::new(16, 64, if segmented { 16 } else { 1 });
        for (source, datagram) in datagrams {
            batch.push(*source, datagram)[0] = b'!';
        }
        assert_eq!(batch.send(&socket), SendResult { datagrams: datagrams.len(), refused: 0 });
        let mut peers = Vec::new();
        for (_, datagram) in datagrams {
            let mut octets = [0; 64];
            let (len, peer) = server.recv_from(&mut octets).expect("it was sent");
            assert_eq!((octets[0], &octets[1..len]), (b'!', &datagram[1..]));
            server.send_to(&octets[..len], peer).expect("loopback");
            peers.push(peer);
        }
        let mut returned = Vec::new();
        let mut batch = ReceiveBatch::new(4);
        while returned.len() < datagrams.len() {
            batch.receive(&socket, |answer| returned.push(answer.source.expect("from the server"))).expect("open");
        }
        (peers, returned)
    }

    #[test]
    fn one_socket_has_many_source_addresses() {
        let sources = Sources { first: "127.9.0.250".parse().expect("a literal"), count: 300 };
        let (peers, returned) =
            exchange(Some(sources), true, &[(0, b"one"), (7, b"two"), (7, b"six"), (299, b"three")]);
        let ips: Vec<String> = peers.iter().map(|peer| peer.ip().to_string()).collect();
        assert_eq!(ips, ["127.9.0.250", "127.9.1.1", "127.9.1.1", "127.9.2.37"]);
        assert_eq!(returned, [0, 7, 7, 299]);
    }

    #[test]
    fn a_socket_has_the_given_source_address() {
        let server = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        let source = "127.9.0.7".parse().expect("a literal");
        let socket = ClientSocket::open_from(server.local_addr().expect("bound"), source, 1 << 16).expect("loopback");
        let mut batch = SendBatch::new(1, 8, 1);
        batch.push(0, b"x");
        assert_eq!(batch.send(&socket), SendResult { datagrams: 1, refused: 0 });
        let (_, peer) = server.recv_from(&mut [0; 8]).expect("it was sent");
        assert_eq!(peer.ip(), source);
    }

    #[test]
    fn segmented_sends_arrive_as_single_datagrams() {
        for segmented in [false, true] {
            let (_, returned) = exchange(None, segmented, &[(0, b"aaaa"), (0, b"bbbb"), (0, b"cc"), (0, b"dd")]);
            assert_eq!(returned, [0; 4]);
        }
    }

    #[test]
    fn rejected_segment_bursts_are_sent_as_single_datagrams() {
        let server = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        let socket = ClientSocket::open(server.local_addr().expect("bound"), None, 1 << 20).expect("loopback");
        // UDP_SEGMENT needs checksums, so the kernel rejects it.
        socket_options::set(&socket.fd, libc::SOL_SOCKET, libc::SO_NO_CHECK, 1, "SO_NO_CHECK")
            .expect("known to all kernels");
        let mut batch = SendBatch::new(8, 64, 8);
        for _ in 0..2 {
            let datagrams: [&[u8]; 5] = [b"long1", b"long2", b"long3", b"end", b"end"];
            for datagram in datagrams {
                batch.push(0, datagram);
            }
            assert_eq!(batch.send(&socket), SendResult { datagrams: 5, refused: 0 });
            for datagram in datagrams {
                let mut octets = [0; 64];
                let (len, _) = server.recv_from(&mut octets).expect("it was sent");
                assert_eq!(&octets[..len], datagram);
            }
        }
        assert!(!batch.is_segmented());
    }

    /// On loopback a segment burst reaches a socket with UDP_GRO coalesced.
    #[test]
    fn coalesced_datagrams_are_split() {
        let sources = Sources { first: "127.9.1.1".parse().expect("a literal"), count: 9 };
        for sources in [None, Some(sources)] {
            let server = UdpSocket::bind("127.0.0.1:0").expect("loopback");
            let address = server.local_addr().expect("bound");
            let socket = ClientSocket::open(address, sources, 1 << 20).expect("loopback");
            let mut batch = SendBatch::new(1, 8, 1);
            batch.push(4, b"ask");
            batch.send(&socket);
            let (_, peer) = server.recv_from(&mut [0; 8]).expect("it was sent");
            let answering = ClientSocket { fd: server.into(), server: peer, sources: None };
            socket_options::connect(&answering.fd, peer).expect("loopback");
            let mut batch = SendBatch::new(8, 64, 8);
            let answers: [&[u8]; 4] = [b"answer 1", b"answer 2", b"answer 3", b"short"];
            for answer in answers {
                batch.push(0, answer);
            }
            assert_eq!(batch.send(&answering), SendResult { datagrams: 4, refused: 0 });
            let (mut batch, mut found, mut buffers) = (ReceiveBatch::new(8), Vec::new(), 0);
            while found.len() < answers.len() {
                let take = |answer: ReceivedDatagram<'_>| found.push((answer.bytes.to_vec(), answer.source));
                buffers += batch.receive(&socket, take).expect("open");
            }
            let source = if sources.is_some() { 4 } else { 0 };
            assert_eq!(found, answers.map(|answer| (answer.to_vec(), Some(source))));
            assert_eq!(buffers, 1, "coalesced by the kernel");
        }
    }

    /// When a reply was sent, and when the kernel noted its arrival; it is read 50 ms later.
    fn sent_and_noted(sources: Option<Sources>) -> (Duration, Duration) {
        let server = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        let socket = ClientSocket::open(server.local_addr().expect("bound"), sources, 1 << 20).expect("loopback");
        socket.enable_timestamps().expect("known to all kernels");
        let mut batch = SendBatch::new(1, 8, 1);
        batch.push(0, b"x");
        batch.send(&socket);
        let (_, peer) = server.recv_from(&mut [0; 8]).expect("it was sent");
        server.send_to(b"y", peer).expect("loopback");
        let sent = crate::clock::real_exact();
        std::thread::sleep(Duration::from_millis(50));
        let (mut batch, mut noted) = (ReceiveBatch::new(4), None);
        while noted.is_none() {
            batch.receive(&socket, |answer| noted = answer.received_at).expect("open");
        }
        (sent, noted.expect("received"))
    }

    #[test]
    fn the_kernel_notes_when_a_datagram_arrives() {
        let sources = Sources { first: "127.9.3.1".parse().expect("a literal"), count: 2 };
        for sources in [None, Some(sources)] {
            // The kernel begins to note arrivals some time after it was asked to; until then it notes when they are read.
            let notes_arrival = |_| {
                let (sent, noted) = sent_and_noted(sources);
                noted.abs_diff(sent) < Duration::from_millis(40)
            };
            assert!((0..100).any(notes_arrival));
        }
    }

    #[test]
    fn datagrams_from_other_peers_have_no_source() {
        let (server, other) =
            (UdpSocket::bind("127.0.0.1:0").expect("loopback"), UdpSocket::bind("127.0.0.1:0").expect("loopback"));
        let sources = Sources { first: "127.9.0.1".parse().expect("a literal"), count: 1 };
        let socket = ClientSocket::open(server.local_addr().expect("bound"), Some(sources), 1 << 20).expect("loopback");
        let mut batch = SendBatch::new(1, 8, 1);
        batch.push(0, b"x");
        batch.send(&socket);
        let (_, peer) = server.recv_from(&mut [0; 8]).expect("it was sent");
        other.send_to(b"forged", peer).expect("loopback");
        let (mut batch, mut found) = (ReceiveBatch::new(4), Vec::new());
        while found.is_empty() {
            batch.receive(&socket, |answer| found.push((answer.bytes.to_vec(), answer.source))).expect("open");
        }
        assert_eq!(found, [(b"forged".to_vec(), None)]);
    }
}
