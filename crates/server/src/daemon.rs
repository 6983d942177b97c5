//! `zonda serve`: the order of a start, what signals and requests do, the end.
//!
//! The main thread waits for signals. One thread, the writer, owns the zones and publishes them; others read them for it;
//! one answers the control socket; the listeners have theirs.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use netio::signal::{Signal, Signals};
use tracing::{error, info, warn};

use crate::cli;
use crate::command::{complain, read_config};
use crate::config::{Config, Endpoint, Server};
use crate::control::{self, Control, ControlError};
use crate::listen::{self, BindError, Responder, Running};
use crate::log::Log;
use crate::notify::Notifier;
use crate::report::Finding;
use crate::sources::Sources;
use crate::writer::{self, Job, Jobs, Writer, log_finding};
use crate::zones::Zones;

/// Why a daemon does not start. The message says what to do.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error(transparent)]
    Bind(#[from] BindError),
    #[error(transparent)]
    Control(#[from] ControlError),
    #[error("cannot become the user {0}: {1}; start as root, or leave `user` out")]
    User(String, io::Error),
    #[error("{0}: {1}")]
    System(&'static str, io::Error),
}

/// Reloads that may wait for the one under way: all want the same, so a few are plenty.
const WAITING_RELOADS: usize = 8;

/// Descriptors for what is no TCP connection: sockets of all threads, zone files, the log.
const SPARE_DESCRIPTORS: u64 = 200;

/// Serves until told to stop.
pub fn serve(arguments: &cli::Serve) -> ExitCode {
    // Before any thread is made: they are born with the signals blocked.
    let signals = match Signals::block() {
        Ok(signals) => signals,
        Err(error) => {
            eprintln!("zonda: signals cannot be blocked: {error}");
            return ExitCode::FAILURE;
        }
    };
    netio::memory::fix_map_threshold();
    let sources = Sources::of_serve(arguments);
    let config = match read_config(&sources) {
        Ok(config) => config,
        Err(mistakes) => {
            complain(&mistakes);
            return ExitCode::FAILURE;
        }
    };
    let log = Log::start(config.server.log_level, config.server.log_format);
    match run(&signals, sources, config, log) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// The order of a start: what can fail without harm first, privileges given up before anything is read from zones.
fn run(signals: &Signals, sources: Sources, config: Config, log: Log) -> Result<(), StartError> {
    info!(version = env!("CARGO_PKG_VERSION"), process = std::process::id(), "zonda starts");
    config.warnings.iter().for_each(|warning| log_finding(&Finding::new(warning, None)));
    raise_descriptors(&config.server);
    let control = open_control(&config.server)?.map(Arc::new);
    let listeners = listen::bind(&addresses(&config.server), &listen_options(&config.server))?;
    for address in listeners.addresses() {
        info!(%address, "listening");
    }
    become_user(&config.server, control.as_deref())?;

    let (jobs, queue) = writer::queue(WAITING_RELOADS);
    let mut zones = Zones::new(&config.server, queue.results())
        .map_err(|error| StartError::System("there are no random numbers", error))?;
    zones.configure(config.zones);
    let running = listeners
        .serve(|| Responder::new(zones.reader()))
        .map_err(|error| StartError::System("the listeners' threads cannot be made", error))?;
    let writer = Writer::new(zones, sources, config.server, log, queue);
    spawn("writer", move || writer.run())?;
    if let Some(control) = control.clone() {
        let jobs = jobs.clone();
        spawn("control", move || control.serve(|request| writer::ask(&jobs, request)))?;
    }
    wait(signals, &jobs, &running);
    Notifier::from_environment().stopping();
    if let Some(control) = control {
        control.close();
    }
    running.stop();
    info!("zonda has stopped");
    Ok(())
}

/// Waits until a signal says to stop.
fn wait(signals: &Signals, jobs: &Jobs, running: &Running) {
    loop {
        match signals.wait(Duration::from_secs(3600)) {
            None => (),
            Some(Signal::Hangup) => {
                // If the queue is full, the reloads in it will see what this one would.
                _ = jobs.try_send(Job::new(None));
            }
            Some(Signal::User1) => log_totals(running),
            Some(signal @ (Signal::Terminate | Signal::Interrupt)) => {
                info!(?signal, "stopping");
                return;
            }
        }
    }
}

fn log_totals(running: &Running) {
    for (transport, totals) in [("udp", running.udp_totals()), ("tcp", running.tcp_totals())] {
        let counts = listen::METRICS.iter().zip(totals.values());
        let counts: Vec<String> = counts.map(|(metric, count)| format!("{}={count}", metric.name)).collect();
        info!(transport, rcodes = ?totals.rcodes, "{}", counts.join(" "));
    }
}

//----------- steps of the start -------------------------------------------------

fn raise_descriptors(server: &Server) {
    let wanted = u64::from(server.tcp_connections.0) + SPARE_DESCRIPTORS;
    match netio::limit::raise_descriptors() {
        Err(error) => warn!(%error, "the limit of open descriptors stays as it is"),
        Ok(limit) if limit < wanted => {
            warn!(limit, wanted, "too few descriptors for `tcp-connections`: raise LimitNOFILE= or `ulimit -n`");
        }
        Ok(_) => (),
    }
}

/// Takes the state-dir. One that nobody asked for may be missing: then there is no `zonda reload`, but SIGHUP.
fn open_control(server: &Server) -> Result<Option<Control>, StartError> {
    match &server.state_dir {
        Some(state_dir) => Ok(Some(Control::open(state_dir)?)),
        None => match Control::open(&control::default_state_dir()) {
            Ok(control) => Ok(Some(control)),
            Err(error) => {
                warn!("no `zonda reload` for this one, only SIGHUP: {error}");
                Ok(None)
            }
        },
    }
}

/// The addresses to listen on. The default names IPv6, which the kernel may lack: then only IPv4 is meant.
fn addresses(server: &Server) -> Vec<SocketAddr> {
    let has_ipv6 = Path::new("/proc/net/if_inet6").exists();
    let is_default = server.listen == Server::default().listen;
    let addresses = server.listen.iter().map(|Endpoint(address)| *address);
    addresses.filter(|address| address.is_ipv4() || has_ipv6 || !is_default).collect()
}

fn listen_options(server: &Server) -> listen::Options {
    let processors = netio::pin::allowed().map_or(1, |allowed| allowed.len());
    let or = |count: u32, automatic: usize| if count == 0 { automatic } else { count as usize };
    listen::Options {
        workers: or(server.workers.0, processors),
        tcp_workers: or(server.tcp_workers.0, processors.div_ceil(2)),
        connections: server.tcp_connections.0 as usize,
        connections_per_client: server.tcp_connections_per_client.0 as usize,
        idle_timeout: Duration::from_millis(server.tcp_idle_timeout_ms.0.into()),
        ..listen::Options::default()
    }
}

fn become_user(server: &Server, control: Option<&Control>) -> Result<(), StartError> {
    let Some(user) = &server.user else { return Ok(()) };
    let (name, group) = match user.0.split_once(':') {
        Some((name, group)) => (name, Some(group)),
        None => (user.0.as_str(), None),
    };
    let failed = |error| StartError::User(user.0.clone(), error);
    let identity = netio::privilege::identity(name, group).map_err(failed)?;
    if let Some(control) = control {
        control.give_to(&identity).map_err(failed)?;
    }
    netio::privilege::drop_to(name, group).map_err(failed)?;
    info!(user = identity.user, group = identity.group, "privileges given up");
    Ok(())
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), StartError> {
    let spawned = thread::Builder::new().name(name.into()).spawn(work);
    spawned.map(|_| ()).map_err(|error| StartError::System("a thread cannot be made", error))
}
