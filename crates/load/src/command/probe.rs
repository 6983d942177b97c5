//! `zonda-load probe`: when the wanted answers arrive.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::Args;
use netio::clock;
use serde_json::json;
use wire::{Class, Rtype};

use super::input::read_queries;
use super::maintenance::zone_names;
use super::number::{rate, seconds};
use super::{CommandError, Validity, conclude};
use crate::metrics::LatencyHistogram;
use crate::probe::{ProbeConfig, ProbeLimits, Prober, Progress, WantedAnswer};
use crate::queries::{Queries, QueryEncoder, QueryTemplate};
use crate::report::{ReportHeader, Reporter, encode_histogram, fields, quantiles};

/// Arguments of `zonda-load probe`.
#[derive(Debug, Args)]
pub struct ProbeArguments {
    /// Address of the server
    #[arg(long, value_name = "ADDRESS")]
    server: IpAddr,
    /// Its port
    #[arg(long, default_value_t = 53)]
    port: u16,
    /// File with zone names, one per line, whose SOA records are asked for
    #[arg(long, value_name = "FILE", required_unless_present = "queries")]
    zones: Option<PathBuf>,
    /// Query file: a line for each question, `name type`
    #[arg(long, value_name = "FILE", conflicts_with = "zones")]
    queries: Option<PathBuf>,
    /// Wait for SOA records with this serial or a later one, instead of any answer
    #[arg(long, value_name = "N")]
    serial: Option<u32>,
    /// Give up after this time
    #[arg(long, default_value_t = 60.0, value_parser = seconds)]
    seconds: f64,
    /// Ask a question again this long after a response without the answer
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 500)]
    interval_us: u32,
    /// Ask a question without a response again after this time at the latest, after 2 ms first
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    timeout_ms: u32,
    /// Maximum number of queries per second without the wanted answer, so that the server has time for other work
    #[arg(long, value_parser = rate, default_value_t = 200_000.0)]
    rate: f64,
    /// Maximum number of outstanding queries
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u16).range(1..))]
    outstanding: u16,
    /// Write each arrival to this file, a line for each: seconds, question
    #[arg(long, value_name = "FILE")]
    arrivals: Option<PathBuf>,
}

pub fn run(arguments: &ProbeArguments, stop: &AtomicBool) -> Result<Validity, CommandError> {
    let queries = arguments.questions()?;
    let arrivals = arguments.arrivals.as_deref().map(create).transpose()?;
    let prober = Prober::open(ProbeConfig {
        server: SocketAddr::new(arguments.server, arguments.port),
        queries: queries.clone(),
        wanted: arguments.serial.map_or(WantedAnswer::Any, WantedAnswer::Serial),
        limits: ProbeLimits {
            outstanding: arguments.outstanding,
            interval_ns: u64::from(arguments.interval_us) * 1000,
            timeout_ns: u64::from(arguments.timeout_ms) * 1_000_000,
            spacing_ns: (1e9 / arguments.rate) as u64,
        },
        patience: Duration::from_secs_f64(arguments.seconds),
    });
    let prober = prober.map_err(CommandError::system("opening sockets"))?;
    let reporter = Reporter::new(ReportHeader::closed("udp"));
    reporter.event("probing", &format!("asking {} questions", queries.len()), json!({"questions": queries.len()}));
    let since = clock::real();
    let (progress, counters) = prober.run(stop).map_err(CommandError::system("probing"))?;
    if let (Some(mut out), Some(path)) = (arrivals, &arguments.arrivals) {
        let written = write_arrivals(&mut out, &progress, &queries);
        written.map_err(CommandError::system(format!("writing {}", path.display())))?;
    }
    let missing = progress.iter().filter(|progress| progress.arrived_at_ns.is_none()).count();
    let mut invalid_because = Vec::new();
    if missing > 0 {
        invalid_because.push(format!("{missing} of {} answers did not arrive", queries.len()));
    }
    let (times, uncertainties) =
        (histogram(&progress, |p| p.arrived_at_ns), histogram(&progress, Progress::uncertainty_ns));
    let mut figures = fields(&counters);
    figures["questions"] = json!(queries.len());
    figures["missing"] = json!(missing);
    figures["arrival"] = quantiles(&times);
    figures["arrival"]["min"] = json!(times.min());
    figures["arrivals"] = encode_histogram(&times);
    figures["uncertainty"] = quantiles(&uncertainties);
    figures["invalid_because"] = json!(invalid_because);
    conclude(reporter.write_figures(since, clock::real(), figures), &invalid_because)
}

impl ProbeArguments {
    fn questions(&self) -> Result<Queries, CommandError> {
        if let Some(path) = &self.queries {
            return read_queries(path);
        }
        let template = QueryTemplate::default();
        let mut encoder = QueryEncoder::new(&template);
        if let Some(path) = &self.zones {
            zone_names(path)?.iter().for_each(|name| encoder.push(name.as_ref(), Rtype::SOA, Class::IN));
        }
        Ok(encoder.finish())
    }
}

fn create(path: &Path) -> Result<BufWriter<File>, CommandError> {
    let created = File::create(path).map_err(CommandError::system(format!("writing {}", path.display())))?;
    Ok(BufWriter::new(created))
}

/// Writes the arrivals in the order of their times.
fn write_arrivals(out: &mut impl Write, progress: &[Progress], queries: &Queries) -> io::Result<()> {
    let arrived = progress.iter().zip(0..).filter_map(|(progress, number)| Some((progress.arrived_at_ns?, number)));
    let mut arrived: Vec<(u64, u32)> = arrived.collect();
    arrived.sort_unstable();
    for (time_ns, number) in arrived {
        writeln!(out, "{:.6} {}", time_ns as f64 / 1e9, queries.describe(number))?;
    }
    out.flush()
}

fn histogram(progress: &[Progress], value: impl Fn(&Progress) -> Option<u64>) -> LatencyHistogram {
    let mut histogram = LatencyHistogram::default();
    progress.iter().filter_map(value).for_each(|time_ns| histogram.saturating_record(time_ns.max(1)));
    histogram
}
