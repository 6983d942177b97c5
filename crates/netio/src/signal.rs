//! Signals as something one thread waits for, so that no handler ever runs.

use crate::checked;
use std::io;
use std::mem;
use std::ptr;
use std::time::Duration;

/// The signals that the programs know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM: finish and leave.
    Terminate,
    /// SIGINT, from the keyboard: the same.
    Interrupt,
    /// SIGHUP: read the configuration and the zones again.
    Hangup,
    /// SIGUSR1: for the program to give a meaning.
    User1,
}

const NUMBERS: [(libc::c_int, Signal); 4] = [
    (libc::SIGTERM, Signal::Terminate),
    (libc::SIGINT, Signal::Interrupt),
    (libc::SIGHUP, Signal::Hangup),
    (libc::SIGUSR1, Signal::User1),
];

/// The right to wait for signals; they are blocked from when it was made.
pub struct Signals {
    set: libc::sigset_t,
}

impl Signals {
    /// Blocks the signals in the calling thread and in all it starts from now on: call it first in `main`.
    /// They stay blocked in programs that the process starts, too.
    pub fn block() -> io::Result<Signals> {
        // SAFETY: integers, for which zero is a value; `sigemptyset` gives it meaning.
        let mut set: libc::sigset_t = unsafe { mem::zeroed() };
        // SAFETY: `set` lives through the calls, the numbers are those of signals.
        unsafe {
            libc::sigemptyset(&mut set);
            for (number, _) in NUMBERS {
                libc::sigaddset(&mut set, number);
            }
        }
        // SAFETY: `set` lives through the call; the old mask is not asked for.
        match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set, ptr::null_mut()) } {
            0 => Ok(Signals { set }),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }

    /// Waits for one of the signals, at most as long as `timeout`; `None` when none came.
    pub fn wait(&self, timeout: Duration) -> Option<Signal> {
        let timeout = libc::timespec {
            tv_sec: timeout.as_secs().min(i32::MAX as u64) as libc::time_t,
            tv_nsec: timeout.subsec_nanos() as _,
        };
        // SAFETY: both live through the call; the details of the signal are not asked for.
        let number = checked(unsafe { libc::sigtimedwait(&self.set, ptr::null_mut(), &timeout) }).ok()?;
        NUMBERS.iter().find(|(known, _)| *known == number).map(|(_, signal)| *signal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_signal_is_told_once_and_time_runs_out() {
        let signals = Signals::block().expect("blocking is always allowed");
        for (number, signal) in NUMBERS {
            // SAFETY: no pointers; the signal is blocked in this thread, to which alone it goes.
            unsafe { libc::pthread_kill(libc::pthread_self(), number) };
            assert_eq!(signals.wait(Duration::from_secs(5)), Some(signal));
        }
        assert_eq!(signals.wait(Duration::from_millis(10)), None);
    }
}
