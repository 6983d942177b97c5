//! `zonda-load query`: queries in an open or a closed loop.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::json;

use super::descriptors::require_descriptors;
use super::input::{Input, expectations};
use super::number::{MAX_SECONDS, interval, positive, rate, seconds, seconds_or_none, share};
use super::peak::{PeakArguments, find_peaks};
use super::target::Target;
use super::tls_tsig::{TlsClientArguments, TsigArguments};
use super::{CommandError, Validity, conclude};
use crate::job::{Job, MAX_BURST_LEN, Timing, Transport};
use crate::queries::Queries;
use crate::report::{ReportHeader, Reporter};
use crate::schedule::{ArrivalProcess, RateProfile};
use crate::tls::{Purpose, TlsConfig};
use crate::verify::ResponseChecker;

/// Arguments of `zonda-load query`.
#[derive(Debug, Args)]
pub struct QueryArguments {
    #[command(flatten)]
    target: Target,
    /// Transport [default: udp; for a capture, that of each query]
    #[arg(long, value_enum)]
    transport: Option<QueryTransport>,
    /// Share of queries over TCP; the others go over UDP
    #[arg(long, value_name = "SHARE", value_parser = share)]
    tcp_share: Option<f64>,
    /// Mix of transports with weights, like udp=80,tcp=15,tls=5; each has --connections sockets or connections
    #[arg(long, value_delimiter = ',', value_name = "TRANSPORT=WEIGHT", value_parser = sender,
        conflicts_with_all = ["transport", "tcp_share", "speed"])]
    senders: Vec<(QueryTransport, f64)>,
    /// Port for TLS of a mix
    #[arg(long, value_name = "PORT", default_value_t = 853, requires = "senders")]
    tls_port: u16,
    /// Close a connection after this time without outstanding queries; captured clients then have a connection each, instead of
    /// the captured ones
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    idle_timeout: Option<f64>,
    /// With --speed: send each query from its client's port, over UDP and on captured TCP connections; needs a descriptor for each port
    #[arg(long, requires = "speed")]
    client_ports: bool,
    /// Number of UDP sockets, or of concurrent connections
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    connections: u32,
    /// Close a connection after this many queries; 0: never
    #[arg(long, default_value_t = 0, value_name = "N")]
    queries_per_connection: u32,
    /// Send the first query of a TCP connection, or the TLS ClientHello, with the SYN once the server has given a cookie (TCP fast open, RFC
    /// 7413); times of handshakes then end before the SYN is sent
    #[arg(long)]
    fast_open: bool,
    /// Send up to this many UDP queries as the segments of one send (UDP_SEGMENT), which also changes what the server
    /// receives; 1: every query is a datagram of its own
    #[arg(long = "burst", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=MAX_BURST_LEN as i64))]
    burst_len: u8,
    /// Sort every 1024 consecutive queries by length, for longer bursts; without it, they keep the order of the file
    #[arg(long)]
    sort_by_length: bool,
    /// Resume TLS sessions; without it, every connection makes a full handshake
    #[arg(long)]
    resume: bool,
    #[command(flatten)]
    tls: TlsClientArguments,
    #[command(flatten)]
    tsig: TsigArguments,
    /// Processors to pin sender threads to, one each
    #[arg(long, value_delimiter = ',', value_name = "N,N")]
    cpus: Vec<usize>,
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    timing: TimingArguments,
    #[command(flatten)]
    peak: PeakArguments,
    /// File of expected responses, a line for each query: `RCODE answer|referral|nodata|nxdomain`
    #[arg(long, value_name = "FILE", conflicts_with = "verify")]
    expect: Option<PathBuf>,
    /// Reference server: responses must equal its responses, which are fetched before the run (signed with --tsig)
    #[arg(long, value_name = "ADDRESS:PORT")]
    verify: Option<std::net::SocketAddr>,
    /// End latencies over UDP when the kernel received the response, not when the generator read it
    #[arg(long)]
    kernel_timestamps: bool,
    /// Report latencies by query type and RCODE too
    #[arg(long)]
    breakdown: bool,
    /// Time-out of a query
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    timeout_ms: u64,
    /// Reporting interval
    #[arg(long, default_value_t = 1.0, value_parser = interval, value_name = "SECONDS")]
    interval: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum QueryTransport {
    Udp,
    Tcp,
    Tls,
}

fn sender(text: &str) -> Result<(QueryTransport, f64), String> {
    let (transport, weight) = text.split_once('=').ok_or("not of the form TRANSPORT=WEIGHT")?;
    Ok((QueryTransport::from_str(transport, false)?, positive(weight)?))
}

/// When queries are sent.
#[derive(Debug, Args)]
struct TimingArguments {
    /// Open loop: queries per second
    #[arg(long, value_parser = rate, required_unless_present_any = ["outstanding", "steps", "speed", "find_peak"])]
    rate: Option<f64>,
    /// Open loop: change the rate linearly from --rate to this
    #[arg(long, value_parser = rate, value_name = "RATE", requires = "rate")]
    ramp_to: Option<f64>,
    /// Open loop: one rate after another, each for --seconds
    #[arg(long, value_delimiter = ',', value_name = "RATE,RATE", value_parser = rate, conflicts_with = "rate")]
    steps: Option<Vec<f64>>,
    /// Distribution of the times between queries
    #[arg(long, value_enum, default_value_t = Arrivals::Constant)]
    arrivals: Arrivals,
    /// Seed of --arrivals poisson
    #[arg(long, default_value_t = 1, value_name = "SEED")]
    arrivals_seed: u64,
    /// Closed loop: number of outstanding queries
    #[arg(long, value_name = "N", conflicts_with_all = ["rate", "steps"],
        value_parser = clap::value_parser!(u32).range(1..))]
    outstanding: Option<u32>,
    /// Open loop: send captured queries at their times, faster by this factor
    #[arg(long, value_parser = positive, conflicts_with_all = ["rate", "steps", "outstanding"], requires = "pcap")]
    speed: Option<f64>,
    /// Duration without the warm-up; with --steps and --find-peak, of each step or trial [default: 10; none with --passes]
    #[arg(long, value_parser = seconds)]
    seconds: Option<f64>,
    /// End after sending all queries this many times
    #[arg(short = 'n', long, value_name = "N", conflicts_with_all = ["speed", "steps", "ramp_to", "find_peak", "warm_up"],
        value_parser = clap::value_parser!(u64).range(1..))]
    passes: Option<u64>,
    /// Warm-up, in which queries are sent but not counted
    #[arg(long, default_value_t = 0.0, value_name = "SECONDS", value_parser = seconds_or_none)]
    warm_up: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Arrivals {
    Constant,
    Poisson,
}

pub fn run(arguments: &QueryArguments, stop: &AtomicBool) -> Result<Validity, CommandError> {
    let job = arguments.job()?;
    let timing = &arguments.timing;
    match arguments.peak.search(timing.rate.unwrap_or(1000.0)) {
        Some(search) => find_peaks(&job, &search, timing.seconds(), timing.arrivals(), stop),
        None => run_job(&job, stop),
    }
}

/// Runs a job and reports it.
pub fn run_job(job: &Job, stop: &AtomicBool) -> Result<Validity, CommandError> {
    let mut reporter = Reporter::new(ReportHeader::of(job));
    let result =
        job.run(stop, |interval| reporter.write_interval(interval)).map_err(CommandError::system("sending queries"))?;
    conclude(reporter.write_sum(&result, json!({})), &result.metrics.invalid_because())
}

impl QueryArguments {
    fn job(&self) -> Result<Job, CommandError> {
        let queries = Arc::new(self.input.queries()?);
        self.check_ports(&queries)?;
        let [tcp_share, tls_share] = self.connection_shares();
        let transport = match (self.tcp_share, self.transport) {
            _ if !self.senders.is_empty() => Transport::Mixed,
            (Some(_), _) => Transport::Mixed,
            (None, None) if !queries.origins().is_empty() => Transport::Mixed,
            (None, None | Some(QueryTransport::Udp)) => Transport::Udp,
            (None, Some(QueryTransport::Tcp | QueryTransport::Tls)) => Transport::Tcp,
        };
        if self.fast_open && transport == Transport::Udp {
            return Err(CommandError::Input("--fast-open is for TCP and TLS".into()));
        }
        Ok(Job {
            server: self.target.address(),
            transport,
            tcp_share,
            tls_share,
            tls_port: self.tls_port,
            idle_timeout: self.idle_timeout.map(Duration::from_secs_f64),
            keep_ports: self.client_ports,
            connections: self.connections as usize,
            queries_per_connection: self.queries_per_connection,
            fast_open: self.fast_open,
            sources: self.target.sources()?,
            burst_len: self.burst_len.into(),
            sort_by_length: self.sort_by_length,
            tls: self.tls()?,
            key: self.tsig.key.clone(),
            checker: self.checker(&queries)?,
            max_queries: self.timing.passes.map_or(u64::MAX, |passes| passes.saturating_mul(queries.len() as u64)),
            queries,
            timing: self.timing.timing(),
            warm_up: Duration::from_secs_f64(self.timing.warm_up),
            timeout: Duration::from_millis(self.timeout_ms),
            interval: Duration::from_secs_f64(self.interval),
            kernel_timestamps: self.kernel_timestamps,
            breakdown: self.breakdown,
            cpus: self.cpus.clone(),
        })
    }

    /// An error if `--client-ports` needs more descriptors than there may be, or several threads.
    fn check_ports(&self, queries: &Queries) -> Result<(), CommandError> {
        if !self.client_ports {
            return Ok(());
        }
        if self.cpus.len() > 1 {
            return Err(CommandError::Input(
                "--client-ports needs one thread: name at most one processor in --cpus".into(),
            ));
        }
        let ports: HashSet<u16> = queries.origins().iter().map(|origin| origin.port).collect();
        let (ports, connections) = (ports.len(), queries.connections().len());
        let what = format!("--client-ports: the capture has {ports} client ports and {connections} connections, but");
        require_descriptors((ports + connections) as u64, what, "")
    }

    /// The shares of TCP and TLS in a mix.
    fn connection_shares(&self) -> [f64; 2] {
        let weight = |transport| {
            let weights = self.senders.iter().filter(|(sender, _)| *sender == transport);
            weights.map(|(_, weight)| weight).sum::<f64>()
        };
        let total = weight(QueryTransport::Udp) + weight(QueryTransport::Tcp) + weight(QueryTransport::Tls);
        match self.senders.is_empty() {
            true => [self.tcp_share.unwrap_or_default(), 0.0],
            false => [weight(QueryTransport::Tcp) / total, weight(QueryTransport::Tls) / total],
        }
    }

    fn tls(&self) -> Result<Option<TlsConfig>, CommandError> {
        match (self.transport, self.tcp_share) {
            _ if self.connection_shares()[1] > 0.0 => {
                self.tls.config(self.target.server, self.resume, Purpose::Queries).map(Some)
            }
            (Some(QueryTransport::Tls), None) => {
                self.tls.config(self.target.server, self.resume, Purpose::Queries).map(Some)
            }
            (Some(QueryTransport::Tls), Some(_)) => {
                Err(CommandError::Input("--tcp-share is for TCP and UDP, not for TLS".into()))
            }
            _ if self.resume => Err(CommandError::Input("--resume needs --transport tls, or tls in --senders".into())),
            _ => self.tls.reject_without_tls().map(|()| None),
        }
    }

    fn checker(&self, queries: &Queries) -> Result<ResponseChecker, CommandError> {
        if let Some(path) = &self.expect {
            return expectations(path, queries);
        }
        let timeout = Duration::from_millis(self.timeout_ms);
        match self.verify {
            Some(server) => ResponseChecker::from_server(server, self.tsig.key.clone(), queries, timeout)
                .map_err(CommandError::system("--verify")),
            None => Ok(ResponseChecker::Question),
        }
    }
}

impl TimingArguments {
    fn arrivals(&self) -> ArrivalProcess {
        match self.arrivals {
            Arrivals::Constant => ArrivalProcess::Constant,
            Arrivals::Poisson => ArrivalProcess::Poisson(self.arrivals_seed),
        }
    }

    fn seconds(&self) -> f64 {
        self.seconds.unwrap_or(if self.passes.is_some() { MAX_SECONDS } else { 10.0 })
    }

    fn timing(&self) -> Timing {
        let (rate, seconds) = (self.rate.unwrap_or_default(), self.seconds());
        match (self.speed, self.outstanding, &self.steps) {
            (Some(speed), ..) => Timing::Trace { speed },
            (_, Some(outstanding), _) => Timing::Closed { outstanding: outstanding as usize, seconds },
            (.., Some(rates)) => Timing::Rate(RateProfile::steps(rates, seconds), self.arrivals()),
            _ => Timing::Rate(RateProfile::ramp(rate, self.ramp_to.unwrap_or(rate), seconds), self.arrivals()),
        }
    }
}
