//! RFC 1034: the algorithm of a name server (4.3.2), on the example zones and queries of section 6.

use wire::message::Rcode;

use crate::server::{Server, query};
use crate::subject::TCP;

/// The root zone of RFC 1034 6.1.
const ROOT: &str = "
. 86400 IN SOA SRI-NIC.ARPA. HOSTMASTER.SRI-NIC.ARPA. 870611 1800 300 604800 86400
. 86400 NS A.ISI.EDU.
. 86400 NS C.ISI.EDU.
. 86400 NS SRI-NIC.ARPA.
MIL. 86400 NS SRI-NIC.ARPA.
MIL. 86400 NS A.ISI.EDU.
EDU. 86400 NS SRI-NIC.ARPA.
EDU. 86400 NS C.ISI.EDU.
SRI-NIC.ARPA. 86400 A 26.0.0.73
SRI-NIC.ARPA. 86400 A 10.0.0.51
SRI-NIC.ARPA. 86400 MX 0 SRI-NIC.ARPA.
SRI-NIC.ARPA. 86400 HINFO \"DEC-2060\" \"TOPS20\"
USC-ISIC.ARPA. 86400 CNAME C.ISI.EDU.
73.0.0.26.IN-ADDR.ARPA. 86400 PTR SRI-NIC.ARPA.
A.ISI.EDU. 86400 A 26.3.0.103
C.ISI.EDU. 86400 A 10.0.0.52
";

/// The part of the zone ISI.EDU that the examples use.
const ISI_EDU: &str = "
ISI.EDU. 86400 IN SOA A.ISI.EDU. HOSTMASTER.ISI.EDU. 870611 1800 300 604800 86400
ISI.EDU. 86400 NS A.ISI.EDU.
A.ISI.EDU. 86400 A 26.3.0.103
C.ISI.EDU. 86400 A 10.0.0.52
";

fn root(example: &str) {
    Server::new(&[(".", ROOT)]).example(example);
}

#[test]
fn rfc_1034_6_2_1_all_addresses_of_a_host() {
    root(
        "SRI-NIC.ARPA. A
         NOERROR AA
         answer
         SRI-NIC.ARPA. 86400 A 26.0.0.73
         SRI-NIC.ARPA. 86400 A 10.0.0.51",
    );
}

#[test]
fn rfc_1034_6_2_3_mx_brings_the_addresses_of_its_exchange() {
    root(
        "SRI-NIC.ARPA. MX
         NOERROR AA
         answer
         SRI-NIC.ARPA. 86400 MX 0 SRI-NIC.ARPA.
         additional
         SRI-NIC.ARPA. 86400 A 26.0.0.73
         SRI-NIC.ARPA. 86400 A 10.0.0.51",
    );
}

#[test]
fn rfc_1034_6_2_4_a_type_that_the_name_has_not() {
    root(
        "SRI-NIC.ARPA. NS
         NOERROR AA
         authority
         . 86400 SOA SRI-NIC.ARPA. HOSTMASTER.SRI-NIC.ARPA. 870611 1800 300 604800 86400",
    );
}

#[test]
fn rfc_1034_6_2_5_a_misspelled_name() {
    root(
        "SIR-NIC.ARPA. A
         NXDOMAIN AA
         authority
         . 86400 SOA SRI-NIC.ARPA. HOSTMASTER.SRI-NIC.ARPA. 870611 1800 300 604800 86400",
    );
}

#[test]
fn rfc_1034_6_2_6_a_name_below_a_cut_is_referred() {
    root(
        "BRL.MIL. A
         NOERROR
         authority
         MIL. 86400 NS SRI-NIC.ARPA.
         MIL. 86400 NS A.ISI.EDU.
         additional
         A.ISI.EDU. 86400 A 26.3.0.103
         SRI-NIC.ARPA. 86400 A 26.0.0.73
         SRI-NIC.ARPA. 86400 A 10.0.0.51",
    );
}

#[test]
fn rfc_1034_4_3_2_step_3b_the_cut_itself_is_referred() {
    root(
        "edu. NS
         NOERROR
         authority
         EDU. 86400 NS SRI-NIC.ARPA.
         EDU. 86400 NS C.ISI.EDU.
         additional
         C.ISI.EDU. 86400 A 10.0.0.52
         SRI-NIC.ARPA. 86400 A 26.0.0.73
         SRI-NIC.ARPA. 86400 A 10.0.0.51",
    );
}

#[test]
fn rfc_1034_4_3_2_step_3b_glue_is_not_answered_with_authority() {
    root(
        "A.ISI.EDU. A
         NOERROR
         authority
         EDU. 86400 NS SRI-NIC.ARPA.
         EDU. 86400 NS C.ISI.EDU.",
    );
}

#[test]
fn rfc_1034_6_2_7_an_alias_into_another_zone_of_the_server() {
    Server::new(&[(".", ROOT), ("ISI.EDU.", ISI_EDU)]).example(
        "USC-ISIC.ARPA. A
         NOERROR AA
         answer
         USC-ISIC.ARPA. 86400 CNAME C.ISI.EDU.
         C.ISI.EDU. 86400 A 10.0.0.52",
    );
}

#[test]
fn rfc_1034_6_2_7_an_alias_below_a_cut_ends_in_a_referral() {
    root(
        "USC-ISIC.ARPA. A
         NOERROR AA
         answer
         USC-ISIC.ARPA. 86400 CNAME C.ISI.EDU.
         authority
         EDU. 86400 NS SRI-NIC.ARPA.
         EDU. 86400 NS C.ISI.EDU.",
    );
}

#[test]
fn rfc_1034_6_2_8_the_alias_itself() {
    root(
        "USC-ISIC.ARPA. CNAME
         NOERROR AA
         answer
         USC-ISIC.ARPA. 86400 CNAME C.ISI.EDU.",
    );
}

#[test]
fn rfc_1034_4_3_2_step_2_a_name_in_no_zone_is_refused() {
    let server = Server::new(&[("ISI.EDU.", ISI_EDU)]);
    server.example("EDU. A\n REFUSED");
    server.example("XISI.EDU. A\n REFUSED");
    server.example(". NS\n REFUSED");
}

#[test]
fn rfc_1034_4_3_2_step_2_the_nearest_zone_answers() {
    Server::new(&[(".", ROOT), ("ISI.EDU.", ISI_EDU)]).example(
        "ISI.EDU. NS
         NOERROR AA
         answer
         ISI.EDU. 86400 NS A.ISI.EDU.
         additional
         A.ISI.EDU. 86400 A 26.3.0.103",
    );
}

#[test]
fn rfc_1034_3_6_2_loops_end_with_the_chain_so_far() {
    let zone = "
        example. 60 IN SOA ns. host. 1 2 3 4 5
        example. 60 NS ns.
        a.example. 60 CNAME b.example.
        b.example. 60 CNAME a.example.
        self.example. 60 CNAME self.example.
        ";
    let server = Server::new(&[("example.", zone)]);
    server.example(
        "a.example. A
         NOERROR AA
         answer
         a.example. 60 CNAME b.example.
         b.example. 60 CNAME a.example.",
    );
    server.example("self.example. A\n NOERROR AA\n answer\n self.example. 60 CNAME self.example.");
}

#[test]
fn rfc_1034_3_6_2_long_chains_end() {
    let mut zone = "example. 60 IN SOA ns. host. 1 2 3 4 5\nexample. 60 NS ns.\n".to_string();
    zone.extend((0..40).map(|link| format!("a{link}.example. 60 CNAME a{}.example.\n", link + 1)));
    let chain: String = (0..16).map(|link| format!("a{link}.example. 60 CNAME a{}.example.\n", link + 1)).collect();
    Server::new(&[("example.", &zone)]).example(&format!("a0.example. A\n NOERROR AA\n answer\n {chain}"));
}

#[test]
fn rfc_1034_3_6_2_an_alias_out_of_all_zones() {
    let zone = "
        example. 60 IN SOA ns. host. 1 2 3 4 5
        example. 60 NS ns.
        www.example. 60 CNAME www.elsewhere.
        ";
    Server::new(&[("example.", zone)]).example(
        "www.example. A
         NOERROR AA
         answer
         www.example. 60 CNAME www.elsewhere.",
    );
}

#[test]
fn rfc_1034_3_1_a_zone_may_have_the_longest_name() {
    let (apex, below) = ("a.".repeat(127), "a.".repeat(126));
    let zone = format!("{apex} 60 IN SOA ns. host. 1 2 3 4 5\n{apex} 60 NS {apex}\n{apex} 60 A 192.0.2.1\n");
    let server = Server::new(&[(&apex, &zone), (&below, &zone.replace(&apex, &below))]);
    for (name, question, answers) in [(&apex, "A", 1), (&apex, "NS", 1), (&apex, "TXT", 0), (&below, "A", 1)] {
        let got = server.ask(&query(&format!("{name} {question}")), TCP);
        assert_eq!(
            (got.rcode, got.flags.authoritative, got.answer.len()),
            (Rcode::NOERROR, true, answers),
            "{question}"
        );
    }
    let transfer = Server::with_transfer(&[(&apex, &zone)]).transfer(&query(&format!("{apex} AXFR")));
    assert_eq!(transfer.iter().map(|message| message.answer.len()).sum::<usize>(), 4);
}

/// Loaded with a warning, as NSD and Knot do.
#[test]
fn rfc_1034_4_2_1_a_zone_without_name_servers_answers() {
    let zone = "
        example. 60 IN SOA ns. host. 1 2 3 4 5
        www.example. 60 A 192.0.2.1
        ";
    let server = Server::new(&[("example.", zone)]);
    server.example("www.example. A\n NOERROR AA\n answer\n www.example. 60 A 192.0.2.1");
    server.example("example. NS\n NOERROR AA\n authority\n example. 5 SOA ns. host. 1 2 3 4 5");
    server.example("x.example. A\n NXDOMAIN AA\n authority\n example. 5 SOA ns. host. 1 2 3 4 5");
}
