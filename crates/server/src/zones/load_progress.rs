//! Progress of loading, of one zone and of all, and its display: a line on a terminal, or log lines.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::log;

/// Progress of reading one zone, updated by the threads that read it.
#[derive(Default)]
pub struct ReadProgress {
    octets: AtomicU64,
    is_read: AtomicBool,
}

impl ReadProgress {
    /// Adds octets of zone text that were read.
    pub fn count_octets(&self, octets: u64) {
        self.octets.fetch_add(octets, Ordering::Relaxed);
    }

    /// Records that all text is read.
    pub fn end_reading(&self) {
        self.is_read.store(true, Ordering::Relaxed);
    }

    /// Octets of zone text read so far, included files too.
    pub fn octets(&self) -> u64 {
        self.octets.load(Ordering::Relaxed)
    }

    /// Whether all text is read; the zone is built after that.
    pub fn is_read(&self) -> bool {
        self.is_read.load(Ordering::Relaxed)
    }
}

/// Progress of loading all zones.
#[derive(Clone, Copy)]
pub struct LoadProgress {
    /// Zones loaded.
    pub done: usize,
    /// Zones in total.
    pub total: usize,
    /// Octets of zone text read.
    pub octets: u64,
}

/// Shows the progress of loading all zones.
pub struct ProgressDisplay {
    begun: Instant,
    next: Instant,
    is_terminal: bool,
}

/// Between updates of a terminal.
const TERMINAL_INTERVAL: Duration = Duration::from_millis(100);
/// Between log lines.
const LOG_INTERVAL: Duration = Duration::from_secs(5);

impl ProgressDisplay {
    /// A display for loads that begin now.
    pub fn new(now: Instant) -> ProgressDisplay {
        let is_terminal = std::io::stderr().is_terminal();
        ProgressDisplay { begun: now, next: now + ProgressDisplay::interval(is_terminal), is_terminal }
    }

    fn interval(is_terminal: bool) -> Duration {
        if is_terminal { TERMINAL_INTERVAL } else { LOG_INTERVAL }
    }

    /// Shows the progress if the interval has passed: on a terminal, or else by `log_line`.
    pub fn show(&mut self, now: Instant, progress: LoadProgress, log_line: impl FnOnce(&str)) {
        if now < self.next {
            return;
        }
        self.next = now + ProgressDisplay::interval(self.is_terminal);
        let seconds = now.saturating_duration_since(self.begun).as_secs();
        let LoadProgress { done, total, octets } = progress;
        let line = format!("Loading: {done} of {total} zones, {} MB of zone text, {seconds} s", octets / 1_000_000);
        match self.is_terminal {
            true => log::show_progress(&line),
            false => log_line(&line),
        }
    }
}

impl Drop for ProgressDisplay {
    fn drop(&mut self) {
        log::show_progress("");
    }
}
