//! RFC 8906 8: conformance tests of servers. RFC 9619, RFC 3425 and others: unusual messages.

use answer::Transport::Udp;
use wire::message::{Edns, EdnsOption, Flags, Message, Opcode, Rcode};
use wire::{Class, Rtype};

use crate::server::{Server, query};

const ZONE: &str = "
    example. 60 IN SOA ns. host. 1 2 3 4 5
    example. 60 NS ns.
    example. 60 A 192.0.2.1
    ";

fn server() -> Server {
    Server::new(&[("example.", ZONE)])
}

/// The answer to these octets.
fn answer(bytes: &[u8]) -> Option<Message> {
    server().exchange(bytes, Udp).map(|answer| Message::parse(&answer).expect("a well-formed answer"))
}

#[test]
fn rfc_8906_8_1_1_the_soa_of_a_served_zone() {
    let got = server().ask(&query("example. SOA"), Udp);
    assert_eq!((got.rcode, got.answer.len(), got.flags.authoritative), (Rcode::NOERROR, 1, true));
}

#[test]
fn rfc_8906_8_1_2_unknown_types_have_no_data() {
    for qtype in [Rtype(1000), Rtype(65_534)] {
        let got = server().ask(&Message::query("example.".parse().expect("a name"), qtype), Udp);
        assert_eq!((got.rcode, got.answer.len(), got.authority.len()), (Rcode::NOERROR, 0, 1), "{qtype}");
    }
}

#[test]
fn rfc_8906_8_1_3_flags_of_the_query() {
    let mut asked = query("example. A");
    let expected = Flags { response: true, authoritative: true, ..Flags::default() };
    asked.flags = Flags { authentic_data: true, reserved: true, ..Flags::default() };
    assert_eq!(server().ask(&asked, Udp).flags, expected, "8.1.3.2, 8.1.3.3: AD and Z stay clear");
    asked.flags = Flags { recursion_desired: true, ..Flags::default() };
    let repeated = Flags { recursion_desired: true, ..expected };
    assert_eq!(server().ask(&asked, Udp).flags, repeated, "8.1.3.4: RD is repeated, RA stays clear");
    asked.flags = Flags { checking_disabled: true, ..Flags::default() };
    assert_eq!(server().ask(&asked, Udp).flags, expected, "8.1.3.1, RFC 4035 3.1.6: CD is cleared");
    asked.flags = Flags { authoritative: true, truncated: true, recursion_available: true, ..Flags::default() };
    assert_eq!(server().ask(&asked, Udp).flags, expected, "what means nothing in a query means nothing");
}

#[test]
fn rfc_8906_8_1_4_unknown_opcodes_are_notimp_with_flags_clear() {
    for opcode in [1, 2, 3, 6, 15] {
        let mut asked = query("example. A");
        asked.opcode = Opcode(opcode);
        asked.flags.recursion_desired = true;
        let got = server().ask(&asked, Udp);
        assert_eq!((got.rcode, got.opcode), (Rcode::NOTIMP, Opcode(opcode)));
        let flags = Flags { recursion_desired: got.flags.recursion_desired, ..got.flags };
        assert_eq!(flags, Flags { response: true, recursion_desired: got.flags.recursion_desired, ..Flags::default() });
        // The test of 8.1.4 sends a header and nothing else, with all flags.
        let header = [0x12, 0x34, opcode << 3 | 0x07, 0xf0, 0, 0, 0, 0, 0, 0, 0, 0];
        let got = answer(&header).expect("an answer");
        assert_eq!((got.rcode, got.flags), (Rcode::NOTIMP, Flags { response: true, ..Flags::default() }), "{opcode}");
    }
}

#[test]
fn rfc_6891_6_1_1_unknown_opcodes_with_opt_are_notimp_with_opt() {
    for opcode in [1, 2, 3, 6, 15] {
        let edns = Edns { dnssec_ok: true, ..Edns::default() };
        let mut asked = query("example. A").with_edns(edns.clone());
        asked.opcode = Opcode(opcode);
        let got = server().ask(&asked, Udp);
        assert_eq!((got.rcode, got.opcode, got.questions.len()), (Rcode::NOTIMP, Opcode(opcode), 0));
        assert_eq!(got.edns.as_ref(), Some(&edns), "{opcode}");
        // What cannot be read is no FORMERR: the opcode may have other sections.
        let bytes = asked.to_wire();
        for (malformed, opt) in [([&bytes[..], &[0]].concat(), Some(&edns)), (bytes[..20].to_vec(), None)] {
            let got = answer(&malformed).expect("an answer");
            assert_eq!((got.rcode, got.edns.as_ref()), (Rcode::NOTIMP, opt), "{opcode}");
        }
    }
}

#[test]
fn rfc_8906_8_2_5_to_9_badvers_whatever_else_is_in_opt() {
    let options = vec![EdnsOption { code: 100, data: vec![] }];
    for dnssec_ok in [false, true] {
        let edns = Edns { version: 1, reserved: 1, dnssec_ok, options: options.clone(), ..Edns::default() };
        let got = server().ask(&query("example. SOA").with_edns(edns), Udp);
        assert_eq!((got.rcode, got.answer.len()), (Rcode::BADVERS, 0));
        let edns = got.edns.expect("OPT");
        assert_eq!((edns.version, edns.reserved, edns.options), (0, 0, vec![]));
    }
}

#[test]
fn rfc_9619_4_a_query_has_one_question() {
    let one = query("example. A").questions.remove(0);
    for questions in [vec![], vec![one.clone(), one.clone()], vec![one; 3]] {
        let got = answer(&Message { questions, ..Message::default() }.to_wire()).expect("an answer");
        assert_eq!((got.rcode, got.answer.len()), (Rcode::FORMERR, 0));
    }
}

#[test]
fn answers_and_less_than_a_header_get_nothing() {
    let mut response = query("example. A");
    response.flags.response = true;
    assert_eq!(answer(&response.to_wire()), None, "RFC 8906 3: two servers would talk for ever");
    let bytes = query("example. A").to_wire();
    for len in 0..12 {
        assert_eq!(answer(&bytes[..len]), None, "{len} octets have no whole header");
    }
}

#[test]
fn rfc_1035_4_1_1_malformed_queries_are_formerr() {
    let good = query("example. A").to_wire();
    let with_question = |question: &[u8]| [&good[..12], question].concat();
    let long_name = [[&[63][..], &[b'x'; 63]].concat().repeat(4), vec![0, 0, 1, 0, 1]].concat();
    let mut record_missing = good.clone();
    record_missing[7] = 1;
    let cases = [
        ("cut off in the name", good[..15].to_vec()),
        ("cut off after the name", good[..good.len() - 4].to_vec()),
        ("cut off in the class", good[..good.len() - 1].to_vec()),
        ("an octet too many", [&good[..], &[0]].concat()),
        ("a pointer to itself", with_question(b"\xc0\x0c\x00\x01\x00\x01")),
        ("a pointer forwards", with_question(b"\xc0\x0e\x01a\x00\x00\x01\x00\x01")),
        ("label type 01", with_question(b"\x41a\x00\x00\x01\x00\x01")),
        ("label type 10", with_question(b"\x81a\x00\x00\x01\x00\x01")),
        ("a name of 257 octets", with_question(&long_name)),
        ("an answer is counted and not there", record_missing),
    ];
    for (what, bytes) in cases {
        let got = answer(&bytes).unwrap_or_else(|| panic!("{what}: no answer"));
        assert_eq!(got.rcode, Rcode::FORMERR, "{what}");
        assert_eq!(got.id.to_be_bytes(), bytes[..2], "{what}");
        assert_eq!((got.answer.len(), got.authority.len(), got.questions.len()), (0, 0, 0), "{what}");
    }
}

#[test]
fn rfc_1034_3_7_1_class_any_is_answered_without_authority() {
    let mut asked = query("example. A");
    asked.questions[0].qclass = Class::ANY;
    let got = server().ask(&asked, Udp);
    assert_eq!((got.rcode, got.answer.len(), got.flags.authoritative), (Rcode::NOERROR, 1, false));
}

#[test]
fn rfc_1034_4_3_2_other_classes_are_refused() {
    for class in [Class::CH, Class::HS, Class::NONE, Class(0), Class(7)] {
        let mut asked = query("example. A");
        asked.questions[0].qclass = class;
        let got = server().ask(&asked, Udp);
        assert_eq!((got.rcode, got.answer.len()), (Rcode::REFUSED, 0), "{class}");
    }
}

#[test]
fn rfc_4343_3_case_makes_no_difference_and_is_kept_in_the_question() {
    let got = server().ask(&query("eXaMpLe. A"), Udp);
    assert_eq!(got.answer.len(), 1);
    assert_eq!(got.questions[0].name.to_string(), "eXaMpLe.");
}
