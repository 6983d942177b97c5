//! Shows how far a load is: a line on a terminal, a line in the log every few seconds elsewhere.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::log;

/// What has been done of a load; counted by the threads that do it.
pub struct Progress {
    zones: AtomicUsize,
    octets: AtomicU64,
    total_zones: usize,
    begin: Instant,
    is_done: AtomicBool,
}

/// How often a terminal is written to: as often as an eye can follow.
const TERMINAL_EVERY: Duration = Duration::from_millis(100);
/// How often the log is written to.
const LOG_EVERY: Duration = Duration::from_secs(5);

impl Progress {
    /// Nothing of this many zones.
    pub fn new(total_zones: usize) -> Progress {
        Progress {
            zones: AtomicUsize::new(0),
            octets: AtomicU64::new(0),
            total_zones,
            begin: Instant::now(),
            is_done: AtomicBool::new(false),
        }
    }

    /// One zone more is done.
    pub fn count_zone(&self) {
        self.zones.fetch_add(1, Ordering::Relaxed);
    }

    /// So many octets of zone text more are done.
    pub fn count_octets(&self, octets: u64) {
        self.octets.fetch_add(octets, Ordering::Relaxed);
    }

    /// Runs `work` and shows the progress meanwhile; `every_log` is called with each line for the log.
    pub fn show_during<R>(&self, every_log: impl Fn(&str) + Sync, work: impl FnOnce() -> R) -> R {
        std::thread::scope(|scope| {
            let shower = scope.spawn(|| self.show(&every_log));
            let result = work();
            self.is_done.store(true, Ordering::Relaxed);
            shower.thread().unpark();
            result
        })
    }

    fn show(&self, every_log: &impl Fn(&str)) {
        let is_terminal = std::io::stderr().is_terminal();
        let every = if is_terminal { TERMINAL_EVERY } else { LOG_EVERY };
        let mut next = self.begin + every;
        while !self.is_done.load(Ordering::Relaxed) {
            let now = Instant::now();
            if now < next {
                std::thread::park_timeout(next - now);
                continue;
            }
            next = now + every;
            match is_terminal {
                true => log::show_progress(&self.line()),
                false => every_log(&self.line()),
            }
        }
        log::wipe_progress();
    }

    fn line(&self) -> String {
        format!(
            "Loading: {} of {} zones, {} MB of zone text, {} s",
            self.zones.load(Ordering::Relaxed),
            self.total_zones,
            self.octets.load(Ordering::Relaxed) / 1_000_000,
            self.begin.elapsed().as_secs()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_ends_at_once_and_is_counted() {
        let progress = Progress::new(2);
        let result = progress.show_during(
            |_| (),
            || {
                progress.count_zone();
                progress.count_octets(3_500_000);
                7
            },
        );
        assert_eq!(result, 7);
        assert!(progress.begin.elapsed() < LOG_EVERY);
        assert_eq!(progress.line(), "Loading: 1 of 2 zones, 3 MB of zone text, 0 s");
    }
}
