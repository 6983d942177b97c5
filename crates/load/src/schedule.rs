//! The send times of an open loop, fixed before the run, whatever the server does.
//!
//! A [`RateProfile`] is the rate as a function of time. With constant arrivals, queries are due where its integral
//! reaches 0, 1, 2, ...; with Poisson arrivals, where it reaches the sums of exponential random numbers (time
//! rescaling).

use fastrand::Rng;

/// A part of a run in which the rate changes linearly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateSegment {
    /// Queries per second at its start.
    pub from: f64,
    /// Queries per second at its end.
    pub to: f64,
    /// Its duration.
    pub seconds: f64,
}

impl RateSegment {
    /// How many queries it has: the integral of the rate.
    fn count(&self) -> f64 {
        (self.from + self.to) / 2.0 * self.seconds
    }

    /// The time in seconds at which `count` queries have been sent; `count` is at most [`RateSegment::count`].
    fn time_of(&self, count: f64) -> f64 {
        let slope = (self.to - self.from) / self.seconds;
        // The root of slope/2 t^2 + from t = count, in the form that is exact for small slopes.
        let root = (self.from * self.from + 2.0 * slope * count).max(0.0).sqrt();
        if count == 0.0 { 0.0 } else { 2.0 * count / (self.from + root) }
    }
}

/// The rate of queries over the time of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RateProfile(Vec<RateSegment>);

impl RateProfile {
    /// A constant rate.
    pub fn flat(rate: f64, seconds: f64) -> RateProfile {
        RateProfile(vec![RateSegment { from: rate, to: rate, seconds }])
    }

    /// A linear ramp.
    pub fn ramp(from: f64, to: f64, seconds: f64) -> RateProfile {
        RateProfile(vec![RateSegment { from, to, seconds }])
    }

    /// One rate after another, `seconds` each.
    pub fn steps(rates: &[f64], seconds: f64) -> RateProfile {
        RateProfile(rates.iter().map(|&rate| RateSegment { from: rate, to: rate, seconds }).collect())
    }

    /// This profile, preceded by `seconds` at its first rate.
    pub fn after_warm_up(mut self, seconds: f64) -> RateProfile {
        let rate = self.0.first().map_or(0.0, |segment| segment.from);
        if seconds > 0.0 {
            self.0.insert(0, RateSegment { from: rate, to: rate, seconds });
        }
        self
    }

    /// Its duration.
    pub fn seconds(&self) -> f64 {
        self.0.iter().map(|segment| segment.seconds).sum()
    }
}

/// The distribution of the times between queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrivalProcess {
    /// Equal times.
    Constant,
    /// A Poisson process with this seed, like many independent clients.
    Poisson(u64),
}

/// The send times of an open loop, in nanoseconds from the start, ascending.
pub type Schedule = Box<dyn Iterator<Item = u64> + Send>;

/// The send times for a rate profile.
pub fn from_profile(profile: RateProfile, arrivals: ArrivalProcess) -> Schedule {
    let random = match arrivals {
        ArrivalProcess::Constant => None,
        ArrivalProcess::Poisson(seed) => Some(Rng::with_seed(seed)),
    };
    let times = RateTimes { profile, random, segment: 0, segment_start: 0.0, segment_count: 0.0, count: 0.0 };
    Box::new(times.map(|seconds| (seconds * 1e9).round() as u64))
}

/// Captured times in nanoseconds, `speed` times as fast.
pub fn from_trace(times: Vec<u64>, speed: f64) -> Schedule {
    Box::new(times.into_iter().map(move |time| (time as f64 / speed) as u64))
}

/// An iterator over the send times of a rate profile.
struct RateTimes {
    profile: RateProfile,
    /// Set for Poisson arrivals.
    random: Option<Rng>,
    /// The index of the current segment.
    segment: usize,
    /// When the segment starts.
    segment_start: f64,
    /// The profile's integral at that time.
    segment_count: f64,
    /// The integral's value at which the next query is due.
    count: f64,
}

/// An exponential number with mean 1: the time between events of a Poisson process of rate 1.
fn exponential(random: &mut Rng) -> f64 {
    -(1.0 - random.f64()).ln()
}

impl Iterator for RateTimes {
    /// Seconds from the start.
    type Item = f64;

    fn next(&mut self) -> Option<f64> {
        if let Some(random) = &mut self.random {
            self.count += exponential(random);
        }
        let segment = loop {
            let segment = self.profile.0.get(self.segment)?;
            // A query at the very end belongs to the next segment: a second at rate 10 has queries 0 to 9.
            if self.count < self.segment_count + segment.count() - 1e-9 {
                break segment;
            }
            self.segment_start += segment.seconds;
            self.segment_count += segment.count();
            self.segment += 1;
        };
        let time = self.segment_start + segment.time_of((self.count - self.segment_count).max(0.0));
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

    fn times(profile: RateProfile, arrivals: ArrivalProcess) -> Vec<u64> {
        from_profile(profile, arrivals).collect()
    }

    #[test]
    fn constant_arrivals_have_equal_gaps() {
        let times = times(RateProfile::flat(1000.0, 2.0), ArrivalProcess::Constant);
        assert_eq!(times.len(), 2000);
        assert!(times.iter().enumerate().all(|(index, &time)| time == index as u64 * 1_000_000));
    }

    #[test]
    fn a_ramp_from_0_averages_half_its_final_rate() {
        let times = times(RateProfile::ramp(0.0, 1000.0, 4.0), ArrivalProcess::Constant);
        assert_eq!(times.len(), 2000);
        let first_half = times.iter().filter(|&&time| time < 2_000_000_000).count();
        assert_eq!(first_half, 500, "a quarter in the first half of the time");
    }

    #[test]
    fn steps_follow_in_order_after_the_warm_up() {
        let times =
            times(RateProfile::steps(&[10.0, 100.0, 0.0, 50.0], 1.0).after_warm_up(2.0), ArrivalProcess::Constant);
        let in_second = |second: u64| times.iter().filter(|&&time| time / 1_000_000_000 == second).count();
        assert_eq!((0..7).map(in_second).collect::<Vec<_>>(), [10, 10, 10, 100, 0, 50, 0]);
    }

    #[test]
    fn poisson_gaps_have_the_mean_and_deviation_of_an_exponential_distribution() {
        let times = times(RateProfile::flat(10_000.0, 10.0), ArrivalProcess::Poisson(7));
        let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let deviation = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
        assert!((mean / 100_000.0 - 1.0).abs() < 0.02, "mean {mean}");
        assert!((deviation / mean - 1.0).abs() < 0.02, "the deviation of exponential gaps is their mean: {deviation}");
    }

    #[test]
    fn a_trace_is_replayed_at_a_multiple_of_its_speed() {
        let schedule = from_trace(vec![0, 10, 10, 400], 4.0);
        assert_eq!(schedule.collect::<Vec<_>>(), [0, 2, 2, 100]);
    }

    fn segments() -> impl Strategy<Value = Vec<RateSegment>> {
        let segment = (0.0..2000.0, 0.0..2000.0, 0.05..1.0);
        prop::collection::vec(segment.prop_map(|(from, to, seconds)| RateSegment { from, to, seconds }), 1..6)
    }

    proptest! {
        #[test]
        fn times_ascend_and_their_number_is_the_integral_of_the_profile(segments in segments(), poisson: bool) {
            let arrivals = if poisson { ArrivalProcess::Poisson(3) } else { ArrivalProcess::Constant };
            let expected: f64 = segments.iter().map(RateSegment::count).sum();
            let profile = RateProfile(segments);
            let end = profile.seconds() * 1e9;
            let times = times(profile, arrivals);
            prop_assert!(times.is_sorted());
            prop_assert!(times.last().is_none_or(|&last| last as f64 <= end + 1.0));
            let allowed = if poisson { 10.0 + 6.0 * expected.sqrt() } else { 1.0 };
            prop_assert!((times.len() as f64 - expected).abs() <= allowed, "{} for {expected}", times.len());
        }

        #[test]
        fn time_of_is_the_inverse_of_the_integral(
            (from, to, seconds) in (1.0..5000.0, 1.0..5000.0, 0.1..9.0), share in 0.0..1.0,
        ) {
            let segment = RateSegment { from, to, seconds };
            let count = share * segment.count();
            let time = segment.time_of(count);
            let integral = from * time + (to - from) / seconds * time * time / 2.0;
            prop_assert!((integral - count).abs() < 1e-6 * (1.0 + count));
        }
    }
}
