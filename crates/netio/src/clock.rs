//! Clocks, read without a system call; the coarse ones are exact to a tick of the kernel (1 to 10 ms) and cheap enough for once a batch.

use std::time::Duration;

/// Time since some fixed moment, never going back. For intervals.
pub fn monotonic() -> Duration {
    read(libc::CLOCK_MONOTONIC_COARSE)
}

/// The same clock as [`monotonic`], not coarse: for comparison with what other processes read.
pub fn monotonic_exact() -> Duration {
    read(libc::CLOCK_MONOTONIC)
}

/// Time since 1970-01-01 UTC. For what the world is told.
pub fn real() -> Duration {
    read(libc::CLOCK_REALTIME_COARSE)
}

/// Processor time that the calling thread has had.
pub fn thread_cpu() -> Duration {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Lets timed waits of the calling thread end when they should: the kernel may else add 50 us (prctl(2), PR_SET_TIMERSLACK).
pub fn minimize_timer_slack() {
    // SAFETY: no pointers. It fails only for options that the kernel does not know.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
}

fn read(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` lives through the call.
    let result = unsafe { libc::clock_gettime(clock, &mut time) };
    assert_eq!(result, 0, "Linux has had these clocks since 2.6.32");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Instant, SystemTime};

    #[test]
    fn clocks_agree_with_the_precise_ones() {
        let (coarse, precise) = (monotonic(), Instant::now());
        std::thread::sleep(Duration::from_millis(60));
        let (coarse, precise) = (monotonic() - coarse, precise.elapsed());
        assert!(coarse.abs_diff(precise) < Duration::from_millis(30), "{coarse:?} against {precise:?}");
        let now = SystemTime::UNIX_EPOCH.elapsed().expect("after 1970");
        assert!(monotonic().abs_diff(monotonic_exact()) < Duration::from_millis(30));
        assert!(real().abs_diff(now) < Duration::from_secs(1));
    }
}
