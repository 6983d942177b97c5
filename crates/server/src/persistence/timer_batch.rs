//! Timers of zones that are to be stored: collected for some seconds, so that a million refreshed zones do not cause a sync each.
//!
//! What a crash loses of them is harmless: a zone is refreshed once more, or expires as it would have without the last refresh.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use wire::Name;

use super::waiting_timers::WaitingTimers;
use crate::clock;
use crate::storage::Timers;
use crate::zone_id::ZoneId;

/// How long timers are collected.
const INTERVAL: Duration = Duration::from_secs(5);
/// More than these are written at once: they take 200 kB of memory, and a million zones need 500 syncs.
const MAX_TIMERS: usize = 2 << 10;

/// The timers to be written.
#[derive(Default)]
pub struct TimerBatch {
    timers: HashMap<ZoneId, (Name, Timers)>,
    /// Those that are written with the first image of their zone.
    waiting: WaitingTimers,
    due: Option<Instant>,
}

impl TimerBatch {
    /// Adds the timers of a zone, in place of earlier ones.
    pub fn put(&mut self, zone: ZoneId, apex: Name, timers: Timers) {
        self.waiting.take(zone);
        self.timers.insert(zone, (apex, timers));
        let now = clock::now();
        let due = self.due.get_or_insert(now + INTERVAL);
        if self.timers.len() == MAX_TIMERS {
            *due = now;
        }
    }

    /// Adds the timers of a secondary zone that is not stored: they are written with its image, in place of earlier ones.
    pub fn put_with_image(&mut self, zone: ZoneId, timers: Timers) {
        self.timers.remove(&zone);
        self.waiting.put(zone, timers);
    }

    /// Adds timers that could not be written yet. They wait for the next interval, however many they are: else zones whose images
    /// are being written would be looked at again and again.
    pub fn put_back(&mut self, zone: ZoneId, apex: Name, timers: Timers) {
        self.timers.insert(zone, (apex, timers));
        self.due.get_or_insert(clock::now() + INTERVAL);
    }

    /// Takes the timers of a zone.
    pub fn take(&mut self, zone: ZoneId) -> Option<Timers> {
        let waiting = self.waiting.take(zone);
        self.timers.remove(&zone).map(|(_, timers)| timers).or(waiting)
    }

    /// Forgets timers that were to be written with an image.
    pub fn forget_waiting(&mut self, zone: ZoneId) {
        self.waiting.take(zone);
    }

    /// Takes all that do not wait for an image.
    pub fn take_all(&mut self) -> Vec<(ZoneId, Name, Timers)> {
        self.due = None;
        std::mem::take(&mut self.timers).into_iter().map(|(zone, (apex, timers))| (zone, apex, timers)).collect()
    }

    /// When they are to be written.
    pub fn due(&self) -> Option<Instant> {
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apex() -> Name {
        "z.".parse().expect("a name")
    }

    fn timers() -> Timers {
        Timers { stored_at_s: 0, next_refresh_s: 0, expires_at_s: 0, source_serial: 0, fingerprint: 0 }
    }

    #[test]
    fn many_timers_are_written_at_once_but_those_that_cannot_be_written_wait() {
        let mut batch = TimerBatch::default();
        let zone = |index: usize| ZoneId { index: index as u32, generation: 0 };
        (0..MAX_TIMERS).for_each(|index| batch.put(zone(index), apex(), timers()));
        assert!(batch.due().is_some_and(|due| due <= Instant::now()));
        for (zone, apex, timers) in batch.take_all() {
            batch.put_back(zone, apex, timers);
        }
        assert!(batch.due().is_some_and(|due| due > Instant::now()));
        batch.put(zone(MAX_TIMERS), apex(), timers());
        assert!(batch.due().is_some_and(|due| due > Instant::now()));
        assert_eq!(batch.take_all().len(), MAX_TIMERS + 1);
    }
}
