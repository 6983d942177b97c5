//! RFC 8482: ANY is answered with one RRset.

use crate::server::Server;

const ZONE: &str = "
    example. 60 IN SOA ns. host. 1 2 3 4 5
    example. 60 RRSIG SOA 13 1 60 20300101000000 20200101000000 1 example. AAAA
    example. 60 NS ns.
    example. 60 RRSIG NS 13 1 60 20300101000000 20200101000000 1 example. AAAA
    example. 60 A 192.0.2.1
    example. 60 RRSIG A 13 1 60 20300101000000 20200101000000 1 example. AAAA
    example. 5 NSEC alias.example. A NS SOA RRSIG NSEC
    example. 5 RRSIG NSEC 13 1 5 20300101000000 20200101000000 1 example. AAAA
    alias.example. 60 CNAME example.
    alias.example. 60 RRSIG CNAME 13 2 60 20300101000000 20200101000000 1 example. AAAA
    alias.example. 5 NSEC *.wild.example. CNAME RRSIG NSEC
    alias.example. 5 RRSIG NSEC 13 2 5 20300101000000 20200101000000 1 example. AAAA
    *.wild.example. 60 A 192.0.2.2
    *.wild.example. 60 A 192.0.2.3
    *.wild.example. 60 TXT \"more\"
    *.wild.example. 60 RRSIG A 13 2 60 20300101000000 20200101000000 1 example. AAAA
    *.wild.example. 60 RRSIG TXT 13 2 60 20300101000000 20200101000000 1 example. AAAA
    *.wild.example. 5 NSEC example. A TXT RRSIG NSEC
    *.wild.example. 5 RRSIG NSEC 13 2 5 20300101000000 20200101000000 1 example. AAAA
    ";

fn example(example: &str) {
    Server::new(&[("example.", ZONE)]).example(example);
}

#[test]
fn rfc_8482_4_1_any_gets_one_rrset() {
    example("example. ANY\n NOERROR AA\n answer\n example. 60 A 192.0.2.1");
}

#[test]
fn rfc_8482_4_1_with_its_signature_if_dnssec_is_wanted() {
    example("example. ANY +do\n NOERROR AA\n answer\n example. 60 A 192.0.2.1\n example. 60 RRSIG A");
}

#[test]
fn rfc_1034_3_6_2_any_matches_the_alias_itself() {
    example("alias.example. ANY\n NOERROR AA\n answer\n alias.example. 60 CNAME example.");
}

#[test]
fn rfc_4592_3_3_any_is_synthesized_like_all_types() {
    example(
        "a.wild.example. ANY +do
         NOERROR AA
         answer
         a.wild.example. 60 A 192.0.2.2
         a.wild.example. 60 A 192.0.2.3
         a.wild.example. 60 RRSIG A
         authority
         *.wild.example. 5 NSEC example. A TXT RRSIG NSEC
         *.wild.example. 5 RRSIG NSEC",
    );
}

#[test]
fn rfc_8482_3_a_name_without_data_has_none_for_any() {
    let soa = "authority\n example. 5 SOA ns. host. 1 2 3 4 5";
    example(&format!("wild.example. ANY\n NOERROR AA\n {soa}"));
    example(&format!("gone.example. ANY\n NXDOMAIN AA\n {soa}"));
}
