//! The queries in flight, and what is counted when they are answered, judged, missed or given up. Used by [`crate::worker`].

use std::sync::Arc;

use wire::HEADER_LEN;
use wire::tsig::Fault;

use crate::flight::{Flight, Flying};
use crate::measure::Measure;
use crate::queries::{Queries, describe_question};
use crate::signing::Signing;
use crate::verify::{Verifier, is_answer_to};

/// The queries in flight and what came of the others.
pub struct Book {
    /// What is asked.
    pub queries: Arc<Queries>,
    /// What is in flight.
    pub flight: Flight,
    /// What is right.
    pub verifier: Verifier,
    /// Signs queries, if they are to be signed.
    pub signing: Option<Signing>,
    /// What leaves before is not counted.
    pub warm_up_ns: u64,
    /// Sources from this number on are connections.
    pub stream_base: u32,
}

impl Book {
    /// Enters a query; `None`, and it counts as missed, when its source has no id left.
    #[inline]
    pub fn send(&mut self, source: u32, number: u32, intended_ns: u64, now: u64, measure: &mut Measure) -> Option<u16> {
        let counted = intended_ns >= self.warm_up_ns;
        let Some(id) = self.flight.send(source, number, intended_ns, now, counted) else {
            self.miss(intended_ns, measure);
            return None;
        };
        if let Some(signing) = &mut self.signing {
            signing.sign(source, id, self.queries.at(number).message);
        }
        if counted {
            measure.scheduled += 1;
            measure.sent(self.message(number).len(), now - intended_ns);
        }
        Some(id)
    }

    /// The message of the query that was entered last, whose number this is.
    #[inline]
    pub fn message(&self, number: u32) -> &[u8] {
        self.signing.as_ref().map_or(self.queries.at(number).message, Signing::message)
    }

    /// Counts a query that is never sent.
    pub fn miss(&self, intended_ns: u64, measure: &mut Measure) {
        if intended_ns >= self.warm_up_ns {
            measure.scheduled += 1;
            measure.missed += 1;
        }
    }

    /// Enters an answer; returns whether it is one to a query in flight.
    #[inline]
    pub fn answer(&mut self, source: Option<u32>, answer: &[u8], now: u64, measure: &mut Measure) -> bool {
        if answer.len() < HEADER_LEN || answer[2] & 0x80 == 0 {
            measure.discarded += 1;
            return false;
        }
        let id = u16::from_be_bytes([answer[0], answer[1]]);
        let Some(flying) = source.and_then(|source| self.flight.answer(source, id)) else {
            measure.unexpected += 1;
            return false;
        };
        let unsigned = self.signing.as_mut().and_then(|signing| signing.fault(flying.source, id, answer));
        if flying.counted {
            measure.answered(answer, now - flying.intended_ns, now - flying.sent_ns);
            self.check(&flying, answer, unsigned, measure);
        }
        true
    }

    fn check(&mut self, flying: &Flying, answer: &[u8], unsigned: Option<Fault>, measure: &mut Measure) {
        let question = self.queries.at(flying.query).question();
        let wrong = if !is_answer_to(question, answer) {
            Some(format!("got an answer to {}", describe_question(&answer[HEADER_LEN..])))
        } else if let Some(fault) = unsigned {
            Some(fault.to_string())
        } else {
            measure.checked += u64::from(self.verifier.is_thorough());
            self.verifier.fault(flying.query, answer)
        };
        if let Some(wrong) = wrong {
            measure.wrong(|| format!("{}: {wrong}", describe_question(question)));
        }
    }
}
