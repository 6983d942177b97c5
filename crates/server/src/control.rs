//! The control socket in the state-dir: one request per connection; request and response are a line of JSON each.
//!
//! [`ControlSocket`] is the daemon's side, [`request`] that of `zonda reload` and `zonda zone`. Only the daemon's user and root
//! can connect.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tracing::{debug, warn};
use zone::export::TextExport;

use crate::printable::printable_path;
use crate::rate_limited_log::RateLimitedLog;
use crate::report::Report;
use crate::state_dir::{CONTROL_SOCKET, StateDir, within};
use crate::zone_status::ZoneStatus;

/// What a client can request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ControlRequest {
    /// Read the configuration and changed zone files again.
    Reload,
    /// Report the status of zones.
    ZoneStatus {
        /// The zones by name; all if it is empty.
        zones: Vec<String>,
        /// Of all zones, report those from this position on: 0, or `next` of the previous response.
        from: u32,
    },
    /// Do something about zones.
    ZoneAction {
        /// What to do.
        action: ZoneAction,
        /// The zones by name; all if it is empty.
        zones: Vec<String>,
    },
    /// Serve an earlier version of zones again.
    ZoneRollback {
        /// The zones by name.
        zones: Vec<String>,
        /// The serial of the version; none for the version before the current one.
        to: Option<u32>,
    },
    /// Add zones that stay after a restart.
    ZoneAdd {
        /// The zones by name, each with its template.
        zones: Vec<(String, String)>,
    },
    /// Remove zones that were added.
    ZoneRemove {
        /// The zones by name.
        zones: Vec<String>,
    },
    /// Report metrics.
    Metrics,
    /// Send the zone text of a zone after the response.
    ZoneExport {
        /// The zone by name.
        zone: String,
    },
}

impl ControlRequest {
    /// How long to wait for octets of the response; `None` if the daemon may work for any time, or changes something.
    fn max_wait(&self) -> Option<Duration> {
        match self {
            ControlRequest::Metrics | ControlRequest::ZoneStatus { .. } | ControlRequest::ZoneExport { .. } => {
                Some(MAX_READING_WAIT)
            }
            _ => None,
        }
    }
}

/// What can be done about a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ZoneAction {
    /// Ask the primaries for their serial now.
    Refresh,
    /// Transfer the whole zone now, whatever its serial.
    Retransfer,
    /// Notify its secondaries now.
    Notify,
    /// Change the zone no more: not by its file, not by transfers, not by updates.
    Freeze,
    /// Change the zone again.
    Thaw,
}

/// The daemon's response.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ControlResponse {
    /// The reload is done.
    Reloaded(Report),
    /// The status of zones.
    ZoneStatus {
        /// At most [`STATUS_PAGE`] zones, if all were requested.
        zones: Vec<ZoneStatus>,
        /// Where the others begin, if there are more.
        next: Option<u32>,
        /// The zones that do not exist.
        failures: Vec<ZoneFailure>,
    },
    /// What was requested for zones is done or begun.
    ZoneAction {
        /// How many zones it concerns.
        done: usize,
        /// Why it cannot be done for the others.
        failures: Vec<ZoneFailure>,
        /// Why a restart may undo it.
        unsaved: Option<String>,
    },
    /// Metrics in the text format of Prometheus.
    Metrics(String),
    /// Zone text follows, and then [`END_OF_TEXT`].
    ZoneText {
        /// The serial of the version.
        serial: u32,
    },
    /// The request is invalid or cannot be served.
    Refused(String),
}

/// Why something cannot be done for a zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneFailure {
    /// The zone.
    pub zone: String,
    /// The reason.
    pub reason: String,
}

/// The most zones in one response.
pub const STATUS_PAGE: usize = 1000;

/// Why a request failed. The message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// No daemon listens.
    #[error("no zonda answers at {path}: {1} (help: {help})", path = printable_path(.0), help = connect_help(.1))]
    NoDaemon(PathBuf, io::Error),
    /// The daemon ended meanwhile, or something else listens.
    #[error("the zonda at {path} did not answer: {1}", path = printable_path(.0))]
    NoAnswer(PathBuf, io::Error),
}

fn connect_help(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "run this as root or as the user that zonda runs as, or set `control-by-group`"
        }
        io::ErrorKind::ConnectionRefused => "it has ended: start it again",
        _ => "start it, or name its configuration with --config or its state-dir with --state-dir",
    }
}

/// Follows zone text, which has no such octet. Without it the text is incomplete: a connection also ends if the daemon does, or if
/// its client is too slow.
pub const END_OF_TEXT: u8 = 0;

/// Maximum length of a request in octets: enough for some thousand names on a command line.
pub const MAX_REQUEST_LEN: u64 = 1 << 20;

/// How long a client waits for the next octets of a response to a request that only reads something: the daemon may be stopped.
const MAX_READING_WAIT: Duration = Duration::from_millis(if cfg!(test) { 100 } else { 30_000 });

/// How long a client may take to send its request, and to read each part of the response.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a client may take to send its request while every thread waits for one.
const CROWDED_TIMEOUT: Duration = Duration::from_millis(200);

/// Clients served at once, besides those that wait for reloads.
pub const CLIENTS: usize = 8;

/// Clients whose reload is in progress at once.
pub const RELOADS: usize = 8;

/// Clients that wait until their reload can begin: each holds a connection, and more than that is a mistake.
const MAX_WAITING: usize = 256;

/// Pause after a failed accept, so that a lasting error does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Sends a request to the daemon that uses `state_dir` and waits for its response.
pub fn request(state_dir: &Path, request: &ControlRequest) -> Result<ControlResponse, ControlError> {
    request_text(state_dir, request).map(|(response, _)| response)
}

/// [`request`], and what the daemon sends after the response: the zone text of [`ControlResponse::ZoneText`].
pub fn request_text(
    state_dir: &Path,
    request: &ControlRequest,
) -> Result<(ControlResponse, impl BufRead), ControlError> {
    let path = state_dir.join(CONTROL_SOCKET);
    let stream = File::open(state_dir).and_then(|folder| UnixStream::connect(within(&folder, CONTROL_SOCKET)));
    let stream = stream.map_err(|error| ControlError::NoDaemon(path.clone(), error))?;
    exchange(stream, request).map_err(|error| ControlError::NoAnswer(path, error))
}

fn exchange(mut stream: UnixStream, request: &ControlRequest) -> io::Result<(ControlResponse, BufReader<UnixStream>)> {
    stream.set_read_timeout(request.max_wait())?;
    stream.write_all(&json_line(request)?)?;
    let (mut stream, mut response) = (BufReader::new(stream), String::new());
    stream.read_line(&mut response).map_err(described)?;
    match response.is_empty() {
        true => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it closed the connection")),
        false => Ok((serde_json::from_str(&response)?, stream)),
    }
}

/// A time-out in words: the error of the system is "resource temporarily unavailable".
pub fn described(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => {
            let text = format!("nothing came for {MAX_READING_WAIT:?}: the process may be stopped");
            io::Error::new(io::ErrorKind::TimedOut, text)
        }
        _ => error,
    }
}

/// The control socket in an open state-dir.
pub struct ControlSocket {
    listener: UnixListener,
    state_dir: Arc<StateDir>,
    /// Threads that wait for a request.
    reading: AtomicUsize,
    /// Clients that requested a reload. They have threads of their own, as a reload takes as long as the slowest zone: nothing
    /// else may wait for it.
    reloads: (SyncSender<UnixStream>, Mutex<Receiver<UnixStream>>),
    accept_failures: Mutex<RateLimitedLog>,
}

impl ControlSocket {
    /// Creates the socket; the owner, root and with `for_group` the group of this process can connect to it.
    pub fn open(state_dir: Arc<StateDir>, for_group: bool) -> io::Result<ControlSocket> {
        let socket = state_dir.file(CONTROL_SOCKET);
        match fs::remove_file(&socket) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => (),
        }
        let listener = UnixListener::bind(&socket)?;
        let mode = if for_group { 0o660 } else { 0o600 };
        fs::set_permissions(&socket, fs::Permissions::from_mode(mode))?;
        let (sender, receiver) = sync_channel(MAX_WAITING);
        Ok(ControlSocket {
            listener,
            state_dir,
            reading: AtomicUsize::new(0),
            reloads: (sender, Mutex::new(receiver)),
            accept_failures: Mutex::new(RateLimitedLog::new(1, LOG_INTERVAL)),
        })
    }

    /// Removes the socket as the daemon ends. The next start removes one that is left.
    pub fn close(&self) {
        _ = fs::remove_file(self.state_dir.file(CONTROL_SOCKET));
    }

    /// Serves one connection after another for as long as the process lives, but for reloads. To be called by [`CLIENTS`] threads.
    pub fn serve(&self, mut respond: impl FnMut(ControlRequest) -> (ControlResponse, Option<TextExport>)) {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    if let Err(error) = self.serve_one(stream, &mut respond) {
                        debug!(%error, "control connection failed");
                    }
                }
                Err(error) => {
                    self.log_failed_accept(&error);
                    thread::sleep(ACCEPT_PAUSE);
                }
            }
        }
    }

    /// One line for all threads, which fail again and again while descriptors are missing.
    fn log_failed_accept(&self, error: &io::Error) {
        let permit = self.accept_failures.lock().unwrap_or_else(PoisonError::into_inner).permit();
        if let Some(left_out) = permit {
            warn!(%error, left_out, "cannot accept a connection on the control socket");
        }
    }

    fn serve_one(
        &self,
        stream: UnixStream,
        respond: &mut impl FnMut(ControlRequest) -> (ControlResponse, Option<TextExport>),
    ) -> io::Result<()> {
        self.reading.fetch_add(1, Ordering::Relaxed);
        let request = read_request(RequestStream { stream: &stream, accepted: Instant::now(), reading: &self.reading });
        self.reading.fetch_sub(1, Ordering::Relaxed);
        let (response, text) = match request? {
            Ok(ControlRequest::Reload) => return self.queue_reload(stream),
            Ok(request) => respond(request),
            Err(refused) => (refused, None),
        };
        write_response(&stream, &response)?;
        let Some(mut text) = text else { return Ok(()) };
        let mut chunk = String::new();
        while text.next_chunk(&mut chunk) {
            // Each chunk has its own deadline: a big zone takes long, and a client that stops reading gives up.
            DeadlineStream::new(&stream).write_all(chunk.as_bytes())?;
            chunk.clear();
        }
        DeadlineStream::new(&stream).write_all(&[END_OF_TEXT])
    }

    fn queue_reload(&self, stream: UnixStream) -> io::Result<()> {
        match self.reloads.0.try_send(stream) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(stream) | TrySendError::Disconnected(stream)) => {
                let refused = ControlResponse::Refused("too many reloads are waiting; try again later".into());
                write_response(&stream, &refused)
            }
        }
    }

    /// Serves one client that requested a reload after another. To be called by [`RELOADS`] threads.
    pub fn serve_reloads(&self, mut reload: impl FnMut() -> ControlResponse) {
        loop {
            let next = self.reloads.1.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(stream) = next else { return };
            if let Err(error) = write_response(&stream, &reload()) {
                debug!(%error, "control connection failed");
            }
        }
    }
}

fn read_request(stream: RequestStream<'_>) -> io::Result<Result<ControlRequest, ControlResponse>> {
    let mut line = String::new();
    BufReader::new(stream.take(MAX_REQUEST_LEN)).read_line(&mut line)?;
    Ok(serde_json::from_str(&line).map_err(|error| ControlResponse::Refused(format!("invalid request: {error}"))))
}

fn write_response(stream: &UnixStream, response: &ControlResponse) -> io::Result<()> {
    DeadlineStream::new(stream).write_all(&json_line(response)?)
}

fn json_line(value: &impl Serialize) -> io::Result<Vec<u8>> {
    Ok(format!("{}\n", serde_json::to_string(value)?).into_bytes())
}

/// A connection whose request is read within [`CLIENT_TIMEOUT`], or [`CROWDED_TIMEOUT`], so that silent clients do not keep others out.
struct RequestStream<'s> {
    stream: &'s UnixStream,
    accepted: Instant,
    reading: &'s AtomicUsize,
}

impl Read for RequestStream<'_> {
    fn read(&mut self, octets: &mut [u8]) -> io::Result<usize> {
        loop {
            let is_crowded = self.reading.load(Ordering::Relaxed) >= CLIENTS;
            let timeout = if is_crowded { CROWDED_TIMEOUT } else { CLIENT_TIMEOUT };
            let left = timeout.saturating_sub(self.accepted.elapsed());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.stream.set_read_timeout(Some(left.min(CROWDED_TIMEOUT)))?;
            match self.stream.read(octets) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => (),
                read => return read,
            }
        }
    }
}

/// A stream with one deadline for everything written, however small the pieces.
struct DeadlineStream<'s> {
    stream: &'s UnixStream,
    end: Instant,
}

impl<'s> DeadlineStream<'s> {
    fn new(stream: &'s UnixStream) -> DeadlineStream<'s> {
        DeadlineStream { stream, end: Instant::now() + CLIENT_TIMEOUT }
    }

    /// The time left; an error if there is none.
    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }
}

impl Write for DeadlineStream<'_> {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(octets)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Serves with one thread for reloads and one for all else.
    fn serve(control: ControlSocket, reload: impl FnMut() -> ControlResponse + Send + 'static) {
        let control = Arc::new(control);
        let other = control.clone();
        thread::spawn(move || {
            control.serve(|_| (ControlResponse::ZoneAction { done: 1, failures: Vec::new(), unsaved: None }, None))
        });
        thread::spawn(move || other.serve_reloads(reload));
    }

    #[test]
    fn requests_are_served_and_invalid_ones_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        // Longer than the address of a Unix socket may be.
        let state_dir = folder.path().join("deep/".repeat(30));
        let taken = StateDir::open(&state_dir).expect("a fresh folder");
        let control = ControlSocket::open(taken.into(), false).expect("a taken folder");
        serve(control, || ControlResponse::Reloaded(Report::default()));
        assert!(
            matches!(request(&state_dir, &ControlRequest::Reload), Ok(ControlResponse::Reloaded(report)) if report == Report::default())
        );
        for nonsense in ["\n", "{\"command\":\"dance\"}\n", "[]\n", &("x".repeat(5000) + "\n")] {
            let folder = File::open(&state_dir).expect("it was made");
            let mut stream = UnixStream::connect(within(&folder, CONTROL_SOCKET)).expect("it listens");
            // The daemon may respond and close before all of a long request is written.
            _ = stream.write_all(nonsense.as_bytes());
            let mut answer = String::new();
            if BufReader::new(stream).read_line(&mut answer).is_ok() && !answer.is_empty() {
                assert!(answer.contains("refused"), "{answer}");
            }
        }
        assert!(matches!(request(&state_dir, &ControlRequest::Reload), Ok(ControlResponse::Reloaded(_))));
    }

    #[test]
    fn the_group_may_connect_if_it_is_to() {
        let folder = tempfile::tempdir().expect("a folder");
        for (for_group, expected) in [(false, 0o600), (true, 0o660), (false, 0o600)] {
            let state_dir = StateDir::open(folder.path()).expect("a folder of this user");
            let control = ControlSocket::open(state_dir.into(), for_group).expect("a taken folder");
            let socket = fs::metadata(folder.path().join(CONTROL_SOCKET)).expect("it is there");
            assert_eq!(socket.permissions().mode() & 0o7777, expected);
            control.close();
        }
    }

    #[test]
    fn nothing_else_waits_for_reloads() {
        let folder = tempfile::tempdir().expect("a folder");
        let state_dir = StateDir::open(folder.path()).expect("a fresh folder");
        let control = ControlSocket::open(state_dir.into(), false).expect("a taken folder");
        let (release, released) = sync_channel::<()>(0);
        serve(control, move || {
            _ = released.recv();
            ControlResponse::Reloaded(Report::default())
        });
        let mut waiting = Vec::new();
        for _ in 0..=2 * CLIENTS {
            let mut stream = UnixStream::connect(folder.path().join(CONTROL_SOCKET)).expect("it listens");
            stream.write_all(&json_line(&ControlRequest::Reload).expect("JSON")).expect("it is open");
            waiting.push(stream);
        }
        let status = ControlRequest::ZoneStatus { zones: Vec::new(), from: 0 };
        assert!(matches!(request(folder.path(), &status), Ok(ControlResponse::ZoneAction { .. })));
        drop(release);
        for stream in waiting {
            let mut response = String::new();
            BufReader::new(stream).read_line(&mut response).expect("a response");
            assert!(response.contains("reloaded"), "{response}");
        }
    }

    #[test]
    fn nobody_waits_for_ever_to_read_metrics() {
        let folder = tempfile::tempdir().expect("a folder");
        let _stopped = UnixListener::bind(folder.path().join(CONTROL_SOCKET)).expect("a fresh folder");
        let error = request(folder.path(), &ControlRequest::Metrics).expect_err("nobody answers");
        assert!(error.to_string().contains("the process may be stopped"), "{error}");
    }

    #[test]
    fn an_empty_folder_has_no_daemon() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(matches!(request(folder.path(), &ControlRequest::Reload), Err(ControlError::NoDaemon(..))));
    }
}
