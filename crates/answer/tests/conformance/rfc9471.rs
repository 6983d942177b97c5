//! RFC 9471: the glue of a referral is all there, or the answer says that it is not. RFC 2181 9: TC.

use answer::Transport::Udp;
use wire::message::Edns;

use crate::server::{Server, query};
use crate::subject::TCP;

const HEAD: &str = "example. 60 IN SOA ns. host. 1 2 3 4 5\nexample. 60 NS ns.\n";

/// A zone with a delegation to servers named by `name`, each with an A and an AAAA record.
fn delegation(servers: usize, name: impl Fn(usize) -> String) -> Server {
    let mut zone = HEAD.to_string();
    for server in 0..servers {
        let name = name(server);
        zone += &format!("child.example. 60 NS {name}\n{name} 60 A 192.0.2.1\n{name} 60 AAAA 2001:db8::1\n");
    }
    Server::new(&[("example.", &zone)])
}

#[test]
fn rfc_9471_3_1_in_domain_glue_is_all_there_or_tc_is_set() {
    // Header and question have 31 octets, a server some 20 + 18 + 16 + 28.
    for (servers, truncated) in [(3, false), (13, true)] {
        let server = delegation(servers, |n| format!("ns{n}.child.example."));
        let got = server.ask(&query("www.child.example. A"), Udp);
        assert_eq!(got.flags.truncated, truncated, "{servers} servers");
        assert_eq!(got.authority.len(), servers, "the NS records fit");
        assert_eq!(got.additional.len() == 2 * servers, !truncated);
    }
}

#[test]
fn rfc_9471_3_1_a_larger_payload_or_tcp_has_the_rest() {
    let server = delegation(13, |n| format!("ns{n}.child.example."));
    let asked = query("www.child.example. A");
    let large = server.ask(&asked.clone().with_edns(Edns::default()), Udp);
    assert_eq!((large.flags.truncated, large.additional.len()), (false, 26));
    let tcp = server.ask(&asked, TCP);
    assert_eq!((tcp.flags.truncated, tcp.additional.len()), (false, 26));
}

#[test]
fn rfc_9471_3_2_sibling_glue_may_be_left_out_without_tc() {
    let server = delegation(13, |n| format!("ns{n}.sibling.example."));
    let got = server.ask(&query("www.child.example. A"), Udp);
    assert_eq!((got.flags.truncated, got.authority.len()), (false, 13));
    assert!(got.additional.len() < 26);
}

#[test]
fn rfc_9471_3_2_sibling_glue_comes_along_where_there_is_room() {
    let zone = format!(
        "{HEAD}
        child.example. 60 NS ns.sibling.example.
        sibling.example. 60 NS ns.sibling.example.
        ns.sibling.example. 60 A 192.0.2.1
        "
    );
    Server::new(&[("example.", &zone)]).example(
        "child.example. A
         NOERROR
         authority
         child.example. 60 NS ns.sibling.example.
         additional
         ns.sibling.example. 60 A 192.0.2.1",
    );
}

#[test]
fn rfc_9471_3_2_in_domain_glue_comes_before_sibling_glue() {
    let mut zone = format!("{HEAD}child.example. 60 NS zz.child.example.\nzz.child.example. 60 A 192.0.2.1\n");
    for server in 0..10 {
        let name = format!("a{server}.sibling.example.");
        zone += &format!("child.example. 60 NS {name}\n{name} 60 A 192.0.2.1\n{name} 60 AAAA 2001:db8::1\n");
    }
    let got = Server::new(&[("example.", &zone)]).ask(&query("www.child.example. A"), Udp);
    assert!(!got.flags.truncated, "the one address that is needed fits");
    assert!(got.additional.iter().any(|record| record.owner.to_string() == "zz.child.example."));
}

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
fn rfc_2181_5_addresses_of_a_name_stand_once() {
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
fn rfc_2181_5_records_stand_once_and_with_one_ttl() {
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

#[test]
fn rfc_2181_9_more_than_65535_octets_are_truncated_over_tcp_too() {
    let texts: String = (0..300).map(|n| format!("example. 60 TXT \"{n} {}\"\n", "x".repeat(230))).collect();
    let server = Server::new(&[("example.", &(HEAD.to_string() + &texts))]);
    let got = server.ask(&query("example. TXT"), TCP);
    assert_eq!((got.flags.truncated, got.answer.len()), (true, 0));
}
