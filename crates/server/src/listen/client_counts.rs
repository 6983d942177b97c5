//! Connections per client of all threads (RFC 9210 4.2), counted in constant memory by a count-min sketch.
//!
//! A keyed hash gives each client two counters; the lower one is its count, less what all counters have on average of others where there are
//! many more connections than counters. It is too high for clients that share both counters with others, which cannot be provoked without
//! the key.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// The most counters: a quarter of a megabyte.
const MAX_COUNTERS: usize = 1 << 16;

/// Counts connections per client. Clones share the counts.
#[derive(Clone)]
pub(super) struct ClientCounts {
    /// Nothing else depends on them, so that their order does not matter.
    counts: Arc<[AtomicU32]>,
    /// All connections.
    total: Arc<AtomicUsize>,
    key: RandomState,
}

impl ClientCounts {
    /// Room for the clients of `connections` connections.
    pub(super) fn new(connections: usize) -> ClientCounts {
        let len = (connections * 2).next_power_of_two().clamp(2, MAX_COUNTERS);
        let counts = (0..len).map(|_| AtomicU32::new(0)).collect();
        ClientCounts { counts, total: Arc::default(), key: RandomState::new() }
    }

    /// How many connections the client of `peer` has; rarely a higher number, and a slightly lower one where there are very many connections.
    pub(super) fn count(&self, peer: IpAddr) -> usize {
        let [first, second] = self.counters(peer).map(|counter| self.counts[counter].load(Ordering::Relaxed));
        // Each connection is in two counters. With enough of them for all connections, others add less than one.
        let of_others = (2 * self.total.load(Ordering::Relaxed) / self.counts.len()).saturating_sub(1);
        (first.min(second) as usize).saturating_sub(of_others)
    }

    /// Counts a connection.
    pub(super) fn add(&mut self, peer: IpAddr) {
        self.total.fetch_add(1, Ordering::Relaxed);
        for counter in self.counters(peer) {
            self.counts[counter].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Removes a counted connection.
    pub(super) fn remove(&mut self, peer: IpAddr) {
        self.total.fetch_sub(1, Ordering::Relaxed);
        for counter in self.counters(peer) {
            self.counts[counter].fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Two different counters, or else a connection would count twice.
    fn counters(&self, peer: IpAddr) -> [usize; 2] {
        let hash = self.key.hash_one(client(peer));
        let mask = self.counts.len() - 1;
        let first = hash as usize & mask;
        // At least one bit differs.
        [first, first ^ (1 + (hash >> 32) as usize % mask)]
    }
}

/// The client of an address: an IPv4 address, or an IPv6 /56, the size assigned to a site (RFC 6177).
pub(super) fn client(peer: IpAddr) -> u64 {
    match peer {
        IpAddr::V4(ip) => u64::from(ip.to_bits()),
        IpAddr::V6(ip) => (ip.to_bits() >> 64) as u64 & !0xff,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("a literal")
    }

    #[test]
    fn connections_are_counted_by_client() {
        let mut clients = ClientCounts::new(1000);
        for peer in ["192.0.2.1", "192.0.2.1", "2001:db8::1", "2001:db8:0:ff::2", "2001:db8:0:100::1"] {
            clients.add(ip(peer));
        }
        assert_eq!(["192.0.2.1", "2001:db8::9", "2001:db8:0:1ff::"].map(|peer| clients.count(ip(peer))), [2, 2, 1]);
        clients.remove(ip("192.0.2.1"));
        assert_eq!(clients.count(ip("192.0.2.1")), 1);
        assert_eq!(clients.count(ip("198.51.100.1")), 0);
        let mut of_another_thread = clients.clone();
        of_another_thread.add(ip("192.0.2.1"));
        assert_eq!(clients.count(ip("192.0.2.1")), 2);
    }

    /// With few counters, one client in some had the same counter twice.
    #[test]
    fn a_connection_counts_once_whatever_the_counters_of_its_client() {
        let mut clients = ClientCounts::new(1);
        for number in 0..64 {
            let peer = IpAddr::V4(number.into());
            clients.add(peer);
            assert_eq!(clients.count(peer), 1);
            clients.remove(peer);
            assert_eq!(clients.count(peer), 0);
        }
    }

    /// More than there are counters: nobody may be refused for the connections of others, however few a client may have.
    #[test]
    fn few_counts_are_wrong_with_very_many_connections() {
        let mut clients = ClientCounts::new(1_000_000);
        (0..1_000_000u32).for_each(|number| clients.add(IpAddr::V4(number.into())));
        let new = |number: u32| IpAddr::V4((2_000_000 + number).into());
        let mistaken = (0..5000).filter(|number| clients.count(new(*number)) >= 10).count();
        assert!(mistaken <= 100, "{mistaken} of 5000");
        (0..100).for_each(|_| clients.add(new(7)));
        assert!((80..=130).contains(&clients.count(new(7))), "{}", clients.count(new(7)));
    }

    #[test]
    fn few_counts_are_too_high_beside_a_busy_client() {
        let mut clients = ClientCounts::new(10_000);
        (0..5000).for_each(|_| clients.add(ip("192.0.2.1")));
        (0..5000u32).for_each(|number| clients.add(IpAddr::V4(number.into())));
        let mistaken = (0..5000u32).filter(|number| clients.count(IpAddr::V4((*number).into())) >= 100).count();
        assert!(mistaken <= 5, "{mistaken} of 5000");
    }
}
