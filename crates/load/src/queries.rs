//! The queries of a run: rendered before it, so that sending one is copying its octets and writing two for the id.

pub mod file;
pub mod maintenance;
pub mod pcap;
pub mod zone;

use std::cmp::Reverse;
use std::sync::Arc;

use wire::{Class, HEADER_LEN, NameRef, Rtype};

use crate::random::Random;

/// The longest query, in octets; longer ones (huge updates) are for no load.
pub const MAX_QUERY_LEN: usize = 1400;

/// Rendered queries, asked in order and round and round.
#[derive(Clone, Debug, Default)]
pub struct Queries {
    bytes: Vec<u8>,
    spans: Vec<Span>,
    /// When, by whom and how each was asked; empty unless the queries are those of a capture.
    origins: Vec<Origin>,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    start: usize,
    len: u16,
    question_end: u16,
}

/// How a captured query was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Nanoseconds after the first one.
    pub time_ns: u64,
    /// The number of the client, in order of appearance.
    pub client: u32,
    /// Whether it came over TCP.
    pub stream: bool,
}

/// One rendered query.
#[derive(Clone, Copy, Debug)]
pub struct Query<'q> {
    /// The message, with id 0.
    pub message: &'q [u8],
    question_end: usize,
}

impl<'q> Query<'q> {
    /// Its question in wire form: name, type, class.
    #[inline]
    pub fn question(&self) -> &'q [u8] {
        &self.message[HEADER_LEN..self.question_end]
    }
}

/// Why octets are no query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAQuery {
    /// It is an answer, or has not exactly one question.
    #[error("the message is no query with one question")]
    Kind,
    /// It ends too early.
    #[error("the message ends too early")]
    Short,
    /// It is longer than [`MAX_QUERY_LEN`].
    #[error("the message has more than {MAX_QUERY_LEN} octets")]
    Long,
}

impl Queries {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The query of that number, which is below [`Queries::len`].
    #[inline]
    pub fn at(&self, number: u32) -> Query<'_> {
        let span = self.spans[number as usize];
        let message = &self.bytes[span.start..span.start + usize::from(span.len)];
        Query { message, question_end: span.question_end.into() }
    }

    /// How the query of that number was asked when it was captured.
    pub fn origin(&self, number: u32) -> Option<Origin> {
        self.origins.get(number as usize).copied()
    }

    /// All of [`Queries::origin`].
    pub fn origins(&self) -> &[Origin] {
        &self.origins
    }

    /// The numbers of all queries, those of each `window` neighbours by falling length: equal ones stand side by side, with a
    /// shorter one behind them, which is how the kernel takes several in one piece.
    pub fn by_length(&self, window: usize) -> Arc<[u32]> {
        let mut order: Vec<u32> = (0..self.len() as u32).collect();
        for neighbours in order.chunks_mut(window) {
            neighbours.sort_by_key(|&number| Reverse(self.at(number).message.len()));
        }
        order.into()
    }

    /// Adds a query message (RFC 1035 4.1); its id is set to 0.
    pub fn push(&mut self, message: &[u8]) -> Result<(), NotAQuery> {
        let (header, rest) = message.split_at_checked(HEADER_LEN).ok_or(NotAQuery::Short)?;
        if header[2] & 0x80 != 0 || header[4..6] != [0, 1] {
            return Err(NotAQuery::Kind);
        }
        if message.len() > MAX_QUERY_LEN {
            return Err(NotAQuery::Long);
        }
        let name = NameRef::from_wire(rest).map_err(|_| NotAQuery::Short)?;
        let question_end = HEADER_LEN + name.wire().len() + 4;
        if message.len() < question_end {
            return Err(NotAQuery::Short);
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(message);
        self.bytes[start..start + 2].fill(0);
        self.spans.push(Span { start, len: message.len() as u16, question_end: question_end as u16 });
        Ok(())
    }

    /// Adds a captured query.
    pub fn push_captured(&mut self, message: &[u8], origin: Origin) -> Result<(), NotAQuery> {
        self.push(message)?;
        self.origins.push(origin);
        Ok(())
    }

    /// The wire form of the question of a query as text, for messages to people.
    pub fn describe(&self, number: u32) -> String {
        describe_question(self.at(number).question())
    }
}

/// `name type` of a question in wire form.
pub fn describe_question(question: &[u8]) -> String {
    match NameRef::from_wire(question).ok().and_then(|name| {
        let code = question.get(name.wire().len()..)?.first_chunk()?;
        Some(format!("{name} {}", Rtype(u16::from_be_bytes(*code))))
    }) {
        Some(text) => text,
        None => "a broken question".into(),
    }
}

/// What is around the questions of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dress {
    /// The EDNS payload size (RFC 6891 6.2.3); `None` for queries without EDNS.
    pub edns: Option<u16>,
    /// The share of queries with DO (RFC 3225); they have EDNS.
    pub dnssec_ok: f64,
    /// Whether recursion is desired.
    pub recursion_desired: bool,
    /// What the draw of DO begins with.
    pub seed: u64,
}

/// Renders questions into queries.
#[derive(Debug)]
pub struct Renderer {
    dress: Dress,
    random: Random,
    message: Vec<u8>,
    queries: Queries,
}

impl Renderer {
    /// A renderer without queries yet.
    pub fn new(dress: &Dress) -> Renderer {
        let random = Random::new(dress.seed ^ 0xd0);
        Renderer { dress: dress.clone(), random, message: Vec::new(), queries: Queries::default() }
    }

    /// Adds a query.
    pub fn ask(&mut self, name: NameRef<'_>, qtype: Rtype, qclass: Class) {
        let dnssec_ok = self.random.unit() < self.dress.dnssec_ok;
        let edns = self.dress.edns.or(dnssec_ok.then_some(1232));
        self.message.clear();
        let flags = u8::from(self.dress.recursion_desired);
        self.message.extend_from_slice(&[0, 0, flags, 0, 0, 1, 0, 0, 0, 0, 0, u8::from(edns.is_some())]);
        self.message.extend_from_slice(name.wire());
        self.message.extend_from_slice(&qtype.0.to_be_bytes());
        self.message.extend_from_slice(&qclass.0.to_be_bytes());
        if let Some(payload) = edns {
            // RFC 6891 6.1.2: the root name, OPT, payload, extended RCODE, version, flags, no options.
            self.message.extend_from_slice(&[0, 0, 41]);
            self.message.extend_from_slice(&payload.to_be_bytes());
            self.message.extend_from_slice(&[0, 0, if dnssec_ok { 0x80 } else { 0 }, 0, 0, 0]);
        }
        self.queries.push(&self.message).expect("one question, shorter than the limit");
    }

    /// How many queries there are.
    pub fn len(&self) -> usize {
        self.queries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.queries.is_empty()
    }

    /// What was rendered.
    pub fn finish(self) -> Queries {
        self.queries
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{Message, Name};

    fn name(text: &str) -> Name {
        text.parse().expect("a literal")
    }

    #[test]
    fn rendered_queries_are_messages() {
        let dress = Dress { edns: Some(1400), dnssec_ok: 0.5, recursion_desired: false, seed: 1 };
        let mut renderer = Renderer::new(&dress);
        for _ in 0..1000 {
            renderer.ask(name("www.example.").as_ref(), Rtype::AAAA, Class::IN);
        }
        let queries = renderer.finish();
        let mut dnssec_ok = 0;
        for number in 0..1000 {
            let message = Message::parse(queries.at(number).message).expect("well-formed");
            assert_eq!(
                (message.questions[0].name.clone(), message.questions[0].qtype),
                (name("www.example"), Rtype::AAAA)
            );
            let edns = message.edns.expect("asked for");
            assert_eq!(edns.payload, 1400);
            dnssec_ok += u32::from(edns.dnssec_ok);
        }
        assert!((400..600).contains(&dnssec_ok), "half of them: {dnssec_ok}");
        assert_eq!(queries.describe(0), "www.example. AAAA");
    }

    #[test]
    fn what_is_no_query_is_refused() {
        let mut queries = Queries::default();
        let mut renderer = Renderer::new(&Dress::default());
        renderer.ask(NameRef::ROOT, Rtype::NS, Class::IN);
        let good = renderer.finish().at(0).message.to_vec();
        assert_eq!(queries.push(&good), Ok(()));
        assert_eq!(queries.push(&good[..good.len() - 1]), Err(NotAQuery::Short));
        let mut answer = good.clone();
        answer[2] |= 0x80;
        assert_eq!(queries.push(&answer), Err(NotAQuery::Kind));
        assert_eq!(queries.len(), 1);
    }
}
