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
    /// How many sources were given out.
    turn: u64,
    /// How many bunches were begun.
    bunches: u64,
    /// After how many bunches of one query addresses and sockets would meet in the same pairs again.
    round: u64,
    /// The socket of the bunch at hand.
    socket: u32,
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
            // Twice the length, so that a signature has room behind the longest query.
            outbox: Outbox::new(bunch, 2 * MAX_QUERY_LEN, bunch > 1),
            inbox: Inbox::new(RECEIVED_AT_ONCE),
            addresses,
            bunch,
            turn: 0,
            bunches: 0,
            socket: 0,
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
        // One socket further each round, or an address would only ever meet some of the sockets.
        self.socket = ((self.bunches + self.bunches / self.round) % self.sockets.len() as u64) as u32;
        self.bunches += 1;
    }

    /// The source of the next query: another address each time, another socket each bunch.
    #[inline]
    pub fn next_source(&mut self) -> u32 {
        self.turn += 1;
        self.socket * self.addresses + (self.turn % u64::from(self.addresses)) as u32
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

#[cfg(test)]
mod tests {
    use super::*;

    fn sources_of(bunches: usize, bunch: usize, addresses: u32) -> Vec<Vec<u32>> {
        let sources = Sources { first: [127, 6, 0, 1].into(), count: addresses };
        let mut udp = Udp::open(([127, 0, 0, 1], 9).into(), 4, Some(sources), bunch).expect("loopback");
        let mut gather = || {
            udp.begin_bunch();
            (0..bunch).map(|_| udp.next_source()).collect()
        };
        (0..bunches).map(|_| gather()).collect()
    }

    #[test]
    fn each_address_meets_each_socket() {
        for addresses in [1, 3, 4, 6, 8] {
            let mut met = sources_of(4 * addresses as usize, 1, addresses).concat();
            met.sort_unstable();
            assert_eq!(met, (0..4 * addresses).collect::<Vec<u32>>());
        }
    }

    #[test]
    fn a_bunch_has_one_socket_and_the_next_another() {
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
