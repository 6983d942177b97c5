//! Which zone to load next, while several reloads each want every zone loaded once.
//!
//! Zones are loaded round-robin. A reload makes all zones due again, but the round goes on from where it is: no zone
//! starves while reloads keep coming, and one load counts for every reload that began before it. The zones that a reload
//! still waits for are therefore always a run that starts at the next zone.

use std::collections::VecDeque;

/// The round, and the reloads that are not through with it.
#[derive(Default)]
pub struct LoadSchedule {
    /// The index of the zone to load next.
    next: usize,
    zones: usize,
    /// Loads started so far.
    started: u64,
    /// Reloads with zones left to start, oldest first.
    pending: VecDeque<PendingReload>,
    /// The number of the latest reload.
    latest: u64,
}

struct PendingReload {
    number: u64,
    /// The value of [`LoadSchedule::started`] at which every zone was started for this reload.
    end: u64,
}

impl LoadSchedule {
    /// Begins a reload: makes `zones` zones due. `removed` are the indices of zones that are gone; `added` are those of the
    /// zones that new ones were inserted before. Both count zones as they were numbered so far.
    pub fn begin_reload(&mut self, zones: usize, removed: &[usize], added: &[usize]) {
        let (next, old_zones) = (self.next, self.zones);
        let distance = |index: usize| (index + old_zones - next) % old_zones;
        for reload in &mut self.pending {
            let due = (reload.end - self.started) as usize;
            let gone = removed.iter().filter(|index| distance(**index) < due).count();
            // A zone inserted into the run is loaded on the way.
            let passed = added.iter().filter(|index| (1..due).contains(&distance(**index))).count();
            reload.end = reload.end + passed as u64 - gone as u64;
        }
        self.next += added.iter().filter(|index| **index <= next).count();
        self.next -= removed.iter().filter(|index| **index < next).count();
        self.next = if self.next < zones { self.next } else { 0 };
        self.zones = zones;
        self.latest += 1;
        self.pending.push_back(PendingReload { number: self.latest, end: self.started + zones as u64 });
        self.drop_finished();
    }

    /// The zone to load now.
    pub fn next_zone(&mut self) -> Option<usize> {
        self.pending.front()?;
        let zone = self.next;
        self.next = (zone + 1) % self.zones;
        self.started += 1;
        self.drop_finished();
        Some(zone)
    }

    fn drop_finished(&mut self) {
        while self.pending.front().is_some_and(|reload| reload.end <= self.started) {
            self.pending.pop_front();
        }
    }

    /// How many zones are due.
    pub fn due(&self) -> usize {
        self.pending.back().map_or(0, |reload| (reload.end - self.started) as usize)
    }

    /// The number of the latest reload.
    pub fn latest_reload(&self) -> u64 {
        self.latest
    }

    /// Whether every zone was started since this reload began.
    pub fn has_started_all(&self, reload: u64) -> bool {
        self.pending.front().is_none_or(|pending| pending.number > reload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zones(schedule: &mut LoadSchedule, count: usize) -> Vec<usize> {
        (0..count).map_while(|_| schedule.next_zone()).collect()
    }

    fn schedule(zones: usize) -> LoadSchedule {
        let mut schedule = LoadSchedule::default();
        schedule.begin_reload(zones, &[], &[]);
        schedule
    }

    #[test]
    fn every_reload_gets_every_zone_once() {
        let mut schedule = schedule(4);
        assert_eq!(zones(&mut schedule, 3), [0, 1, 2]);
        schedule.begin_reload(4, &[], &[]);
        assert_eq!(zones(&mut schedule, 1), [3]);
        assert!(schedule.has_started_all(1) && !schedule.has_started_all(2));
        assert_eq!(zones(&mut schedule, 9), [0, 1, 2]);
        assert!(schedule.has_started_all(2) && schedule.due() == 0);
    }

    #[test]
    fn the_round_goes_on_when_zones_come_and_go() {
        let mut schedule = schedule(6);
        assert_eq!(zones(&mut schedule, 2), [0, 1]);
        // Zones 1 and 3 are removed; new ones come first, before zone 3 and last: 2, 4 and 5 are now 2, 4 and 5 of 7.
        schedule.begin_reload(7, &[1, 3], &[0, 3, 6]);
        assert_eq!(zones(&mut schedule, 3), [2, 3, 4]);
        assert!(!schedule.has_started_all(1));
        assert_eq!((zones(&mut schedule, 1), schedule.has_started_all(1)), (vec![5], true));
        assert_eq!((zones(&mut schedule, 9), schedule.has_started_all(2)), (vec![6, 0, 1], true));
        schedule.begin_reload(0, &[0, 1, 2, 3, 4, 5, 6], &[]);
        assert_eq!((schedule.next_zone(), schedule.has_started_all(3)), (None, true));
    }

    #[test]
    fn a_reload_needs_one_round_however_often_the_zones_change() {
        let mut schedule = schedule(10);
        for loads in 0..10 {
            assert!(!schedule.has_started_all(1), "after {loads} loads");
            schedule.next_zone();
            // A zone is added after the last one, or removed again.
            if loads % 2 == 0 {
                schedule.begin_reload(11, &[], &[10]);
            } else {
                schedule.begin_reload(10, &[10], &[]);
            }
        }
        assert!(schedule.has_started_all(1) && !schedule.has_started_all(2));
    }
}
