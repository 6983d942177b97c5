//! RFC 9471: the glue of a referral is complete, or TC is set.

use answer::Transport::Udp;
use answer::{Acl, AnswerConfig, ZoneState};
use wire::message::{Edns, Message, Rcode};
use zone::image::{ImageDecoder, ImageEncoder};

use crate::server::{Server, query};
use crate::subject::{self, TCP};

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
fn rfc_9471_3_1_in_domain_glue_is_complete_or_tc_is_set() {
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
fn rfc_9471_3_2_sibling_glue_is_added_as_far_as_it_fits() {
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

/// Keys escape the octets 0 and 1 with two octets that also occur in other labels.
#[test]
fn rfc_9471_2_glue_is_that_of_the_server_and_of_no_other() {
    for (server, other) in [
        (r"\001\001.child.example.", r"\000.child.example."),
        (r"\001\002.child.example.", r"\001.child.example."),
        (r"b\000a.child.example.", r"a.b.child.example."),
    ] {
        let zone = format!("{HEAD}child.example. 60 NS {server}\n{other} 60 A 192.0.2.1\n");
        let got = Server::new(&[("example.", &zone)]).ask(&query("www.child.example. A"), TCP);
        assert_eq!(got.additional, [], "{server} and {other}");
        let zone = format!("{HEAD}child.example. 60 NS {other}\n{other} 60 A 192.0.2.1\n");
        let got = Server::new(&[("example.", &zone)]).ask(&query("www.child.example. A"), TCP);
        assert_eq!(got.additional.len(), 1, "{other}");
    }
}

/// RFC 4035 2.2: glue is not signed; signatures that a faulty signer added are not sent.
#[test]
fn rfc_4035_2_2_addresses_at_the_cut_itself_come_without_signatures() {
    let zone = format!(
        "{HEAD}child.example. 60 NS child.example.\nchild.example. 60 A 192.0.2.1\n\
        child.example. 60 RRSIG A 13 2 60 20300101000000 20200101000000 1 example. AAAA\n"
    );
    let got = Server::new(&[("example.", &zone)]).ask(&query("child.example. A +do"), Udp);
    assert_eq!(got.additional.len(), 1);
}

/// A stored image may mark a name server as one in the zone that is not.
#[test]
fn a_name_server_with_a_wrong_mark_has_no_glue() {
    let zone =
        subject::zone(&"a.b.".parse().expect("a name"), "@ 60 SOA ns. host. 1 2 3 4 5\n@ 60 NS ns.\ncut 60 NS x.\n");
    let (mut encoder, mut decoder, mut chunk) = (ImageEncoder::new(zone), ImageDecoder::new(), Vec::new());
    let mut marked = 0;
    while encoder.next_chunk(&mut chunk) {
        // The length of RDATA, whose first bit is the mark, and the RDATA.
        if let Some(at) = chunk.windows(5).position(|octets| octets == b"\0\x03\x01x\0") {
            chunk[at] = 0x80;
            marked += 1;
        }
        decoder.push(&chunk).expect("a chunk of an image");
    }
    assert_eq!(marked, 1);
    let zone = decoder.finish().expect("an image");
    let served = subject::serve([ZoneState::Loaded(zone)], AnswerConfig::default(), Acl::default());
    let got = subject::ask(&served, &query("www.cut.a.b. A").to_wire(), TCP).expect("an answer");
    let got = Message::parse(&got).expect("a well-formed answer");
    assert_eq!((got.rcode, got.authority.len(), got.additional.len()), (Rcode::NOERROR, 1, 0));
}
