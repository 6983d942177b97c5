//! The control socket in the state-dir: one request a connection, one JSON object each way, a line each.
//!
//! [`Control`] is the daemon's end, [`ask`] that of `zonda reload`. Only the daemon's user and root can open the socket.

use std::fs::{self, File, TryLockError};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::report::Report;

/// What can be asked of a daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Read the configuration and changed zone files again.
    Reload,
}

/// What a daemon says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// The reload is done.
    Reloaded(Report),
    /// The request was not understood, or the daemon ends.
    Refused(String),
}

/// Why a daemon cannot be asked or cannot take its state-dir. The message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The folder cannot be made or written.
    #[error("the state-dir {0} cannot be used: {1}; make it writable for this user or set `state-dir`")]
    Folder(PathBuf, io::Error),
    /// A second daemon.
    #[error("another zonda (process {1}) uses the state-dir {0}; stop that one or set another `state-dir`")]
    InUse(PathBuf, String),
    /// Nobody listens.
    #[error("no zonda answers at {0}: {1}; is it running, and with this state-dir?")]
    NoDaemon(PathBuf, io::Error),
    /// Something else answers, or the daemon ended meanwhile.
    #[error("the zonda at {0} did not answer: {1}")]
    NoAnswer(PathBuf, io::Error),
}

const SOCKET: &str = "control.sock";
const LOCK: &str = "lock";

/// The longest request in octets: the requests above are far shorter.
const MAX_REQUEST_LEN: u64 = 4096;

/// How long a client may take to write its request, or to read a part of the answer.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(5);

/// The state-dir of one user, where none is configured.
pub fn default_state_dir() -> PathBuf {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    // systemd gives a list if the unit names several; the first is ours.
    let of_systemd =
        variable("STATE_DIRECTORY").map(|list| match list.to_str().and_then(|list| list.split_once(':')) {
            Some((first, _)) => first.into(),
            None => list,
        });
    let personal = || variable("XDG_STATE_HOME").or_else(|| Some(variable("HOME")?.join(".local/state")));
    let of_user = || if is_root() { None } else { Some(personal()?.join("zonda")) };
    of_systemd.or_else(of_user).unwrap_or_else(|| "/var/lib/zonda".into())
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// Asks the daemon that uses `state_dir` and waits for its answer.
pub fn ask(state_dir: &Path, request: Request) -> Result<Answer, ControlError> {
    let path = state_dir.join(SOCKET);
    let mut stream = UnixStream::connect(&path).map_err(|error| ControlError::NoDaemon(path.clone(), error))?;
    exchange(&mut stream, request).map_err(|error| ControlError::NoAnswer(path, error))
}

fn exchange(stream: &mut UnixStream, request: Request) -> io::Result<Answer> {
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

/// A taken state-dir: locked against a second daemon, with the control socket open.
pub struct Control {
    listener: UnixListener,
    socket: PathBuf,
    /// Held for as long as the daemon lives; the kernel lets go of it however the daemon ends.
    _lock: File,
}

impl Control {
    /// Makes the folder if it is missing, locks it, opens the socket.
    pub fn open(state_dir: &Path) -> Result<Control, ControlError> {
        let unusable = |error| ControlError::Folder(state_dir.to_owned(), error);
        fs::DirBuilder::new().recursive(true).mode(0o750).create(state_dir).map_err(unusable)?;
        let lock = take_lock(state_dir)?;
        let socket = state_dir.join(SOCKET);
        match fs::remove_file(&socket) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(unusable(error)),
            _ => (),
        }
        let listener = UnixListener::bind(&socket).map_err(unusable)?;
        fs::set_permissions(&socket, fs::Permissions::from_mode(0o600)).map_err(unusable)?;
        Ok(Control { listener, socket, _lock: lock })
    }

    /// Gives the folder, the lock and the socket to the user that the daemon becomes.
    pub fn give_to(&self, identity: &netio::privilege::Identity) -> io::Result<()> {
        let folder = self.socket.parent().expect("the socket is in a folder");
        for path in [folder, &folder.join(LOCK), &self.socket] {
            std::os::unix::fs::chown(path, Some(identity.user), Some(identity.group))?;
        }
        Ok(())
    }

    /// Takes the socket away: the daemon ends. One that is left behind is removed by the next start.
    pub fn close(&self) {
        _ = fs::remove_file(&self.socket);
    }

    /// Answers requests, one connection after the other, for as long as the process lives.
    pub fn serve(&self, answer: impl Fn(Request) -> Answer) {
        for stream in self.listener.incoming() {
            let served = stream.and_then(|stream| serve_one(stream, &answer));
            if let Err(error) = served {
                tracing::debug!(%error, "a control connection failed");
            }
        }
    }
}

fn take_lock(state_dir: &Path) -> Result<File, ControlError> {
    let path = state_dir.join(LOCK);
    let unusable = |error| ControlError::Folder(state_dir.to_owned(), error);
    let mut file = File::options().create(true).read(true).write(true).truncate(false).open(&path).map_err(unusable)?;
    match file.try_lock() {
        Ok(()) => (),
        Err(TryLockError::Error(error)) => return Err(unusable(error)),
        Err(TryLockError::WouldBlock) => {
            let mut process = String::new();
            file.read_to_string(&mut process).map_err(unusable)?;
            return Err(ControlError::InUse(state_dir.to_owned(), process.trim().to_owned()));
        }
    }
    file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())).map_err(unusable)?;
    Ok(file)
}

fn serve_one(mut stream: UnixStream, answer: impl Fn(Request) -> Answer) -> io::Result<()> {
    stream.set_read_timeout(Some(CLIENT_TIMEOUT))?;
    stream.set_write_timeout(Some(CLIENT_TIMEOUT))?;
    let mut line = String::new();
    BufReader::new((&stream).take(MAX_REQUEST_LEN)).read_line(&mut line)?;
    let said = match serde_json::from_str(&line) {
        Ok(request) => answer(request),
        Err(error) => Answer::Refused(format!("this is no request: {error}")),
    };
    let mut line = serde_json::to_vec(&said)?;
    line.push(b'\n');
    stream.write_all(&line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_answered_and_nonsense_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let state_dir = folder.path().join("deep/state");
        let control = Control::open(&state_dir).expect("a fresh folder");
        std::thread::spawn(move || control.serve(|Request::Reload| Answer::Reloaded(Report::default())));
        assert!(
            matches!(ask(&state_dir, Request::Reload), Ok(Answer::Reloaded(report)) if report == Report::default())
        );
        for nonsense in ["\n", "{\"command\":\"dance\"}\n", "[]\n", &("x".repeat(5000) + "\n")] {
            let mut stream = UnixStream::connect(state_dir.join(SOCKET)).expect("it listens");
            // The far end may have answered and left before a long request was written to its end.
            _ = stream.write_all(nonsense.as_bytes());
            let mut answer = String::new();
            if BufReader::new(stream).read_line(&mut answer).is_ok() && !answer.is_empty() {
                assert!(answer.contains("refused"), "{answer}");
            }
        }
        assert!(matches!(ask(&state_dir, Request::Reload), Ok(Answer::Reloaded(_))));
    }

    #[test]
    fn a_state_dir_has_one_daemon() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = Control::open(folder.path()).expect("a fresh folder");
        let second = Control::open(folder.path());
        let own = std::process::id().to_string();
        assert!(matches!(second, Err(ControlError::InUse(_, process)) if process == own));
        drop(first);
        assert!(Control::open(folder.path()).is_ok());
    }

    #[test]
    fn nobody_answers_in_an_empty_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(matches!(ask(folder.path(), Request::Reload), Err(ControlError::NoDaemon(..))));
    }
}
