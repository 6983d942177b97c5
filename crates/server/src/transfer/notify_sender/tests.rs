//! The queue of NOTIFY, one message at a time.

use super::*;
use wire::Message;
use wire::Name;
use wire::serial::of_soa;
use wire::tsig::TsigKey;

fn zone(index: u32) -> ZoneId {
    ZoneId { index, generation: 0 }
}

fn soa(serial: u32) -> Arc<[u8]> {
    [&[0, 0][..], &serial.to_be_bytes(), &[0; 16]].concat().into()
}

fn peer(last: u8) -> PeerConfig {
    PeerConfig::plain(([192, 0, 2, last], 53).into())
}

fn at(ms: u64) -> Now {
    Now { s: (ms / 1000) as u32, ms }
}

/// The datagrams that are due: target, message.
fn sent(sender: &mut NotifySender, ms: u64) -> Vec<(SocketAddr, Message)> {
    let apex: Name = "example.org".parse().expect("a literal");
    let mut found = Vec::new();
    sender.send_due(
        at(ms),
        |_| Some(apex.as_ref()),
        |message| {
            if let NotifyTransport::Datagram(octets) = message.transport {
                found.push((message.target.address, Message::parse(octets).expect("well-formed")));
            }
        },
    );
    found
}

fn answer(query: &Message) -> Vec<u8> {
    let mut answer = query.clone();
    answer.flags.response = true;
    answer.answer.clear();
    answer.to_wire()
}

#[test]
fn rfc_1996_3_6_a_notify_is_repeated_until_it_is_answered_or_given_up() {
    for answered_at in [None, Some(3)] {
        let mut sender = NotifySender::new(1);
        sender.publish(zone(0), &soa(5), &[peer(1)]);
        let mut times = Vec::new();
        for ms in (0..300_000).step_by(500) {
            for (address, message) in sent(&mut sender, ms) {
                times.push(ms / 1000);
                if answered_at == Some(times.len()) {
                    let mut forged = answer(&message);
                    assert_eq!(sender.receive(peer(2).address, &forged, at(ms)), None);
                    forged[0] ^= 1;
                    assert_eq!(sender.receive(address, &forged, at(ms)), None);
                    assert_eq!(
                        sender.receive(address, &answer(&message), at(ms)).map(|answer| answer.zone),
                        Some(zone(0))
                    );
                }
            }
        }
        assert_eq!(times, [0, 2, 6], "then over TCP");
        assert_eq!(sender.counters().given_up, u64::from(answered_at.is_none()));
        assert_eq!((sender.next_time(), sender.targets.iter().flatten().count()), (None, 0));
        assert!(sender.unanswered.0.is_empty());
    }
}

fn serials(messages: &[(SocketAddr, Message)]) -> Vec<u32> {
    messages.iter().filter_map(|(_, message)| of_soa(&message.answer[0].rdata)).collect()
}

#[test]
fn a_newer_version_waits_for_the_answer_or_takes_the_place_of_what_is_sent_again() {
    for is_answered in [true, false] {
        let mut sender = NotifySender::new(1);
        sender.publish(zone(0), &soa(5), &[peer(1)]);
        sender.publish(zone(0), &soa(6), &[peer(1)]);
        let first = sent(&mut sender, 0);
        assert_eq!(serials(&first), [6]);
        (7..10).for_each(|serial| sender.publish(zone(0), &soa(serial), &[peer(1)]));
        assert_eq!(serials(&sent(&mut sender, 100)), [0; 0]);
        if is_answered {
            assert!(sender.receive(peer(1).address, &answer(&first[0].1), at(200)).is_some());
        }
        assert_eq!(serials(&sent(&mut sender, 200)), if is_answered { vec![9] } else { vec![] });
        let second = sent(&mut sender, 2200);
        assert_eq!(serials(&second), [9], "for the first or the second time");
        assert_eq!(sender.receive(peer(1).address, &answer(&first[0].1), at(2300)), None, "the old one");
        assert!(sender.receive(peer(1).address, &answer(&second[0].1), at(2300)).is_some());
        assert_eq!(sent(&mut sender, 1_000_000).len(), 0);
        assert!(sender.unanswered.0.is_empty() && sender.targets.iter().flatten().count() == 0);
    }
}

/// Only so a target that datagrams do not reach gets its messages over TCP, and one that is down is found to be silent.
#[test]
fn a_zone_that_changes_all_the_time_is_given_up_like_others() {
    let mut sender = NotifySender::new(1);
    let mut datagrams = Vec::new();
    for second in 0..=122 {
        (0..10).for_each(|serial| sender.publish(zone(0), &soa(second * 10 + serial), &[peer(1)]));
        datagrams.extend(serials(&sent(&mut sender, u64::from(second) * 1000)));
    }
    assert_eq!(datagrams, [9, 29, 69, 1229], "the fourth follows when the first is given up");
    assert_eq!((sender.counters().given_up, sender.counters().sent), (1, 7));
    assert_eq!(sender.unanswered.0[&0], 1);
}

#[test]
fn a_refusal_is_an_answer_and_is_reported() {
    let mut sender = NotifySender::new(1);
    sender.publish(zone(0), &soa(5), &[peer(1)]);
    let (target, message) = sent(&mut sender, 0).remove(0);
    let mut refusal = answer(&message);
    refusal[3] |= Rcode::REFUSED.0 as u8;
    let reported = NotifyAnswer { zone: zone(0), target, rcode: Rcode::REFUSED, tsig_error: None, is_ignored: false };
    assert_eq!(sender.receive(target, &refusal, at(1)), Some(reported));
    assert_eq!(sent(&mut sender, 300_000).len(), 0);
}

/// A target with another key or another clock answers: it is not silent, and the error says what is wrong.
#[test]
fn rfc_8945_5_4_signed_errors_end_a_notify_and_unsigned_ones_are_reported_once() {
    let name: Name = "key.example".parse().expect("a literal");
    let key = |secret| Arc::new(TsigKey::new("hmac-sha256", name.as_ref(), &[secret; 32]).expect("a known algorithm"));
    let config = PeerConfig { key: Some(key(1)), ..peer(1) };
    // BADSIG: another secret. BADTIME: a clock that is 4000 s ahead; such an error is signed (RFC 8945 5.3.2).
    for (of_target, now_s, code, is_ignored) in [(key(2), 0, 16, true), (key(1), 4000, 18, false)] {
        let mut sender = NotifySender::new(1);
        sender.publish(zone(0), &soa(5), std::slice::from_ref(&config));
        let (target, message) = sent(&mut sender, 0).remove(0);
        let mut query = Vec::new();
        sender.targets.iter().flatten().flat_map(|target| target.in_flight.values()).for_each(|message| {
            query = message.query.octets().to_vec();
        });
        let mut refusal = Message { edns: None, additional: Vec::new(), ..message };
        (refusal.flags.response, refusal.rcode, refusal.answer) = (true, Rcode::NOTAUTH, Vec::new());
        let mut refusal = refusal.to_wire();
        let failure = wire::tsig::verify_query(&query, |_| Some(&*of_target), now_s).expect_err("it is refused");
        failure.sign(&mut refusal, 0, now_s).expect("short");
        let tsig_error = Some(TsigError::FromPeer(code));
        let reported = NotifyAnswer { zone: zone(0), target, rcode: Rcode::NOTAUTH, tsig_error, is_ignored };
        assert_eq!(sender.receive(target, &refusal, at(1)), Some(reported));
        assert_eq!(sender.receive(target, &refusal, at(2)), None, "once");
        assert_eq!(sender.counters().answered, u64::from(!is_ignored));
        assert_eq!(sender.counters().refused, u64::from(!is_ignored));
        assert_eq!(sent(&mut sender, 2000).len(), usize::from(is_ignored), "it is sent again");
    }
}

#[test]
fn a_silent_target_delays_no_other_and_is_not_flooded() {
    let mut sender = NotifySender::new(1);
    let targets = [peer(1), peer(2)];
    (0..1000).for_each(|index| sender.publish(zone(index), &soa(1), &targets));
    let (mut answered, mut to_silent, mut largest, mut done_ms) = (0, 0, 0, 0);
    for ms in (0..600_000).step_by(100) {
        let found = sent(&mut sender, ms);
        largest = largest.max(found.len());
        for (address, message) in found {
            if address == peer(1).address {
                to_silent += 1;
            } else if sender.receive(address, &answer(&message), at(ms)).is_some() {
                answered += 1;
                done_ms = ms;
            }
        }
    }
    assert_eq!((answered, done_ms < 2000, largest), (1000, true, 2 * MAX_PER_TARGET));
    assert!((3 * 64..250).contains(&to_silent), "{to_silent}");
    // It comes back: everything else is sent.
    for ms in (600_000..800_000).step_by(100) {
        for (address, message) in sent(&mut sender, ms) {
            answered += usize::from(sender.receive(address, &answer(&message), at(ms)).is_some());
        }
    }
    assert_eq!(answered as u64 + sender.counters().given_up, 2000);
    (0..1000).for_each(|index| sender.remove(zone(index)));
    assert_eq!((sender.next_time(), sender.queued, sender.targets.iter().flatten().count()), (None, 0, 0));
}

/// Messages for a target that is down fill the queue; those for others are sent nevertheless.
#[test]
fn a_silent_target_takes_no_room_in_the_queue_from_others() {
    let mut sender = NotifySender { max_queued: 100, ..NotifySender::new(1) };
    (0..1000).for_each(|index| sender.publish(zone(index), &soa(1), &[peer(1)]));
    sent(&mut sender, 0);
    (1000..2000).for_each(|index| sender.publish(zone(index), &soa(1), &[peer(1)]));
    assert_eq!(sender.queued, 100);
    let mut answered = 0;
    for index in 2000..2100 {
        sender.publish(zone(index), &soa(1), &[peer(1), peer(2)]);
        for (address, message) in sent(&mut sender, 1) {
            assert_eq!(address, peer(2).address);
            answered += usize::from(sender.receive(address, &answer(&message), at(1)).is_some());
        }
    }
    assert_eq!((answered, sender.queued), (100, 99));
    (0..2100).for_each(|index| sender.remove(zone(index)));
    sent(&mut sender, 2);
    assert_eq!((sender.queued, sender.targets.iter().flatten().count()), (0, 0));
    assert!(sender.unanswered.0.is_empty());
}

/// A full queue of many targets: the longest is found without a look at all.
#[test]
fn the_longest_queue_is_known_whatever_happens() {
    let mut sender = NotifySender { max_queued: 300, ..NotifySender::new(1) };
    let mut random = Rng::with_seed(1);
    for round in 0..3000 {
        let targets: Vec<PeerConfig> = (0..random.u8(1..5)).map(|_| peer(random.u8(1..30))).collect();
        sender.publish(zone(random.u32(..200)), &soa(round), &targets);
        if random.u8(..) < 8 {
            sender.remove(zone(random.u32(..200)));
        }
        let messages = if random.bool() { sent(&mut sender, round.into()) } else { Vec::new() };
        for (address, message) in messages {
            if random.u8(..) < 30 {
                sender.receive(address, &answer(&message), at(round.into()));
            }
        }
        let lengths = sender.targets.iter().enumerate();
        let lengths = lengths.filter_map(|(index, target)| Some((target.as_ref()?.queued.len(), index)));
        let lengths: BTreeSet<(usize, usize)> = lengths.filter(|(len, _)| *len > 0).collect();
        assert_eq!(sender.by_queue_len, lengths);
        let total: usize = lengths.iter().map(|(len, _)| len).sum();
        assert!(sender.queued == total && total <= 300, "{total}");
    }
    assert!(sender.counters().dropped > 0);
}

/// Otherwise the list would grow for as long as the target is silent, while zones come and go.
#[test]
fn zones_that_are_removed_take_no_room_in_the_queue_of_a_silent_target() {
    let mut sender = NotifySender::new(1);
    sender.publish(zone(0), &soa(1), &[peer(1)]);
    let at_once = sent(&mut sender, 0).len();
    assert_eq!(at_once, 1, "it is in flight");
    sender.publish(zone(1), &soa(1), &[peer(1)]);
    for _ in 0..10_000 {
        sender.publish(zone(2), &soa(1), &[peer(1)]);
        sender.publish(zone(3), &soa(1), &[peer(1)]);
        sender.remove(zone(2));
    }
    let target = sender.targets.iter().flatten().next().expect("there is one");
    assert_eq!(target.queued.len(), 2, "zones 1 and 3");
    assert!(target.order.len() <= 2 * 3 + MAX_PER_TARGET, "{}", target.order.len());
    assert_eq!(sent(&mut sender, 1).len(), 2);
}
