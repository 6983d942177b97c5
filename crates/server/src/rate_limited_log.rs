//! Rate limit for log lines that the network can cause, or that may concern very many zones.

use std::time::Duration;

/// Permits a number of lines per interval and counts the others.
pub(crate) struct RateLimitedLog {
    lines: u32,
    interval: Duration,
    /// When the current interval ends, and how many lines it has left.
    until: Duration,
    left: u32,
    left_out: u64,
}

impl RateLimitedLog {
    /// Permits `lines` lines in each `interval`.
    pub(crate) const fn new(lines: u32, interval: Duration) -> RateLimitedLog {
        RateLimitedLog { lines, interval, until: Duration::ZERO, left: 0, left_out: 0 }
    }

    /// Whether a line may be logged: if so, how many were left out since the previous one.
    pub(crate) fn permit(&mut self) -> Option<u64> {
        self.permit_at(netio::clock::monotonic())
    }

    fn permit_at(&mut self, now: Duration) -> Option<u64> {
        if now >= self.until {
            (self.until, self.left) = (now + self.interval, self.lines);
        }
        if self.left == 0 {
            self.left_out += 1;
            return None;
        }
        self.left -= 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permits(lines: u32, times_s: [u64; 5]) -> [Option<u64>; 5] {
        let mut log = RateLimitedLog::new(lines, Duration::from_secs(10));
        times_s.map(|now_s| log.permit_at(Duration::from_secs(now_s)))
    }

    #[test]
    fn lines_over_the_limit_are_counted() {
        assert_eq!(permits(1, [100, 101, 109, 110, 150]), [Some(0), None, None, Some(2), Some(0)]);
        assert_eq!(permits(2, [100, 101, 109, 110, 111]), [Some(0), Some(0), None, Some(1), Some(0)]);
    }
}
