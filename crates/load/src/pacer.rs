//! Decides which query a [`crate::worker`] sends next, and when.

use std::iter::Peekable;
use std::time::Duration;

use crate::schedule::Schedule;

/// A thread busy-waits for less than this, which is about the time a processor needs to wake up.
const SPIN_NS: u64 = 60_000;

/// The share of a window in which a thread did not wait.
pub fn busy_share(waited: Duration, window: Duration) -> f64 {
    let window_ns = window.as_nanos().max(1);
    1.0 - waited.as_nanos().min(window_ns) as f64 / window_ns as f64
}

/// How long to sleep before a query that is due in this time; after that the thread busy-waits.
#[inline]
pub fn sleep_ns(until_due_ns: u64) -> u64 {
    until_due_ns.saturating_sub(SPIN_NS)
}

/// When a worker sends its next query.
pub enum Pacing {
    /// Open loop: at scheduled times, in nanoseconds from the start, whatever has been answered.
    Open(Peekable<Schedule>),
    /// Closed loop: whenever fewer than `outstanding` queries are outstanding.
    Closed { outstanding: usize, end_ns: u64 },
}

impl Pacing {
    /// Worker number `worker`'s part of a schedule that `workers` threads share: every `workers`-th query.
    pub fn open(schedule: Schedule, worker: usize, workers: usize) -> Pacing {
        let part: Schedule = Box::new(schedule.skip(worker).step_by(workers));
        Pacing::Open(part.peekable())
    }
}

/// Gives out queries as they become due.
pub struct Pacer {
    pacing: Pacing,
    /// The number of the next query, before it is reduced modulo `query_count`.
    number: u64,
    step: u64,
    query_count: u64,
    /// The run ends at this number.
    end: u64,
    timeout_ns: u64,
}

/// A query that is due.
pub enum Due {
    Query {
        number: u32,
        intended_ns: u64,
    },
    /// A whole time-out late, and therefore not sent.
    Missed {
        intended_ns: u64,
    },
}

impl Pacer {
    /// A pacer for worker number `worker` of `workers`, which cycles through `query_count` queries, and ends after `end`
    /// queries of all workers.
    pub fn new(
        pacing: Pacing,
        (worker, workers): (usize, usize),
        query_count: usize,
        end: u64,
        timeout_ns: u64,
    ) -> Pacer {
        Pacer { pacing, number: worker as u64, step: workers as u64, query_count: query_count as u64, end, timeout_ns }
    }

    /// The next query, if it is due. `max_outstanding` is a further limit for a closed loop.
    #[inline]
    pub fn next(&mut self, now: u64, outstanding_count: usize, max_outstanding: usize) -> Option<Due> {
        if self.number >= self.end {
            return None;
        }
        let intended_ns = match &mut self.pacing {
            Pacing::Open(times) => times.next_if(|&time| time <= now)?,
            Pacing::Closed { outstanding, end_ns } => {
                let may_send = outstanding_count < max_outstanding.min(*outstanding) && now < *end_ns;
                may_send.then_some(now)?
            }
        };
        let number = (self.number % self.query_count) as u32;
        self.number += self.step;
        if now - intended_ns >= self.timeout_ns {
            return Some(Due::Missed { intended_ns });
        }
        Some(Due::Query { number, intended_ns })
    }

    /// When the next query is due; `None` in a closed loop, and at the end of the schedule.
    pub fn next_ns(&mut self) -> Option<u64> {
        match &mut self.pacing {
            Pacing::Open(times) if self.number < self.end => times.peek().copied(),
            _ => None,
        }
    }

    /// Whether no further query will be sent.
    pub fn is_finished(&mut self, now: u64) -> bool {
        let is_over = match &mut self.pacing {
            Pacing::Open(times) => times.peek().is_none(),
            Pacing::Closed { end_ns, .. } => now >= *end_ns,
        };
        is_over || self.number >= self.end
    }
}
