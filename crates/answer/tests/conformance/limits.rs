//! Response rate limiting: which responses count as identical, and what is sent over the limit.

use std::sync::Arc;

use answer::CookieSecrets;
use answer::RateLimitConfig;
use answer::Transport::Udp;
use answer::{Acl, AnswerConfig, Response, Served, WorkerState, ZoneState};
use wire::message::{Edns, EdnsOption, Message, Opcode};

use crate::server::query;
use crate::subject;

const ZONE: &str = "
@ 60 SOA ns. host. 1 2 3 4 5
@ 60 NS ns.
www 60 A 192.0.2.1
*.wild 60 A 192.0.2.2
moved 60 DNAME wild
cut 60 NS ns.
*.cuts 60 NS ns.
*.\\001 60 A 192.0.2.3
";

/// One zone, at a limit of one response per second.
fn served() -> Arc<Served> {
    let zone = subject::zone(&"example.".parse().expect("a name"), ZONE);
    let limits = RateLimitConfig { responses_per_second: 1, slip: 1, ipv4_prefix_len: 24, ipv6_prefix_len: 56 };
    let cookies = Some(CookieSecrets(vec![[7; 16]]));
    let options = AnswerConfig { rate_limit: Some(limits), cookies, ..AnswerConfig::default() };
    subject::serve([ZoneState::Loaded(zone)], options, Acl::default())
}

/// The answers that one worker gives to the same client at the same time.
fn ask(queries: &[Message]) -> Vec<Message> {
    ask_raw(queries.iter().map(Message::to_wire))
}

fn ask_raw(queries: impl IntoIterator<Item = Vec<u8>>) -> Vec<Message> {
    let (served, mut worker, mut out) = (served(), WorkerState::new(), vec![0; answer::MAX_UDP]);
    let answer = |query: Vec<u8>| {
        let Response::Send(len) = subject::reply_of(&mut worker, &served, &query, Udp, &mut out) else {
            panic!("all slip");
        };
        Message::parse(&out[..len]).expect("a well-formed answer")
    };
    queries.into_iter().map(answer).collect()
}

/// RFC 6891 6.1.1: OPT answers OPT. RFC 7873 5.2.3: the cookie in it lets the client through the next time.
#[test]
fn what_slips_has_its_opt() {
    let options = vec![EdnsOption { code: 10, data: vec![1; 8] }];
    let asked = query("www.example. A").with_edns(Edns { options, ..Edns::default() });
    let got = ask(&[asked.clone(), asked, query("www.example. A")]);
    assert!(!got[0].flags.truncated && got[1].flags.truncated && got[2].flags.truncated);
    assert_eq!((&got[1].answer[..], &got[1].edns), (&[][..], &got[0].edns));
    assert_eq!(got[1].edns.as_ref().map(|edns| edns.options[0].data.len()), Some(24));
    assert_eq!(got[2].edns, None);
}

/// A flood of random names is limited like a flood of one name.
#[test]
fn answers_to_random_names_are_alike() {
    for (about, questions) in [
        ("one name", ["www.example. A", "WWW.Example. A", "www.example. A"]),
        ("a wildcard", ["a.wild.example. A", "b.wild.example. A", "c.b.a.wild.example. A"]),
        ("a denial", ["a.example. A", "b.example. A", "c.b.a.EXAMPLE. A"]),
        ("a denial of a type", ["a.wild.example. TXT", "b.wild.example. MX", "www.example. AAAA"]),
        ("a wildcard below a name with escapes", ["a.\\001.example. A", "a.b.\\001.example. A", "c.\\001.example. A"]),
        ("a referral of a wildcard", ["a.cuts.example. A", "b.CUTS.example. A", "c.b.a.cuts.example. A"]),
        ("a referral", ["a.cut.example. A", "b.CUT.example. A", "cut.example. A"]),
        ("a redirection", ["a.moved.example. A", "b.MOVED.example. A", "c.b.moved.example. A"]),
        ("an error", ["a.test. A", "b.test. A", "elsewhere. A"]),
    ] {
        let got = ask(&questions.map(query));
        assert_eq!([0, 1, 2].map(|at: usize| got[at].flags.truncated), [false, true, true], "{about}");
    }
}

#[test]
fn answers_about_other_names_are_not_alike() {
    let questions =
        ["www.example. A", "a.wild.example. A", "a.moved.example. A", "a.cut.example. A", "a.example. A", "test. A"];
    assert!(ask(&questions.map(query)).iter().all(|answer| !answer.flags.truncated));
}

/// All errors are limited, FORMERR included, each RCODE separately.
#[test]
fn errors_are_alike() {
    let header = |opcode: u8, questions: u8| vec![0, 7, opcode << 3, 0, 0, questions, 0, 0, 0, 0, 0, 0];
    let update = |zone: &str| Message { opcode: Opcode::UPDATE, ..query(zone) }.to_wire();
    let version = |name: &str| query(name).with_edns(Edns { version: 1, ..Edns::default() }).to_wire();
    for (about, queries) in [
        ("FORMERR", [header(0, 1), header(4, 2), header(0, 0)]),
        ("NOTIMP", [header(1, 0), header(2, 0), header(15, 0)]),
        ("NOTAUTH", ["a.invalid. SOA", "b.invalid. SOA", "c. SOA"].map(update)),
        ("BADVERS", ["a.example. A", "b.test. A", "example. A"].map(version)),
    ] {
        let got = ask_raw(queries);
        assert_eq!([0, 1, 2].map(|at: usize| got[at].flags.truncated), [false, true, true], "{about}");
        assert!(got.iter().all(|it| it.rcode == got[0].rcode && it.edns == got[0].edns), "{about}");
    }
    let got = ask_raw([header(0, 1), header(1, 0), update("a.invalid. SOA"), query("test. A").to_wire()]);
    assert!(got.iter().all(|answer| !answer.flags.truncated));
}

/// RFC 7873 5.4: a cookie query has no question and is not counted for the previous query's name.
#[test]
fn answers_to_no_question_are_alike() {
    let options = vec![EdnsOption { code: 10, data: vec![1; 8] }];
    let mut empty = query(". A").with_edns(Edns { options, ..Edns::default() });
    empty.questions.clear();
    let got = ask(&[query("www.example. A"), empty.clone(), query("a.example. A"), empty, query("test. A")]);
    assert_eq!([0, 1, 2, 3, 4].map(|at: usize| got[at].flags.truncated), [false, false, false, true, false]);
}
