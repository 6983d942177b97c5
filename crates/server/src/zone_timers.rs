//! Timers of all zones, in whole seconds: when each secondary zone needs attention next.
//!
//! A 4-ary heap that knows the position of every timer, so that a timer is moved or cleared where it is: 12 octets for
//! each timer that runs, 4 for one that does not, and no allocation, thread or system timer per zone. It reads no clock.

/// A timer that was due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DueTimer {
    /// When it was due: seconds since the epoch.
    pub at_s: u32,
    /// The index of the zone.
    pub zone: u32,
}

/// The timers of zones that are numbered from 0, one for each. At most 2^31 - 1 zones.
#[derive(Default)]
pub struct ZoneTimers {
    /// A heap with [`ARITY`] children per entry: no entry is due after its children.
    heap: Vec<DueTimer>,
    /// For each zone the index of its timer in `heap`, or [`NOT_SET`].
    positions: Vec<u32>,
}

const NOT_SET: u32 = u32::MAX;
/// Four children are half a cache line: fewer levels than with two, for the same cache misses per level.
const ARITY: usize = 4;

impl ZoneTimers {
    /// Sets a timer, or sets it anew. `at_s` is in seconds since the epoch.
    pub fn set(&mut self, zone: u32, at_s: u32) {
        if self.positions.len() <= zone as usize {
            self.positions.resize(zone as usize + 1, NOT_SET);
        }
        let timer = DueTimer { at_s, zone };
        match self.positions[zone as usize] {
            NOT_SET => {
                self.heap.push(timer);
                self.sift_up(self.heap.len() - 1, timer);
            }
            position => self.replace(position as usize, timer),
        }
    }

    /// Clears a timer.
    pub fn clear(&mut self, zone: u32) {
        if let Some(position) = self.position(zone) {
            self.remove(position);
        }
    }

    /// When a timer is due, if it is set.
    pub fn get(&self, zone: u32) -> Option<u32> {
        self.position(zone).map(|position| self.heap[position].at_s)
    }

    /// When the next timer is due.
    pub fn next_time(&self) -> Option<u32> {
        self.heap.first().map(|timer| timer.at_s)
    }

    /// Clears and returns one timer that is due at `now_s`, the earliest first.
    pub fn take_due(&mut self, now_s: u32) -> Option<DueTimer> {
        let timer = *self.heap.first().filter(|timer| timer.at_s <= now_s)?;
        self.remove(0);
        Some(timer)
    }

    /// How many timers are set.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether no timer is set.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    fn position(&self, zone: u32) -> Option<usize> {
        let position = *self.positions.get(zone as usize)?;
        (position != NOT_SET).then_some(position as usize)
    }

    fn remove(&mut self, position: usize) {
        self.positions[self.heap[position].zone as usize] = NOT_SET;
        let last = self.heap.pop().expect("the heap has an entry at `position`");
        if position < self.heap.len() {
            self.replace(position, last);
        }
    }

    /// Puts `timer` where another was, or where it has to go from there.
    fn replace(&mut self, position: usize, timer: DueTimer) {
        let is_early = position > 0 && timer.at_s < self.heap[(position - 1) / ARITY].at_s;
        if is_early { self.sift_up(position, timer) } else { self.sift_down(position, timer) }
    }

    fn sift_up(&mut self, mut position: usize, timer: DueTimer) {
        while position > 0 {
            let parent = (position - 1) / ARITY;
            if self.heap[parent].at_s <= timer.at_s {
                break;
            }
            self.place(position, self.heap[parent]);
            position = parent;
        }
        self.place(position, timer);
    }

    fn sift_down(&mut self, mut position: usize, timer: DueTimer) {
        loop {
            let first = position * ARITY + 1;
            let children = first..(first + ARITY).min(self.heap.len());
            let Some(child) = children.min_by_key(|&child| self.heap[child].at_s) else { break };
            if self.heap[child].at_s >= timer.at_s {
                break;
            }
            self.place(position, self.heap[child]);
            position = child;
        }
        self.place(position, timer);
    }

    fn place(&mut self, position: usize, timer: DueTimer) {
        self.heap[position] = timer;
        self.positions[timer.zone as usize] = position as u32;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Set(u32, u32),
        Clear(u32),
        Take(u32),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let zone = 0..80u32;
        let time = prop_oneof![0..100u32, Just(u32::MAX)];
        let step = prop_oneof![
            6 => (zone.clone(), time.clone()).prop_map(|(zone, at)| Step::Set(zone, at)),
            2 => zone.prop_map(Step::Clear),
            2 => time.prop_map(Step::Take),
        ];
        prop::collection::vec(step, 0..400)
    }

    proptest! {
        #[test]
        fn timers_are_those_of_a_plain_map(steps in steps()) {
            let (mut timers, mut model) = (ZoneTimers::default(), BTreeMap::new());
            for step in steps {
                match step {
                    Step::Set(zone, at_s) => {
                        timers.set(zone, at_s);
                        model.insert(zone, at_s);
                    }
                    Step::Clear(zone) => {
                        timers.clear(zone);
                        model.remove(&zone);
                    }
                    Step::Take(now_s) => {
                        let due = timers.take_due(now_s);
                        let earliest = model.values().min().copied().filter(|&at_s| at_s <= now_s);
                        prop_assert_eq!(due.map(|due| due.at_s), earliest);
                        if let Some(due) = due {
                            prop_assert_eq!(model.remove(&due.zone), Some(due.at_s));
                        }
                    }
                }
                prop_assert_eq!(timers.next_time(), model.values().min().copied());
                prop_assert_eq!(timers.len(), model.len());
            }
            for zone in 0..80 {
                prop_assert_eq!(timers.get(zone), model.get(&zone).copied());
            }
            let rest: BTreeSet<DueTimer> = std::iter::from_fn(|| timers.take_due(u32::MAX)).collect();
            prop_assert_eq!(rest.len(), model.len());
            prop_assert!(timers.is_empty());
        }
    }

    #[test]
    fn timers_come_in_order_of_time_and_not_before_it() {
        let mut timers = ZoneTimers::default();
        for zone in 0..1000 {
            timers.set(zone, 1 + (zone * 7919) % 1000);
        }
        assert_eq!(timers.take_due(0), None);
        let times: Vec<u32> = std::iter::from_fn(|| timers.take_due(500)).map(|due| due.at_s).collect();
        assert!(times.len() == 500 && times.is_sorted());
        assert_eq!(timers.next_time(), Some(501));
    }
}
