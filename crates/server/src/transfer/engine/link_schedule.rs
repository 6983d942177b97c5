//! Which links have something to do: a turn of the engine costs what is ready, not what all primaries do.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};

use super::super::primary::PrimaryId;

/// When each link is to be looked at. A link that was touched is looked at in the next turn, and then at its next time.
#[derive(Default)]
pub(super) struct LinkSchedule {
    /// Among others, the next time of each link, in milliseconds.
    times: BinaryHeap<Reverse<(u64, PrimaryId)>>,
    /// The earliest entry of each link.
    earliest: HashMap<PrimaryId, u64>,
    touched: BTreeSet<PrimaryId>,
    /// Links with requests that wait for a connection.
    waiting: BTreeSet<PrimaryId>,
    /// The last link that had the chance to open a connection while there were too many.
    last_waiting: Option<PrimaryId>,
}

impl LinkSchedule {
    /// Something has happened to a link.
    pub(super) fn touch(&mut self, primary: PrimaryId) {
        self.touched.insert(primary);
    }

    /// The links that were touched since their next times were set.
    pub(super) fn touched(&self) -> impl Iterator<Item = PrimaryId> {
        self.touched.iter().copied()
    }

    /// The links whose time has come count as touched.
    pub(super) fn touch_due(&mut self, now_ms: u64) {
        while let Some(Reverse((at_ms, primary))) = self.times.peek().copied().filter(|entry| entry.0.0 <= now_ms) {
            self.times.pop();
            // A link whose earliest entry is another one was rescheduled since.
            if self.earliest.get(&primary) == Some(&at_ms) {
                self.earliest.remove(&primary);
                self.touched.insert(primary);
            }
        }
    }

    /// Ends a turn: returns the touched links, whose times are to be set.
    pub(super) fn take_touched(&mut self) -> BTreeSet<PrimaryId> {
        std::mem::take(&mut self.touched)
    }

    /// Sets when a link has something to do without being touched, and whether it has requests that wait for a connection.
    pub(super) fn set(&mut self, primary: PrimaryId, at_ms: Option<u64>, is_waiting: bool) {
        if is_waiting {
            self.waiting.insert(primary);
        } else {
            self.waiting.remove(&primary);
        }
        let Some(at_ms) = at_ms else { return };
        // A link that is looked at too early gets another time then.
        if self.earliest.get(&primary).is_none_or(|earliest| at_ms < *earliest) {
            self.earliest.insert(primary, at_ms);
            self.times.push(Reverse((at_ms, primary)));
        }
    }

    pub(super) fn remove(&mut self, primary: PrimaryId) {
        self.earliest.remove(&primary);
        self.touched.remove(&primary);
        self.waiting.remove(&primary);
    }

    /// The next time of a link that was not touched.
    pub(super) fn next_time(&self) -> Option<u64> {
        self.times.peek().map(|Reverse((at_ms, _))| *at_ms)
    }

    /// The next link with requests that wait, in turn; none twice between two calls of [`LinkSchedule::end_round`].
    pub(super) fn waiting_after(&self, last: Option<PrimaryId>) -> Option<PrimaryId> {
        let after =
            last.or(self.last_waiting).map_or(PrimaryId(0), |PrimaryId(number)| PrimaryId(number.wrapping_add(1)));
        self.waiting.range(after..).next().or(self.waiting.first()).copied()
    }

    pub(super) fn end_round(&mut self, last: Option<PrimaryId>) {
        self.last_waiting = last;
    }

    pub(super) fn waiting_count(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touched(schedule: &mut LinkSchedule) -> Vec<u32> {
        schedule.take_touched().into_iter().map(|primary| primary.0).collect()
    }

    #[test]
    fn only_touched_and_due_links_are_looked_at() {
        let mut schedule = LinkSchedule::default();
        (0..1000).for_each(|number| schedule.set(PrimaryId(number), Some(1000 + u64::from(number)), false));
        schedule.touch(PrimaryId(7));
        schedule.touch_due(1001);
        assert_eq!((touched(&mut schedule), schedule.next_time()), (vec![0, 1, 7], Some(1002)));
    }

    #[test]
    fn an_earlier_time_counts_and_a_removed_link_has_none() {
        let mut schedule = LinkSchedule::default();
        schedule.set(PrimaryId(1), Some(500), false);
        schedule.set(PrimaryId(1), Some(100), false);
        schedule.set(PrimaryId(2), Some(50), true);
        schedule.remove(PrimaryId(2));
        schedule.touch_due(99);
        assert_eq!((touched(&mut schedule), schedule.waiting_count()), (vec![], 0));
        schedule.touch_due(100);
        assert_eq!(touched(&mut schedule), [1]);
        // Its former entry does not count any more.
        schedule.touch_due(500);
        assert_eq!((touched(&mut schedule), schedule.next_time()), (vec![], None));
    }

    #[test]
    fn links_that_wait_take_turns() {
        let mut schedule = LinkSchedule::default();
        [1, 5, 9].into_iter().for_each(|number| schedule.set(PrimaryId(number), None, true));
        let mut last = None;
        let order: Vec<u32> = (0..4)
            .map(|_| {
                last = schedule.waiting_after(last);
                last.expect("three wait").0
            })
            .collect();
        assert_eq!(order, [1, 5, 9, 1]);
        schedule.end_round(Some(PrimaryId(5)));
        assert_eq!(schedule.waiting_after(None), Some(PrimaryId(9)));
    }
}
