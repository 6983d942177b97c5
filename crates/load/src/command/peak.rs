//! `zonda-load query --find-peak`: searches the highest rates at which shares of the queries are answered.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use netio::clock;
use serde_json::{Value, json};

use super::number::percent;
use super::{CommandError, Validity, conclude};
use crate::job::{Job, Timing};
use crate::metrics::{Metrics, UNANSWERED};
use crate::report::{ReportHeader, Reporter};
use crate::run::RunResult;
use crate::schedule::{ArrivalProcess, RateProfile};
use crate::search::{Peak, Search, Trial};

/// Arguments of the search.
#[derive(Debug, Args)]
pub struct PeakArguments {
    /// Search the highest rate at which each of these percentages is answered, starting at --rate [without a value:
    /// 100,99.99,99.9,99]
    #[arg(long, value_delimiter = ',', value_name = "PERCENT", num_args = 0.., default_missing_value = "100,99.99,99.9,99",
        value_parser = percent, conflicts_with_all = ["outstanding", "steps", "speed", "ramp_to"])]
    find_peak: Option<Vec<f64>>,
    /// Resolution of the search, in percent of the rate
    #[arg(long, default_value_t = 2.0, value_parser = percent, value_name = "PERCENT")]
    resolution: f64,
}

impl PeakArguments {
    /// The search that starts at `first_rate`; `None` without `--find-peak`.
    pub fn search(&self, first_rate: f64) -> Option<Search> {
        let mut shares: Vec<f64> = self.find_peak.as_ref()?.iter().map(|percent| percent / 100.0).collect();
        shares.sort_by(|a, b| b.total_cmp(a));
        Some(Search { shares, first_rate, resolution: self.resolution / 100.0 })
    }
}

/// Searches the peaks. Each trial is a run of `seconds`, reported as an event.
pub fn find_peaks(
    job: &Job,
    search: &Search,
    seconds: f64,
    arrivals: ArrivalProcess,
    stop: &AtomicBool,
) -> Result<Validity, CommandError> {
    let reporter = Reporter::new(ReportHeader::of(job));
    let (since, mut total, mut peaks) = (clock::real(), Metrics::default(), Vec::new());
    let searched = search.run(&mut peaks, |rate| {
        let timing = Timing::Rate(RateProfile::flat(rate, seconds), arrivals);
        let result =
            Job { timing, ..job.clone() }.run(stop, |_| ()).map_err(CommandError::system("sending queries"))?;
        total.add(&result.metrics);
        if stop.load(Ordering::Relaxed) {
            return Err(CommandError::system("searching the peak")(ErrorKind::Interrupted.into()));
        }
        Ok(report_trial(&reporter, rate, &result.metrics, seconds))
    });
    let is_interrupted = stop.load(Ordering::Relaxed);
    if !is_interrupted {
        searched?;
    }
    let invalid_because = invalid_because(&total, is_interrupted);
    let peaks: Vec<Value> = peaks.iter().map(peak_record).collect();
    let extra = json!({"peaks": peaks, "invalid_because": invalid_because});
    let written = reporter.write_sum(&RunResult { since, until: clock::real(), metrics: total }, extra);
    conclude(written, &invalid_because)
}

/// Reports a trial. Queries that are some milliseconds late still load the server at the rate; the generator is off its
/// schedule only if it does not reach the rate.
fn report_trial(reporter: &Reporter, rate: f64, metrics: &Metrics, seconds: f64) -> Trial {
    let answered = metrics.responses as f64 / metrics.scheduled.max(1) as f64;
    let error_s = metrics.schedule_error.value_at_quantile(0.99) as f64 / 1e9;
    let on_schedule = metrics.missed * 1000 <= metrics.scheduled && metrics.refused == 0 && error_s < seconds / 10.0;
    let message = format!("{rate:.0} queries per second: {:.3} % answered", answered * 100.0);
    let latency_p99 = metrics.latency_intended.value_at_quantile(0.99);
    let figures = json!({"rate": rate, "answered": answered, "latency_p99": latency_p99, "on_schedule": on_schedule});
    reporter.event("trial", &message, figures);
    Trial { answered, on_schedule }
}

fn peak_record(peak: &Peak) -> Value {
    json!({
        "percent": (peak.share * 1e8).round() / 1e6,
        "rate": peak.rate,
        // Infinite if no rate failed, which JSON cannot represent.
        "failed_rate": Some(peak.failed_rate).filter(|rate| rate.is_finite()),
        "generator_bound": peak.generator_bound,
    })
}

/// Why the search is invalid. Trials above the peak may be off schedule, so [`Metrics::invalid_because`] is too strict.
fn invalid_because(total: &Metrics, is_interrupted: bool) -> Vec<String> {
    let mut reasons = Vec::new();
    if is_interrupted {
        reasons.push("the search was interrupted".into());
    }
    if total.responses == 0 {
        reasons.push(UNANSWERED.into());
    }
    if total.wrong > 0 {
        reasons.push(format!("{} of {} answers are wrong", total.wrong, total.responses));
    }
    reasons
}
