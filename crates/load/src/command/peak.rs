//! `zonda-load query --find-peak`: searches the highest rates that meet objectives.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use netio::clock;
use serde_json::{Value, json};

use super::number::percent;
use super::{CommandError, Validity, conclude};
use crate::job::{Job, Timing};
use crate::metrics::{Metrics, UNANSWERED};
use crate::report::{ReportHeader, Reporter, nanoseconds, quantiles};
use crate::run::RunResult;
use crate::schedule::{ArrivalProcess, RateProfile};
use crate::search::{Objective, Peak, Search, Trial};

/// Arguments of the search.
#[derive(Debug, Args)]
pub struct PeakArguments {
    /// Search the highest rate that meets each of these objectives, starting at --rate: a percentage of the queries that
    /// must be answered, like 99.9, or a latency limit, like p99=1ms or max=2s [without a value: 100,99.99,99.9,99]
    #[arg(long, value_delimiter = ',', value_name = "OBJECTIVE", num_args = 0.., default_missing_value = "100,99.99,99.9,99",
        conflicts_with_all = ["outstanding", "steps", "speed", "ramp_to"])]
    find_peak: Option<Vec<Objective>>,
    /// Resolution of the search, in percent of the rate
    #[arg(long, default_value_t = 2.0, value_parser = percent, value_name = "PERCENT")]
    resolution: f64,
}

/// A trial is void if the 99th percentile of the schedule error exceeds this share of the window, and [`MIN_SCHEDULE_ERROR_S`].
const MAX_SCHEDULE_ERROR: f64 = 0.01;
/// Queries that are less late still load the server at the rate.
const MIN_SCHEDULE_ERROR_S: f64 = 0.01;

impl PeakArguments {
    /// The search that starts at `first_rate`; `None` without `--find-peak`.
    ///
    /// Percentages come first, from the highest, then latencies: later objectives then start close to their peak.
    pub fn search(&self, first_rate: f64) -> Option<Search> {
        let mut objectives = self.find_peak.clone()?;
        objectives.sort_by(|a, b| sort_key(b).total_cmp(&sort_key(a)));
        Some(Search { objectives, first_rate, resolution: self.resolution / 100.0 })
    }
}

fn sort_key(objective: &Objective) -> f64 {
    match *objective {
        Objective::Answered { percent } => percent,
        Objective::Latency { limit_ns, .. } => -(limit_ns as f64),
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
        Ok(report_trial(&reporter, rate, result, seconds))
    });
    let is_interrupted = stop.load(Ordering::Relaxed);
    if !is_interrupted {
        searched?;
    }
    let invalid_because = invalid_because(&total, is_interrupted);
    let peaks: Vec<Value> = peaks.iter().map(peak_record).collect();
    let extra = json!({"peaks": peaks, "busy": null, "invalid_because": invalid_because});
    let result = RunResult { since, until: clock::real(), metrics: total, busy: 0.0 };
    conclude(reporter.write_sum(&result, extra), &invalid_because)
}

/// Reports a trial.
fn report_trial(reporter: &Reporter, rate: f64, result: RunResult, seconds: f64) -> Trial {
    let RunResult { since, until, metrics, busy } = result;
    let answered = metrics.responses_in_window() as f64 / metrics.scheduled.max(1) as f64;
    let mut void_because = generator_faults(&metrics, seconds);
    let is_void = !void_because.is_empty();
    if metrics.wrong > 0 {
        void_because.push(format!("{} of {} answers are wrong", metrics.wrong, metrics.responses));
    }
    let latency = quantiles(&metrics.latency_intended);
    let figures = json!({
        "rate": rate,
        "since": nanoseconds(since),
        "until": nanoseconds(until),
        "scheduled": metrics.scheduled,
        "queries": metrics.queries,
        "responses": metrics.responses,
        "responses_in_window": metrics.responses_in_window(),
        "responses_after_window": metrics.responses_after_window,
        "answered": answered,
        "timeouts": metrics.timeouts,
        "missed": metrics.missed,
        "late": metrics.late,
        "wrong": metrics.wrong,
        "wrong_examples": metrics.wrong_examples,
        "latency": latency,
        "schedule_error_p99": metrics.schedule_error.value_at_quantile(0.99),
        "busy": busy,
        "on_schedule": !is_void,
        "void_because": void_because,
    });
    let voided = void_because.first().map_or(String::new(), |why| format!(", void: {why}"));
    let message = format!("{rate:.0} queries per second: {:.3} % answered{voided}", answered * 100.0);
    reporter.event("trial", &message, figures);
    Trial {
        answered,
        latency: metrics.latency_intended,
        schedule_error: metrics.schedule_error,
        has_wrong: metrics.wrong > 0,
        is_void,
        busy,
    }
}

/// Why a trial says nothing about the server.
fn generator_faults(metrics: &Metrics, seconds: f64) -> Vec<String> {
    let error_s = metrics.schedule_error.value_at_quantile(0.99) as f64 / 1e9;
    let is_late = error_s > (seconds * MAX_SCHEDULE_ERROR).max(MIN_SCHEDULE_ERROR_S);
    let late = || format!("queries left up to {:.0} ms after their time (99th percentile)", error_s * 1e3);
    metrics.generator_faults(is_late.then(late))
}

fn peak_record(peak: &Peak) -> Value {
    let percent = match peak.objective {
        Objective::Answered { percent } => Some(percent),
        Objective::Latency { .. } => None,
    };
    json!({
        "objective": peak.objective.to_string(),
        "percent": percent,
        "rate": peak.rate,
        "failed_rate": peak.failure.map(|(rate, _)| rate),
        "failure": peak.failure.map(|(_, why)| why.name()),
        "generator_bound": peak.generator_bound,
        "trials": peak.trials,
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
