//! Queries over UDP: some sockets, each with one address or with all of a range.
//!
//! A source is a socket with an address: number `socket * addresses + address`.

use std::io;
use std::net::SocketAddr;

use netio::client::{Inbox, Outbox, Socket, Sources};
use netio::stream::{Interest, Poll};

use crate::queries::MAX_QUERY_LEN;

/// Neighbours on the schedule that leave by the same socket if they are due together: enough to share the cost of a system
/// call, few enough not to bunch up at one thread of a server that spreads its clients by address and port.
pub const RUN: u32 = 8;
/// The same where they leave in segments: as many as make the kernel's work per datagram small.
const SEGMENTED_RUN: u32 = 64;
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
    is_segmented: bool,
    /// How many sources were given out.
    turn: u32,
    /// The socket that the queued datagrams are for.
    current: usize,
}

impl Udp {
    /// Opens `sockets` sockets. If `is_segmented`, neighbours of the same length and source leave in one piece (UDP_SEGMENT).
    pub fn open(server: SocketAddr, sockets: usize, sources: Option<Sources>, is_segmented: bool) -> io::Result<Udp> {
        let sockets =
            (0..sockets.max(1)).map(|_| Socket::open(server, sources, BUFFER_LEN)).collect::<io::Result<_>>()?;
        Ok(Udp {
            sockets,
            outbox: Outbox::new(SEGMENTED_RUN as usize, MAX_QUERY_LEN, is_segmented),
            inbox: Inbox::new(RECEIVED_AT_ONCE),
            addresses: sources.map_or(1, |sources| sources.count),
            is_segmented,
            turn: 0,
            current: 0,
        })
    }

    /// How many sources there are.
    pub fn source_count(&self) -> u32 {
        self.sockets.len() as u32 * self.addresses
    }

    /// Whether neighbours of the same length leave in one piece.
    pub fn is_segmented(&self) -> bool {
        self.is_segmented
    }

    /// How many queries leave by the same socket if they are due together.
    pub fn run_len(&self) -> u32 {
        if self.is_segmented { SEGMENTED_RUN } else { RUN }
    }

    /// How many sockets there are; socket `n` has the token `n`.
    pub fn socket_count(&self) -> usize {
        self.sockets.len()
    }

    /// Has `poll` tell when answers wait.
    pub fn register(&self, poll: &Poll) -> io::Result<()> {
        self.sockets.iter().zip(0..).try_for_each(|(socket, token)| poll.add(socket, token, Interest::Readable))
    }

    /// The source of the next query: another address each time, another socket each [`Udp::run_len`].
    #[inline]
    pub fn next_source(&mut self) -> u32 {
        let run = self.turn / self.run_len();
        let socket = run % self.sockets.len() as u32;
        // Segments of one piece have one source.
        let address = if self.is_segmented { run } else { self.turn } % self.addresses;
        self.turn = self.turn.wrapping_add(1);
        socket * self.addresses + address
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
