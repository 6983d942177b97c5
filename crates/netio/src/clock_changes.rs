//! Noticing that the clock was set or that the machine was resumed (timerfd_create(2)).

use crate::checked;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Readable once the clock was set or the machine resumed after a suspend: then the time until something is due is another one than
/// when a wait began. Add it to a [`crate::epoll::Poll`] as [`crate::epoll::Interest::Readable`].
pub struct ClockChanges(File);

impl ClockChanges {
    /// Reports changes from now on. Fails on kernels that do not report them, such as gVisor.
    pub fn new() -> io::Result<ClockChanges> {
        // SAFETY: no pointers.
        let fd =
            checked(unsafe { libc::timerfd_create(libc::CLOCK_REALTIME, libc::TFD_CLOEXEC | libc::TFD_NONBLOCK) })?;
        // SAFETY: the descriptor is new and owned by nothing else.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let zero = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let never = libc::timespec { tv_sec: libc::time_t::MAX, tv_nsec: 0 };
        let timer = libc::itimerspec { it_interval: zero, it_value: never };
        let flags = libc::TFD_TIMER_ABSTIME | libc::TFD_TIMER_CANCEL_ON_SET;
        // SAFETY: `timer` lives through the call; the old setting is not asked for.
        checked(unsafe { libc::timerfd_settime(fd.as_raw_fd(), flags, &timer, std::ptr::null_mut()) })?;
        Ok(ClockChanges(fd.into()))
    }

    /// Waits for the next change. Returns whether there was one since the last call.
    pub fn clear(&self) -> bool {
        // The timer never ends: EAGAIN without a change.
        matches!((&self.0).read(&mut [0; 8]), Err(error) if error.raw_os_error() == Some(libc::ECANCELED))
    }
}

impl AsFd for ClockChanges {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
