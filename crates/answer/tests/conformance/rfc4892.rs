//! RFC 4892: server identification in class CHAOS.

use answer::AnswerConfig;
use answer::Transport::Udp;
use wire::message::{Message, Rcode};
use wire::{Class, Rtype};

use crate::server::Server;

fn ask(options: AnswerConfig, name: &str, qtype: Rtype) -> Message {
    let mut query = Message::query(name.parse().expect("a name"), qtype);
    query.questions[0].qclass = Class::CH;
    Server::with_options(&[], options).ask(&query, Udp)
}

fn talkative() -> AnswerConfig {
    AnswerConfig { version: Some(b"Zonda 1"[..].into()), identity: Some(b"ns7"[..].into()), ..AnswerConfig::default() }
}

#[test]
fn rfc_4892_2_the_names_that_answer() {
    for (name, text) in [
        ("version.bind.", b"\x07Zonda 1".as_slice()),
        ("VERSION.server.", b"\x07Zonda 1"),
        ("id.server.", b"\x03ns7"),
        ("hostname.bind.", b"\x03ns7"),
    ] {
        let got = ask(talkative(), name, Rtype::TXT);
        assert_eq!((got.rcode, got.answer.len()), (Rcode::NOERROR, 1), "{name}");
        let record = &got.answer[0];
        assert_eq!((record.class, record.rtype, record.rdata.as_slice()), (Class::CH, Rtype::TXT, text), "{name}");
        assert_eq!(record.owner, got.questions[0].name);
    }
}

#[test]
fn rfc_4892_3_2_all_is_refused_unless_it_is_configured() {
    for name in ["version.bind.", "version.server.", "id.server.", "hostname.bind."] {
        assert_eq!(ask(AnswerConfig::default(), name, Rtype::TXT).rcode, Rcode::REFUSED, "{name}");
    }
    assert_eq!(ask(talkative(), "authors.bind.", Rtype::TXT).rcode, Rcode::REFUSED);
    assert_eq!(ask(talkative(), ".", Rtype::TXT).rcode, Rcode::REFUSED);
}
