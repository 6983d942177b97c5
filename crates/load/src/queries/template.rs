//! The flags and EDNS that all queries of a run get: those of a file, of a zone and of a capture.

use fastrand::Rng;
use wire::message::{EdnsOption, Question};
use wire::{Class, Message, NameRef, Rtype};

use super::Queries;

/// The flags and EDNS of queries. What it does not set stays as it is in a captured query, and unset in others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueryTemplate {
    /// The EDNS payload size (RFC 6891 6.2.3).
    pub edns: Option<u16>,
    /// The share of queries with DO (RFC 3225), which always have EDNS.
    pub dnssec_ok: f64,
    /// RD.
    pub recursion_desired: bool,
    /// The seed for the choice of queries with DO.
    pub seed: u64,
    /// EDNS options (RFC 6891 6.1.2); queries with options always have EDNS.
    pub options: Vec<EdnsOption>,
    /// Pad queries to a multiple of this many octets (RFC 7830, RFC 8467 4.1); 0: do not.
    pub padding: u16,
}

/// EDNS client subnet (RFC 7871 6).
pub const OPTION_ECS: u16 = 8;
/// Cookies (RFC 7873 4).
pub const OPTION_COOKIE: u16 = 10;
/// Padding (RFC 7830 3).
const OPTION_PADDING: u16 = 12;
/// The code and length of an EDNS option.
const OPTION_HEAD_LEN: usize = 4;

impl QueryTemplate {
    /// Adds an EDNS option.
    pub fn push_option(&mut self, code: u16, data: &[u8]) {
        self.options.push(EdnsOption { code, data: data.to_vec() });
    }

    /// Whether it sets nothing, so that captured queries are sent octet for octet.
    fn is_empty(&self) -> bool {
        *self == QueryTemplate { seed: self.seed, ..QueryTemplate::default() }
    }

    fn apply(&self, message: &mut Message, dnssec_ok: bool) {
        message.flags.recursion_desired |= self.recursion_desired;
        if self.edns.is_none() && !dnssec_ok && self.options.is_empty() && self.padding == 0 {
            return;
        }
        let edns = message.edns.get_or_insert_default();
        edns.payload = self.edns.unwrap_or(edns.payload);
        edns.dnssec_ok |= dnssec_ok;
        edns.options.retain(|option| self.options.iter().all(|new| new.code != option.code));
        edns.options.extend(self.options.iter().cloned());
        if self.padding > 0 {
            edns.options.retain(|option| option.code != OPTION_PADDING);
            // The option's own head counts (RFC 8467 4.1).
            let unpadded = message.to_wire().len() + OPTION_HEAD_LEN;
            let data = vec![0; unpadded.next_multiple_of(self.padding.into()) - unpadded];
            message.edns.get_or_insert_default().options.push(EdnsOption { code: OPTION_PADDING, data });
        }
    }
}

/// Encodes queries by a template.
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
        let questions = vec![Question { name: name.to_owned(), qtype, qclass }];
        let query = self.encode(Message { questions, ..Message::default() });
        self.queries.push(&query).expect("one question, shorter than the limit");
    }

    /// A captured query with what the template sets; `None` if it is malformed and therefore cannot be changed.
    pub fn rewrite(&mut self, captured: &[u8]) -> Option<Vec<u8>> {
        if self.template.is_empty() {
            return Some(captured.to_vec());
        }
        Message::parse(captured).ok().map(|message| self.encode(message))
    }

    /// The encoded queries.
    pub fn finish(self) -> Queries {
        self.queries
    }

    fn encode(&mut self, mut message: Message) -> Vec<u8> {
        let dnssec_ok = self.random.f64() < self.template.dnssec_ok;
        self.template.apply(&mut message, dnssec_ok);
        message.to_wire()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Name;
    use wire::message::Edns;

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
    fn a_captured_query_keeps_what_the_template_does_not_set() {
        let old = EdnsOption { code: OPTION_COOKIE, data: vec![7; 8] };
        let nsid = EdnsOption { code: 3, data: Vec::new() };
        let edns = Edns { payload: 4096, options: vec![old, nsid.clone()], ..Edns::default() };
        let mut plain = Message::query(name("WWW.example"), Rtype::A);
        plain.flags.checking_disabled = true;
        let with_edns = plain.clone().with_edns(edns.clone());
        let rewrite = |template: &QueryTemplate, message: &Message| {
            let octets = QueryEncoder::new(template).rewrite(&message.to_wire()).expect("well-formed");
            Message::parse(&octets).expect("well-formed")
        };

        let with_do = QueryTemplate { dnssec_ok: 1.0, ..QueryTemplate::default() };
        let dnssec_ok = |payload| Edns { payload, dnssec_ok: true, ..Edns::default() };
        assert_eq!(rewrite(&with_do, &plain), plain.clone().with_edns(dnssec_ok(1232)));
        let kept = Edns { dnssec_ok: true, ..edns.clone() };
        assert_eq!(rewrite(&with_do, &with_edns), plain.clone().with_edns(kept));

        let mut template = QueryTemplate { edns: Some(512), recursion_desired: true, ..QueryTemplate::default() };
        template.push_option(OPTION_COOKIE, &[1; 8]);
        let new = EdnsOption { code: OPTION_COOKIE, data: vec![1; 8] };
        let mut changed = plain.clone().with_edns(Edns { payload: 512, options: vec![nsid, new], ..edns });
        changed.flags.recursion_desired = true;
        assert_eq!(rewrite(&template, &with_edns), changed);
    }

    #[test]
    fn an_empty_template_keeps_every_octet_and_another_rejects_malformed_queries() {
        let mut octets = Message::query(name("www.example"), Rtype::A).to_wire();
        octets.push(0);
        let rewrite = |template: &QueryTemplate| QueryEncoder::new(template).rewrite(&octets);
        assert_eq!(rewrite(&QueryTemplate { seed: 9, ..QueryTemplate::default() }), Some(octets.clone()));
        assert_eq!(rewrite(&QueryTemplate { dnssec_ok: 1.0, ..QueryTemplate::default() }), None);
    }
}
