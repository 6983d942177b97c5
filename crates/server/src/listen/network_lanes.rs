//! What waits, by the networks it comes from: they take turns, so that a flood from one of them delays the others little.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

/// Few enough that all have a turn within 128 ms, with handshakes of half a millisecond that get half a processor.
const LANES: usize = 128;

/// Waiting items in lanes that take turns. A keyed hash gives each network a lane: nobody can choose to be in that of another.
pub(super) struct NetworkLanes<T> {
    lanes: Box<[VecDeque<T>]>,
    /// The lanes that are not empty, the next one first.
    turns: VecDeque<usize>,
    len: usize,
    key: RandomState,
}

impl<T> NetworkLanes<T> {
    pub(super) fn new() -> NetworkLanes<T> {
        let lanes = (0..LANES).map(|_| VecDeque::new()).collect();
        NetworkLanes { lanes, turns: VecDeque::new(), len: 0, key: RandomState::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds an item of `peer`.
    pub(super) fn push(&mut self, item: T, peer: IpAddr) {
        let lane = self.lane(peer);
        if self.lanes[lane].is_empty() {
            self.turns.push_back(lane);
        }
        self.lanes[lane].push_back(item);
        self.len += 1;
    }

    /// The oldest item of the network whose turn it is.
    pub(super) fn pop(&mut self) -> Option<T> {
        let lane = self.turns.pop_front()?;
        let item = self.lanes[lane].pop_front()?;
        if !self.lanes[lane].is_empty() {
            self.turns.push_back(lane);
        }
        self.len -= 1;
        Some(item)
    }

    /// The items of the network of `peer`, and of others that share its lane.
    pub(super) fn of_network(&self, peer: IpAddr) -> impl Iterator<Item = &T> {
        self.lanes[self.lane(peer)].iter()
    }

    /// Removes the newest item of the longest lane, if the lane of `peer` would not be as long with one more.
    pub(super) fn make_room_for(&mut self, peer: IpAddr) -> Option<T> {
        let own = self.lanes[self.lane(peer)].len();
        let longest = self.lanes.iter_mut().max_by_key(|lane| lane.len()).filter(|lane| lane.len() > own + 1)?;
        self.len -= 1;
        longest.pop_back()
    }

    fn lane(&self, peer: IpAddr) -> usize {
        self.key.hash_one(network(peer)) as usize % LANES
    }
}

/// The network of an address: an IPv4 /24, or an IPv6 /48, the most that a site is assigned (RFC 6177).
fn network(peer: IpAddr) -> u64 {
    match peer {
        IpAddr::V4(ip) => u64::from(ip.to_bits() >> 8),
        IpAddr::V6(ip) => (ip.to_bits() >> 80) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::iter;

    /// An address in the network of this number.
    fn peer(network: u32) -> IpAddr {
        IpAddr::V4((network << 8).into())
    }

    #[test]
    fn networks_take_turns_and_keep_their_order() {
        let mut lanes = NetworkLanes::new();
        (0..4).for_each(|item| lanes.push(item, peer(1)));
        // One that has another lane.
        let second = (2..).map(peer).find(|peer| lanes.of_network(*peer).count() == 0).expect("there are many");
        (10..12).for_each(|item| lanes.push(item, second));
        assert_eq!((lanes.len(), lanes.of_network(second).count()), (6, 2));
        assert_eq!(iter::from_fn(|| lanes.pop()).collect::<Vec<_>>(), [0, 10, 1, 11, 2, 3]);
        assert!(lanes.is_empty());
    }

    #[test]
    fn the_network_with_most_makes_room_for_those_with_fewer() {
        let mut lanes = NetworkLanes::new();
        (0..3).for_each(|item| lanes.push(item, peer(1)));
        assert_eq!(lanes.make_room_for(peer(1)), None, "not for itself");
        let second = (2..).map(peer).find(|peer| lanes.of_network(*peer).count() == 0).expect("there are many");
        assert_eq!(lanes.make_room_for(second), Some(2));
        lanes.push(10, second);
        assert_eq!((lanes.make_room_for(second), lanes.len()), (None, 3), "both would have two");
        assert_eq!(iter::from_fn(|| lanes.pop()).collect::<Vec<_>>(), [0, 10, 1]);
    }
}
