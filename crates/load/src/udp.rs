//! Queries over UDP: some sockets, each with one source address or with all of `--source-prefix`.
//!
//! A source is a socket with an address; its number is `socket * addresses + address`.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use netio::epoll::{Interest, Poll};
use netio::udp_client::{ClientSocket, ReceiveBatch, SendBatch, Sources};

use crate::queries::MAX_QUERY_LEN;

/// Datagrams received in one system call.
const RECEIVE_BATCH: usize = 64;
/// The socket buffers in octets: 4 MiB hold some 5000 responses, 5 ms at a million a second.
const BUFFER_LEN: usize = 4 << 20;

/// The UDP sockets of a worker.
pub struct UdpSockets {
    sockets: Vec<ClientSocket>,
    send_batch: SendBatch,
    receive_batch: ReceiveBatch,
    addresses: u32,
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

impl UdpSockets {
    /// Opens `sockets` sockets that send up to `batch_len` due queries in one system call, and adds them to `poll`.
    ///
    /// Up to `burst_len` queries of one source are a segment burst (UDP_SEGMENT) if their lengths allow it.
    pub fn open(
        poll: &Poll,
        server: SocketAddr,
        sockets: usize,
        sources: Option<Sources>,
        batch_len: usize,
        burst_len: usize,
    ) -> io::Result<UdpSockets> {
        let sockets: Vec<ClientSocket> =
            (0..sockets.max(1)).map(|_| ClientSocket::open(server, sources, BUFFER_LEN)).collect::<io::Result<_>>()?;
        sockets.iter().zip(0..).try_for_each(|(socket, token)| poll.add(socket, token, Interest::Readable))?;
        let addresses = sources.map_or(1, |sources| sources.count);
        Ok(UdpSockets {
            period: least_common_multiple(sockets.len() as u64, addresses.into()),
            sockets,
            // Twice the length, so that a TSIG record fits after the longest query.
            send_batch: SendBatch::new(batch_len, 2 * MAX_QUERY_LEN, burst_len),
            receive_batch: ReceiveBatch::new(RECEIVE_BATCH),
            addresses,
            batch_len,
            sources_used: 0,
            batches: 0,
            socket: 0,
            queued_socket: 0,
        })
    }

    pub fn source_count(&self) -> u32 {
        self.sockets.len() as u32 * self.addresses
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
    pub fn next_source(&mut self) -> u32 {
        self.sources_used += 1;
        self.socket * self.addresses + (self.sources_used % u64::from(self.addresses)) as u32
    }

    /// The source for the queries of a captured client.
    pub fn source_of_client(&self, client: u32) -> u32 {
        client % self.source_count()
    }

    /// Queues a query. If that flushes earlier ones, returns how many of them the kernel refused.
    #[inline]
    pub fn push(&mut self, source: u32, id: u16, message: &[u8]) -> usize {
        let socket = (source / self.addresses) as usize;
        let must_flush = socket != self.queued_socket || self.send_batch.is_full(message.len());
        let refused = if must_flush { self.flush() } else { 0 };
        self.queued_socket = socket;
        self.send_batch.push(source % self.addresses, message)[..2].copy_from_slice(&id.to_be_bytes());
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
        let base = socket as u32 * self.addresses;
        self.receive_batch.receive(&self.sockets[socket], |answer| {
            on_response(answer.source.map(|source| base + source), answer.bytes, answer.received_at);
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
        let mut udp = UdpSockets::open(&poll, server, 4, Some(sources), batch_len, 1).expect("loopback");
        let mut batch = || {
            udp.begin_batch();
            (0..batch_len).map(|_| udp.next_source()).collect()
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
}
