//! Random zones and any query: responses are well-formed, and plain questions get the oracle's answer.
//!
//! Two octets choose the zones, the rest is the query.
#![no_main]

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use answer::{Served, Transport};
use libfuzzer_sys::fuzz_target;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use wire::message::{Message, Opcode, Rcode};
use wire::{Class, Rtype};
use zonda_fuzz::ask_anything;
use zonda_fuzz::compare::faults;
use zonda_fuzz::oracle::{Question, answer, zone::Zone};
use zonda_fuzz::random::zones::{Sample, zones};
use zonda_fuzz::subject::{TCP, load};
use zonda_fuzz::text::dig;

/// Random zones: as text, as served, and as the oracle's.
struct World {
    samples: Vec<Sample>,
    served: Arc<Served>,
    plain: Vec<Zone>,
}

impl World {
    fn make(seed: u16) -> World {
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed.to_be_bytes(); 16].concat());
        let mut runner = TestRunner::new_with_rng(Config::default(), rng);
        let samples = zones().new_tree(&mut runner).expect("the strategy rejects nothing").current();
        let texts: Vec<_> = samples.iter().map(|zone| (zone.apex.clone(), zone.text())).collect();
        let plain = samples.iter().map(Sample::plain).collect();
        World { samples, served: load(&texts), plain }
    }

    /// The zones of this seed, cached: generating them is slow.
    fn of(seed: u16) -> Rc<World> {
        const KEPT: usize = 1000;
        thread_local!(static WORLDS: RefCell<HashMap<u16, Rc<World>>> = RefCell::default());
        WORLDS.with_borrow_mut(|worlds| {
            if worlds.len() > KEPT {
                worlds.clear();
            }
            worlds.entry(seed).or_insert_with(|| Rc::new(World::make(seed))).clone()
        })
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((seed, query)) = bytes.split_first_chunk() else { return };
    let world = World::of(u16::from_be_bytes(*seed));
    ask_anything(&world.served, query, Transport::Udp);
    let Some(got) = ask_anything(&world.served, query, TCP) else { return };
    if let Some((query, question)) = plain_question(query)
        && got.rcode != Rcode::FORMERR
    {
        let faults = faults(&query, &got, &answer(&world.plain, &question));
        assert!(faults.is_empty(), "{:?}\n{}\n{}\n{faults:#?}", world.samples, dig(&query), dig(&got));
    }
});

/// The question, if it is one about what is in the zones.
fn plain_question(bytes: &[u8]) -> Option<(Message, Question)> {
    let query = Message::parse(bytes).ok()?;
    let [asked] = query.questions.as_slice() else { return None };
    let is_plain = query.opcode == Opcode::QUERY
        && !query.flags.response
        && query.answer.is_empty()
        && query.authority.is_empty()
        && query.additional.is_empty()
        && query.edns.as_ref().is_none_or(|edns| edns.version == 0)
        && asked.qclass != Class::CH
        && !(128..=255).contains(&asked.qtype.0)
        && ![Rtype(0), Rtype::OPT].contains(&asked.qtype);
    let dnssec_ok = query.edns.as_ref().is_some_and(|edns| edns.dnssec_ok);
    let question = Question { name: asked.name.clone(), qtype: asked.qtype, class: asked.qclass, dnssec_ok };
    is_plain.then_some((query, question))
}
