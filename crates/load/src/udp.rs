//! Queries over UDP: some sockets, each with one address or with all of a range.
//!
//! A source is a socket with an address: number `socket * addresses + address`.

use std::io;
use std::net::SocketAddr;

use netio::client::{Inbox, Outbox, Socket, Sources};
use netio::stream::{Interest, Poll};

use crate::queries::MAX_QUERY_LEN;

/// Datagrams that are received in one call.
const RECEIVED_AT_ONCE: usize = 64;
/// Room for answers that wait, in octets: 4 MiB are some 5000, 5 ms at a million a second.
const BUFFER_LEN: usize = 4 << 20;

/// The UDP side of a worker.
pub struct Udp {
    sockets: Vec<Socket>,
    outbox: Outbox,
    inbox: Inbox,
    addresses: u32,
    bunch: usize,
    /// How many sources were given out, and how many bunches were begun.
    turn: u64,
    bunches: u64,
    /// After how many turns addresses and sockets meet in the same pairs again.
    round: u64,
    /// The socket that the queued datagrams are for.
    current: usize,
}

impl Udp {
    /// Opens `sockets` sockets. Up to `bunch` queries leave together: those of one source in one piece where their lengths
    /// allow it (UDP_SEGMENT).
    pub fn open(server: SocketAddr, sockets: usize, sources: Option<Sources>, bunch: usize) -> io::Result<Udp> {
        let sockets: Vec<Socket> =
            (0..sockets.max(1)).map(|_| Socket::open(server, sources, BUFFER_LEN)).collect::<io::Result<_>>()?;
        let addresses = sources.map_or(1, |sources| sources.count);
        Ok(Udp {
            round: least_common_multiple(sockets.len() as u64, addresses.into()),
            sockets,
            outbox: Outbox::new(bunch, MAX_QUERY_LEN, bunch > 1),
            inbox: Inbox::new(RECEIVED_AT_ONCE),
            addresses,
            bunch,
            turn: 0,
            bunches: 0,
            current: 0,
        })
    }

    /// How many sources there are.
    pub fn source_count(&self) -> u32 {
        self.sockets.len() as u32 * self.addresses
    }

    /// How many queries leave together if they are due together.
    pub fn bunch(&self) -> usize {
        self.bunch
    }

    /// Whether queries that leave together may leave in one piece: they must have one source.
    pub fn is_segmented(&self) -> bool {
        self.addresses == 1 && self.outbox.is_segmented()
    }

    /// How many sockets there are; socket `n` has the token `n`.
    pub fn socket_count(&self) -> usize {
        self.sockets.len()
    }

    /// Has `poll` tell when answers wait.
    pub fn register(&self, poll: &Poll) -> io::Result<()> {
        self.sockets.iter().zip(0..).try_for_each(|(socket, token)| poll.add(socket, token, Interest::Readable))
    }

    /// Has the queries that follow leave by the next socket.
    pub fn begin_bunch(&mut self) {
        self.bunches += 1;
    }

    /// The source of the next query: another address each time, another socket each bunch.
    #[inline]
    pub fn next_source(&mut self) -> u32 {
        // One socket further each round, or an address would only ever meet some of the sockets.
        let socket = (self.bunches + self.turn / self.round) % self.sockets.len() as u64;
        let address = self.turn % u64::from(self.addresses);
        self.turn += 1;
        socket as u32 * self.addresses + address as u32
    }

    /// The source that stands for a client of a capture.
    pub fn source_of_client(&self, client: u32) -> u32 {
        client % self.source_count()
    }

    /// Queues a query; returns how many earlier ones the kernel did not take, where they had to be sent first.
    #[inline]
    pub fn push(&mut self, source: u32, id: u16, message: &[u8]) -> usize {
        let socket = (source / self.addresses) as usize;
        let refused = if socket != self.current || self.outbox.is_full(message.len()) { self.flush() } else { 0 };
        self.current = socket;
        self.outbox.push(source % self.addresses, message)[..2].copy_from_slice(&id.to_be_bytes());
        refused
    }

    /// Sends what is queued; returns how many datagrams the kernel did not take.
    pub fn flush(&mut self) -> usize {
        self.outbox.send(&self.sockets[self.current]).refused
    }

    /// Gives the answers that wait at a socket to `take`, with their source; `None` for those from elsewhere.
    pub fn receive(&mut self, socket: usize, mut take: impl FnMut(Option<u32>, &[u8])) -> io::Result<usize> {
        let base = socket as u32 * self.addresses;
        self.inbox
            .receive(&self.sockets[socket], |answer| take(answer.source.map(|source| base + source), answer.bytes))
    }
}

fn least_common_multiple(a: u64, b: u64) -> u64 {
    let (mut divisor, mut rest) = (a, b);
    while rest > 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    a / divisor * b
}
