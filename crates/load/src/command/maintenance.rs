//! `zonda-load notify` and `zonda-load update`: what changes zones, at a rate.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::Args;
use wire::Name;

use super::input::read;
use super::number::{rate, seconds};
use super::security::Tsig;
use super::target::Target;
use super::{Failure, Verdict, query};
use crate::plan::{Arrivals, Profile};
use crate::queries::{Queries, maintenance};
use crate::run::{Job, Timing, Transport};
use crate::verify::Verifier;

/// Pairs of updates after which they begin again: what the first added was deleted long ago.
const MAX_PAIRS: f64 = 10_000.0;

/// Arguments of `zonda-load notify`.
#[derive(Debug, Args)]
pub struct NotifyArguments {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    tsig: Tsig,
    /// The zones, a name a line
    #[arg(long, value_name = "FILE")]
    zones: PathBuf,
    /// Messages a second
    #[arg(long, value_parser = rate)]
    rate: f64,
    /// How long to send; without it each zone is told once
    #[arg(long, value_parser = seconds)]
    seconds: Option<f64>,
}

/// Arguments of `zonda-load update`.
#[derive(Debug, Args)]
pub struct UpdateArguments {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    tsig: Tsig,
    /// The zone to update
    #[arg(long, value_name = "NAME")]
    zone: Name,
    /// Messages a second
    #[arg(long, value_parser = rate)]
    rate: f64,
    /// How long to send
    #[arg(long, default_value_t = 10.0, value_parser = seconds)]
    seconds: f64,
}

/// Runs `zonda-load notify`.
pub fn notify(arguments: &NotifyArguments, stop: &AtomicBool) -> Result<Verdict, Failure> {
    let zones = zone_names(&arguments.zones)?;
    let queries = maintenance::notifies(zones.iter().map(Name::as_ref)).map_err(Failure::input("--zones"))?;
    let seconds = arguments.seconds.unwrap_or(zones.len() as f64 / arguments.rate);
    run(&arguments.target, &arguments.tsig, queries, arguments.rate, seconds, stop)
}

/// Runs `zonda-load update`.
pub fn update(arguments: &UpdateArguments, stop: &AtomicBool) -> Result<Verdict, Failure> {
    let pairs = (arguments.rate * arguments.seconds / 2.0).ceil().clamp(1.0, MAX_PAIRS) as u32;
    let queries = maintenance::updates(arguments.zone.as_ref(), pairs).map_err(Failure::input("--zone"))?;
    run(&arguments.target, &arguments.tsig, queries, arguments.rate, arguments.seconds, stop)
}

fn run(
    target: &Target,
    tsig: &Tsig,
    queries: Queries,
    rate: f64,
    seconds: f64,
    stop: &AtomicBool,
) -> Result<Verdict, Failure> {
    let job = Job {
        server: target.address(),
        transport: Transport::Udp,
        tcp_share: 0.0,
        // Updates of one client arrive in their order.
        connections: 1,
        queries_per_connection: 0,
        sources: target.sources()?,
        bunch: 8,
        tls: None,
        key: tsig.key.clone(),
        queries: Arc::new(queries),
        verifier: Verifier::Question,
        timing: Timing::Rate(Profile::flat(rate, seconds), Arrivals::Constant),
        warm_up: Duration::ZERO,
        timeout: Duration::from_secs(1),
        interval: Duration::from_secs(1),
        cpus: Vec::new(),
    };
    query::run_job(&job, stop)
}

/// The names of a file, one a line; there is at least one.
pub fn zone_names(path: &Path) -> Result<Vec<Name>, Failure> {
    let text = read(path)?;
    let text = std::str::from_utf8(&text).map_err(Failure::input(path.display()))?;
    let names = text.split_whitespace().map(|word| {
        word.parse().map_err(|error| Failure::Input(format!("{}: name `{word}`: {error}", path.display())))
    });
    match names.collect::<Result<Vec<_>, _>>()? {
        names if names.is_empty() => Err(Failure::Input(format!("{}: no names", path.display()))),
        names => Ok(names),
    }
}
