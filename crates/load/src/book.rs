//! The queries in flight, and what is counted when they are answered, judged, missed or given up. Used by [`crate::worker`].

use std::sync::Arc;

use wire::HEADER_LEN;
use wire::tsig::Fault;

use crate::flight::{Flight, Flying};
use crate::measure::Measure;
use crate::queries::{Queries, describe_question};
use crate::signing::Signing;
use crate::verify::Verifier;

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

/// RFC 5452 9.1: an answer repeats the question. One that says no to the whole message may leave it out.
#[inline]
pub(crate) fn is_answer_to(question: &[u8], answer: &[u8]) -> bool {
    match [answer[4], answer[5]] {
        [0, 1] => answer[HEADER_LEN..]
            .get(..question.len())
            .is_some_and(|repeated| repeated == question || is_same_question(repeated, question)),
        [0, 0] => answer[3] & 0x0f != 0 || answer[2] & 0x78 != 0,
        _ => false,
    }
}

/// Names are equal whatever their case (RFC 4343); length octets are below 64 and no letters.
fn is_same_question(repeated: &[u8], question: &[u8]) -> bool {
    let (repeated_name, repeated_rest) = repeated.split_at(repeated.len() - 4);
    let (name, rest) = question.split_at(question.len() - 4);
    repeated_rest == rest && repeated_name.eq_ignore_ascii_case(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_repeat_the_question_in_any_case() {
        let question = b"\x03www\x07example\x00\x00\x01\x00\x01";
        let answer = |count: u8, rcode: u8, question: &[u8]| {
            [&[0, 0, 0x80, rcode, 0, count, 0, 0, 0, 0, 0, 0], question].concat()
        };
        assert!(is_answer_to(question, &answer(1, 0, question)));
        assert!(is_answer_to(question, &answer(1, 0, b"\x03wWw\x07EXAMPLE\x00\x00\x01\x00\x01")));
        assert!(!is_answer_to(question, &answer(1, 0, b"\x03www\x07example\x00\x00\x1c\x00\x01")));
        assert!(!is_answer_to(question, &answer(1, 0, &question[..9])));
        assert!(is_answer_to(question, &answer(0, 1, b"")), "FORMERR may come without a question");
        assert!(!is_answer_to(question, &answer(0, 0, b"")));
    }
}
