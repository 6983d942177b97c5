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
    /// Links with requests that wait for a connection, by [`Attempt`].
    waiting: [WaitingLinks; 2],
}

/// What a connection of a link would be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attempt {
    /// Expected to succeed.
    First,
    /// An attempt to reach a primary again that the last connection did not reach.
    Again,
}

#[derive(Default)]
struct WaitingLinks {
    links: BTreeSet<PrimaryId>,
    /// The last link that had the chance to open a connection while there were too many.
    last: Option<PrimaryId>,
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

    /// Sets when a link has something to do without being touched, and what the connection would be that its requests wait for, if any do.
    pub(super) fn set(&mut self, primary: PrimaryId, at_ms: Option<u64>, waits_for: Option<Attempt>) {
        for attempt in [Attempt::First, Attempt::Again] {
            let links = &mut self.waiting[attempt as usize].links;
            if waits_for == Some(attempt) {
                links.insert(primary);
            } else {
                links.remove(&primary);
            }
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
        self.waiting.iter_mut().for_each(|waiting| _ = waiting.links.remove(&primary));
    }

    /// The next time of a link that was not touched.
    pub(super) fn next_time(&self) -> Option<u64> {
        self.times.peek().map(|Reverse((at_ms, _))| *at_ms)
    }

    /// The next link with requests that wait, in turn; none twice between two calls of [`LinkSchedule::end_round`].
    pub(super) fn waiting_after(&self, attempt: Attempt, last: Option<PrimaryId>) -> Option<PrimaryId> {
        let waiting = &self.waiting[attempt as usize];
        let after = last.or(waiting.last).map_or(PrimaryId(0), |PrimaryId(number)| PrimaryId(number.wrapping_add(1)));
        waiting.links.range(after..).next().or(waiting.links.first()).copied()
    }

    pub(super) fn end_round(&mut self, attempt: Attempt, last: Option<PrimaryId>) {
        self.waiting[attempt as usize].last = last;
    }

    pub(super) fn waiting_count(&self, attempt: Attempt) -> usize {
        self.waiting[attempt as usize].links.len()
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
        (0..1000).for_each(|number| schedule.set(PrimaryId(number), Some(1000 + u64::from(number)), None));
        schedule.touch(PrimaryId(7));
        schedule.touch_due(1001);
        assert_eq!((touched(&mut schedule), schedule.next_time()), (vec![0, 1, 7], Some(1002)));
    }

    #[test]
    fn an_earlier_time_counts_and_a_removed_link_has_none() {
        let mut schedule = LinkSchedule::default();
        schedule.set(PrimaryId(1), Some(500), None);
        schedule.set(PrimaryId(1), Some(100), None);
        schedule.set(PrimaryId(2), Some(50), Some(Attempt::First));
        schedule.remove(PrimaryId(2));
        schedule.touch_due(99);
        assert_eq!((touched(&mut schedule), schedule.waiting_count(Attempt::First)), (vec![], 0));
        schedule.touch_due(100);
        assert_eq!(touched(&mut schedule), [1]);
        // Its former entry does not count any more.
        schedule.touch_due(500);
        assert_eq!((touched(&mut schedule), schedule.next_time()), (vec![], None));
    }

    #[test]
    fn links_that_wait_take_turns() {
        let mut schedule = LinkSchedule::default();
        for attempt in [Attempt::First, Attempt::Again] {
            [1, 5, 9].into_iter().for_each(|number| schedule.set(PrimaryId(number), None, Some(attempt)));
            let mut last = None;
            let order: Vec<u32> = (0..4)
                .map(|_| {
                    last = schedule.waiting_after(attempt, last);
                    last.expect("three wait").0
                })
                .collect();
            assert_eq!(order, [1, 5, 9, 1]);
            schedule.end_round(attempt, Some(PrimaryId(5)));
            assert_eq!(schedule.waiting_after(attempt, None), Some(PrimaryId(9)));
        }
        assert_eq!([Attempt::First, Attempt::Again].map(|attempt| schedule.waiting_count(attempt)), [0, 3]);
    }
}
