//! Steps of the clock: a zone must neither expire nor wait for years for its next check because somebody has set the clock.
//!
//! The scheduler counts in seconds since 1970, as that is what is stored. While the server runs, they go on as [`Now::ms`] does. The time
//! that a machine is suspended is no step.

use super::{Now, RefreshStatus, StoredTimers};

/// By how much the clock was set since the start.
#[derive(Default)]
pub(super) struct ClockSteps {
    last: Option<Now>,
    stepped_s: i64,
    has_stepped: bool,
}

/// Shorter steps are followed: a minute changes no check or expiry by much.
const MIN_STEP_S: i64 = 60;

impl ClockSteps {
    /// The time for the scheduler.
    pub(super) fn steady_s(&mut self, now: Now) -> u32 {
        if let Some(last) = self.last {
            // The difference of rounded times: rounding the difference would add up to a second with every step.
            let elapsed_s = (now.ms / 1000).saturating_sub(last.ms / 1000);
            let step_s = i64::from(now.s) - i64::from(last.s) - elapsed_s as i64;
            if step_s.abs() >= MIN_STEP_S {
                self.stepped_s += step_s;
                self.has_stepped = true;
                tracing::warn!(step_s, "the clock was set; refresh and expiry of secondary zones are not affected");
            }
        }
        self.last = Some(now);
        self.latest_s(now)
    }

    /// As [`ClockSteps::steady_s`], if the clock was not set since the last call of that.
    pub(super) fn latest_s(&self, now: Now) -> u32 {
        shifted(now.s, -self.stepped_s)
    }

    /// Whether the clock was set since the last call.
    pub(super) fn take_step(&mut self) -> bool {
        std::mem::take(&mut self.has_stepped)
    }

    /// Times of the scheduler by the clock.
    pub(super) fn by_clock(&self, timers: StoredTimers) -> StoredTimers {
        let StoredTimers { check_at_s, expires_at_s } = timers;
        let [check_at_s, expires_at_s] = [check_at_s, expires_at_s].map(|at_s| shifted(at_s, self.stepped_s));
        StoredTimers { check_at_s, expires_at_s }
    }

    /// Times by the clock for the scheduler.
    pub(super) fn for_scheduler(&self, timers: StoredTimers) -> StoredTimers {
        ClockSteps { stepped_s: -self.stepped_s, ..ClockSteps::default() }.by_clock(timers)
    }

    /// A status with times by the clock.
    pub(super) fn status_by_clock(&self, status: RefreshStatus) -> RefreshStatus {
        let by_clock = |at_s| shifted(at_s, self.stepped_s);
        RefreshStatus {
            expires_at_s: by_clock(status.expires_at_s),
            check_at_s: status.check_at_s.map(by_clock),
            ..status
        }
    }
}

fn shifted(at_s: u32, by_s: i64) -> u32 {
    i64::from(at_s).saturating_add(by_s).clamp(0, u32::MAX.into()) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_steps_delay_nothing() {
        let mut steps = ClockSteps::default();
        for number in 0..100 {
            let (ms, step_s) = (number * 1500, if number % 2 == 0 { 0 } else { 1000 });
            let now = Now { s: 1_000_000 + (ms / 1000) as u32 + step_s, ms };
            assert_eq!(steps.steady_s(now), 1_000_000 + (ms / 1000) as u32);
        }
    }

    #[test]
    fn steps_are_left_out_and_small_ones_are_followed() {
        let mut steps = ClockSteps::default();
        let mut at = |s, ms| (steps.steady_s(Now { s, ms }), steps.stepped_s);
        assert_eq!(at(1_000_000, 5_000), (1_000_000, 0));
        assert_eq!(at(1_000_700, 705_000), (1_000_700, 0), "time has passed");
        assert_eq!(at(1_000_730, 706_000), (1_000_730, 0), "a small step");
        assert_eq!(at(9_000_000, 707_000), (1_000_731, 7_999_269), "forward");
        assert_eq!(at(9_000_010, 717_000), (1_000_741, 7_999_269));
        assert_eq!(at(100, 718_000), (1_000_742, -1_000_642), "back");
        let timers = StoredTimers { check_at_s: 1_000_800, expires_at_s: u32::MAX };
        let by_clock = steps.by_clock(timers);
        assert_eq!(by_clock, StoredTimers { check_at_s: 158, expires_at_s: u32::MAX - 1_000_642 });
        assert_eq!(steps.for_scheduler(by_clock), timers);
    }
}
