//! RFC 4035: signed zones with NSEC, on the zone of appendix A and the responses of appendix B.

use wire::Rtype;
use wire::message::Rcode;

use crate::server::{Server, query};

/// The zone of RFC 4035 appendix A; the bits of keys and signatures are not its own.
const EXAMPLE: &str = "
example. 3600 IN SOA ns1.example. bugs.x.w.example. 1081539377 3600 300 3600000 3600
example. 3600 RRSIG SOA 5 1 3600 20040509183619 20040409183619 38519 example. AAAA
example. 3600 NS ns1.example.
example. 3600 NS ns2.example.
example. 3600 RRSIG NS 5 1 3600 20040509183619 20040409183619 38519 example. AAAA
example. 3600 MX 1 xx.example.
example. 3600 RRSIG MX 5 1 3600 20040509183619 20040409183619 38519 example. AAAA
example. 3600 NSEC a.example. NS SOA MX RRSIG NSEC DNSKEY
example. 3600 RRSIG NSEC 5 1 3600 20040509183619 20040409183619 38519 example. AAAA
example. 3600 DNSKEY 256 3 5 AQOy
example. 3600 DNSKEY 257 3 5 AQOe
example. 3600 RRSIG DNSKEY 5 1 3600 20040509183619 20040409183619 9465 example. AAAA
example. 3600 RRSIG DNSKEY 5 1 3600 20040509183619 20040409183619 38519 example. AAAB
a.example. 3600 NS ns1.a.example.
a.example. 3600 NS ns2.a.example.
a.example. 3600 DS 57855 5 1 B6DCD485719ADCA18E5F3D48A2331627FDD3636B
a.example. 3600 RRSIG DS 5 2 3600 20040509183619 20040409183619 38519 example. AAAA
a.example. 3600 NSEC ai.example. NS DS RRSIG NSEC
a.example. 3600 RRSIG NSEC 5 2 3600 20040509183619 20040409183619 38519 example. AAAA
ns1.a.example. 3600 A 192.0.2.5
ns2.a.example. 3600 A 192.0.2.6
ai.example. 3600 A 192.0.2.9
ai.example. 3600 RRSIG A 5 2 3600 20040509183619 20040409183619 38519 example. AAAA
ai.example. 3600 HINFO \"KLH-10\" \"ITS\"
ai.example. 3600 RRSIG HINFO 5 2 3600 20040509183619 20040409183619 38519 example. AAAA
ai.example. 3600 AAAA 2001:db8::f00:baa9
ai.example. 3600 RRSIG AAAA 5 2 3600 20040509183619 20040409183619 38519 example. AAAA
ai.example. 3600 NSEC b.example. A HINFO AAAA RRSIG NSEC
ai.example. 3600 RRSIG NSEC 5 2 3600 20040509183619 20040409183619 38519 example. AAAA
b.example. 3600 NS ns1.b.example.
b.example. 3600 NS ns2.b.example.
b.example. 3600 NSEC ns1.example. NS RRSIG NSEC
b.example. 3600 RRSIG NSEC 5 2 3600 20040509183619 20040409183619 38519 example. AAAA
ns1.b.example. 3600 A 192.0.2.7
ns2.b.example. 3600 A 192.0.2.8
ns1.example. 3600 A 192.0.2.1
ns1.example. 3600 RRSIG A 5 2 3600 20040509183619 20040409183619 38519 example. AAAA
ns1.example. 3600 NSEC ns2.example. A RRSIG NSEC
ns1.example. 3600 RRSIG NSEC 5 2 3600 20040509183619 20040409183619 38519 example. AAAA
ns2.example. 3600 A 192.0.2.2
ns2.example. 3600 RRSIG A 5 2 3600 20040509183619 20040409183619 38519 example. AAAA
ns2.example. 3600 NSEC *.w.example. A RRSIG NSEC
ns2.example. 3600 RRSIG NSEC 5 2 3600 20040509183619 20040409183619 38519 example. AAAA
*.w.example. 3600 MX 1 ai.example.
*.w.example. 3600 RRSIG MX 5 2 3600 20040509183619 20040409183619 38519 example. AAAA
*.w.example. 3600 NSEC x.w.example. MX RRSIG NSEC
*.w.example. 3600 RRSIG NSEC 5 2 3600 20040509183619 20040409183619 38519 example. AAAA
x.w.example. 3600 MX 1 xx.example.
x.w.example. 3600 RRSIG MX 5 3 3600 20040509183619 20040409183619 38519 example. AAAA
x.w.example. 3600 NSEC x.y.w.example. MX RRSIG NSEC
x.w.example. 3600 RRSIG NSEC 5 3 3600 20040509183619 20040409183619 38519 example. AAAA
x.y.w.example. 3600 MX 1 xx.example.
x.y.w.example. 3600 RRSIG MX 5 4 3600 20040509183619 20040409183619 38519 example. AAAA
x.y.w.example. 3600 NSEC xx.example. MX RRSIG NSEC
x.y.w.example. 3600 RRSIG NSEC 5 4 3600 20040509183619 20040409183619 38519 example. AAAA
xx.example. 3600 A 192.0.2.10
xx.example. 3600 RRSIG A 5 2 3600 20040509183619 20040409183619 38519 example. AAAA
xx.example. 3600 HINFO \"KLH-10\" \"TOPS-20\"
xx.example. 3600 RRSIG HINFO 5 2 3600 20040509183619 20040409183619 38519 example. AAAA
xx.example. 3600 AAAA 2001:db8::f00:baaa
xx.example. 3600 RRSIG AAAA 5 2 3600 20040509183619 20040409183619 38519 example. AAAA
xx.example. 3600 NSEC example. A HINFO AAAA RRSIG NSEC
xx.example. 3600 RRSIG NSEC 5 2 3600 20040509183619 20040409183619 38519 example. AAAA
";

/// The SOA of all denials.
const SOA: &str = "
    example. 3600 SOA ns1.example. bugs.x.w.example. 1081539377 3600 300 3600000 3600
    example. 3600 RRSIG SOA";

fn example(example: &str) {
    Server::new(&[("example.", EXAMPLE)]).example(example);
}

#[test]
fn rfc_4035_b_1_answer() {
    example(
        "x.w.example. MX +do
         NOERROR AA
         answer
         x.w.example. 3600 MX 1 xx.example.
         x.w.example. 3600 RRSIG MX
         additional
         xx.example. 3600 A 192.0.2.10
         xx.example. 3600 RRSIG A
         xx.example. 3600 AAAA 2001:db8::f00:baaa
         xx.example. 3600 RRSIG AAAA",
    );
}

#[test]
fn rfc_4035_b_2_name_error() {
    example(&format!(
        "ml.example. A +do
         NXDOMAIN AA
         authority
         {SOA}
         b.example. 3600 NSEC ns1.example. NS RRSIG NSEC
         b.example. 3600 RRSIG NSEC
         example. 3600 NSEC a.example. NS SOA MX RRSIG NSEC DNSKEY
         example. 3600 RRSIG NSEC"
    ));
}

#[test]
fn rfc_4035_b_3_no_data_error() {
    example(&format!(
        "ns1.example. MX +do
         NOERROR AA
         authority
         {SOA}
         ns1.example. 3600 NSEC ns2.example. A RRSIG NSEC
         ns1.example. 3600 RRSIG NSEC"
    ));
}

#[test]
fn rfc_4035_3_1_3_1_no_data_at_an_empty_non_terminal() {
    example(&format!(
        "y.w.example. A +do
         NOERROR AA
         authority
         {SOA}
         x.w.example. 3600 NSEC x.y.w.example. MX RRSIG NSEC
         x.w.example. 3600 RRSIG NSEC"
    ));
}

#[test]
fn rfc_4035_b_4_referral_to_a_signed_zone() {
    example(
        "mc.a.example. MX +do
         NOERROR
         authority
         a.example. 3600 NS ns1.a.example.
         a.example. 3600 NS ns2.a.example.
         a.example. 3600 DS 57855 5 1 B6DCD485719ADCA18E5F3D48A2331627FDD3636B
         a.example. 3600 RRSIG DS
         additional
         ns1.a.example. 3600 A 192.0.2.5
         ns2.a.example. 3600 A 192.0.2.6",
    );
}

#[test]
fn rfc_4035_b_5_referral_to_an_unsigned_zone() {
    example(
        "mc.b.example. MX +do
         NOERROR
         authority
         b.example. 3600 NS ns1.b.example.
         b.example. 3600 NS ns2.b.example.
         b.example. 3600 NSEC ns1.example. NS RRSIG NSEC
         b.example. 3600 RRSIG NSEC
         additional
         ns1.b.example. 3600 A 192.0.2.7
         ns2.b.example. 3600 A 192.0.2.8",
    );
}

#[test]
fn rfc_4035_b_6_wildcard_expansion() {
    example(
        "a.z.w.example. MX +do
         NOERROR AA
         answer
         a.z.w.example. 3600 MX 1 ai.example.
         a.z.w.example. 3600 RRSIG MX
         authority
         x.y.w.example. 3600 NSEC xx.example. MX RRSIG NSEC
         x.y.w.example. 3600 RRSIG NSEC",
    );
}

#[test]
fn rfc_4035_b_7_wildcard_no_data_error() {
    example(&format!(
        "a.z.w.example. AAAA +do
         NOERROR AA
         authority
         {SOA}
         x.y.w.example. 3600 NSEC xx.example. MX RRSIG NSEC
         x.y.w.example. 3600 RRSIG NSEC
         *.w.example. 3600 NSEC x.w.example. MX RRSIG NSEC
         *.w.example. 3600 RRSIG NSEC"
    ));
}

#[test]
fn rfc_4035_b_8_ds_of_the_apex_where_the_parent_is_not_served() {
    example(&format!(
        "example. DS +do
         NOERROR AA
         authority
         {SOA}
         example. 3600 NSEC a.example. NS SOA MX RRSIG NSEC DNSKEY
         example. 3600 RRSIG NSEC"
    ));
}

#[test]
fn rfc_4035_3_1_4_1_ds_is_answered_by_the_parent() {
    let ds = "
        NOERROR AA
        answer
        a.example. 3600 DS 57855 5 1 B6DCD485719ADCA18E5F3D48A2331627FDD3636B
        a.example. 3600 RRSIG DS";
    example(&format!("a.example. DS +do {ds}"));
    let child = "a.example. 60 IN SOA ns1.a.example. host. 1 2 3 4 5\na.example. 60 NS ns1.a.example.\n";
    Server::new(&[("example.", EXAMPLE), ("a.example.", child)]).example(&format!("a.example. DS +do {ds}"));
}

#[test]
fn rfc_4035_3_1_4_1_no_ds_is_denied_by_the_parent() {
    example(&format!(
        "b.example. DS +do
         NOERROR AA
         authority
         {SOA}
         b.example. 3600 NSEC ns1.example. NS RRSIG NSEC
         b.example. 3600 RRSIG NSEC"
    ));
}

#[test]
fn rfc_4035_3_1_4_1_only_ds_is_answered_at_a_cut() {
    example(
        "a.example. NSEC
         NOERROR
         authority
         a.example. 3600 NS ns1.a.example.
         a.example. 3600 NS ns2.a.example.",
    );
}

#[test]
fn rfc_4035_3_1_without_do_no_dnssec_records_but_those_asked_for() {
    example("x.w.example. MX\n NOERROR AA\n answer\n x.w.example. 3600 MX 1 xx.example.");
    example(
        "ml.example. A\n NXDOMAIN AA\n authority\n example. 3600 SOA ns1.example. bugs.x.w.example. 1081539377 3600 300 3600000 3600",
    );
    example(
        "mc.a.example. MX
         NOERROR
         authority
         a.example. 3600 NS ns1.a.example.
         a.example. 3600 NS ns2.a.example.",
    );
    example("ns1.example. NSEC\n NOERROR AA\n answer\n ns1.example. 3600 NSEC ns2.example. A RRSIG NSEC");
    example("ns1.example. RRSIG\n NOERROR AA\n answer\n ns1.example. 3600 RRSIG A\n ns1.example. 3600 RRSIG NSEC");
}

#[test]
fn rfc_4035_3_1_1_all_signatures_of_a_set() {
    example(
        "example. DNSKEY +do
         NOERROR AA
         answer
         example. 3600 DNSKEY 256 3 5 AQOy
         example. 3600 DNSKEY 257 3 5 AQOe
         example. 3600 RRSIG DNSKEY
         example. 3600 RRSIG DNSKEY",
    );
}

/// A signed zone of aliases.
const ALIASES: &str = "
example. 3600 IN SOA ns. host. 1 2 3 4 60
example. 3600 RRSIG SOA 5 1 3600 20040509183619 20040409183619 38519 example. AAAA
example. 3600 NS ns.
example. 3600 RRSIG NS 5 1 3600 20040509183619 20040409183619 38519 example. AAAA
example. 60 NSEC *.a.example. NS SOA RRSIG NSEC
example. 60 RRSIG NSEC 5 1 60 20040509183619 20040409183619 38519 example. AAAA
*.a.example. 3600 CNAME x.b.example.
*.a.example. 3600 RRSIG CNAME 5 2 3600 20040509183619 20040409183619 38519 example. AAAA
*.a.example. 60 NSEC *.b.example. CNAME RRSIG NSEC
*.a.example. 60 RRSIG NSEC 5 2 60 20040509183619 20040409183619 38519 example. AAAA
*.b.example. 3600 CNAME gone.example.
*.b.example. 3600 RRSIG CNAME 5 2 3600 20040509183619 20040409183619 38519 example. AAAA
*.b.example. 60 NSEC example. CNAME RRSIG NSEC
*.b.example. 60 RRSIG NSEC 5 2 60 20040509183619 20040409183619 38519 example. AAAA
";

#[test]
fn rfc_4035_3_1_3_3_every_wildcard_of_a_chain_is_proven() {
    Server::new(&[("example.", ALIASES)]).example(
        "q.a.example. A +do
         NXDOMAIN AA
         answer
         q.a.example. 3600 CNAME x.b.example.
         q.a.example. 3600 RRSIG CNAME
         x.b.example. 3600 CNAME gone.example.
         x.b.example. 3600 RRSIG CNAME
         authority
         example. 60 SOA ns. host. 1 2 3 4 60
         example. 60 RRSIG SOA
         *.a.example. 60 NSEC *.b.example. CNAME RRSIG NSEC
         *.a.example. 60 RRSIG NSEC
         *.b.example. 60 NSEC example. CNAME RRSIG NSEC
         *.b.example. 60 RRSIG NSEC
         example. 60 NSEC *.a.example. NS SOA RRSIG NSEC
         example. 60 RRSIG NSEC",
    );
}

/// As many aliases as an answer follows, and then a denial by two records more.
#[test]
fn rfc_4035_3_1_3_3_the_longest_chain_of_wildcards_is_proven() {
    let mut zone = "example. 60 IN SOA ns. host. 1 2 3 4 5\nexample. 60 NS ns.\n".to_owned();
    let mut owner = "example.".to_owned();
    for n in 0..15 {
        let target = if n < 14 { format!("x.a{:02}.example.", n + 1) } else { "gone.example.".to_owned() };
        zone += &format!("{owner} 5 NSEC *.a{n:02}.example. CNAME NSEC\n*.a{n:02}.example. 60 CNAME {target}\n");
        owner = format!("*.a{n:02}.example.");
    }
    zone += &format!(
        "{owner} 5 NSEC b.example. CNAME NSEC\nb.example. 60 A 192.0.2.1\nb.example. 5 NSEC example. A NSEC\n"
    );
    let got = Server::new(&[("example.", &zone)]).ask_as_oracle(&query("x.a00.example. A +do"));
    let proofs = got.authority.iter().filter(|record| record.rtype == Rtype::NSEC).count();
    assert_eq!((got.rcode, got.flags.truncated, got.answer.len(), proofs), (Rcode::NXDOMAIN, false, 15, 17));
}

#[test]
fn rfc_4035_2_5_nsec_is_found_beside_a_cname() {
    Server::new(&[("example.", ALIASES)]).example(
        "*.b.example. NSEC +do
         NOERROR AA
         answer
         *.b.example. 60 NSEC example. CNAME RRSIG NSEC
         *.b.example. 60 RRSIG NSEC",
    );
}

#[test]
fn rfc_4034_3_an_rrsig_has_the_ttl_of_its_set() {
    let zone = "
        example. 3600 IN SOA ns. host. 1 2 3 4 5
        example. 3600 NS ns.
        example. 7 RRSIG NS 5 1 3600 20040509183619 20040409183619 38519 example. AAAA
        example. 60 NSEC example. NS SOA RRSIG NSEC
        ";
    Server::new(&[("example.", zone)]).example(
        "example. NS +do
         NOERROR AA
         answer
         example. 3600 NS ns.
         example. 3600 RRSIG NS",
    );
}

/// Any number of names below a cut may lie between a name and the NSEC record that covers it.
#[test]
fn rfc_4035_3_1_3_2_nsec_is_found_past_much_glue() {
    let glue: String =
        (0..100).map(|n| format!("b.example. 60 NS ns{n}.b.example.\nns{n}.b.example. 60 A 192.0.2.1\n")).collect();
    let zone = format!(
        "example. 60 IN SOA ns. host. 1 2 3 4 60
        example. 60 NS ns.
        example. 60 NSEC b.example. NS SOA NSEC
        b.example. 60 NSEC example. NS NSEC
        {glue}"
    );
    Server::new(&[("example.", &zone)]).example(
        "c.example. A +do
        NXDOMAIN AA
        authority
        example. 60 SOA ns. host. 1 2 3 4 60
        example. 60 NSEC b.example. NS SOA NSEC
        b.example. 60 NSEC example. NS NSEC",
    );
}
