//! `zonda-load xfr`: the null secondary and the null primary.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use netio::clock;
use serde_json::{Map, Value, json};
use wire::Name;
use zone::text::Source;

use super::input::read;
use super::maintain::zone_names;
use super::security::{Identity, Trust, Tsig};
use super::{Failure, Verdict, verdict};
use crate::report::Reporter;
use crate::tls::Purpose;
use crate::xfr::pull::{Pull, Pulled};
use crate::xfr::render::render;
use crate::xfr::serve::{Primary, Served, Zones};

/// Which side of a transfer.
#[derive(Debug, Subcommand)]
pub enum Arguments {
    /// Transfer zones and throw them away.
    Pull(PullArguments),
    /// Serve zones from octets rendered in advance, until SIGTERM.
    Serve(ServeArguments),
}

/// Arguments of `zonda-load xfr pull`.
#[derive(Debug, Args)]
pub struct PullArguments {
    /// Address of the primary
    #[arg(long, value_name = "ADDRESS")]
    server: IpAddr,
    /// Its port
    #[arg(long, default_value_t = 53)]
    port: u16,
    /// How zones travel
    #[arg(long, value_enum, default_value_t = Line::Tcp)]
    transport: Line,
    #[command(flatten)]
    trust: Trust,
    #[command(flatten)]
    tsig: Tsig,
    /// The zones, a name a line
    #[arg(long, value_name = "FILE")]
    zones: PathBuf,
    /// Ask for what changed since this serial (IXFR) instead of everything (AXFR)
    #[arg(long, value_name = "N")]
    serial: Option<u32>,
    /// How many zones are under way at a time, each on a connection of its own
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    parallel: u16,
    /// How long nothing may come
    #[arg(long, default_value_t = 60_000, value_parser = clap::value_parser!(u64).range(1..))]
    timeout_ms: u64,
}

/// Arguments of `zonda-load xfr serve`.
#[derive(Debug, Args)]
pub struct ServeArguments {
    /// Address to serve on
    #[arg(long, value_name = "ADDRESS")]
    listen: IpAddr,
    /// Its port; 0 for one that the system chooses, told by the event `ready`
    #[arg(long, default_value_t = 53)]
    port: u16,
    /// A port for transfers over TLS (RFC 9103); 0 for one that the system chooses
    #[arg(long, value_name = "PORT")]
    tls_port: Option<u16>,
    #[command(flatten)]
    identity: Identity,
    #[command(flatten)]
    tsig: Tsig,
    /// The zones, `name path` a line
    #[arg(long, value_name = "FILE")]
    zones: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Line {
    Tcp,
    Tls,
}

/// Runs the command.
pub fn run(arguments: &Arguments, stop: &Arc<AtomicBool>) -> Result<Verdict, Failure> {
    match arguments {
        Arguments::Pull(arguments) => pull(arguments, stop),
        Arguments::Serve(arguments) => serve(arguments, stop),
    }
}

fn pull(arguments: &PullArguments, stop: &AtomicBool) -> Result<Verdict, Failure> {
    let (transport, tls) = match arguments.transport {
        Line::Tcp => ("tcp", arguments.trust.needs_tls().map(|()| None)?),
        Line::Tls => ("tls", Some(arguments.trust.tls(arguments.server, false, Purpose::Transfers)?)),
    };
    let plan = Pull {
        server: SocketAddr::new(arguments.server, arguments.port),
        zones: zone_names(&arguments.zones)?,
        serial: arguments.serial,
        parallel: arguments.parallel.into(),
        timeout: Duration::from_millis(arguments.timeout_ms),
        tls,
        key: arguments.tsig.key.clone(),
    };
    let reporter = Reporter::new("closed", transport);
    let (since, began) = (clock::real(), clock::monotonic_exact());
    let pulled = plan.run(stop);
    let seconds = (clock::monotonic_exact() - began).as_secs_f64();
    let mut invalid_because = Vec::new();
    if let Some(first) = pulled.failures.first() {
        invalid_because.push(format!("{} zones were not transferred; the first one: {first}", pulled.failed));
    }
    let figures = pull_figures(&pulled, seconds, &invalid_because);
    reporter.figures(since, clock::real(), figures).map_err(Failure::system("writing results"))?;
    Ok(verdict(&invalid_because))
}

fn pull_figures(pulled: &Pulled, seconds: f64, invalid_because: &[String]) -> Map<String, Value> {
    let figures = json!({
        "zones": pulled.zones,
        "failed": pulled.failed,
        "failures": pulled.failures,
        "records": pulled.records,
        "bytes": pulled.octets,
        "messages": pulled.messages,
        "largest_message": pulled.largest_message,
        "seconds": seconds,
        "first_byte_s": pulled.first_byte_s,
        "connections": pulled.connections,
        "invalid_because": invalid_because,
    });
    figures.as_object().cloned().unwrap_or_default()
}

fn serve(arguments: &ServeArguments, stop: &Arc<AtomicBool>) -> Result<Verdict, Failure> {
    let zones = rendered(&arguments.zones)?;
    let (count, records) = (zones.len(), zones.values().map(|zone| zone.records).sum::<u64>());
    let address = SocketAddr::new(arguments.listen, arguments.port);
    let primary = Primary::bind(address, zones, arguments.tsig.key.clone());
    let mut primary = primary.map_err(Failure::system(format!("listening on {address}")))?;
    let port = primary.local_addr().map_err(Failure::system("listening"))?.port();
    let tls_port = arguments.tls_port.map(|port| listen_tls(&mut primary, arguments, port)).transpose()?;
    let reporter = Reporter::new("closed", "tcp");
    let since = clock::real();
    let message = format!("serving {count} zones on port {port}");
    reporter.event("ready", &message, json!({"zones": count, "records": records, "port": port, "tls_port": tls_port}));
    let served = primary.run(stop).map_err(Failure::system("serving"))?;
    reporter.figures(since, clock::real(), serve_figures(&served)).map_err(Failure::system("writing results"))?;
    Ok(Verdict::Valid)
}

fn listen_tls(primary: &mut Primary, arguments: &ServeArguments, port: u16) -> Result<u16, Failure> {
    let (address, config) = (SocketAddr::new(arguments.listen, port), arguments.identity.tls()?);
    let bound = primary.bind_tls(address, config).map_err(Failure::system(format!("listening on {address}")))?;
    Ok(bound.port())
}

fn serve_figures(served: &Served) -> Map<String, Value> {
    let [zones, records, octets, soa_answers, refused, connections] =
        [&served.zones, &served.records, &served.octets, &served.soa_answers, &served.refused, &served.connections]
            .map(|count| count.load(Ordering::Relaxed));
    let figures = json!({
        "zones": zones,
        "records": records,
        "bytes": octets,
        "soa_answers": soa_answers,
        "refused": refused,
        "connections": connections,
        "invalid_because": [],
    });
    figures.as_object().cloned().unwrap_or_default()
}

/// Reads and renders the zones of a file of `name path` lines.
fn rendered(path: &Path) -> Result<Zones, Failure> {
    let text = read(path)?;
    let text = std::str::from_utf8(&text).map_err(Failure::input(path.display()))?;
    let mut zones = Zones::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let wrong = |what: &str| Failure::Input(format!("{}: line {}: {what}", path.display(), index + 1));
        let (name, file) =
            line.trim().split_once(char::is_whitespace).ok_or_else(|| wrong("not of the form `name path`"))?;
        let apex: Name = name.parse().map_err(|error| wrong(&format!("name `{name}`: {error}")))?;
        let file = Path::new(file.trim());
        let bytes = read(file)?;
        let source = Source { name: file.display().to_string().into(), bytes: bytes.as_slice() };
        let zone = render(source, &apex).map_err(|error| Failure::Input(error.to_string()))?;
        zones.insert(apex, zone);
    }
    if zones.is_empty() { Err(Failure::Input(format!("{}: no zones", path.display()))) } else { Ok(zones) }
}
