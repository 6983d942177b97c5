//! The highest rate at which a share of queries is answered, by bisection with repeated trials.
//!
//! A trial is noisy, so a rate passes when two of at most three trials do. RFC 8219 9.1.1 and RFC 2544 26.1 search so; a
//! laxer share goes on from the peak of the stricter one.

/// What is looked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    /// Shares of queries that must be answered, from the strictest to the laxest.
    pub shares: Vec<f64>,
    /// The rate to begin at, in queries a second.
    pub first_rate: f64,
    /// The search ends when the rates that pass and that fail are this close, as a share of the rate.
    pub resolution: f64,
}

/// What one trial showed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trial {
    /// The share of queries that was answered.
    pub answered: f64,
    /// Whether the generator kept its schedule.
    pub on_schedule: bool,
}

/// The end of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Peak {
    /// The share that had to be answered.
    pub share: f64,
    /// The highest rate that passed; 0 when none did.
    pub rate: f64,
    /// The lowest rate above it that did not; infinite when the generator gave up before.
    pub failed_rate: f64,
    /// Whether it was the generator that could not go on, so that the server's own peak is higher.
    pub generator_bound: bool,
}

/// Rates beyond this are no rates.
const MAX_RATE: f64 = 1e9;
/// How often the generator may fall behind at a rate before that rate is beyond it.
const MAX_VOID: u32 = 4;
/// A server that passes at no rate above this one has no peak.
const MIN_RATE: f64 = 1.0;

impl Search {
    /// Searches by trials at rates of its choice, and adds each peak to `peaks` when it is found. An error of a trial ends it.
    pub fn run<E>(&self, peaks: &mut Vec<Peak>, mut trial: impl FnMut(f64) -> Result<Trial, E>) -> Result<(), E> {
        for &share in &self.shares {
            let from = peaks.last().map_or(self.first_rate, |peak| peak.rate.max(MIN_RATE));
            let peak = self.bisect(share, from, &mut |rate| passes(share, rate, &mut trial))?;
            peaks.push(peak);
        }
        Ok(())
    }

    fn bisect<E>(&self, share: f64, from: f64, passes: &mut impl FnMut(f64) -> Result<Pass, E>) -> Result<Peak, E> {
        let (mut low, mut high, mut generator_bound, mut rate) = (0.0, f64::INFINITY, false, from);
        loop {
            match passes(rate)? {
                Pass::Yes => low = rate,
                no => {
                    high = rate;
                    generator_bound = no == Pass::OffSchedule;
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
enum Pass {
    Yes,
    Unanswered,
    OffSchedule,
}

/// The verdict of two of at most three trials. One in which the generator fell behind says nothing about the server and is
/// repeated, a few times.
fn passes<E>(share: f64, rate: f64, trial: &mut impl FnMut(f64) -> Result<Trial, E>) -> Result<Pass, E> {
    let (mut passed, mut failed, mut void) = (0, 0, 0);
    loop {
        match trial(rate)? {
            Trial { on_schedule: false, .. } => void += 1,
            Trial { answered, .. } if answered >= share => passed += 1,
            Trial { .. } => failed += 1,
        }
        match (passed, failed, void) {
            (2, ..) => return Ok(Pass::Yes),
            (_, 2, _) => return Ok(Pass::Unanswered),
            (.., MAX_VOID) => return Ok(Pass::OffSchedule),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use std::convert::Infallible;

    fn search(shares: &[f64], first_rate: f64) -> Search {
        Search { shares: shares.into(), first_rate, resolution: 0.02 }
    }

    /// A server that answers `capacity` queries a second and drops the others; in every tenth trial the network loses
    /// some more, and in every tenth the generator falls behind.
    fn peaks(search: &Search, capacity: f64, generator: f64) -> (Vec<Peak>, u32) {
        let (mut random, mut count) = (Random::new(5), 0);
        let mut peaks = Vec::new();
        let searched = search.run(&mut peaks, |rate| {
            count += 1;
            let bad_luck = if random.below(10) == 0 { 0.003 } else { 0.0 };
            let answered = (capacity / rate).min(1.0 - bad_luck);
            let hiccup = random.below(10) == 0;
            Ok::<_, Infallible>(Trial { answered, on_schedule: rate <= generator && !hiccup })
        });
        searched.expect("infallible");
        (peaks, count)
    }

    #[test]
    fn the_peak_is_found_from_below_and_from_above() {
        for first_rate in [10.0, 1000.0, 3e6] {
            let (peaks, count) = peaks(&search(&[1.0, 0.9], first_rate), 123_456.0, 1e9);
            assert!((0.97..1.001).contains(&(peaks[0].rate / 123_456.0)), "{peaks:?}");
            assert!((0.97..1.001).contains(&(peaks[1].rate / (123_456.0 / 0.9))), "{peaks:?}");
            assert!(peaks.iter().all(|peak| !peak.generator_bound && peak.failed_rate > peak.rate));
            assert!(count < 120, "{count} trials");
        }
    }

    #[test]
    fn the_generator_may_be_the_bound() {
        let (peaks, _) = peaks(&search(&[0.99], 100.0), 1e6, 5e4);
        assert!(peaks[0].generator_bound && (0.97..1.001).contains(&(peaks[0].rate / 5e4)), "{peaks:?}");
    }

    #[test]
    fn a_server_that_never_answers_has_no_peak() {
        let (peaks, _) = peaks(&search(&[0.99], 100.0), 0.0, 1e9);
        assert_eq!(peaks[0].rate, 0.0);
    }
}
