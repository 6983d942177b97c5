//! `zonda-load notify` and `zonda-load update`: NOTIFY and UPDATE messages at a rate.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Args;
use wire::Name;

use super::input::read_text;
use super::number::{rate, seconds};
use super::target::Target;
use super::tls_tsig::TsigArguments;
use super::{CommandError, Validity, query};
use crate::job::{Job, Timing};
use crate::queries::{Queries, maintenance};
use crate::schedule::{ArrivalProcess, RateProfile};

/// After this many pairs, updates repeat: the first record was deleted long before.
const MAX_PAIRS: f64 = 10_000.0;

/// Arguments of `zonda-load notify`.
#[derive(Debug, Args)]
pub struct NotifyArguments {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    tsig: TsigArguments,
    /// File with the zone names, one per line
    #[arg(long, value_name = "FILE")]
    zones: PathBuf,
    /// Messages per second
    #[arg(long, value_parser = rate)]
    rate: f64,
    /// Duration [default: until each zone has had one NOTIFY]
    #[arg(long, value_parser = seconds)]
    seconds: Option<f64>,
}

/// Arguments of `zonda-load update`.
#[derive(Debug, Args)]
pub struct UpdateArguments {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    tsig: TsigArguments,
    /// The zone to update
    #[arg(long, value_name = "NAME")]
    zone: Name,
    /// Messages per second
    #[arg(long, value_parser = rate)]
    rate: f64,
    /// Duration
    #[arg(long, default_value_t = 10.0, value_parser = seconds)]
    seconds: f64,
}

pub fn notify(arguments: &NotifyArguments, stop: &AtomicBool) -> Result<Validity, CommandError> {
    let zones = zone_names(&arguments.zones)?;
    let queries = maintenance::notifies(zones.iter().map(Name::as_ref)).map_err(CommandError::input("--zones"))?;
    let seconds = arguments.seconds.unwrap_or(zones.len() as f64 / arguments.rate);
    run(&arguments.target, &arguments.tsig, queries, arguments.rate, seconds, stop)
}

pub fn update(arguments: &UpdateArguments, stop: &AtomicBool) -> Result<Validity, CommandError> {
    let pairs = (arguments.rate * arguments.seconds / 2.0).ceil().clamp(1.0, MAX_PAIRS) as u32;
    let queries = maintenance::updates(arguments.zone.as_ref(), pairs).map_err(CommandError::input("--zone"))?;
    run(&arguments.target, &arguments.tsig, queries, arguments.rate, arguments.seconds, stop)
}

fn run(
    target: &Target,
    tsig: &TsigArguments,
    queries: Queries,
    rate: f64,
    seconds: f64,
    stop: &AtomicBool,
) -> Result<Validity, CommandError> {
    let timing = Timing::Rate(RateProfile::flat(rate, seconds), ArrivalProcess::Constant);
    let job = Job {
        sources: target.sources()?,
        key: tsig.key.clone(),
        // One socket, so that updates arrive in order.
        ..Job::new(target.address(), Arc::new(queries), timing)
    };
    query::run_job(&job, stop)
}

/// The zone names of a file, one per line; at least one.
pub fn zone_names(path: &Path) -> Result<Vec<Name>, CommandError> {
    let text = read_text(path)?;
    let names = text.split_whitespace().map(|word| {
        word.parse().map_err(|error| CommandError::Input(format!("{}: name `{word}`: {error}", path.display())))
    });
    match names.collect::<Result<Vec<_>, _>>()? {
        names if names.is_empty() => Err(CommandError::without(path, "names")),
        names => Ok(names),
    }
}
