//! RFC 1995: IXFR of zones with a history, received again as a secondary does.

use std::collections::BTreeMap;
use std::sync::Arc;

use answer::Transport::Udp;
use answer::{
    Acl, AclEntry, AnswerConfig, KeyRing, RateLimitConfig, Served, ServedZone, Transport, ZoneAcls, ZoneExtras,
    ZoneHistory, ZoneState, extend_history,
};
use proptest::collection::vec;
use proptest::prelude::*;
use wire::message::{Edns, Message, Rcode, Record};
use wire::tsig::{TsigKey, TsigSigner, TsigVerifier};
use wire::{AddressPrefix, Class, Name, Rtype};
use zone::change::{ChangeRules, ChangeSet};
use zone::encoded_change::EncodedChange;
use zone::transfer_receiver::{ReceiveStatus, Received, TransferLimits, TransferReceiver, TransferRequest};
use zone::zone_builder::ZoneBuilderOptions;
use zone::{CheckMode, Zone};

use crate::subject::{self, NOW_S, PEER, TCP};

const APEX: &str = "example.";
const RULES: ChangeRules = ChangeRules { check_mode: CheckMode::Lenient, nsec3_max_iterations: u16::MAX };

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

fn soa(serial: u32) -> Vec<u8> {
    [b"\x02ns\x00\x04host\x00".as_slice(), &[serial, 2, 3, 4, 5].map(u32::to_be_bytes).concat()].concat()
}

/// A version of the zone: the TXT record of each host.
type Hosts = BTreeMap<u8, Vec<u8>>;

/// A zone after changes, and those of them that are known.
struct Chain {
    zone: Zone,
    history: ZoneHistory,
}

/// Applies changes, each a list of hosts with the length of their new TXT record or none, to version 1. `known` changes are kept.
fn chain(changes: &[Vec<(u8, Option<u8>)>], known: usize) -> Chain {
    let text = "@ 60 SOA ns. host. 1 2 3 4 5\n@ 60 NS ns.elsewhere.\n";
    let (mut zone, mut hosts) = (subject::zone(&name(APEX), text), Hosts::new());
    let mut history = ZoneHistory::new();
    for (serial, change) in (1..).zip(changes) {
        let applied =
            zone.apply(change_set(serial, change, &mut hosts), RULES).unwrap_or_else(|error| panic!("{error:?}"));
        zone = applied.zone;
        history = extend_history(&history, applied.change, u64::MAX);
    }
    history.drain(..history.len().saturating_sub(known));
    Chain { zone, history }
}

fn change_set(serial: u32, change: &[(u8, Option<u8>)], hosts: &mut Hosts) -> ChangeSet {
    let apex = name(APEX);
    let mut set = ChangeSet::new(apex.as_ref());
    set.remove(apex.as_ref(), Rtype::SOA, &soa(serial)).expect("the apex");
    set.add(apex.as_ref(), Rtype::SOA, 60, &soa(serial + 1)).expect("the apex");
    // A host that is changed twice would have two records.
    let change: BTreeMap<u8, Option<u8>> = change.iter().copied().collect();
    for (host, len) in change {
        let owner = name(&format!("h{host}.{APEX}"));
        if let Some(old) = hosts.remove(&host) {
            set.remove(owner.as_ref(), Rtype::TXT, &old).expect("in the zone");
        }
        if let Some(len) = len {
            let rdata = [vec![len], vec![serial as u8; len.into()]].concat();
            set.add(owner.as_ref(), Rtype::TXT, 60, &rdata).expect("in the zone");
            hosts.insert(host, rdata);
        }
    }
    set
}

impl Chain {
    /// A server of the last version, which these clients may transfer.
    fn serve(&self, transfer: Acl, config: AnswerConfig) -> Arc<Served> {
        let acls = ZoneAcls { transfer, ..ZoneAcls::default() };
        let zone = ServedZone::new(ZoneState::Loaded(self.zone.clone()), ZoneExtras::new(acls, self.history.clone()));
        subject::serve_zones([zone], config)
    }

    /// The changes since this version.
    fn since(&self, serial: u32) -> Option<ZoneHistory> {
        let first = self.history.iter().position(|change| change.from_serial() == serial)?;
        Some(self.history[first..].to_vec())
    }
}

/// One change in place of several.
fn condensed(changes: &[EncodedChange]) -> Option<Vec<EncodedChange>> {
    Some(vec![EncodedChange::condense(changes).filter(|_| changes.len() > 1)?])
}

fn peer() -> Acl {
    Acl(vec![AclEntry::of_addresses(AddressPrefix::single(PEER))])
}

/// RFC 1995 3: the query has the SOA record of the client in its authority section.
fn ixfr(serial: u32, payload: Option<u16>) -> Message {
    let record = Record { owner: name(APEX), rtype: Rtype::SOA, class: Class::IN, ttl: 60, rdata: soa(serial) };
    let edns = payload.map(|payload| Edns { payload, ..Edns::default() });
    Message { authority: vec![record], edns, ..Message::query(name(APEX), Rtype::IXFR) }
}

/// The messages of the response, verified if a key is given.
fn exchange(served: &Arc<Served>, query: &Message, key: Option<&TsigKey>, transport: Transport) -> Vec<Vec<u8>> {
    let mut query = query.to_wire();
    let mac = key.map(|key| TsigSigner::for_query(key).sign(&mut query, 0, NOW_S.into()).expect("short"));
    let mut messages = if transport.is_udp() { Vec::new() } else { subject::transfer(served, &query) };
    if messages.is_empty() {
        messages.extend(subject::ask(served, &query, transport));
    }
    if let Some((key, mac)) = key.zip(mac) {
        let mut verifier = TsigVerifier::new(key, &mac);
        messages.iter().for_each(|message| assert_eq!(verifier.verify(message, NOW_S.into()), Ok(())));
        assert_eq!(verifier.finish(), Ok(()));
    }
    messages
}

fn receive(serial: u32, messages: &[Vec<u8>], is_udp: bool) -> Received {
    let request = TransferRequest { ixfr_from: Some(serial), not_before: None, is_udp };
    let options = ZoneBuilderOptions::default();
    let mut receiver = TransferReceiver::new(name(APEX).as_ref(), request, TransferLimits::default(), options);
    for (at, message) in messages.iter().enumerate() {
        let status = receiver.receive(message).expect("a message of a transfer");
        assert_eq!(status == ReceiveStatus::Complete, at + 1 == messages.len());
    }
    receiver.finish().expect("a complete transfer")
}

fn is_soa(received: &Received, serial: u32) -> bool {
    matches!(received, Received::SoaOnly { serial: got } if *got == serial)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// RFC 1995 2, 4: the changes that the client lacks, the SOA record for a current client, else the zone.
    #[test]
    fn rfc_1995_4_a_client_gets_the_changes_since_its_version(
        changes in vec(vec((0..30u8, proptest::option::of(any::<u8>())), 0..12), 1..6),
        known in 0..6usize,
        payload in proptest::option::of(400..4096u16),
        is_signed: bool,
    ) {
        let chain = chain(&changes, known);
        let key = Arc::new(TsigKey::new("hmac-sha256", name("key.").as_ref(), b"secret").expect("a known algorithm"));
        let config = AnswerConfig { keys: KeyRing::new([key.clone()]), udp_payload: 4096, ..AnswerConfig::default() };
        let served = chain.serve(peer(), config);
        let key = is_signed.then_some(&*key);
        let last = chain.zone.serial();
        for serial in 0..last + 2 {
            let query = ixfr(serial, payload);
            let over_tcp = exchange(&served, &query, key, TCP);
            let over_udp = exchange(&served, &query, key, Udp);
            let limit = usize::from(payload.unwrap_or(512).max(512));
            prop_assert!(over_udp.len() == 1 && over_udp[0].len() <= limit);
            let [by_tcp, by_udp] = [(&over_tcp, false), (&over_udp, true)].map(|(it, is_udp)| receive(serial, it, is_udp));
            match chain.since(serial) {
                Some(expected) => {
                    let Received::Changes(got) = by_tcp else { panic!("no changes for {serial}") };
                    prop_assert!(got == expected);
                    let fits = over_tcp.len() == 1 && over_tcp[0].len() <= limit;
                    match by_udp {
                        Received::Changes(got) if fits => prop_assert!(got == expected),
                        Received::Changes(got) => prop_assert!(Some(got) == condensed(&expected)),
                        other => prop_assert!(!fits && is_soa(&other, last)),
                    }
                }
                None if serial >= last => prop_assert!(is_soa(&by_tcp, last) && is_soa(&by_udp, last)),
                None => {
                    let Received::Full { zone, .. } = by_tcp else { panic!("no zone for {serial}") };
                    prop_assert_eq!(zone.serial(), last);
                    prop_assert!(is_soa(&by_udp, last));
                }
            }
        }
    }
}

#[test]
fn rfc_1995_4_changes_that_do_not_fit_into_a_datagram_are_condensed() {
    let chain = chain(&vec![vec![(1, Some(90))]; 9], 9);
    let served = chain.serve(peer(), AnswerConfig::default());
    let over_udp = receive(2, &exchange(&served, &ixfr(2, None), None, Udp), true);
    assert!(
        matches!(over_udp, Received::Changes(got) if Some(&got) == condensed(&chain.since(2).expect("known")).as_ref())
    );
    let over_tcp = receive(2, &exchange(&served, &ixfr(2, None), None, TCP), false);
    assert!(matches!(over_tcp, Received::Changes(got) if got.len() == 8));
}

#[test]
fn rfc_1995_2_the_changes_of_a_client_that_may_not_transfer_stay_here() {
    let served = chain(&[vec![(1, Some(9))]], 1).serve(Acl::default(), AnswerConfig::default());
    let got = exchange(&served, &ixfr(1, None), None, Udp);
    assert!(is_soa(&receive(1, &got, true), 2));
    let got = exchange(&served, &ixfr(1, None), None, TCP);
    assert_eq!(Message::parse(&got[0]).expect("well-formed").rcode, Rcode::REFUSED);
}

#[test]
fn changes_over_udp_are_rate_limited_unless_signed() {
    let key = Arc::new(TsigKey::new("hmac-sha256", name("key.").as_ref(), b"secret").expect("a known algorithm"));
    let rate_limit =
        Some(RateLimitConfig { responses_per_second: 1, slip: 1, ipv4_prefix_len: 24, ipv6_prefix_len: 56 });
    let config = AnswerConfig { rate_limit, keys: KeyRing::new([key.clone()]), ..AnswerConfig::default() };
    let served = chain(&[vec![(1, Some(9))]], 1).serve(peer(), config);
    let mut worker = answer::WorkerState::new();
    let mut ask = |query: &[u8]| subject::answer_of(&mut worker, &served, query, Udp).expect("an answer");
    let is_truncated = |got: &[u8]| got[2] & 2 != 0;
    let query = ixfr(1, None).to_wire();
    assert!(!is_truncated(&ask(&query)));
    let limited = (0..100).map(|_| ask(&query)).find(|got| is_truncated(got)).expect("it is over the limit");
    assert_eq!(limited[6..8], [0, 0]);
    let mut signed = query.clone();
    TsigSigner::for_query(&*key).sign(&mut signed, 0, NOW_S.into()).expect("short");
    assert!((0..100).all(|_| !is_truncated(&ask(&signed))));
}
