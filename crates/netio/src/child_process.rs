//! Child processes with a deadline: a descriptor that shows their end (pidfd_open(2)), killing all that they started, and their signals.

use crate::checked;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::ptr;

/// A descriptor that is readable once the child has ended. Add it to a [`crate::epoll::Poll`].
pub fn end_descriptor(child: &Child) -> io::Result<OwnedFd> {
    // SAFETY: no pointers. The child was not waited for yet, so that its id is its own.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, child.id() as libc::pid_t, 0) };
    let fd = checked(fd as libc::c_int)?;
    // SAFETY: the descriptor is new and owned by nothing else; the kernel closes it on exec.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Kills all processes of the group that the child leads ([`std::os::unix::process::CommandExt::process_group`] with 0). To be called
/// before the child is waited for: its number may belong to others afterwards.
pub fn kill_group(child: &Child) {
    kill_group_of(child.id());
}

/// As [`kill_group`], for the child with this id, which was not waited for either.
pub fn kill_group_of(child: u32) {
    let group = child as libc::pid_t;
    // SAFETY: no pointers. It fails if all processes of the group have ended.
    _ = unsafe { libc::kill(-group, libc::SIGKILL) };
}

/// Has a program started without blocked signals. Otherwise it inherits those of [`crate::signal::Signals::block`], and no program that it
/// starts ends by SIGTERM, as timeout(1) expects.
pub fn unblock_signals(command: &mut Command) {
    let unblock = || {
        // SAFETY: integers, for which zero is a value; `sigemptyset` initializes it.
        let mut none: libc::sigset_t = unsafe { mem::zeroed() };
        // SAFETY: `none` lives through the calls; the old mask is not requested.
        let error = unsafe {
            libc::sigemptyset(&mut none);
            libc::pthread_sigmask(libc::SIG_SETMASK, &none, ptr::null_mut())
        };
        if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
    };
    // SAFETY: both calls are async-signal-safe (signal-safety(7)), and nothing is allocated between fork and exec.
    unsafe { command.pre_exec(unblock) };
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
    use crate::signal::Signals;
    use std::io::Read;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Stdio;
    use std::time::Duration;

    #[test]
    fn a_killed_group_ends_with_all_that_it_started() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 600 & sleep 600"]).process_group(0).stdout(Stdio::piped());
        let mut child = command.spawn().expect("every system has sh");
        let (poll, mut events) = (Poll::new().expect("epoll"), Events::with_capacity(1));
        let end = end_descriptor(&child).expect("it runs");
        poll.add(&end, 1, Interest::Readable).expect("a new descriptor");
        poll.wait(&mut events, Duration::from_millis(20)).expect("epoll");
        assert!(events.is_empty(), "it runs");
        kill_group(&child);
        poll.wait(&mut events, Duration::from_secs(10)).expect("epoll");
        assert_eq!(events.len(), 1);
        // The pipe is closed once the process in the background has ended too.
        let mut out = child.stdout.take().expect("it is piped");
        assert_eq!(out.read_to_string(&mut String::new()).expect("a pipe"), 0);
        assert!(!child.wait().expect("it is ours").success());
    }

    #[test]
    fn a_nonblocking_pipe_does_not_wait() {
        let mut child = Command::new("sleep").arg("600").stdout(Stdio::piped()).spawn().expect("every system has it");
        let mut out = child.stdout.take().expect("it is piped");
        set_nonblocking(&out).expect("it is open");
        assert_eq!(out.read(&mut [0]).map_err(|error| error.kind()), Err(io::ErrorKind::WouldBlock));
        child.kill().and_then(|()| child.wait()).expect("it is ours");
    }

    #[test]
    fn a_child_may_be_started_without_blocked_signals() {
        let _blocked = Signals::block().expect("blocking is always allowed");
        let mut command = Command::new("sh");
        command.args(["-c", "kill -s TERM $$; exit 0"]);
        assert_eq!(command.status().expect("every system has sh").signal(), None, "it inherits the mask");
        unblock_signals(&mut command);
        assert_eq!(command.status().expect("every system has sh").signal(), Some(libc::SIGTERM));
    }
}
