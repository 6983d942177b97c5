//! Clocks (clock_gettime(2)). The coarse ones have the resolution of a kernel tick (1 to 10 ms) and are cheap enough to read once per
//! batch.

use std::time::Duration;

/// The monotonic clock, coarse. For intervals.
pub fn monotonic() -> Duration {
    read(libc::CLOCK_MONOTONIC_COARSE)
}

/// The monotonic clock, exact: comparable with the readings of other processes.
pub fn monotonic_exact() -> Duration {
    read(libc::CLOCK_MONOTONIC)
}

/// The time since the start of the machine, exact. Unlike the monotonic clock, it goes on while the machine is suspended.
pub fn boot() -> Duration {
    read(libc::CLOCK_BOOTTIME)
}

/// Time since 1970-01-01 UTC, coarse. For logs and protocols.
pub fn real() -> Duration {
    read(libc::CLOCK_REALTIME_COARSE)
}

/// Time since 1970-01-01 UTC, exact: comparable with the kernel's timestamps.
pub fn real_exact() -> Duration {
    read(libc::CLOCK_REALTIME)
}

/// CPU time of the calling thread.
pub fn thread_cpu() -> Duration {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// A timeout in kernel form.
pub(crate) fn timespec(timeout: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: timeout.as_secs().min(i32::MAX as u64) as libc::time_t,
        tv_nsec: timeout.subsec_nanos() as _,
    }
}

/// Minimizes the timer slack of the calling thread, by which the kernel may prolong its waits: 50 us by default (PR_SET_TIMERSLACK(2const)).
pub fn minimize_timer_slack() {
    // SAFETY: no pointers. It only fails for options unknown to the kernel.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
}

fn read(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` lives through the call.
    let result = unsafe { libc::clock_gettime(clock, &mut time) };
    assert_eq!(result, 0, "Linux has had these clocks since 2.6.39");
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
        let uptime = std::fs::read_to_string("/proc/uptime").expect("proc(5)");
        let uptime_s: f64 = uptime.split(' ').next().and_then(|number| number.parse().ok()).expect("proc_uptime(5)");
        assert!((boot().as_secs_f64() - uptime_s).abs() < 1.0, "{:?} against {uptime_s} s", boot());
    }
}
