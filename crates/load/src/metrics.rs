//! The metrics of a run or an interval: counters and latency histograms.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

use hdrhistogram::Histogram;
use serde::Serialize;
use wire::Rtype;

/// RCODEs that are counted separately: the header's 4 bits (RFC 1035 4.1.1).
pub const RCODES: usize = 16;
/// How many examples of wrong responses are kept.
const MAX_EXAMPLES: usize = 10;
/// A query sent later than this after its intended time is late, in nanoseconds.
pub const LATE_NS: u64 = 1_000_000;

/// Why a run without any response is invalid.
pub const UNANSWERED: &str = "not one query was answered: is this the address and port of a server?";

/// Defines [`Metrics`] and the addition of its counters.
macro_rules! metrics {
    ($($(#[$doc:meta])* $counter:ident,)*) => {
        /// Counters and latencies. Those of several threads or intervals are summed with [`Metrics::add`].
        ///
        /// It serializes to its counters, by name, and its texts.
        #[derive(Clone, Debug, Default, Serialize)]
        pub struct Metrics {
            $($(#[$doc])* pub $counter: u64,)*
            /// Descriptions of the first wrong responses.
            pub wrong_examples: Vec<String>,
            /// The error of the first failed handshake.
            pub handshake_failure: Option<String>,
            /// Responses by RCODE.
            #[serde(skip)]
            pub rcodes: [u64; RCODES],
            /// From the intended send time to the response or the time-out; also of queries that were never sent.
            #[serde(skip)]
            pub latency_intended: LatencyHistogram,
            /// From the actual send time to the response or the time-out.
            #[serde(skip)]
            pub latency_actual: LatencyHistogram,
            /// From the intended to the actual send time.
            #[serde(skip)]
            pub schedule_error: LatencyHistogram,
            /// From opening a connection until it is established.
            #[serde(skip)]
            pub handshake: LatencyHistogram,
            /// The intended latency by query type and RCODE; empty unless it was asked for.
            #[serde(skip)]
            pub breakdown: LatencyBreakdown,
        }

        impl Metrics {
            fn add_counters(&mut self, other: &Metrics) {
                $(self.$counter += other.$counter;)*
            }
        }
    };
}

metrics! {
    /// Queries that were sent.
    queries,
    /// Responses to them.
    responses,
    /// Queries without a response within the time-out.
    timeouts,
    /// Queries outstanding when the run was interrupted.
    interrupted,
    /// Responses that arrived after sending had stopped, and after the smallest latency and the grace: the server may have
    /// buffered their queries. Only counted at the end of a run.
    responses_after_window,
    /// Responses that the kernel dropped because a receive buffer of the generator was full.
    receive_drops,
    /// Responses that match no outstanding query: late, duplicate or spoofed.
    unexpected,
    /// Datagrams that are no DNS response.
    discarded,
    /// Queries in the schedule.
    scheduled,
    /// Queries sent more than [`LATE_NS`] after their intended time.
    late,
    /// Scheduled queries that were never sent.
    missed,
    /// Responses that were compared with an expected one.
    checked,
    /// Responses to another question, and those that differ from the expected one.
    wrong,
    /// Responses with TC.
    truncated,
    /// The size of all queries.
    query_octets,
    /// The size of all responses.
    response_octets,
    /// Connections that were established.
    handshakes,
    /// Of these, the ones that resumed a TLS session.
    handshakes_resumed,
    /// Connections that could not be established.
    handshakes_failed,
    /// Connections that the server closed with queries outstanding.
    closed_early,
    /// Connections over QUIC that were closed because they answered nothing for a whole time-out.
    closed_silent,
    /// Connections that were closed because they were idle for too long.
    closed_idle,
    /// Connections that were closed because the captured ones were.
    closed_captured,
    /// Ports of captured clients that were not free, so that the kernel chose others.
    ports_replaced,
    /// Datagrams that the kernel refused to send.
    refused,
    /// CPU time of the sender threads, in nanoseconds.
    cpu_ns,
}

/// Latencies in nanoseconds, from 1 to an hour, with three significant digits.
#[derive(Clone, Debug, PartialEq)]
pub struct LatencyHistogram(Histogram<u64>);

impl Default for LatencyHistogram {
    fn default() -> LatencyHistogram {
        LatencyHistogram(Histogram::new_with_bounds(1, 3_600_000_000_000, 3).expect("valid bounds"))
    }
}

impl Deref for LatencyHistogram {
    type Target = Histogram<u64>;

    fn deref(&self) -> &Histogram<u64> {
        &self.0
    }
}

impl DerefMut for LatencyHistogram {
    fn deref_mut(&mut self) -> &mut Histogram<u64> {
        &mut self.0
    }
}

/// Latencies by query type and RCODE; `None` for queries without a response.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LatencyBreakdown(BTreeMap<(Rtype, Option<u8>), LatencyHistogram>);

impl LatencyBreakdown {
    /// Records the latency of a query of this type.
    pub fn record(&mut self, qtype: Rtype, rcode: Option<u8>, latency_ns: u64) {
        self.0.entry((qtype, rcode)).or_default().saturating_record(latency_ns);
    }

    /// The types and RCODEs that occurred, with their latencies.
    pub fn iter(&self) -> impl Iterator<Item = (Rtype, Option<u8>, &LatencyHistogram)> {
        self.0.iter().map(|(&(qtype, rcode), histogram)| (qtype, rcode, histogram))
    }

    fn add(&mut self, other: &LatencyBreakdown) {
        for (&key, histogram) in &other.0 {
            self.0.entry(key).or_default().add(&histogram.0).expect("all histograms have the same bounds");
        }
    }
}

impl Metrics {
    /// Records a query as sent.
    #[inline]
    pub fn record_sent(&mut self, octets: usize, schedule_error_ns: u64) {
        self.queries += 1;
        self.query_octets += octets as u64;
        self.late += u64::from(schedule_error_ns > LATE_NS);
        self.schedule_error.saturating_record(schedule_error_ns);
    }

    /// Records a response of at least a header.
    #[inline]
    pub fn record_response(&mut self, response: &[u8], intended_ns: u64, actual_ns: u64) {
        self.responses += 1;
        self.response_octets += response.len() as u64;
        self.truncated += u64::from(response[2] & 0x02 != 0);
        self.rcodes[usize::from(response[3] & 0x0f)] += 1;
        self.latency_intended.saturating_record(intended_ns);
        self.latency_actual.saturating_record(actual_ns);
    }

    /// Records a time-out. The histograms get the time waited, a lower bound of the latency.
    pub fn record_timeout(&mut self, intended_ns: u64, actual_ns: u64) {
        self.timeouts += 1;
        self.latency_intended.saturating_record(intended_ns);
        self.latency_actual.saturating_record(actual_ns);
    }

    /// Records a query that was never sent, with a lower bound of the latency that its sender would have seen.
    pub fn record_missed(&mut self, intended_ns: u64) {
        self.scheduled += 1;
        self.missed += 1;
        self.latency_intended.saturating_record(intended_ns);
    }

    /// Responses that arrived while queries were sent, or so soon after that the server did not buffer their queries.
    pub fn responses_in_window(&self) -> u64 {
        self.responses - self.responses_after_window
    }

    /// Records a wrong response; calls `describe` for the first ten only.
    pub fn record_wrong(&mut self, describe: impl FnOnce() -> String) {
        self.wrong += 1;
        if self.wrong_examples.len() < MAX_EXAMPLES {
            self.wrong_examples.push(describe());
        }
    }

    /// Records a connection that could not be established.
    pub fn record_failed_handshake(&mut self, error: &std::io::Error) {
        self.handshakes_failed += 1;
        self.handshake_failure.get_or_insert_with(|| error.to_string());
    }

    /// Adds the metrics of another thread or interval.
    pub fn add(&mut self, other: &Metrics) {
        self.add_counters(other);
        for (mine, theirs) in self.rcodes.iter_mut().zip(other.rcodes) {
            *mine += theirs;
        }
        if self.handshake_failure.is_none() {
            self.handshake_failure.clone_from(&other.handshake_failure);
        }
        self.breakdown.add(&other.breakdown);
        let room = MAX_EXAMPLES - self.wrong_examples.len().min(MAX_EXAMPLES);
        self.wrong_examples.extend(other.wrong_examples.iter().take(room).cloned());
        for (mine, theirs) in [
            (&mut self.latency_intended, &other.latency_intended),
            (&mut self.latency_actual, &other.latency_actual),
            (&mut self.schedule_error, &other.schedule_error),
            (&mut self.handshake, &other.handshake),
        ] {
            mine.add(&theirs.0).expect("all histograms have the same bounds");
        }
    }

    /// Why the run is invalid; empty if it is valid.
    pub fn invalid_because(&self) -> Vec<String> {
        let mut reasons = self.invalid_even_unanswered();
        if self.timeouts > 0 && self.responses == 0 {
            reasons.push(UNANSWERED.into());
        }
        reasons
    }

    /// Why the generator has not offered what it should; `lateness` says if it sent too late.
    pub fn generator_faults(&self, lateness: Option<String>) -> Vec<String> {
        let mut faults = Vec::new();
        if self.missed * 1000 > self.scheduled {
            faults.push(format!("{} of {} scheduled queries were never sent", self.missed, self.scheduled));
        }
        faults.extend(lateness);
        if self.refused > 0 {
            faults.push(format!("the kernel refused {} datagrams", self.refused));
        }
        if self.receive_drops > 0 {
            let drops = self.receive_drops;
            faults.push(format!("the generator's receive buffers were full: {drops} responses were dropped"));
        }
        faults
    }

    /// As [`Metrics::invalid_because`], for queries that need not be answered.
    pub fn invalid_even_unanswered(&self) -> Vec<String> {
        let is_late = self.late * 100 > self.queries;
        let late = || format!("{} of {} queries left more than 1 ms after their time", self.late, self.queries);
        let mut reasons = self.generator_faults(is_late.then(late));
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
    fn metrics_add_up() {
        let mut parts = [Metrics::default(), Metrics::default()];
        let response = [0, 0, 0x82, 3, 0, 1, 0, 0, 0, 0, 0, 0];
        for (index, part) in parts.iter_mut().enumerate() {
            part.record_sent(40, 2 * LATE_NS * index as u64);
            part.record_response(&response, 5000, 3000);
            part.record_timeout(2_000_000_000, 1_000_000_000);
            part.record_wrong(|| format!("example {index}"));
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
        let mut metrics = Metrics { queries: 1000, scheduled: 1001, responses: 1000, missed: 1, ..Metrics::default() };
        assert!(metrics.invalid_because().is_empty());
        metrics.missed = 2;
        metrics.late = 11;
        metrics.wrong = 1;
        assert_eq!(
            metrics.invalid_because(),
            [
                "2 of 1001 scheduled queries were never sent",
                "11 of 1000 queries left more than 1 ms after their time",
                "1 of 1000 answers are wrong",
            ]
        );
    }
}
