//! `zonda tune`: passes what the configuration says to the crate `tune`, and prints its advice.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::ExitCode;

use serde::Serialize;
use tune::advice::workload::DerivedLimits;
use tune::advice::{Symptom, symptoms};
use tune::apply::{self, Change};
use tune::render::{files, manual, notes, table};
use tune::{Case, Host, Role, Row, Server, ServerFacts, Workload};

use super::{fail, json, print, print_findings, read_config};
use crate::cli::{TuneArguments, TuneRole, TuneServer, ZoneArguments};
use crate::config::{self, Config};
use crate::listen::QUIC_CONNECTION_MEMORY;
use crate::listener_setup::{addresses, listen_config, reserved_files};
use crate::open_files;
use crate::printable::Printable;
use crate::sources::Sources;
use crate::tls::SESSION_MEMORY;

/// The connections to advise for where neither the command line nor the configuration has a number.
const CONNECTIONS: u64 = 10_000;

/// The result as JSON.
#[derive(Serialize)]
struct TuneReport<'a> {
    settings: &'a [Row],
    symptoms: &'a [Symptom],
    notes: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    written: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    applied: Option<Vec<AppliedChange>>,
}

/// A change with the command that undoes it.
#[derive(Serialize)]
struct AppliedChange {
    #[serde(flatten)]
    change: Change,
    undo: String,
}

/// Prints advice; with `--write` and `--apply` acts on it.
pub fn run(arguments: &TuneArguments) -> ExitCode {
    if arguments.list {
        return print(&manual::markdown());
    }
    let server = server(arguments);
    let host = match Host::read(&arguments.root, server.process().0) {
        Ok(host) => host,
        Err(error) => return fail(&error.to_string()),
    };
    let Some(case) = case(arguments, server, &host) else { return ExitCode::FAILURE };
    let mut rows = tune::advise(&case);
    if let Some(unknown) = keep_only(&mut rows, &arguments.only) {
        return fail(&format!("there is no setting {unknown} (help: `zonda tune --list` lists them)"));
    }
    let notes = notes::notes(&case, &rows);
    let written = match arguments.write.as_deref().map(|folder| write(&case, &rows, folder)) {
        Some(Err(error)) => return fail(&cannot_write(&error, arguments.apply)),
        Some(Ok(written)) => Some(written),
        None => None,
    };
    let applied = arguments.apply.then(|| apply::apply(&arguments.root, &rows));
    let failed = applied.iter().flatten().any(|change| change.error.is_some());
    let undo: Vec<String> =
        applied.iter().flatten().filter(|change| change.error.is_none()).map(Change::undo).collect();
    let symptoms = symptoms(&case);
    let text = match arguments.json {
        true => json(&TuneReport {
            settings: &rows,
            symptoms: &symptoms,
            notes: &notes,
            written,
            applied: applied.map(with_undo),
        }),
        false => match (written, applied) {
            (None, None) => table::text(&case, &rows, &symptoms, &notes),
            (written, applied) => {
                action_text(&written.unwrap_or_default(), &applied.unwrap_or_default(), &notes, arguments)
            }
        },
    };
    // Values of the host can hold any octets.
    let text = text.lines().map(|line| format!("{}\n", Printable(line))).collect::<String>();
    let printed = print(&text);
    if printed != ExitCode::SUCCESS {
        // On a full disk, for example: how to undo what was set must not be lost.
        undo.iter().for_each(|command| eprintln!("zonda: to undo it: {}", Printable(command)));
    }
    if failed { ExitCode::FAILURE } else { printed }
}

fn cannot_write(error: &std::io::Error, wants_apply: bool) -> String {
    let nothing = if wants_apply { ", and nothing was set" } else { "" };
    format!("the files cannot be written{nothing}: {error}")
}

/// The server that the advice is for.
fn server(arguments: &TuneArguments) -> Server {
    match arguments.server {
        TuneServer::Zonda => Server::Zonda,
        TuneServer::Nsd => Server::Nsd,
        TuneServer::Knot => Server::Knot,
        TuneServer::Bind => Server::Bind,
    }
}

/// What the advice is computed from; `None` if the configuration has mistakes, which are printed.
fn case<'a>(arguments: &TuneArguments, server: Server, host: &'a Host) -> Option<Case<'a>> {
    let sources = Sources::new(&arguments.config, &ZoneArguments::default());
    // Without a configuration the defaults of the server are what it would run with.
    let config = match sources.is_empty() {
        true => Config::default(),
        false => read_config(&sources).inspect_err(|mistakes| print_findings(mistakes)).ok()?,
    };
    let role = match arguments.role {
        TuneRole::Udp => Role::Udp,
        TuneRole::Tcp => Role::Tcp,
        TuneRole::Secondary => Role::Secondary,
        TuneRole::Primary => Role::Primary,
    };
    let workload = Workload {
        server,
        role,
        connections: arguments.connections.unwrap_or(match config.server.tcp_connections.0 {
            0 => CONNECTIONS,
            configured => configured.into(),
        }),
        zones: arguments.zones.unwrap_or(config.zones.len().max(1) as u64),
        rate: arguments.rate,
    };
    let facts = if server == Server::Zonda {
        server_facts(&config, host)
    } else {
        ServerFacts { addresses: 1, ..ServerFacts::default() }
    };
    Some(Case { host, workload, server: facts })
}

/// What the configuration says about this server.
fn server_facts(config: &Config, host: &Host) -> ServerFacts {
    let server = &config.server;
    let listen = listen_config(server);
    let addresses = addresses(server).len().max(1);
    let options: BTreeMap<&'static str, String> = [
        ("tcp-connections", server.tcp_connections.0),
        ("tcp-connections-per-client", server.tcp_connections_per_client.0),
        ("quic-connections", server.quic_connections.0),
        ("workers", server.workers.0),
        ("tcp-idle-timeout-ms", server.tcp_idle_timeout_ms.0),
    ]
    .map(|(name, value)| (name, value.to_string()))
    .into();
    // By default it has one for each of its own processors, which need not be those of this shell.
    let workers = if server.workers.0 == 0 { host.cpus.usable() } else { listen.workers };
    ServerFacts {
        workers: Some(workers as u64),
        addresses: addresses as u64,
        reserved: reserved_files(server, workers) as u64,
        receive_buffer: Some(listen.udp.receive_buffer as u64),
        derived_limits: Some(DerivedLimits {
            connections: open_files::connections_within,
            quic_connections: open_files::quic_connections_within,
        }),
        ports: ports(server),
        tls_octets: if server.listen_tls.is_empty() { 0 } else { SESSION_MEMORY as u64 },
        quic_octets: if server.listen_quic.is_empty() { 0 } else { QUIC_CONNECTION_MEMORY },
        idle_s: listen.idle_timeout.as_secs(),
        options,
    }
}

/// The ports of all listeners.
fn ports(server: &config::Server) -> BTreeSet<u16> {
    let encrypted = server.listen_tls.iter().chain(&server.listen_quic).map(|endpoint| endpoint.0);
    addresses(server).into_iter().chain(encrypted).map(|address| address.port()).collect()
}

/// Keeps the rows that were asked for; a name without a row is returned.
fn keep_only<'a>(rows: &mut Vec<Row>, only: &'a [String]) -> Option<&'a str> {
    if let Some(unknown) = only.iter().find(|name| rows.iter().all(|row| row.name != name.as_str())) {
        return Some(unknown);
    }
    rows.retain(|row| only.is_empty() || only.iter().any(|name| name == row.name));
    None
}

fn write(case: &Case, rows: &[Row], folder: &Path) -> std::io::Result<Vec<String>> {
    let written = files::write(folder, &files::plan(case, rows))?;
    Ok(written.iter().map(|path| path.display().to_string()).collect())
}

fn with_undo(changes: Vec<Change>) -> Vec<AppliedChange> {
    changes.into_iter().map(|change| AppliedChange { undo: change.undo(), change }).collect()
}

/// What was written and set, and how to go on or back.
fn action_text(written: &[String], applied: &[Change], notes: &[String], arguments: &TuneArguments) -> String {
    let mut text: String = written.iter().map(|path| format!("written: {path}\n")).collect();
    if !written.is_empty() {
        text += "Read them, copy them to /etc/sysctl.d, /etc/security/limits.d and /etc/systemd/system, then run\n  \
                 sysctl --system; systemctl daemon-reload\nand restart the server\n";
    } else if arguments.write.is_some() {
        text += "no setting needs a change: no file was written\n";
    }
    for change in applied {
        text += &match &change.error {
            Some(error) => format!("not set: {} = {}: {error}\n", change.name, change.asked),
            None => format!(
                "set: {} = {} (was {})\n",
                change.name,
                change.after.as_deref().unwrap_or(&change.asked),
                change.before
            ),
        };
    }
    let set: Vec<&Change> = applied.iter().filter(|change| change.error.is_none()).collect();
    if !set.is_empty() {
        text += "Until the next start of the host. To undo it:\n";
        text += &set.iter().map(|change| format!("  {}\n", change.undo())).collect::<String>();
    } else if arguments.apply && applied.is_empty() {
        text += "no sysctl needs a change: nothing was set\n";
    }
    text + &notes.iter().map(|note| format!("note: {note}\n")).collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::value::TlsEndpoint;

    /// As many as the server itself reserves: it has a socket of each thread for each of them.
    #[test]
    fn descriptors_are_reserved_for_the_addresses_of_every_transport() {
        let host = Host::read(Path::new("/"), "zonda").expect("this host");
        let reserved = |addresses: u16| {
            let mut config = Config::default();
            config.server.listen_tls =
                (0..addresses).map(|number| TlsEndpoint(([127, 0, 0, 1], 8530 + number).into())).collect();
            server_facts(&config, &host).reserved
        };
        assert!(reserved(16) > reserved(1));
    }
}
