//! The limit of TCP and TLS connections (RFC 9210 4.2, RFC 9539 3.4), which all threads share.
//!
//! A thread may have as many as the others leave free, and always its share: when it needs one and the others have taken it, they
//! close as many in their next round. Until then there are more than the limit, by less than one share for each thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts the connections of all threads. Clones share the count.
#[derive(Clone)]
pub(super) struct ConnectionLimit {
    /// Nothing else depends on it, so that its order does not matter.
    open: Arc<AtomicUsize>,
    max: usize,
    /// The connections that each thread may always have.
    share: usize,
}

impl ConnectionLimit {
    /// At most `max` connections, of which each of the `threads` has an equal share.
    pub(super) fn new(max: usize, threads: usize) -> ConnectionLimit {
        ConnectionLimit { open: Arc::default(), max: max.max(1), share: max.div_ceil(threads.max(1)).max(1) }
    }

    /// The most connections of all threads.
    pub(super) fn max(&self) -> usize {
        self.max
    }

    /// Counts a connection.
    pub(super) fn add(&self) {
        self.open.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes a counted connection.
    pub(super) fn remove(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether a thread with `own` connections must close one before it takes another.
    pub(super) fn is_reached(&self, own: usize) -> bool {
        own >= self.share && self.open() >= self.max
    }

    /// Whether a thread with `own` connections must close some of them for other threads.
    pub(super) fn is_exceeded(&self, own: usize) -> bool {
        own > self.share && self.open() > self.max
    }

    /// Connections and places, for a thread with `own` connections: those of all threads, or its own and its share, whichever is less full.
    pub(super) fn occupancy(&self, own: usize) -> (usize, usize) {
        let open = self.open();
        if own * self.max < open * self.share { (own, self.share) } else { (open, self.max) }
    }

    fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_may_take_what_the_others_leave_and_always_its_share() {
        let limit = ConnectionLimit::new(9, 3);
        (0..9).for_each(|_| limit.add());
        assert!(limit.is_reached(9) && limit.is_reached(3), "nothing is left");
        assert!(!limit.is_reached(0) && !limit.is_reached(2), "a share is never refused");
        limit.add();
        assert_eq!([3, 4, 9].map(|own| limit.is_exceeded(own)), [false, true, true]);
        (0..2).for_each(|_| limit.remove());
        assert!(!limit.is_reached(8) && !limit.is_exceeded(8));
    }

    #[test]
    fn the_occupancy_is_that_of_the_share_only_if_the_others_have_taken_more() {
        let limit = ConnectionLimit::new(9, 3);
        (0..6).for_each(|_| limit.add());
        assert_eq!((limit.occupancy(6), limit.occupancy(3), limit.occupancy(1)), ((6, 9), (6, 9), (1, 3)));
        assert_eq!(limit.occupancy(0), (0, 3));
    }
}
