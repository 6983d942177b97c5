//! The queries of a run, encoded before it starts: to send one is to copy it and to set its id.

pub mod file;
pub mod maintenance;
pub mod pcap;
pub mod zone;

use std::borrow::Cow;
use std::cmp::Reverse;
use std::sync::Arc;

use wire::{Class, HEADER_LEN, NameRef, Rtype};

use fastrand::Rng;

/// The maximum length of a query, in octets.
pub const MAX_QUERY_LEN: usize = 1400;

/// Encoded queries, numbered from 0. A run sends them in order, and from the start again after the last one.
#[derive(Clone, Debug, Default)]
pub struct Queries {
    bytes: Vec<u8>,
    spans: Vec<Span>,
    /// By number; empty unless the queries were captured.
    origins: Vec<CaptureOrigin>,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    start: usize,
    len: u16,
    question_end: u16,
}

/// When, by whom and over what a query was sent when it was captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureOrigin {
    /// Nanoseconds after the first query of the capture.
    pub time_ns: u64,
    /// The number of the client, in order of appearance.
    pub client: u32,
    /// Whether it was sent over TCP.
    pub is_tcp: bool,
}

/// An encoded query.
#[derive(Clone, Copy, Debug)]
pub struct Query<'q> {
    /// The message, with id 0.
    pub message: &'q [u8],
    question_end: usize,
}

impl<'q> Query<'q> {
    /// Its question in wire format: name, type, class.
    #[inline]
    pub fn question(&self) -> &'q [u8] {
        &self.message[HEADER_LEN..self.question_end]
    }
}

/// Why a message cannot be sent as a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// It is a response, or does not have exactly one question.
    #[error("the message is not a query with one question")]
    Kind,
    /// It is truncated.
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

    /// Query number `number`, which is below [`Queries::len`].
    #[inline]
    pub fn at(&self, number: u32) -> Query<'_> {
        let span = self.spans[number as usize];
        let message = &self.bytes[span.start..span.start + usize::from(span.len)];
        Query { message, question_end: span.question_end.into() }
    }

    /// The origin of a captured query.
    pub fn origin(&self, number: u32) -> Option<CaptureOrigin> {
        self.origins.get(number as usize).copied()
    }

    /// The origins of all queries; empty unless they were captured.
    pub fn origins(&self) -> &[CaptureOrigin] {
        &self.origins
    }

    /// The numbers of all queries, sorted by descending length within every `window` consecutive ones.
    ///
    /// A segment burst has equal lengths, except for a shorter last one; so bursts in this order are longer.
    pub fn sorted_by_length(&self, window: usize) -> Arc<[u32]> {
        let mut order: Vec<u32> = (0..self.len() as u32).collect();
        for consecutive in order.chunks_mut(window) {
            consecutive.sort_by_key(|&number| Reverse(self.at(number).message.len()));
        }
        order.into()
    }

    /// Adds a query message (RFC 1035 4.1); its id is set to 0.
    pub fn push(&mut self, message: &[u8]) -> Result<(), QueryError> {
        let (header, rest) = message.split_at_checked(HEADER_LEN).ok_or(QueryError::Short)?;
        if header[2] & 0x80 != 0 || header[4..6] != [0, 1] {
            return Err(QueryError::Kind);
        }
        if message.len() > MAX_QUERY_LEN {
            return Err(QueryError::Long);
        }
        let name = NameRef::from_wire(rest).map_err(|_| QueryError::Short)?;
        let question_end = HEADER_LEN + name.wire().len() + 4;
        if message.len() < question_end {
            return Err(QueryError::Short);
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(message);
        self.bytes[start..start + 2].fill(0);
        self.spans.push(Span { start, len: message.len() as u16, question_end: question_end as u16 });
        Ok(())
    }

    /// Adds a captured query.
    pub fn push_captured(&mut self, message: &[u8], origin: CaptureOrigin) -> Result<(), QueryError> {
        self.push(message)?;
        self.origins.push(origin);
        Ok(())
    }

    /// The type that a query asks for.
    pub fn qtype(&self, number: u32) -> Rtype {
        let question = self.at(number).question();
        Rtype(u16::from_be_bytes([question[question.len() - 4], question[question.len() - 3]]))
    }

    /// The question of a query as text, `name type`.
    pub fn describe(&self, number: u32) -> String {
        describe_question(self.at(number).question())
    }
}

/// A question in wire format as text, `name type`.
pub fn describe_question(question: &[u8]) -> String {
    let describe = || {
        let name = NameRef::from_wire(question).ok()?;
        let rtype = question.get(name.wire().len()..)?.first_chunk()?;
        Some(format!("{name} {}", Rtype(u16::from_be_bytes(*rtype))))
    };
    describe().unwrap_or_else(|| "a malformed question".into())
}

/// The flags and EDNS that all queries of a run get.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueryTemplate {
    /// The EDNS payload size (RFC 6891 6.2.3); `None` for queries without EDNS.
    pub edns: Option<u16>,
    /// The share of queries with DO (RFC 3225), which always have EDNS.
    pub dnssec_ok: f64,
    /// RD.
    pub recursion_desired: bool,
    /// The seed for the choice of queries with DO.
    pub seed: u64,
    /// EDNS options in wire format (RFC 6891 6.1.2); queries with options always have EDNS.
    pub options: Vec<u8>,
    /// Pad queries to a multiple of this many octets (RFC 7830, RFC 8467 4.1); 0: do not.
    pub padding: u16,
}

impl QueryTemplate {
    /// Adds an EDNS option.
    pub fn push_option(&mut self, code: u16, data: &[u8]) {
        self.options.extend_from_slice(&code.to_be_bytes());
        self.options.extend_from_slice(&(data.len() as u16).to_be_bytes());
        self.options.extend_from_slice(data);
    }

    /// The options of a query that is this long without them.
    fn padded_options(&self, len: usize) -> Cow<'_, [u8]> {
        if self.padding == 0 {
            return Cow::Borrowed(&self.options);
        }
        // The option's own head counts (RFC 8467 4.1).
        let unpadded = len + self.options.len() + OPTION_HEAD_LEN;
        let mut padded = self.clone();
        padded.push_option(OPTION_PADDING, &vec![0; unpadded.next_multiple_of(self.padding.into()) - unpadded]);
        Cow::Owned(padded.options)
    }
}

/// The code and length of an EDNS option.
const OPTION_HEAD_LEN: usize = 4;
/// EDNS client subnet (RFC 7871 6).
pub const OPTION_ECS: u16 = 8;
/// Cookies (RFC 7873 4).
pub const OPTION_COOKIE: u16 = 10;
/// Padding (RFC 7830 3).
const OPTION_PADDING: u16 = 12;

/// The length of an OPT record without options.
const OPT_LEN: usize = 11;

/// Encodes questions as queries.
#[derive(Debug)]
pub struct QueryEncoder {
    template: QueryTemplate,
    random: Rng,
    queries: Queries,
}

impl QueryEncoder {
    /// An encoder without queries yet.
    pub fn new(template: &QueryTemplate) -> QueryEncoder {
        let random = Rng::with_seed(template.seed ^ 0xd0);
        QueryEncoder { template: template.clone(), random, queries: Queries::default() }
    }

    /// Adds a query.
    pub fn push(&mut self, name: NameRef<'_>, qtype: Rtype, qclass: Class) {
        let dnssec_ok = self.random.f64() < self.template.dnssec_ok;
        let has_options = !self.template.options.is_empty() || self.template.padding > 0;
        let edns = self.template.edns.or((dnssec_ok || has_options).then_some(1232));
        let flags = u8::from(self.template.recursion_desired);
        let header = [0, 0, flags, 0, 0, 1, 0, 0, 0, 0, 0, u8::from(edns.is_some())];
        let mut message = [&header, name.wire(), &qtype.0.to_be_bytes(), &qclass.0.to_be_bytes()].concat();
        if let Some(payload) = edns {
            let options = self.template.padded_options(message.len() + OPT_LEN);
            // RFC 6891 6.1.2: the root name, OPT, payload size, extended RCODE, version, flags, options.
            let ([high, low], [len_high, len_low]) = (payload.to_be_bytes(), (options.len() as u16).to_be_bytes());
            let opt: [u8; OPT_LEN] =
                [0, 0, 41, high, low, 0, 0, if dnssec_ok { 0x80 } else { 0 }, 0, len_high, len_low];
            message.extend_from_slice(&opt);
            message.extend_from_slice(&options);
        }
        self.queries.push(&message).expect("one question, shorter than the limit");
    }

    /// The encoded queries.
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
    fn encoded_queries_are_well_formed() {
        let template = QueryTemplate { edns: Some(1400), dnssec_ok: 0.5, seed: 1, ..QueryTemplate::default() };
        let mut encoder = QueryEncoder::new(&template);
        for _ in 0..1000 {
            encoder.push(name("www.example.").as_ref(), Rtype::AAAA, Class::IN);
        }
        let queries = encoder.finish();
        let mut dnssec_ok = 0;
        for number in 0..1000 {
            let message = Message::parse(queries.at(number).message).expect("well-formed");
            let question = &message.questions[0];
            assert_eq!((&question.name, question.qtype), (&name("www.example"), Rtype::AAAA));
            let edns = message.edns.expect("in the template");
            assert_eq!(edns.payload, 1400);
            dnssec_ok += u32::from(edns.dnssec_ok);
        }
        assert!((400..600).contains(&dnssec_ok), "half of them: {dnssec_ok}");
        assert_eq!(queries.describe(0), "www.example. AAAA");
    }

    /// RFC 7873 4, RFC 7871 6 and RFC 8467 4.1: the options are in each query, whose length is a multiple of the block.
    #[test]
    fn rfc_8467_4_1_queries_with_options_are_padded() {
        let mut template = QueryTemplate { padding: 128, ..QueryTemplate::default() };
        template.push_option(OPTION_COOKIE, &[1, 2, 3, 4, 5, 6, 7, 8]);
        template.push_option(OPTION_ECS, &[0, 1, 24, 0, 192, 0, 2]);
        let mut encoder = QueryEncoder::new(&template);
        for len in 1..=60 {
            encoder.push(name(&format!("{}.example.", "a".repeat(len))).as_ref(), Rtype::A, Class::IN);
        }
        let queries = encoder.finish();
        for number in 0..60 {
            let query = queries.at(number).message;
            assert_eq!(query.len(), 128, "{number}");
            let options = Message::parse(query).expect("well-formed").edns.expect("it has options").options;
            let codes: Vec<u16> = options.iter().map(|option| option.code).collect();
            assert_eq!(codes, [OPTION_COOKIE, OPTION_ECS, OPTION_PADDING]);
            assert_eq!(options[0].data, [1, 2, 3, 4, 5, 6, 7, 8]);
        }
    }

    #[test]
    fn only_queries_are_accepted() {
        let mut queries = Queries::default();
        let mut encoder = QueryEncoder::new(&QueryTemplate::default());
        encoder.push(NameRef::ROOT, Rtype::NS, Class::IN);
        let good = encoder.finish().at(0).message.to_vec();
        assert_eq!(queries.push(&good), Ok(()));
        assert_eq!(queries.push(&good[..good.len() - 1]), Err(QueryError::Short));
        let mut response = good.clone();
        response[2] |= 0x80;
        assert_eq!(queries.push(&response), Err(QueryError::Kind));
        assert_eq!(queries.len(), 1);
    }
}
