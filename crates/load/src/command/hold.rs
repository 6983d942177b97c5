//! `zonda-load hold` and `zonda-load hostile`: held connections, idle or hostile.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use clap::Args;
use netio::{clock, resource_limits};
use serde_json::json;

use super::descriptors::require_descriptors;
use super::input::read_queries;
use super::number::{rate, seconds_or_none};
use super::target::Target;
use super::tls_tsig::TlsClientArguments;
use super::transport::ConnectionTransport;
use super::{CommandError, Validity, conclude};
use crate::hold::{Behaviour, HoldConfig, HoldResult};
use crate::job::{Job, Timing};
use crate::metrics::Metrics;
use crate::queries::{Queries, QueryTemplate, file};
use crate::quic;
use crate::report::{ReportHeader, Reporter, connection_type, fields};
use crate::run::RunResult;
use crate::schedule::{ArrivalProcess, RateProfile};

/// Arguments of `zonda-load hold`.
#[derive(Debug, Args)]
pub struct HoldArguments {
    #[command(flatten)]
    target: Target,
    /// Transport of the connections
    #[arg(long, value_enum, default_value_t = ConnectionTransport::Tcp)]
    transport: ConnectionTransport,
    #[command(flatten)]
    tls: TlsClientArguments,
    /// Number of connections
    #[arg(long)]
    connections: u32,
    /// Connections opened per second
    #[arg(long, value_parser = rate, default_value_t = 1000.0)]
    rate: f64,
    /// How long to hold them after the last one is established
    #[arg(long, value_parser = seconds_or_none, default_value_t = 10.0)]
    seconds: f64,
    /// Send one of these queries on each connection
    #[arg(long, value_name = "FILE")]
    queries: Option<PathBuf>,
    /// End once every connection has its response, or after --seconds
    #[arg(long, requires = "queries")]
    until_answered: bool,
    /// Meanwhile, probe the server with a UDP query at this interval
    #[arg(long, value_name = "MILLISECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    probe_ms: Option<u32>,
    /// UDP port of the probes [default: the port of the connections]
    #[arg(long, value_name = "PORT", requires = "probe_ms")]
    probe_port: Option<u16>,
}

/// Arguments of `zonda-load hostile`.
#[derive(Debug, Args)]
pub struct HostileArguments {
    /// What the clients do
    #[arg(long, value_enum)]
    kind: Behaviour,
    #[command(flatten)]
    hold: HoldArguments,
}

pub fn run(arguments: &HoldArguments, stop: &AtomicBool) -> Result<Validity, CommandError> {
    arguments.run(if arguments.queries.is_some() { Behaviour::Ask } else { Behaviour::Silence }, stop)
}

pub fn hostile(arguments: &HostileArguments, stop: &AtomicBool) -> Result<Validity, CommandError> {
    arguments.hold.run(arguments.kind, stop)
}

impl HoldArguments {
    fn run(&self, behaviour: Behaviour, stop: &AtomicBool) -> Result<Validity, CommandError> {
        match self.transport {
            ConnectionTransport::Quic => check_is_over_quic(behaviour)?,
            _ if behaviour.closes_at_once() => {}
            _ => self.check_limits()?,
        }
        let queries = Arc::new(self.queries()?);
        let tls = self.transport.tls(&self.tls, self.target.server)?;
        let config = HoldConfig {
            server: self.target.address(),
            sources: self.target.sources()?,
            tls: tls.clone().filter(|_| self.transport != ConnectionTransport::Quic),
            connections: self.connections as usize,
            rate: self.rate,
            hold: Duration::from_secs_f64(self.seconds),
            until_answered: self.until_answered,
            behaviour,
            queries: &queries,
        };
        let reporter = Reporter::new(ReportHeader {
            transport: self.transport.name(),
            connections: Some(match self.transport {
                ConnectionTransport::Quic => "quic_conn",
                transport => connection_type(transport == ConnectionTransport::Tls),
            }),
            ..ReportHeader::default()
        });
        let since = clock::real();
        let on_opened = |held: &HoldResult| {
            let HoldResult { open, established, failed, closed_by_peer, open_s, .. } = held;
            let message = format!("{open} connections are open, the server closed {closed_by_peer}, {failed} failed");
            let figures = json!({"open": open, "established": established, "failed": failed,
                "closed_by_peer": closed_by_peer, "seconds": open_s});
            reporter.event("open", &message, figures);
        };
        let (held, probes) = self.with_probes(&queries, || match &tls {
            Some(tls) if self.transport == ConnectionTransport::Quic => {
                quic::hostile::run(&config, tls, stop, on_opened)
            }
            _ => config.run(stop, on_opened),
        })?;
        let held = held.map_err(CommandError::system("holding connections"))?;
        let invalid_because = invalid_because(&held, probes.as_ref());
        let mut figures = fields(&held);
        figures["invalid_because"] = json!(invalid_because);
        let metrics = Metrics {
            // Random datagrams over QUIC have none.
            handshakes: held.handshake.len(),
            handshakes_failed: held.failed,
            handshake_failure: held.first_failure,
            handshake: held.handshake,
            ..probes.unwrap_or_default()
        };
        let written = reporter.write_sum(&RunResult { since, until: clock::real(), metrics, busy: 0.0 }, figures);
        conclude(written, &invalid_because)
    }

    /// An error if there are too few descriptors or ports for the connections.
    fn check_limits(&self) -> Result<(), CommandError> {
        let (connections, sources) = (u64::from(self.connections), u64::from(self.target.sources));
        let several = ", or run several at a time, each with a --source-prefix of its own";
        require_descriptors(connections, format_args!("--connections {connections}:"), several)?;
        let ports = resource_limits::ephemeral_port_count().unwrap_or(u64::MAX);
        if connections > ports.saturating_mul(sources) {
            let needed = connections.div_ceil(ports);
            return Err(CommandError::Input(format!(
                "--connections {connections}: a source address has {ports} ports (net.ipv4.ip_local_port_range); \
                 use more addresses, for example --sources {needed} --source-prefix 127.1.0.0/16 on loopback"
            )));
        }
        Ok(())
    }

    fn queries(&self) -> Result<Queries, CommandError> {
        match &self.queries {
            Some(path) => read_queries(path),
            None => file::read(b". SOA", &QueryTemplate::default()).map_err(CommandError::input("the query")),
        }
    }

    /// Runs `hold` while another thread sends the probes, if there are any; returns the metrics of the probes.
    fn with_probes<T>(
        &self,
        queries: &Arc<Queries>,
        hold: impl FnOnce() -> T,
    ) -> Result<(T, Option<Metrics>), CommandError> {
        let Some(probe_ms) = self.probe_ms else { return Ok((hold(), None)) };
        // The probes end with `hold`, so the profile only has to be longer.
        let profile = RateProfile::flat(1000.0 / f64::from(probe_ms), 1e7);
        let server = SocketAddr::new(self.target.server, self.probe_port.unwrap_or(self.target.port));
        let job = Job::new(server, queries.clone(), Timing::Rate(profile, ArrivalProcess::Constant));
        let stop_probes = AtomicBool::new(false);
        thread::scope(|scope| {
            let probes = scope.spawn(|| job.run(&stop_probes, |_| ()));
            let held = hold();
            stop_probes.store(true, Ordering::Relaxed);
            let result = probes.join().expect("workers do not panic").map_err(CommandError::system("probing"))?;
            Ok((held, Some(result.metrics)))
        })
    }
}

fn check_is_over_quic(behaviour: Behaviour) -> Result<(), CommandError> {
    match behaviour {
        possible if quic::hostile::is_possible(possible) => Ok(()),
        Behaviour::Ask => {
            Err(CommandError::Input("--queries is not for --transport quic: use `zonda-load quic`".into()))
        }
        _ => Err(CommandError::Input("this --kind is for TCP and TLS only".into())),
    }
}

fn invalid_because(held: &HoldResult, probes: Option<&Metrics>) -> Vec<String> {
    let mut reasons = probes.map(Metrics::invalid_even_unanswered).unwrap_or_default();
    if held.failed > 0 {
        let why = held.first_failure.as_deref().unwrap_or("unknown");
        reasons.push(format!("{} connections could not be opened; the first one: {why}", held.failed));
    }
    reasons
}
