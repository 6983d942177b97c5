//! Which zone to load next, while several reloads each want every zone loaded once.
//!
//! The slots of the zones are passed round-robin. A reload makes all zones due again, but the round goes on from where it
//! is: no zone starves while reloads keep coming, and one load counts for every reload that began before it. The slots
//! that a reload still waits for are therefore always a run that starts at the next slot.

use std::collections::VecDeque;

/// The round, and the reloads that are not through with it.
#[derive(Default)]
pub struct LoadSchedule {
    /// The next slot.
    next: usize,
    /// All slots, with and without a zone.
    slots: usize,
    /// Slots passed so far.
    passed: u64,
    /// Zones that the latest reload has yet to start.
    due: usize,
    /// Reloads with slots left to pass, oldest first.
    pending: VecDeque<PendingReload>,
    /// The number of the latest reload.
    latest: u64,
}

struct PendingReload {
    number: u64,
    /// The value of [`LoadSchedule::passed`] at which every slot was passed for this reload.
    end: u64,
}

impl LoadSchedule {
    /// Begins a reload: makes all `zones` due.
    pub fn begin_reload(&mut self, zones: usize) {
        self.latest += 1;
        self.due = zones;
        self.pending.push_back(PendingReload { number: self.latest, end: self.passed + self.slots as u64 });
        self.drop_finished();
    }

    /// A zone was put into a free slot, or into a new one after the last.
    pub fn zone_added(&mut self, slot: usize) {
        if slot == self.slots {
            let (next, passed, end) = (self.next as u64, self.passed, self.slots as u64);
            // Runs that go on after the last slot get longer.
            let across = self.pending.iter_mut().filter(|reload| next + (reload.end - passed) > end);
            across.for_each(|reload| reload.end += 1);
            self.slots += 1;
        }
        self.due += usize::from(self.is_due(slot));
    }

    /// The zone in this slot was removed.
    pub fn zone_removed(&mut self, slot: usize) {
        self.due -= usize::from(self.is_due(slot));
        self.drop_finished();
    }

    /// The slot of the zone to load now.
    pub fn next_zone(&mut self, has_zone: impl Fn(usize) -> bool) -> Option<usize> {
        // Ends as each round passes one slot of the pending runs.
        loop {
            self.pending.front()?;
            let slot = self.next;
            self.next = (slot + 1) % self.slots;
            let is_due = has_zone(slot);
            self.due -= usize::from(is_due);
            self.passed += 1;
            self.drop_finished();
            if is_due {
                return Some(slot);
            }
        }
    }

    fn drop_finished(&mut self) {
        // The zones that are due for the latest reload include those of all others; what is left are free slots.
        if self.due == 0 {
            self.pending.clear();
        }
        while self.pending.front().is_some_and(|reload| reload.end <= self.passed) {
            self.pending.pop_front();
        }
    }

    /// Whether the latest reload has yet to pass the slot.
    fn is_due(&self, slot: usize) -> bool {
        let distance = (slot + self.slots - self.next) % self.slots;
        self.pending.back().is_some_and(|reload| (distance as u64) < reload.end - self.passed)
    }

    /// How many zones are due.
    pub fn due(&self) -> usize {
        self.due
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
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn zones(schedule: &mut LoadSchedule, count: usize) -> Vec<usize> {
        (0..count).map_while(|_| schedule.next_zone(|_| true)).collect()
    }

    fn schedule(zones: usize) -> LoadSchedule {
        let mut schedule = LoadSchedule::default();
        (0..zones).for_each(|slot| schedule.zone_added(slot));
        schedule.begin_reload(zones);
        schedule
    }

    #[test]
    fn every_reload_gets_every_zone_once() {
        let mut schedule = schedule(4);
        assert_eq!(zones(&mut schedule, 3), [0, 1, 2]);
        schedule.begin_reload(4);
        assert_eq!(zones(&mut schedule, 1), [3]);
        assert!(schedule.has_started_all(1) && !schedule.has_started_all(2));
        assert_eq!(zones(&mut schedule, 9), [0, 1, 2]);
        assert!(schedule.has_started_all(2) && schedule.due() == 0);
    }

    #[test]
    fn a_reload_needs_one_round_however_often_zones_come() {
        let mut schedule = schedule(10);
        for added in 0..10 {
            assert!(!schedule.has_started_all(1), "after {added} loads");
            assert_eq!(schedule.next_zone(|_| true), Some(added));
            schedule.zone_added(10 + added);
            schedule.begin_reload(11 + added);
        }
        assert!(schedule.has_started_all(1) && !schedule.has_started_all(2));
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Add,
        Remove(usize),
        Reload,
        Load,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            3 => Just(Step::Add),
            2 => (0..100usize).prop_map(Step::Remove),
            1 => Just(Step::Reload),
            4 => Just(Step::Load),
        ];
        prop::collection::vec(step, 0..200)
    }

    /// The zones by slot, and for each reload the zones that it has yet to start.
    #[derive(Default)]
    struct Model {
        used: BTreeSet<usize>,
        free: Vec<usize>,
        waiting: Vec<BTreeSet<usize>>,
    }

    impl Model {
        fn step(&mut self, schedule: &mut LoadSchedule, step: Step) {
            match step {
                Step::Add => {
                    let slot = self.free.pop().unwrap_or(self.used.len());
                    self.used.insert(slot);
                    schedule.zone_added(slot);
                }
                Step::Remove(number) => {
                    let Some(slot) = self.used.iter().nth(number % self.used.len().max(1)).copied() else { return };
                    self.used.remove(&slot);
                    self.free.push(slot);
                    self.waiting.iter_mut().for_each(|waiting| _ = waiting.remove(&slot));
                    schedule.zone_removed(slot);
                }
                Step::Reload => {
                    self.waiting.push(self.used.clone());
                    schedule.begin_reload(self.used.len());
                }
                Step::Load => {
                    let started = schedule.next_zone(|slot| self.used.contains(&slot));
                    assert!(
                        started.is_some() || self.waiting.iter().all(BTreeSet::is_empty),
                        "a reload waits for ever"
                    );
                    if let Some(slot) = started {
                        assert!(self.used.contains(&slot));
                        self.waiting.iter_mut().for_each(|waiting| _ = waiting.remove(&slot));
                    }
                }
            }
        }
    }

    proptest! {
        #[test]
        fn a_reload_is_complete_once_all_its_zones_were_started(steps in steps()) {
            let (mut schedule, mut model) = (LoadSchedule::default(), Model::default());
            for step in steps {
                model.step(&mut schedule, step);
                for (index, waiting) in model.waiting.iter().enumerate() {
                    let has_started = schedule.has_started_all(index as u64 + 1);
                    prop_assert!(!has_started || waiting.is_empty(), "reload {} ended early", index + 1);
                }
                let rounds = schedule.due();
                prop_assert!(rounds <= model.used.len());
                prop_assert!(rounds >= model.waiting.last().map_or(0, BTreeSet::len));
            }
            while schedule.next_zone(|slot| model.used.contains(&slot)).is_some() {}
            prop_assert_eq!(schedule.due(), 0);
        }
    }
}
