//! `zonda-load sample`: a query file for zones, and the expected answers.

use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;

use super::input::{MixArguments, read, zone_list, zone_source};
use super::{CommandError, Validity};
use crate::queries::zone::sample;

/// Arguments of `zonda-load sample`.
#[derive(Debug, Args)]
pub struct SampleArguments {
    /// File with the zones, one per line: `name path`; names that do not exist must not match a wildcard at an apex
    #[arg(long, value_name = "FILE")]
    zones: PathBuf,
    /// Query file to write, for --queries
    #[arg(long, value_name = "FILE")]
    queries: PathBuf,
    /// File of expected answers to write, for --expect
    #[arg(long, value_name = "FILE")]
    expect: PathBuf,
    #[command(flatten)]
    mix: MixArguments,
    /// Seed of the random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub fn run(arguments: &SampleArguments) -> Result<Validity, CommandError> {
    let zones = zone_list(&arguments.zones)?;
    let contents = zones.iter().map(|(_, file)| read(file)).collect::<Result<Vec<_>, _>>()?;
    let sources = zones.iter().zip(&contents).map(|((apex, file), bytes)| (zone_source(file, bytes), apex));
    let (mut queries, mut expected) = (String::new(), String::new());
    sample(sources, &arguments.mix.mix(arguments.seed), |name, rtype, answer| {
        writeln!(queries, "{name} {rtype}").expect("a string grows");
        writeln!(expected, "{answer}").expect("a string grows");
    })
    .map_err(|error| CommandError::Input(error.to_string()))?;
    for (path, text) in [(&arguments.queries, queries), (&arguments.expect, expected)] {
        std::fs::write(path, text).map_err(CommandError::system(format!("writing {}", path.display())))?;
    }
    Ok(Validity::Valid)
}
