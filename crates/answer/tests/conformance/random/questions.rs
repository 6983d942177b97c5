//! Random questions about given zones: existing names, names near them, and others.

use proptest::prelude::*;
use proptest::sample::Index;
use wire::message::{Edns, Message, Record};
use wire::{Class, Name, NameRef, Rtype};

use super::names::{labels, names, with_case};
use super::zones::Sample;
use crate::oracle::zone::join;

/// A question that does not depend on the zones yet.
#[derive(Clone, Debug)]
pub struct Draft {
    near: Index,
    step: Step,
    /// Otherwise the type of the record that the name is derived from.
    qtype: Option<Rtype>,
    class: Class,
    edns: Option<Edns>,
    /// Which letters of the QNAME have the other case.
    case: u64,
}

/// How the QNAME relates to a name in the zones.
#[derive(Clone, Debug)]
enum Step {
    Same,
    Parent,
    Child(Vec<u8>),
    Sibling(Vec<u8>),
    Other(Name),
}

const QTYPES: [Rtype; 20] = [
    Rtype::A,
    Rtype::NS,
    Rtype::CNAME,
    Rtype::SOA,
    Rtype::PTR,
    Rtype::MX,
    Rtype::TXT,
    Rtype::AAAA,
    Rtype::SRV,
    Rtype::DNAME,
    Rtype::DS,
    Rtype::RRSIG,
    Rtype::NSEC,
    Rtype::DNSKEY,
    Rtype::NSEC3,
    Rtype::NSEC3PARAM,
    Rtype::SVCB,
    Rtype::HTTPS,
    Rtype::ANY,
    Rtype(65_280),
];

/// Any question.
pub fn questions() -> impl Strategy<Value = Draft> {
    let step = prop_oneof![
        4 => Just(Step::Same),
        1 => Just(Step::Parent),
        2 => labels().prop_map(Step::Child),
        2 => labels().prop_map(Step::Sibling),
        2 => names().prop_map(Step::Other),
    ];
    let qtype = prop_oneof![
        3 => Just(None),
        2 => Just(Some(Rtype::A)),
        1 => Just(Some(Rtype::DS)),
        3 => proptest::sample::select(&QTYPES[..]).prop_map(Some),
    ];
    let class = prop_oneof![30 => Just(Class::IN), 1 => Just(Class::ANY), 1 => Just(Class::CH)];
    let edns = (proptest::bool::weighted(0.8), 0..2000u16).prop_map(|(dnssec_ok, payload)| Edns {
        payload,
        dnssec_ok,
        ..Edns::default()
    });
    let case = prop_oneof![Just(0), any::<u64>()];
    (any::<Index>(), step, qtype, class, proptest::option::weighted(0.8, edns), case)
        .prop_map(|(near, step, qtype, class, edns, case)| Draft { near, step, qtype, class, edns, case })
}

impl Draft {
    /// The query made from this.
    pub fn query(&self, zones: &[Sample]) -> Message {
        let records: Vec<&Record> = zones.iter().flat_map(|zone| &zone.records).collect();
        let record = *self.near.get(&records);
        let near = &record.owner;
        let parent = near.as_ref().parent().map_or(Name::root(), NameRef::to_owned);
        let name = match &self.step {
            Step::Same => near.clone(),
            Step::Parent => parent,
            Step::Child(label) => join(label, near).unwrap_or(parent),
            Step::Sibling(label) => join(label, &parent).unwrap_or(parent),
            Step::Other(name) => name.clone(),
        };
        let mut query = Message::query(with_case(&name, self.case), self.qtype.unwrap_or(record.rtype));
        query.questions[0].qclass = self.class;
        query.id = self.case as u16;
        query.edns = self.edns.clone();
        query
    }
}
