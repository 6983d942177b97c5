//! `zonda serve`: start, signals, stop.
//!
//! The main thread waits for signals. The writer thread owns the zones and publishes them (`writer.rs`), pool threads read
//! zone files for it, listener threads answer queries, and others serve the control socket and write the log.

use std::collections::HashSet;
use std::io;
use std::iter;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use netio::signal::{Signal, Signals};
use tracing::{error, info, warn};
use wire::Name;
use wire::message::Rcode;
use zone::Finding;

use crate::cli;
use crate::command::{print_findings, read_config};
use crate::config::value::{FilePath, TlsEndpoint};
use crate::config::{Config, LogFormat, LogLevel, Server, octet_limit};
use crate::control::{self, ControlRequest, ControlSocket};
use crate::control_service::ControlService;
use crate::essential_thread;
use crate::frozen_zones::{self, FrozenZones};
use crate::listen::{self, EventSinks, ListenError, ListenerThreads, Listeners, ZoneResponder};
use crate::listener_setup::{addresses, listen_config, needed_files};
use crate::log::{self, Log};
use crate::open_files::{self, TooFewFiles};
use crate::persistence::{JournalError, Persistence};
use crate::privileges::{self, UserError};
use crate::report::FindingReport;
use crate::sources::Sources;
use crate::state_dir::{self, StateDir, StateDirError};
use crate::storage::disk::StateFolder;
use crate::storage::{StorageThread, StoreLimits};
use crate::systemd_notify::Notifier;
use crate::tls::{DaemonTls, TlsFileError};
use crate::write_help::write_help;
use crate::writer::{self, ControlEvent, EventQueue, Writer, WriterError, WriterHandle, WriterSetup, log_finding};
use crate::zones::check_command;
use crate::zones::journal::{NoJournal, ZoneJournal};

/// Why a daemon does not start. The message says what to do.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error(transparent)]
    Files(#[from] TooFewFiles),
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error(transparent)]
    StateDir(#[from] StateDirError),
    #[error(transparent)]
    User(#[from] UserError),
    #[error(transparent)]
    Tls(#[from] TlsFileError),
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Writer(#[from] WriterError),
    #[error("{0}: {1}")]
    System(&'static str, io::Error),
}

/// Reload requests that may wait: one for every client of the control socket, and some for SIGHUP.
const MAX_WAITING_RELOADS: usize = 2 * control::RELOADS;

/// Serves until SIGTERM or SIGINT.
pub fn serve(arguments: &cli::ServeArguments) -> ExitCode {
    // Before any thread starts: threads inherit the blocked signals.
    let signals = match Signals::block() {
        Ok(signals) => signals,
        Err(error) => {
            eprintln!("zonda: cannot block signals: {error}");
            return ExitCode::FAILURE;
        }
    };
    netio::malloc::configure_heaps();
    let sources = Sources::of_serve(arguments);
    let config = match read_config(&sources) {
        Ok(config) => config,
        Err(mistakes) => {
            report_mistakes(&mistakes, &sources);
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

/// Prints what is wrong with the configuration: in the log's form where a program reads it, and else as `zonda check` does.
fn report_mistakes(mistakes: &[Finding], sources: &Sources) {
    let format = sources.log_format.unwrap_or(LogFormat::Text);
    if format == LogFormat::Text && !log::is_journal() {
        return print_findings(mistakes);
    }
    Log::start(LogLevel::Info, format);
    mistakes.iter().for_each(|mistake| log_finding(&FindingReport::new(mistake, None)));
    log::flush();
}

/// Starts in this order: what needs root first, then drop privileges, and only then open the state-dir and read zones.
fn run(signals: &Signals, sources: Sources, config: Config, log: Log) -> Result<(), StartError> {
    info!(version = env!("CARGO_PKG_VERSION"), process = std::process::id(), "zonda starts");
    config.warnings.iter().for_each(|warning| log_finding(&FindingReport::new(warning, None)));
    open_files::raise_limit(needed_files(&config.server))?;
    let state_dir = prepare_state_dir(&config.server)?;
    let (listeners, tls) = bind_listeners(&config.server)?;
    privileges::drop_to_user(&config.server)?;
    if config.server.user.is_some()
        && let Some(warning) = tls.check_after_start(&config.server)
    {
        log_finding(&FindingReport::new(&warning, None));
    }
    // It stays open and locked until the end: the paths of its files are by its descriptor.
    let state_dir = open_state_dir(&config.server, &state_dir)?.map(Arc::new);
    let (handle, queue) = writer::queue(MAX_WAITING_RELOADS);
    let (journal, storage) = open_journal(&config, state_dir.as_deref(), &queue)?;
    let frozen_zones = state_dir.as_deref().map(|state_dir| open_frozen_zones(state_dir, &handle)).transpose()?;
    let control = state_dir.clone().map(|state_dir| open_control_socket(&config.server, state_dir)).transpose()?;
    let control = control.flatten().map(Arc::new);
    let mut writer = Writer::new(WriterSetup { config, sources, log, tls, queue, journal })?;
    let frozen_zones = frozen_zones.map(|(frozen_before, frozen_zones)| {
        let removed_from = frozen_zones.clone();
        writer.freeze_later(frozen_before, move || removed_from.store_soon());
        frozen_zones
    });
    match &state_dir {
        Some(state_dir) => writer.open_added_zones(StateFolder::of_state_dir(state_dir)),
        None => writer.keep_stored_zones(),
    }
    let (notify_handle, update_handle) = (handle.clone(), handle.clone());
    let sinks = EventSinks {
        notify: Arc::new(move |notify| notify_handle.notify_received(notify)),
        update: Arc::new(move |update| update_handle.update_received(update)),
    };
    let threads = listeners
        .serve(|| ZoneResponder::new(writer.subscribe(), sinks.clone()))
        .map_err(|error| StartError::System("cannot start the listeners", error))?;
    let service = |frozen_zones| {
        let (transfers, reader) = (writer.transfers(), writer.occasional_reader());
        ControlService::new(handle.clone(), transfers, reader, frozen_zones, threads.counters().clone())
    };
    let services = iter::repeat_n(frozen_zones, control::CLIENTS + control::RELOADS);
    let services: Vec<ControlService> = services.flatten().map(service).collect();
    essential_thread::spawn("writer", move || writer.run())
        .map_err(|error| StartError::System("cannot start a thread", error))?;
    if let Some(control) = &control {
        start_control(control, services)?;
    }
    wait_for_stop(signals, &handle, &threads);
    stop(&handle, storage, control, threads);
    info!("zonda has stopped");
    Ok(())
}

/// Stops in this order: commands, so that nothing waits for one; what is to be kept; the control socket; the listeners, which answer
/// what has arrived.
fn stop(
    handle: &WriterHandle,
    storage: Option<StorageThread>,
    control: Option<Arc<ControlSocket>>,
    threads: ListenerThreads,
) {
    Notifier::from_environment().stopping();
    check_command::end_all();
    if let Some(storage) = storage {
        handle.prepare_stop();
        storage.stop();
    }
    if let Some(control) = control {
        control.close();
    }
    threads.stop();
}

/// Handles signals until one says to stop.
fn wait_for_stop(signals: &Signals, handle: &WriterHandle, threads: &ListenerThreads) {
    loop {
        match signals.wait(Duration::from_secs(3600)) {
            None => (),
            // A full queue is as good: see `request_reload`.
            Some(Signal::Hangup) => _ = handle.request_reload(None),
            Some(Signal::User1) => log_counters(threads),
            Some(signal @ (Signal::Terminate | Signal::Interrupt)) => {
                info!(?signal, "stopping");
                return;
            }
        }
    }
}

fn log_counters(threads: &ListenerThreads) {
    for (transport, totals) in threads.counters().totals() {
        let counts = listen::METRICS.iter().zip(totals.values());
        let rcodes = (0..).zip(totals.rcodes).filter(|(_, count)| *count > 0);
        let counts = counts.map(|(metric, count)| format!("{}={count}", metric.name));
        let counts: Vec<String> =
            counts.chain(rcodes.map(|(rcode, count)| format!("{}={count}", Rcode(rcode)))).collect();
        info!(transport, "{}", counts.join(" "));
    }
}

//----------- steps of the start -------------------------------------------------

/// Creates the state-dir for the user that zonda will run as; returns its path. The default one may fail:
/// [`open_control_socket`] reports that.
fn prepare_state_dir(server: &Server) -> Result<PathBuf, StartError> {
    let path = server.state_dir.clone().map_or_else(state_dir::default_path, |FilePath(path)| path);
    let user = privileges::configured_user(server)?;
    let prepared = user.map_or(Ok(()), |user| state_dir::prepare(&path, &user));
    match prepared {
        Err(error) if server.has_own_state_dir() => Err(error.into()),
        _ => Ok(path),
    }
}

/// Binds the sockets, and reads the certificates and keys, which root alone may be allowed to.
fn bind_listeners(server: &Server) -> Result<(Listeners, DaemonTls), StartError> {
    let mut listeners = listen::bind(&addresses(server), &listen_config(server))?;
    log_addresses(listeners.addresses(), "listening");
    let tls = DaemonTls::start(server)?;
    if let Some(server_tls) = tls.server() {
        let addresses = |endpoints: &[TlsEndpoint]| -> Vec<SocketAddr> {
            endpoints.iter().map(|TlsEndpoint(address)| *address).collect()
        };
        listeners.bind_tls(&addresses(&server.listen_tls), server_tls)?;
        log_addresses(listeners.tls_addresses(), "listening for TLS");
        listeners.bind_quic(&addresses(&server.listen_quic), server_tls)?;
        log_addresses(listeners.quic_addresses(), "listening for QUIC");
    }
    Ok((listeners, tls))
}

fn log_addresses(addresses: &[SocketAddr], what: &str) {
    for address in addresses {
        info!(%address, "{what}");
    }
}

/// Opens the state-dir. Only one of its own must be usable.
fn open_state_dir(server: &Server, path: &Path) -> Result<Option<StateDir>, StartError> {
    let state_dir = or_warn(!server.has_own_state_dir(), StateDir::open(path))?;
    if let Some(state_dir) = &state_dir {
        prepare_check_folder(state_dir);
    }
    Ok(state_dir)
}

fn prepare_check_folder(state_dir: &StateDir) {
    match state_dir.check_folder() {
        Ok(folder) => check_command::use_folder(folder),
        Err(error) => {
            let help = write_help(&error, "the state-dir");
            warn!(
                help,
                "`checks` in the state-dir cannot be used: files for check commands go to the folder for temporary files: {error}"
            );
        }
    }
}

/// The zones that were frozen before the start, and what stores those that are.
fn open_frozen_zones(state_dir: &StateDir, handle: &WriterHandle) -> Result<(HashSet<Name>, FrozenZones), StartError> {
    let unreadable = |error| StartError::System("`frozen-zones` in the state-dir cannot be read", error);
    let folder = StateFolder::of_state_dir(state_dir).map_err(unreadable)?;
    let before = frozen_zones::read(&folder).map_err(unreadable)?;
    let handle = handle.clone();
    let names = move || handle.ask(|reply| ControlEvent::FrozenZones { reply }).recv().ok();
    let frozen_zones = FrozenZones::start(folder, names);
    Ok((before, frozen_zones.map_err(|error| StartError::System("cannot start a thread", error))?))
}

/// Opens the control socket in the state-dir. Without one, as on a disk that is full, zones are served all the same, unless `state-dir` is set.
fn open_control_socket(server: &Server, state_dir: Arc<StateDir>) -> Result<Option<ControlSocket>, StartError> {
    let path = state_dir.path().to_owned();
    let opened = ControlSocket::open(state_dir, server.control_by_group);
    or_warn(server.state_dir.is_none(), opened.map_err(|error| StateDirError::Unusable(path, error)))
}

/// Without a control socket there is no `zonda reload`, but SIGHUP.
fn or_warn<T>(is_optional: bool, opened: Result<T, StateDirError>) -> Result<Option<T>, StartError> {
    match opened {
        Ok(opened) => Ok(Some(opened)),
        Err(error) if is_optional => {
            warn!("`zonda reload` cannot reach this daemon, only SIGHUP: {error}");
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Opens the journal in a state-dir of its own: of the daemons that share the default one, each would remove the zones of the others.
fn open_journal(
    config: &Config,
    state_dir: Option<&StateDir>,
    queue: &EventQueue,
) -> Result<(Box<dyn ZoneJournal>, Option<StorageThread>), StartError> {
    let Some(state_dir) = state_dir.filter(|_| config.server.has_own_state_dir()) else {
        if config.zones.iter().any(|zone| zone.source.is_changed_here()) {
            let help = "set `state-dir` in [server]";
            warn!(help, "transfers, updates and serials by `serial-policy` are not kept when zonda is restarted");
        }
        return Ok((Box::new(NoJournal), None));
    };
    let history_total = octet_limit(config.server.max_journal_total_bytes.0);
    let limits = StoreLimits { history_total, ..StoreLimits::default() };
    let (journal, storage) = Persistence::open(state_dir, limits, queue.journal_sender())?;
    Ok((Box::new(journal), Some(storage)))
}

/// Starts the threads of the control socket, each with a service of its own: [`control::CLIENTS`] for requests that are answered at once,
/// the others for reloads.
fn start_control(control: &Arc<ControlSocket>, services: Vec<ControlService>) -> Result<(), StartError> {
    for (index, mut service) in services.into_iter().enumerate() {
        let control = control.clone();
        spawn("control", move || match index < control::CLIENTS {
            true => control.serve(|request| service.respond(request)),
            false => control.serve_reloads(|| service.respond(ControlRequest::Reload).0),
        })?;
    }
    Ok(())
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), StartError> {
    let spawned = thread::Builder::new().name(name.into()).spawn(work);
    spawned.map(|_| ()).map_err(|error| StartError::System("cannot start a thread", error))
}
