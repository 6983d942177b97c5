//! RFC 6672: DNAME.

use wire::Rtype;

use crate::server::{Server, query};
use crate::subject::TCP;

const HEAD: &str = "60 IN SOA ns. host. 1 2 3 4 5";

/// A server of the root, with one DNAME.
fn with_dname(owner: &str, target: &str) -> Server {
    let dname = format!("{owner} 60 DNAME {target}");
    Server::new(&[(".", &format!(". {HEAD}\n. 60 NS ns.\n{dname}\n"))])
}

/// The rows of the table in RFC 6672 2.2 where the owner does not match: the name is denied.
#[test]
fn rfc_6672_2_2_names_that_are_not_below_the_owner() {
    let no_data = format!("NOERROR AA\n authority\n . 5 SOA {}", &HEAD[10..]);
    let no_name = no_data.replace("NOERROR", "NXDOMAIN");
    for (qname, owner, target, denial) in [
        ("com.", "example.com.", "example.net.", &no_data),
        ("example.com.", "example.com.", "example.net.", &no_data),
        ("ab.example.com.", "b.example.com.", "example.net.", &no_name),
    ] {
        with_dname(owner, target).example(&format!("{qname} A\n {denial}"));
    }
}

/// The rows of the table in RFC 6672 2.2 where there is a result, and it is not below a DNAME again.
#[test]
fn rfc_6672_2_2_substitution() {
    for (qname, owner, target, result) in [
        ("a.example.com.", "example.com.", "example.net.", "a.example.net."),
        ("a.b.example.com.", "example.com.", "example.net.", "a.b.example.net."),
        ("foo.example.com.", "example.com.", "example.net.", "foo.example.net."),
        ("a.x.example.com.", "x.example.com.", "example.net.", "a.example.net."),
        ("a.example.com.", "example.com.", "y.example.net.", "a.y.example.net."),
        ("shortloop.x.", "x.", ".", "shortloop."),
    ] {
        with_dname(owner, target).example(&format!(
            "{qname} A
             NXDOMAIN AA
             answer
             {owner} 60 DNAME {target}
             {qname} 60 CNAME {result}
             authority
             . 5 SOA {}",
            &HEAD[10..]
        ));
    }
}

#[test]
fn rfc_6672_2_2_a_substitution_that_changes_nothing_is_a_loop() {
    with_dname("example.com.", "example.com.").example(
        "cyc.example.com. A
         NOERROR AA
         answer
         example.com. 60 DNAME example.com.
         cyc.example.com. 60 CNAME cyc.example.com.",
    );
}

#[test]
fn rfc_6672_2_2_twice_through_the_same_dname() {
    with_dname("x.", ".").example(&format!(
        "shortloop.x.x. A
         NXDOMAIN AA
         answer
         x. 60 DNAME .
         shortloop.x.x. 60 CNAME shortloop.x.
         shortloop.x. 60 CNAME shortloop.
         authority
         . 5 SOA {}",
        &HEAD[10..]
    ));
}

#[test]
fn rfc_6672_2_2_a_growing_name_ends() {
    let mut chain = String::new();
    let mut name = "cyc.example.com.".to_string();
    for _ in 0..16 {
        let next = name.replace("example.com.", "c.example.com.");
        chain += &format!("{name} 60 CNAME {next}\n");
        name = next;
    }
    with_dname("example.com.", "c.example.com.").example(&format!(
        "cyc.example.com. A
         NOERROR AA
         answer
         example.com. 60 DNAME c.example.com.
         {chain}"
    ));
}

#[test]
fn rfc_6672_2_2_a_name_that_gets_too_long() {
    let long = "l".repeat(63);
    let target = format!("{long}.{long}.{long}.{}.", "t".repeat(59));
    with_dname("example.com.", &target).example(&format!(
        "a.example.com. A
         NXDOMAIN AA
         answer
         example.com. 60 DNAME {target}
         a.example.com. 60 CNAME a.{target}
         authority
         . 5 SOA {}",
        &HEAD[10..]
    ));
    with_dname("example.com.", &target)
        .example(&format!("ab.example.com. A\n YXDOMAIN AA\n answer\n example.com. 60 DNAME {target}"));
}

const EXAMPLE: &str = "
    example. 60 IN SOA ns. host. 1 2 3 4 5
    example. 60 NS ns.
    old.example. 60 DNAME new.example.
    old.example. 60 A 192.0.2.1
    www.new.example. 60 A 192.0.2.2
    *.sub.new.example. 60 A 192.0.2.3
    there.example. 60 DNAME sub.other.
    ";

#[test]
fn rfc_6672_2_3_the_owner_keeps_its_other_types() {
    let server = Server::new(&[("example.", EXAMPLE)]);
    server.example("old.example. A\n NOERROR AA\n answer\n old.example. 60 A 192.0.2.1");
    server.example("old.example. DNAME\n NOERROR AA\n answer\n old.example. 60 DNAME new.example.");
}

#[test]
fn rfc_6672_3_2_the_new_name_is_looked_up() {
    Server::new(&[("example.", EXAMPLE)]).example(
        "www.old.example. A
         NOERROR AA
         answer
         old.example. 60 DNAME new.example.
         www.old.example. 60 CNAME www.new.example.
         www.new.example. 60 A 192.0.2.2",
    );
}

#[test]
fn rfc_6672_3_2_the_new_name_may_match_a_wildcard() {
    Server::new(&[("example.", EXAMPLE)]).example(
        "x.sub.old.example. A
         NOERROR AA
         answer
         old.example. 60 DNAME new.example.
         x.sub.old.example. 60 CNAME x.sub.new.example.
         x.sub.new.example. 60 A 192.0.2.3",
    );
}

#[test]
fn rfc_6672_3_2_the_new_name_may_be_in_another_zone_or_in_none() {
    let other = "
        other. 60 IN SOA ns. host. 1 2 3 4 5
        other. 60 NS ns.
        a.sub.other. 60 A 192.0.2.4
        ";
    let chain = "NOERROR AA
        answer
        there.example. 60 DNAME sub.other.
        a.there.example. 60 CNAME a.sub.other.";
    Server::new(&[("example.", EXAMPLE)]).example(&format!("a.there.example. A\n {chain}"));
    Server::new(&[("example.", EXAMPLE), ("other.", other)])
        .example(&format!("a.there.example. A\n {chain}\n a.sub.other. 60 A 192.0.2.4"));
}

#[test]
fn rfc_6672_3_2_dnames_with_the_same_target_are_two() {
    let zone = "
        example. 60 IN SOA ns. host. 1 2 3 4 5
        example. 60 NS ns.
        one.example. 60 DNAME s.two.example.
        two.example. 60 DNAME s.two.example.
        ";
    let got = Server::new(&[("example.", zone)]).ask(&query("q.one.example. A"), TCP);
    let dnames = got.answer.iter().filter(|record| record.rtype == Rtype::DNAME);
    let owners: Vec<String> = dnames.map(|record| record.owner.to_string()).collect();
    assert_eq!(owners, ["one.example.", "two.example."]);
}

/// Small zones of equal content share their records in memory.
#[test]
fn rfc_6672_3_2_dnames_of_zones_with_equal_content_are_two() {
    let same = |apex: &str| {
        format!("{apex} 60 IN SOA ns.x. h.x. 1 2 3 4 5\n{apex} 60 NS ns.x.\nd.{apex} 60 DNAME t.c.test.\n")
    };
    let other = "
        c.test. 60 IN SOA ns.x. h.x. 1 2 3 4 5
        c.test. 60 NS ns.x.
        x.t.c.test. 60 CNAME y.d.b.test.
        y.t.c.test. 60 A 192.0.2.1
        ";
    Server::new(&[("a.test.", &same("a.test.")), ("b.test.", &same("b.test.")), ("c.test.", other)]).example(
        "x.d.a.test. A
         NOERROR AA
         answer
         d.a.test. 60 DNAME t.c.test.
         x.d.a.test. 60 CNAME x.t.c.test.
         x.t.c.test. 60 CNAME y.d.b.test.
         d.b.test. 60 DNAME t.c.test.
         y.d.b.test. 60 CNAME y.t.c.test.
         y.t.c.test. 60 A 192.0.2.1",
    );
}

#[test]
fn rfc_2181_5_a_dname_with_its_own_owner_as_target_is_sent_once() {
    let zone = "
        example. 60 IN SOA ns. host. 1 2 3 4 5
        example. 60 NS ns.
        example. 5 NSEC b.example. NS SOA NSEC
        b.example. 60 DNAME example.
        b.example. 60 RRSIG DNAME 13 2 60 20300101000000 20200101000000 1 example. AAAA
        b.example. 5 NSEC example. DNAME RRSIG NSEC
        ";
    let server = Server::new(&[("example.", zone)]);
    let way = "NOERROR AA
        answer
        b.example. 60 DNAME example.
        b.example. 60 RRSIG DNAME
        b.b.example. 60 CNAME b.example.";
    server.example(&format!("b.b.example. DNAME +do\n {way}"));
    server.example(&format!("b.b.example. ANY +do\n {way}"));
    server.example(&format!("b.b.example. RRSIG +do\n {way}"));
}

/// RFC 6672 3.3, RFC 4592 4.4: a DNAME at a wildcard redirects the names below the wildcard itself, and is also a record of the names
/// that the wildcard matches. These are two RRsets in one answer.
#[test]
fn rfc_6672_3_3_a_dname_at_a_wildcard_is_sent_for_each_owner() {
    let zone = "
        example. 60 IN SOA ns. host. 1 2 3 4 5
        example. 60 NS ns.
        example. 5 NSEC *.w.example. NS SOA NSEC
        *.w.example. 60 DNAME w.example.
        *.w.example. 60 RRSIG DNAME 13 2 60 20300101000000 20200101000000 1 example. AAAA
        *.w.example. 5 NSEC example. DNAME RRSIG NSEC
        ";
    let server = Server::new(&[("example.", zone)]);
    let way = "NOERROR AA
        answer
        *.w.example. 60 DNAME w.example.
        *.w.example. 60 RRSIG DNAME
        a.*.w.example. 60 CNAME a.w.example.
        a.w.example. 60 RRSIG DNAME";
    let proof = "authority\n *.w.example. 5 NSEC example. DNAME RRSIG NSEC";
    for (qtype, more) in
        [("DNAME", "a.w.example. 60 DNAME w.example."), ("ANY", "a.w.example. 60 DNAME w.example."), ("RRSIG", "")]
    {
        server.example(&format!("a.*.w.example. {qtype} +do\n {way}\n {more}\n {proof}"));
    }
}

#[test]
fn rfc_6672_2_3_a_dname_at_the_apex() {
    let zone = "
        example. 60 IN SOA ns. host. 1 2 3 4 5
        example. 60 NS ns.
        example. 60 DNAME other.
        ";
    let server = Server::new(&[("example.", zone)]);
    server.example("example. NS\n NOERROR AA\n answer\n example. 60 NS ns.");
    server.example(
        "a.example. NS
         NOERROR AA
         answer
         example. 60 DNAME other.
         a.example. 60 CNAME a.other.",
    );
}

/// Loaded with a warning, as in BIND: records below a DNAME are transferred but never answered.
const HIDDEN: &str = "
    example. 60 IN SOA ns. host. 1 2 3 4 5
    example. 60 NS ns.
    d.example. 60 DNAME t.example.
    x.d.example. 60 A 192.0.2.1
    cut.d.example. 60 NS ns.cut.d.example.
    ns.cut.d.example. 60 A 192.0.2.2
    *.d.example. 60 TXT wildcard
    x.t.example. 60 A 192.0.2.3
    m.example. 60 MX 1 x.d.example.
    sub.example. 60 NS x.d.example.
    ";

#[test]
fn rfc_6672_2_4_names_below_a_dname_are_not_answered() {
    let server = Server::new(&[("example.", HIDDEN)]);
    server.example(
        "x.d.example. A
         NOERROR AA
         answer
         d.example. 60 DNAME t.example.
         x.d.example. 60 CNAME x.t.example.
         x.t.example. 60 A 192.0.2.3",
    );
    for (asked, name) in [("cut", "NS"), ("ns.cut", "A"), ("any", "TXT")] {
        server.example(&format!(
            "{asked}.d.example. {name}
             NXDOMAIN AA
             answer
             d.example. 60 DNAME t.example.
             {asked}.d.example. 60 CNAME {asked}.t.example.
             authority
             example. 5 SOA ns. host. 1 2 3 4 5"
        ));
    }
}

#[test]
fn rfc_6672_2_4_addresses_below_a_dname_are_not_added() {
    let server = Server::new(&[("example.", HIDDEN)]);
    server.example("m.example. MX\n NOERROR AA\n answer\n m.example. 60 MX 1 x.d.example.");
    server.example("a.sub.example. A\n NOERROR\n authority\n sub.example. 60 NS x.d.example.");
}

#[test]
fn rfc_6672_2_4_a_dname_at_the_apex_hides_all_names() {
    let zone = "
        example. 60 IN SOA ns. host. 1 2 3 4 5
        example. 60 NS ns.example.
        example. 60 DNAME other.
        ns.example. 60 A 192.0.2.1
        ";
    let server = Server::new(&[("example.", zone)]);
    server.example("example. NS\n NOERROR AA\n answer\n example. 60 NS ns.example.");
    for name in ["ns.example.", "a.ns.example.", "zz.example."] {
        let target = name.replace("example", "other");
        server
            .example(&format!("{name} A\n NOERROR AA\n answer\n example. 60 DNAME other.\n {name} 60 CNAME {target}"));
    }
}

#[test]
fn rfc_6672_2_3_beside_ns_below_the_apex_the_delegation_wins() {
    let zone = "
        example. 60 IN SOA ns. host. 1 2 3 4 5
        example. 60 NS ns.
        both.example. 60 NS ns.both.example.
        both.example. 60 DNAME other.
        ns.both.example. 60 A 192.0.2.1
        ";
    let server = Server::new(&[("example.", zone)]);
    for asked in ["both.example. A", "both.example. DNAME", "a.both.example. A", "ns.both.example. A"] {
        server.example(&format!(
            "{asked}
             NOERROR
             authority
             both.example. 60 NS ns.both.example.
             additional
             ns.both.example. 60 A 192.0.2.1"
        ));
    }
    server.example("both.example. DS\n NOERROR AA\n authority\n example. 5 SOA ns. host. 1 2 3 4 5");
}

/// A signer without DNAME support included the names below the DNAME in the chain.
#[test]
fn rfc_4035_3_1_3_2_nsec_below_a_dname_proves_what_it_covers() {
    let zone = "
        example. 60 IN SOA ns. host. 1 2 3 4 5
        example. 60 NS ns.
        example. 5 NSEC d.example. NS SOA NSEC
        d.example. 60 DNAME t.
        d.example. 5 NSEC x.d.example. DNAME NSEC
        x.d.example. 60 A 192.0.2.1
        x.d.example. 5 NSEC example. A NSEC
        ";
    Server::new(&[("example.", zone)]).example(
        "e.example. A +do
         NXDOMAIN AA
         authority
         example. 5 SOA ns. host. 1 2 3 4 5
         x.d.example. 5 NSEC example. A NSEC
         example. 5 NSEC d.example. NS SOA NSEC",
    );
}
