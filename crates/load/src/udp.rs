//! Queries over UDP: some sockets, each with one source address or with all of `--source-prefix`.
//!
//! A source is a socket with an address; its number is `socket * addresses + address`.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use netio::epoll::{Interest, Poll};
use netio::udp_client::{ClientSocket, ReceiveBatch, SendBatch, Sources};

use crate::queries::MAX_QUERY_LEN;
use crate::replay::is_port_unavailable;

/// Datagrams received in one system call.
const RECEIVE_BATCH: usize = 64;
/// Each socket buffer in octets: 4 MiB hold some 5000 responses, 5 ms at a million a second.
pub const SOCKET_BUFFER_LEN: usize = 4 << 20;

/// The UDP sockets of a worker.
pub struct UdpSockets {
    sockets: Vec<ClientSocket>,
    send_batch: SendBatch,
    receive_batch: ReceiveBatch,
    addresses: u32,
    /// How many addresses of a socket have message ids of their own: all, or one.
    id_addresses: u32,
    /// The sockets with the ports of captured clients.
    socket_of_port: HashMap<u16, u32>,
    /// Ports of captured clients that were not free.
    ports_replaced: u64,
    batch_len: usize,
    sources_used: u64,
    batches: u64,
    /// After this many batches of one query, the pairs of address and socket would repeat.
    period: u64,
    /// The socket of the current batch.
    socket: u32,
    /// The socket of the queued datagrams.
    queued_socket: usize,
}

/// The sockets to open, and what they send together.
pub struct UdpConfig {
    /// How many sockets, if no ports are given.
    pub sockets: usize,
    /// The ports of captured clients, each of which gets a socket; empty if the kernel chooses ports.
    pub ports: Vec<u16>,
    pub sources: Option<Sources>,
    /// Up to this many due queries are sent in one system call.
    pub batch_len: usize,
    /// Up to this many queries of one source are a segment burst (UDP_SEGMENT) if their lengths allow it.
    pub burst_len: usize,
}

/// A socket and one of the source addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpSource {
    /// The number among all sources, for message ids.
    pub number: u32,
    socket: u32,
    address: u32,
}

impl UdpSockets {
    /// Opens the sockets and adds them to `poll`.
    pub fn open(poll: &Poll, server: SocketAddr, config: &UdpConfig) -> io::Result<UdpSockets> {
        let mut ports_replaced = 0;
        let mut open = |port| match ClientSocket::open_on_port(server, config.sources, port, SOCKET_BUFFER_LEN) {
            Err(error) if port > 0 && is_port_unavailable(&error) => {
                ports_replaced += 1;
                ClientSocket::open(server, config.sources, SOCKET_BUFFER_LEN)
            }
            result => result,
        };
        let sockets: Vec<ClientSocket> = match config.ports.is_empty() {
            true => (0..config.sockets.max(1)).map(|_| open(0)).collect::<io::Result<_>>()?,
            false => config.ports.iter().map(|&port| open(port)).collect::<io::Result<_>>()?,
        };
        sockets.iter().zip(0..).try_for_each(|(socket, token)| poll.add(socket, token, Interest::Readable))?;
        let addresses = config.sources.map_or(1, |sources| sources.count);
        Ok(UdpSockets {
            period: least_common_multiple(sockets.len() as u64, addresses.into()),
            sockets,
            // Twice the length, so that a TSIG record fits after the longest query.
            send_batch: SendBatch::new(config.batch_len, 2 * MAX_QUERY_LEN, config.burst_len),
            receive_batch: ReceiveBatch::new(RECEIVE_BATCH),
            addresses,
            // With thousands of ports, the pairs would be too many: few queries of a port are outstanding at a time.
            id_addresses: if config.ports.is_empty() { addresses } else { 1 },
            socket_of_port: config.ports.iter().copied().zip(0..).collect(),
            ports_replaced,
            batch_len: config.batch_len,
            sources_used: 0,
            batches: 0,
            socket: 0,
            queued_socket: 0,
        })
    }

    /// All source numbers are below this.
    pub fn source_count(&self) -> u32 {
        self.sockets.len() as u32 * self.id_addresses
    }

    /// The maximum number of queries that are sent together.
    pub fn batch_len(&self) -> usize {
        self.batch_len
    }

    /// How many responses the kernel has dropped because a receive buffer was full.
    pub fn receive_drops(&self) -> io::Result<u64> {
        self.sockets.iter().map(|socket| socket.receive_drops().map(u64::from)).sum()
    }

    /// How many sockets there are; socket `n` has the poll token `n`.
    pub fn socket_count(&self) -> usize {
        self.sockets.len()
    }

    /// Starts a batch, which uses the next socket.
    pub fn begin_batch(&mut self) {
        // Skip a socket after each period, so that every address is used with every socket.
        self.socket = ((self.batches + self.batches / self.period) % self.sockets.len() as u64) as u32;
        self.batches += 1;
    }

    /// The source of the next query: the socket of the batch, with another address each time.
    #[inline]
    pub fn next_source(&mut self) -> UdpSource {
        self.sources_used += 1;
        self.source(self.socket, (self.sources_used % u64::from(self.addresses)) as u32)
    }

    /// The source for the queries of a captured client: the socket with its port, or one that it always has.
    pub fn source_of_client(&self, client: u32, port: u16) -> UdpSource {
        match self.socket_of_port.get(&port) {
            Some(&socket) => self.source(socket, client % self.addresses),
            None => {
                let number = client % (self.sockets.len() as u32 * self.addresses);
                self.source(number / self.addresses, number % self.addresses)
            }
        }
    }

    #[inline]
    fn source(&self, socket: u32, address: u32) -> UdpSource {
        UdpSource { number: socket * self.id_addresses + address % self.id_addresses, socket, address }
    }

    /// How many ports of captured clients were not free, so that the kernel chose others.
    pub fn ports_replaced(&self) -> u64 {
        self.ports_replaced
    }

    /// Queues a query. If that flushes earlier ones, returns how many of them the kernel refused.
    #[inline]
    pub fn push(&mut self, source: UdpSource, id: u16, message: &[u8]) -> usize {
        let socket = source.socket as usize;
        let must_flush = socket != self.queued_socket || self.send_batch.is_full(message.len());
        let refused = if must_flush { self.flush() } else { 0 };
        self.queued_socket = socket;
        self.send_batch.push(source.address, message)[..2].copy_from_slice(&id.to_be_bytes());
        refused
    }

    /// Sends the queued queries; returns how many the kernel refused.
    pub fn flush(&mut self) -> usize {
        self.send_batch.send(&self.sockets[self.queued_socket]).refused
    }

    /// Makes the kernel note when it receives each response.
    pub fn enable_timestamps(&self) -> io::Result<()> {
        self.sockets.iter().try_for_each(ClientSocket::enable_timestamps)
    }

    /// Passes each datagram received on a socket to `on_response`. Its source is `None` if it is not from the server; the
    /// time is when the kernel received it, if timestamps are enabled.
    pub fn receive(
        &mut self,
        socket: usize,
        mut on_response: impl FnMut(Option<u32>, &[u8], Option<Duration>),
    ) -> io::Result<usize> {
        let (base, addresses) = (socket as u32 * self.id_addresses, self.id_addresses);
        self.receive_batch.receive(&self.sockets[socket], |answer| {
            on_response(answer.source.map(|source| base + source % addresses), answer.bytes, answer.received_at);
        })
    }
}

fn least_common_multiple(a: u64, b: u64) -> u64 {
    let (mut divisor, mut rest) = (a, b);
    while rest > 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    a / divisor * b
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources_of(batches: usize, batch_len: usize, addresses: u32) -> Vec<Vec<u32>> {
        let sources = Sources { first: [127, 6, 0, 1].into(), count: addresses };
        let (poll, server) = (Poll::new().expect("a descriptor"), ([127, 0, 0, 1], 9).into());
        let config = UdpConfig { sockets: 4, ports: Vec::new(), sources: Some(sources), batch_len, burst_len: 1 };
        let mut udp = UdpSockets::open(&poll, server, &config).expect("loopback");
        let mut batch = || {
            udp.begin_batch();
            (0..batch_len).map(|_| udp.next_source().number).collect()
        };
        (0..batches).map(|_| batch()).collect()
    }

    #[test]
    fn every_address_is_used_with_every_socket() {
        for addresses in [1, 3, 4, 6, 8] {
            let mut used = sources_of(4 * addresses as usize, 1, addresses).concat();
            used.sort_unstable();
            assert_eq!(used, (0..4 * addresses).collect::<Vec<u32>>());
        }
    }

    #[test]
    fn a_batch_uses_one_socket_and_the_next_batch_another() {
        let sockets: Vec<u32> = sources_of(8, 5, 2)
            .iter()
            .map(|sources| {
                assert!(sources.iter().all(|source| source / 2 == sources[0] / 2), "{sources:?}");
                sources[0] / 2
            })
            .collect();
        assert!(sockets.windows(2).all(|pair| pair[0] != pair[1]), "{sockets:?}");
        assert!((0..4).all(|socket| sockets.contains(&socket)), "{sockets:?}");
    }

    #[test]
    fn captured_clients_have_their_ports_unless_those_are_in_use() {
        let taken = std::net::UdpSocket::bind("0.0.0.0:0").expect("loopback");
        let free = std::net::UdpSocket::bind("0.0.0.0:0").expect("loopback");
        let [taken_port, free_port] = [&taken, &free].map(|socket| socket.local_addr().expect("bound").port());
        drop(free);
        let (poll, server) = (Poll::new().expect("a descriptor"), ([127, 0, 0, 1], 9).into());
        let sources = Some(Sources { first: [127, 6, 0, 1].into(), count: 300 });
        let ports = vec![free_port, taken_port];
        let config = UdpConfig { sockets: 1, ports, sources, batch_len: 1, burst_len: 1 };
        let udp = UdpSockets::open(&poll, server, &config).expect("loopback");
        assert_eq!((udp.socket_count(), udp.source_count(), udp.ports_replaced()), (2, 2, 1));
        assert_eq!(udp.source_of_client(303, free_port), UdpSource { number: 0, socket: 0, address: 3 });
        assert_eq!(udp.source_of_client(7, taken_port), UdpSource { number: 1, socket: 1, address: 7 });
    }
}
