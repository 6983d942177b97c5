//! `zonda-load xfr`: the null secondary and the null primary.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, SocketAddr};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use clap::{Args, Subcommand};
use netio::clock;
use serde_json::json;
use wire::Name;
use wire::tsig::TsigSigner;

use super::input::{read, zone_list, zone_source};
use super::listen::ListenArguments;
use super::maintenance::zone_names;
use super::number::positive;
use super::tls_tsig::{TlsClientArguments, TsigArguments};
use super::transport::StreamTransport;
use super::{CommandError, Validity, conclude};
use crate::report::{ReportHeader, Reporter, fields};
use crate::tls::Purpose;
use crate::xfr::encode::{EncodedZones, ZoneEncoder};
use crate::xfr::pull::PullConfig;
use crate::xfr::serve::{ChangeConfig, Primary};

/// The side of a transfer.
#[derive(Debug, Subcommand)]
pub enum XfrCommand {
    /// Transfer zones from a primary and discard them.
    Pull(PullArguments),
    /// Serve zones as a primary, from messages encoded in advance, until SIGTERM.
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
    /// Transport
    #[arg(long, value_enum, default_value_t = StreamTransport::Tcp)]
    transport: StreamTransport,
    #[command(flatten)]
    tls: TlsClientArguments,
    #[command(flatten)]
    tsig: TsigArguments,
    /// File with the zone names, one per line
    #[arg(long, value_name = "FILE")]
    zones: PathBuf,
    /// Send IXFR from this serial instead of AXFR
    #[arg(long, value_name = "N")]
    serial: Option<u32>,
    /// Number of concurrent transfers, each on its own connection
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    parallel: u16,
    /// Time-out of connecting and of each read
    #[arg(long, default_value_t = 60_000, value_parser = clap::value_parser!(u64).range(1..))]
    timeout_ms: u64,
}

/// Arguments of `zonda-load xfr serve`.
#[derive(Debug, Args)]
pub struct ServeArguments {
    #[command(flatten)]
    listen: ListenArguments,
    #[command(flatten)]
    tsig: TsigArguments,
    /// File with the zones, one per line: `name path`; zones may share a file with relative names
    #[arg(long, value_name = "FILE")]
    zones: PathBuf,
    /// Change a zone at this interval, the next one in turn: its serial and a TXT record; IXFR gets the differences (RFC 1995)
    #[arg(long, value_name = "MILLISECONDS", value_parser = milliseconds)]
    change_every: Option<Duration>,
    /// Secondaries to notify of each change (NOTIFY, RFC 1996), until they acknowledge it
    #[arg(long, value_name = "ADDRESS:PORT,...", value_delimiter = ',', requires = "change_every")]
    notify: Vec<SocketAddr>,
}

/// An interval in milliseconds, which may have a fraction.
fn milliseconds(text: &str) -> Result<Duration, String> {
    let interval = Duration::from_secs_f64(positive(text)?.min(MAX_CHANGE_MS) / 1000.0);
    if interval < MIN_CHANGE { Err("the shortest interval is 0.01 ms".into()) } else { Ok(interval) }
}

/// More than a day between changes means none.
const MAX_CHANGE_MS: f64 = 86_400_000.0;
/// Below this, changing zones would use the processor that transfers need.
const MIN_CHANGE: Duration = Duration::from_micros(10);

pub fn run(command: &XfrCommand, stop: &Arc<AtomicBool>) -> Result<Validity, CommandError> {
    match command {
        XfrCommand::Pull(arguments) => pull(arguments, stop),
        XfrCommand::Serve(arguments) => serve(arguments, stop),
    }
}

fn pull(arguments: &PullArguments, stop: &AtomicBool) -> Result<Validity, CommandError> {
    let config = PullConfig {
        server: SocketAddr::new(arguments.server, arguments.port),
        zones: zone_names(&arguments.zones)?,
        serial: arguments.serial,
        parallel: arguments.parallel.into(),
        timeout: Duration::from_millis(arguments.timeout_ms),
        tls: arguments.transport.tls(&arguments.tls, arguments.server, Purpose::Transfers)?,
        key: arguments.tsig.key.clone(),
    };
    let reporter = Reporter::new(ReportHeader::closed(arguments.transport.name()));
    let (since, began) = (clock::real(), clock::monotonic_exact());
    let pulled = config.run(stop);
    let seconds = (clock::monotonic_exact() - began).as_secs_f64();
    let mut invalid_because = Vec::new();
    if let Some(first) = pulled.failures.first() {
        invalid_because.push(format!("{} zones were not transferred; the first one: {first}", pulled.failed));
    }
    let mut figures = fields(&pulled);
    figures["seconds"] = json!(seconds);
    figures["invalid_because"] = json!(invalid_because);
    conclude(reporter.write_figures(since, clock::real(), figures), &invalid_because)
}

fn serve(arguments: &ServeArguments, stop: &Arc<AtomicBool>) -> Result<Validity, CommandError> {
    let tsig_len = arguments.tsig.key.as_deref().map_or(0, |key| TsigSigner::for_query(key).record_len());
    let encoder = ZoneEncoder { is_changing: arguments.change_every.is_some(), tsig_len };
    let zones = encoded_zones(&arguments.zones, encoder)?;
    let (count, records) = (zones.len(), zones.values().map(|zone| zone.records).sum::<u64>());
    let address = arguments.listen.address();
    let primary = Primary::bind(address, zones, arguments.tsig.key.clone());
    let mut primary = primary.map_err(CommandError::system(format!("listening on {address}")))?;
    let port = primary.local_addr().map_err(CommandError::system("listening"))?.port();
    let tls_port = match arguments.listen.tls(Purpose::Transfers)? {
        Some((address, config)) => {
            let bound = primary.bind_tls(address, config);
            Some(bound.map_err(CommandError::system(format!("listening on {address}")))?.port())
        }
        None => None,
    };
    if let Some(every) = arguments.change_every {
        let changes = ChangeConfig { every, notify: arguments.notify.clone() };
        primary.change(changes).map_err(CommandError::system("--change-every"))?;
    }
    let reporter = Reporter::new(ReportHeader::closed("tcp"));
    let since = clock::real();
    let message = format!("serving {count} zones on port {port}");
    reporter.event("ready", &message, json!({"zones": count, "records": records, "port": port, "tls_port": tls_port}));
    let counters = primary.run(stop).map_err(CommandError::system("serving"))?;
    let mut figures = fields(&*counters);
    figures["invalid_because"] = json!([]);
    conclude(reporter.write_figures(since, clock::real(), figures), &[])
}

/// Reads and encodes the zones of a file of `name path` lines. Zones may share a file, whose names are relative then.
fn encoded_zones(path: &Path, encoder: ZoneEncoder) -> Result<EncodedZones, CommandError> {
    let sources = zone_list(path)?;
    let mut files: HashMap<&Path, Vec<u8>> = HashMap::new();
    for (_, file) in &sources {
        if let Entry::Vacant(entry) = files.entry(file) {
            entry.insert(read(file)?);
        }
    }
    let encode_part = |part: &[(Name, PathBuf)]| -> Result<Vec<_>, CommandError> {
        let encode_one = |(apex, file): &(Name, PathBuf)| {
            let zone = encoder.encode(zone_source(file, &files[file.as_path()]), apex);
            zone.map(|zone| (apex.clone(), zone)).map_err(|error| CommandError::Input(error.to_string()))
        };
        part.iter().map(encode_one).collect()
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let parts = sources.chunks(sources.len().div_ceil(threads));
        let parts: Vec<_> = parts.map(|part| scope.spawn(|| encode_part(part))).collect();
        let mut zones = EncodedZones::with_capacity(sources.len());
        for part in parts {
            for (apex, zone) in part.join().unwrap_or_else(|panic| resume_unwind(panic))? {
                // The one that is not served would be missing from every figure.
                if zones.insert(apex.clone(), zone).is_some() {
                    return Err(CommandError::Input(format!("{}: zone {apex} is listed twice", path.display())));
                }
            }
        }
        Ok(zones)
    })
}
