//! When queries are to be sent: fixed before the run, whatever the server does.
//!
//! A [`Profile`] says how the rate goes over time. Constant arrivals come where the profile's integral reaches 0, 1, 2, ...;
//! Poisson arrivals where it reaches the sums of exponential numbers (time-rescaling), so that one walk serves all.

use std::sync::Arc;

use crate::random::Random;

/// A part of a run in which the rate goes in a line from one value to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Segment {
    /// Queries a second at its beginning.
    pub from: f64,
    /// Queries a second at its end.
    pub to: f64,
    /// How long it is.
    pub seconds: f64,
}

impl Segment {
    /// How many queries are sent in it.
    fn count(&self) -> f64 {
        (self.from + self.to) / 2.0 * self.seconds
    }

    /// After how many seconds `count` queries were sent; `count` is at most [`Segment::count`].
    fn time_of(&self, count: f64) -> f64 {
        let slope = (self.to - self.from) / self.seconds;
        // The root of slope/2 t^2 + from t = count, in the form that is exact where the slope is small or zero.
        let root = (self.from * self.from + 2.0 * slope * count).max(0.0).sqrt();
        if count == 0.0 { 0.0 } else { 2.0 * count / (self.from + root) }
    }
}

/// How the rate goes over the time of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile(Vec<Segment>);

impl Profile {
    /// One rate.
    pub fn flat(rate: f64, seconds: f64) -> Profile {
        Profile(vec![Segment { from: rate, to: rate, seconds }])
    }

    /// From one rate to another in a line.
    pub fn ramp(from: f64, to: f64, seconds: f64) -> Profile {
        Profile(vec![Segment { from, to, seconds }])
    }

    /// One rate after the other, each for `seconds`.
    pub fn steps(rates: &[f64], seconds: f64) -> Profile {
        Profile(rates.iter().map(|&rate| Segment { from: rate, to: rate, seconds }).collect())
    }

    /// The same, after `seconds` at its first rate.
    pub fn after_warm_up(mut self, seconds: f64) -> Profile {
        let rate = self.0.first().map_or(0.0, |segment| segment.from);
        if seconds > 0.0 {
            self.0.insert(0, Segment { from: rate, to: rate, seconds });
        }
        self
    }

    /// How long it is.
    pub fn seconds(&self) -> f64 {
        self.0.iter().map(|segment| segment.seconds).sum()
    }
}

/// How queries are spread in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// At equal distances.
    Constant,
    /// As independent clients send them, by a generator of this seed.
    Poisson(u64),
}

/// The times at which queries are to be sent, in nanoseconds from the start, ascending.
pub enum Schedule {
    /// By a profile.
    Rate(Walk),
    /// As they were captured, faster by a factor.
    Trace {
        /// The captured times in nanoseconds.
        times: Arc<[u64]>,
        /// The next one.
        next: usize,
        /// How many times as fast.
        speed: f64,
    },
}

impl Schedule {
    /// The times of `profile`.
    pub fn of_rate(profile: Profile, arrivals: Arrivals) -> Schedule {
        let random = match arrivals {
            Arrivals::Constant => None,
            Arrivals::Poisson(seed) => Some(Random::new(seed)),
        };
        Schedule::Rate(Walk { profile, random, segment: 0, began: 0.0, before: 0.0, count: 0.0 })
    }

    /// Captured times, `speed` times as fast.
    pub fn of_trace(times: Arc<[u64]>, speed: f64) -> Schedule {
        Schedule::Trace { times, next: 0, speed }
    }
}

impl Iterator for Schedule {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        match self {
            Schedule::Rate(walk) => walk.next().map(|seconds| (seconds * 1e9).round() as u64),
            Schedule::Trace { times, next, speed } => {
                let time = *times.get(*next)?;
                *next += 1;
                Some((time as f64 / *speed) as u64)
            }
        }
    }
}

/// A walk along a profile.
pub struct Walk {
    profile: Profile,
    /// Set for Poisson arrivals.
    random: Option<Random>,
    segment: usize,
    /// When the segment began.
    began: f64,
    /// What the profile's integral was then.
    before: f64,
    /// The value of the integral at which the next query is due.
    count: f64,
}

impl Iterator for Walk {
    /// Seconds from the start.
    type Item = f64;

    fn next(&mut self) -> Option<f64> {
        if let Some(random) = &mut self.random {
            self.count += random.exponential();
        }
        let segment = loop {
            let segment = self.profile.0.get(self.segment)?;
            // The end belongs to the next segment: a second at rate 10 has queries 0 to 9.
            if self.count < self.before + segment.count() - 1e-9 {
                break segment;
            }
            self.began += segment.seconds;
            self.before += segment.count();
            self.segment += 1;
        };
        let time = self.began + segment.time_of((self.count - self.before).max(0.0));
        if self.random.is_none() {
            self.count += 1.0;
        }
        Some(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn times(profile: Profile, arrivals: Arrivals) -> Vec<u64> {
        Schedule::of_rate(profile, arrivals).collect()
    }

    #[test]
    fn constant_arrivals_are_at_equal_distances() {
        let times = times(Profile::flat(1000.0, 2.0), Arrivals::Constant);
        assert_eq!(times.len(), 2000);
        assert!(times.iter().enumerate().all(|(index, &time)| time == index as u64 * 1_000_000));
    }

    #[test]
    fn a_ramp_has_half_of_its_end_rate_on_average() {
        let times = times(Profile::ramp(0.0, 1000.0, 4.0), Arrivals::Constant);
        assert_eq!(times.len(), 2000);
        let first_half = times.iter().filter(|&&time| time < 2_000_000_000).count();
        assert_eq!(first_half, 500, "a quarter in the first half of the time");
    }

    #[test]
    fn steps_follow_each_other_and_the_warm_up_goes_first() {
        let times = times(Profile::steps(&[10.0, 100.0, 0.0, 50.0], 1.0).after_warm_up(2.0), Arrivals::Constant);
        let in_second = |second: u64| times.iter().filter(|&&time| time / 1_000_000_000 == second).count();
        assert_eq!((0..7).map(in_second).collect::<Vec<_>>(), [10, 10, 10, 100, 0, 50, 0]);
    }

    #[test]
    fn poisson_arrivals_have_the_mean_and_the_spread_of_their_law() {
        let times = times(Profile::flat(10_000.0, 10.0), Arrivals::Poisson(7));
        let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let deviation = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
        assert!((mean / 100_000.0 - 1.0).abs() < 0.02, "mean {mean}");
        assert!((deviation / mean - 1.0).abs() < 0.02, "the deviation of exponential gaps is their mean: {deviation}");
    }

    #[test]
    fn a_trace_is_replayed_faster() {
        let schedule = Schedule::of_trace(Arc::from([0, 10, 10, 400]), 4.0);
        assert_eq!(schedule.collect::<Vec<_>>(), [0, 2, 2, 100]);
    }

    fn segments() -> impl Strategy<Value = Vec<Segment>> {
        let segment = (0.0..2000.0, 0.0..2000.0, 0.05..1.0);
        prop::collection::vec(segment.prop_map(|(from, to, seconds)| Segment { from, to, seconds }), 1..6)
    }

    proptest! {
        #[test]
        fn times_ascend_within_the_run_and_are_as_many_as_the_profile_has(segments in segments(), poisson: bool) {
            let arrivals = if poisson { Arrivals::Poisson(3) } else { Arrivals::Constant };
            let expected: f64 = segments.iter().map(Segment::count).sum();
            let profile = Profile(segments);
            let end = profile.seconds() * 1e9;
            let times = times(profile, arrivals);
            prop_assert!(times.is_sorted());
            prop_assert!(times.last().is_none_or(|&last| last as f64 <= end + 1.0));
            let allowed = if poisson { 10.0 + 6.0 * expected.sqrt() } else { 1.0 };
            prop_assert!((times.len() as f64 - expected).abs() <= allowed, "{} for {expected}", times.len());
        }

        #[test]
        fn the_time_of_a_count_is_where_the_integral_has_it(
            (from, to, seconds) in (1.0..5000.0, 1.0..5000.0, 0.1..9.0), share in 0.0..1.0,
        ) {
            let segment = Segment { from, to, seconds };
            let count = share * segment.count();
            let time = segment.time_of(count);
            let integral = from * time + (to - from) / seconds * time * time / 2.0;
            prop_assert!((integral - count).abs() < 1e-6 * (1.0 + count));
        }
    }
}
