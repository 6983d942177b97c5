//! The referral cache: a worker with cached referrals sends the same responses as one without.

use std::sync::Arc;

use answer::{Served, Transport, WorkerState};
use wire::message::{Edns, Message};

use crate::server::{dedented, query};
use crate::subject::{self, TCP};

const HEAD: &str = "example. 60 IN SOA ns. host. 1 2 3 4 5\nexample. 60 NS ns.\n";
const SIGNATURE: &str = "8 2 60 20300101000000 20200101000000 1 example. AAAA";

fn served(text: &str) -> Arc<Served> {
    subject::load(&[("example.".parse().expect("a name"), dedented(text))])
}

/// A zone with cuts of all kinds, signed.
fn cuts() -> Arc<Served> {
    let servers = |cut: &str, count: usize| {
        (0..count).fold(String::new(), |text, n| {
            let name = format!("ns{n}.{cut}.example.");
            text + &format!("{cut}.example. 60 NS {name}\n{name} 60 A 192.0.2.{n}\n{name} 60 AAAA 2001:db8::{n}\n")
        })
    };
    served(&format!(
        "{HEAD}{}{}{}{}
        example. 60 NSEC few.example. SOA NS RRSIG NSEC\nexample. 60 RRSIG NSEC {SIGNATURE}
        few.example. 60 DS 1 8 200 00112233\nfew.example. 60 RRSIG DS {SIGNATURE}
        many.example. 60 NSEC example. NS RRSIG NSEC\nmany.example. 60 RRSIG NSEC {SIGNATURE}
        away.example. 60 NS ns.elsewhere.\naway.example. 60 NS ns0.few.example.",
        servers("few", 3),
        servers("many", 14),
        servers("a.deep", 2),
        servers("huge", 90),
    ))
}

/// Queries at and below the cuts, with different name lengths and length limits.
fn questions() -> Vec<Vec<u8>> {
    let mut questions = Vec::new();
    for cut in ["few", "many", "away", "a.deep", "huge"] {
        for below in ["", "www.", "WWW.", "a.much.longer.name.", "x."] {
            let asked = query(&format!("{below}{cut}.EXAMPLE. A"));
            let edns = |payload, dnssec_ok| asked.clone().with_edns(Edns { payload, dnssec_ok, ..Edns::default() });
            let variants = [asked.clone(), edns(1232, false), edns(1232, true), edns(600, true)];
            questions.extend(variants.map(|query: Message| query.to_wire()));
        }
    }
    questions
}

#[test]
fn a_referral_given_again_is_the_same() {
    let (served, mut worker) = (cuts(), WorkerState::new());
    for round in 0..4 {
        for question in questions() {
            for transport in [Transport::Udp, TCP] {
                let again = subject::answer_of(&mut worker, &served, &question, transport);
                assert_eq!(again, subject::ask(&served, &question, transport), "round {round}: {question:?}");
            }
        }
    }
}

/// RFC 4035 3.1.1: signatures of addresses are left out where they do not fit, but not from later responses with more room.
#[test]
fn a_referral_without_signatures_is_not_remembered() {
    let signature = |name: &str, rtype| format!("{name} 60 RRSIG {rtype} {SIGNATURE}\n");
    let text = (0..4).fold(format!("{HEAD}cut.example. 60 NS n.cut.example.\n"), |text, n| {
        let name = format!("ns{n}.example.");
        text + &format!("cut.example. 60 NS {name}\n{name} 60 A 192.0.2.{n}\n") + &signature(&name, "A")
    });
    let (served, mut worker) = (served(&text), WorkerState::new());
    for payload in (512..800).chain([1232]) {
        let edns = Edns { payload, dnssec_ok: true, ..Edns::default() };
        let name = "a-rather-long-label.".repeat(8);
        let question = query(&format!("{name}cut.example. A")).with_edns(edns).to_wire();
        for _ in 0..3 {
            let again = subject::answer_of(&mut worker, &served, &question, Transport::Udp);
            assert_eq!(again, subject::ask(&served, &question, Transport::Udp), "{payload}");
        }
    }
}

#[test]
fn more_referrals_than_are_remembered_are_all_right() {
    let text = (0..6000).fold(HEAD.to_owned(), |text, n| {
        let pad = "x".repeat(n % 40);
        text + &format!(
            "c{n}.example. 60 NS ns{pad}.c{n}.example.\nns{pad}.c{n}.example. 60 A 10.0.{}.{}\n",
            n >> 8,
            n & 255
        )
    });
    let (served, mut worker) = (served(&text), WorkerState::new());
    for _ in 0..3 {
        for n in 0..6000 {
            let question = query(&format!("www.c{n}.example. A")).to_wire();
            for _ in 0..3 {
                let again = subject::answer_of(&mut worker, &served, &question, Transport::Udp);
                assert_eq!(again, subject::ask(&served, &question, Transport::Udp), "{n}");
            }
        }
    }
}

#[test]
fn a_new_version_is_answered_from() {
    let question = query("www.cut.example. A").to_wire();
    let mut worker = WorkerState::new();
    for n in 0..200 {
        // The allocator is likely to place each version at the address of the previous one.
        let served = served(&format!("{HEAD}cut.example. 60 NS ns.cut.example.\nns.cut.example. 60 A 192.0.2.{n}\n"));
        for _ in 0..3 {
            let again = subject::answer_of(&mut worker, &served, &question, Transport::Udp);
            assert_eq!(again, subject::ask(&served, &question, Transport::Udp), "version {n}");
        }
    }
}
