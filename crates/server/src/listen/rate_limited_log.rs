//! Log lines that the network can cause, held to one in a while.

use std::time::Duration;

/// Permits one event in an interval and counts the others.
pub(super) struct RateLimitedLog {
    interval: Duration,
    next: Duration,
    left_out: u64,
}

impl RateLimitedLog {
    /// Permits the first event at once.
    pub(super) const fn new(interval: Duration) -> RateLimitedLog {
        RateLimitedLog { interval, next: Duration::ZERO, left_out: 0 }
    }

    /// Whether this event may be logged: then how many were not since the last one that was.
    pub(super) fn permit(&mut self) -> Option<u64> {
        self.permit_at(netio::clock::monotonic())
    }

    fn permit_at(&mut self, now: Duration) -> Option<u64> {
        if now < self.next {
            self.left_out += 1;
            return None;
        }
        self.next = now + self.interval;
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_event_an_interval_and_the_rest_is_counted() {
        let mut rarely = RateLimitedLog::new(Duration::from_secs(10));
        let permits = [100, 101, 109, 110, 150].map(|now_s| rarely.permit_at(Duration::from_secs(now_s)));
        assert_eq!(permits, [Some(0), None, None, Some(2), Some(0)]);
    }
}
