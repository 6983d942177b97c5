//! When to open each of many connections: at a rate, over TCP, TLS and QUIC alike.

use std::time::Duration;

/// Connections begun before events are handled again, so that none waits long.
pub const MAX_BEGUN_PER_TURN: usize = 64;
/// The same over QUIC, where beginning one also computes keys.
pub const MAX_QUIC_BEGUN_PER_TURN: usize = 16;
/// The time-out for establishing connections, from when the last one was due.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Which connections are due, in order. All times are from the start.
pub struct Opening {
    count: usize,
    /// Connections per second.
    rate: f64,
    begun: usize,
}

impl Opening {
    /// `count` connections, `rate` per second, the first one at the start.
    pub fn new(count: usize, rate: f64) -> Opening {
        Opening { count, rate, begun: 0 }
    }

    /// The number of the next connection, if it is due; after that it is the turn of the one after it.
    pub fn next_due(&mut self, now: Duration) -> Option<usize> {
        let next = Some(self.begun).filter(|&next| next < self.count && self.due_at(next) <= now)?;
        self.begun += 1;
        Some(next)
    }

    /// How long it takes until the next connection is due; `None` if all were begun.
    pub fn wait(&self, now: Duration) -> Option<Duration> {
        (!self.all_begun()).then(|| self.due_at(self.begun).saturating_sub(now))
    }

    /// Whether [`Self::next_due`] has returned every connection.
    pub fn all_begun(&self) -> bool {
        self.begun == self.count
    }

    /// Whether the time-out for establishing connections has passed.
    pub fn is_overdue(&self, now: Duration) -> bool {
        now > self.due_at(self.count) + CONNECT_TIMEOUT
    }

    fn due_at(&self, nth: usize) -> Duration {
        Duration::from_secs_f64(nth as f64 / self.rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn connections_are_due_at_their_times_however_late_they_are_begun() {
        let mut opening = Opening::new(4, 100.0);
        assert_eq!([0, 9].map(|at| opening.next_due(ms(at))), [Some(0), None]);
        assert_eq!([ms(9), ms(10), ms(11)].map(|now| opening.wait(now)), [Some(ms(1)), Some(ms(0)), Some(ms(0))]);
        assert_eq!([25, 25, 25].map(|at| opening.next_due(ms(at))), [Some(1), Some(2), None]);
        assert!(!opening.all_begun());
        assert_eq!(opening.next_due(ms(30)), Some(3));
    }

    #[test]
    fn no_further_connection_is_due() {
        let mut opening = Opening::new(1, 100.0);
        assert_eq!([0, 1000].map(|at| opening.next_due(ms(at))), [Some(0), None]);
        assert!(opening.all_begun() && opening.wait(ms(0)).is_none());
        assert!(Opening::new(0, 100.0).all_begun());
    }

    #[test]
    fn the_time_out_begins_when_the_last_connection_is_due() {
        let opening = Opening::new(200, 100.0);
        let end = ms(2000) + CONNECT_TIMEOUT;
        assert!(!opening.is_overdue(end) && opening.is_overdue(end + ms(1)));
    }
}
