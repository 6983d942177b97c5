//! Signals, received by waiting (sigtimedwait(2)) instead of handlers.

use crate::checked;
use std::io;
use std::mem;
use std::ptr;
use std::time::Duration;

/// The signals that the programs handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM: terminate in an orderly way.
    Terminate,
    /// SIGINT, from the keyboard: as SIGTERM.
    Interrupt,
    /// SIGHUP: reload the configuration and the zones.
    Hangup,
    /// SIGUSR1: its meaning is up to the program.
    User1,
}

const NUMBERS: [(libc::c_int, Signal); 4] = [
    (libc::SIGTERM, Signal::Terminate),
    (libc::SIGINT, Signal::Interrupt),
    (libc::SIGHUP, Signal::Hangup),
    (libc::SIGUSR1, Signal::User1),
];

/// Receives the signals, which are blocked since [`Signals::block`].
pub struct Signals {
    set: libc::sigset_t,
}

impl Signals {
    /// Blocks the signals in the calling thread and in threads and programs it starts afterwards: call it first in `main`.
    pub fn block() -> io::Result<Signals> {
        // SAFETY: integers, for which zero is a value; `sigemptyset` initializes it.
        let mut set: libc::sigset_t = unsafe { mem::zeroed() };
        // SAFETY: `set` lives through the calls; the numbers are valid signals.
        unsafe {
            libc::sigemptyset(&mut set);
            for (number, _) in NUMBERS {
                libc::sigaddset(&mut set, number);
            }
        }
        // SAFETY: `set` lives through the call; the old mask is not requested.
        match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set, ptr::null_mut()) } {
            0 => Ok(Signals { set }),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }

    /// Waits for one of the signals for at most `timeout`; `None` after that, or when interrupted.
    pub fn wait(&self, timeout: Duration) -> Option<Signal> {
        let timeout = crate::clock::timespec(timeout);
        // SAFETY: both live through the call; the details of the signal are not requested.
        let number = checked(unsafe { libc::sigtimedwait(&self.set, ptr::null_mut(), &timeout) }).ok()?;
        NUMBERS.iter().find(|(known, _)| *known == number).map(|(_, signal)| *signal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_signal_is_received_once_and_waits_time_out() {
        let signals = Signals::block().expect("blocking is always allowed");
        for (number, signal) in NUMBERS {
            // SAFETY: no pointers; the signal is blocked in this thread, to which alone it goes.
            unsafe { libc::pthread_kill(libc::pthread_self(), number) };
            assert_eq!(signals.wait(Duration::from_secs(5)), Some(signal));
        }
        assert_eq!(signals.wait(Duration::from_millis(10)), None);
    }
}
