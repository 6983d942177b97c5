//! Child processes with a deadline: each leads a group of its own, which is killed with all that it has started.
//!
//! They are started by posix_spawn(3), which copies nothing of this process. [`std::process::Command`] would fork to set the mask of signals:
//! that copies the page tables, tens of milliseconds for some gigabytes, and all threads that write to memory pay for it afterwards.

mod spawn;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use crate::checked;
pub use spawn::ChildCommand;

/// A process that was started by [`ChildCommand::spawn`]. To be waited for: nothing else does.
pub struct ChildProcess {
    id: u32,
    /// Its standard input, if it was requested.
    pub stdin: Option<File>,
    /// Its standard error.
    pub stderr: Option<File>,
}

impl ChildProcess {
    /// The number of the process and of its group.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// A descriptor that is readable once the process has ended (pidfd_open(2)). Add it to a [`crate::epoll::Poll`].
    pub fn end_descriptor(&self) -> io::Result<OwnedFd> {
        // SAFETY: no pointers. Waiting consumes the process, so that its number is its own.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, self.id as libc::pid_t, 0) };
        let fd = checked(fd as libc::c_int)?;
        // SAFETY: the descriptor is new and owned by nothing else; the kernel closes it on exec.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    /// Kills the process, which may have left its group.
    pub fn kill(&self) {
        // SAFETY: no pointers; the number is its own, as above. It fails if the process has ended.
        _ = unsafe { libc::kill(self.id as libc::pid_t, libc::SIGKILL) };
    }

    /// Closes its pipes and waits until it has ended.
    pub fn wait(self) -> io::Result<ExitStatus> {
        let ChildProcess { id, .. } = self;
        let mut status = 0;
        loop {
            // SAFETY: `status` lives through the call; the number is its own, as above.
            match checked(unsafe { libc::waitpid(id as libc::pid_t, &mut status, 0) }) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                result => return result.map(|_| ExitStatus::from_raw(status)),
            }
        }
    }
}

/// Kills all processes of the group that the process with this number leads. To be called before it is waited for: the number may belong
/// to others afterwards.
pub fn kill_group_of(leader: u32) {
    let group = leader as libc::pid_t;
    // SAFETY: no pointers. It fails if all processes of the group have ended.
    _ = unsafe { libc::kill(-group, libc::SIGKILL) };
}

/// Makes reads and writes of a descriptor return at once.
pub fn set_nonblocking(descriptor: impl AsFd) -> io::Result<()> {
    let fd = descriptor.as_fd().as_raw_fd();
    // SAFETY: no pointers; the descriptor is open.
    let flags = checked(unsafe { libc::fcntl(fd, libc::F_GETFL) })?;
    // SAFETY: as above.
    checked(unsafe { libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) }).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::epoll::{Events, Interest, Poll};
    use crate::resource_limits::raise_open_files;
    use crate::signal::Signals;
    use std::cell::Cell;
    use std::ffi::OsString;
    use std::io::{Read, Write};
    use std::time::Duration;

    fn shell(script: &str) -> ChildCommand {
        ChildCommand { program: "sh".into(), arguments: vec!["-c".into(), script.into()], ..ChildCommand::default() }
    }

    /// The status of the shell, and what it wrote to standard error.
    fn run(command: ChildCommand, input: &str) -> (ExitStatus, String) {
        let mut child = command.spawn().expect("every system has sh");
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(input.as_bytes()).expect("it is read");
        }
        let mut text = String::new();
        child.stderr.take().expect("it is piped").read_to_string(&mut text).expect("a pipe");
        (child.wait().expect("it is ours"), text)
    }

    #[test]
    fn a_killed_group_ends_with_all_that_it_started() {
        let mut child = shell("sleep 600 & sleep 600").spawn().expect("every system has sh");
        let (poll, mut events) = (Poll::new().expect("epoll"), Events::with_capacity(1));
        let end = child.end_descriptor().expect("it runs");
        poll.add(&end, 1, Interest::Readable).expect("a new descriptor");
        poll.wait(&mut events, Duration::from_millis(20)).expect("epoll");
        assert!(events.is_empty(), "it runs");
        kill_group_of(child.id());
        poll.wait(&mut events, Duration::from_secs(10)).expect("epoll");
        assert_eq!(events.len(), 1);
        // The pipe is closed once the process in the background has ended too.
        let mut err = child.stderr.take().expect("it is piped");
        assert_eq!(err.read_to_string(&mut String::new()).expect("a pipe"), 0);
        assert_eq!(child.wait().expect("it is ours").signal(), Some(libc::SIGKILL));
    }

    #[test]
    fn a_nonblocking_pipe_does_not_wait() {
        let mut child = shell("exec sleep 600").spawn().expect("every system has it");
        let mut err = child.stderr.take().expect("it is piped");
        set_nonblocking(&err).expect("it is open");
        assert_eq!(err.read(&mut [0]).map_err(|error| error.kind()), Err(io::ErrorKind::WouldBlock));
        child.kill();
        assert_eq!(child.wait().expect("it is ours").signal(), Some(libc::SIGKILL));
    }

    #[test]
    fn a_child_has_the_arguments_the_environment_and_the_pipes_that_it_was_given() {
        let script = "read line; echo out; echo \"$1/$ADDED/$(pwd)/${line}\" >&2; exit 7";
        let mut command = shell(script);
        command.arguments.extend(["name".into(), "a b'".into()]);
        command.environment =
            [("ADDED", "x=y"), ("PATH", "/bin:/usr/bin")].map(|(key, value)| (key.into(), value.into())).into();
        command.has_stdin = true;
        let folder = std::env::current_dir().expect("there is one");
        let (status, text) = run(command, "input\n");
        assert_eq!((status.code(), text), (Some(7), format!("a b'/x=y/{}/input\n", folder.display())));
        // Without a pipe, there is nothing to read.
        let (status, text) = run(shell("cat >&2; exit 3"), "");
        assert_eq!((status.code(), text.as_str()), (Some(3), ""));
    }

    /// With a million, some programs close a million descriptors before they do anything.
    #[test]
    fn a_child_has_the_limit_of_open_files_from_before_it_was_raised() {
        const FORMER: u64 = 400;
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: `limit` lives through the calls. The soft limit may be lowered and raised again.
        unsafe {
            checked(libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit)).expect("always allowed");
            limit.rlim_cur = FORMER;
            checked(libc::setrlimit(libc::RLIMIT_NOFILE, &limit)).expect("it is below the hard limit");
        }
        let raised = raise_open_files().expect("raising to the hard limit is always allowed");
        // It is lowered once the program runs.
        let (status, text) = run(shell("sleep 0.2; ulimit -Sn >&2"), "");
        assert_eq!((status.code(), text.trim().parse()), (Some(0), Ok(FORMER)));
        assert!(raised > FORMER);
    }

    #[test]
    fn a_program_that_cannot_be_started_is_an_error() {
        let spawn = |program: &str| {
            let command = ChildCommand { program: program.into(), ..ChildCommand::default() };
            command.spawn().map(drop).map_err(|error| error.kind())
        };
        assert_eq!(spawn("/nonexistent/program"), Err(io::ErrorKind::NotFound));
        assert_eq!(spawn("no-such-program-anywhere"), Err(io::ErrorKind::NotFound));
        assert_eq!(spawn("/"), Err(io::ErrorKind::PermissionDenied));
        assert_eq!(spawn("nul\0l"), Err(io::ErrorKind::InvalidInput));
    }

    /// Signals of this process are blocked, the runtime of Rust ignores SIGPIPE, and who started it may ignore SIGHUP (nohup).
    #[test]
    fn a_child_has_no_blocked_or_ignored_signals() {
        // SAFETY: the action is a constant.
        unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
        let _blocked = Signals::block().expect("blocking is always allowed");
        for (name, number) in [("TERM", libc::SIGTERM), ("HUP", libc::SIGHUP), ("PIPE", libc::SIGPIPE)] {
            let (status, _) = run(shell(&format!("kill -s {name} $$; exit 0")), "");
            assert_eq!(status.signal(), Some(number), "{name}");
        }
    }

    thread_local! {
        static FORKS: Cell<u32> = const { Cell::new(0) };
    }

    extern "C" fn count_fork() {
        FORKS.set(FORKS.get() + 1);
    }

    /// Otherwise the page tables of a large server would be copied.
    #[test]
    fn a_child_is_started_without_a_fork() {
        // SAFETY: the function only counts, and stays.
        assert_eq!(unsafe { libc::pthread_atfork(Some(count_fork), None, None) }, 0);
        run(shell("true"), "");
        assert_eq!(FORKS.get(), 0);
    }

    #[test]
    fn the_environment_is_that_of_this_process_with_changes() {
        let environment = spawn::environment(&[("ZONDA_TEST", "1")], &["PATH"]);
        let value = |key: &str| environment.iter().find(|(known, _)| known == key).map(|(_, value)| value.clone());
        assert_eq!((value("ZONDA_TEST"), value("PATH")), (Some(OsString::from("1")), None));
        assert_eq!(environment.len(), std::env::vars_os().filter(|(key, _)| key != "PATH").count() + 1);
    }
}
