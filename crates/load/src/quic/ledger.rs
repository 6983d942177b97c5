//! Records what becomes of every query over QUIC, as the ledger of a [`crate::worker`] does for the other transports.

use std::time::{Duration, Instant};

use wire::HEADER_LEN;
use wire::framing::split_message;

use super::TIMEOUT;
use super::asker::Exchange;
use crate::answer_window::{AnswerWindow, Route, grace};
use crate::metrics::Metrics;
use crate::queries::{Queries, describe_question};
use crate::verify::{ResponseChecker, matches_question};

/// The metrics, and what is needed to keep them.
pub(super) struct QuicLedger<'q> {
    pub(super) metrics: Metrics,
    queries: &'q Queries,
    checker: ResponseChecker,
    window: AnswerWindow,
    /// Time 0 of the window.
    start: Instant,
}

impl<'q> QuicLedger<'q> {
    /// For queries that are sent for `duration` and counted.
    pub(super) fn new(queries: &'q Queries, checker: ResponseChecker, duration: Duration) -> QuicLedger<'q> {
        let window = AnswerWindow::new(grace(duration));
        QuicLedger { metrics: Metrics::default(), queries, checker, window, start: Instant::now() }
    }

    /// Counts and checks the response: one message with ID 0 and the question (RFC 9250 4.2).
    pub(super) fn record(&mut self, exchange: &Exchange) {
        let Some((response, [])) = split_message(&exchange.input).filter(|(message, _)| message.len() >= HEADER_LEN)
        else {
            return self.record_lost(exchange);
        };
        let now = Instant::now();
        let [sent_ns, now_ns] = [exchange.sent, now].map(|at| (at - self.start).as_nanos() as u64);
        let question = self.queries.at(exchange.query).question();
        let is_to_question = response[..2] == [0, 0] && matches_question(question, response);
        if is_to_question {
            self.window.record_latency(Route::QUIC, sent_ns, now_ns);
        }
        if !exchange.is_counted {
            return;
        }
        let waited_ns = |since: Instant| (now - since).as_nanos() as u64;
        self.metrics.record_response(response, waited_ns(exchange.intended), waited_ns(exchange.sent));
        self.window.record_arrival(Route::QUIC, sent_ns, now_ns);
        if !is_to_question {
            let number = exchange.query;
            return self.metrics.record_wrong(|| format!("a response to another question than query {number}"));
        }
        self.metrics.checked += u64::from(self.checker.checks_content());
        if let Some(mismatch) = self.checker.mismatch(exchange.query, response) {
            self.metrics.record_wrong(|| format!("{}: {mismatch}", describe_question(question)));
        }
    }

    /// Counts a query that is never answered. Its latency is at least the time-out, however soon that is known.
    pub(super) fn record_lost(&mut self, exchange: &Exchange) {
        if exchange.is_counted {
            let waited_ns = |since: Instant| since.elapsed().max(TIMEOUT).as_nanos() as u64;
            self.metrics.record_timeout(waited_ns(exchange.intended), waited_ns(exchange.sent));
        }
    }

    /// Sending has ended: answers that travel for longer than the others are late.
    pub(super) fn end_window(&mut self) {
        self.window.end(self.start.elapsed().as_nanos() as u64);
    }

    /// The metrics, once all answers have arrived.
    pub(super) fn finish(mut self) -> Metrics {
        self.metrics.responses_after_window = self.window.late_answers();
        self.metrics
    }
}
