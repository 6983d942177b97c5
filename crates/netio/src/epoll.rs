//! Waiting for many descriptors at once (epoll(7)), and waking a waiting thread (eventfd(2)).

use crate::checked;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// The readiness to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Data, a connection or end of file can be read.
    Readable,
    /// Data can be written.
    Writable,
    /// Readable or writable.
    Both,
    /// Only errors and hang-ups.
    Nothing,
}

impl Interest {
    fn flags(self) -> u32 {
        match self {
            Interest::Readable => libc::EPOLLIN as u32,
            Interest::Writable => libc::EPOLLOUT as u32,
            Interest::Both => (libc::EPOLLIN | libc::EPOLLOUT) as u32,
            Interest::Nothing => 0,
        }
    }
}

/// A level-triggered epoll instance: unread data is reported again, so that one read per event is enough, no read has to fail, and
/// no connection starves the others.
pub struct Poll(OwnedFd);

impl Poll {
    /// An instance without descriptors.
    pub fn new() -> io::Result<Poll> {
        // SAFETY: no pointers.
        let fd = checked(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: the descriptor is new and owned by nothing else.
        Ok(Poll(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Adds a descriptor, whose events carry `token`. Closing it removes it.
    pub fn add(&self, source: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, source.as_fd(), token, interest)
    }

    /// Changes the interest of a descriptor.
    pub fn modify(&self, source: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, source.as_fd(), token, interest)
    }

    /// Removes a descriptor that stays open.
    pub fn remove(&self, source: impl AsFd) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, source.as_fd(), 0, Interest::Nothing)
    }

    fn control(&self, operation: libc::c_int, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        let mut event = libc::epoll_event { events: interest.flags(), u64: token };
        // SAFETY: `event` lives through the call; both descriptors are open.
        checked(unsafe { libc::epoll_ctl(self.0.as_raw_fd(), operation, fd.as_raw_fd(), &mut event) })?;
        Ok(())
    }

    /// As [`Poll::wait`], with the full resolution of `timeout` (epoll_pwait2(2); see [`crate::clock::minimize_timer_slack`]).
    pub fn wait_precise(&self, events: &mut Events, timeout: Duration) -> io::Result<()> {
        let timeout = crate::clock::timespec(timeout);
        let fd = self.0.as_raw_fd();
        // SAFETY: both live through the call, the list has the length passed; no signal mask is given.
        events.fill(|list, len| unsafe { libc::epoll_pwait2(fd, list, len, &timeout, std::ptr::null()) })
    }

    /// Waits for events for at most `timeout`, rounded up to a millisecond, and stores them in `events`.
    pub fn wait(&self, events: &mut Events, timeout: Duration) -> io::Result<()> {
        let timeout_ms = libc::c_int::try_from(timeout.as_nanos().div_ceil(1_000_000)).unwrap_or(libc::c_int::MAX);
        // SAFETY: the list lives through the call and has the length passed.
        events.fill(|list, len| unsafe { libc::epoll_wait(self.0.as_raw_fd(), list, len, timeout_ms) })
    }
}

/// The events of a [`Poll::wait`].
pub struct Events {
    list: Vec<libc::epoll_event>,
    count: usize,
}

/// The event of a ready descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The token of the descriptor.
    pub token: u64,
    /// Whether it can be read, is at end of file, or has an error that a read returns.
    pub readable: bool,
    /// Whether it can be written, or has an error that a write returns.
    pub writable: bool,
}

impl Events {
    /// A buffer for `capacity` events per wait.
    ///
    /// # Panics
    /// When `capacity` is 0.
    pub fn with_capacity(capacity: usize) -> Events {
        assert!(capacity > 0, "epoll_wait(2) needs room for one event");
        Events { list: vec![libc::epoll_event { events: 0, u64: 0 }; capacity], count: 0 }
    }

    /// Stores what `wait` returns. It begins again when a signal interrupts it: one that is ignored does so, too, if it arrives while
    /// another thread has it blocked to start a process.
    fn fill(&mut self, wait: impl Fn(*mut libc::epoll_event, libc::c_int) -> libc::c_int) -> io::Result<()> {
        self.count = 0;
        loop {
            match checked(wait(self.list.as_mut_ptr(), self.list.len() as libc::c_int)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                result => return result.map(|count| self.count = count as usize),
            }
        }
    }

    /// The number of events.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are no events.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The event at `index`, which must be below [`Events::len`].
    pub fn at(&self, index: usize) -> Event {
        let libc::epoll_event { events, u64: token } = self.list[..self.count][index];
        let broken = (libc::EPOLLERR | libc::EPOLLHUP) as u32;
        Event {
            token,
            readable: events & (libc::EPOLLIN as u32 | broken) != 0,
            writable: events & (libc::EPOLLOUT as u32 | broken) != 0,
        }
    }
}

/// Wakes a waiting thread from another one (eventfd(2)). Add it to the thread's [`Poll`] as [`Interest::Readable`].
pub struct Waker(std::fs::File);

impl Waker {
    /// A waker in the cleared state.
    pub fn new() -> io::Result<Waker> {
        // SAFETY: no pointers.
        let fd = checked(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        // SAFETY: the descriptor is new and owned by nothing else.
        Ok(Waker(unsafe { OwnedFd::from_raw_fd(fd) }.into()))
    }

    /// Ends the current and all further waits of the thread, until [`Waker::clear`].
    pub fn wake(&self) {
        // Fails only after 2^64 - 2 wakes without a clear: the thread is awake anyway.
        let _ = (&self.0).write(&1u64.to_ne_bytes());
    }

    /// Resets the waker.
    pub fn clear(&self) {
        // Fails only if the waker is already clear.
        let _ = (&self.0).read(&mut [0; 8]);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    const SOON: Duration = Duration::from_secs(5);

    #[test]
    fn interest_can_change_and_end_of_file_is_readable() {
        let (poll, mut events) = (Poll::new().expect("epoll"), Events::with_capacity(4));
        let (stream, peer) = UnixStream::pair().expect("a socket pair");
        poll.add(&stream, 1, Interest::Nothing).expect("a fresh descriptor");
        poll.wait(&mut events, Duration::ZERO).expect("epoll");
        assert!(events.is_empty());
        poll.modify(&stream, 2, Interest::Writable).expect("a registered descriptor");
        poll.wait(&mut events, SOON).expect("epoll");
        assert_eq!(events.at(0), Event { token: 2, readable: false, writable: true });
        drop(peer);
        poll.modify(&stream, 3, Interest::Readable).expect("a registered descriptor");
        poll.wait(&mut events, SOON).expect("epoll");
        assert!(events.at(0).readable);
    }

    #[test]
    fn precise_waits_end_within_a_millisecond_of_their_timeout() {
        crate::clock::minimize_timer_slack();
        let (poll, mut events) = (Poll::new().expect("epoll"), Events::with_capacity(4));
        // The best of twenty: the machine may be busy.
        let mut wait = || {
            let began = std::time::Instant::now();
            poll.wait_precise(&mut events, Duration::from_micros(300)).expect("epoll");
            began.elapsed()
        };
        let best = std::iter::repeat_with(&mut wait).take(20).min().expect("twenty");
        assert!((Duration::from_micros(300)..Duration::from_micros(1000)).contains(&best), "{best:?}");
    }

    #[test]
    fn a_waker_stays_readable_until_cleared() {
        let (poll, mut events) = (Poll::new().expect("epoll"), Events::with_capacity(4));
        let waker = Waker::new().expect("eventfd");
        poll.add(&waker, 9, Interest::Readable).expect("a fresh descriptor");
        waker.wake();
        waker.wake();
        for _ in 0..2 {
            poll.wait(&mut events, SOON).expect("epoll");
            assert_eq!(events.at(0).token, 9);
        }
        waker.clear();
        poll.wait(&mut events, Duration::from_millis(1)).expect("epoll");
        assert!(events.is_empty());
    }
}
