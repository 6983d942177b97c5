//! `zonda-load query`: queries on a schedule, or as a closed loop.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::{Args, ValueEnum};
use netio::clock;
use serde_json::{Map, json};

use super::input::{Input, read};
use super::number::{interval, percent, positive, rate, seconds, seconds_or_none, share};
use super::security::{Trust, Tsig};
use super::target::Target;
use super::{Failure, Verdict, verdict};
use crate::measure::{Measure, UNANSWERED};
use crate::plan::{Arrivals, Profile};
use crate::queries::Queries;
use crate::report::Reporter;
use crate::run::{Job, MAX_BUNCH, Outcome, Timing, Transport};
use crate::search::{Search, Trial};
use crate::tls::{Purpose, Tls};
use crate::verify::Verifier;

/// Arguments of `zonda-load query`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    target: Target,
    /// How queries travel; those of a capture as they did then, others over UDP, unless this says otherwise
    #[arg(long, value_enum)]
    transport: Option<Line>,
    /// The share of queries that go over TCP, the others going over UDP
    #[arg(long, value_name = "SHARE", value_parser = share)]
    tcp_share: Option<f64>,
    /// UDP sockets, or connections that are open at a time
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    connections: u32,
    /// Close a connection after so many queries; 0: never
    #[arg(long, default_value_t = 0, value_name = "N")]
    queries_per_connection: u32,
    /// UDP queries that leave by one socket if they are due together, in one piece where their lengths allow it
    /// (UDP_SEGMENT); 1: each for itself [default: 8; in a closed loop an eighth of those outstanding, at most 64]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=MAX_BUNCH as i64))]
    bunch: Option<u8>,
    /// Resume TLS sessions; without, every connection has a handshake of its own
    #[arg(long)]
    resume: bool,
    #[command(flatten)]
    trust: Trust,
    #[command(flatten)]
    tsig: Tsig,
    /// Processors that threads stay on, one each
    #[arg(long, value_delimiter = ',', value_name = "N,N")]
    cpus: Vec<usize>,
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    timing: TimingArguments,
    #[command(flatten)]
    peak: PeakArguments,
    /// Expected answers, a line for each query: `RCODE answer|referral|nodata|nxdomain`
    #[arg(long, value_name = "FILE", conflicts_with = "verify")]
    expect: Option<PathBuf>,
    /// A second server that is asked every query once before the run, signed with the key of --tsig; its answers are the right ones
    #[arg(long, value_name = "ADDRESS:PORT")]
    verify: Option<std::net::SocketAddr>,
    /// How long an answer may take
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    timeout_ms: u64,
    /// Seconds between intermediate results
    #[arg(long, default_value_t = 1.0, value_parser = interval, value_name = "SECONDS")]
    interval: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Line {
    Udp,
    Tcp,
    Tls,
}

/// When it is asked.
#[derive(Debug, Args)]
struct TimingArguments {
    /// Queries a second: an open loop, whatever is answered
    #[arg(long, value_parser = rate, required_unless_present_any = ["outstanding", "steps", "speed", "find_peak"])]
    rate: Option<f64>,
    /// Go from --rate to this rate in a line
    #[arg(long, value_parser = rate, value_name = "RATE", requires = "rate")]
    ramp_to: Option<f64>,
    /// One rate after the other, each for --seconds
    #[arg(long, value_delimiter = ',', value_name = "RATE,RATE", value_parser = rate, conflicts_with = "rate")]
    steps: Option<Vec<f64>>,
    /// How queries are spread in time
    #[arg(long, value_enum, default_value_t = Spread::Constant)]
    arrivals: Spread,
    /// Where the randomness of --arrivals poisson begins
    #[arg(long, default_value_t = 1, value_name = "SEED")]
    arrivals_seed: u64,
    /// Keep so many queries in flight instead: a closed loop
    #[arg(long, value_name = "N", conflicts_with_all = ["rate", "steps"],
        value_parser = clap::value_parser!(u32).range(1..))]
    outstanding: Option<u32>,
    /// Send the queries of a capture at their times, so many times as fast: an open loop
    #[arg(long, value_parser = positive, conflicts_with_all = ["rate", "steps", "outstanding"], requires = "pcap")]
    speed: Option<f64>,
    /// How long to send
    #[arg(long, default_value_t = 10.0, value_parser = seconds)]
    seconds: f64,
    /// Seconds before that in which nothing is measured
    #[arg(long, default_value_t = 0.0, value_name = "SECONDS", value_parser = seconds_or_none)]
    warm_up: f64,
}

/// Whether and how the peak is searched.
#[derive(Debug, Args)]
struct PeakArguments {
    /// Search the highest rates at which these percentages are answered, beginning at --rate, each trial of --seconds
    #[arg(long, value_delimiter = ',', value_name = "PERCENT", num_args = 0.., default_missing_value = "100,99.99,99.9,99",
        value_parser = percent, conflicts_with_all = ["outstanding", "steps", "speed", "ramp_to"])]
    find_peak: Option<Vec<f64>>,
    /// How exactly, in percent of the rate
    #[arg(long, default_value_t = 2.0, value_parser = percent, value_name = "PERCENT")]
    resolution: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Spread {
    Constant,
    Poisson,
}

/// Runs the command.
pub fn run(arguments: &Arguments, stop: &AtomicBool) -> Result<Verdict, Failure> {
    let job = arguments.job()?;
    match &arguments.peak.find_peak {
        Some(percents) => find_peak(&job, arguments, percents, stop),
        None => run_job(&job, stop),
    }
}

/// Runs a job and reports it.
pub fn run_job(job: &Job, stop: &AtomicBool) -> Result<Verdict, Failure> {
    let loop_kind = if matches!(job.timing, Timing::Closed { .. }) { "closed" } else { "open" };
    let mut reporter = Reporter::new(loop_kind, transport_name(job));
    let outcome = job.run(stop, |interval| reporter.periodic(interval)).map_err(Failure::system("sending queries"))?;
    reporter.sum(&outcome, Map::new()).map_err(Failure::system("writing results"))?;
    Ok(verdict(&outcome.measure.invalid_because()))
}

/// Searches the peak; a trial is a run of its own, reported as an event.
fn find_peak(job: &Job, arguments: &Arguments, percents: &[f64], stop: &AtomicBool) -> Result<Verdict, Failure> {
    let mut shares: Vec<f64> = percents.iter().map(|percent| percent / 100.0).collect();
    shares.sort_by(|a, b| b.total_cmp(a));
    let first_rate = arguments.timing.rate.unwrap_or(1000.0);
    let search = Search { shares, first_rate, resolution: arguments.peak.resolution / 100.0 };
    let reporter = Reporter::new("open", transport_name(job));
    let mut total = Measure::default();
    let since = clock::real();
    let mut peaks = Vec::new();
    let searched = search.run(&mut peaks, |rate| {
        let timing = Timing::Rate(Profile::flat(rate, arguments.timing.seconds), arguments.timing.arrivals());
        let outcome = Job { timing, ..job.clone() }.run(stop, |_| ()).map_err(Failure::system("sending queries"))?;
        total.add(&outcome.measure);
        if stop.load(Ordering::Relaxed) {
            return Err(Failure::System { what: "searching the peak".into(), error: ErrorKind::Interrupted.into() });
        }
        Ok(tell_trial(&reporter, rate, &outcome.measure, arguments.timing.seconds))
    });
    let is_broken_off = stop.load(Ordering::Relaxed);
    if !is_broken_off {
        searched?;
    }
    let told: Vec<_> = peaks
        .iter()
        .map(|peak| {
            // JSON knows no infinity: nothing failed.
            let failed_rate = Some(peak.failed_rate).filter(|rate| rate.is_finite());
            let percent = (peak.share * 1e8).round() / 1e6;
            json!({"percent": percent, "rate": peak.rate, "failed_rate": failed_rate, "generator_bound": peak.generator_bound})
        })
        .collect();
    let mut invalid_because: Vec<String> = Vec::new();
    if is_broken_off {
        invalid_because.push("the search was broken off".into());
    }
    if total.responses == 0 {
        invalid_because.push(UNANSWERED.into());
    }
    if total.wrong > 0 {
        invalid_because.push(format!("{} of {} answers are wrong", total.wrong, total.responses));
    }
    let figures = json!({"peaks": told, "invalid_because": invalid_because});
    let outcome = Outcome { since, until: clock::real(), measure: total };
    reporter
        .sum(&outcome, figures.as_object().cloned().unwrap_or_default())
        .map_err(Failure::system("writing results"))?;
    Ok(verdict(&invalid_because))
}

/// Reports a trial. What leaves some milliseconds late still loads the server at that rate; only what spoils the rate itself
/// puts the generator off its schedule.
fn tell_trial(reporter: &Reporter, rate: f64, measure: &Measure, seconds: f64) -> Trial {
    let answered = measure.responses as f64 / measure.scheduled.max(1) as f64;
    let error_s = measure.schedule_error.value_at_quantile(0.99) as f64 / 1e9;
    let on_schedule = measure.missed * 1000 <= measure.scheduled && measure.refused == 0 && error_s < seconds / 10.0;
    let message = format!("{rate:.0} queries a second: {:.3} % answered", answered * 100.0);
    let latency_p99 = measure.latency_intended.value_at_quantile(0.99);
    let figures = json!({"rate": rate, "answered": answered, "latency_p99": latency_p99, "on_schedule": on_schedule});
    reporter.event("trial", &message, figures);
    Trial { answered, on_schedule }
}

fn transport_name(job: &Job) -> &'static str {
    match job.transport {
        Transport::Udp => "udp",
        Transport::Tcp if job.tls.is_some() => "tls",
        Transport::Tcp => "tcp",
        Transport::Mixed => "mixed",
    }
}

impl Arguments {
    fn job(&self) -> Result<Job, Failure> {
        let queries = Arc::new(self.input.queries()?);
        let transport = match (self.tcp_share, self.transport) {
            (Some(_), _) => Transport::Mixed,
            (None, None) if !queries.origins().is_empty() => Transport::Mixed,
            (None, None | Some(Line::Udp)) => Transport::Udp,
            (None, Some(Line::Tcp | Line::Tls)) => Transport::Tcp,
        };
        Ok(Job {
            server: self.target.address(),
            transport,
            tcp_share: self.tcp_share.unwrap_or_default(),
            connections: self.connections as usize,
            queries_per_connection: self.queries_per_connection,
            sources: self.target.sources()?,
            bunch: self.bunch(),
            tls: self.tls()?,
            key: self.tsig.key.clone(),
            verifier: self.verifier(&queries)?,
            queries,
            timing: self.timing.timing(),
            warm_up: Duration::from_secs_f64(self.timing.warm_up),
            timeout: Duration::from_millis(self.timeout_ms),
            interval: Duration::from_secs_f64(self.interval),
            cpus: self.cpus.clone(),
        })
    }

    /// Enough to share the cost of a system call, few enough not to pile up at one thread of a server that spreads its clients
    /// by address and port.
    fn bunch(&self) -> usize {
        let usual = self.timing.outstanding.map_or(8, |outstanding| (outstanding as usize / 8).clamp(1, MAX_BUNCH));
        self.bunch.map_or(usual, usize::from)
    }

    fn tls(&self) -> Result<Option<Tls>, Failure> {
        match (self.transport, self.tcp_share) {
            (Some(Line::Tls), None) => self.trust.tls(self.target.server, self.resume, Purpose::Queries).map(Some),
            (Some(Line::Tls), Some(_)) => Err(Failure::Input("--tcp-share is of TCP and UDP, not of TLS".into())),
            _ if self.resume => Err(Failure::Input("--resume needs --transport tls".into())),
            _ => self.trust.needs_tls().map(|()| None),
        }
    }

    fn verifier(&self, queries: &Queries) -> Result<Verifier, Failure> {
        if let Some(path) = &self.expect {
            let text = read(path)?;
            let text = std::str::from_utf8(&text).map_err(Failure::input(path.display()))?;
            return Verifier::from_text(text, queries).map_err(Failure::input(path.display()));
        }
        let timeout = Duration::from_millis(self.timeout_ms);
        match self.verify {
            Some(server) => Verifier::from_server(server, self.tsig.key.clone(), queries, timeout)
                .map_err(Failure::system("--verify")),
            None => Ok(Verifier::Question),
        }
    }
}

impl TimingArguments {
    fn arrivals(&self) -> Arrivals {
        match self.arrivals {
            Spread::Constant => Arrivals::Constant,
            Spread::Poisson => Arrivals::Poisson(self.arrivals_seed),
        }
    }

    fn timing(&self) -> Timing {
        let arrivals = self.arrivals();
        if let Some(speed) = self.speed {
            return Timing::Trace { speed };
        }
        match (self.outstanding, &self.steps, self.rate, self.ramp_to) {
            (Some(outstanding), ..) => Timing::Closed { outstanding: outstanding as usize, seconds: self.seconds },
            (None, Some(rates), ..) => Timing::Rate(Profile::steps(rates, self.seconds), arrivals),
            (None, None, rate, Some(to)) => {
                Timing::Rate(Profile::ramp(rate.unwrap_or_default(), to, self.seconds), arrivals)
            }
            (None, None, rate, None) => Timing::Rate(Profile::flat(rate.unwrap_or_default(), self.seconds), arrivals),
        }
    }
}
