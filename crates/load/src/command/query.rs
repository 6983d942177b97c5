//! `zonda-load query`: queries on a schedule, or as a closed loop.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::{Args, ValueEnum};
use netio::map::Contents;
use serde_json::Map;

use super::target::Target;
use super::{Failure, Verdict};
use crate::plan::{Arrivals, Profile};
use crate::queries::{Dress, Queries, file};
use crate::report::Reporter;
use crate::run::{Job, Timing, Transport};
use crate::verify::Verifier;

/// Arguments of `zonda-load query`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    target: Target,
    /// How queries travel
    #[arg(long, value_enum, default_value_t = Line::Udp)]
    transport: Line,
    /// The share of queries that go over TCP, the others going over UDP
    #[arg(long, value_name = "SHARE", value_parser = share)]
    tcp_share: Option<f64>,
    /// UDP sockets, or TCP connections that are open at a time
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    connections: u32,
    /// Close a TCP connection after so many queries; 0: never
    #[arg(long, default_value_t = 0, value_name = "N")]
    queries_per_connection: u32,
    /// Let neighbours of the same length leave in one piece (UDP_SEGMENT)
    #[arg(long)]
    segmented: bool,
    /// Processors that threads stay on, one each
    #[arg(long, value_delimiter = ',', value_name = "N,N")]
    cpus: Vec<usize>,
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    timing: TimingArguments,
    /// Expected answers, a line for each query: `RCODE answer|referral|nodata|nxdomain`
    #[arg(long, value_name = "FILE", conflicts_with = "verify")]
    expect: Option<PathBuf>,
    /// A second server that is asked every query once before the run; its answers are the right ones
    #[arg(long, value_name = "ADDRESS:PORT")]
    verify: Option<std::net::SocketAddr>,
    /// How long an answer may take
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    timeout_ms: u64,
    /// Seconds between intermediate results
    #[arg(long, default_value_t = 1.0, value_parser = positive, value_name = "SECONDS")]
    interval: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Line {
    Udp,
    Tcp,
}

/// What is asked.
#[derive(Debug, Args)]
struct Input {
    /// Queries, a line each: `name type` or `query NAME CLASS TYPE`
    #[arg(long, value_name = "FILE")]
    queries: PathBuf,
    /// Ask with EDNS and this payload size
    #[arg(long, value_name = "OCTETS")]
    edns: Option<u16>,
    /// The share of queries with DO
    #[arg(long = "do", value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    dnssec_ok: f64,
    /// Ask for recursion
    #[arg(long)]
    recursion: bool,
    /// Where everything random begins
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// When it is asked.
#[derive(Debug, Args)]
struct TimingArguments {
    /// Queries a second: an open loop, whatever is answered
    #[arg(long, value_parser = positive, required_unless_present_any = ["outstanding", "steps"])]
    rate: Option<f64>,
    /// Go from --rate to this rate in a line
    #[arg(long, value_parser = positive, value_name = "RATE", requires = "rate")]
    ramp_to: Option<f64>,
    /// One rate after the other, each for --seconds
    #[arg(long, value_delimiter = ',', value_name = "RATE,RATE", value_parser = positive, conflicts_with = "rate")]
    steps: Option<Vec<f64>>,
    /// How queries are spread in time
    #[arg(long, value_enum, default_value_t = Spread::Constant)]
    arrivals: Spread,
    /// Keep so many queries in flight instead: a closed loop
    #[arg(long, value_name = "N", conflicts_with_all = ["rate", "steps"])]
    outstanding: Option<usize>,
    /// How long to send
    #[arg(long, default_value_t = 10.0, value_parser = positive)]
    seconds: f64,
    /// Seconds before that in which nothing is measured
    #[arg(long, default_value_t = 0.0, value_name = "SECONDS", value_parser = not_negative)]
    warm_up: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Spread {
    Constant,
    Poisson,
}

/// Runs the command.
pub fn run(arguments: &Arguments, stop: &AtomicBool) -> Result<Verdict, Failure> {
    let job = arguments.job()?;
    let loop_kind = if matches!(job.timing, Timing::Closed { .. }) { "closed" } else { "open" };
    let mut reporter = Reporter::new(loop_kind, transport_name(job.transport));
    let outcome = job.run(stop, |interval| reporter.periodic(interval)).map_err(Failure::system("sending queries"))?;
    reporter.sum(&outcome, Map::new());
    Ok(verdict(&outcome.measure.invalid_because()))
}

/// Says on standard error why a run is not valid, if so.
pub fn verdict(invalid_because: &[String]) -> Verdict {
    for reason in invalid_because {
        eprintln!("zonda-load: invalid because {reason}");
    }
    if invalid_because.is_empty() { Verdict::Valid } else { Verdict::Invalid }
}

fn transport_name(transport: Transport) -> &'static str {
    match transport {
        Transport::Udp => "udp",
        Transport::Tcp => "tcp",
        Transport::Mixed => "mixed",
    }
}

impl Arguments {
    fn job(&self) -> Result<Job, Failure> {
        let queries = Arc::new(self.input.queries()?);
        let transport = match (self.tcp_share, self.transport) {
            (Some(_), _) => Transport::Mixed,
            (None, Line::Udp) => Transport::Udp,
            (None, Line::Tcp) => Transport::Tcp,
        };
        Ok(Job {
            server: self.target.address(),
            transport,
            tcp_share: self.tcp_share.unwrap_or_default(),
            connections: self.connections as usize,
            queries_per_connection: self.queries_per_connection,
            sources: self.target.sources()?,
            segmented: self.segmented,
            verifier: self.verifier(&queries)?,
            queries,
            timing: self.timing.timing(self.input.seed),
            warm_up: Duration::from_secs_f64(self.timing.warm_up),
            timeout: Duration::from_millis(self.timeout_ms),
            interval: Duration::from_secs_f64(self.interval),
            cpus: self.cpus.clone(),
        })
    }

    fn verifier(&self, queries: &Queries) -> Result<Verifier, Failure> {
        if let Some(path) = &self.expect {
            let text = read(path)?;
            let text = std::str::from_utf8(&text).map_err(Failure::input(path.display()))?;
            return Verifier::from_text(text, queries).map_err(Failure::input(path.display()));
        }
        let timeout = Duration::from_millis(self.timeout_ms);
        match self.verify {
            Some(server) => Verifier::from_server(server, queries, timeout).map_err(Failure::system("--verify")),
            None => Ok(Verifier::Question),
        }
    }
}

impl Input {
    fn queries(&self) -> Result<Queries, Failure> {
        let dress =
            Dress { edns: self.edns, dnssec_ok: self.dnssec_ok, recursion_desired: self.recursion, seed: self.seed };
        let queries = file::read(&read(&self.queries)?, &dress).map_err(Failure::input(self.queries.display()))?;
        if queries.is_empty() {
            return Err(Failure::Input(format!("{}: no queries", self.queries.display())));
        }
        Ok(queries)
    }
}

impl TimingArguments {
    fn timing(&self, seed: u64) -> Timing {
        let arrivals = match self.arrivals {
            Spread::Constant => Arrivals::Constant,
            Spread::Poisson => Arrivals::Poisson(seed),
        };
        match (self.outstanding, &self.steps, self.rate, self.ramp_to) {
            (Some(outstanding), ..) => Timing::Closed { outstanding, seconds: self.seconds },
            (None, Some(rates), ..) => Timing::Rate(Profile::steps(rates, self.seconds), arrivals),
            (None, None, rate, Some(to)) => {
                Timing::Rate(Profile::ramp(rate.unwrap_or_default(), to, self.seconds), arrivals)
            }
            (None, None, rate, None) => Timing::Rate(Profile::flat(rate.unwrap_or_default(), self.seconds), arrivals),
        }
    }
}

fn read(path: &Path) -> Result<Contents, Failure> {
    Contents::open(path).map_err(Failure::input(path.display()))
}

/// A number from 0 to 1.
pub fn share(text: &str) -> Result<f64, String> {
    number(text, |number| (0.0..=1.0).contains(&number), "a number from 0 to 1")
}

/// A number above 0.
pub fn positive(text: &str) -> Result<f64, String> {
    number(text, |number| number > 0.0 && number.is_finite(), "a number above 0")
}

/// A number from 0 up.
pub fn not_negative(text: &str) -> Result<f64, String> {
    number(text, |number| number >= 0.0 && number.is_finite(), "a number from 0 up")
}

fn number(text: &str, is_allowed: impl Fn(f64) -> bool, wanted: &str) -> Result<f64, String> {
    text.parse().ok().filter(|&number| is_allowed(number)).ok_or_else(|| format!("{wanted} is wanted"))
}
