//! Malformed queries of all kinds: responses stay within their limits and are well-formed.

use answer::CookieSecrets;
use answer::{Acl, AclEntry, AnswerConfig, MAX_UDP, Response, Transport, ZoneState};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use wire::message::{Edns, EdnsOption};
use wire::{AddressPrefix, Message};

use crate::random::questions::questions;
use crate::random::zones::zones;
use crate::subject::{self, PEER, TCP};

/// A mutation of a query.
#[derive(Clone, Debug)]
enum Mutation {
    Change(Index, u8),
    Insert(Index, u8),
    Cut(Index),
    Append(Vec<u8>),
}

impl Mutation {
    fn apply(&self, message: &mut Vec<u8>) {
        match self {
            Mutation::Change(at, octet) if !message.is_empty() => *at.get_mut(message) = *octet,
            Mutation::Change(..) => {}
            Mutation::Insert(at, octet) => message.insert(at.index(message.len() + 1), *octet),
            Mutation::Cut(at) => message.truncate(at.index(message.len() + 1)),
            Mutation::Append(octets) => message.extend_from_slice(octets),
        }
    }
}

fn mutations() -> impl Strategy<Value = Mutation> {
    let octet = || prop_oneof![any::<u8>(), proptest::sample::select(vec![0, 1, 41, 63, 64, 192, 250, 251, 252, 255])];
    prop_oneof![
        6 => (any::<Index>(), octet()).prop_map(|(at, octet)| Mutation::Change(at, octet)),
        2 => (any::<Index>(), octet()).prop_map(|(at, octet)| Mutation::Insert(at, octet)),
        1 => any::<Index>().prop_map(Mutation::Cut),
        1 => vec(octet(), 0..20).prop_map(Mutation::Append),
    ]
}

/// An OPT record with any payload and the options that a server knows, and others.
fn edns() -> impl Strategy<Value = Edns> {
    let code = proptest::sample::select(vec![3, 9, 10, 11, 19, 65_001]);
    let data = prop_oneof![Just(0), Just(8), Just(24), 0..40usize].prop_map(|len| vec![7; len]);
    let options = vec((code, data).prop_map(|(code, data)| EdnsOption { code, data }), 0..6);
    (any::<u16>(), any::<bool>(), options).prop_map(|(payload, dnssec_ok, options)| Edns {
        payload,
        dnssec_ok,
        options,
        ..Edns::default()
    })
}

fn options(udp_payload: u16, nsid_len: usize, has_cookies: bool) -> AnswerConfig {
    AnswerConfig {
        udp_payload,
        nsid: vec![b'n'; nsid_len].into(),
        cookies: has_cookies.then(|| CookieSecrets(vec![[1; 16]])),
        version: Some(vec![b'v'; 255].into()),
        ..AnswerConfig::default()
    }
}

/// Limits of a response.
fn limit(message: &[u8], transport: Transport, options_payload: u16) -> usize {
    let most = usize::from(options_payload).clamp(512, MAX_UDP);
    match (transport, Message::parse(message)) {
        (Transport::Tcp { .. }, _) => usize::from(u16::MAX),
        (_, Ok(query)) => query.edns.map_or(512, |edns| usize::from(edns.payload)).clamp(512, most),
        (_, Err(_)) => most,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_comes_the_answer_is_a_message_and_fits(
        zones in zones(),
        (payload, nsid_len, has_cookies) in (any::<u16>(), 0..256usize, any::<bool>()),
        queries in vec((questions(), proptest::option::of(edns()), vec(mutations(), 0..4), any::<bool>()), 60),
    ) {
        let contents = zones.iter().map(|zone| ZoneState::Loaded(subject::zone(&zone.apex, &zone.text())));
        let transfer = Acl(vec![AclEntry::of_addresses(AddressPrefix::single(PEER))]);
        let served = subject::serve(contents, options(payload, nsid_len, has_cookies), transfer);
        let mut out = vec![0; usize::from(u16::MAX)];
        for (question, edns, mutations, over_tcp) in queries {
            let mut query = question.query(&zones);
            query.edns = edns;
            let mut message = query.to_wire();
            mutations.iter().for_each(|mutation| mutation.apply(&mut message));
            let transport = if over_tcp { TCP } else { Transport::Udp };
            out.fill(0xa5);
            let response = match subject::reply(&served, &message, transport, &mut out) {
                Response::Notify(pending) => Response::Send(pending.finish(&mut out, |_| true)),
                other => other,
            };
            match response {
                Response::Notify(_) => unreachable!("it is finished"),
                Response::Update(_) => unreachable!("nobody may update these zones"),
                Response::Send(len) => {
                    let limit = limit(&message, transport, payload);
                    prop_assert!(len <= limit, "{len} octets of {limit}");
                    prop_assert!(out[limit..].iter().all(|&octet| octet == 0xa5), "written past {limit}");
                    prop_assert!(Message::parse(&out[..len]).is_ok(), "{:?} for {:?}", &out[..len], message);
                    prop_assert_eq!(&out[..2], &message[..2]);
                }
                Response::Drop => prop_assert!(message.len() < 12 || message[2] & 0x80 != 0, "{message:?}"),
                Response::Stream(_) => prop_assert!(over_tcp),
            }
        }
    }
}
