//! The command line: one module a command.

mod hold;
mod input;
mod maintain;
mod number;
mod query;
mod security;
mod target;
mod xfr;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use clap::{CommandFactory, Parser, Subcommand};
use netio::signal::{Signal, Signals};

/// Measures DNS servers truthfully: schedules fixed in advance, latency from the intended time of sending, checked answers.
///
/// Results are JSON lines on standard output in the form of DNS-OARC's dns-metrics. Exit status: 0 the run is valid,
/// 1 it broke off, 2 the arguments or the input are wrong and nothing was sent, 3 it is not valid (`invalid_because` says why).
#[derive(Debug, Parser)]
#[command(name = "zonda-load", version)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Send queries on a schedule, or as a closed loop.
    Query(Box<query::Arguments>),
    /// Open connections at a rate and hold them.
    Hold(hold::Arguments),
    /// Hold connections as slow and hostile clients do.
    Hostile(hold::HostileArguments),
    /// Transfer zones, as a secondary that keeps nothing or as a primary that knows only octets.
    #[command(subcommand)]
    Xfr(xfr::Arguments),
    /// Send a NOTIFY for each of many zones, round and round.
    Notify(maintain::NotifyArguments),
    /// Send dynamic updates that add and delete records of a zone.
    Update(maintain::UpdateArguments),
    /// Write the manual pages, one a command, into a folder.
    Man {
        /// The folder.
        folder: PathBuf,
    },
}

/// What a command came to, apart from errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The figures can be believed.
    Valid,
    /// They cannot; the report says why.
    Invalid,
}

/// Why a command did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The arguments or a file are wrong; nothing was sent.
    #[error("{0}")]
    Input(String),
    /// The system did not do what is needed.
    #[error("{what}: {error}")]
    System {
        /// What was being done.
        what: String,
        /// What the system said.
        error: std::io::Error,
    },
}

impl Failure {
    /// For `map_err`: what was being done when the system failed.
    pub fn system(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Failure {
        let what = what.into();
        move |error| Failure::System { what, error }
    }

    /// For `map_err`: which input is wrong.
    pub fn input<E: std::fmt::Display>(what: impl std::fmt::Display) -> impl FnOnce(E) -> Failure {
        move |error| Failure::Input(format!("{what}: {error}"))
    }
}

/// Says on standard error why a run is not valid, if so.
pub fn verdict(invalid_because: &[String]) -> Verdict {
    for reason in invalid_because {
        eprintln!("zonda-load: invalid because {reason}");
    }
    if invalid_because.is_empty() { Verdict::Valid } else { Verdict::Invalid }
}

/// Runs the program: the command line in, the exit status out.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let stop = match stop_on_signals() {
        Ok(stop) => stop,
        Err(error) => return fail(&Failure::System { what: "blocking signals".into(), error }),
    };
    // More sources and connections than the soft limit allows are asked for soon; where it cannot be raised, opening tells.
    let _ = netio::limit::raise_descriptors();
    let verdict = match cli.command {
        Command::Query(arguments) => query::run(&arguments, &stop),
        Command::Hold(arguments) => hold::run(&arguments, &stop),
        Command::Hostile(arguments) => hold::hostile(&arguments, &stop),
        Command::Xfr(arguments) => xfr::run(&arguments, &stop),
        Command::Notify(arguments) => maintain::notify(&arguments, &stop),
        Command::Update(arguments) => maintain::update(&arguments, &stop),
        Command::Man { folder } => clap_mangen::generate_to(Cli::command(), &folder)
            .map(|()| Verdict::Valid)
            .map_err(Failure::system(folder.display().to_string())),
    };
    match verdict {
        Ok(Verdict::Valid) => ExitCode::SUCCESS,
        Ok(Verdict::Invalid) => ExitCode::from(3),
        Err(failure) => fail(&failure),
    }
}

fn fail(failure: &Failure) -> ExitCode {
    eprintln!("zonda-load: {failure}");
    ExitCode::from(match failure {
        Failure::System { .. } => 1,
        Failure::Input(_) => 2,
    })
}

/// A flag that SIGTERM and SIGINT set.
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
    fn the_documents_tell_commands_that_exist() {
        let mut count = 0;
        for text in [include_str!("../../../docs/manual/zonda-load.md"), include_str!("../../../README.md")] {
            // Every second part stands between fences.
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
