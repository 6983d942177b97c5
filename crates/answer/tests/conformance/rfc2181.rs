//! RFC 2181: RRsets (5) and truncation (9), over TCP too (RFC 7766 5).

use answer::Transport::{self, Udp};
use wire::message::{Edns, EdnsOption, Rcode};

use crate::server::{Server, query};
use crate::subject::TCP;

const HEAD: &str = "example. 60 IN SOA ns. host. 1 2 3 4 5\nexample. 60 NS ns.\n";

#[test]
fn rfc_2181_9_addresses_beside_an_answer_do_not_set_tc() {
    let mut zone = HEAD.to_string();
    for host in 0..10 {
        zone += &format!("example. 60 MX {host} mx{host}.example.\nmx{host}.example. 60 AAAA 2001:db8::1\n");
        zone += &format!("mx{host}.example. 60 A 192.0.2.1\n");
    }
    let got = Server::new(&[("example.", &zone)]).ask(&query("example. MX"), Udp);
    assert_eq!((got.flags.truncated, got.answer.len()), (false, 10));
    assert!(got.additional.len() < 20);
}

#[test]
fn rfc_2181_5_addresses_of_a_name_are_added_once() {
    let zone = format!(
        "{HEAD}
        example. 60 MX 10 mail.example.
        example. 60 MX 20 mail.example.
        _s._tcp.example. 60 SRV 0 0 1 mail.example.
        _s._tcp.example. 60 SRV 0 0 2 mail.example.
        svc.example. 60 HTTPS 1 mail.example. port=1
        svc.example. 60 HTTPS 2 Mail.example. port=2
        mail.example. 60 A 192.0.2.1
        "
    );
    let server = Server::new(&[("example.", &zone)]);
    for question in ["example. MX", "_s._tcp.example. SRV", "svc.example. HTTPS"] {
        assert_eq!(server.ask(&query(question), TCP).additional.len(), 1, "{question}");
    }
}

#[test]
fn rfc_2181_9_a_set_that_does_not_fit_is_left_out_whole() {
    let texts: String = (0..20).map(|n| format!("example. 60 TXT \"{n} {}\"\n", "x".repeat(50))).collect();
    let server = Server::new(&[("example.", &(HEAD.to_string() + &texts))]);
    let got = server.ask(&query("example. TXT"), Udp);
    assert_eq!((got.flags.truncated, got.answer.len()), (true, 0));
    let got = server.ask(&query("example. TXT"), TCP);
    assert_eq!((got.flags.truncated, got.answer.len()), (false, 20));
}

#[test]
fn rfc_2181_5_an_rrset_has_no_duplicates_and_one_ttl() {
    let zone = format!("{HEAD}a.example. 60 A 192.0.2.1\na.example. 60 A 192.0.2.1\na.example. 30 A 192.0.2.2\n");
    let got = Server::new(&[("example.", &zone)]).ask(&query("a.example. A"), Udp);
    assert_eq!(got.answer.len(), 2);
    assert!(got.answer.iter().all(|record| record.ttl == 30), "RFC 2181 5.2: the least TTL for all");
}

#[test]
fn rfc_7766_5_an_answer_over_tcp_may_have_all_65535_octets() {
    let texts: String = (0..240).map(|n| format!("example. 60 TXT \"{n} {}\"\n", "x".repeat(230))).collect();
    let server = Server::new(&[("example.", &(HEAD.to_string() + &texts))]);
    let got = server.ask(&query("example. TXT"), TCP);
    assert_eq!((got.flags.truncated, got.answer.len()), (false, 240));
}

/// RFC 9250 4.6: the payload size of EDNS is that of UDP.
#[test]
fn rfc_9250_4_6_the_payload_size_limits_no_response_over_quic() {
    let texts: String = (0..240).map(|n| format!("example. 60 TXT \"{n} {}\"\n", "x".repeat(230))).collect();
    let server = Server::new(&[("example.", &(HEAD.to_string() + &texts))]);
    let asked = query("example. TXT").with_edns(Edns { payload: 512, ..Edns::default() });
    let got = server.ask(&asked, Transport::Quic { client_names: &[] });
    assert_eq!((got.flags.truncated, got.answer.len()), (false, 240));
}

/// RFC 8914 4.25: an RRset too large for TCP gets SERVFAIL; TC would make the client retry over TCP.
#[test]
fn rfc_8914_4_25_a_set_that_fits_no_message_is_a_failure_over_tcp() {
    let texts: String = (0..300).map(|n| format!("example. 60 TXT \"{n} {}\"\n", "x".repeat(230))).collect();
    let server = Server::new(&[("example.", &format!("{HEAD}{texts}alias.example. 60 CNAME example.\n"))]);
    for name in ["example.", "alias.example."] {
        let asked = query(&format!("{name} TXT")).with_edns(Edns::default());
        let got = server.ask(&asked, Udp);
        assert_eq!((got.rcode, got.flags.truncated), (Rcode::NOERROR, true), "{name}");
        let got = server.ask(&asked, TCP);
        assert_eq!(
            (got.rcode, got.flags.truncated, got.flags.authoritative),
            (Rcode::SERVFAIL, false, false),
            "{name}"
        );
        assert_eq!((&got.answer[..], &got.authority[..]), (&[][..], &[][..]), "{name}");
        assert_eq!(got.edns.expect("OPT").options, [EdnsOption { code: 15, data: vec![0, 24] }], "{name}");
    }
}

/// RFC 8914 4.25: the same for a denial: the SOA record without all proofs is no referral, which would be useful.
#[test]
fn rfc_8914_4_25_a_denial_that_fits_no_message_is_a_failure_over_tcp() {
    let nsec = |owner: &str, labels, next: &str| {
        let signature = "AAAA".repeat(12_000);
        format!(
            "{owner} 5 NSEC {next} A\n{owner} 5 RRSIG NSEC 13 {labels} 5 20300101000000 20200101000000 1 example. {signature}\n"
        )
    };
    let chain = nsec("example.", 1, "a.example.") + &nsec("a.example.", 2, "example.");
    let server = Server::new(&[("example.", &format!("{HEAD}{chain}a.example. 60 A 192.0.2.1\n"))]);
    for (name, rcode) in [("b.example.", Rcode::SERVFAIL), ("a.example.", Rcode::NOERROR)] {
        let asked = query(&format!("{name} TXT +do"));
        assert!(server.ask(&asked, Udp).flags.truncated, "{name}");
        let got = server.ask(&asked, TCP);
        assert_eq!((got.rcode, got.flags.truncated), (rcode, false), "{name}");
    }
}

#[test]
fn rfc_2181_9_signatures_that_do_not_fit_are_left_out_whole() {
    let rrsig = |key: usize, octets: usize| {
        let signature = "AAAA".repeat(octets / 3);
        format!("example. 60 RRSIG NS 13 1 60 20300101000000 20200101000000 {key} example. {signature}\n")
    };
    let server = |octets| {
        let signatures: String = (0..10).map(|key| rrsig(key, octets)).collect();
        Server::new(&[("example.", &(HEAD.to_string() + &signatures))])
    };
    let got = server(99).ask(&query("example. RRSIG"), Udp);
    assert_eq!((got.flags.truncated, got.answer.len()), (true, 0));
    let got = server(99).ask(&query("example. RRSIG"), TCP);
    assert_eq!((got.flags.truncated, got.answer.len()), (false, 10));
    let got = server(9999).ask(&query("example. RRSIG"), TCP);
    assert_eq!((got.rcode, got.answer.len()), (Rcode::SERVFAIL, 0));
}
