//! Searches the peak: the highest rate that meets an objective (RFC 2544 26.1, RFC 8219 9.1.1).
//!
//! It doubles the rate until one fails, and bisects. A trial is noisy, so a rate passes when two of at most three valid
//! trials do. Trials count for all objectives.

use std::fmt;
use std::str::FromStr;

use crate::metrics::LatencyHistogram;

/// What a rate must meet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Objective {
    /// This percentage of the queries is answered in the window.
    Answered {
        /// Above 0, at most 100.
        percent: f64,
    },
    /// A quantile of the latency from the intended send time is at most a limit; unanswered queries have at least the time-out.
    Latency {
        /// In percent; 100 for the maximum.
        quantile: f64,
        /// In nanoseconds.
        limit_ns: u64,
    },
}

/// The configuration of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    /// The objectives, in the order of the search.
    pub objectives: Vec<Objective>,
    /// The rate of the first trial, in queries per second.
    pub first_rate: f64,
    /// The search ends when the last passing and the first failing rate differ by this share.
    pub resolution: f64,
}

/// The result of a run at one rate.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The share of scheduled queries that was answered in the window.
    pub answered: f64,
    /// From the intended send time.
    pub latency: LatencyHistogram,
    /// From the intended to the actual send time.
    pub schedule_error: LatencyHistogram,
    /// Whether an answer was wrong: then no rate up to this one passes by another trial.
    pub has_wrong: bool,
    /// Whether the generator did not do what it should, so that the trial says nothing about the server.
    pub is_void: bool,
    /// The share of time in which the generator was busy.
    pub busy: f64,
}

/// The result of the search for one objective.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Peak {
    /// What had to be met.
    pub objective: Objective,
    /// The last rate that passed; 0 when none did.
    pub rate: f64,
    /// The first rate that failed, and why; `None` if none did.
    pub failure: Option<(f64, Failure)>,
    /// Whether the generator was at its limit, so that the server's own peak may be higher.
    pub generator_bound: bool,
    /// How many trials the objective needed in addition to those of earlier ones.
    pub trials: u32,
}

/// Why a rate failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Too few queries were answered in the window.
    Unanswered,
    /// The latency was too high.
    Latency,
    /// An answer was wrong.
    Wrong,
    /// The generator could not offer the rate.
    Generator,
}

/// Send times are in nanoseconds, so no rate is higher.
const MAX_RATE: f64 = 1e9;
/// After this many void trials the rate is too high for the generator.
const MAX_VOID: usize = 4;
/// How many trials decide.
const MAJORITY: usize = 2;
/// A server that fails at this rate has no peak.
const MIN_RATE: f64 = 1.0;
/// A schedule error above the limit of a latency divided by this is no small part of it.
const MAX_ERROR_OF_LIMIT: u64 = 10;
/// A generator that is busier than this is at its limit.
const MAX_BUSY: f64 = 0.9;

/// All trials of a search.
#[derive(Default)]
struct Trials {
    /// Each rate with its trials, in order of the first one.
    rates: Vec<(f64, Vec<Trial>)>,
}

impl Search {
    /// Calls `trial` with rates, and adds each peak to `peaks` when it is found. An error of a trial ends the search.
    pub fn run<E>(&self, peaks: &mut Vec<Peak>, mut trial: impl FnMut(f64) -> Result<Trial, E>) -> Result<(), E> {
        let mut trials = Trials::default();
        for &objective in &self.objectives {
            peaks.push(self.bisect(objective, &mut trials, &mut trial)?);
        }
        Ok(())
    }

    fn bisect<E>(
        &self,
        objective: Objective,
        trials: &mut Trials,
        trial: &mut impl FnMut(f64) -> Result<Trial, E>,
    ) -> Result<Peak, E> {
        let mut count = 0;
        loop {
            let (low, failure) = trials.bracket(objective);
            let high = failure.map(|(rate, _)| rate);
            let is_close = high.is_some_and(|high| high <= low * (1.0 + self.resolution) || high <= MIN_RATE);
            if is_close || low >= MAX_RATE {
                let is_busy = trials.at(low).iter().any(Trial::is_busy);
                let generator_bound =
                    is_busy || failure.is_some_and(|failure| trials.is_generators(failure, objective));
                return Ok(Peak { objective, rate: low, failure, generator_bound, trials: count });
            }
            let rate = match high {
                None if low == 0.0 => self.first_rate,
                None => (low * 2.0).min(MAX_RATE),
                Some(high) if low == 0.0 => high / 2.0,
                Some(high) => (low * high).sqrt(),
            };
            while trials.outcome(rate, objective).is_none() {
                trials.add(rate, trial(rate)?);
                count += 1;
            }
        }
    }
}

impl Trials {
    fn add(&mut self, rate: f64, trial: Trial) {
        match self.rates.iter_mut().find(|(tried, _)| *tried == rate) {
            Some((_, trials)) => trials.push(trial),
            None => self.rates.push((rate, vec![trial])),
        }
    }

    fn at(&self, rate: f64) -> &[Trial] {
        self.rates.iter().find(|(tried, _)| *tried == rate).map_or(&[], |(_, trials)| trials)
    }

    /// The lowest rate that failed, and the highest below it that passed; 0 when none did.
    fn bracket(&self, objective: Objective) -> (f64, Option<(f64, Failure)>) {
        let (mut low, mut high): (f64, Option<(f64, Failure)>) = (0.0, None);
        let mut decided: Vec<_> =
            self.rates.iter().filter_map(|&(rate, _)| Some((rate, self.outcome(rate, objective)?))).collect();
        decided.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        for (rate, outcome) in decided {
            match outcome {
                Ok(()) => low = rate,
                Err(failure) => {
                    high = Some((rate, failure));
                    break;
                }
            }
        }
        (low, high)
    }

    /// Whether a rate failed by the generator: it could not offer the rate, or the rate did not fail by a majority of trials
    /// in which it had headroom.
    fn is_generators(&self, (rate, why): (f64, Failure), objective: Objective) -> bool {
        let has_headroom = |trial: &&Trial| objective.passes(trial) == Some(false) && !trial.is_busy();
        match why {
            Failure::Generator => true,
            Failure::Wrong => false,
            Failure::Unanswered | Failure::Latency => self.at(rate).iter().filter(has_headroom).count() < MAJORITY,
        }
    }

    /// Whether a rate passes; `None` if there are too few trials.
    fn outcome(&self, rate: f64, objective: Objective) -> Option<Result<(), Failure>> {
        let trials = self.at(rate);
        let count = |wanted: bool| trials.iter().filter(|trial| objective.passes(trial) == Some(wanted)).count();
        let (passed, failed) = (count(true), count(false));
        let void = trials.len() - passed - failed;
        if trials.iter().any(|trial| trial.has_wrong) {
            Some(Err(Failure::Wrong))
        } else if passed >= MAJORITY {
            Some(Ok(()))
        } else if failed >= MAJORITY {
            Some(Err(objective.failure()))
        } else {
            (void >= MAX_VOID).then_some(Err(Failure::Generator))
        }
    }
}

impl Trial {
    fn is_busy(&self) -> bool {
        self.busy > MAX_BUSY
    }
}

impl Objective {
    /// Whether a trial passes; `None` if it is void.
    fn passes(self, trial: &Trial) -> Option<bool> {
        let is_met = self.is_met(trial);
        (!trial.is_void && (is_met || !self.is_generator_late(trial))).then_some(is_met)
    }

    fn is_met(self, trial: &Trial) -> bool {
        match self {
            Objective::Answered { percent } => trial.answered * 100.0 >= percent,
            // The histogram has three significant digits.
            Objective::Latency { quantile, limit_ns } => {
                let limit_ns = trial.latency.highest_equivalent(limit_ns);
                !trial.latency.is_empty() && trial.latency.value_at_quantile(quantile / 100.0) <= limit_ns
            }
        }
    }

    /// Whether a latency may be too high because the generator was late.
    fn is_generator_late(self, trial: &Trial) -> bool {
        match self {
            Objective::Answered { .. } => false,
            Objective::Latency { quantile, limit_ns } => {
                trial.schedule_error.value_at_quantile(quantile / 100.0) > limit_ns / MAX_ERROR_OF_LIMIT
            }
        }
    }

    fn failure(self) -> Failure {
        match self {
            Objective::Answered { .. } => Failure::Unanswered,
            Objective::Latency { .. } => Failure::Latency,
        }
    }
}

impl Failure {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Failure::Unanswered => "unanswered",
            Failure::Latency => "latency",
            Failure::Wrong => "wrong",
            Failure::Generator => "generator",
        }
    }
}

//----------- text -------------------------------------------------------------

/// The units of a latency limit, with their nanoseconds; longer names first.
const UNITS: [(&str, f64); 4] = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];

impl FromStr for Objective {
    type Err = String;

    /// `99.9`, `p99=1ms` or `max=2s`.
    fn from_str(text: &str) -> Result<Objective, String> {
        let invalid =
            || format!("`{text}` is neither a percentage, like 99.9, nor a latency limit, like p99=1ms or max=2s");
        let is_percent = |percent: &f64| (0.01..=100.0).contains(percent);
        let percent = |text: &str| text.parse().ok().filter(is_percent).ok_or_else(invalid);
        let Some((quantile, limit)) = text.split_once('=') else {
            return Ok(Objective::Answered { percent: percent(text)? });
        };
        let quantile = match quantile.strip_prefix('p') {
            Some(quantile) => percent(quantile)?,
            None => (quantile == "max").then_some(100.0).ok_or_else(invalid)?,
        };
        let limits = UNITS.iter().filter_map(|(unit, ns)| Some(limit.strip_suffix(unit)?.parse::<f64>().ok()? * ns));
        let limit_ns = limits.into_iter().find(|ns| (1.0..=3.6e12).contains(ns)).ok_or_else(invalid)? as u64;
        Ok(Objective::Latency { quantile, limit_ns })
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Objective::Answered { percent } => write!(f, "{percent}"),
            Objective::Latency { quantile, limit_ns } => {
                let fits = |ns: f64| limit_ns as f64 >= ns;
                let (unit, ns) = UNITS.iter().rev().find(|(_, ns)| fits(*ns)).expect("a limit is at least 1 ns");
                let name = if quantile == 100.0 { "max".into() } else { format!("p{quantile}") };
                write!(f, "{name}={}{unit}", limit_ns as f64 / ns)
            }
        }
    }
}

#[cfg(test)]
mod tests;
