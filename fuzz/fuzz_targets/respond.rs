//! Random zones and random queries: `respond` says what the oracle says, and to any bytes at all nothing wrong.
//!
//! Two octets of length, so many octets of a raw query, and the rest makes zones and questions.
#![no_main]

use answer::Transport;
use libfuzzer_sys::fuzz_target;
use proptest::collection::vec;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use wire::Message;
use zonda_fuzz::compare::faults;
use zonda_fuzz::oracle::{Question, answer, zone::Zone};
use zonda_fuzz::random::{questions::questions, zones::Sample, zones::zones};
use zonda_fuzz::subject::{TCP, ask, load};
use zonda_fuzz::{ask_anything, text::dig};

fuzz_target!(|bytes: &[u8]| {
    let Some((len, rest)) = bytes.split_first_chunk() else { return };
    let (raw, seed) = rest.split_at(usize::from(u16::from_be_bytes(*len)).min(rest.len()));
    let mut runner = TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::PassThrough, seed));
    let Ok(sample) = (zones(), vec(questions(), 4)).new_tree(&mut runner) else { return };
    let (zones, questions) = sample.current();
    let texts: Vec<_> = zones.iter().map(|zone| (zone.apex.clone(), zone.text())).collect();
    let served = load(&texts);
    for transport in [Transport::Udp, TCP] {
        ask_anything(&served, raw, transport);
    }
    let plain: Vec<Zone> = zones.iter().map(Sample::plain).collect();
    for query in questions.iter().map(|draft| draft.query(&zones)) {
        ask_anything(&served, &query.to_wire(), Transport::Udp);
        let bytes = ask(&served, &query.to_wire(), TCP).expect("an answer");
        let got = Message::parse(&bytes).expect("a well-formed answer");
        let asked = query.questions[0].clone();
        let dnssec_ok = query.edns.as_ref().is_some_and(|edns| edns.dnssec_ok);
        let question = Question { name: asked.name, qtype: asked.qtype, class: asked.qclass, dnssec_ok };
        let faults = faults(&query, &got, &answer(&plain, &question));
        assert!(faults.is_empty(), "{zones:?}\n{}\n{}\n{faults:#?}", dig(&query), dig(&got));
    }
});
