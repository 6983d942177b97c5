//! RFC 8945: signed queries to a server that has keys.

use std::sync::Arc;

use answer::Transport::Udp;
use answer::{Acl, AclEntry, AnswerConfig, KeyRing, Response, Served, Transport, ZoneState};
use wire::message::{Edns, EdnsOption, Message, Rcode};
use wire::tsig::{ALGORITHM_NAMES, Mac, TsigError, TsigKey, TsigSigner, TsigVerifier};
use wire::{Name, Rtype};

use crate::subject::{self, NOW_S, TCP};

const ZONE: &str = "
    example. 3600 SOA ns.invalid. host.invalid. 7 2 3 4 60
    example. 3600 NS ns.invalid.
    a.example. 3600 A 192.0.2.1
    big.example. 3600 TXT \"0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789\"
    big.example. 3600 TXT \"1123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789\"
    big.example. 3600 TXT \"2123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789\"
    big.example. 3600 TXT \"3123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789\"
    ";

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

fn key(algorithm: &str, text: &str) -> Arc<TsigKey> {
    Arc::new(TsigKey::new(algorithm, name(text).as_ref(), text.as_bytes()).expect("a known algorithm"))
}

/// A server with these keys; the first may transfer the zone.
fn served(keys: &[Arc<TsigKey>]) -> Arc<Served> {
    let config = AnswerConfig { keys: KeyRing::new(keys.iter().cloned()), ..AnswerConfig::default() };
    let access = Acl(vec![AclEntry { key: Some(keys[0].name().to_owned()), ..AclEntry::default() }]);
    let text: String = ZONE.lines().map(|line| format!("{}\n", line.trim_start())).collect();
    subject::serve([ZoneState::Loaded(subject::zone(&name("example."), &text))], config, access)
}

fn query(owner: &str, qtype: Rtype) -> Vec<u8> {
    Message { id: 7, ..Message::query(name(owner), qtype) }.to_wire()
}

fn signed(key: &TsigKey, mut query: Vec<u8>, time_s: u32) -> (Vec<u8>, Mac) {
    let mac = TsigSigner::for_query(key).sign(&mut query, 0, time_s.into()).expect("short");
    (query, mac)
}

/// The response to a signed query, verified.
fn verified(served: &Arc<Served>, key: &TsigKey, query: Vec<u8>, transport: Transport) -> (Vec<u8>, Message) {
    let (query, mac) = signed(key, query, NOW_S);
    let got = subject::ask(served, &query, transport).expect("an answer");
    assert_eq!(TsigVerifier::new(key, &mac).verify(&got, NOW_S.into()), Ok(()));
    let message = Message::parse(&got).expect("well-formed");
    assert_eq!(message.additional.last().map(|record| record.rtype), Some(Rtype::TSIG));
    (got, message)
}

#[test]
fn rfc_8945_5_3_responses_are_signed_in_all_algorithms() {
    for algorithm in ALGORITHM_NAMES {
        let key = key(algorithm, "key.");
        let served = served(std::slice::from_ref(&key));
        for (owner, rcode, answers) in
            [("a.example.", Rcode::NOERROR, 1), ("no.example.", Rcode::NXDOMAIN, 0), ("other.", Rcode::REFUSED, 0)]
        {
            for transport in [Udp, TCP] {
                let (_, got) = verified(&served, &key, query(owner, Rtype::A), transport);
                assert_eq!((got.rcode, got.answer.len()), (rcode, answers), "{algorithm} {owner}");
            }
        }
        let edns = Message {
            edns: Some(Edns { version: 1, ..Edns::default() }),
            ..Message::query(name("a.example."), Rtype::A)
        };
        assert_eq!(verified(&served, &key, edns.to_wire(), Udp).1.rcode, Rcode::BADVERS);
    }
}

#[test]
fn rfc_8467_4_1_signed_responses_are_padded_with_their_signature() {
    let key = key("hmac-sha256", "key.");
    let served = served(std::slice::from_ref(&key));
    let padding = EdnsOption { code: 12, data: Vec::new() };
    let edns = Some(Edns { options: vec![padding], ..Edns::default() });
    let query = Message { edns, ..Message::query(name("a.example."), Rtype::A) };
    let transport = Transport::Tls { idle_ds: 100, client_names: &[] };
    assert_eq!(verified(&served, &key, query.to_wire(), transport).0.len(), 468);
}

#[test]
fn rfc_8945_6_two_keys_are_valid_during_a_rollover() {
    let (old, new) = (key("hmac-sha1", "old."), key("hmac-sha512", "new."));
    let served = served(&[old.clone(), new.clone()]);
    for key in [old, new] {
        assert_eq!(verified(&served, &key, query("a.example.", Rtype::A), Udp).1.answer.len(), 1);
    }
}

#[test]
fn rfc_8945_5_3_a_response_truncated_for_tsig_has_the_question_alone() {
    let key = key("hmac-sha512", "key.");
    let served = served(std::slice::from_ref(&key));
    let plain = subject::ask(&served, &query("big.example.", Rtype::TXT), Udp).expect("an answer");
    assert!(plain.len() <= 512 && plain[2] & 2 == 0, "it fits without TSIG");
    let (octets, got) = verified(&served, &key, query("big.example.", Rtype::TXT), Udp);
    assert!(octets.len() <= 512, "{}", octets.len());
    assert_eq!((got.flags.truncated, got.rcode), (true, Rcode::NOERROR));
    assert_eq!((got.answer.len(), got.authority.len(), got.additional.len()), (0, 0, 1));
    assert_eq!(verified(&served, &key, query("big.example.", Rtype::TXT), TCP).1.answer.len(), 4);
}

#[test]
fn responses_fit_whatever_the_lengths_of_the_names_are() {
    let long = format!("{0}.{0}.{0}.{1}.", "k".repeat(63), "k".repeat(59));
    let key = key("hmac-sha512", &long);
    let served = served(std::slice::from_ref(&key));
    let owner = format!("{0}.{0}.{0}.{1}.example.", "q".repeat(63), "q".repeat(51));
    for (edns, limit) in [(None, 512), (Some(Edns { payload: 1232, ..Edns::default() }), 1232)] {
        let query = Message { edns, ..Message::query(name(&owner), Rtype::A) }.to_wire();
        let (octets, got) = verified(&served, &key, query.clone(), Udp);
        let signed_len = signed(&key, query, NOW_S).0.len();
        assert!(octets.len() <= signed_len.max(limit), "{} for {signed_len}", octets.len());
        assert_eq!(got.questions.len(), 1);
    }
}

#[test]
fn rfc_8945_5_2_failures_have_their_error() {
    let (key, other) = (key("hmac-sha256", "key."), key("hmac-sha256", "other."));
    let served = served(std::slice::from_ref(&key));
    let outcome = |query: &[u8], mac: &Mac, key: &TsigKey| {
        let got = subject::ask(&served, query, Udp).expect("an answer");
        let message = Message::parse(&got).expect("well-formed");
        assert!(message.answer.is_empty());
        (message.rcode, TsigVerifier::new(key, mac).verify(&got, NOW_S.into()))
    };
    let (good, mac) = signed(&key, query("a.example.", Rtype::A), NOW_S);
    let mut forged = good.clone();
    forged[13] ^= 1;
    assert_eq!(outcome(&forged, &mac, &key), (Rcode::NOTAUTH, Err(TsigError::FromPeer(16))), "BADSIG");
    let (unknown, unknown_mac) = signed(&other, query("a.example.", Rtype::A), NOW_S);
    assert_eq!(outcome(&unknown, &unknown_mac, &other), (Rcode::NOTAUTH, Err(TsigError::FromPeer(17))), "BADKEY");
    let (late, late_mac) = signed(&key, query("a.example.", Rtype::A), NOW_S - 301);
    // The response repeats the time of the query, so that a client with a wrong clock can verify it.
    let got = subject::ask(&served, &late, Udp).expect("an answer");
    let seen = TsigVerifier::new(&*key, &late_mac).verify(&got, u64::from(NOW_S) - 301);
    assert_eq!(seen, Err(TsigError::FromPeer(18)), "BADTIME");
    assert!(got.ends_with(&u64::from(NOW_S).to_be_bytes()[2..]), "the server's time");
}

#[test]
fn rfc_8945_5_3_1_each_message_of_a_transfer_is_signed() {
    let (allowed, other) = (key("hmac-sha256", "allowed."), key("hmac-sha256", "other."));
    let served = served(&[allowed.clone(), other.clone()]);
    let (axfr, mac) = signed(&allowed, query("example.", Rtype::AXFR), NOW_S);
    let messages = subject::transfer(&served, &axfr);
    assert!(!messages.is_empty());
    let mut verifier = TsigVerifier::new(&*allowed, &mac);
    for message in &messages {
        assert_eq!(Message::parse(message).expect("well-formed").additional.len(), 1);
        assert_eq!(verifier.verify(message, NOW_S.into()), Ok(()));
    }
    assert_eq!(verifier.finish(), Ok(()));
    assert_eq!(verified(&served, &other, query("example.", Rtype::AXFR), TCP).1.rcode, Rcode::REFUSED, "another key");
    let unsigned = subject::ask(&served, &query("example.", Rtype::AXFR), TCP).expect("an answer");
    assert_eq!(unsigned[3] & 15, Rcode::REFUSED.0 as u8, "no key");
}

#[test]
fn an_acl_entry_may_require_tls_or_the_name_of_a_client() {
    let client_names = [name("client.")];
    for (rule, allowed) in [
        (answer::TlsRule::Encrypted, [false, true, true]),
        (answer::TlsRule::ClientName(name("client.")), [false, false, true]),
    ] {
        let access = Acl(vec![AclEntry { tls: rule, ..AclEntry::default() }]);
        let text: String = ZONE.lines().map(|line| format!("{}\n", line.trim_start())).collect();
        let zone = ZoneState::Loaded(subject::zone(&name("example."), &text));
        let served = subject::serve([zone], AnswerConfig::default(), access);
        let tls = |client_names| Transport::Tls { idle_ds: 100, client_names };
        for (transport, allowed) in [TCP, tls(&[]), tls(&client_names)].into_iter().zip(allowed) {
            let mut out = vec![0; 65_535];
            let got = subject::reply(&served, &query("example.", Rtype::AXFR), transport, &mut out);
            assert_eq!(matches!(got, Response::Stream(_)), allowed, "{transport:?}");
        }
    }
}
