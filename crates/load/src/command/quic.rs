//! `zonda-load quic`: queries over QUIC, or idle QUIC connections.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::input::{Input, expectations};
use super::number::{rate, seconds, seconds_or_none};
use super::target::Target;
use super::tls_tsig::TlsClientArguments;
use super::{CommandError, Validity, conclude};
use crate::quic::{QuicConfig, TIMEOUT};
use crate::report::{ReportHeader, Reporter, handshakes};
use crate::run::RunResult;
use crate::tls::Purpose;
use crate::verify::ResponseChecker;

/// Arguments of `zonda-load quic`.
#[derive(Debug, Args)]
#[command(mut_arg("port", |port| port.default_value("853")))]
pub struct QuicArguments {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    tls: TlsClientArguments,
    #[command(flatten)]
    input: Input,
    /// File of expected responses, a line for each query: `RCODE answer|referral|nodata|nxdomain`
    #[arg(long, value_name = "FILE")]
    expect: Option<PathBuf>,
    /// Number of connections
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    connections: u32,
    /// Connections opened per second
    #[arg(long, value_parser = rate, default_value_t = 1000.0)]
    rate: f64,
    /// Number of outstanding queries on all connections together; one without an answer is lost after a second, and another takes its
    /// place; 0: the connections are idle
    #[arg(long, value_name = "N", default_value_t = 200)]
    outstanding: u32,
    /// Open loop: queries per second, on each connection in turn
    #[arg(long, value_name = "RATE", value_parser = rate, conflicts_with_all = ["outstanding", "queries_per_connection"])]
    query_rate: Option<f64>,
    /// Close a connection after this many queries, and open another one; 0: when the server gives it no more streams, or answers
    /// nothing on it for a second
    #[arg(long, default_value_t = 0, value_name = "N")]
    queries_per_connection: u32,
    /// Resume sessions; without it, every connection makes a full handshake
    #[arg(long)]
    resume: bool,
    /// Duration of the warm-up, once all connections are open
    #[arg(long, value_name = "SECONDS", value_parser = seconds_or_none, default_value_t = 1.0)]
    warm_up: f64,
    /// Duration without the warm-up
    #[arg(long, value_parser = seconds, default_value_t = 10.0)]
    seconds: f64,
}

pub fn run(arguments: &QuicArguments, stop: &AtomicBool) -> Result<Validity, CommandError> {
    let queries = arguments.input.queries()?;
    let config = QuicConfig {
        server: arguments.target.address(),
        sources: arguments.target.sources()?,
        tls: &arguments.tls.config(arguments.target.server, arguments.resume, Purpose::Transfers)?,
        connections: arguments.connections as usize,
        rate: arguments.rate,
        outstanding: match arguments.query_rate {
            Some(_) => 0,
            None => arguments.outstanding as usize,
        },
        query_rate: arguments.query_rate,
        queries_per_connection: arguments.queries_per_connection.into(),
        warm_up: Duration::from_secs_f64(arguments.warm_up),
        duration: Duration::from_secs_f64(arguments.seconds),
        queries: &queries,
        checker: match &arguments.expect {
            Some(path) => expectations(path, &queries)?,
            None => ResponseChecker::Question,
        },
    };
    let loop_kind = if arguments.query_rate.is_some() { "open" } else { "closed" };
    let connections = Some("quic_conn");
    let header = ReportHeader {
        loop_kind,
        transport: "quic",
        connections,
        timeout: TIMEOUT,
        sending: if config.asks() { json!({"burst": 1, "order": "file", "timestamps": "user"}) } else { Value::Null },
        ..ReportHeader::default()
    };
    let reporter = Reporter::new(header);
    let run = config.run(stop, |opened| {
        let message = format!("{} connections are open", opened.open);
        reporter.event("open", &message, json!({"open": opened.open, "seconds": opened.opening.as_secs_f64()}));
    });
    let result = run.map_err(CommandError::system("asking over QUIC"))?;
    let mut invalid_because = if config.asks() { result.metrics.invalid_because() } else { Vec::new() };
    let missing = config.connections.saturating_sub(result.open);
    if missing > 0 {
        let why = result.opening_metrics.handshake_failure.as_deref().unwrap_or("no answer");
        invalid_because.push(format!("{missing} connections could not be opened; the first one: {why}"));
    }
    let mut opening = handshakes(&result.opening_metrics);
    opening["seconds"] = json!(result.opening.as_secs_f64());
    let figures = json!({"open": result.open, "opening": opening, "invalid_because": invalid_because});
    let (since, until) = (result.until.saturating_sub(result.counted), result.until);
    let run = RunResult { since, until, metrics: result.metrics, busy: result.busy };
    conclude(reporter.write_sum(&run, figures), &invalid_because)
}
