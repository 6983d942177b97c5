//! `zonda-load hold` and `zonda-load hostile`: connections, well-behaved or not.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use clap::{Args, ValueEnum};
use netio::{clock, limit};
use serde_json::{Map, Value, json};

use super::input::read;
use super::number::{rate, seconds_or_none};
use super::security::Trust;
use super::target::Target;
use super::{Failure, Verdict, verdict};
use crate::hold::{Behaviour, Held, Hold};
use crate::measure::Measure;
use crate::plan::{Arrivals, Profile};
use crate::queries::{Dress, Queries, file};
use crate::report::Reporter;
use crate::run::{Job, Outcome, Timing, Transport};
use crate::tls::Purpose;
use crate::verify::Verifier;

/// Descriptors for anything but connections: standard streams, signals, polls, the probes' socket.
const OTHER_DESCRIPTORS: u64 = 16;

/// Arguments of `zonda-load hold`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    target: Target,
    /// How connections travel
    #[arg(long, value_enum, default_value_t = Line::Tcp)]
    transport: Line,
    #[command(flatten)]
    trust: Trust,
    /// How many connections
    #[arg(long)]
    connections: u32,
    /// How many are opened a second
    #[arg(long, value_parser = rate, default_value_t = 1000.0)]
    rate: f64,
    /// How long they are held when the last one stands
    #[arg(long, value_parser = seconds_or_none, default_value_t = 10.0)]
    seconds: f64,
    /// Ask one of these queries on each
    #[arg(long, value_name = "FILE")]
    queries: Option<PathBuf>,
    /// Send a query over UDP every so many milliseconds meanwhile
    #[arg(long, value_name = "MILLISECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    probe_ms: Option<u32>,
    /// The UDP port that is probed, if it is not that of the connections
    #[arg(long, value_name = "PORT", requires = "probe_ms")]
    probe_port: Option<u16>,
}

/// Arguments of `zonda-load hostile`.
#[derive(Debug, Args)]
pub struct HostileArguments {
    /// What the clients do
    #[arg(long, value_enum)]
    kind: Kind,
    #[command(flatten)]
    hold: Arguments,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Line {
    Tcp,
    Tls,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Sends half of a query.
    HalfQuery,
    /// Sends a query at one octet a second.
    ByteASecond,
    /// Asks on and on and never reads.
    NeverRead,
    /// Asks and closes by RST.
    Reset,
    /// Connects and is silent.
    Silence,
    /// Sends random octets.
    Random,
}

/// Runs `zonda-load hold`.
pub fn run(arguments: &Arguments, stop: &AtomicBool) -> Result<Verdict, Failure> {
    arguments.run(if arguments.queries.is_some() { Behaviour::Ask } else { Behaviour::Silence }, stop)
}

/// Runs `zonda-load hostile`.
pub fn hostile(arguments: &HostileArguments, stop: &AtomicBool) -> Result<Verdict, Failure> {
    let behaviour = match arguments.kind {
        Kind::HalfQuery => Behaviour::HalfQuery,
        Kind::ByteASecond => Behaviour::ByteASecond,
        Kind::NeverRead => Behaviour::NeverRead,
        Kind::Reset => Behaviour::Reset,
        Kind::Silence => Behaviour::Silence,
        Kind::Random => Behaviour::Random,
    };
    arguments.hold.run(behaviour, stop)
}

impl Arguments {
    fn run(&self, behaviour: Behaviour, stop: &AtomicBool) -> Result<Verdict, Failure> {
        if behaviour != Behaviour::Reset {
            self.check_room()?;
        }
        let queries = Arc::new(self.queries()?);
        let (transport, tls) = match self.transport {
            Line::Tcp => ("tcp", self.trust.needs_tls().map(|()| None)?),
            Line::Tls => ("tls", Some(self.trust.tls(self.target.server, false, Purpose::Queries)?)),
        };
        let hold = Hold {
            server: self.target.address(),
            sources: self.target.sources()?,
            tls,
            connections: self.connections as usize,
            rate: self.rate,
            hold: Duration::from_secs_f64(self.seconds),
            behaviour,
            queries: &queries,
        };
        let reporter = Reporter::new("open", transport);
        let since = clock::real();
        let (held, probes) = self.with_probes(&queries, || {
            hold.run(stop, |held| {
                let message = format!("{} connections are open, {} failed", held.open, held.failed);
                let figures = json!({"open": held.open, "failed": held.failed, "seconds": held.open_s});
                reporter.event("open", &message, figures);
            })
        })?;
        let held = held.map_err(Failure::system("holding connections"))?;
        let invalid_because = invalid_because(&held, probes.as_ref());
        let figures = figures(&held, &invalid_because);
        let measure = Measure {
            handshakes: held.open,
            handshakes_failed: held.failed,
            handshake_failure: held.first_failure,
            handshake: held.handshake,
            ..probes.unwrap_or_default()
        };
        reporter
            .sum(&Outcome { since, until: clock::real(), measure }, figures)
            .map_err(Failure::system("writing results"))?;
        Ok(verdict(&invalid_because))
    }

    /// Refuses what cannot be held at a time for want of descriptors or ports.
    fn check_room(&self) -> Result<(), Failure> {
        let (connections, sources) = (u64::from(self.connections), u64::from(self.target.sources));
        let descriptors = limit::raise_descriptors().map_err(Failure::system("the limit of descriptors"))?;
        let wanted = connections + OTHER_DESCRIPTORS;
        if wanted > descriptors {
            return Err(Failure::Input(format!(
                "--connections {connections}: this process may have {descriptors} descriptors; allow {wanted} \
                 (`ulimit -n`, LimitNOFILE=), or run several at a time, each with a --source-prefix of its own"
            )));
        }
        let ports = limit::ephemeral_ports().unwrap_or(u64::MAX);
        if connections > ports.saturating_mul(sources) {
            let wanted = connections.div_ceil(ports);
            return Err(Failure::Input(format!(
                "--connections {connections}: an address has {ports} ports (net.ipv4.ip_local_port_range); \
                 ask from more of them, as --sources {wanted} --source-prefix 127.1.0.0/16 on loopback"
            )));
        }
        Ok(())
    }

    fn queries(&self) -> Result<Queries, Failure> {
        let Some(path) = &self.queries else {
            return file::read(b". SOA", &Dress::default()).map_err(Failure::input("the query"));
        };
        let queries = file::read(&read(path)?, &Dress::default()).map_err(Failure::input(path.display()))?;
        if queries.is_empty() { Err(Failure::Input(format!("{}: no queries", path.display()))) } else { Ok(queries) }
    }

    /// Runs `hold` with a thread of probes beside it, if they are wanted.
    fn with_probes<T>(
        &self,
        queries: &Arc<Queries>,
        hold: impl FnOnce() -> T,
    ) -> Result<(T, Option<Measure>), Failure> {
        let Some(probe_ms) = self.probe_ms else { return Ok((hold(), None)) };
        // Longer than anything is held; the end of `hold` ends it.
        let profile = Profile::flat(1000.0 / f64::from(probe_ms), 1e7);
        let job = Job {
            server: SocketAddr::new(self.target.server, self.probe_port.unwrap_or(self.target.port)),
            transport: Transport::Udp,
            tcp_share: 0.0,
            connections: 1,
            queries_per_connection: 0,
            sources: None,
            bunch: 1,
            tls: None,
            key: None,
            queries: queries.clone(),
            verifier: Verifier::Question,
            timing: Timing::Rate(profile, Arrivals::Constant),
            warm_up: Duration::ZERO,
            timeout: Duration::from_secs(1),
            interval: Duration::from_secs(1),
            cpus: Vec::new(),
        };
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let probes = scope.spawn(|| job.run(&is_over, |_| ()));
            let held = hold();
            is_over.store(true, Ordering::Relaxed);
            let outcome = probes.join().expect("workers do not panic").map_err(Failure::system("probing"))?;
            Ok((held, Some(outcome.measure)))
        })
    }
}

fn invalid_because(held: &Held, probes: Option<&Measure>) -> Vec<String> {
    let mut reasons = probes.map(Measure::faults).unwrap_or_default();
    if held.failed > 0 {
        let why = held.first_failure.as_deref().unwrap_or("unknown");
        reasons.push(format!("{} connections could not be opened; the first one: {why}", held.failed));
    }
    reasons
}

fn figures(held: &Held, invalid_because: &[String]) -> Map<String, Value> {
    let figures = json!({
        "open": held.open,
        "failed": held.failed,
        "open_s": held.open_s,
        "held_responses": held.responses,
        "closed_by_peer": held.closed_by_peer,
        "first_closed_s": held.first_closed_s,
        "last_closed_s": held.last_closed_s,
        "invalid_because": invalid_because,
    });
    figures.as_object().cloned().unwrap_or_default()
}
