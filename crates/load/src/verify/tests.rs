//! Expectations, and messages for the tests of the checkers.

use super::*;
use wire::Message;
use wire::message::{Edns, Flags, Record};
use wire::{Class, Name};

pub fn record(owner: &str, rtype: Rtype, ttl: u32) -> Record {
    let rdata = match rtype {
        Rtype::A => vec![192, 0, 2, 1],
        Rtype::NS => b"\x02ns\x00".to_vec(),
        _ => [&b"\x00\x00"[..], &[0; 20]].concat(),
    };
    Record { owner: owner.parse::<Name>().expect("a literal"), rtype, class: Class::IN, ttl, rdata }
}

pub fn message(aa: bool, rcode: Rcode, answer: Vec<Record>, authority: Vec<Record>) -> Message {
    let flags = Flags { response: true, authoritative: aa, ..Flags::default() };
    Message { flags, rcode, answer, authority, edns: Some(Edns::default()), ..Message::default() }
}

#[test]
fn kinds_of_responses_are_distinguished() {
    let (a, ns, soa) =
        (record("a.example", Rtype::A, 60), record("example", Rtype::NS, 60), record("example", Rtype::SOA, 60));
    let denial = vec![record("a.example", Rtype::A, 1), soa.clone()];
    for (text, message) in [
        ("NOERROR answer", message(true, Rcode::NOERROR, vec![a.clone()], vec![ns.clone()])),
        ("NOERROR referral", message(false, Rcode::NOERROR, vec![], vec![ns.clone()])),
        ("NOERROR nodata", message(true, Rcode::NOERROR, vec![], denial.clone())),
        ("NXDOMAIN nxdomain", message(true, Rcode::NXDOMAIN, vec![], denial)),
        ("NXDOMAIN other", message(false, Rcode::NXDOMAIN, vec![], vec![soa])),
        ("NOERROR other", message(true, Rcode::NOERROR, vec![], vec![ns])),
        ("REFUSED other", message(false, Rcode::REFUSED, vec![], vec![])),
    ] {
        let expectation = Expectation::of(&message.to_wire());
        assert_eq!(expectation.to_string(), text);
        assert_eq!(Expectation::from_text(text), Some(expectation));
    }
    assert_eq!(Expectation::from_text("NOERROR maybe"), None);
}

#[test]
fn responses_repeat_the_question_in_any_case() {
    let question = b"\x03www\x07example\x00\x00\x01\x00\x01";
    let response =
        |count: u8, rcode: u8, question: &[u8]| [&[0, 0, 0x80, rcode, 0, count, 0, 0, 0, 0, 0, 0], question].concat();
    assert!(matches_question(question, &response(1, 0, question)));
    assert!(matches_question(question, &response(1, 0, b"\x03wWw\x07EXAMPLE\x00\x00\x01\x00\x01")));
    assert!(!matches_question(question, &response(1, 0, b"\x03www\x07example\x00\x00\x1c\x00\x01")));
    assert!(!matches_question(question, &response(1, 0, &question[..9])));
    assert!(matches_question(question, &response(0, 1, b"")), "FORMERR without a question");
    assert!(!matches_question(question, &response(0, 0, b"")));
}
