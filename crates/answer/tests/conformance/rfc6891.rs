//! RFC 6891: EDNS. RFC 3225: DO.

use answer::Transport::Udp;
use wire::message::{Edns, EdnsOption, Message, Rcode};

use crate::server::{Server, query};

const ZONE: &str = "
    example. 60 IN SOA ns. host. 1 2 3 4 5
    example. 60 NS ns.
    example. 60 A 192.0.2.1
    ";

fn server() -> Server {
    Server::new(&[("example.", ZONE)])
}

fn ask(edns: Edns) -> Message {
    server().ask(&query("example. A").with_edns(edns), Udp)
}

/// A query with these octets as its OPT record.
fn with_opt(opt: &[u8]) -> Vec<u8> {
    let mut bytes = query("example. A").to_wire();
    bytes[11] = 1;
    [&bytes, opt].concat()
}

#[test]
fn rfc_6891_7_opt_answers_opt_only() {
    assert_eq!(server().ask(&query("example. A"), Udp).edns, None);
    assert_eq!(ask(Edns::default()).edns, Some(Edns::default()), "the server takes datagrams of 1232 octets");
}

#[test]
fn rfc_6891_6_1_3_an_unknown_version_is_badvers() {
    for version in [1, 255] {
        let got = ask(Edns { version, ..Edns::default() });
        assert_eq!(got.rcode, Rcode::BADVERS);
        assert_eq!(got.edns.expect("RFC 6891 6.1.3: OPT has the version").version, 0);
        assert_eq!(got.answer, []);
    }
    let cookie = EdnsOption { code: 10, data: vec![7; 3] };
    let got = ask(Edns { version: 1, options: vec![cookie], ..Edns::default() });
    assert_eq!(got.rcode, Rcode::BADVERS, "its options may have another form");
}

#[test]
fn rfc_6891_6_1_2_unknown_options_are_ignored() {
    let unknown = |code, len| EdnsOption { code, data: vec![7; len] };
    let options = vec![unknown(100, 0), unknown(65_001, 4), unknown(0, 1), unknown(4, 40)];
    let got = ask(Edns { options, ..Edns::default() });
    assert_eq!((got.rcode, got.answer.len()), (Rcode::NOERROR, 1));
    assert_eq!(got.edns.expect("OPT answers OPT").options, []);
}

#[test]
fn rfc_6891_6_1_4_unknown_flags_are_ignored_and_not_repeated() {
    let got = ask(Edns { reserved: 0x7fff, ..Edns::default() });
    assert_eq!(got.answer.len(), 1);
    assert_eq!(got.edns.expect("OPT answers OPT").reserved, 0);
}

#[test]
fn rfc_3225_3_do_is_repeated() {
    for dnssec_ok in [false, true] {
        let got = ask(Edns { dnssec_ok, ..Edns::default() });
        assert_eq!(got.edns.expect("OPT answers OPT").dnssec_ok, dnssec_ok);
    }
}

#[test]
fn rfc_6891_6_1_1_two_opt_records_or_another_owner_are_formerr() {
    let opt = b"\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x00";
    let mut twice = with_opt(&opt.repeat(2));
    twice[11] = 2;
    for bytes in [twice, with_opt(&[b"\x01a", &opt[..]].concat())] {
        let got = Message::parse(&server().exchange(&bytes, Udp).expect("an answer")).expect("a message");
        assert_eq!(got.rcode, Rcode::FORMERR);
        assert_eq!((got.answer.len(), got.authority.len()), (0, 0));
    }
}

#[test]
fn rfc_6891_6_1_2_options_that_do_not_fill_the_rdata_are_malformed() {
    for rdata in [b"\x00".as_slice(), b"\x00\x03\x00\x01", b"\x00\x03\x00\x00\x00"] {
        let fixed = b"\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00";
        let bytes = with_opt(&[fixed, &[rdata.len() as u8][..], rdata].concat());
        let got = Message::parse(&server().exchange(&bytes, Udp).expect("an answer")).expect("a message");
        assert_eq!(got.rcode, Rcode::FORMERR, "{rdata:?}");
    }
}

/// RFC 6891 6.1.1, 7: a response without OPT would say that the server does not know EDNS.
#[test]
fn rfc_6891_6_1_1_opt_answers_opt_in_malformed_messages() {
    let opt = b"\x00\x00\x29\x04\xd0\x00\x00\x80\x00\x00\x00";
    let bad_option = b"\x00\x00\x29\x04\xd0\x00\x00\x80\x00\x00\x03\x00\x03\x00";
    let with_opcode = |opcode: u8| {
        let mut bytes = with_opt(bad_option);
        let qtype = bytes.len() - bad_option.len() - 4;
        (bytes[2], bytes[qtype + 1]) = (opcode << 3, 6);
        bytes
    };
    for (about, bytes) in [
        ("a malformed option", with_opt(bad_option)),
        ("in NOTIFY", with_opcode(4)),
        ("in UPDATE", with_opcode(5)),
        ("an octet after OPT", with_opt(&[&opt[..], &[0]].concat())),
    ] {
        let got = Message::parse(&server().exchange(&bytes, Udp).expect("an answer")).expect("a message");
        let expected = Edns { dnssec_ok: true, ..Edns::default() };
        assert_eq!((got.rcode, got.edns), (Rcode::FORMERR, Some(expected)), "{about}");
    }
}

/// A zone whose answers for `big.example.` take some 900 octets.
fn big() -> Server {
    let texts = (0..9).map(|n| format!("big.example. 60 TXT \"{}{n}\"\n", "x".repeat(80)));
    Server::new(&[("example.", &(ZONE.to_string() + &texts.collect::<String>()))])
}

#[test]
fn rfc_6891_6_2_3_the_payload_of_the_client_is_the_limit() {
    for (payload, truncated) in [(0, true), (511, true), (512, true), (800, true), (1000, false), (65_535, false)] {
        let query = query("big.example. TXT").with_edns(Edns { payload, ..Edns::default() });
        let bytes = big().exchange(&query.to_wire(), Udp).expect("an answer");
        let got = Message::parse(&bytes).expect("a message");
        assert_eq!(got.flags.truncated, truncated, "{payload}");
        assert!(bytes.len() <= usize::from(payload.max(512)));
        assert!(got.edns.is_some(), "RFC 6891 7: also in truncated answers");
    }
    let plain = big().ask(&query("big.example. TXT"), Udp);
    assert!(plain.flags.truncated, "RFC 1035 4.2.1: 512 octets without EDNS");
}

#[test]
fn rfc_6891_6_2_5_the_server_keeps_its_own_limit() {
    let texts = (0..9).map(|n| format!("huge.example. 60 TXT \"{}{n}\"\n", "x".repeat(180)));
    let server = Server::new(&[("example.", &(ZONE.to_string() + &texts.collect::<String>()))]);
    let query = query("huge.example. TXT").with_edns(Edns { payload: 4096, ..Edns::default() });
    assert!(server.ask(&query, Udp).flags.truncated, "over 1232 octets");
}
