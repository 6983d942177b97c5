//! Turns queries into answers.

use wire::name::skip_name;
use wire::{HEADER_LEN, Rtype};

use super::fault::{FaultInjector, Faults, Treatment};

/// Which queries are answered, and how long the answers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerRule {
    /// Whether only SOA queries are answered, for readiness probes.
    pub soa_only: bool,
    /// Answers are padded to this length in octets.
    pub answer_len: usize,
}

/// The longest answer: a whole message (RFC 1035 4.2.2).
pub const MAX_ANSWER_LEN: usize = u16::MAX as usize;
/// The owner (a pointer to the question), type, class, TTL and length of the record in an answer.
const RECORD_HEAD_LEN: usize = 12;
/// RFC 1035 3.3.10: a record of type NULL, whose data is anything.
const NULL: Rtype = Rtype(10);
const RCODE_SERVFAIL: u8 = 2;

/// Answers the queries of a thread.
#[derive(Clone)]
pub struct Answerer {
    rule: AnswerRule,
    /// The octets that are copied as the record's data.
    data: Vec<u8>,
    faults: Option<FaultInjector>,
}

impl Answerer {
    pub fn new(rule: AnswerRule, faults: Faults) -> Answerer {
        let faults = (faults != Faults::default()).then(|| FaultInjector::new(faults));
        Answerer { rule, data: vec![0; rule.answer_len], faults }
    }

    /// Call this before each batch of queries: it may pause.
    #[inline]
    pub fn begin_batch(&mut self) {
        if let Some(faults) = &mut self.faults {
            faults.begin_batch();
        }
    }

    /// The longest answer that there can be to a query of this length.
    pub fn max_len(&self, query_len: usize) -> usize {
        (query_len + RECORD_HEAD_LEN).max(self.rule.answer_len).min(MAX_ANSWER_LEN)
    }

    /// Writes the answer into `reply`, which has [`Answerer::max_len`] octets, and returns its length; `None` if the query gets none.
    #[inline]
    pub fn answer(&mut self, query: &[u8], reply: &mut [u8]) -> Option<usize> {
        let question_end = question_end(query)?;
        if self.rule.soa_only && query[question_end - 4..question_end - 2] != Rtype::SOA.0.to_be_bytes() {
            return None;
        }
        let rcode = match self.faults.as_mut().map_or(Treatment::Answer, FaultInjector::treat) {
            Treatment::Answer => 0,
            Treatment::Wrong => RCODE_SERVFAIL,
            Treatment::Drop => return None,
        };
        let data_at = question_end + RECORD_HEAD_LEN;
        let len = data_at.max(self.rule.answer_len);
        reply[..question_end].copy_from_slice(&query[..question_end]);
        // QR and AA; one answer, no other records (RFC 1035 4.1.1).
        reply[2] |= 0x84;
        reply[3] = rcode;
        reply[6..HEADER_LEN].copy_from_slice(&[0, 1, 0, 0, 0, 0]);
        let [data_high, data_low] = ((len - data_at) as u16).to_be_bytes();
        let head = [0xc0, HEADER_LEN as u8, 0, NULL.0 as u8, 0, 1, 0, 0, 0, 0, data_high, data_low];
        reply[question_end..data_at].copy_from_slice(&head);
        reply[data_at..len].copy_from_slice(&self.data[..len - data_at]);
        Some(len)
    }
}

/// Where the question of a query ends; `None` if the message is not a query with one question.
#[inline]
fn question_end(message: &[u8]) -> Option<usize> {
    let is_query = message.len() > HEADER_LEN && message[2] & 0x80 == 0 && message[4..6] == [0, 1];
    let end = is_query.then(|| skip_name(message, HEADER_LEN))?? + 4;
    (end <= message.len()).then_some(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queries::{QueryTemplate, file};
    use crate::verify::matches_question;
    use wire::Message;

    fn answer(rule: AnswerRule, line: &str) -> Option<(Message, usize)> {
        let template = QueryTemplate { edns: Some(1232), ..QueryTemplate::default() };
        let queries = file::read(line.as_bytes(), &template).expect("a query");
        let query = queries.at(0);
        let mut answerer = Answerer::new(rule, Faults::default());
        let mut reply = vec![0xff; answerer.max_len(query.message.len())];
        let len = answerer.answer(query.message, &mut reply)?;
        assert!(matches_question(query.question(), &reply[..len]));
        Some((Message::parse(&reply[..len]).expect("well-formed"), len))
    }

    #[test]
    fn answers_are_well_formed_and_as_long_as_asked() {
        for (answer_len, len) in [(0, 12 + 13 + 4 + 12), (100, 100), (1232, 1232)] {
            let rule = AnswerRule { soa_only: false, answer_len };
            let (message, found) = answer(rule, "www.example A").expect("an answer");
            assert_eq!((found, message.answer.len(), message.flags.authoritative), (len, 1, true));
        }
    }

    #[test]
    fn a_sink_answers_soa_queries_alone() {
        let rule = AnswerRule { soa_only: true, answer_len: 0 };
        assert!(answer(rule, "www.example A").is_none());
        assert!(answer(rule, "example SOA").is_some());
    }

    #[test]
    fn messages_that_are_no_query_are_not_answered() {
        let queries = file::read(b"www.example A", &QueryTemplate::default()).expect("a query");
        let good = queries.at(0).message;
        let mut answerer = Answerer::new(AnswerRule { soa_only: false, answer_len: 0 }, Faults::default());
        let mut reply = [0; 512];
        assert!(answerer.answer(good, &mut reply).is_some());
        for len in 0..good.len() {
            assert_eq!(answerer.answer(&good[..len], &mut reply), None, "{len}");
        }
        let mut response = good.to_vec();
        response[2] |= 0x80;
        assert_eq!(answerer.answer(&response, &mut reply), None);
    }
}
