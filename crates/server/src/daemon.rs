//! `zonda serve`: the order of a start, what signals and requests do, the end.
//!
//! The main thread waits for signals. One thread, the writer, owns the zones and publishes them; others read them for it;
//! some answer the control socket, one writes the log; the listeners have theirs.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use netio::privilege::{self, Identity};
use netio::signal::{Signal, Signals};
use tracing::{error, info, warn};

use crate::cli;
use crate::command::{complain, read_config};
use crate::config::value::Text;
use crate::config::{Config, Endpoint, Server};
use crate::control::{self, ControlSocket};
use crate::listen::{self, ListenError, ListenerThreads, ZoneResponder};
use crate::log::{self, Log};
use crate::notify::Notifier;
use crate::report::FindingReport;
use crate::sources::Sources;
use crate::state_dir::{self, StateDir, StateDirError};
use crate::writer::{self, ReloadRequest, Writer, WriterHandle, log_finding};
use crate::zones::ZoneRegistry;
use crate::zones::read_pool::MAX_STALLED;

/// Why a daemon does not start. The message says what to do.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error(transparent)]
    Bind(#[from] ListenError),
    #[error(transparent)]
    StateDir(#[from] StateDirError),
    #[error("cannot become the user {0}: {1}; start as root, or leave `user` out")]
    User(String, io::Error),
    #[error("{0}: {1}")]
    System(&'static str, io::Error),
}

/// Reloads that may wait for the one under way: one for every client, and some for SIGHUP.
const WAITING_RELOADS: usize = 2 * control::CLIENTS;

/// Descriptors for what is neither a connection nor counted by [`reserved_descriptors`]: the log, the state-dir, configuration
/// files, folders, and what libraries open for a moment.
const OTHER_DESCRIPTORS: usize = 64;

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
    netio::malloc::fix_mmap_threshold();
    let sources = Sources::of_serve(arguments);
    let config = match read_config(&sources) {
        Ok(config) => config,
        Err(mistakes) => {
            complain(&mistakes);
            return ExitCode::FAILURE;
        }
    };
    let log = Log::start(config.server.log_level, config.server.log_format);
    let status = match run(&signals, sources, config, log) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error!("{error}");
            ExitCode::FAILURE
        }
    };
    log::flush();
    status
}

/// The order of a start: what can fail without harm first, privileges given up before anything is read from zones.
fn run(signals: &Signals, sources: Sources, config: Config, log: Log) -> Result<(), StartError> {
    info!(version = env!("CARGO_PKG_VERSION"), process = std::process::id(), "zonda starts");
    config.warnings.iter().for_each(|warning| log_finding(&FindingReport::new(warning, None)));
    let state_dir = prepare_state_dir(&config.server)?;
    let listeners = listen::bind(&addresses(&config.server), &listen_options(&config.server))?;
    for address in listeners.addresses() {
        info!(%address, "listening");
    }
    become_user(&config.server)?;
    let control = open_control(&config.server, &state_dir)?.map(Arc::new);

    let (jobs, queue) = writer::queue(WAITING_RELOADS);
    let mut zones = ZoneRegistry::new(&config.server, queue.results())
        .map_err(|error| StartError::System("there are no random numbers", error))?;
    zones.configure(config.zones);
    let running = listeners
        .serve(|| ZoneResponder::new(zones.subscribe()))
        .map_err(|error| StartError::System("the listeners' threads cannot be made", error))?;
    let Config { server, empty_folders, .. } = config;
    let writer = Writer::new(zones, sources, server, empty_folders, log, queue);
    spawn("writer", move || writer.run())?;
    if let Some(control) = &control {
        for _ in 0..control::CLIENTS {
            let (control, jobs) = (control.clone(), jobs.clone());
            spawn("control", move || control.serve(|request| writer::ask(&jobs, request)))?;
        }
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
fn wait(signals: &Signals, jobs: &WriterHandle, running: &ListenerThreads) {
    loop {
        match signals.wait(Duration::from_secs(3600)) {
            None => (),
            Some(Signal::Hangup) => {
                // If the queue is full, the reloads in it will see what this one would.
                _ = jobs.try_send(ReloadRequest::new(None));
            }
            Some(Signal::User1) => log_totals(running),
            Some(signal @ (Signal::Terminate | Signal::Interrupt)) => {
                info!(?signal, "stopping");
                return;
            }
        }
    }
}

fn log_totals(running: &ListenerThreads) {
    for (transport, totals) in [("udp", running.udp_totals()), ("tcp", running.tcp_totals())] {
        let counts = listen::METRICS.iter().zip(totals.values());
        let counts: Vec<String> = counts.map(|(metric, count)| format!("{}={count}", metric.name)).collect();
        info!(transport, rcodes = ?totals.rcodes, "{}", counts.join(" "));
    }
}

//----------- steps of the start -------------------------------------------------

/// The path of the state-dir, made for the user to become. One that nobody asked for may fail: [`open_control`] says so.
fn prepare_state_dir(server: &Server) -> Result<PathBuf, StartError> {
    let path = server.state_dir.clone().unwrap_or_else(state_dir::default_path);
    let prepared = identity(server)?.map_or(Ok(()), |identity| state_dir::prepare(&path, &identity));
    match prepared {
        Err(error) if server.state_dir.is_some() => Err(error.into()),
        _ => Ok(path),
    }
}

/// Takes the state-dir. One that nobody asked for may be missing: then there is no `zonda reload`, but SIGHUP.
fn open_control(server: &Server, path: &Path) -> Result<Option<ControlSocket>, StartError> {
    let control = StateDir::open(path).and_then(|state_dir| {
        ControlSocket::open(state_dir).map_err(|error| StateDirError::Unusable(path.to_owned(), error))
    });
    match control {
        Ok(control) => Ok(Some(control)),
        Err(error) if server.state_dir.is_some() => Err(error.into()),
        Err(error) => {
            warn!("no `zonda reload` for this one, only SIGHUP: {error}");
            Ok(None)
        }
    }
}

/// The addresses to listen on. The default names IPv6, which the kernel may lack: then only IPv4 is meant.
fn addresses(server: &Server) -> Vec<SocketAddr> {
    let has_ipv6 = Path::new("/proc/net/if_inet6").exists();
    let is_default = server.listen == Server::default().listen;
    let addresses = server.listen.iter().map(|Endpoint(address)| *address);
    addresses.filter(|address| address.is_ipv4() || has_ipv6 || !is_default).collect()
}

fn listen_options(server: &Server) -> listen::ListenConfig {
    let processors = netio::cpu_affinity::allowed_cpus().map_or(1, |allowed| allowed.len());
    let or = |count: u32, automatic: usize| if count == 0 { automatic } else { count as usize };
    let (workers, tcp_workers) = (or(server.workers.0, processors), or(server.tcp_workers.0, processors.div_ceil(2)));
    let reserved = reserved_descriptors(addresses(server).len(), workers, tcp_workers);
    listen::ListenConfig {
        workers,
        tcp_workers,
        connections: connections(server.tcp_connections.0 as usize, reserved),
        connections_per_client: server.tcp_connections_per_client.0 as usize,
        idle_timeout: Duration::from_millis(server.tcp_idle_timeout_ms.0.into()),
        ..listen::ListenConfig::default()
    }
}

/// How many descriptors the daemon may need for all but its TCP connections.
fn reserved_descriptors(addresses: usize, workers: usize, tcp_workers: usize) -> usize {
    let readers = thread::available_parallelism().map_or(1, usize::from) + MAX_STALLED;
    // A TCP thread polls, is woken, and has accepted one connection more before it closes another.
    addresses * (workers + tcp_workers) + 3 * tcp_workers + readers + control::CLIENTS + OTHER_DESCRIPTORS
}

/// How many TCP connections there may be: those configured, or what the limit of descriptors leaves.
fn connections(configured: usize, reserved: usize) -> usize {
    let limit = match netio::resource_limits::raise_open_files() {
        Ok(limit) => usize::try_from(limit).unwrap_or(usize::MAX),
        Err(error) => {
            warn!(%error, "the limit of open files is unknown, and `tcp-connections` may be too many");
            return configured;
        }
    };
    let possible = limit.saturating_sub(reserved).max(1);
    if possible < configured {
        warn!(
            limit,
            reserved,
            "open files are too few for {configured} `tcp-connections`: {possible} are kept at most; raise LimitNOFILE= or `ulimit -n`"
        );
    }
    configured.min(possible)
}

/// Who to become, if anybody.
fn identity(server: &Server) -> Result<Option<Identity>, StartError> {
    let Some((name, group)) = user_and_group(server) else { return Ok(None) };
    privilege::resolve_identity(name, group).map(Some).map_err(|error| StartError::User(name.to_owned(), error))
}

fn become_user(server: &Server) -> Result<(), StartError> {
    let Some((name, group)) = user_and_group(server) else { return Ok(()) };
    let identity = privilege::drop_privileges(name, group).map_err(|error| StartError::User(name.to_owned(), error))?;
    info!(user = identity.user, group = identity.group, "privileges given up");
    Ok(())
}

fn user_and_group(server: &Server) -> Option<(&str, Option<&str>)> {
    let Text(user) = server.user.as_ref()?;
    Some(user.split_once(':').map_or((user, None), |(user, group)| (user, Some(group))))
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), StartError> {
    let spawned = thread::Builder::new().name(name.into()).spawn(work);
    spawned.map(|_| ()).map_err(|error| StartError::System("a thread cannot be made", error))
}
