//! The cost of NSEC3 proofs (RFC 9276): digests are counted and bounded per query.

use std::sync::Arc;

use answer::{Served, Transport, WorkerState};
use wire::message::{Edns, EdnsOption, Message, Rcode};

use crate::server::query;
use crate::subject::{self, TCP};

/// RFC 9276 3.2: validators have accepted at least this many.
const ITERATIONS: u64 = 150;

/// A zone whose chain has the apex alone: opt-out leaves out an unsigned delegation and the many names above it.
fn served() -> Arc<Served> {
    let deep = "d.".repeat(100);
    let text = format!(
        "@ 60 SOA ns. host. 1 2 3 4 5\n@ 60 NS ns.\n@ 60 NSEC3PARAM 1 0 {ITERATIONS} aabb\n{deep}example. 60 NS ns.\n\
        *.a 60 CNAME x.b\n*.b 60 CNAME x.c\n*.c 60 CNAME nowhere\n{} 60 NSEC3 1 1 {ITERATIONS} aabb {} NS SOA\n",
        "0".repeat(32),
        "1".repeat(32)
    );
    subject::load(&[("example.".parse().expect("a name"), text)])
}

/// The answer to a query with DO, and the digests that were computed for it.
fn ask(question: &str, transport: Transport) -> (Message, u64) {
    let mut worker = WorkerState::new();
    let edns = Edns { dnssec_ok: true, ..Edns::default() };
    let asked = query(question).with_edns(edns).to_wire();
    let got = subject::answer_of(&mut worker, &served(), &asked, transport).expect("an answer");
    (Message::parse(&got).expect("a well-formed answer"), worker.counters.nsec3_digests)
}

#[test]
fn digests_are_counted() {
    for (question, rcode, hashes) in [
        // The hashes of the apex and of the wildcard below it are computed when the zone is loaded.
        ("example. A", Rcode::NOERROR, 0),
        ("nowhere.example. A", Rcode::NXDOMAIN, 0),
        // The next closer name of each wildcard.
        ("x.a.example. A", Rcode::NXDOMAIN, 3),
        // The name and its ancestors below the apex.
        ("d.d.d.example. A", Rcode::NOERROR, 3),
        ("example. SOA", Rcode::NOERROR, 0),
    ] {
        let (got, digests) = ask(question, TCP);
        assert_eq!((got.rcode, digests), (rcode, hashes * (1 + ITERATIONS)), "{question}");
    }
}

#[test]
fn rfc_9276_a_query_that_costs_too_much_fails() {
    for transport in [Transport::Udp, TCP] {
        let (got, digests) = ask(&format!("{}example. A", "d.".repeat(40)), transport);
        assert_eq!((got.rcode, digests), (Rcode::NOERROR, 40 * (1 + ITERATIONS)));
        let (got, digests) = ask(&format!("{}example. A", "d.".repeat(80)), transport);
        assert_eq!((got.rcode, got.flags.authoritative, got.flags.truncated), (Rcode::SERVFAIL, false, false));
        assert_eq!((&got.answer[..], &got.authority[..]), (&[][..], &[][..]));
        assert_eq!(got.edns.expect("OPT").options, [EdnsOption { code: 15, data: vec![0, 27] }]);
        assert!(digests <= 7503, "{digests}");
    }
}

/// The partial referral must not get into the referral cache.
#[test]
fn rfc_9276_a_referral_that_costs_too_much_fails_each_time() {
    let (served, mut worker) = (served(), WorkerState::new());
    let edns = Edns { dnssec_ok: true, ..Edns::default() };
    let asked = query(&format!("{}example. A", "d.".repeat(100))).with_edns(edns).to_wire();
    for _ in 0..4 {
        let got = subject::answer_of(&mut worker, &served, &asked, TCP).expect("an answer");
        assert_eq!(Message::parse(&got).expect("a well-formed answer").rcode, Rcode::SERVFAIL);
    }
}
