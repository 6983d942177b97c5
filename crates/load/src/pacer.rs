//! Which query a worker sends next, and when. Used by [`crate::worker`].

use std::iter::Peekable;

use crate::plan::Schedule;

/// When a worker sends its next query.
pub enum Pace {
    /// By the schedule, whatever has been answered.
    Open(Box<dyn Iterator<Item = u64> + Send>),
    /// When fewer than `outstanding` are in flight.
    Closed {
        /// How many are in flight at most.
        outstanding: usize,
        /// When the last one is sent.
        end_ns: u64,
    },
}

impl Pace {
    /// The share of one of `workers` threads in a schedule: every query has one that sends it.
    pub fn share(schedule: Schedule, worker: usize, workers: usize) -> Pace {
        Pace::Open(Box::new(schedule.skip(worker).step_by(workers)))
    }
}

/// What comes next on the schedule, and which query it is.
pub struct Pacer {
    pace: PeekablePace,
    number: u64,
    step: u64,
    query_count: u64,
    timeout_ns: u64,
}

enum PeekablePace {
    Open(Peekable<Box<dyn Iterator<Item = u64> + Send>>),
    Closed { outstanding: usize, end_ns: u64 },
}

/// What is due.
pub enum Due {
    /// To be sent now.
    Query {
        /// Its number.
        number: u32,
        /// When it was to leave.
        intended_ns: u64,
    },
    /// So late that an answer would be too late in any case.
    Missed {
        /// When it was to leave.
        intended_ns: u64,
    },
}

impl Pacer {
    /// The part of a schedule that a worker of so many has, with so many queries; what is a time-out late is missed.
    pub fn new(pace: Pace, (worker, workers): (usize, usize), query_count: usize, timeout_ns: u64) -> Pacer {
        let pace = match pace {
            Pace::Open(times) => PeekablePace::Open(times.peekable()),
            Pace::Closed { outstanding, end_ns } => PeekablePace::Closed { outstanding, end_ns },
        };
        Pacer { pace, number: worker as u64, step: workers as u64, query_count: query_count as u64, timeout_ns }
    }

    /// The next query, if it is due; in a closed loop only if fewer than `most` are in flight, however many it may have.
    #[inline]
    pub fn next(&mut self, now: u64, in_flight: usize, most: usize) -> Option<Due> {
        let intended_ns = match &mut self.pace {
            PeekablePace::Open(times) => times.next_if(|&time| time <= now)?,
            PeekablePace::Closed { outstanding, end_ns } if in_flight < most.min(*outstanding) && now < *end_ns => now,
            PeekablePace::Closed { .. } => return None,
        };
        let number = (self.number % self.query_count) as u32;
        self.number += self.step;
        if now - intended_ns >= self.timeout_ns {
            return Some(Due::Missed { intended_ns });
        }
        Some(Due::Query { number, intended_ns })
    }

    /// When the next query is to be sent; `None` when that is up to the answers, or there is none.
    pub fn next_ns(&mut self) -> Option<u64> {
        match &mut self.pace {
            PeekablePace::Open(times) => times.peek().copied(),
            PeekablePace::Closed { .. } => None,
        }
    }

    /// Whether nothing is sent any more.
    pub fn is_over(&mut self, now: u64) -> bool {
        match &mut self.pace {
            PeekablePace::Open(times) => times.peek().is_none(),
            PeekablePace::Closed { end_ns, .. } => now >= *end_ns,
        }
    }
}
