//! The command line, with a module for each command.

mod descriptors;
mod echo;
mod hold;
mod input;
mod listen;
mod maintenance;
mod number;
mod peak;
mod probe;
mod query;
mod quic;
mod sample;
mod target;
mod tls_tsig;
mod transport;
mod xfr;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use clap::{CommandFactory, Parser, Subcommand};
use netio::signal::{Signal, Signals};

use crate::report;

/// Load generator for DNS servers: open or closed loop, latency without coordinated omission, every response checked.
///
/// Writes results to standard output as JSON lines in the dns-metrics format of DNS-OARC, or to a terminal as text. Exit status: 0 the run is
/// valid, 1 a system error ended it, 2 wrong arguments or input (nothing was sent), 3 the run is invalid (see
/// `invalid_because`).
#[derive(Debug, Parser)]
#[command(name = "zonda-load", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Write JSON lines also to a terminal, which otherwise gets a summary
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Send queries, in an open or a closed loop.
    Query(Box<query::QueryArguments>),
    /// Open TCP or TLS connections at a rate and hold them.
    Hold(hold::HoldArguments),
    /// Hold connections like slow or hostile clients.
    Hostile(hold::HostileArguments),
    /// Send queries over QUIC in a closed loop, or hold idle QUIC connections.
    Quic(Box<quic::QuicArguments>),
    /// Transfer zones, as a secondary or as a primary.
    #[command(subcommand)]
    Xfr(xfr::XfrCommand),
    /// Ask many questions until each has the wanted answer, and report when it arrived.
    Probe(probe::ProbeArguments),
    /// Send NOTIFY messages for a list of zones, in turn.
    Notify(maintenance::NotifyArguments),
    /// Send dynamic updates that add and delete records.
    Update(maintenance::UpdateArguments),
    /// Answer every query with a copy of it: the limit for a server on this machine's sockets.
    Echo(echo::EchoArguments),
    /// Discard all queries except SOA: the limit of a load generator.
    Sink(echo::EchoArguments),
    /// Write a query file for zones, and the expected answers.
    Sample(sample::SampleArguments),
    /// Write a manual page for each command into a folder.
    Man {
        /// The folder.
        folder: PathBuf,
    },
}

/// Whether the results of a command are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Validity {
    Valid,
    /// The report says why.
    Invalid,
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
enum CommandError {
    /// Wrong arguments or input; nothing was sent.
    #[error("{0}")]
    Input(String),
    #[error("{what}: {error}")]
    System { what: String, error: std::io::Error },
}

impl CommandError {
    /// For `map_err`: an error of a system call.
    fn system(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> CommandError {
        let what = what.into();
        move |error| CommandError::System { what, error }
    }

    /// An input file without what it must have.
    fn without(path: &Path, what: &str) -> CommandError {
        CommandError::Input(format!("{}: no {what}", path.display()))
    }

    /// For `map_err`: an error in the input.
    fn input<E: std::fmt::Display>(what: impl std::fmt::Display) -> impl FnOnce(E) -> CommandError {
        move |error| CommandError::Input(format!("{what}: {error}"))
    }
}

/// Ends a command whose results were written; writes to standard error why they are invalid.
fn conclude(written: std::io::Result<()>, invalid_because: &[String]) -> Result<Validity, CommandError> {
    written.map_err(CommandError::system("writing results"))?;
    for reason in invalid_because {
        eprintln!("zonda-load: invalid because {reason}");
    }
    Ok(if invalid_because.is_empty() { Validity::Valid } else { Validity::Invalid })
}

/// Parses the command line and runs the command.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let stop = match stop_on_signals() {
        Ok(stop) => stop,
        Err(error) => return fail(&CommandError::System { what: "blocking signals".into(), error }),
    };
    if cli.json {
        report::write_json_to_terminals();
    }
    // If the limit cannot be raised, opening sockets fails later.
    let _ = netio::resource_limits::raise_open_files();
    let validity = match cli.command {
        Command::Query(arguments) => query::run(&arguments, &stop),
        Command::Hold(arguments) => hold::run(&arguments, &stop),
        Command::Hostile(arguments) => hold::hostile(&arguments, &stop),
        Command::Quic(arguments) => quic::run(&arguments, &stop),
        Command::Xfr(command) => xfr::run(&command, &stop),
        Command::Probe(arguments) => probe::run(&arguments, &stop),
        Command::Notify(arguments) => maintenance::notify(&arguments, &stop),
        Command::Update(arguments) => maintenance::update(&arguments, &stop),
        Command::Echo(arguments) => echo::echo(&arguments, &stop),
        Command::Sink(arguments) => echo::sink(&arguments, &stop),
        Command::Sample(arguments) => sample::run(&arguments),
        Command::Man { folder } => clap_mangen::generate_to(Cli::command(), &folder)
            .map(|()| Validity::Valid)
            .map_err(CommandError::system(folder.display().to_string())),
    };
    match validity {
        Ok(Validity::Valid) => ExitCode::SUCCESS,
        Ok(Validity::Invalid) => ExitCode::from(3),
        Err(failure) => fail(&failure),
    }
}

fn fail(failure: &CommandError) -> ExitCode {
    eprintln!("zonda-load: {failure}");
    ExitCode::from(match failure {
        CommandError::System { .. } => 1,
        CommandError::Input(_) => 2,
    })
}

/// A flag that is set by SIGTERM and SIGINT.
fn stop_on_signals() -> std::io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let (signals, flag) = (Signals::block()?, stop.clone());
    thread::spawn(move || {
        while !flag.load(Ordering::Relaxed) {
            let signal = signals.wait(Duration::from_secs(3600));
            flag.fetch_or(matches!(signal, Some(Signal::Terminate | Signal::Interrupt)), Ordering::Relaxed);
        }
    });
    Ok(stop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn commands_in_the_documents_parse() {
        let mut count = 0;
        for text in [include_str!("../../../docs/manual/zonda-load.md"), include_str!("../../../README.md")] {
            // Every second part is a code block.
            let lines = text.split("```").skip(1).step_by(2).flat_map(str::lines);
            for line in lines.map(str::trim).filter(|line| line.starts_with("zonda-load ")) {
                count += 1;
                let words = line.split('#').next().unwrap_or(line).split_whitespace();
                if let Err(error) = Cli::try_parse_from(words) {
                    panic!("{line}: {error}");
                }
            }
        }
        assert!(count >= 12, "only {count} commands were found");
    }
}
