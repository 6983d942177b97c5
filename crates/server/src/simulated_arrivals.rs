//! What arrives when in a simulated network, in the order of the times, and of what was sent first.

use std::collections::BTreeMap;

/// What is on its way.
pub struct Arrivals<T> {
    /// By the time in milliseconds, and the number of what is sent.
    waiting: BTreeMap<(u64, u64), T>,
    sent: u64,
}

impl<T> Default for Arrivals<T> {
    fn default() -> Arrivals<T> {
        Arrivals { waiting: BTreeMap::new(), sent: 0 }
    }
}

impl<T> Arrivals<T> {
    /// Something will arrive at this time.
    pub fn schedule(&mut self, at_ms: u64, arrival: T) {
        self.sent += 1;
        self.waiting.insert((at_ms, self.sent), arrival);
    }

    /// When something arrives next.
    pub fn next_ms(&self) -> Option<u64> {
        self.waiting.first_key_value().map(|((at_ms, _), _)| *at_ms)
    }

    /// The next arrival that is due.
    pub fn take_due(&mut self, now_ms: u64) -> Option<T> {
        self.waiting.first_entry().filter(|entry| entry.key().0 <= now_ms).map(|entry| entry.remove())
    }
}
