//! RRsets from a few octets to more than a message holds: complete or left out, with correct compression pointers.

use std::collections::BTreeSet;

use answer::Transport::Udp;
use wire::message::{Edns, Rcode, Record};
use wire::{Name, Rtype};

use crate::server::{Server, query};
use crate::subject::TCP;

/// The least, those about where a message or the reach of pointers ends, and what no message holds.
fn counts() -> impl Iterator<Item = usize> {
    (1..10).chain((100..1000).step_by(25)).chain([4000])
}

fn server(lines: impl Iterator<Item = String>) -> Server {
    let head = "z. 60 IN SOA ns. host. 1 2 3 4 5\nz. 60 NS ns.\nalias.z. 60 CNAME large.z.\n";
    Server::new(&[("z.", &(head.to_string() + &lines.collect::<String>()))])
}

#[test]
fn large_sets_are_answered_whole_or_not_at_all() {
    for count in counts() {
        let pointing = |n| format!("large.z. 60 MX 0 m{n}.servers.test.\nlarge.z. 60 PTR p{n}.z.\n");
        let server = server((0..count).map(|n| pointing(n) + &format!("large.z. 60 TXT {:a<100} {n}\n", "")));
        for (rtype, end, most) in [
            (Rtype::MX, &b"\x07servers\x04test\x00"[..], 1000),
            (Rtype::PTR, b"\x01z\x00", 1000),
            (Rtype::TXT, b"", 550),
        ] {
            let got = server.ask(&query(&format!("alias.z. {rtype}")), TCP);
            if count > most {
                assert_eq!((got.rcode, got.flags.truncated, &got.answer[..]), (Rcode::SERVFAIL, false, &[][..]));
                continue;
            }
            let set: Vec<_> = got.answer.iter().filter(|record| record.rtype == rtype).collect();
            assert_eq!((got.flags.truncated, set.len()), (false, count), "{count} {rtype}");
            assert!(set.iter().all(|record| record.rdata.ends_with(end)), "{count} {rtype}");
            let distinct: BTreeSet<_> = set.iter().map(|record| &record.rdata).collect();
            assert_eq!(distinct.len(), set.len(), "{count} {rtype}");
        }
    }
}

/// RFC 1035 4.2.2, RFC 5936 2.2.1: a record that fits only in a message without a question can be transferred, not queried;
/// one that fits in no message makes transfers fail.
#[test]
fn rfc_5936_2_2_1_large_records() {
    for (len, is_answered, is_transferred) in [
        (65_498, true, true),
        (65_499, false, true),
        (65_504, false, true),
        (65_505, false, false),
        (65_535, false, false),
    ] {
        let lines = "a.z. 60 A 192.0.2.1\n".to_owned()
            + &format!("large.z. 60 TYPE65400 \\# {len} {}\n", "ab".repeat(len))
            + "z0.z. 60 A 192.0.2.1\n";
        let head = "z. 60 IN SOA ns. host. 1 2 3 4 5\nz. 60 NS ns.\n";
        let server = Server::with_transfer(&[("z.", &(head.to_owned() + &lines))]);
        let got = server.ask(&query("large.z. TYPE65400"), TCP);
        let rcode = if is_answered { Rcode::NOERROR } else { Rcode::SERVFAIL };
        assert_eq!((got.rcode, got.flags.truncated, got.answer.len()), (rcode, false, is_answered.into()), "{len}");
        assert!(server.ask(&query("large.z. TYPE65400"), Udp).flags.truncated, "{len}");
        let messages = server.transfer(&query("z. AXFR"));
        let last = messages.last().expect("a message");
        let rcode = if is_transferred { Rcode::NOERROR } else { Rcode::SERVFAIL };
        assert_eq!((last.rcode, last.questions.len()), (rcode, 1), "{len}");
        let records: Vec<_> = messages.iter().flat_map(|message| &message.answer).collect();
        let large = records.iter().filter(|record| record.rdata.len() == len).count();
        let soa = records.iter().filter(|record| record.rtype == Rtype::SOA).count();
        assert_eq!((large, soa), if is_transferred { (1, 2) } else { (0, 1) }, "{len}");
    }
}

#[test]
fn glue_of_many_servers_is_that_of_each() {
    for count in counts() {
        let server = server((0..count).map(|n| {
            let address = [192, (n >> 8) as u8, n as u8, 1].map(|octet: u8| octet.to_string()).join(".");
            format!("cut.z. 60 NS s{n}.Cut.z.\ns{n}.cut.z. 60 A {address}\n")
        }));
        let got = server.ask(&query("www.cut.z. A"), TCP);
        // Some 20 octets for each NS record and 16 to 24 for its address.
        if count > 1000 {
            assert_eq!((got.rcode, got.flags.truncated, got.authority.len()), (Rcode::SERVFAIL, false, 0), "{count}");
            continue;
        }
        assert_eq!((got.flags.truncated, got.authority.len(), got.additional.len()), (false, count, count), "{count}");
        for record in &got.additional {
            let n = usize::from(record.rdata[1]) << 8 | usize::from(record.rdata[2]);
            assert_eq!(record.owner, name(&format!("s{n}.cut.z.")), "{count}");
        }
    }
}

/// RFC 4035 3.1.1: glue of a signed sibling has its RRSIG records, past the reach of pointers too, if they fit.
#[test]
fn rfc_4035_3_1_1_signed_sibling_glue_keeps_its_signatures_if_they_fit() {
    let mut cropped = 0;
    for (count, octets) in [(10, 64), (200, 64), (400, 64), (400, 128), (600, 128)] {
        let signature = "AAAA".repeat(octets / 3);
        let server = server((0..count).map(|n| {
            format!("cut.z. 60 NS s{n}.Sib.z.\ns{n}.Sib.z. 60 A 192.0.{}.{}\n", n / 256, n % 256)
                + &format!("s{n}.Sib.z. 60 RRSIG A 13 3 60 20300101000000 20200101000000 1 z. {signature}\n")
        }));
        let query = query("www.cut.z. A +do");
        let got = server.ask(&query, TCP);
        let of_type = |rtype| got.additional.iter().filter(|record| record.rtype == rtype).collect::<Vec<_>>();
        let (addresses, signatures) = (of_type(Rtype::A), of_type(Rtype::RRSIG));
        assert_eq!((got.flags.truncated, got.authority.len()), (false, count), "{count}");
        for record in addresses {
            let n = usize::from(record.rdata[2]) * 256 + usize::from(record.rdata[3]);
            assert_eq!(record.owner, name(&format!("s{n}.sib.z.")), "{count}");
        }
        if signatures.len() < count {
            let len = server.exchange(&query.to_wire(), TCP).expect("a response").len();
            assert!(len + 16 > usize::from(u16::MAX), "{count}: {len} octets leave room for an address");
            cropped += 1;
        } else {
            server.ask_as_oracle(&query);
        }
    }
    assert_eq!(cropped, 2, "400 and 600 signatures of 128 octets do not fit");
}

/// RFC 4343 4.1, RFC 2782: past the reach of pointers, too, owners have the case of the zone and targets their addresses.
#[test]
fn rfc_4343_4_1_owners_past_the_reach_of_pointers_are_in_the_case_of_the_zone() {
    let rrsig = "60 RRSIG CNAME 13 2 60 20300101000000 20200101000000 1 z.";
    for len in (15_900..16_500).step_by(30) {
        let server = Server::new(&[(
            "z.",
            &format!(
                "z. 60 IN SOA ns. host. 1 2 3 4 5\nz. 60 NS ns.\na.z. 60 CNAME b.z.\na.z. {rrsig} {}\n\
                B.z. 60 SRV 0 0 1 Host.z.\nB.z. 60 SRV 0 0 2 Host.z.\nHost.z. 60 A 192.0.2.1\nHost.z. 60 AAAA 2001:db8::1\n",
                "AAAA".repeat(len / 3)
            ),
        )]);
        let got = server.ask_as_oracle(&query("a.z. SRV +do"));
        let owners = |records: &[Record]| records.iter().map(|record| record.owner.to_string()).collect::<Vec<_>>();
        assert_eq!(owners(&got.answer), ["a.z.", "a.z.", "B.z.", "B.z."], "{len}");
        assert_eq!(owners(&got.additional), ["Host.z.", "Host.z."], "{len}");
    }
}

/// RFC 4035 3.1.3.3: the proof for a wildcard answer follows it, even past the greatest pointer offset.
#[test]
fn a_large_wildcard_is_proven() {
    for count in counts().filter(|count| *count < 600) {
        let rrsig =
            |owner, rtype| format!("{owner} 60 RRSIG {rtype} 13 1 60 20300101000000 20200101000000 1 z. AAAA\n");
        let texts = (0..count).map(|n| format!("*.z. 60 TXT {:a<90} {n}\n", ""));
        let chain = "z. 60 NSEC *.z. NS SOA\n*.z. 60 NSEC alias.z. TXT\nalias.z. 60 NSEC z. CNAME\n".to_owned();
        let server = server(texts.chain([chain, rrsig("*.z.", "TXT"), rrsig("alias.z.", "NSEC")]));
        let edns = Edns { dnssec_ok: true, ..Edns::default() };
        let got = server.ask(&query("large.z. TXT").with_edns(edns), TCP);
        assert_eq!((got.flags.truncated, got.answer.len()), (false, count + 1), "{count}");
        let proof: Vec<_> = got.authority.iter().map(|it| (it.owner.to_string(), it.rtype)).collect();
        assert_eq!(proof, [Rtype::NSEC, Rtype::RRSIG].map(|rtype| ("alias.z.".to_owned(), rtype)), "{count}");
    }
}

/// RFC 1035 4.1.4: an alias that leads to another zone may be written so far back that no pointer reaches the apex.
#[test]
fn owners_of_proofs_are_right_where_no_pointer_reaches_the_apex() {
    let label = "x".repeat(63);
    let other = "other. 60 IN SOA ns. host. 1 2 3 4 5\nother. 60 NS ns.\nother. 60 NSEC a.other. SOA NS\n\
        a.other. 60 TXT a\na.other. 60 NSEC other. TXT\n";
    let rrsig = "60 RRSIG CNAME 13 2 60 20300101000000 20200101000000 1 z.";
    for len in (15_600..16_500).step_by(30) {
        let zone = format!(
            "z. 60 IN SOA ns. host. 1 2 3 4 5\nz. 60 NS ns.\na.z. 60 CNAME x.d.z.\na.z. {rrsig} {}\n\
            d.z. 60 DNAME {label}.{label}.{label}.other.\n",
            "AAAA".repeat(len / 3)
        );
        let server = Server::new(&[("z.", &zone), ("other.", other)]);
        let got = server.ask_as_oracle(&query("a.z. TXT +do"));
        let types: Vec<_> = got.authority.iter().map(|record| record.rtype).collect();
        assert_eq!((got.flags.truncated, &types[..]), (false, &[Rtype::SOA, Rtype::NSEC, Rtype::NSEC][..]), "{len}");
    }
}

/// RFC 1035 4.1.4: names in RDATA are spelled out where no pointer reaches them: of each type, before and after the greatest
/// offset, and with an owner in the case of the zone (RFC 4343 4.1).
#[test]
fn names_in_rdata_are_spelled_out_past_the_reach_of_pointers() {
    let rrsig = |rtype| format!("60 RRSIG {rtype} 13 2 60 20300101000000 20200101000000 1 z.");
    let mut lines =
        String::from("x.z. 60 NS ns.x.z.\nx.z. 60 NS a.b.c.z.\nns.x.z. 60 A 192.0.2.9\na.b.c.z. 60 A 192.0.2.8\n");
    for n in 0..30 {
        lines += &format!(
            "{{far}} 60 MX {n} a.m{n}.Servers.test.\n{{far}} 60 MX {n} m{n}.{{far}}\nm{n}.{{far}} 60 A 192.0.2.{n}\n\
            {{far}} 60 PTR a.m{n}.servers.test.\n{{far}} 60 MINFO m{n}.z. x.m{n}.z.\n{{far}} 60 MB m{n}.{{far}}\n",
        );
    }
    for (owner, len) in
        ["Far.z.", "far.z."].into_iter().flat_map(|owner| (11_000..16_600).step_by(140).map(move |len| (owner, len)))
    {
        let zone = format!(
            "z. 60 IN SOA ns.z. host.z. 1 2 3 4 5\nz. 60 NS ns.z.\na.z. 60 CNAME {owner}\nb.z. 60 CNAME c.z.\nc.z. 60 CNAME d.z.\n\
            e.z. 60 CNAME w.x.z.\na.z. {0} {1}\nb.z. {0} {1}\ne.z. {0} {1}\n{owner} {2} AAAA\n{3}",
            rrsig("CNAME"),
            "AAAA".repeat(len / 3),
            rrsig("MX"),
            lines.replace("{far}", owner)
        );
        let server = Server::new(&[("z.", &zone)]);
        for (question, answers, authorities) in [
            ("a.z. MX +do", 63, 0),
            ("a.z. PTR +do", 32, 0),
            ("a.z. MINFO +do", 32, 0),
            ("a.z. MB +do", 32, 0),
            ("a.z. TXT +do", 2, 1),
            ("b.z. TXT +do", 3, 1),
            ("e.z. TXT +do", 2, 2),
        ] {
            let got = server.ask_as_oracle(&query(question));
            assert_eq!(
                (got.rcode == Rcode::SERVFAIL, got.flags.truncated, got.answer.len(), got.authority.len()),
                (false, false, answers, authorities),
                "{question} {owner} {len}"
            );
        }
    }
}

/// RFC 2782: each record of an RRset past the reach of pointers spells its owner out; addresses are those of its targets.
#[test]
fn rfc_2782_targets_past_the_reach_of_pointers_get_their_addresses() {
    let signature = "AAAA".repeat(6_000);
    let lines = (1..4).map(|n| {
        format!("Far.z. 60 SRV 0 0 53 t{n}.z.\nFar.z. 60 HTTPS {n} t{n}.z. port=53\nt{n}.z. 60 A 192.0.2.{n}\n")
    });
    let alias =
        format!("a.z. 60 CNAME Far.z.\na.z. 60 RRSIG CNAME 13 2 60 20300101000000 20200101000000 1 z. {signature}\n");
    let server = server(lines.chain([alias]));
    for rtype in [Rtype::SRV, Rtype::HTTPS] {
        let edns = Edns { dnssec_ok: true, ..Edns::default() };
        let got = server.ask(&query(&format!("a.z. {rtype}")).with_edns(edns), TCP);
        let owners: Vec<_> = got.additional.iter().map(|record| record.owner.to_string()).collect();
        assert_eq!((got.answer.len(), &owners[..]), (5, &["t1.z.", "t2.z.", "t3.z."].map(String::from)[..]), "{rtype}");
    }
}

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}
