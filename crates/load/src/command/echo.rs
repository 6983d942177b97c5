//! `zonda-load echo` and `zonda-load sink`: servers without zones, which show the limits of sockets and of the generator.

use std::sync::atomic::AtomicBool;

use clap::Args;
use netio::clock;
use serde_json::json;

use super::listen::ListenArguments;
use super::{CommandError, Validity, conclude};
use crate::echo::{AnswerRule, EchoConfig, EchoServer, Fault};
use crate::report::{ReportHeader, Reporter, fields};
use crate::tls::Purpose;

/// Arguments of `zonda-load echo` and `zonda-load sink`.
#[derive(Debug, Args)]
pub struct EchoArguments {
    #[command(flatten)]
    listen: ListenArguments,
    /// Port for QUIC; 0: one that the kernel chooses
    #[arg(long, value_name = "PORT", group = "encrypted_port")]
    quic_port: Option<u16>,
    /// Processors to pin threads to, with sockets of their own on each
    #[arg(long, value_delimiter = ',', value_name = "N,N")]
    cpus: Vec<usize>,
    /// Pad answers to this length, by a record of type NULL whose data is copied
    #[arg(long, value_name = "OCTETS", default_value_t = 0)]
    answer_octets: u16,
    /// SO_RCVBUF of UDP sockets
    #[arg(long, value_name = "OCTETS", default_value_t = 8 << 20, value_parser = clap::value_parser!(u32).range(1..))]
    receive_buffer: u32,
    /// Length of the queue of connections that are not accepted yet
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..))]
    backlog: u32,
    /// Faults, to test measurements: stall-every-ms, stall-ms, delay-us (of each batch), drop-every, wrong-every, max-rate, wrong-above
    #[arg(long = "fault", value_name = "NAME=N,...", value_delimiter = ',')]
    faults: Vec<Fault>,
}

pub fn echo(arguments: &EchoArguments, stop: &AtomicBool) -> Result<Validity, CommandError> {
    arguments.run(false, stop)
}

pub fn sink(arguments: &EchoArguments, stop: &AtomicBool) -> Result<Validity, CommandError> {
    arguments.run(true, stop)
}

impl EchoArguments {
    fn run(&self, soa_only: bool, stop: &AtomicBool) -> Result<Validity, CommandError> {
        let config = self.config(soa_only)?;
        let listening = CommandError::system(format!("listening on {}", config.address));
        let server = EchoServer::bind(&config).map_err(listening)?;
        let reporter = Reporter::new(ReportHeader { transport: "mixed", ..ReportHeader::default() });
        let port = server.local_addr().port();
        let figures = json!({
            "port": port,
            "tls_port": server.tls_addr().map(|address| address.port()),
            "quic_port": server.quic_addr().map(|address| address.port()),
            "threads": server.thread_count(),
            "receive_buffer": server.receive_buffer(),
        });
        reporter.event("ready", &format!("answering on port {port}"), figures);
        let (since, began) = (clock::real(), clock::monotonic_exact());
        let counters = server.run(stop).map_err(CommandError::system("serving"))?;
        let mut figures = fields(counters);
        figures["seconds"] = json!((clock::monotonic_exact() - began).as_secs_f64());
        figures["invalid_because"] = json!([]);
        conclude(reporter.write_totals(since, clock::real(), counters.total(), figures), &[])
    }

    fn config(&self, soa_only: bool) -> Result<EchoConfig, CommandError> {
        Ok(EchoConfig {
            address: self.listen.address(),
            tls: self.listen.tls(Purpose::Queries)?,
            quic: self.listen.with_tls(self.quic_port, Purpose::Queries)?,
            cpus: self.cpus.clone(),
            rule: AnswerRule { soa_only, answer_len: self.answer_octets.into() },
            faults: self.faults.iter().collect(),
            receive_buffer: self.receive_buffer as usize,
            backlog: self.backlog,
        })
    }
}
