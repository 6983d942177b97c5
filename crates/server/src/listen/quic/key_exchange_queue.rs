//! What waits for its turn because a key exchange may follow, the costly step of a handshake. All turns together get a share of a
//! processor, and a round has one at most; networks take turns, so that a flood from one of them delays the others little.

use super::super::client_counts::client;
use super::super::handshake_share::HandshakeShare;
use super::super::network_lanes::NetworkLanes;
use quinn_proto::{ConnectionEvent, Incoming};
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// What may wait for the next rounds. Networks share the places; clients repeat what is dropped.
const MAX_WAITING: usize = 256;
/// Of these, those of one client.
const MAX_PER_CLIENT: usize = MAX_WAITING / 4;

/// What waits.
pub(super) enum Waiting {
    /// An attempt to connect, with the number of its socket.
    Attempt(usize, Incoming),
    /// A datagram of a connection whose ClientHello is not complete, with its index and the client.
    Datagram(u32, IpAddr, ConnectionEvent),
}

impl Waiting {
    fn peer(&self) -> IpAddr {
        match self {
            Waiting::Attempt(_, incoming) => incoming.remote_address().ip(),
            Waiting::Datagram(_, peer, _) => *peer,
        }
    }
}

/// The queue of a thread.
pub(super) struct KeyExchangeQueue {
    waiting: NetworkLanes<Waiting>,
    share: HandshakeShare,
    began: Instant,
}

impl KeyExchangeQueue {
    /// `share` is in thousandths of a processor.
    pub(super) fn new(share: u32, now: Instant) -> KeyExchangeQueue {
        KeyExchangeQueue { waiting: NetworkLanes::new(), share: HandshakeShare::new(share, 0), began: now }
    }

    /// How much waits.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// How many attempts to connect of the client of `peer` wait.
    pub(super) fn attempts_of(&self, peer: IpAddr) -> usize {
        self.of_client(peer).filter(|waiting| matches!(waiting, Waiting::Attempt(..))).count()
    }

    /// Adds something. Where too much waits, returns what is dropped: the newest of the network with most of it, or what was to be added.
    pub(super) fn push(&mut self, waiting: Waiting) -> Option<Waiting> {
        let peer = waiting.peer();
        if self.of_client(peer).count() >= MAX_PER_CLIENT {
            return Some(waiting);
        }
        let is_full = self.waiting.len() >= MAX_WAITING;
        let dropped = if is_full { self.waiting.make_room_for(peer) } else { None };
        if is_full && dropped.is_none() {
            return Some(waiting);
        }
        self.waiting.push(waiting, peer);
        dropped
    }

    /// What has its turn, unless the share is used up.
    pub(super) fn next(&mut self, now: Instant) -> Option<Waiting> {
        let now_ms = now.saturating_duration_since(self.began).as_millis() as u32;
        if self.waiting.is_empty() || !self.share.is_left(now_ms) {
            return None;
        }
        self.waiting.pop()
    }

    /// Removes something, whether the share allows it or not.
    pub(super) fn pop(&mut self) -> Option<Waiting> {
        self.waiting.pop()
    }

    /// Counts what a step of a handshake cost.
    pub(super) fn charge(&mut self, cost: Duration) {
        self.share.charge(cost);
    }

    /// When the next turn is; `None` if nothing waits.
    pub(super) fn next_turn(&self, now: Instant) -> Option<Instant> {
        let wait = || Duration::from_millis(self.share.until_left_ms().into());
        (!self.waiting.is_empty()).then(|| now + wait())
    }

    fn of_client(&self, peer: IpAddr) -> impl Iterator<Item = &Waiting> {
        self.waiting.of_network(peer).filter(move |waiting| client(waiting.peer()) == client(peer))
    }
}
