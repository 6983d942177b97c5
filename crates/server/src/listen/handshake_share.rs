//! The processor time that handshakes may take, whatever clients demand (RFC 9539 3.4).

use std::time::Duration;

/// Handshakes that need not wait, in microseconds of processor time: clients that connect at once after a pause.
const BURST_US: u64 = 20_000;

/// How long handshakes wait at most, in milliseconds, however much was used. QUIC packets of handshakes in progress are not held back:
/// a flood of them could prevent new connections for long after its end.
const MAX_WAIT_MS: u64 = 1000;

/// The share of the handshakes of one thread.
pub(super) struct HandshakeShare {
    /// Thousandths of a processor.
    share: u32,
    /// Processor time that was used and is not yet allowed by the share, in microseconds.
    used_us: u64,
    refilled_ms: u32,
}

impl HandshakeShare {
    /// `share` is in thousandths of a processor.
    pub(super) fn new(share: u32, now_ms: u32) -> HandshakeShare {
        HandshakeShare { share: share.max(1), used_us: 0, refilled_ms: now_ms }
    }

    /// Whether some of it is left.
    pub(super) fn is_left(&mut self, now_ms: u32) -> bool {
        let elapsed_ms = now_ms.wrapping_sub(self.refilled_ms);
        self.refilled_ms = now_ms;
        // A thousandth of a millisecond is a microsecond.
        self.used_us = self.used_us.saturating_sub(u64::from(elapsed_ms) * u64::from(self.share));
        self.used_us < BURST_US
    }

    /// Counts what a step of a handshake cost.
    pub(super) fn charge(&mut self, cost: Duration) {
        let max_us = BURST_US + MAX_WAIT_MS * u64::from(self.share) - 1;
        self.used_us = (self.used_us + cost.as_micros() as u64).min(max_us);
    }

    /// How long to wait until some is left.
    pub(super) fn until_left_ms(&self) -> u32 {
        let missing_us = (self.used_us + 1).saturating_sub(BURST_US);
        missing_us.div_ceil(self.share.into()).try_into().unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handshakes_wait_no_longer_than_a_second_after_a_flood() {
        for share in [1, 62, 500, 100_000] {
            let mut left = HandshakeShare::new(share, 0);
            (0..1000).for_each(|_| left.charge(Duration::from_secs(1)));
            assert_eq!(left.until_left_ms(), 1000, "{share}");
            assert!(!left.is_left(999) && left.is_left(1000), "{share}");
        }
    }
}
