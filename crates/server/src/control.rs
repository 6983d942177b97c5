//! The control socket in the state-dir: one request a connection, one JSON object each way, a line each.
//!
//! [`ControlSocket`] is the daemon's end, [`ask`] that of `zonda reload`. Only the daemon's user and root can open the socket.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tracing::{debug, warn};

use crate::printable::printable_path;
use crate::report::Report;
use crate::state_dir::{StateDir, within};

/// What can be asked of a daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ControlRequest {
    /// Read the configuration and changed zone files again.
    Reload,
}

/// What a daemon says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ControlResponse {
    /// The reload is done.
    Reloaded(Report),
    /// The request was not understood, or the daemon ends.
    Refused(String),
}

/// Why a daemon cannot be asked. The message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Nobody listens.
    #[error("no zonda answers at {path}: {1}; is it running, and with this state-dir?", path = printable_path(.0))]
    NoDaemon(PathBuf, io::Error),
    /// Something else answers, or the daemon ended meanwhile.
    #[error("the zonda at {path} did not answer: {1}", path = printable_path(.0))]
    NoAnswer(PathBuf, io::Error),
}

/// The socket's name in the state-dir.
pub const SOCKET: &str = "control.sock";

/// The longest request in octets: the requests above are far shorter.
const MAX_REQUEST_LEN: u64 = 4096;

/// How long a client may take to write its request, and to read the answer.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(5);

/// How many clients are served at once: some that wait for reloads must not keep the others waiting.
pub const CLIENTS: usize = 8;

/// How long to leave the socket alone after an error, which is there still if it is tried again at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Asks the daemon that uses `state_dir` and waits for its answer.
pub fn ask(state_dir: &Path, request: ControlRequest) -> Result<ControlResponse, ControlError> {
    let path = state_dir.join(SOCKET);
    let stream = File::open(state_dir).and_then(|folder| UnixStream::connect(within(&folder, SOCKET)));
    let mut stream = stream.map_err(|error| ControlError::NoDaemon(path.clone(), error))?;
    exchange(&mut stream, request).map_err(|error| ControlError::NoAnswer(path, error))
}

fn exchange(stream: &mut UnixStream, request: ControlRequest) -> io::Result<ControlResponse> {
    let mut line = serde_json::to_vec(&request)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer)?;
    match answer.is_empty() {
        true => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it closed the connection")),
        false => Ok(serde_json::from_str(&answer)?),
    }
}

/// The control socket in a taken state-dir.
pub struct ControlSocket {
    listener: UnixListener,
    state_dir: StateDir,
}

impl ControlSocket {
    /// Opens the socket, which only the owner and root can connect to.
    pub fn open(state_dir: StateDir) -> io::Result<ControlSocket> {
        let socket = state_dir.file(SOCKET);
        match fs::remove_file(&socket) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => (),
        }
        let listener = UnixListener::bind(&socket)?;
        fs::set_permissions(&socket, fs::Permissions::from_mode(0o600))?;
        Ok(ControlSocket { listener, state_dir })
    }

    /// Takes the socket away: the daemon ends. One that is left behind is removed by the next start.
    pub fn close(&self) {
        _ = fs::remove_file(self.state_dir.file(SOCKET));
    }

    /// Answers requests, one connection after the other, for as long as the process lives. To be called by [`CLIENTS`] threads.
    pub fn serve(&self, answer: impl Fn(ControlRequest) -> ControlResponse) {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    if let Err(error) = serve_one(stream, &answer) {
                        debug!(%error, "a control connection failed");
                    }
                }
                Err(error) => {
                    warn!(%error, "the control socket cannot accept a connection");
                    thread::sleep(ACCEPT_PAUSE);
                }
            }
        }
    }
}

fn serve_one(stream: UnixStream, answer: impl Fn(ControlRequest) -> ControlResponse) -> io::Result<()> {
    let mut line = String::new();
    BufReader::new(Timed::new(&stream).take(MAX_REQUEST_LEN)).read_line(&mut line)?;
    let said = match serde_json::from_str(&line) {
        Ok(request) => answer(request),
        Err(error) => ControlResponse::Refused(format!("this is no request: {error}")),
    };
    let mut line = serde_json::to_vec(&said)?;
    line.push(b'\n');
    Timed::new(&stream).write_all(&line)
}

/// A stream whose client has [`CLIENT_TIMEOUT`] for all that is read from it or written to it, however small the parts.
struct Timed<'s> {
    stream: &'s UnixStream,
    end: Instant,
}

impl<'s> Timed<'s> {
    fn new(stream: &'s UnixStream) -> Timed<'s> {
        Timed { stream, end: Instant::now() + CLIENT_TIMEOUT }
    }

    /// The time left; none is an error.
    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, octets: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(octets)
    }
}

impl Write for Timed<'_> {
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

    #[test]
    fn a_request_is_answered_and_nonsense_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        // Deeper than the address of a socket is long.
        let state_dir = folder.path().join("deep/".repeat(30));
        let taken = StateDir::open(&state_dir).expect("a fresh folder");
        let control = ControlSocket::open(taken).expect("a taken folder");
        thread::spawn(move || control.serve(|ControlRequest::Reload| ControlResponse::Reloaded(Report::default())));
        assert!(
            matches!(ask(&state_dir, ControlRequest::Reload), Ok(ControlResponse::Reloaded(report)) if report == Report::default())
        );
        for nonsense in ["\n", "{\"command\":\"dance\"}\n", "[]\n", &("x".repeat(5000) + "\n")] {
            let folder = File::open(&state_dir).expect("it was made");
            let mut stream = UnixStream::connect(within(&folder, SOCKET)).expect("it listens");
            // The far end may have answered and left before a long request was written to its end.
            _ = stream.write_all(nonsense.as_bytes());
            let mut answer = String::new();
            if BufReader::new(stream).read_line(&mut answer).is_ok() && !answer.is_empty() {
                assert!(answer.contains("refused"), "{answer}");
            }
        }
        assert!(matches!(ask(&state_dir, ControlRequest::Reload), Ok(ControlResponse::Reloaded(_))));
    }

    #[test]
    fn nobody_answers_in_an_empty_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(matches!(ask(folder.path(), ControlRequest::Reload), Err(ControlError::NoDaemon(..))));
    }
}
