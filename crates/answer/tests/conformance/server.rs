//! A server of zones given as text, and examples of questions and answers as the RFCs print them.

use std::sync::Arc;

use answer::{Acl, AclEntry, AnswerConfig, Served, ServedZone, Transport, ZoneState};
use domain::base::ToName;
use domain::base::iana::Class as DomainClass;
use domain::base::rdata::ComposeRecordData;
use domain::zonefile::inplace::{Entry, Zonefile};
use wire::message::{Edns, Message, Rcode, Record};
use wire::{AddressPrefix, Class, Name, Rtype};

use crate::compare;
use crate::oracle::{self, Expected, Question, zone::Zone};
use crate::subject::{self, TCP};
use crate::text::{dig, lines};

/// Zones, loaded by `respond`'s crates and by the oracle.
pub struct Server {
    served: Arc<Served>,
    plain: Vec<Zone>,
}

impl Server {
    /// Serves zones from pairs of apex and text.
    pub fn new(zones: &[(&str, &str)]) -> Server {
        Server::with_options(zones, AnswerConfig::default())
    }

    /// Serves zones with this configuration.
    pub fn with_options(zones: &[(&str, &str)], options: AnswerConfig) -> Server {
        let plain = zones.iter().map(|(apex, text)| Zone::new(name(apex), &parse(&dedented(text)))).collect();
        Server { served: subject::serve(contents(zones), options, Acl::default()), plain }
    }

    /// Serves zones without data: not loaded, or expired.
    pub fn without_data(states: impl IntoIterator<Item = ZoneState>) -> Server {
        let contents = states.into_iter();
        Server { served: subject::serve(contents, AnswerConfig::default(), Acl::default()), plain: Vec::new() }
    }

    /// Serves zones that may be transferred.
    pub fn with_transfer(zones: &[(&str, &str)]) -> Server {
        let access = Acl(vec![AclEntry::of_addresses(AddressPrefix::single(subject::PEER))]);
        Server { served: subject::serve(contents(zones), AnswerConfig::default(), access), plain: Vec::new() }
    }

    /// The zone with this apex.
    pub fn zone(&self, apex: &str) -> &ServedZone {
        self.served.zones.get(name(apex).wire()).expect("it is served")
    }

    /// The messages of a transfer.
    pub fn transfer(&self, query: &Message) -> Vec<Message> {
        let messages = self.transfer_octets(query);
        messages.iter().map(|message| Message::parse(message).expect("a well-formed message")).collect()
    }

    /// The same as octets.
    pub fn transfer_octets(&self, query: &Message) -> Vec<Vec<u8>> {
        let messages = subject::transfer(&self.served, &query.to_wire());
        assert!(!messages.is_empty(), "there is no transfer");
        messages
    }

    /// Sends bytes; returns the response, if any.
    pub fn exchange(&self, query: &[u8], transport: Transport) -> Option<Vec<u8>> {
        subject::ask(&self.served, query, transport)
    }

    /// Sends a query; returns its response, without which the test fails.
    pub fn ask(&self, query: &Message, transport: Transport) -> Message {
        let answer = self.exchange(&query.to_wire(), transport).expect("an answer");
        Message::parse(&answer).expect("a well-formed answer")
    }

    /// Checks `respond` and the oracle against an example:
    /// ```text
    /// host3.example. MX +do        the question, with or without DNSSEC
    /// NOERROR AA                   the response code and whether AA is set
    /// answer                       the records of a section, in any order
    /// host3.example. 3600 MX 10 host1.example.
    /// ```
    /// Sections that are not listed must be empty, except `additional`, which is not checked. RRSIG records are written with
    /// owner, TTL and type covered only.
    pub fn example(&self, example: &str) {
        let example = Example::read(example);
        example.check("the oracle", &self.expect(&example.query));
        example.check("respond", &self.ask(&example.query, TCP));
    }

    /// The response over TCP, with the same records as the oracle's.
    pub fn ask_as_oracle(&self, query: &Message) -> Message {
        let got = self.ask(query, TCP);
        let faults = compare::faults(query, &got, &self.expected(query));
        assert!(faults.is_empty(), "{}\n{faults:#?}", dig(&got));
        got
    }

    fn expected(&self, query: &Message) -> Expected {
        let asked = query.questions[0].clone();
        let dnssec_ok = query.edns.as_ref().is_some_and(|edns| edns.dnssec_ok);
        oracle::answer(&self.plain, &Question { name: asked.name, qtype: asked.qtype, class: asked.qclass, dnssec_ok })
    }

    fn expect(&self, query: &Message) -> Message {
        let expected = self.expected(query);
        let mut message = Message { rcode: expected.rcode, ..query.clone() };
        message.flags.authoritative = expected.authoritative;
        message.answer = expected.answer.required;
        message.authority = expected.authority.required;
        message.additional = expected.additional.required;
        message
    }
}

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

fn contents(zones: &[(&str, &str)]) -> impl Iterator<Item = ZoneState> {
    zones.iter().map(|(apex, text)| ZoneState::Loaded(subject::zone(&name(apex), &dedented(text))))
}

/// The lines without leading blanks, which in zone text repeat the preceding owner.
pub fn dedented(text: &str) -> String {
    text.lines().map(|line| line.trim_start().to_string() + "\n").collect()
}

/// The query for the text `NAME TYPE` or `NAME TYPE +do`.
pub fn query(text: &str) -> Message {
    let mut words = text.split_whitespace();
    let mut word = || words.next().expect("a question has a name and a type");
    let query = Message::query(word().parse().expect("a name"), word().parse().expect("a type"));
    match words.next() {
        None => query,
        Some("+do") => query.with_edns(Edns { dnssec_ok: true, ..Edns::default() }),
        Some(other) => panic!("{other} is no flag of a question"),
    }
}

struct Example {
    query: Message,
    rcode: Rcode,
    authoritative: bool,
    answer: Vec<String>,
    authority: Vec<String>,
    additional: Option<Vec<String>>,
}

impl Example {
    fn read(text: &str) -> Example {
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let query = query(lines.next().expect("a question"));
        let status = lines.next().expect("a response code");
        let rcode = match status.split(' ').next() {
            Some("NOERROR") => Rcode::NOERROR,
            Some("NXDOMAIN") => Rcode::NXDOMAIN,
            Some("YXDOMAIN") => Rcode::YXDOMAIN,
            Some("REFUSED") => Rcode::REFUSED,
            _ => panic!("{status} is no response code of these tests"),
        };
        let mut example = Example {
            query,
            rcode,
            authoritative: status.ends_with(" AA"),
            answer: Vec::new(),
            authority: Vec::new(),
            additional: None,
        };
        let mut section = &mut example.answer;
        for line in lines {
            match line {
                "answer" => section = &mut example.answer,
                "authority" => section = &mut example.authority,
                "additional" => section = example.additional.insert(Vec::new()),
                record => section.push(normal(record)),
            }
        }
        example
    }

    fn check(&self, who: &str, got: &Message) {
        let shown = dig(got);
        assert_eq!(got.rcode, self.rcode, "the response code of {who}\n{shown}");
        assert_eq!(got.flags.authoritative, self.authoritative, "AA of {who}\n{shown}");
        let sections = [
            ("answer", Some(&self.answer), &got.answer),
            ("authority", Some(&self.authority), &got.authority),
            ("additional", self.additional.as_ref(), &got.additional),
        ];
        for (name, expected, got) in sections {
            let Some(expected) = expected else { continue };
            assert_eq!(sorted(lines(got).lines().map(normal)), sorted(expected.clone()), "{name} of {who}\n{shown}");
        }
    }
}

fn sorted(lines: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut lines: Vec<String> = lines.into_iter().collect();
    lines.sort();
    lines
}

/// The line with single blanks and lower-case names; an RRSIG only up to the type covered.
fn normal(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let len = if words[2] == "RRSIG" { 4 } else { words.len() };
    words[..len].join(" ").to_lowercase()
}

/// The records of a zone, read by another implementation than the one under test.
fn parse(text: &str) -> Vec<Record> {
    let mut zonefile = Zonefile::from(text);
    zonefile.set_default_class(DomainClass::IN);
    let mut records = Vec::new();
    while let Some(entry) = zonefile.next_entry().expect("well-formed zone text") {
        let Entry::Record(record) = entry else { panic!("zones of the tests include nothing") };
        let mut rdata = Vec::new();
        record.data().compose_rdata(&mut rdata).expect("a vector takes all");
        records.push(Record {
            owner: Name::from_wire(record.owner().to_vec().as_slice()).expect("a name"),
            rtype: Rtype(record.rtype().to_int()),
            class: Class::IN,
            ttl: record.ttl().as_secs(),
            rdata,
        });
    }
    records
}
