//! When many transfers or large ones have ended: what was received lay between what stays, so that much free memory is worth returning.

use std::time::{Duration, Instant};

/// So many transfers are a burst. Fewer leave little.
const MIN_TRANSFERS: u32 = 1000;
/// A transfer of this many records counts as one more: a large zone by itself leaves a replaced version.
const RECORDS_PER_TRANSFER: u64 = 100;
/// A burst is over if no transfer follows for this long.
const PAUSE: Duration = Duration::from_secs(2);

/// Counts transfers that follow each other.
#[derive(Default)]
pub(super) struct TransferBurst {
    transfers: u32,
    end: Option<Instant>,
}

impl TransferBurst {
    /// A transfer of this many records has ended.
    pub(super) fn add(&mut self, now: Instant, records: u64) {
        let weight = u32::try_from(1 + records / RECORDS_PER_TRANSFER).unwrap_or(u32::MAX);
        self.transfers = self.transfers.saturating_add(weight);
        if self.transfers >= MIN_TRANSFERS {
            self.end = Some(now + PAUSE);
        }
    }

    /// When to call [`TransferBurst::has_ended`].
    pub(super) fn end(&self) -> Option<Instant> {
        self.end
    }

    /// Whether a burst is over, once for each.
    pub(super) fn has_ended(&mut self, now: Instant) -> bool {
        let has_ended = self.end.is_some_and(|end| end <= now);
        if has_ended {
            *self = TransferBurst::default();
        }
        has_ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_of_transfers_ends_once_and_a_few_are_none() {
        let (mut burst, begin) = (TransferBurst::default(), Instant::now());
        let at = |seconds| begin + Duration::from_secs(seconds);
        (1..MIN_TRANSFERS).for_each(|_| burst.add(begin, 2));
        assert!(!burst.has_ended(at(10)));
        burst.add(at(10), 2);
        burst.add(at(11), 2);
        assert!(!burst.has_ended(at(12)));
        assert!(burst.has_ended(at(13)) && !burst.has_ended(at(13)));
        burst.add(at(14), 2);
        assert!(!burst.has_ended(at(20)));
    }

    /// Or twice the memory of a large zone stays in use after it was transferred again.
    #[test]
    fn one_large_transfer_is_a_burst() {
        let (mut burst, begin) = (TransferBurst::default(), Instant::now());
        burst.add(begin, 2_000_000);
        assert!(burst.has_ended(begin + PAUSE));
    }
}
