//! The command line of `zonda`: declarations, from which help, completions and manual pages are generated.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum, value_parser};
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
Exit status: 0 success; 1 failure, explained on standard error or in the report; 2 wrong command line.";

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve zones in the foreground until SIGTERM or SIGINT.
    ///
    /// The log goes to standard error. SIGHUP reads the configuration and changed zone files again, as `zonda reload`
    /// does. Under systemd, use Type=notify, or Type=notify-reload from systemd 253 on.
    ///
    /// Queries for a zone that cannot be loaded are answered with SERVFAIL; the other zones are served. With --zone or PATH
    /// and without --config no configuration file is read.
    #[command(after_help = EXIT_STATUS)]
    Serve(ServeArguments),
    /// Find every mistake in a configuration and in zones.
    ///
    /// Without --zone or PATH, checks the configuration and every zone it names. Findings go to standard output, one per
    /// line: FILE:LINE:COLUMN: error: MESSAGE (help: HELP) [zone NAME]. The exit status is 1 if there is an error, in which
    /// case `zonda serve` does not load the zone either; warnings do not change it. The server alone applies
    /// `max-shrink-percent`, which needs the version before, and runs `check-command`.
    #[command(after_help = EXIT_STATUS)]
    Check(CheckArguments),
    /// Print the effective configuration as TOML.
    #[command(after_help = EXIT_STATUS)]
    Config(ConfigArguments),
    /// Make a running zonda read its configuration and changed zone files again.
    ///
    /// Waits until that is done and prints what changed. The exit status is 1 if the configuration or a zone has mistakes;
    /// the version served before stays.
    #[command(after_help = EXIT_STATUS)]
    Reload(ReloadArguments),
    /// Print the metrics of a running zonda in the text format of Prometheus.
    ///
    /// For a collector that reads files, such as the textfile collector of node_exporter.
    #[command(after_help = EXIT_STATUS)]
    Metrics(RunningDaemon),
    /// Advise on the settings of this host: kernel, limits, network card, processors.
    ///
    /// Reads the host and the configuration, and prints for each setting the value now, the advised value, the reason, what
    /// documents say, what was measured, and the risk. Nothing is changed without --write or --apply. Linux only.
    #[command(after_help = EXIT_STATUS)]
    Tune(TuneArguments),
    /// Show and control the zones of a running zonda.
    #[command(subcommand)]
    Zone(ZoneCommand),
    /// Print completions for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print a manual page in roff: `zonda man serve | man -l -`.
    #[command(after_help = EXIT_STATUS)]
    Man(ManArguments),
}

/// The option that names a configuration file.
#[derive(Debug, Default, Args)]
pub struct ConfigFile {
    /// The configuration file [default: the first that exists of $XDG_CONFIG_HOME/zonda/zonda.toml (or
    /// ~/.config/zonda/zonda.toml) and /etc/zonda/zonda.toml].
    #[arg(long = "config", value_name = "FILE")]
    pub path: Option<PathBuf>,
}

/// Zones named on the command line.
#[derive(Clone, Debug, Default, Args)]
pub struct ZoneArguments {
    /// The zone NAME and its file; can be repeated.
    #[arg(long = "zone", value_name = "NAME=FILE", value_parser = OsStringValueParser::new().try_map(named_zone))]
    pub named: Vec<NamedZone>,
    /// Zone files, and folders of files called NAME.zone.
    ///
    /// A file NAME.zone contains the zone NAME; root.zone and @.zone contain the root zone. A file with another name must
    /// have a line $ORIGIN NAME. before its first record.
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
pub struct ServeArguments {
    /// The configuration.
    #[command(flatten)]
    pub config: ConfigFile,
    /// Listen on this address and port, instead of those of the configuration; can be repeated.
    #[arg(long, value_name = "ADDR:PORT")]
    pub listen: Vec<Endpoint>,
    /// The zones.
    #[command(flatten)]
    pub zones: ZoneArguments,
    /// The format of the log, instead of the configuration's.
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,
    /// The least severe messages to log, instead of the configuration's.
    #[arg(long, value_name = "LEVEL")]
    pub log_level: Option<LogLevel>,
}

/// `zonda check`.
#[derive(Debug, Args)]
pub struct CheckArguments {
    /// The configuration.
    #[command(flatten)]
    pub config: ConfigFile,
    /// The zones.
    #[command(flatten)]
    pub zones: ZoneArguments,
    /// Report records that break a rule of their RFC but can be served as errors, as `checks = "strict"` does.
    #[arg(long)]
    pub strict: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
    /// Print the table of all checks as Markdown instead: finding, severity, RFC.
    #[arg(long, conflicts_with_all = ["strict", "json"])]
    pub list: bool,
}

/// `zonda config`.
#[derive(Debug, Args)]
pub struct ConfigArguments {
    /// The configuration.
    #[command(flatten)]
    pub config: ConfigFile,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// `zonda reload`.
#[derive(Debug, Args)]
pub struct ReloadArguments {
    /// The running zonda.
    #[command(flatten)]
    pub daemon: RunningDaemon,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// `zonda tune`.
#[derive(Debug, Args)]
pub struct TuneArguments {
    /// The configuration; its threads, limits and zones are what the advice is for.
    #[command(flatten)]
    pub config: ConfigFile,
    /// What the server mostly does.
    #[arg(long, value_enum, default_value_t = TuneRole::Udp)]
    pub role: TuneRole,
    /// Concurrent TCP and TLS connections, and as many over QUIC [default: tcp-connections of the configuration].
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=1_000_000_000))]
    pub connections: Option<u64>,
    /// Zones [default: those of the configuration].
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=1_000_000_000))]
    pub zones: Option<u64>,
    /// Queries per second [default: 100000]; for a primary or secondary, transfers per minute [default: all zones].
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=1_000_000_000))]
    pub rate: Option<u64>,
    /// The DNS server that the advice is for.
    #[arg(long = "for", value_enum, value_name = "SERVER", default_value_t = TuneServer::Zonda)]
    pub server: TuneServer,
    /// Advise on this setting only; can be repeated. With --write and --apply, nothing else is changed.
    #[arg(long, value_name = "NAME")]
    pub only: Vec<String>,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
    /// Write files for sysctl.d, limits.d and systemd into this folder, to be copied to /etc by hand.
    #[arg(long, value_name = "FOLDER")]
    pub write: Option<PathBuf>,
    /// Set the advised sysctls now, until the next start of the host, and print the commands that undo it.
    #[arg(long, conflicts_with = "root")]
    pub apply: bool,
    /// Read a recorded host below this folder instead of this host.
    #[arg(long, value_name = "FOLDER", default_value = "/", hide_default_value = true)]
    pub root: PathBuf,
    /// Print the table of all settings as Markdown instead: rule, sources, evidence, risk.
    #[arg(long, conflicts_with_all = ["json", "write", "apply"])]
    pub list: bool,
}

/// What a server mostly does.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum TuneRole {
    /// Answers queries over UDP.
    Udp,
    /// Answers queries over many TCP connections.
    Tcp,
    /// Transfers zones in.
    Secondary,
    /// Transfers zones out.
    Primary,
}

/// A DNS server that `zonda tune` knows.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum TuneServer {
    /// This one.
    Zonda,
    /// NLnet Labs NSD.
    Nsd,
    /// Knot DNS.
    Knot,
    /// ISC BIND 9.
    Bind,
}

/// Which running zonda to talk to.
#[derive(Debug, Args)]
pub struct RunningDaemon {
    /// The configuration that names the state-dir of the running zonda.
    #[command(flatten)]
    pub config: ConfigFile,
    /// The state-dir of the running zonda, instead of the configuration's.
    #[arg(long, value_name = "FOLDER", conflicts_with = "path")]
    pub state_dir: Option<PathBuf>,
}

/// `zonda zone`.
#[derive(Debug, Subcommand)]
pub enum ZoneCommand {
    /// Show which serial is served, what the primary has, when the zone expires, and the last transfer.
    ///
    /// Without NAME shows all zones. The exit status is 1 if a zone does not exist.
    #[command(after_help = EXIT_STATUS)]
    Status(ZoneStatusArguments),
    /// Ask the primaries of a zone for its serial now, and transfer it if it is later.
    #[command(after_help = EXIT_STATUS)]
    Refresh(ZoneActionArguments),
    /// Transfer a whole zone now, whatever serial the primary has.
    ///
    /// If no primary sends it, or none can be reached for some seconds, the command has no effect later: run it again.
    #[command(after_help = EXIT_STATUS)]
    Retransfer(ZoneActionArguments),
    /// Notify the secondaries of a zone now, though it has not changed (NOTIFY, RFC 1996).
    ///
    /// The exit status is 1 if it has neither `notify` nor `notify-ns`. Whether a secondary answers is in the log.
    #[command(after_help = EXIT_STATUS)]
    Notify(ZoneActionArguments),
    /// Freeze a zone: neither its file nor transfers nor updates change it until `zonda zone thaw`.
    ///
    /// It stays frozen over reloads and restarts, and does not expire.
    #[command(after_help = EXIT_STATUS)]
    Freeze(ZoneActionArguments),
    /// Let a frozen zone change again: read its file if that has changed, and ask its primaries.
    #[command(after_help = EXIT_STATUS)]
    Thaw(ZoneActionArguments),
    /// Serve an earlier version of a zone again: the previous one, or another one that `keep-versions` keeps.
    ///
    /// A primary publishes the earlier content with the next serial, so that its secondaries follow. A signed zone and a secondary
    /// serve the earlier version with its own serial, and the zone is frozen: `zonda zone thaw` lets it change again.
    #[command(after_help = EXIT_STATUS)]
    Rollback(ZoneRollbackArguments),
    /// Add zones to the running zonda, without a reload. They stay after a restart.
    ///
    /// The exit status is 1 if a zone could not be added: it exists already, or its template cannot be used.
    #[command(after_help = EXIT_STATUS)]
    Add(ZoneAddArguments),
    /// Remove zones that were added with `zonda zone add`.
    #[command(after_help = EXIT_STATUS)]
    Remove(ZoneRemoveArguments),
    /// Print the version that is served as zone text.
    #[command(after_help = EXIT_STATUS)]
    Export(ZoneExportArguments),
}

/// `zonda zone status`.
#[derive(Debug, Args)]
pub struct ZoneStatusArguments {
    /// The running zonda.
    #[command(flatten)]
    pub daemon: RunningDaemon,
    /// Print JSON: an object for one NAME, else one object per line.
    #[arg(long)]
    pub json: bool,
    /// The zones.
    #[arg(value_name = "NAME")]
    pub zones: Vec<Name>,
}

/// `zonda zone refresh` and others.
#[derive(Debug, Args)]
pub struct ZoneActionArguments {
    /// The running zonda.
    #[command(flatten)]
    pub daemon: RunningDaemon,
    /// All zones.
    #[arg(long, conflicts_with = "zones")]
    pub all: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
    /// The zones.
    #[arg(value_name = "NAME", required_unless_present = "all")]
    pub zones: Vec<Name>,
}

/// `zonda zone rollback`.
#[derive(Debug, Args)]
pub struct ZoneRollbackArguments {
    /// The running zonda.
    #[command(flatten)]
    pub daemon: RunningDaemon,
    /// The serial of the version, one of those that `zonda zone status` lists.
    #[arg(long, value_name = "SERIAL")]
    pub to: Option<u32>,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
    /// The zones.
    #[arg(value_name = "NAME", required = true)]
    pub zones: Vec<Name>,
}

/// `zonda zone add`.
#[derive(Debug, Args)]
pub struct ZoneAddArguments {
    /// The running zonda.
    #[command(flatten)]
    pub daemon: RunningDaemon,
    /// The template that the zones take their settings from.
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub template: String,
    /// A file with one zone per line, as `NAME [TEMPLATE]`; `-` is the standard input.
    #[arg(long, value_name = "FILE", conflicts_with = "zones")]
    pub list: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
    /// The zones.
    #[arg(value_name = "NAME", required_unless_present = "list")]
    pub zones: Vec<Name>,
}

/// `zonda zone remove`.
#[derive(Debug, Args)]
pub struct ZoneRemoveArguments {
    /// The running zonda.
    #[command(flatten)]
    pub daemon: RunningDaemon,
    /// A file with one zone per line; `-` is the standard input.
    #[arg(long, value_name = "FILE", conflicts_with = "zones")]
    pub list: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
    /// The zones.
    #[arg(value_name = "NAME", required_unless_present = "list")]
    pub zones: Vec<Name>,
}

/// `zonda zone export`.
#[derive(Debug, Args)]
pub struct ZoneExportArguments {
    /// The running zonda.
    #[command(flatten)]
    pub daemon: RunningDaemon,
    /// The zone.
    #[arg(value_name = "NAME")]
    pub zone: Name,
}

/// `zonda man`.
#[derive(Debug, Args)]
pub struct ManArguments {
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
    let name = parsed.map_err(|error| format!("`{}` is not a domain name: {error}", String::from_utf8_lossy(name)))?;
    if file.is_empty() {
        return Err("the file after the `=` is missing".into());
    }
    Ok(NamedZone { name: name.to_lowercase(), file: OsStr::from_bytes(file).into() })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_declarations_are_consistent() {
        super::Cli::command().debug_assert();
    }
}
