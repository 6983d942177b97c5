//! Jobs that wait, in lanes: each lane gets at most its share of the threads, and lanes that wait have their turn by turns.

use std::collections::{HashMap, VecDeque};

/// Jobs by lane. A lane is a number, such as the hash of a command.
pub(super) struct FairQueue<J> {
    /// The lanes with jobs that wait or run.
    lanes: HashMap<u64, Lane<J>>,
    /// The lanes that may start a job, each once.
    ready: VecDeque<u64>,
    /// The most jobs of one lane that run at once.
    share: usize,
}

struct Lane<J> {
    waiting: VecDeque<J>,
    running: usize,
    is_ready: bool,
}

impl<J> FairQueue<J> {
    pub(super) fn new(share: usize) -> FairQueue<J> {
        FairQueue { lanes: HashMap::new(), ready: VecDeque::new(), share }
    }

    pub(super) fn push(&mut self, lane: u64, job: J) {
        let empty = || Lane { waiting: VecDeque::new(), running: 0, is_ready: false };
        self.lanes.entry(lane).or_insert_with(empty).waiting.push_back(job);
        self.make_ready(lane);
    }

    /// Begins the next job; [`FairQueue::end`] is to be called with its lane.
    pub(super) fn pop(&mut self) -> Option<(u64, J)> {
        let number = self.ready.pop_front()?;
        let lane = self.lanes.get_mut(&number)?;
        lane.is_ready = false;
        let job = lane.waiting.pop_front()?;
        lane.running += 1;
        self.make_ready(number);
        Some((number, job))
    }

    /// A job of this lane has ended.
    pub(super) fn end(&mut self, number: u64) {
        let Some(lane) = self.lanes.get_mut(&number) else { return };
        lane.running -= 1;
        if lane.running == 0 && lane.waiting.is_empty() {
            self.lanes.remove(&number);
        } else {
            self.make_ready(number);
        }
    }

    /// How many jobs may start now, at most `max`.
    pub(super) fn startable(&self, max: usize) -> usize {
        let lanes = self.ready.iter().take(max).filter_map(|number| self.lanes.get(number));
        lanes.map(|lane| lane.waiting.len().min(self.share - lane.running)).sum::<usize>().min(max)
    }

    fn make_ready(&mut self, number: u64) {
        let Some(lane) = self.lanes.get_mut(&number) else { return };
        if !lane.is_ready && !lane.waiting.is_empty() && lane.running < self.share {
            lane.is_ready = true;
            self.ready.push_back(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_have_their_turn_by_turns_and_no_more_than_their_share() {
        let mut queue = FairQueue::new(2);
        (0..5).for_each(|job| queue.push(7, job));
        assert_eq!((queue.startable(9), queue.pop(), queue.pop(), queue.pop()), (2, Some((7, 0)), Some((7, 1)), None));
        queue.push(8, 10);
        queue.push(9, 20);
        queue.push(8, 11);
        assert_eq!((queue.startable(9), queue.startable(1)), (3, 1));
        assert_eq!([queue.pop(), queue.pop()], [Some((8, 10)), Some((9, 20))]);
        queue.end(7);
        assert_eq!([queue.pop(), queue.pop(), queue.pop()], [Some((8, 11)), Some((7, 2)), None]);
        [8, 8, 9, 7, 7].into_iter().for_each(|lane| queue.end(lane));
        assert_eq!([queue.pop(), queue.pop(), queue.pop()], [Some((7, 3)), Some((7, 4)), None]);
        [7, 7].into_iter().for_each(|lane| queue.end(lane));
        assert!(queue.lanes.is_empty() && queue.ready.is_empty());
    }
}
