//! RFC 2136 and RFC 3007: which UPDATE messages are passed on, and how they are answered.

use std::sync::Arc;

use answer::Transport::Udp;
use answer::{
    Acl, AclEntry, AnswerConfig, KeyRing, Response, Served, ServedZone, Transport, UpdateAcl, UpdateEntry, UpdateRole,
    WorkerState, ZoneAcls, ZoneExtras, ZoneState,
};
use wire::message::{Edns, Message, Opcode, Question, Rcode, Record};
use wire::tsig::{TsigError, TsigKey, TsigSigner, TsigVerifier};
use wire::{AddressPrefix, Class, Name, Rtype};

use crate::subject::{self, NOW_S, PEER, TCP};

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

fn key(text: &str) -> Arc<TsigKey> {
    Arc::new(TsigKey::new("hmac-sha256", name(text).as_ref(), text.as_bytes()).expect("a known algorithm"))
}

/// Zones that the peer may update (`open.`, `missing.`), that a key may (`by-key.`), that nobody may (`closed.`), and secondaries that
/// forward updates (`forward.`, `forward-by-key.`) or do not (`secondary.`).
fn server() -> Arc<Served> {
    let by_address = AclEntry::of_addresses(AddressPrefix::single(PEER));
    let by_key = AclEntry { key: Some(name("key.")), ..AclEntry::default() };
    let entry = |client: &AclEntry| vec![UpdateEntry { client: client.clone(), ..UpdateEntry::default() }];
    let zone = |apex: &str| {
        ZoneState::Loaded(subject::zone(&name(apex), "@ 60 SOA ns. host. 1 2 3 4 5\n@ 60 NS ns.elsewhere.\n"))
    };
    let served = [
        (zone("open."), entry(&by_address), UpdateRole::Apply),
        (ZoneState::Unavailable(name("missing.")), entry(&by_address), UpdateRole::Apply),
        (zone("by-key."), entry(&by_key), UpdateRole::Apply),
        (zone("closed."), Vec::new(), UpdateRole::Apply),
        (zone("forward."), Vec::new(), UpdateRole::Forward),
        (ZoneState::Expired(name("forward-by-key.")), entry(&by_key), UpdateRole::Forward),
        (zone("secondary."), entry(&by_address), UpdateRole::Ignore),
    ];
    let served = served.map(|(state, entries, role)| {
        // Clients that may transfer or announce may not update.
        let others = Acl(vec![by_address.clone()]);
        let acls = ZoneAcls { transfer: others.clone(), notify: others, update: UpdateAcl { entries, role } };
        ServedZone::new(state, ZoneExtras::new(acls, Vec::new()))
    });
    let keys = KeyRing::new([key("key."), key("other.")]);
    subject::serve_zones(served, AnswerConfig { keys, ..AnswerConfig::default() })
}

/// An update that adds an address.
fn update(apex: &str) -> Message {
    let owner = name(&format!("a.{apex}"));
    let added = Record { owner, rtype: Rtype::A, class: Class::IN, ttl: 60, rdata: vec![192, 0, 2, 1] };
    let opcode = Opcode::UPDATE;
    Message { id: 0x1234, opcode, authority: vec![added], ..Message::query(name(apex), Rtype::SOA) }
}

/// The RCODE of an update that is answered at once; `Ok` with the pending one if it is passed on.
fn send(
    served: &Arc<Served>,
    message: &[u8],
    transport: Transport,
) -> Result<Box<answer::PendingUpdate>, (Rcode, Vec<u8>)> {
    let mut out = vec![0; 65_535];
    match subject::reply(served, message, transport, &mut out) {
        Response::Update(pending) => Ok(pending),
        Response::Send(len) => {
            let got = Message::parse(&out[..len]).expect("well-formed");
            assert_eq!((got.id, got.opcode, got.flags.response), (0x1234, Opcode::UPDATE, true));
            assert!(got.answer.is_empty() && got.authority.is_empty());
            out.truncate(len);
            Err((got.rcode, out))
        }
        _ => panic!("no response"),
    }
}

fn refusal(served: &Arc<Served>, message: &[u8]) -> Rcode {
    send(served, message, Udp).err().expect("it is answered at once").0
}

#[test]
fn rfc_2136_3_8_an_allowed_update_is_passed_on_and_answered_later() {
    let served = server();
    for transport in [Udp, TCP] {
        for edns in [None, Some(Edns::default())] {
            let sent = Message { edns, ..update("OPEN.") };
            let pending = send(&served, &sent.to_wire(), transport).expect("it is passed on");
            let passed_on = &pending.update;
            assert_eq!((passed_on.apex.wire(), passed_on.is_forwarded), (name("open.").wire(), false));
            assert_eq!(*passed_on.message, *sent.to_wire());
            assert_eq!((passed_on.client.address, &passed_on.client.key), (PEER, &None));
            let got = Message::parse(&pending.response.finish(Rcode::YXRRSET, NOW_S)).expect("well-formed");
            assert_eq!((got.id, got.opcode, got.rcode), (0x1234, Opcode::UPDATE, Rcode::YXRRSET));
            // RFC 2136 2.2: of the flags, only QR is set.
            let flags = wire::message::Flags { response: true, ..Default::default() };
            assert_eq!((got.flags, &got.questions), (flags, &sent.questions));
            assert_eq!(got.edns.is_some(), sent.edns.is_some());
        }
    }
}

#[test]
fn rfc_2136_3_1_to_3_3_who_may_not_update_gets_an_error() {
    let served = server();
    let of_class = |qclass| {
        let sent = update("open.");
        Message { questions: vec![Question { qclass, ..sent.questions[0].clone() }], ..sent }
    };
    let version_1 = Some(Edns { version: 1, ..Edns::default() });
    for (sent, rcode) in [
        (update("closed."), Rcode::REFUSED),
        (update("by-key."), Rcode::REFUSED),
        (update("forward-by-key."), Rcode::REFUSED),
        (update("missing."), Rcode::SERVFAIL),
        (update("secondary."), Rcode::NOTIMP),
        (update("elsewhere."), Rcode::NOTAUTH),
        (update("below.open."), Rcode::NOTAUTH),
        (of_class(Class::CH), Rcode::NOTAUTH),
        (Message { edns: version_1, ..update("open.") }, Rcode::BADVERS),
    ] {
        assert_eq!(refusal(&served, &sent.to_wire()), rcode, "{sent:?}");
    }
}

#[test]
fn rfc_2136_3_1_1_a_malformed_update_is_formerr() {
    let (served, good) = (server(), update("open."));
    let two_zones = Message { questions: [&good.questions[..], &good.questions[..]].concat(), ..good.clone() };
    let no_zone = Message { questions: Vec::new(), ..good.clone() };
    let other_type = Message { opcode: Opcode::UPDATE, id: 0x1234, ..Message::query(name("open."), Rtype::A) };
    let mut messages: Vec<Vec<u8>> = [two_zones, no_zone, other_type].iter().map(Message::to_wire).collect();
    let good = good.to_wire();
    messages.push([&good[..], &[0]].concat());
    messages.push(good[..good.len() - 1].to_vec());
    messages.push(good[..12].to_vec());
    for section in [7, 9, 11] {
        let mut counted = good.clone();
        counted[section] += 1;
        messages.push(counted);
    }
    for message in messages {
        assert_eq!(refusal(&served, &message), Rcode::FORMERR, "{message:?}");
    }
}

fn signed(message: &Message, key: &TsigKey) -> (Vec<u8>, wire::tsig::Mac) {
    let mut octets = message.to_wire();
    let mac = TsigSigner::for_query(key).sign(&mut octets, 0, NOW_S.into()).expect("short");
    (octets, mac)
}

#[test]
fn rfc_3007_3_a_key_allows_updates_and_signs_their_responses() {
    let served = server();
    let (octets, mac) = signed(&update("by-key."), &key("key."));
    let pending = send(&served, &octets, Udp).expect("it is passed on");
    assert_eq!(pending.update.client.key, Some(name("key.")));
    let later_s = NOW_S + 100;
    let got = pending.response.finish(Rcode::NXRRSET, later_s);
    assert_eq!(Message::parse(&got).expect("well-formed").rcode, Rcode::NXRRSET);
    assert_eq!(TsigVerifier::new(&*key("key."), &mac).verify(&got, later_s.into()), Ok(()));

    let (octets, mac) = signed(&update("by-key."), &key("other."));
    let (rcode, got) = send(&served, &octets, Udp).err().expect("it is refused");
    assert_eq!(rcode, Rcode::REFUSED);
    assert_eq!(TsigVerifier::new(&*key("other."), &mac).verify(&got, NOW_S.into()), Ok(()));

    let (mut forged, mac) = signed(&update("by-key."), &key("key."));
    let last = forged.len() - 20;
    forged[last] ^= 1;
    let (rcode, got) = send(&served, &forged, Udp).err().expect("it is refused");
    assert_eq!(rcode, Rcode::NOTAUTH);
    let verified = TsigVerifier::new(&*key("key."), &mac).verify(&got, NOW_S.into());
    assert_eq!(verified, Err(TsigError::FromPeer(16)), "BADSIG");
}

/// RFC 2136 6, RFC 8945 5.5: the primary knows the keys of its clients.
#[test]
fn a_forwarding_secondary_passes_on_what_unknown_keys_signed() {
    let served = server();
    let (octets, _) = signed(&update("forward."), &key("unknown."));
    let pending = send(&served, &octets, Udp).expect("it is passed on");
    assert!(pending.update.is_forwarded && pending.update.client.key.is_none());
    assert_eq!(*pending.update.message, *octets);
    // A response of the primary gets the ID of the client, and nothing else changes.
    let from_primary = [&[0xff, 0xee, 0xa8, 5][..], &[0; 8], b"rest"].concat();
    let relayed = pending.response.relay(from_primary.clone()).expect("a response");
    assert_eq!((&relayed[..2], &relayed[2..]), (&[0x12, 0x34][..], &from_primary[2..]));
    assert_eq!(pending.response.relay(vec![0; 11]), None, "too short");
    assert_eq!(pending.response.relay(vec![0; 513]), None, "too long for UDP without EDNS");

    for (signer, result) in [("unknown.", Err(Rcode::REFUSED)), ("other.", Err(Rcode::REFUSED)), ("key.", Ok(()))] {
        let (octets, _) = signed(&update("forward-by-key."), &key(signer));
        let sent = send(&served, &octets, Udp);
        assert_eq!(sent.map(|_| ()).map_err(|(rcode, _)| rcode), result, "{signer}");
    }
    // One who claims to have a key of this server must have it.
    let (mut forged, _) = signed(&update("forward."), &key("key."));
    let last = forged.len() - 20;
    forged[last] ^= 1;
    assert_eq!(refusal(&served, &forged), Rcode::NOTAUTH);
}

/// A burst of updates must not be dropped; refusals must not be amplified.
#[test]
fn only_refused_updates_are_rate_limited() {
    let rate_limit =
        answer::RateLimitConfig { responses_per_second: 1, slip: 0, ipv4_prefix_len: 24, ipv6_prefix_len: 56 };
    let zones = &server().zones;
    let config = Arc::new(AnswerConfig { rate_limit: Some(rate_limit), ..AnswerConfig::default() });
    let served = Arc::new(Served { zones: zones.clone(), config });
    let (mut worker, mut out) = (WorkerState::new(), vec![0; 4096]);
    let mut dropped = |apex: &str| {
        let message = update(apex).to_wire();
        let mut replies = (0..100).map(|_| subject::reply_of(&mut worker, &served, &message, Udp, &mut out));
        replies.any(|reply| matches!(reply, Response::Drop))
    };
    assert!(!dropped("open.") && dropped("closed."));
}
