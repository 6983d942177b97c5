//! RFC 4592: wildcards.

use answer::Transport::Udp;

use crate::server::{Server, query};

/// The zone of RFC 4592 2.2.1, and a name below `host4` for section 3.3.1.
const EXAMPLE: &str = "
example. 3600 IN SOA ns.example.com. admin.example. 1 7200 900 604800 3600
example. 3600 NS ns.example.com.
example. 3600 NS ns.example.net.
*.example. 3600 TXT \"this is a wildcard\"
*.example. 3600 MX 10 host1.example.
sub.*.example. 3600 TXT \"this is not a wildcard\"
host1.example. 3600 A 192.0.2.1
_ssh._tcp.host1.example. 3600 SRV 0 0 22 host1.example.
_ssh._tcp.host2.example. 3600 SRV 0 0 22 host2.example.
subdel.example. 3600 NS ns.example.com.
subdel.example. 3600 NS ns.example.net.
";

const NO_DATA: &str = "
    NOERROR AA
    authority
    example. 3600 SOA ns.example.com. admin.example. 1 7200 900 604800 3600";

const NO_NAME: &str = "
    NXDOMAIN AA
    authority
    example. 3600 SOA ns.example.com. admin.example. 1 7200 900 604800 3600";

fn example(example: &str) {
    Server::new(&[("example.", EXAMPLE)]).example(example);
}

#[test]
fn rfc_4592_2_2_1_synthesized_for_a_name_that_does_not_exist() {
    example(
        "host3.example. MX
         NOERROR AA
         answer
         host3.example. 3600 MX 10 host1.example.",
    );
}

#[test]
fn rfc_4592_2_2_1_a_wildcard_without_the_type() {
    example(&format!("host3.example. A {NO_DATA}"));
}

#[test]
fn rfc_4592_2_2_1_synthesized_several_labels_deep() {
    example(
        "foo.bar.example. TXT
         NOERROR AA
         answer
         foo.bar.example. 3600 TXT \"this is a wildcard\"",
    );
}

#[test]
fn rfc_4592_2_2_1_not_for_a_name_that_exists() {
    example(&format!("host1.example. MX {NO_DATA}"));
    example(&format!("sub.*.example. MX {NO_DATA}"));
}

#[test]
fn rfc_4592_2_2_1_not_below_a_name_that_exists_without_data() {
    example(&format!("_telnet._tcp.host1.example. SRV {NO_NAME}"));
}

#[test]
fn rfc_4592_2_2_1_not_below_a_cut() {
    example(
        "host.subdel.example. A
         NOERROR
         authority
         subdel.example. 3600 NS ns.example.com.
         subdel.example. 3600 NS ns.example.net.",
    );
}

#[test]
fn rfc_4592_2_2_1_not_below_the_wildcard_itself() {
    example(&format!("ghost.*.example. MX {NO_NAME}"));
}

#[test]
fn rfc_4592_2_2_2_an_empty_non_terminal_exists() {
    example(&format!("host2.example. MX {NO_DATA}"));
    example(&format!("_tcp.host2.example. TXT {NO_DATA}"));
}

#[test]
fn rfc_4592_2_3_the_wildcard_asked_for_by_name() {
    example(
        "*.example. TXT
         NOERROR AA
         answer
         *.example. 3600 TXT \"this is a wildcard\"",
    );
}

#[test]
fn rfc_4592_4_1_a_zone_at_a_wildcard() {
    let zone = "
        *.example. 60 IN SOA ns. host. 1 2 3 4 5
        *.example. 60 NS ns.
        *.example. 60 A 192.0.2.7
        ";
    let server = Server::new(&[("*.example.", zone)]);
    server.example("*.example. A\n NOERROR AA\n answer\n *.example. 60 A 192.0.2.7");
    server.example("a.*.example. A\n NXDOMAIN AA\n authority\n *.example. 5 SOA ns. host. 1 2 3 4 5");
    server.example("a.example. A\n REFUSED");
}

/// Every name that matches the wildcard is delegated (docs/disputed-answers.md), with the proof of RFC 4035 3.1.4.
#[test]
fn rfc_4592_4_2_a_delegation_at_a_wildcard_is_proven() {
    let nsec = "
        example. 60 IN SOA ns. host. 1 2 3 4 5
        example. 60 NS ns.
        example. 60 NSEC *.cut.example. NS SOA RRSIG NSEC
        *.cut.example. 60 NS ns.example.
        *.cut.example. 60 NSEC ns.example. NS RRSIG NSEC
        ns.example. 60 A 192.0.2.1
        ns.example. 60 NSEC *.signed.example. A RRSIG NSEC
        *.signed.example. 60 NS ns.example.
        *.signed.example. 60 DS 1 13 2 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff
        *.signed.example. 60 RRSIG DS 13 2 60 20300101000000 20200101000000 1 example. AAAA
        *.signed.example. 60 NSEC example. NS DS RRSIG NSEC
        ";
    let server = Server::new(&[("example.", nsec)]);
    for (question, expected) in [
        ("a.cut.example. A +do", &["a.cut.example. NS", "*.cut.example. NSEC"][..]),
        ("b.a.cut.example. NS", &["b.a.cut.example. NS"]),
        (
            "a.signed.example. A +do",
            &["a.signed.example. NS", "a.signed.example. DS", "a.signed.example. RRSIG", "*.signed.example. NSEC"],
        ),
    ] {
        let got = server.ask(&query(question), Udp);
        let authority: Vec<_> = got.authority.iter().map(|it| format!("{} {}", it.owner, it.rtype)).collect();
        assert_eq!(authority, expected, "{question}");
        assert_eq!((got.flags.authoritative, got.answer.len(), got.additional.len()), (false, 0, 1), "{question}");
    }
}

const ALIASES: &str = "
    example. 60 IN SOA ns. host. 1 2 3 4 5
    example. 60 NS ns.
    *.example. 60 CNAME real.example.
    real.example. 60 A 192.0.2.8
    *.loop.example. 60 CNAME x.loop.example.
    a.*.ent.example. 60 A 192.0.2.9
    ";

#[test]
fn rfc_4592_4_3_a_wildcard_alias_is_followed() {
    Server::new(&[("example.", ALIASES)]).example(
        "any.example. A
         NOERROR AA
         answer
         any.example. 60 CNAME real.example.
         real.example. 60 A 192.0.2.8",
    );
}

#[test]
fn rfc_4592_4_3_a_wildcard_alias_to_itself() {
    Server::new(&[("example.", ALIASES)]).example(
        "a.loop.example. A
         NOERROR AA
         answer
         a.loop.example. 60 CNAME x.loop.example.
         x.loop.example. 60 CNAME x.loop.example.",
    );
}

#[test]
fn rfc_4592_4_9_an_empty_non_terminal_wildcard() {
    Server::new(&[("example.", ALIASES)]).example(
        "foo.ent.example. A
         NOERROR AA
         authority
         example. 5 SOA ns. host. 1 2 3 4 5",
    );
}
