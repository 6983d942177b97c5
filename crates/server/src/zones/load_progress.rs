//! How far reading is, of one zone and of all, and its display: a line on a terminal, a line in the log every few
//! seconds elsewhere.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::log;

/// How far the reading of one zone is; counted by the threads that read it.
#[derive(Default)]
pub struct ReadProgress {
    octets: AtomicU64,
    is_read: AtomicBool,
}

impl ReadProgress {
    /// So many octets of zone text more are read.
    pub fn count_octets(&self, octets: u64) {
        self.octets.fetch_add(octets, Ordering::Relaxed);
    }

    /// All text is read.
    pub fn end_reading(&self) {
        self.is_read.store(true, Ordering::Relaxed);
    }

    /// Octets of zone text read so far, those of included files too.
    pub fn octets(&self) -> u64 {
        self.octets.load(Ordering::Relaxed)
    }

    /// Whether all text is read; the zone is built after that.
    pub fn is_read(&self) -> bool {
        self.is_read.load(Ordering::Relaxed)
    }
}

/// How far a load of many zones is.
#[derive(Clone, Copy)]
pub struct LoadProgress {
    /// Zones that are done.
    pub done: usize,
    /// Zones altogether.
    pub total: usize,
    /// Octets of zone text read.
    pub octets: u64,
}

/// Shows how far a load of many zones is.
pub struct ProgressDisplay {
    begun: Instant,
    next: Instant,
    is_terminal: bool,
}

/// How often a terminal is written to: as often as an eye can follow.
const TERMINAL_EVERY: Duration = Duration::from_millis(100);
/// How often the log is written to.
const LOG_EVERY: Duration = Duration::from_secs(5);

impl ProgressDisplay {
    /// For a load that begins now.
    pub fn new(now: Instant) -> ProgressDisplay {
        let is_terminal = std::io::stderr().is_terminal();
        ProgressDisplay { begun: now, next: now + ProgressDisplay::every(is_terminal), is_terminal }
    }

    fn every(is_terminal: bool) -> Duration {
        if is_terminal { TERMINAL_EVERY } else { LOG_EVERY }
    }

    /// Shows the progress when it is time for that: on a terminal, or as a line for the log, given to `log_line`.
    pub fn show(&mut self, now: Instant, progress: LoadProgress, log_line: impl FnOnce(&str)) {
        if now < self.next {
            return;
        }
        self.next = now + ProgressDisplay::every(self.is_terminal);
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
        log::wipe_progress();
    }
}
