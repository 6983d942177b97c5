//! RFC 4343: names are compared without regard to case, and their case is preserved.

use answer::Transport::Udp;
use wire::message::{Message, Record};

use crate::server::{Server, query};
use crate::subject::TCP;
use crate::text::line;

const ZONE: &str = "
    Example. 60 IN SOA ns.Example. Host.Example. 1 2 3 4 5
    Example. 60 NS Ns.Example.
    Ns.Example. 60 A 192.0.2.1
    WWW.Example. 60 A 192.0.2.2
    wwW.Example. 60 A 192.0.2.3
    plain.Example. 60 MX 10 Mail.Example.
    Alias.Example. 60 CNAME WWW.Example.
    *.Wild.Example. 60 A 192.0.2.4
    Old.Example. 60 DNAME WWW.Example.
    Cut.Example. 60 NS Ns.Cut.Example.
    Ns.Cut.Example. 60 A 192.0.2.5
    ";

/// The same below an apex in lower case.
fn with_lower_case_apex() -> Server {
    Server::new(&[("example.", &ZONE.replace("Example.", "example."))])
}

fn owners(records: &[Record]) -> Vec<String> {
    records.iter().map(|record| record.owner.to_string()).collect()
}

fn sections(message: &Message) -> [Vec<String>; 3] {
    [&message.answer, &message.authority, &message.additional].map(|section| owners(section))
}

#[test]
fn rfc_4343_4_1_owners_are_in_the_case_of_the_zone() {
    let server = Server::new(&[("example.", ZONE)]);
    for (question, [answer, authority, additional]) in [
        ("www.example. A", [&["WWW.Example.", "WWW.Example."][..], &[], &[]]),
        ("WWW.EXAMPLE. A", [&["WWW.Example.", "WWW.Example."], &[], &[]]),
        ("plain.example. MX", [&["plain.Example."], &[], &[]]),
        ("alias.example. A", [&["Alias.Example.", "WWW.Example.", "WWW.Example."], &[], &[]]),
        ("example. NS", [&["Example."], &[], &["Ns.Example."]]),
        ("www.example. AAAA", [&[], &["Example."], &[]]),
        ("no.example. A", [&[], &["Example."], &[]]),
        ("a.cut.example. A", [&[], &["Cut.Example."], &["Ns.Cut.Example."]]),
    ] {
        let expected = [answer, authority, additional].map(|owners| owners.to_vec());
        assert_eq!(sections(&server.ask(&query(question), Udp)), expected, "{question}");
    }
}

#[test]
fn rfc_4343_4_1_names_in_rdata_are_in_the_case_of_the_zone() {
    let server = Server::new(&[("example.", ZONE)]);
    for (question, expected) in [
        ("plain.example. MX", "plain.Example. 60 MX 10 Mail.Example."),
        ("example. SOA", "Example. 60 SOA ns.Example. Host.Example. 1 2 3 4 5"),
    ] {
        assert_eq!(line(&server.ask(&query(question), Udp).answer[0]), expected);
    }
}

#[test]
fn rfc_4343_4_1_a_name_in_lower_case_may_be_compressed_to_that_of_the_question() {
    let server = with_lower_case_apex();
    for (question, owner) in [("PLAIN.example. MX", "PLAIN.example."), ("www.eXample. A", "WWW.eXample.")] {
        assert_eq!(owners(&server.ask(&query(question), Udp).answer)[0], owner);
    }
}

#[test]
fn rfc_4343_4_1_what_is_synthesized_is_in_the_case_of_the_question() {
    for server in [Server::new(&[("example.", ZONE)]), with_lower_case_apex()] {
        let wildcard = server.ask(&query("A.wiLd.example. A"), Udp);
        assert_eq!(owners(&wildcard.answer), ["A.wiLd.example."], "RFC 1034 4.3.2 step 3c");
        let dname = server.ask(&query("A.oLd.example. A"), Udp);
        assert_eq!(owners(&dname.answer)[1], "A.oLd.example.", "RFC 6672 3.2");
        assert!(owners(&dname.answer)[0].starts_with("Old."));
    }
}

#[test]
fn rfc_4343_4_1_owners_of_proofs_are_in_the_case_of_the_zone() {
    // RFC 5155 A: the hash of the apex; it covers all others.
    const HASH: &str = "0P9MHAVEQVM6T7VBL5LOP2U3T2RP3TOM";
    let nsec = "Example. 60 NSEC Ns.Example. NS\nNs.Example. 60 NSEC Example. A\n".to_string();
    let parameters = "12 aabbccdd";
    let nsec3 = format!(
        "Example. 60 NSEC3PARAM 1 0 {parameters}\n{HASH}.Example. 60 NSEC3 1 0 {parameters} {HASH} SOA\n{HASH}.Example. 60 RRSIG NSEC3 13 2 60 20300101000000 20200101000000 1 Example. AAAA\n"
    );
    for (proofs, expected) in [
        (nsec, ["Example.", "Ns.Example.", "Example."].map(str::to_string)),
        (nsec3, ["Example.".to_string(), format!("{HASH}.Example."), format!("{HASH}.Example.")]),
    ] {
        let zone = format!("{ZONE}{proofs}");
        let got = Server::new(&[("example.", &zone)]).ask(&query("nt.example. A +do"), TCP);
        assert_eq!(owners(&got.authority), expected);
    }
}

/// RFC 4343 4.2 leaves open which case a name gets that is entered twice: the first one, as in BIND.
#[test]
fn rfc_4343_4_2_the_first_of_several_ways_counts() {
    let zone = ZONE.replace("WWW.Example. 60 A", "www.Example. 60 AAAA 2001:db8::1\nWWW.Example. 60 A");
    let got = Server::new(&[("example.", &zone)]).ask(&query("WWW.example. A"), Udp);
    assert_eq!(owners(&got.answer), ["www.Example.", "www.Example."]);
}

#[test]
fn rfc_4343_4_1_records_of_one_owner_point_to_one_name() {
    let server = with_lower_case_apex();
    let octets = |question: &str| server.exchange(&query(question).to_wire(), Udp).expect("an answer");
    let answer = octets("www.example. A");
    let name = b"\x03WWW\xc0\x10";
    assert_eq!(answer.windows(name.len()).filter(|window| window == name).count(), 1);
    let question_len = query("www.example. A").to_wire().len();
    assert_eq!(
        answer.len(),
        question_len + 4 + 2 * 16,
        "two records, the first one with the label besides its pointer"
    );
}
