//! The command line of `zonda`: declarations only; help, completions and manual pages are made from them.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use wire::{Name, NameRef};

use crate::config::{Endpoint, LogFormat, LogLevel};

/// An authoritative DNS server.
///
/// `zonda serve FOLDER` serves the zone files of a folder. With a configuration, see zonda.toml(5).
#[derive(Debug, Parser)]
#[command(name = "zonda", version, after_help = EXIT_STATUS, disable_help_subcommand = true, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_STATUS: &str = "\
Exit status: 0 all is well; 1 something is not, and standard error says what; 2 the command line is wrong.";

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve zones in the foreground until SIGTERM or SIGINT.
    ///
    /// The log goes to standard error. SIGHUP reads the configuration and changed zone files again, as `zonda reload`
    /// does. Under systemd readiness and reloads are told (Type=notify or notify-reload).
    ///
    /// A zone that cannot be loaded is answered with SERVFAIL, and the others are served. With --zone or PATH and
    /// without --config no configuration file is read.
    #[command(after_help = EXIT_STATUS)]
    Serve(Serve),
    /// Find every mistake in a configuration and in zones.
    ///
    /// Without FILE the configuration is checked, and every zone it names. Findings go to standard output, one a line:
    /// FILE:LINE:COLUMN: error: WHAT (HELP) [zone NAME]. The status is 1 if there is an error: then `zonda serve` does
    /// not take the zone either. Warnings leave it 0.
    #[command(after_help = EXIT_STATUS)]
    Check(Check),
    /// Print the effective configuration as TOML.
    #[command(after_help = EXIT_STATUS)]
    Config(Config),
    /// Make a running zonda read its configuration and changed zone files again.
    ///
    /// Waits until that is done and prints what changed. The status is 1 when the configuration or a zone has mistakes;
    /// what was served before is served still.
    #[command(after_help = EXIT_STATUS)]
    Reload(Reload),
    /// Print completions for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print a manual page in the language of man(1): `zonda man serve | man -l -`.
    #[command(after_help = EXIT_STATUS)]
    Man(Man),
}

/// Which configuration file.
#[derive(Debug, Default, Args)]
pub struct ConfigFile {
    /// The configuration file [default: the first that exists of $XDG_CONFIG_HOME/zonda/zonda.toml and
    /// /etc/zonda/zonda.toml].
    #[arg(long = "config", value_name = "FILE")]
    pub path: Option<PathBuf>,
}

/// Zones named on the command line.
#[derive(Clone, Debug, Default, Args)]
pub struct ZoneArguments {
    /// Take the zone NAME from FILE; can be given several times.
    #[arg(long = "zone", value_name = "NAME=FILE", value_parser = OsStringValueParser::new().try_map(named_zone))]
    pub named: Vec<NamedZone>,
    /// Zone files, and folders of files called NAME.zone.
    ///
    /// A file NAME.zone holds the zone NAME; root.zone and @.zone hold the root zone. A file with another name must have
    /// a line $ORIGIN NAME. before its first record.
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,
}

/// A zone and its file.
#[derive(Clone, Debug)]
pub struct NamedZone {
    /// The apex.
    pub name: Name,
    /// The zone file.
    pub file: PathBuf,
}

/// `zonda serve`.
#[derive(Debug, Args)]
pub struct Serve {
    /// The configuration.
    #[command(flatten)]
    pub config: ConfigFile,
    /// Answer on this address and port, instead of those of the configuration; can be given several times.
    #[arg(long, value_name = "ADDR:PORT", value_parser = endpoint)]
    pub listen: Vec<Endpoint>,
    /// The zones.
    #[command(flatten)]
    pub zones: ZoneArguments,
    /// The form of the log, instead of the configuration's.
    #[arg(long, value_name = "FORM")]
    pub log_format: Option<LogFormat>,
    /// The least severe messages to log, instead of the configuration's.
    #[arg(long, value_name = "LEVEL")]
    pub log_level: Option<LogLevel>,
}

/// `zonda check`.
#[derive(Debug, Args)]
pub struct Check {
    /// The configuration.
    #[command(flatten)]
    pub config: ConfigFile,
    /// The zones.
    #[command(flatten)]
    pub zones: ZoneArguments,
    /// Take records that break a rule of their RFC, but can be served, for errors, as `checks = "strict"` does.
    #[arg(long)]
    pub strict: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
    /// Print the table of all checks as Markdown instead: what is found, how bad it is, and the RFC.
    #[arg(long, conflicts_with_all = ["strict", "json"])]
    pub list: bool,
}

/// `zonda config`.
#[derive(Debug, Args)]
pub struct Config {
    /// The configuration.
    #[command(flatten)]
    pub config: ConfigFile,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// `zonda reload`.
#[derive(Debug, Args)]
pub struct Reload {
    /// The configuration that names the state-dir of the running zonda.
    #[command(flatten)]
    pub config: ConfigFile,
    /// The state-dir of the running zonda, instead of the configuration's.
    #[arg(long, value_name = "FOLDER", conflicts_with = "path")]
    pub state_dir: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// `zonda man`.
#[derive(Debug, Args)]
pub struct Man {
    /// The page: zonda, a command of it, or zonda.toml.
    #[arg(default_value = "zonda", value_name = "PAGE")]
    pub page: String,
    /// Print the reference of zonda.toml as Markdown instead.
    #[arg(long)]
    pub markdown: bool,
    /// Print the names of all pages instead.
    #[arg(long, conflicts_with = "markdown")]
    pub list: bool,
}

fn named_zone(argument: OsString) -> Result<NamedZone, String> {
    // A path need not be UTF-8.
    let octets = argument.as_bytes();
    let equals = octets.iter().position(|&octet| octet == b'=').ok_or("write it like example.com=path/to/file")?;
    let (name, file) = (&octets[..equals], &octets[equals + 1..]);
    let parsed = Name::from_text(name, Some(NameRef::ROOT));
    let name = parsed.map_err(|error| format!("`{}` is no domain name: {error}", String::from_utf8_lossy(name)))?;
    if file.is_empty() {
        return Err("there is no file after the `=`".into());
    }
    Ok(NamedZone { name: name.to_lowercase(), file: OsStr::from_bytes(file).into() })
}

fn endpoint(text: &str) -> Result<Endpoint, String> {
    text.parse().map_err(String::from)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_declarations_are_consistent() {
        super::Cli::command().debug_assert();
    }
}
