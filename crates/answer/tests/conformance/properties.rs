//! Random zones and questions: `respond` agrees with the oracle.

use answer::{Acl, AclEntry, AnswerConfig, Transport, WorkerState, ZoneState};
use proptest::collection::vec;
use proptest::prelude::*;
use wire::message::{Message, Record};
use wire::{AddressPrefix, Rtype};

use crate::compare::{faults, limited_faults};
use crate::oracle::{self, Expected, Question, zone::Zone};
use crate::random::names::with_case;
use crate::random::questions::questions;
use crate::random::zones::{Sample, zones};
use crate::subject::{self, TCP};
use crate::text::{dig, line};

/// Questions per set of zones: generating and loading zones costs more than a query.
const QUESTIONS: usize = 40;

/// RFC 6891 6.2.3: less than 512 octets count as 512.
const LEAST_PAYLOAD: u16 = 512;

/// The server's default UDP payload size.
const OWN_PAYLOAD: u16 = 1232;

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn respond_agrees_with_the_oracle(zones in zones(), questions in vec(questions(), QUESTIONS), is_long in any::<bool>()) {
        let plain: Vec<Zone> = zones.iter().map(Sample::plain).collect();
        let text = if is_long { Sample::long_text } else { Sample::text };
        let texts: Vec<_> = zones.iter().map(|zone| (zone.apex.clone(), text(zone))).collect();
        let served = subject::load(&texts);
        let mut old_hand = WorkerState::new();
        let mut ask = |query: &Message, transport| {
            let wire = query.to_wire();
            let bytes = subject::ask(&served, &wire, transport).expect("an answer");
            for _ in 0..3 {
                let again = subject::answer_of(&mut old_hand, &served, &wire, transport).expect("an answer");
                assert!(again == bytes, "another answer from memory: {}\n{}", dig(query), texts[0].1);
            }
            (Message::parse(&bytes).expect("a well-formed answer"), bytes.len())
        };
        for draft in &questions {
            let query = draft.query(&zones);
            let expected = expected(&plain, &query);
            let (full, full_len) = ask(&query, TCP);
            let found = faults(&query, &full, &expected);
            prop_assert!(found.is_empty(), "{}", failure(&zones, &query, &full, &expected, &found));

            let limit = query.edns.as_ref().map_or(LEAST_PAYLOAD, |edns| edns.payload.clamp(LEAST_PAYLOAD, OWN_PAYLOAD));
            let (got, len) = ask(&query, Transport::Udp);
            let fits = full_len <= limit.into();
            let mut found = limited_faults(&query, &got, &full, &expected, fits);
            if len > limit.into() {
                found.push(format!("{len} octets where {limit} are allowed"));
            }
            prop_assert!(found.is_empty(), "{}", failure(&zones, &query, &got, &expected, &found));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// RFC 5936 2.2: the SOA, all records once, and the SOA again.
    #[test]
    /// RFC 5936 3.4: names have the case of the zone, not of the question.
    fn transfers_have_every_record_once(zones in zones(), case in any::<u64>(), is_long in any::<bool>()) {
        for sample in &zones {
            let text = if is_long { sample.long_text() } else { sample.text() };
            let zone = ZoneState::Loaded(subject::zone(&sample.apex, &text));
            let access = Acl(vec![AclEntry::of_addresses(AddressPrefix::single(subject::PEER))]);
            let served = subject::serve([zone], AnswerConfig::default(), access);
            let question = with_case(&sample.apex, case);
            let messages = subject::transfer(&served, &Message::query(question, Rtype::AXFR).to_wire());
            let messages = messages.iter().map(|bytes| Message::parse(bytes).expect("a well-formed message"));
            let mut got: Vec<Record> = messages.flat_map(|message| message.answer).collect();
            let last = got.pop().expect("a transfer has records");
            let (got, records) = (sorted(got), sorted(spelled(sample)));
            prop_assert_eq!(line(&last), line(&sample.records[0]));
            let lost: Vec<_> = records.iter().filter(|line| !got.contains(line)).collect();
            let surplus: Vec<_> = got.iter().filter(|line| !records.contains(line)).collect();
            prop_assert!(got == records, "lost {lost:#?}, surplus {surplus:#?} in {sample:?}");
        }
    }
}

/// The records with their owners in one case.
fn spelled(sample: &Sample) -> Vec<Record> {
    let (zone, mut records) = (sample.plain(), sample.records.clone());
    for record in &mut records {
        let is_hashed = record.rtype == Rtype::NSEC3 || record.rtype == Rtype::RRSIG && record.rdata[..2] == [0, 50];
        record.owner = zone.spelling(&record.owner, is_hashed).expect("it is an owner");
    }
    records
}

/// The records, sorted.
fn sorted(records: Vec<Record>) -> Vec<String> {
    let mut lines: Vec<String> = records.iter().map(line).collect();
    lines.sort();
    lines
}

fn expected(zones: &[Zone], query: &Message) -> Expected {
    let asked = query.questions[0].clone();
    let dnssec_ok = query.edns.as_ref().is_some_and(|edns| edns.dnssec_ok);
    oracle::answer(zones, &Question { name: asked.name, qtype: asked.qtype, class: asked.qclass, dnssec_ok })
}

fn failure(zones: &[Sample], query: &Message, got: &Message, expected: &Expected, faults: &[String]) -> String {
    let mut wanted = query.clone();
    wanted.rcode = expected.rcode;
    wanted.flags.authoritative = expected.authoritative;
    wanted.answer = expected.answer.required.clone();
    wanted.authority = expected.authority.required.clone();
    wanted.additional = expected.additional.required.clone();
    format!(
        "\n{zones:?}\n--- asked\n{}--- got\n{}--- expected\n{}--- faults\n{}\n",
        dig(query),
        dig(got),
        dig(&wanted),
        faults.join("\n")
    )
}
