//! The timers of a secondary: the intervals of the SOA record, their configured limits, and the stored times. Checks set them
//! ([`super::refresh`], `refresh/check_results.rs`).

use std::ops::RangeInclusive;

use wire::soa;

/// The intervals of a SOA record (RFC 1035 3.3.13), in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SoaTimers {
    /// REFRESH: the time between checks.
    pub refresh_s: u32,
    /// RETRY: the time between checks while they fail.
    pub retry_s: u32,
    /// EXPIRE: how long the zone is served without a successful check.
    pub expire_s: u32,
}

impl SoaTimers {
    /// The intervals in SOA RDATA; `None` if it is too short.
    pub fn of_soa(rdata: &[u8]) -> Option<SoaTimers> {
        let [_, refresh_s, retry_s, expire_s, _] = soa::numbers(rdata)?;
        Some(SoaTimers { refresh_s, retry_s, expire_s })
    }
}

/// The configured limits of the intervals: `min-refresh-s` and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimerLimits {
    /// The shortest and longest refresh interval.
    pub refresh_s: (u32, u32),
    /// The shortest and longest retry interval.
    pub retry_s: (u32, u32),
    /// The shortest and longest expiry interval.
    pub expire_s: (u32, u32),
}

/// Four weeks: the longest check interval that still notices a lost NOTIFY.
const MAX_CHECK_S: u32 = 28 * 86_400;

impl Default for TimerLimits {
    fn default() -> TimerLimits {
        TimerLimits { refresh_s: (2, MAX_CHECK_S), retry_s: (2, MAX_CHECK_S), expire_s: (60, u32::MAX) }
    }
}

impl TimerLimits {
    /// The intervals within the limits. RFC 1912 2.2: a zone must not expire before it was checked, so EXPIRE is longer
    /// than REFRESH plus RETRY, unless its own limit is shorter.
    pub fn apply(&self, timers: SoaTimers) -> SoaTimers {
        let refresh_s = clamp(timers.refresh_s, self.refresh_s);
        let retry_s = clamp(timers.retry_s, self.retry_s);
        let least_s = refresh_s.saturating_add(retry_s).saturating_add(1);
        let expire_s = clamp(timers.expire_s.max(least_s), self.expire_s);
        SoaTimers { refresh_s, retry_s, expire_s }
    }

    /// A time between a failed check and the next one within the limits.
    pub fn apply_to_retry(&self, interval_s: u32) -> u32 {
        clamp(interval_s, self.retry_s)
    }
}

/// As [`Ord::clamp`], but a minimum over the maximum wins instead of panicking.
fn clamp(value: u32, (min, max): (u32, u32)) -> u32 {
    value.min(max).max(min)
}

/// What is stored of a zone's timers, as absolute times, so that time during which the server was down counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredTimers {
    /// When the primaries are checked next, in seconds since 1970.
    pub check_at_s: u32,
    /// When the zone expires, in seconds since 1970.
    pub expires_at_s: u32,
}

/// The range that a check interval is chosen from, so that zones which were loaded together are not checked together.
/// Earlier than the SOA record says, never later; not earlier than the configured minimum.
pub(super) fn jittered(interval_s: u32, min_s: u32) -> RangeInclusive<u32> {
    (interval_s - interval_s / 10).max(min_s.min(interval_s))..=interval_s
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc_1035_3_3_13_the_intervals_of_the_soa_are_limited() {
        let rdata = [&[0, 0][..], &[0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4]].concat();
        let timers = SoaTimers::of_soa(&rdata).expect("whole");
        assert_eq!(timers, SoaTimers { refresh_s: 1, retry_s: 2, expire_s: 3 });
        assert_eq!(SoaTimers::of_soa(&rdata[3..]), None);
        let limits = TimerLimits { refresh_s: (10, 20), retry_s: (5, 1), expire_s: (0, 100) };
        assert_eq!(limits.apply(timers), SoaTimers { refresh_s: 10, retry_s: 5, expire_s: 16 });
        let long = SoaTimers { refresh_s: u32::MAX, retry_s: u32::MAX, expire_s: u32::MAX };
        assert_eq!(limits.apply(long), SoaTimers { refresh_s: 20, retry_s: 5, expire_s: 100 });
        let unlimited = TimerLimits { refresh_s: (0, u32::MAX), retry_s: (0, u32::MAX), expire_s: (0, u32::MAX) };
        assert_eq!(unlimited.apply(long), long);
        let short_lived = TimerLimits { expire_s: (1, 30), ..limits };
        let expected = SoaTimers { refresh_s: 20, retry_s: 5, expire_s: 30 };
        assert_eq!(short_lived.apply(long), expected);
        let shorter_lived = TimerLimits { expire_s: (1, 15), ..limits };
        assert_eq!(shorter_lived.apply(long).expire_s, 15, "the limit wins over RFC 1912 2.2");
    }

    #[test]
    fn checks_are_spread_within_the_limits() {
        assert_eq!((jittered(100, 1), jittered(100, 95), jittered(100, 100)), (90..=100, 95..=100, 100..=100));
        assert_eq!((jittered(5, 9), jittered(1, 0)), (5..=5, 1..=1));
    }
}
