//! What a run has measured: counts and histograms, of an interval or of the whole.

use hdrhistogram::Histogram;

/// RCODEs that are counted each by itself: those of a header (RFC 1035 4.1.1, 4 bits).
pub const RCODES: usize = 16;
/// How many wrong answers are told.
const MAX_EXAMPLES: usize = 10;
/// A query that leaves later than this after its time is late, in nanoseconds.
pub const LATE_NS: u64 = 1_000_000;

/// What is told of a run without any answer.
pub const UNANSWERED: &str = "not one query was answered: is this the address and port of a server?";

/// Counts and latencies; those of several threads or intervals add up.
#[derive(Clone, Debug)]
pub struct Measure {
    /// Queries that were sent.
    pub queries: u64,
    /// Answers to them.
    pub responses: u64,
    /// Queries without an answer in time.
    pub timeouts: u64,
    /// Queries in flight when the run was broken off.
    pub interrupted: u64,
    /// Messages that answer no query in flight: late, doubled or forged.
    pub unexpected: u64,
    /// Octets that are no DNS answer.
    pub discarded: u64,
    /// Queries that the schedule asked for.
    pub scheduled: u64,
    /// Of those sent, the ones more than [`LATE_NS`] after their time.
    pub late: u64,
    /// Of those scheduled, the ones that were never sent.
    pub missed: u64,
    /// Answers that were compared with an expectation.
    pub checked: u64,
    /// Answers to another question than was asked, and those other than expected.
    pub wrong: u64,
    /// Some of them, for people.
    pub wrong_examples: Vec<String>,
    /// Answers with TC.
    pub truncated: u64,
    /// Octets of queries.
    pub query_octets: u64,
    /// Octets of answers.
    pub response_octets: u64,
    /// Answers by RCODE.
    pub rcodes: [u64; RCODES],
    /// Connections that were opened.
    pub handshakes: u64,
    /// Of them, those that took up an earlier TLS session.
    pub handshakes_resumed: u64,
    /// Connections that could not be opened.
    pub handshakes_failed: u64,
    /// Why the first of them could not.
    pub handshake_failure: Option<String>,
    /// Connections that the server closed with queries unanswered.
    pub closed_early: u64,
    /// Datagrams that the kernel did not take.
    pub refused: u64,
    /// Nanoseconds of processor time.
    pub cpu_ns: u64,
    /// From the intended sending to the answer, or to the time-out.
    pub latency_intended: Histogram<u64>,
    /// From the actual sending to the answer, or to the time-out.
    pub latency_actual: Histogram<u64>,
    /// From the intended to the actual sending.
    pub schedule_error: Histogram<u64>,
    /// From the begin of a connection until it stood.
    pub handshake: Histogram<u64>,
}

impl Default for Measure {
    fn default() -> Measure {
        Measure {
            queries: 0,
            responses: 0,
            timeouts: 0,
            interrupted: 0,
            unexpected: 0,
            discarded: 0,
            scheduled: 0,
            late: 0,
            missed: 0,
            checked: 0,
            wrong: 0,
            wrong_examples: Vec::new(),
            truncated: 0,
            query_octets: 0,
            response_octets: 0,
            rcodes: [0; RCODES],
            handshakes: 0,
            handshakes_resumed: 0,
            handshakes_failed: 0,
            handshake_failure: None,
            closed_early: 0,
            refused: 0,
            cpu_ns: 0,
            latency_intended: histogram(),
            latency_actual: histogram(),
            schedule_error: histogram(),
            handshake: histogram(),
        }
    }
}

/// Nanoseconds from 1 to an hour with three significant digits.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 3_600_000_000_000, 3).expect("bounds that the library takes")
}

/// All that is a plain count, by reference: of a `mut` one to be changed.
macro_rules! counts {
    ($measure:ident $(, $mutable:tt)?) => {
        [
            &$($mutable)? $measure.queries,
            &$($mutable)? $measure.responses,
            &$($mutable)? $measure.timeouts,
            &$($mutable)? $measure.interrupted,
            &$($mutable)? $measure.unexpected,
            &$($mutable)? $measure.discarded,
            &$($mutable)? $measure.scheduled,
            &$($mutable)? $measure.late,
            &$($mutable)? $measure.missed,
            &$($mutable)? $measure.checked,
            &$($mutable)? $measure.wrong,
            &$($mutable)? $measure.truncated,
            &$($mutable)? $measure.query_octets,
            &$($mutable)? $measure.response_octets,
            &$($mutable)? $measure.handshakes,
            &$($mutable)? $measure.handshakes_resumed,
            &$($mutable)? $measure.handshakes_failed,
            &$($mutable)? $measure.closed_early,
            &$($mutable)? $measure.refused,
            &$($mutable)? $measure.cpu_ns,
        ]
    };
}

impl Measure {
    /// Counts a query that was sent.
    #[inline]
    pub fn sent(&mut self, octets: usize, schedule_error_ns: u64) {
        self.queries += 1;
        self.query_octets += octets as u64;
        self.late += u64::from(schedule_error_ns > LATE_NS);
        self.schedule_error.saturating_record(schedule_error_ns);
    }

    /// Counts an answer.
    #[inline]
    pub fn answered(&mut self, answer: &[u8], intended_ns: u64, actual_ns: u64) {
        self.responses += 1;
        self.response_octets += answer.len() as u64;
        self.truncated += u64::from(answer[2] & 0x02 != 0);
        self.rcodes[usize::from(answer[3] & 0x0f)] += 1;
        self.latency_intended.saturating_record(intended_ns);
        self.latency_actual.saturating_record(actual_ns);
    }

    /// Counts a query whose time is out. It was not answered within `actual_ns`, so that is the least its latency can be.
    pub fn timed_out(&mut self, intended_ns: u64, actual_ns: u64) {
        self.timeouts += 1;
        self.latency_intended.saturating_record(intended_ns);
        self.latency_actual.saturating_record(actual_ns);
    }

    /// Counts a wrong answer; `describe` is only called while examples are wanted.
    pub fn wrong(&mut self, describe: impl FnOnce() -> String) {
        self.wrong += 1;
        if self.wrong_examples.len() < MAX_EXAMPLES {
            self.wrong_examples.push(describe());
        }
    }

    /// Counts a connection that could not be opened.
    pub fn handshake_failed(&mut self, error: &std::io::Error) {
        self.handshakes_failed += 1;
        self.handshake_failure.get_or_insert_with(|| error.to_string());
    }

    /// Adds what another thread or interval measured.
    pub fn add(&mut self, other: &Measure) {
        for (mine, theirs) in counts!(self, mut).into_iter().zip(counts!(other)) {
            *mine += *theirs;
        }
        for (mine, theirs) in self.rcodes.iter_mut().zip(other.rcodes) {
            *mine += theirs;
        }
        if self.handshake_failure.is_none() {
            self.handshake_failure.clone_from(&other.handshake_failure);
        }
        let room = MAX_EXAMPLES - self.wrong_examples.len().min(MAX_EXAMPLES);
        self.wrong_examples.extend(other.wrong_examples.iter().take(room).cloned());
        for (mine, theirs) in [
            (&mut self.latency_intended, &other.latency_intended),
            (&mut self.latency_actual, &other.latency_actual),
            (&mut self.schedule_error, &other.schedule_error),
            (&mut self.handshake, &other.handshake),
        ] {
            mine.add(theirs).expect("all histograms have the same bounds");
        }
    }

    /// How the generator did not keep its schedule; empty when it did.
    pub fn schedule_faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.missed * 1000 > self.scheduled {
            faults.push(format!("{} of {} scheduled queries were never sent", self.missed, self.scheduled));
        }
        if self.late * 100 > self.queries {
            faults.push(format!("{} of {} queries left more than 1 ms after their time", self.late, self.queries));
        }
        if self.refused > 0 {
            faults.push(format!("the kernel did not take {} datagrams", self.refused));
        }
        faults
    }

    /// Why the figures cannot be believed; empty when they can. Where nothing at all is answered, there may be no server.
    pub fn invalid_because(&self) -> Vec<String> {
        let mut reasons = self.faults();
        if self.timeouts > 0 && self.responses == 0 {
            reasons.push(UNANSWERED.into());
        }
        reasons
    }

    /// The same for queries of which not one needs to be answered.
    pub fn faults(&self) -> Vec<String> {
        let mut reasons = self.schedule_faults();
        if self.queries == 0 {
            reasons.push("nothing was sent".into());
        }
        if self.wrong > 0 {
            reasons.push(format!("{} of {} answers are wrong", self.wrong, self.responses));
        }
        reasons
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_add_up() {
        let mut parts = [Measure::default(), Measure::default()];
        let answer = [0, 0, 0x82, 3, 0, 1, 0, 0, 0, 0, 0, 0];
        for (index, part) in parts.iter_mut().enumerate() {
            part.sent(40, 2 * LATE_NS * index as u64);
            part.answered(&answer, 5000, 3000);
            part.timed_out(2_000_000_000, 1_000_000_000);
            part.wrong(|| format!("example {index}"));
        }
        let [mut sum, other] = parts;
        sum.add(&other);
        assert_eq!((sum.queries, sum.late, sum.responses, sum.timeouts), (2, 1, 2, 2));
        assert_eq!((sum.truncated, sum.rcodes[3], sum.query_octets, sum.response_octets), (2, 2, 80, 24));
        assert_eq!(sum.latency_intended.len(), 4);
        assert!(sum.latency_actual.max().abs_diff(1_000_000_000) < 1_000_000);
        assert_eq!(sum.wrong_examples, ["example 0", "example 1"]);
    }

    #[test]
    fn a_run_is_invalid_for_a_reason() {
        let mut measure = Measure { queries: 1000, scheduled: 1001, responses: 1000, missed: 1, ..Measure::default() };
        assert!(measure.invalid_because().is_empty());
        measure.missed = 2;
        measure.late = 11;
        measure.wrong = 1;
        assert_eq!(
            measure.invalid_because(),
            [
                "2 of 1001 scheduled queries were never sent",
                "11 of 1000 queries left more than 1 ms after their time",
                "1 of 1000 answers are wrong",
            ]
        );
    }
}
