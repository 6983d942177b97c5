//! An external command that decides whether a version may be published: it gets the zone as text, and exit status 0 means yes.
//!
//! The command cannot harm more than itself: whatever it does, it is over at its deadline, or when the daemon stops, with all
//! processes of its group.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use netio::child_process::{ChildCommand, ChildProcess, kill_group_of, set_nonblocking};
use netio::epoll::{Events, Interest, Poll};
use netio::is_not_ready;
use tempfile::NamedTempFile;
use zone::Zone;
use zone::export::TextExport;

use crate::config::CheckCommand;
use crate::printable::Printable;

/// Why the command did not accept a version.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// It was not started.
    #[error("`check-command`: {program} cannot be run: {reason}{help}")]
    NotRun {
        /// The program.
        program: String,
        /// The error of the system.
        reason: String,
        /// How to fix it, in brackets; empty if the reason says that.
        help: &'static str,
    },
    /// It says no.
    #[error("`check-command`: {program} ended with {status}{message}")]
    Refused {
        /// The program.
        program: String,
        /// Its exit status, or the signal that killed it.
        status: String,
        /// What it wrote to standard error, after a colon.
        message: String,
    },
    /// It did not end in time.
    #[error("`check-command`: {program} did not end within {seconds} s and was killed")]
    TimedOut {
        /// The program.
        program: String,
        /// The limit.
        seconds: u32,
    },
}

/// What is written for the zone's name, and for a file with its text.
const ZONE: &str = "{zone}";
const FILE: &str = "{file}";
/// What the names of files with the text begin with.
const PREFIX: &str = "zonda-check-";

/// Octets of standard error that are reported: the first line or two.
const MAX_MESSAGE_LEN: usize = 400;

/// Runs the command and waits until it has ended.
pub fn run(command: &CheckCommand, version: &Zone) -> Result<(), CommandError> {
    let program = command.arguments.first().cloned().unwrap_or_default();
    let failed = |error: &io::Error, help| {
        let (program, reason) = (program.clone(), error.to_string());
        CommandError::NotRun { program, reason, help }
    };
    let not_run = |error: io::Error| failed(&error, "");
    let file = match command.arguments.iter().any(|argument| argument.contains(FILE)) {
        true => Some(text_file(version).map_err(not_run)?),
        false => None,
    };
    let started = COMMANDS.start(|| start(command, version, file.as_ref()));
    let mut child = started.map_err(|error| failed(&error, run_help(&error)))?;
    let end = Instant::now() + Duration::from_secs(command.timeout_s.into());
    let outcome = ChildIo::new(&mut child, version).and_then(|mut io| io.run(end).map(|has_ended| (has_ended, io)));
    // What it left in the background ends with it. It was not waited for yet, so that the group is still its own.
    COMMANDS.end(child.id());
    // It may have left its group.
    child.kill();
    let status = child.wait();
    let ((has_ended, io), status) = outcome.and_then(|outcome| Ok((outcome, status?))).map_err(not_run)?;
    match has_ended {
        false => Err(CommandError::TimedOut { program, seconds: command.timeout_s }),
        true if status.success() => Ok(()),
        true => Err(CommandError::Refused { program, status: status_text(status), message: io.message() }),
    }
}

/// How to make a command run that the system cannot execute.
fn run_help(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::NotFound => {
            " (help: write its full path; if it is a script, the interpreter in its first line must exist, too)"
        }
        ErrorKind::PermissionDenied => " (help: make it executable for the user that zonda runs as)",
        // ENOEXEC: a shell would run it as a script.
        _ if error.raw_os_error() == Some(ENOEXEC) => " (help: begin a script with a line like `#!/bin/sh`)",
        _ => "",
    }
}

/// "Exec format error", on every Linux.
const ENOEXEC: i32 = 8;

/// Where the files with the text of zones are; without it, in the folder of the system for temporary files.
static FOLDER: OnceLock<PathBuf> = OnceLock::new();

/// Puts the files with the text of zones into this folder of the state-dir, which every start empties: nobody else removes what a daemon
/// that is killed has left.
pub fn use_folder(folder: PathBuf) {
    // The daemon has one state-dir.
    _ = FOLDER.set(folder);
}

/// Ends all commands, and lets none start: the daemon stops.
pub fn end_all() {
    COMMANDS.end_all();
}

/// The commands of this process.
static COMMANDS: Commands = Commands::new();

/// How long a stop waits for commands that are being started. That takes milliseconds, but for ever if the file system of the program hangs.
const START_TIMEOUT: Duration = Duration::from_secs(1);

struct Commands {
    state: Mutex<RunningCommands>,
    /// A command was started, or not.
    has_started: Condvar,
}

struct RunningCommands {
    /// The processes that were not waited for yet, so that their ids are their own.
    running: Vec<u32>,
    /// How many are being started.
    starting: usize,
    are_over: bool,
}

impl Commands {
    const fn new() -> Commands {
        let state = RunningCommands { running: Vec::new(), starting: 0, are_over: false };
        Commands { state: Mutex::new(state), has_started: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, RunningCommands> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a command, without the lock: the program may be on a file system that hangs, and others must go on.
    fn start(&self, start: impl FnOnce() -> io::Result<ChildProcess>) -> io::Result<ChildProcess> {
        const IS_STOPPING: &str = "zonda is stopping";
        let mut state = self.lock();
        if state.are_over {
            return Err(io::Error::other(IS_STOPPING));
        }
        state.starting += 1;
        drop(state);
        let child = start();
        let mut state = self.lock();
        state.starting -= 1;
        self.has_started.notify_all();
        let child = child?;
        if !state.are_over {
            state.running.push(child.id());
            return Ok(child);
        }
        kill_group_of(child.id());
        drop(state);
        child.wait()?;
        Err(io::Error::other(IS_STOPPING))
    }

    /// Ends a command with its group; it is waited for next.
    fn end(&self, id: u32) {
        let mut state = self.lock();
        kill_group_of(id);
        state.running.retain(|running| *running != id);
    }

    fn end_all(&self) {
        let mut state = self.lock();
        state.are_over = true;
        state.running.iter().copied().for_each(kill_group_of);
        // Whoever starts one ends it.
        let waited = self.has_started.wait_timeout_while(state, START_TIMEOUT, |state| state.starting > 0);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

fn start(command: &CheckCommand, version: &Zone, file: Option<&NamedTempFile>) -> io::Result<ChildProcess> {
    let zone = version.apex().to_string();
    let path = file.map(|file| file.path().to_string_lossy().into_owned());
    let argument = |argument: &String| {
        let argument = replace_zone(argument, &zone);
        path.as_ref().map_or_else(|| argument.clone(), |path| argument.replace(FILE, path))
    };
    let mut arguments = command.arguments.iter();
    // The program is not made from the name of the zone, which others may choose.
    let program = arguments.next().map_or_else(Default::default, OsString::from);
    let arguments = arguments.map(|text| argument(text).into()).collect();
    let mut process = ChildCommand { program, arguments, has_stdin: file.is_none(), ..ChildCommand::default() };
    let serial = version.serial().to_string();
    process.inherit_environment(&[("ZONDA_ZONE", &zone), ("ZONDA_SERIAL", &serial)], &["NOTIFY_SOCKET"]);
    process.spawn()
}

/// The argument with the name of the zone. Others may choose the name: it must not become an option of the command.
fn replace_zone(argument: &str, zone: &str) -> String {
    let replaced = argument.replace(ZONE, zone);
    match replaced.strip_prefix('-') {
        // RFC 1035 5.1: \DDD stands for the same octet.
        Some(rest) if argument.starts_with(ZONE) => format!("\\045{rest}"),
        _ => replaced,
    }
}

/// A file that only this user can read, with the text of the zone; removed when dropped.
fn text_file(version: &Zone) -> io::Result<NamedTempFile> {
    let with_text = |file: io::Result<NamedTempFile>| {
        let mut file = file?;
        TextExport::new(version.clone()).write_to(&mut file)?;
        Ok(file)
    };
    let temporary = || with_text(NamedTempFile::with_prefix(PREFIX));
    match FOLDER.get() {
        // A full state-dir must not refuse versions.
        Some(folder) => with_text(NamedTempFile::with_prefix_in(PREFIX, folder)).or_else(|_| temporary()),
        None => temporary(),
    }
}

fn status_text(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => status.to_string(),
    }
}

/// Feeds the command with the text and reads what it complains about, without waiting for either.
struct ChildIo {
    poll: Poll,
    _end: OwnedFd,
    stdin: Option<File>,
    stderr: Option<File>,
    text: TextExport,
    /// Text that was not written yet starts here.
    chunk: String,
    written: usize,
    message: Vec<u8>,
}

const END: u64 = 0;
const STDIN: u64 = 1;
const STDERR: u64 = 2;

impl ChildIo {
    fn new(child: &mut ChildProcess, version: &Zone) -> io::Result<ChildIo> {
        let (poll, end) = (Poll::new()?, child.end_descriptor()?);
        let (stdin, stderr) = (child.stdin.take(), child.stderr.take());
        poll.add(&end, END, Interest::Readable)?;
        if let Some(stdin) = &stdin {
            set_nonblocking(stdin)?;
            poll.add(stdin, STDIN, Interest::Writable)?;
        }
        if let Some(stderr) = &stderr {
            set_nonblocking(stderr)?;
            poll.add(stderr, STDERR, Interest::Readable)?;
        }
        let text = TextExport::new(version.clone());
        Ok(ChildIo { poll, _end: end, stdin, stderr, text, chunk: String::new(), written: 0, message: Vec::new() })
    }

    /// Returns whether the command has ended in time.
    fn run(&mut self, deadline: Instant) -> io::Result<bool> {
        let mut events = Events::with_capacity(3);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            self.poll.wait(&mut events, left)?;
            let mut has_ended = false;
            for index in 0..events.len() {
                match events.at(index).token {
                    END => has_ended = true,
                    STDIN => self.feed(),
                    _ => self.read_message(),
                }
            }
            if has_ended {
                // What it wrote before its end.
                self.read_message();
                return Ok(true);
            }
        }
    }

    /// Writes text until the pipe is full. A command need not read any: its pipe breaks.
    fn feed(&mut self) {
        let Some(stdin) = &mut self.stdin else { return };
        if self.written == self.chunk.len() {
            self.chunk.clear();
            self.written = 0;
            if !self.text.next_chunk(&mut self.chunk) {
                self.stdin = None;
                return;
            }
        }
        match stdin.write(&self.chunk.as_bytes()[self.written..]) {
            Ok(len) => self.written += len,
            Err(error) if is_not_ready(&error) => (),
            Err(_) => self.stdin = None,
        }
    }

    /// Reads one buffer of standard error and keeps its beginning; the rest is thrown away, however much it is.
    fn read_message(&mut self) {
        let Some(stderr) = &mut self.stderr else { return };
        let mut buffer = [0; 4096];
        match stderr.read(&mut buffer) {
            Ok(0) => self.stderr = None,
            Ok(len) => {
                let room = MAX_MESSAGE_LEN.saturating_sub(self.message.len());
                self.message.extend_from_slice(&buffer[..len.min(room)]);
            }
            Err(error) if is_not_ready(&error) => (),
            Err(_) => self.stderr = None,
        }
    }

    /// The message as the end of a sentence, on one line.
    fn message(&self) -> String {
        let text = String::from_utf8_lossy(&self.message);
        let mut message = String::new();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            _ = write!(message, "{} {}", if message.is_empty() { ":" } else { ";" }, Printable(line));
        }
        message
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    const SOON: Duration = Duration::from_secs(10);

    fn sleep() -> io::Result<ChildProcess> {
        ChildCommand { program: "sleep".into(), arguments: vec!["600".into()], ..ChildCommand::default() }.spawn()
    }

    /// The program may be on a network file system that hangs: then its start does not return.
    #[test]
    fn a_command_whose_start_hangs_keeps_no_other_from_being_started_or_ended() {
        let commands = Commands::new();
        let ((begun, has_begun), (release, is_released)) = (channel(), channel::<()>());
        let (done, is_done) = channel();
        thread::scope(|scope| {
            let commands = &commands;
            scope.spawn(move || {
                commands.start(|| {
                    begun.send(()).expect("the test waits");
                    _ = is_released.recv();
                    sleep()
                })
            });
            has_begun.recv().expect("it is started");
            scope.spawn(move || {
                let other = commands.start(sleep).expect("every system has it");
                commands.end(other.id());
                let status = other.wait().expect("it is ours");
                commands.end_all();
                done.send(status.signal()).expect("the test waits");
            });
            let result = is_done.recv_timeout(SOON);
            drop(release);
            assert_eq!(result, Ok(Some(9)));
        });
        assert!(commands.lock().running.is_empty(), "what was started too late is ended");
    }

    #[test]
    fn a_stop_waits_for_commands_that_are_being_started() {
        let commands = Commands::new();
        let (begun, has_begun) = channel();
        thread::scope(|scope| {
            let late = scope.spawn(|| {
                commands.start(|| {
                    begun.send(()).expect("the test waits");
                    thread::sleep(Duration::from_millis(20));
                    sleep()
                })
            });
            has_begun.recv().expect("it is started");
            commands.end_all();
            assert_eq!(commands.lock().starting, 0);
            let error = late.join().expect("no panic").err().map(|error| error.to_string());
            assert_eq!(error.as_deref(), Some("zonda is stopping"));
        });
        assert!(commands.start(|| panic!("it must not be started")).is_err());
    }
}
