//! RFC 1996: NOTIFY, from clients that may send it and from others.

use std::net::IpAddr;
use std::sync::Arc;

use answer::Transport::Udp;
use answer::{
    Acl, AclEntry, AnswerConfig, KeyRing, RateLimitConfig, ReceivedNotify, RefusalReason, Request, Response, Served,
    ServedZone, Transport, WorkerState, ZoneAcls, ZoneExtras, ZoneState,
};
use wire::message::{Edns, Message, Opcode, Rcode, Record};
use wire::tsig::{TsigError, TsigKey, TsigSigner, TsigVerifier};
use wire::{AddressPrefix, Class, Name, Rtype};

use crate::subject::{self, NOW_S, PEER, TCP};

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

fn key(text: &str) -> Arc<TsigKey> {
    Arc::new(TsigKey::new("hmac-sha256", name(text).as_ref(), text.as_bytes()).expect("a known algorithm"))
}

/// A server of zones that may be announced by the peer (`by-address.`, loaded; `missing.` and `expired.`), by a key (`by-key.`), and
/// by nobody (`closed.`).
fn server() -> Arc<Served> {
    let by_address = Acl(vec![AclEntry::of_addresses(AddressPrefix::single(PEER))]);
    let by_key = Acl(vec![AclEntry { key: Some(name("key.")), ..AclEntry::default() }]);
    let zone = |apex: &str| {
        ZoneState::Loaded(subject::zone(&name(apex), "@ 60 SOA ns. host. 1 2 3 4 5\n@ 60 NS ns.elsewhere.\n"))
    };
    let served = [
        (zone("by-address."), by_address.clone()),
        (ZoneState::Unavailable(name("missing.")), by_address.clone()),
        (ZoneState::Expired(name("expired.")), by_address.clone()),
        (zone("by-key."), by_key),
        // Clients that may transfer may not announce.
        (zone("closed."), Acl::default()),
    ]
    .map(|(state, notify)| {
        let acls = ZoneAcls { transfer: by_address.clone(), notify, ..ZoneAcls::default() };
        ServedZone::new(state, ZoneExtras::new(acls, Vec::new()))
    });
    let rate_limit =
        Some(RateLimitConfig { responses_per_second: 1, slip: 0, ipv4_prefix_len: 24, ipv6_prefix_len: 56 });
    let keys = KeyRing::new([key("key."), key("other.")]);
    subject::serve_zones(served, AnswerConfig { keys, rate_limit, ..AnswerConfig::default() })
}

fn notify(apex: &str) -> Message {
    Message { id: 0x1234, opcode: Opcode::NOTIFY, ..Message::query(name(apex), Rtype::SOA) }
}

fn soa(owner: &str, serial: u32) -> Record {
    let rdata = [b"\x02ns\x00\x04host\x00".as_slice(), &[serial, 2, 3, 4, 5].map(u32::to_be_bytes).concat()].concat();
    Record { owner: name(owner), rtype: Rtype::SOA, class: Class::IN, ttl: 60, rdata }
}

/// The octets of the response, and what is passed on.
fn send(
    served: &Arc<Served>,
    message: &[u8],
    transport: Transport,
    has_room: bool,
) -> (Vec<u8>, Option<ReceivedNotify>) {
    let (mut out, mut passed_on) = (vec![0; 65_535], None);
    let len = match subject::reply(served, message, transport, &mut out) {
        Response::Send(len) => len,
        Response::Notify(pending) => pending.finish(&mut out, |notify| {
            passed_on = Some(notify);
            has_room
        }),
        Response::Drop | Response::Stream(_) | Response::Update(_) => panic!("no response"),
    };
    out.truncate(len);
    (out, passed_on)
}

fn announced(apex: &str, serial: Option<u32>) -> Option<ReceivedNotify> {
    Some(ReceivedNotify { apex: name(apex), serial, from: PEER })
}

#[test]
fn rfc_1996_3_7_an_allowed_client_announces_a_zone_with_or_without_data() {
    let served = server();
    for transport in [Udp, TCP] {
        for apex in ["by-address.", "missing.", "expired."] {
            for edns in [None, Some(Edns::default())] {
                let sent = Message { edns, ..notify(&apex.to_uppercase()) };
                let (got, passed_on) = send(&served, &sent.to_wire(), transport, true);
                let got = Message::parse(&got).expect("well-formed");
                assert_eq!((got.id, got.rcode, got.opcode), (0x1234, Rcode::NOERROR, Opcode::NOTIFY));
                assert!(got.flags.response && got.flags.authoritative && got.answer.is_empty());
                assert_eq!((got.questions, got.edns.is_some()), (sent.questions, sent.edns.is_some()));
                assert_eq!(passed_on, announced(apex, None));
            }
        }
    }
}

#[test]
fn rfc_1996_3_7_the_serial_is_that_of_the_zone_in_the_answer_section() {
    let served = server();
    for (answer, serial) in [
        (vec![soa("by-address.", 7)], Some(7)),
        (vec![soa("other.", 8)], None),
        (vec![Record { rtype: Rtype::NS, rdata: vec![0], ..soa("by-address.", 8) }, soa("BY-address.", 7)], Some(7)),
    ] {
        let sent = Message { answer, ..notify("by-address.") };
        assert_eq!(send(&served, &sent.to_wire(), Udp, true).1, announced("by-address.", serial));
    }
    let elsewhere = Message { authority: vec![soa("by-address.", 7)], ..notify("by-address.") };
    assert_eq!(send(&served, &elsewhere.to_wire(), Udp, true).1, announced("by-address.", None));
}

#[test]
fn rfc_1996_3_10_3_11_other_clients_and_zones_are_refused() {
    let served = server();
    let chaos = |mut sent: Message| {
        sent.questions[0].qclass = Class::CH;
        sent
    };
    for (sent, rcode) in [
        (notify("closed."), Rcode::REFUSED),
        (notify("by-key."), Rcode::REFUSED),
        (notify("elsewhere."), Rcode::NOTAUTH),
        (notify("www.by-address."), Rcode::NOTAUTH),
        (chaos(notify("by-address.")), Rcode::NOTAUTH),
        (notify("by-address.").with_edns(Edns { version: 1, ..Edns::default() }), Rcode::BADVERS),
    ] {
        let (got, passed_on) = send(&served, &sent.to_wire(), Udp, true);
        let got = Message::parse(&got).expect("well-formed");
        assert_eq!((got.rcode, got.opcode, passed_on), (rcode, Opcode::NOTIFY, None), "{sent:?}");
    }
}

#[test]
fn rfc_1996_3_7_a_malformed_notify_is_formerr() {
    let (served, good) = (server(), notify("by-address."));
    let several = Message { questions: [&good.questions[..], &good.questions[..]].concat(), ..good.clone() };
    let none = Message { questions: Vec::new(), ..good.clone() };
    let other_type = Message { opcode: Opcode::NOTIFY, ..Message::query(name("by-address."), Rtype::A) };
    let short = Message { answer: vec![Record { rdata: vec![0; 19], ..soa("by-address.", 1) }], ..good.clone() };
    let many = Message { answer: vec![soa("by-address.", 1); 17], ..good.clone() };
    let mut messages: Vec<Vec<u8>> = [several, none, other_type, short, many].iter().map(Message::to_wire).collect();
    messages.push([good.to_wire(), vec![0]].concat());
    // The owner points to itself.
    let mut looping = [good.to_wire(), vec![0xc0, 0, 0, 6, 0, 1, 0, 0, 0, 0, 0, 20], vec![0; 20]].concat();
    let owner = good.to_wire().len();
    (looping[7], looping[owner + 1]) = (1, owner as u8);
    messages.push(looping);
    for message in messages {
        let (got, passed_on) = send(&served, &message, Udp, true);
        assert_eq!((got[2], got[3], passed_on), (0xa0, Rcode::FORMERR.0 as u8, None), "{message:?}");
    }
}

/// RFC 8945 5.3: the response is signed as the message was, also if there is no room for the message.
#[test]
fn a_key_allows_notify_and_signs_the_response() {
    let served = server();
    for (key, allowed) in [(key("key."), true), (key("other."), false)] {
        for (transport, has_room) in [(Udp, true), (Udp, false), (TCP, true)] {
            let mut message = notify("by-key.").to_wire();
            let mac = TsigSigner::for_query(&*key).sign(&mut message, 0, NOW_S.into()).expect("short");
            let (got, passed_on) = send(&served, &message, transport, has_room);
            assert_eq!(TsigVerifier::new(&*key, &mac).verify(&got, NOW_S.into()), Ok(()));
            let rcode = match (allowed, has_room) {
                (true, true) => Rcode::NOERROR,
                (true, false) => Rcode::SERVFAIL,
                (false, _) => Rcode::REFUSED,
            };
            assert_eq!(Message::parse(&got).expect("well-formed").rcode, rcode);
            assert_eq!(passed_on, announced("by-key.", None).filter(|_| allowed));
        }
    }
    let mut forged = notify("by-key.").to_wire();
    TsigSigner::for_query(&*key("key.")).sign(&mut forged, 0, NOW_S.into()).expect("short");
    forged[0] ^= 1;
    let last = forged.len() - 20;
    forged[last] ^= 1;
    let (got, passed_on) = send(&served, &forged, Udp, true);
    assert_eq!((got[3] & 15, passed_on), (Rcode::NOTAUTH.0 as u8, None));
}

/// A primary announces many zones at once; forged messages must not be amplified.
#[test]
fn only_refused_notify_messages_are_rate_limited() {
    let served = server();
    let mut worker = WorkerState::new();
    let mut out = vec![0; 4096];
    let mut dropped = |apex: &str| {
        let message = notify(apex).to_wire();
        let mut replies = (0..100).map(|_| subject::reply_of(&mut worker, &served, &message, Udp, &mut out));
        replies.any(|reply| matches!(reply, Response::Drop))
    };
    assert!(!dropped("by-address.") && dropped("closed."));
}

/// Who is refused in silence cannot be helped: the listener logs one refused request per batch.
#[test]
fn a_refused_request_is_kept_for_the_log() {
    let served = server();
    let signed = |key: &str, message: &Message| {
        let mut octets = message.to_wire();
        TsigSigner::for_query(self::key(key)).sign(&mut octets, 0, NOW_S.into()).expect("room");
        octets
    };
    let transfer = Message::query(name("closed."), Rtype::AXFR);
    let update = Message { opcode: Opcode::UPDATE, ..Message::query(name("closed."), Rtype::SOA) };
    let wrong_key = RefusalReason::Signature(TsigError::BadKey);
    let stranger = IpAddr::from([192, 0, 2, 200]);
    for (peer, octets, reason, key) in [
        (PEER, notify("closed.").to_wire(), Some(RefusalReason::Notify), None),
        (PEER, signed("other.", &notify("closed.")), Some(RefusalReason::Notify), Some(name("other."))),
        (PEER, signed("unknown.", &notify("closed.")), Some(wrong_key), None),
        (PEER, update.to_wire(), Some(RefusalReason::Update), None),
        (PEER, transfer.to_wire(), None, None),
        (stranger, transfer.to_wire(), Some(RefusalReason::Transfer), None),
        (PEER, notify("by-address.").to_wire(), None, None),
    ] {
        let mut worker = WorkerState::new();
        let request = Request { message: &octets, peer, transport: TCP, now_s: NOW_S };
        answer::respond(&served, &mut worker, request, &mut [0; 65_535]);
        let refused = worker.take_refused();
        assert_eq!(refused.as_ref().map(|refused| refused.reason), reason);
        assert!(
            refused.is_none_or(|refused| (refused.zone, refused.client, refused.key) == (name("closed."), peer, key))
        );
        assert!(worker.take_refused().is_none());
    }
}
