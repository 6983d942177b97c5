//! The program `zonda`; its commands are in [`server::cli`].
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use server::cli::{Cli, Command};
use server::{command, daemon};

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Serve(arguments) => daemon::serve(&arguments),
        Command::Check(arguments) => command::check::run(&arguments),
        Command::Config(arguments) => command::config::run(&arguments),
        Command::Reload(arguments) => command::reload::run(&arguments),
        Command::Metrics(daemon) => command::metrics::run(&daemon),
        Command::Tune(arguments) => command::tune::run(&arguments),
        Command::Zone(command) => command::zone::run(&command),
        Command::Completions { shell } => command::manual::completions(shell),
        Command::Man(arguments) => command::manual::run(&arguments),
    }
}
