//! RFC 5936: AXFR.

use answer::Transport::Udp;
use wire::message::{Edns, EdnsOption, Message, Rcode, Record};
use wire::{Class, Name, Rtype};

use crate::server::{Server, query};
use crate::subject::TCP;
use crate::text::line;

const ZONE: &str = "
    example. 60 IN SOA ns.Example. host. 1 2 3 4 5
    example. 60 NS ns.Example.
    example. 60 TXT \"Upper and lower\"
    a.b.example. 60 MX 10 mail.elsewhere.
    a.b.example. 60 MX 20 example.
    cut.example. 60 NS ns.cut.example.
    ns.cut.example. 60 A 192.0.2.1
    *.example. 60 CNAME example.
    x.cut.example. 60 TXT \"hidden\"
    d.example. 60 DNAME elsewhere.
    x.d.example. 60 NS ns.x.d.example.
    ns.x.d.example. 60 A 192.0.2.2
    ";

fn records(messages: &[Message]) -> Vec<String> {
    messages.iter().flat_map(|message| &message.answer).map(|record| line(record).to_lowercase()).collect()
}

/// The lines of the zone, in the form of `records`.
fn zone_lines() -> Vec<String> {
    ZONE.lines().map(|line| line.trim().replace(" IN", "").to_lowercase()).filter(|line| !line.is_empty()).collect()
}

#[test]
fn rfc_5936_2_2_the_soa_all_records_once_and_the_soa_again() {
    let messages = Server::with_transfer(&[("example.", ZONE)]).transfer(&query("example. AXFR"));
    let mut got = records(&messages);
    assert_eq!(got.first(), got.last(), "the SOA begins and ends it");
    assert!(got.first().is_some_and(|line| line.contains(" soa ")));
    got.pop();
    got.sort();
    let mut expected = zone_lines();
    expected.sort();
    assert_eq!(got, expected);
}

/// Owners and names in RDATA, whatever the case of the question, over several messages.
#[test]
fn rfc_5936_3_4_the_case_of_names_is_preserved() {
    let zone = "
        Example. 60 SOA ns.Example. Host.eXample. 1 2 3 4 5
        Example. 60 NS ns.Example.
        Example. 60 NS NS2.example.
        WWW.Example. 60 CNAME Www.Example.
        Www.b.Example. 60 MX 10 WWW.b.Example.
        Www.b.Example. 60 MX 20 Www.b.Example.
        *.W.Example. 60 PTR *.w.Example.
        ";
    let hosts: Vec<String> = (0..2000).map(|n| format!("Host{n}.Example. 60 NS nS.Host{n}.Example.")).collect();
    let mut expected: Vec<&str> = zone.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    expected.extend(hosts.iter().map(String::as_str));
    expected.sort_unstable();
    for (apex, question) in
        [("example.", "example. AXFR"), ("example.", "Example. AXFR"), ("EXAMPLE.", "eXAMPLE. AXFR")]
    {
        let server = Server::with_transfer(&[(apex, &expected.join("\n"))]);
        let messages = server.transfer(&query(question));
        assert!(messages.len() > 2);
        let mut got: Vec<String> = messages.iter().flat_map(|message| &message.answer).map(line).collect();
        assert_eq!(got.pop().as_ref(), got.first());
        got.sort_unstable();
        assert_eq!(got, expected, "{question}");
    }
}

#[test]
fn rfc_5936_3_4_names_in_another_case_are_compressed_as_well() {
    let hosts: String = (0..500).map(|n| format!("Host{n}.Example. 60 NS nS.Host{n}.Example.\n")).collect();
    let server = Server::with_transfer(&[("example.", &(ZONE.replace("example.", "Example.") + &hosts))]);
    let len = |question: &str| -> usize {
        let messages = server.transfer_octets(&query(question));
        messages.iter().map(Vec::len).sum()
    };
    let messages = server.transfer(&query("Example. AXFR")).len();
    let apex_len = "Example.".len() + 1;
    assert!(len("example. AXFR") <= len("Example. AXFR") + messages * apex_len, "the apex once a message");
}

#[test]
fn rfc_5936_2_2_1_headers_and_questions() {
    let mut asked = query("EXAMPLE. AXFR");
    asked.id = 0x1234;
    let messages = Server::with_transfer(&[("example.", ZONE)]).transfer(&asked);
    assert_eq!(messages[0].questions, asked.questions);
    for message in &messages {
        assert_eq!((message.id, message.rcode), (0x1234, Rcode::NOERROR));
        assert!(message.flags.response && message.flags.authoritative && !message.flags.truncated);
        assert_eq!((message.authority.len(), message.additional.len()), (0, 0), "RFC 5936 2.2.4, 2.2.5");
    }
}

#[test]
fn rfc_5936_2_2_5_opt_answers_opt_in_the_first_message() {
    let hosts: String = (0..3000).map(|n| format!("h{n}.example. 60 A 192.0.2.1\n")).collect();
    let server = Server::with_transfer(&[("example.", &(ZONE.to_string() + &hosts))]);
    let options = vec![EdnsOption { code: 9, data: vec![] }];
    let asked = query("example. AXFR").with_edns(Edns { options, dnssec_ok: true, ..Edns::default() });
    let edns = |message: &Message| message.edns.clone();
    let got: Vec<_> = server.transfer(&asked).iter().map(edns).collect();
    let expire = vec![EdnsOption { code: 9, data: vec![0, 0, 0, 4] }];
    assert_eq!(got[0], Some(Edns { options: expire, dnssec_ok: true, ..Edns::default() }), "RFC 7314 3");
    assert!(got.len() > 1 && got[1..].iter().all(Option::is_none));
    assert!(server.transfer(&query("example. AXFR")).iter().all(|message| message.edns.is_none()));
}

#[test]
fn rfc_6891_6_1_3_an_unknown_version_is_badvers_for_a_transfer_too() {
    let asked = query("example. AXFR").with_edns(Edns { version: 1, ..Edns::default() });
    let got = Server::with_transfer(&[("example.", ZONE)]).ask(&asked, TCP);
    assert_eq!((got.rcode, got.answer.len()), (Rcode::BADVERS, 0));
}

#[test]
fn rfc_5936_2_2_a_large_zone_takes_several_messages() {
    let hosts: String = (0..3000).map(|n| format!("h{n}.example. 60 TXT \"{}\"\n", "x".repeat(60))).collect();
    let messages =
        Server::with_transfer(&[("example.", &(ZONE.to_string() + &hosts))]).transfer(&query("example. AXFR"));
    assert!(messages.len() > 1);
    assert_eq!(records(&messages).len(), zone_lines().len() + 1 + 3000);
}

#[test]
fn rfc_5936_2_2_records_of_signed_zones_come_along() {
    let signed = "
        2t7b4g4vsa5smi47k61mv5bv1a22bojr.example. 60 NSEC3 1 0 0 - 2t7b4g4vsa5smi47k61mv5bv1a22bojr A
        2t7b4g4vsa5smi47k61mv5bv1a22bojr.example. 60 RRSIG NSEC3 13 2 60 20300101000000 20200101000000 1 example. AAAA
        ";
    let messages =
        Server::with_transfer(&[("example.", &(ZONE.to_string() + signed))]).transfer(&query("example. AXFR"));
    let count = |rtype| messages.iter().flat_map(|it| &it.answer).filter(|it| it.rtype == rtype).count();
    assert_eq!((count(Rtype::NSEC3), count(Rtype::RRSIG)), (1, 1));
}

#[test]
fn rfc_5936_5_a_client_that_is_not_allowed_is_refused() {
    let server = Server::new(&[("example.", ZONE)]);
    assert_eq!(server.ask(&query("example. AXFR"), TCP).rcode, Rcode::REFUSED);
}

#[test]
fn rfc_5936_2_2_1_a_name_that_is_no_apex_is_notauth() {
    let server = Server::with_transfer(&[("example.", ZONE)]);
    for name in ["a.b.example.", "elsewhere."] {
        let got = server.ask(&Message::query(name.parse::<Name>().expect("a name"), Rtype::AXFR), TCP);
        assert_eq!((got.rcode, got.answer.len()), (Rcode::NOTAUTH, 0), "{name}");
    }
}

/// RFC 1995 3: the query has the SOA record of the client in its authority section.
fn ixfr(serial: u32) -> Message {
    let rdata = [b"\x02ns\x00\x04host\x00".as_slice(), &serial.to_be_bytes(), &[0; 16]].concat();
    let owner: Name = "example.".parse().expect("a name");
    let soa = Record { owner, rtype: Rtype::SOA, class: Class::IN, ttl: 60, rdata };
    Message { authority: vec![soa], ..query("example. IXFR") }
}

#[test]
fn rfc_1995_2_ixfr_over_udp_gets_the_soa_alone() {
    let got = Server::with_transfer(&[("example.", ZONE)]).ask(&ixfr(0), Udp);
    assert_eq!((got.rcode, got.answer.len()), (Rcode::NOERROR, 1), "the client will come over TCP");
    assert_eq!(got.answer[0].rtype, Rtype::SOA);
}

#[test]
fn rfc_1995_2_ixfr_over_tcp_from_a_current_client_gets_the_soa_alone() {
    let server = Server::with_transfer(&[("example.", ZONE)]);
    for serial in [1, 2, 1 << 31] {
        let got = server.ask(&ixfr(serial), TCP);
        assert_eq!((got.rcode, got.answer.len()), (Rcode::NOERROR, 1), "{serial}");
        assert_eq!((got.answer[0].rtype, got.flags.authoritative), (Rtype::SOA, true), "{serial}");
    }
}

#[test]
fn rfc_1995_4_ixfr_may_be_answered_with_the_whole_zone() {
    let messages = Server::with_transfer(&[("example.", ZONE)]).transfer(&ixfr(0));
    assert_eq!(records(&messages).len(), zone_lines().len() + 1);
}

#[test]
fn rfc_1995_a_client_that_is_not_allowed_is_refused_over_tcp() {
    let got = Server::new(&[("example.", ZONE)]).ask(&ixfr(0), TCP);
    assert_eq!((got.rcode, got.answer.len()), (Rcode::REFUSED, 0), "one SOA would say that nothing is new");
}

#[test]
fn rfc_1995_3_an_ixfr_query_has_the_soa_of_the_client_and_no_other_query_has() {
    let server = Server::with_transfer(&[("example.", ZONE)]);
    assert_eq!(server.ask(&query("example. IXFR"), Udp).rcode, Rcode::FORMERR);
    let stray = Message { authority: ixfr(0).authority, ..query("example. SOA") };
    assert_eq!(server.ask(&stray, Udp).rcode, Rcode::FORMERR);
}

#[test]
fn rfc_5936_4_2_there_is_no_axfr_over_udp() {
    let got = Server::with_transfer(&[("example.", ZONE)]).ask(&query("example. AXFR"), Udp);
    assert_ne!(got.rcode, Rcode::NOERROR);
    assert_eq!(got.answer, []);
}
