//! The ledger of a [`crate::worker`]: matches responses to outstanding queries and records every query's outcome.

use std::sync::Arc;

use wire::HEADER_LEN;
use wire::tsig::TsigError;

use crate::answer_window::{AnswerWindow, Route};
use crate::metrics::Metrics;
use crate::outstanding::{OutstandingQueries, OutstandingQuery};
use crate::queries::{Queries, describe_question};
use crate::tsig::TsigContext;
use crate::verify::{ResponseChecker, matches_question};

/// The outstanding queries, and what is needed to account for them.
pub struct Ledger {
    pub queries: Arc<Queries>,
    /// Queries that were sent and have neither been answered nor timed out.
    pub outstanding: OutstandingQueries,
    pub checker: ResponseChecker,
    /// Signs queries and verifies responses, with `--tsig`.
    pub tsig: Option<TsigContext>,
    /// The window in which responses must arrive to show what the server sustains.
    pub window: AnswerWindow,
    /// Whether latencies are recorded by query type and RCODE too.
    pub has_breakdown: bool,
    /// Queries due earlier than this are not counted.
    pub warm_up_ns: u64,
    /// The source number of the first TCP connection; lower numbers are UDP sources.
    pub first_connection: u32,
}

impl Ledger {
    /// Records a query as sent and returns its message id; `None` if its source has no free id, which counts as missed.
    #[inline]
    pub fn record_sent(
        &mut self,
        source: u32,
        number: u32,
        intended_ns: u64,
        now: u64,
        metrics: &mut Metrics,
    ) -> Option<u16> {
        let counted = intended_ns >= self.warm_up_ns;
        let Some(id) = self.outstanding.insert(source, number, intended_ns, now, counted) else {
            self.record_missed(intended_ns, now, metrics);
            return None;
        };
        if let Some(tsig) = &mut self.tsig {
            tsig.sign(source, id, self.queries.at(number).message);
        }
        if counted {
            metrics.scheduled += 1;
            metrics.record_sent(self.message(number).len(), now - intended_ns);
        }
        Some(id)
    }

    /// The message of the query that was recorded last, which has this number; signed with `--tsig`.
    #[inline]
    pub fn message(&self, number: u32) -> &[u8] {
        self.tsig.as_ref().map_or(self.queries.at(number).message, TsigContext::message)
    }

    /// Counts a scheduled query that is never sent.
    pub fn record_missed(&self, intended_ns: u64, now: u64, metrics: &mut Metrics) {
        if intended_ns >= self.warm_up_ns {
            metrics.record_missed((now - intended_ns).max(self.outstanding.timeout_ns()));
        }
    }

    /// Records and checks a response; returns whether it matches an outstanding query.
    #[inline]
    pub fn record_response(
        &mut self,
        source: Option<u32>,
        route: Route,
        response: &[u8],
        now: u64,
        metrics: &mut Metrics,
    ) -> bool {
        if response.len() < HEADER_LEN || response[2] & 0x80 == 0 {
            metrics.discarded += 1;
            return false;
        }
        let id = u16::from_be_bytes([response[0], response[1]]);
        let Some(query) = source.and_then(|source| self.outstanding.remove(source, id)) else {
            metrics.unexpected += 1;
            return false;
        };
        let tsig_fault = self.tsig.as_mut().and_then(|tsig| tsig.verify(query.source, id, response).err());
        let is_to_question = matches_question(self.queries.at(query.number).question(), response);
        // The response to a query before it with the same id would be too fast.
        if is_to_question {
            self.window.record_latency(route, query.sent_ns, now);
        }
        if query.counted {
            let intended_ns = now.saturating_sub(query.intended_ns);
            metrics.record_response(response, intended_ns, now.saturating_sub(query.sent_ns));
            if self.has_breakdown {
                let rcode = Some(response[3] & 0x0f);
                metrics.breakdown.record(self.queries.qtype(query.number), rcode, intended_ns);
            }
            self.window.record_arrival(route, query.sent_ns, now);
            self.check(&query, response, is_to_question, tsig_fault, metrics);
        }
        true
    }

    fn check(
        &mut self,
        query: &OutstandingQuery,
        response: &[u8],
        is_to_question: bool,
        tsig_fault: Option<TsigError>,
        metrics: &mut Metrics,
    ) {
        let question = self.queries.at(query.number).question();
        let mismatch = if !is_to_question {
            Some(format!("got an answer to {}", describe_question(&response[HEADER_LEN..])))
        } else if let Some(fault) = tsig_fault {
            Some(fault.to_string())
        } else {
            metrics.checked += u64::from(self.checker.checks_content());
            self.checker.mismatch(query.number, response)
        };
        if let Some(mismatch) = mismatch {
            metrics.record_wrong(|| format!("{}: {mismatch}", describe_question(question)));
        }
    }
}
