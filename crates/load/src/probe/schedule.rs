//! Which question to ask next, and when each was first answered as wanted. It is driven by time and responses; sockets are
//! elsewhere.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// An index into the queries.
pub type Number = u32;

/// The state of a probe of many questions. All times are nanoseconds after its start.
pub struct ProbeSchedule {
    /// The questions to ask again, in the order in which they are due.
    waiting: VecDeque<Waiting>,
    /// The questions that were sent, by message id.
    outstanding: Vec<Option<Outstanding>>,
    /// The ends of time-outs with their ids, the next one first; some may have been answered.
    timeouts: BinaryHeap<Reverse<(u64, u16)>>,
    free_ids: Vec<u16>,
    progress: Vec<Progress>,
    /// Questions whose answer has not arrived.
    missing: usize,
    limits: ProbeLimits,
    /// No query is sent before this time.
    next_send_ns: u64,
    /// Whether anything has come back; before, few queries are outstanding.
    has_response: bool,
}

/// How fast to ask.
#[derive(Clone, Copy, Debug)]
pub struct ProbeLimits {
    /// Queries without a response at the same time, at most.
    pub outstanding: u16,
    /// A question is asked again this long after a response, at the earliest.
    pub interval_ns: u64,
    /// A question without a response is asked again after this time at the latest: after `MIN_TIMEOUT_NS` first, then after twice
    /// the time before.
    pub timeout_ns: u64,
    /// The time between two queries in vain, for all questions together; others are as fast as their answers come.
    pub spacing_ns: u64,
}

/// Servers lose queries while they open their sockets. If each of these waited for the longest time-out, a start of 20 ms would be
/// seen after 100 ms.
const MIN_TIMEOUT_NS: u64 = 2_000_000;
/// A server that does not listen yet is asked this often per `MIN_TIMEOUT_NS`, so that many questions are no flood.
const SILENT_OUTSTANDING: usize = 8;
const MAX_DOUBLINGS: u8 = 16;
/// Queries that may be sent at once after a delay, so that the rate is kept.
const MAX_BURST: u64 = 64;

#[derive(Clone, Copy)]
struct Waiting {
    number: Number,
    due_ns: u64,
    /// How often it was asked without a response since the last one.
    unanswered: u8,
}

#[derive(Clone, Copy)]
struct Outstanding {
    number: Number,
    unanswered: u8,
    sent_ns: u64,
    /// When its time-out ends.
    end_ns: u64,
}

/// What is known about one question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// When its last query without the wanted answer was sent; `None` before the first one.
    pub missing_at_ns: Option<u64>,
    /// When the wanted answer was received.
    pub arrived_at_ns: Option<u64>,
}

impl Progress {
    /// The time within which the answer became available, if it was missing before: the error of `arrived_at_ns` at most.
    pub fn uncertainty_ns(&self) -> Option<u64> {
        Some(self.arrived_at_ns? - self.missing_at_ns?)
    }
}

impl ProbeSchedule {
    /// A schedule for this many questions, all due at once.
    pub fn new(count: usize, limits: ProbeLimits) -> ProbeSchedule {
        ProbeSchedule {
            waiting: (0..count as Number).map(|number| Waiting { number, due_ns: 0, unanswered: 0 }).collect(),
            outstanding: vec![None; limits.outstanding.into()],
            timeouts: BinaryHeap::new(),
            free_ids: (0..limits.outstanding).rev().collect(),
            progress: vec![Progress::default(); count],
            missing: count,
            limits,
            next_send_ns: 0,
            has_response: false,
        }
    }

    /// How many wanted answers have not arrived.
    pub fn missing(&self) -> usize {
        self.missing
    }

    /// What is known about each question.
    pub fn progress(&self) -> &[Progress] {
        &self.progress
    }

    /// The next question to send now, with its message id.
    pub fn next(&mut self, now_ns: u64) -> Option<(u16, Number)> {
        if now_ns < self.next_send_ns {
            return None;
        }
        let Waiting { number, unanswered, .. } = *self.waiting.front().filter(|question| question.due_ns <= now_ns)?;
        let id = if self.can_send() { self.free_ids.pop()? } else { return None };
        self.waiting.pop_front();
        let end_ns = now_ns + self.limits.timeout_ns.min(MIN_TIMEOUT_NS << unanswered);
        self.outstanding[usize::from(id)] = Some(Outstanding { number, unanswered, sent_ns: now_ns, end_ns });
        self.timeouts.push(Reverse((end_ns, id)));
        let earliest_ns = now_ns.saturating_sub(MAX_BURST * self.limits.spacing_ns);
        self.next_send_ns = self.next_send_ns.max(earliest_ns) + self.limits.spacing_ns;
        Some((id, number))
    }

    /// The question that the query with this id asked, if it has no response yet.
    pub fn asked(&self, id: u16) -> Option<Number> {
        self.outstanding.get(usize::from(id))?.map(|query| query.number)
    }

    /// Takes note that the server sends something, be it the response to a query that was given up.
    pub fn responded(&mut self) {
        self.has_response = true;
    }

    /// Takes the response to the query with this id.
    pub fn answered(&mut self, id: u16, is_wanted: bool, now_ns: u64) {
        self.responded();
        let Some(query) = self.release(id) else { return };
        let progress = &mut self.progress[query.number as usize];
        if is_wanted {
            progress.arrived_at_ns = Some(now_ns);
            self.missing -= 1;
            // A query that had its answer is not repeated, so that it gives its share of the rate back. With 20,000 queries per
            // second, 30,000 answers that were there at once would otherwise seem to arrive in 1.5 s.
            self.next_send_ns = self.next_send_ns.saturating_sub(self.limits.spacing_ns);
        } else {
            progress.missing_at_ns = Some(query.sent_ns);
            let due_ns = now_ns + self.limits.interval_ns;
            self.waiting.push_back(Waiting { number: query.number, due_ns, unanswered: 0 });
        }
    }

    /// Gives up queries without a response, to ask their questions again; returns how many.
    pub fn expire(&mut self, now_ns: u64) -> u64 {
        let mut expired = 0;
        while let Some(&Reverse((end_ns, id))) = self.timeouts.peek() {
            let is_answered = self.outstanding[usize::from(id)].is_none_or(|query| query.end_ns != end_ns);
            if !is_answered && end_ns > now_ns {
                break;
            }
            self.timeouts.pop();
            if !is_answered && let Some(query) = self.release(id) {
                // Whether the answer was there is not known.
                let unanswered = if self.has_response { (query.unanswered + 1).min(MAX_DOUBLINGS) } else { 0 };
                self.waiting.push_front(Waiting { number: query.number, due_ns: now_ns, unanswered });
                expired += 1;
            }
        }
        expired
    }

    /// When there is something to do even if no response comes.
    pub fn next_ns(&self) -> Option<u64> {
        let due =
            self.waiting.front().filter(|_| self.can_send()).map(|question| question.due_ns.max(self.next_send_ns));
        let timeout = self.timeouts.peek().map(|Reverse((end_ns, _))| *end_ns);
        due.into_iter().chain(timeout).min()
    }

    fn can_send(&self) -> bool {
        let outstanding = usize::from(self.limits.outstanding) - self.free_ids.len();
        !self.free_ids.is_empty() && (self.has_response || outstanding < SILENT_OUTSTANDING)
    }

    fn release(&mut self, id: u16) -> Option<Outstanding> {
        let query = self.outstanding.get_mut(usize::from(id))?.take()?;
        self.free_ids.push(id);
        Some(query)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ProbeLimits = ProbeLimits { outstanding: 4, interval_ns: 100, timeout_ns: 1000, spacing_ns: 1 };

    /// Runs a probe; question `n` has its answer from `available_ns[n]` on, and every `loss`th query is lost.
    fn run(available_ns: &[u64], loss: u64) -> (ProbeSchedule, u64) {
        let mut schedule = ProbeSchedule::new(available_ns.len(), LIMITS);
        let (mut queries, mut now_ns) = (0u64, 0);
        while schedule.missing() > 0 {
            assert!(now_ns < 10_000_000, "the probe does not end: {} missing", schedule.missing());
            schedule.expire(now_ns);
            while let Some((id, number)) = schedule.next(now_ns) {
                queries += 1;
                if !queries.is_multiple_of(loss) {
                    assert_eq!(schedule.asked(id), Some(number));
                    schedule.answered(id, available_ns[number as usize] <= now_ns, now_ns + 10);
                }
            }
            now_ns = schedule.next_ns().expect("a query is due or outstanding").max(now_ns + 1);
        }
        (schedule, queries)
    }

    #[test]
    fn arrivals_are_known_to_the_interval() {
        let available: Vec<u64> = (0..200).map(|number| number * 97 % 5000).collect();
        let (schedule, _) = run(&available, u64::MAX);
        for (progress, &available_ns) in schedule.progress().iter().zip(&available) {
            let arrived_ns = progress.arrived_at_ns.expect("all arrived");
            assert!(arrived_ns >= available_ns, "{progress:?} {available_ns}");
            assert!(progress.missing_at_ns.is_none_or(|missing_ns| missing_ns < available_ns), "{progress:?}");
            // 200 questions at one per nanosecond, and the interval.
            assert!(arrived_ns - available_ns <= 2 * (100 + 200 + 10), "{progress:?} {available_ns}");
        }
    }

    #[test]
    fn lost_queries_are_repeated() {
        let (schedule, queries) = run(&[0; 50], 3);
        assert!(queries > 50);
        assert!(schedule.progress().iter().all(|progress| progress.arrived_at_ns.is_some()));
    }

    #[test]
    fn the_rate_and_the_window_are_limited() {
        let limits = ProbeLimits { spacing_ns: 50, ..LIMITS };
        let mut schedule = ProbeSchedule::new(10, limits);
        assert_eq!(schedule.next(0), Some((0, 0)));
        assert_eq!(schedule.next(49), None);
        assert_eq!(schedule.next(50), Some((1, 1)));
        assert_eq!(schedule.next_ns(), Some(100));
        for now_ns in [100, 150] {
            assert!(schedule.next(now_ns).is_some());
        }
        assert_eq!(schedule.next(200), None, "four are outstanding");
        assert_eq!(schedule.next_ns(), Some(1000), "the first one times out");
        assert_eq!(schedule.expire(1000), 1);
        assert!(schedule.next(1000).is_some());
    }

    #[test]
    fn answers_that_are_there_do_not_count_for_the_rate() {
        let limits = ProbeLimits { spacing_ns: 50_000, interval_ns: 500_000, timeout_ns: 10_000_000, outstanding: 512 };
        // 30,000 questions, all answered from 300 ms on, after a round trip of 50 us; until then 20,000 queries per second.
        let mut schedule = ProbeSchedule::new(30_000, limits);
        let (mut now_ns, mut in_vain, mut under_way) = (0, 0, VecDeque::new());
        while schedule.missing() > 0 {
            while let Some((id, _)) = schedule.next(now_ns) {
                under_way.push_back((now_ns + 50_000, id, now_ns >= 300_000_000));
            }
            while let Some((at_ns, id, is_wanted)) = under_way.front().copied().filter(|(at_ns, ..)| *at_ns <= now_ns) {
                under_way.pop_front();
                in_vain += u64::from(!is_wanted);
                schedule.answered(id, is_wanted, at_ns);
            }
            now_ns += 1000;
        }
        assert!((5900..=6100).contains(&in_vain), "{in_vain}");
        assert!(now_ns < 330_000_000, "{now_ns}");
    }

    #[test]
    fn a_silent_server_is_asked_little_and_its_start_is_seen_at_once() {
        let limits =
            ProbeLimits { spacing_ns: 50_000, interval_ns: 500_000, timeout_ns: 100_000_000, outstanding: 512 };
        let (mut schedule, mut now_ns, mut in_silence) = (ProbeSchedule::new(1000, limits), 0, 0);
        while schedule.missing() > 0 {
            schedule.expire(now_ns);
            while let Some((id, _)) = schedule.next(now_ns) {
                if now_ns < 20_000_000 {
                    in_silence += 1;
                } else {
                    schedule.answered(id, true, now_ns);
                }
            }
            now_ns = schedule.next_ns().map_or(now_ns, |due_ns| due_ns.max(now_ns + 1));
        }
        assert!(in_silence <= 80, "{in_silence}");
        let last_ns = schedule.progress().iter().filter_map(|progress| progress.arrived_at_ns).max();
        assert!(last_ns < Some(23_000_000), "{last_ns:?}");
    }

    #[test]
    fn a_lost_query_is_repeated_soon_and_then_less_often() {
        let limits = ProbeLimits { spacing_ns: 1, interval_ns: 500_000, timeout_ns: 10_000_000, outstanding: 4 };
        let mut schedule = ProbeSchedule::new(1, limits);
        schedule.responded();
        let mut sent_ms = Vec::new();
        for now_ns in (0..40_000_000).step_by(1_000_000) {
            schedule.expire(now_ns);
            sent_ms.extend(schedule.next(now_ns).map(|_| now_ns / 1_000_000));
        }
        assert_eq!(sent_ms, [0, 2, 6, 14, 24, 34]);
    }

    #[test]
    fn a_late_response_is_ignored() {
        let mut schedule = ProbeSchedule::new(1, LIMITS);
        let (id, _) = schedule.next(0).expect("due");
        schedule.answered(id, true, 5);
        schedule.answered(id, true, 6);
        assert_eq!((schedule.missing(), schedule.asked(id)), (0, None));
        assert_eq!(schedule.progress()[0], Progress { missing_at_ns: None, arrived_at_ns: Some(5) });
    }
}
