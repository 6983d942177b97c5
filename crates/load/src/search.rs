//! Searches the peak: the highest rate at which a share of queries is answered (RFC 2544 26.1, RFC 8219 9.1.1).
//!
//! It bisects rates. A trial is noisy, so a rate passes when two of at most three trials do. The search for a lower
//! share starts at the peak of the share above it.

/// The configuration of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    /// The shares of queries that must be answered, in descending order.
    pub shares: Vec<f64>,
    /// The rate of the first trial, in queries per second.
    pub first_rate: f64,
    /// The search ends when the highest passing and the lowest failing rate differ by this share.
    pub resolution: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trial {
    /// The share of scheduled queries that was answered.
    pub answered: f64,
    /// Whether the generator kept its schedule.
    pub on_schedule: bool,
}

/// The result of the search for one share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Peak {
    /// The share that had to be answered.
    pub share: f64,
    /// The highest rate that passed; 0 when none did.
    pub rate: f64,
    /// The lowest rate that failed; infinite if none did.
    pub failed_rate: f64,
    /// Whether the generator was the bottleneck, so that the server's own peak is higher.
    pub generator_bound: bool,
}

/// The search does not go above this rate.
const MAX_RATE: f64 = 1e9;
/// If the generator falls behind its schedule in this many trials of a rate, the rate is too high for it.
const MAX_OFF_SCHEDULE: u32 = 4;
/// A server that fails at this rate has no peak.
const MIN_RATE: f64 = 1.0;

impl Search {
    /// Calls `trial` with rates, and adds each peak to `peaks` when it is found. An error of a trial ends the search.
    pub fn run<E>(&self, peaks: &mut Vec<Peak>, mut trial: impl FnMut(f64) -> Result<Trial, E>) -> Result<(), E> {
        for &share in &self.shares {
            let from = peaks.last().map_or(self.first_rate, |peak| peak.rate.max(MIN_RATE));
            let peak = self.bisect(share, from, &mut |rate| try_rate(share, rate, &mut trial))?;
            peaks.push(peak);
        }
        Ok(())
    }

    fn bisect<E>(
        &self,
        share: f64,
        from: f64,
        try_rate: &mut impl FnMut(f64) -> Result<RateOutcome, E>,
    ) -> Result<Peak, E> {
        let (mut low, mut high, mut generator_bound, mut rate) = (0.0, f64::INFINITY, false, from);
        loop {
            match try_rate(rate)? {
                RateOutcome::Passed => low = rate,
                failure => {
                    high = rate;
                    generator_bound = failure == RateOutcome::OffSchedule;
                }
            }
            if high <= low * (1.0 + self.resolution) || rate >= MAX_RATE || high <= MIN_RATE {
                return Ok(Peak { share, rate: low, failed_rate: high, generator_bound });
            }
            rate = match (low > 0.0, high.is_finite()) {
                (_, false) => rate * 2.0,
                (false, true) => rate / 2.0,
                (true, true) => (low * high).sqrt(),
            };
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RateOutcome {
    Passed,
    Unanswered,
    OffSchedule,
}

/// Tries a rate, which passes if two of at most three trials do.
///
/// A trial in which the generator fell behind its schedule says nothing about the server and is repeated.
fn try_rate<E>(share: f64, rate: f64, trial: &mut impl FnMut(f64) -> Result<Trial, E>) -> Result<RateOutcome, E> {
    let (mut passed, mut failed, mut off_schedule) = (0, 0, 0);
    loop {
        match trial(rate)? {
            Trial { on_schedule: false, .. } => off_schedule += 1,
            Trial { answered, .. } if answered >= share => passed += 1,
            Trial { .. } => failed += 1,
        }
        match (passed, failed, off_schedule) {
            (2, ..) => return Ok(RateOutcome::Passed),
            (_, 2, _) => return Ok(RateOutcome::Unanswered),
            (.., MAX_OFF_SCHEDULE) => return Ok(RateOutcome::OffSchedule),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fastrand::Rng;
    use std::convert::Infallible;

    fn search(shares: &[f64], first_rate: f64) -> Search {
        Search { shares: shares.into(), first_rate, resolution: 0.02 }
    }

    /// Searches with a server that answers `capacity` queries per second and drops the others. In one of ten trials the
    /// network loses some more, and in one of ten the generator falls behind.
    fn peaks(search: &Search, capacity: f64, generator: f64) -> (Vec<Peak>, u32) {
        let (mut random, mut count) = (Rng::with_seed(5), 0);
        let mut peaks = Vec::new();
        let searched = search.run(&mut peaks, |rate| {
            count += 1;
            let packet_loss = if random.usize(..10) == 0 { 0.003 } else { 0.0 };
            let answered = (capacity / rate).min(1.0 - packet_loss);
            let hiccup = random.usize(..10) == 0;
            Ok::<_, Infallible>(Trial { answered, on_schedule: rate <= generator && !hiccup })
        });
        searched.expect("infallible");
        (peaks, count)
    }

    #[test]
    fn the_peak_is_found_from_below_and_above() {
        for first_rate in [10.0, 1000.0, 3e6] {
            let (peaks, count) = peaks(&search(&[1.0, 0.9], first_rate), 123_456.0, 1e9);
            assert!((0.97..1.001).contains(&(peaks[0].rate / 123_456.0)), "{peaks:?}");
            assert!((0.97..1.001).contains(&(peaks[1].rate / (123_456.0 / 0.9))), "{peaks:?}");
            assert!(peaks.iter().all(|peak| !peak.generator_bound && peak.failed_rate > peak.rate));
            assert!(count < 120, "{count} trials");
        }
    }

    #[test]
    fn a_slow_generator_is_reported_as_the_bottleneck() {
        let (peaks, _) = peaks(&search(&[0.99], 100.0), 1e6, 5e4);
        assert!(peaks[0].generator_bound && (0.97..1.001).contains(&(peaks[0].rate / 5e4)), "{peaks:?}");
    }

    #[test]
    fn a_server_that_never_answers_has_no_peak() {
        let (peaks, _) = peaks(&search(&[0.99], 100.0), 0.0, 1e9);
        assert_eq!(peaks[0].rate, 0.0);
    }
}
