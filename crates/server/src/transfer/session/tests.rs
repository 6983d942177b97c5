//! Sessions against octets as primaries send them, good and bad.

use super::*;
use wire::message::{Flags, Record};
use wire::tsig::verify_query;
use wire::{Class, Message, Name, Rtype};

/// Takes messages until one has no answer records, or all have [`CURRENT`] together: then it is up to date.
#[derive(Default)]
struct Counting(u64);

const CURRENT: u64 = 77;

impl TransferSink for Counting {
    fn receive(&mut self, message: &[u8]) -> Result<bool, SinkError> {
        let message = Message::parse(message).map_err(|error| SinkError::Contents(error.to_string()))?;
        self.0 += message.answer.len() as u64;
        Ok(message.answer.is_empty() || self.0 == CURRENT)
    }

    fn current_serial(&self) -> Option<u32> {
        (self.0 == CURRENT).then_some(1)
    }

    fn records(&self) -> u64 {
        self.0
    }
}

fn zone(index: u32) -> ZoneId {
    ZoneId { index, generation: 0 }
}

fn apex(index: u32) -> Name {
    format!("zone{index}.example").parse().expect("a name")
}

fn at(ms: u64) -> Now {
    Now { s: 1000 + (ms / 1000) as u32, ms }
}

/// The queries in the output, which is consumed.
fn queries(session: &mut Session<Counting>) -> Vec<Vec<u8>> {
    let (mut rest, mut found) = (session.output(), Vec::new());
    while let Some((message, after)) = split_message(rest) {
        found.push(message.to_vec());
        rest = after;
    }
    session.sent(session.output().len());
    found
}

/// A response with this many records, framed.
fn response(query: &[u8], records: usize) -> Vec<u8> {
    let query = Message::parse(query).expect("well-formed");
    let record = Record {
        owner: query.questions[0].name.clone(),
        rtype: Rtype::A,
        class: Class::IN,
        ttl: 1,
        rdata: vec![192, 0, 2, 1],
    };
    let flags = Flags { response: true, authoritative: true, ..Flags::default() };
    let message = Message {
        id: query.id,
        flags,
        questions: query.questions,
        answer: vec![record; records],
        ..Message::default()
    };
    frame(&message.to_wire())
}

/// A session with transfers of zones 0 to `count`, and their queries.
fn session(count: u32) -> (Session<Counting>, Vec<Vec<u8>>) {
    let mut session = Session::new(None, SessionLimits::default(), 1, at(0));
    (0..count).for_each(|index| session.transfer(zone(index), apex(index).as_ref(), None, Counting::default(), at(0)));
    let queries = queries(&mut session);
    (session, queries)
}

type Ended = (u32, u64, Option<TransferFailure>);

fn receive(session: &mut Session<Counting>, octets: &[u8], now: Now) -> (Vec<Ended>, Result<(), TransferFailure>) {
    let mut ended = Vec::new();
    let result = session.receive(octets, now, |event| match event {
        SessionEvent::Transferred { zone, sink, failure, .. } => ended.push((zone.index, sink.0, failure)),
        SessionEvent::Probed { .. } | SessionEvent::Notified { .. } => panic!("nothing else was asked"),
    });
    (ended, result)
}

#[test]
fn rfc_7766_6_2_1_1_interleaved_responses_are_told_apart_by_id_in_any_chunks() {
    for chunk in [1, 2, 3, 7, 100, 10_000] {
        let (mut session, queries) = session(3);
        assert_eq!((queries.len(), session.in_flight()), (3, 3));
        let parts = [(2, 5), (0, 1), (2, 1), (1, 0), (0, 2), (2, 0), (0, 0)];
        let octets: Vec<u8> = parts.iter().flat_map(|(index, records)| response(&queries[*index], *records)).collect();
        let mut ended = Vec::new();
        for chunk in octets.chunks(chunk) {
            let (more, result) = receive(&mut session, chunk, at(1));
            ended.extend(more);
            assert_eq!(result, Ok(()));
        }
        assert_eq!(ended, [(1, 0, None), (2, 6, None), (0, 3, None)]);
        assert_eq!((session.in_flight(), session.answered(), session.next_time()), (0, 3, None));
    }
}

#[test]
fn messages_that_answer_no_query_end_the_session() {
    let (mut session, queries) = session(2);
    let mut wrong_id = response(&queries[0], 1);
    wrong_id[2] ^= 0xff;
    assert_eq!(receive(&mut session, &wrong_id, at(1)).1, Err(TransferFailure::OutOfProtocol));
    for octets in [&[0, 0][..], &[0, 1, 7], &frame(&queries[1])] {
        let (mut session, _) = self::session(2);
        assert_eq!(receive(&mut session, octets, at(1)).1, Err(TransferFailure::OutOfProtocol));
    }
}

#[test]
fn errors_and_wrong_contents_end_their_own_exchange_only() {
    let (mut session, queries) = session(2);
    let mut refused = response(&queries[0], 0);
    refused[5] |= 5;
    let (ended, result) = receive(&mut session, &refused, at(1));
    assert_eq!((ended, result), (vec![(0, 0, Some(TransferFailure::Rcode(Rcode::REFUSED)))], Ok(())));
    assert!(session.take_cancelled().is_empty(), "there is no more of it");
    let mut cut = response(&queries[1], 1);
    let len = cut.len() as u16 - 2 - 1;
    cut[..2].copy_from_slice(&len.to_be_bytes());
    cut.pop();
    let (ended, result) = receive(&mut session, &cut, at(1));
    assert!(matches!(&ended[..], [(1, 0, Some(TransferFailure::Contents(_)))]), "{ended:?}");
    assert_eq!(result, Ok(()));
    assert_eq!(session.take_cancelled(), [u16::from_be_bytes([queries[1][0], queries[1][1]])]);
    assert!(session.take_cancelled().is_empty(), "each is cancelled once");
    let results: Vec<_> = (0..17).map(|_| receive(&mut session, &response(&queries[1], 1), at(1)).1).collect();
    assert!(results[..16].iter().all(Result::is_ok), "a bad zone that ends soon disturbs no other");
    assert_eq!(results[16], Err(TransferFailure::Unwanted));
}

/// The primary sends the whole zone although its first record was enough.
#[test]
fn the_rest_of_a_zone_that_is_current_is_not_wanted() {
    let (mut session, queries) = session(2);
    let (ended, result) = receive(&mut session, &response(&queries[0], CURRENT as usize), at(1));
    assert_eq!((ended, result), (vec![(0, CURRENT, None)], Ok(())));
    assert_eq!(session.take_cancelled(), [u16::from_be_bytes([queries[0][0], queries[0][1]])]);
    assert_eq!(receive(&mut session, &response(&queries[0], 1), at(1)).1, Ok(()), "it disturbs no other");
    assert_eq!(receive(&mut session, &response(&queries[1], 0), at(1)).0, [(1, 0, None)]);
}

/// A primary that sends nonsense for tens of thousands of zones must not use up the IDs: the next exchange would look for one for ever.
#[test]
fn a_connection_on_which_many_transfers_were_given_up_gets_no_more() {
    let (mut session, _) = session(0);
    let mut count = 0;
    while session.has_free_ids() {
        session.transfer(zone(count), apex(count).as_ref(), None, Counting::default(), at(0));
        let query = queries(&mut session).remove(0);
        let mut cut = response(&query, 1);
        let len = cut.len() as u16 - 2 - 1;
        cut[..2].copy_from_slice(&len.to_be_bytes());
        cut.pop();
        assert_eq!(receive(&mut session, &cut, at(1)).1, Ok(()));
        count += 1;
        assert!(count < 10_000, "far fewer than there are IDs");
    }
}

#[test]
fn a_stalled_and_a_trickling_primary_are_given_up_within_seconds() {
    let (mut session, queries) = session(2);
    assert_eq!(session.next_time(), Some(10_000));
    assert_eq!(session.check_progress(at(9_999)), Ok(()));
    assert_eq!(session.check_progress(at(10_000)), Err(TransferFailure::Stalled(10)));
    let octets = response(&queries[0], 1000);
    let given_up = (0..).find(|second| {
        _ = receive(&mut session, &octets[*second as usize * 20..][..20], at(second * 1000));
        session.check_progress(at(second * 1000)).is_err()
    });
    assert_eq!(given_up, Some(20));
    let mut ended = Vec::new();
    session.close(&TransferFailure::TooSlow(512), at(20_000), |event, has_started| match event {
        SessionEvent::Transferred { zone, failure, .. } => ended.push((zone.index, failure.is_some(), has_started)),
        SessionEvent::Probed { .. } | SessionEvent::Notified { .. } => panic!("nothing else was asked"),
    });
    ended.sort_unstable();
    assert_eq!(ended, [(0, true, false), (1, true, false)], "no message was complete");
}

/// Over QUIC, a stream keeps a message until it is complete: for minutes, if it is long and the network slow.
#[test]
fn the_parts_of_a_message_are_progress() {
    let (mut session, queries) = session(1);
    let id = u16::from_be_bytes([queries[0][0], queries[0][1]]);
    for second in 1..60 {
        session.part_arrived(id, 600, at(second * 1000));
        assert_eq!(session.check_progress(at(second * 1000)), Ok(()));
    }
    session.part_arrived(!id, 600, at(69_000));
    assert_eq!(session.check_progress(at(69_000)), Err(TransferFailure::Stalled(10)), "nobody awaits it");
    assert!(session.awaits(id) && !session.awaits(!id));
}

#[test]
fn a_slow_primary_that_answers_small_zones_is_not_given_up() {
    let (mut session, queries) = session(60);
    for (second, query) in queries.iter().enumerate() {
        let now = at(second as u64 * 9000);
        assert_eq!(session.check_progress(now), Ok(()));
        assert_eq!(receive(&mut session, &response(query, 0), now).0.len(), 1);
    }
}

#[test]
fn rfc_8945_5_3_1_each_transfer_is_verified_by_its_own_signatures() {
    let key: Arc<TsigKey> = Arc::new("hmac-sha256:transfer.example:c2VjcmV0".parse().expect("a key"));
    let mut session = Session::new(Some(key.clone()), SessionLimits::default(), 1, at(0));
    (0..3).for_each(|index| session.transfer(zone(index), apex(index).as_ref(), Some(1), Counting::default(), at(0)));
    let queries = queries(&mut session);
    let sign = |query: &[u8], counts: &[usize]| -> Vec<Vec<u8>> {
        let signer = verify_query(query, |_| Some(&*key), 1000).expect("a good signature").expect("signed");
        let unsigned = &query[..wire_len_without_tsig(query)];
        let mut plain = unsigned.to_vec();
        plain[11] -= 1;
        let mut signer = signer;
        let sign_one = |records: &usize| {
            let mut message = response(&plain, *records)[2..].to_vec();
            signer.sign(&mut message, 0, 1000).expect("short");
            frame(&message)
        };
        counts.iter().map(sign_one).collect()
    };
    let (first, second) = (sign(&queries[0], &[2, 1, 0]), sign(&queries[1], &[3, 0]));
    for message in [&first[0], &second[0], &first[1], &second[1], &first[2]] {
        assert_eq!(receive(&mut session, message, at(1)).1, Ok(()));
    }
    assert_eq!((session.answered(), session.in_flight()), (2, 1));
    let third = sign(&queries[2], &[2, 0]);
    let (ended, _) = receive(&mut session, &third[1], at(1));
    assert!(matches!(&ended[..], [(2, 0, Some(TransferFailure::Tsig(TsigError::BadSig)))]), "{ended:?}");
}

/// RFC 1996 4.8: any answer ends a NOTIFY. Neither it nor a check passes for unanswered, and both report what is wrong.
#[test]
fn rfc_8945_5_4_errors_of_signatures_on_streams_are_reported() {
    let key = |secret: &str| format!("hmac-sha256:transfer.example:{secret}").parse::<TsigKey>().expect("a key");
    let mut session = Session::<Counting>::new(Some(Arc::new(key("c2VjcmV0"))), SessionLimits::default(), 1, at(0));
    session.notify(zone(0), NotifyId::for_test(), apex(0).as_ref(), &[0; 22], at(0));
    session.probe(zone(1), apex(1).as_ref(), at(0));
    let mut reported = Vec::new();
    for query in queries(&mut session) {
        let Message { id, opcode, questions, .. } = Message::parse(&query).expect("well-formed");
        let flags = Flags { response: true, ..Flags::default() };
        let mut message =
            Message { id, opcode, flags, rcode: Rcode::NOTAUTH, questions, ..Message::default() }.to_wire();
        let other = key("b3RoZXI=");
        let failure = verify_query(&query, |_| Some(&other), 1000).expect_err("another secret");
        failure.sign(&mut message, 0, 1000).expect("short");
        let result = session.receive(&frame(&message), at(1), |event| match event {
            SessionEvent::Notified { response: Some((rcode, error)), .. } => reported.push((rcode, error)),
            SessionEvent::Probed {
                result: ProbeResult::Refused, failure: Some(TransferFailure::Tsig(error)), ..
            } => {
                reported.push((Rcode::NOTAUTH, Some(error)));
            }
            _ => panic!("{:?} is not reported", event.key()),
        });
        assert_eq!(result, Ok(()));
    }
    assert_eq!(reported, [(Rcode::NOTAUTH, Some(TsigError::FromPeer(16))); 2]);
}

/// RFC 6891 7: a check over a stream is repeated without OPT, as is a transfer.
#[test]
fn a_check_reports_that_the_primary_does_not_know_edns() {
    let mut session = Session::<Counting>::new(None, SessionLimits::default(), 1, at(0));
    session.probe(zone(0), apex(0).as_ref(), at(0));
    let query = queries(&mut session).remove(0);
    let mut message = response(&query, 0);
    message[2 + 3] |= Rcode::FORMERR.0 as u8;
    let mut failures = Vec::new();
    let result = session.receive(&message, at(1), |event| match event {
        SessionEvent::Probed { failure, .. } => failures.push(failure),
        _ => panic!("{:?} was not asked", event.key()),
    });
    assert_eq!((result, failures), (Ok(()), vec![Some(TransferFailure::NoEdns)]));
}

/// The length of a message without its TSIG record, which is the last.
fn wire_len_without_tsig(message: &[u8]) -> usize {
    let key = b"\x08transfer\x07example\x00";
    message.windows(key.len()).rposition(|window| window == key).expect("it is signed")
}

#[test]
fn a_transfer_without_an_end_is_given_up() {
    let (mut session, queries) = session(1);
    let minutes = SessionLimits::default().max_transfer_ms / 60_000;
    let ends: Vec<_> =
        (0..=minutes).map(|minute| receive(&mut session, &response(&queries[0], 2), at(minute * 60_000)).0).collect();
    let (last, earlier) = ends.split_last().expect("several");
    assert!(earlier.iter().all(Vec::is_empty));
    assert_eq!(*last, [(0, 2 * minutes + 2, Some(TransferFailure::TooLong(minutes)))]);
}

/// Otherwise its zone would wait for ever, and expire, while the checks of other zones keep the connection busy.
#[test]
fn an_exchange_that_is_passed_over_is_given_up() {
    let (mut session, first) = session(2);
    // Part of one transfer, and nothing of the other.
    receive(&mut session, &response(&first[1], 1), at(500)).1.expect("a good response");
    for second in 1..=30 {
        let now = at(second * 1000);
        session.transfer(zone(9), apex(9).as_ref(), None, Counting::default(), now);
        let query = queries(&mut session).pop().expect("a query");
        receive(&mut session, &response(&query, 0), now).1.expect("a good response");
        session.check_progress(now).expect("octets arrive");
        let ended = session.end_passed_over(now);
        assert!(ended.len() == usize::from(second == 30), "{second}");
    }
    let time = session.next_time().expect("one is left");
    assert!((30_001..=40_000).contains(&time), "{time}");
    let ended = session.end_passed_over(at(40_000));
    let is_stalled = |event: &SessionEvent<_>| {
        matches!(event, SessionEvent::Transferred { failure: Some(TransferFailure::Stalled(30)), .. })
    };
    assert!(ended.len() == 1 && is_stalled(&ended[0]) && session.in_flight() == 0);
    // A late response does no harm.
    receive(&mut session, &response(&first[0], 1), at(40_001)).1.expect("it is discarded");
}

/// RFC 7766 6.2.1.1: a primary may answer in order, and a long transfer takes its time.
#[test]
fn what_waits_for_a_long_transfer_is_not_passed_over() {
    let (mut session, queries) = session(3);
    receive(&mut session, &response(&queries[0], 0), at(1)).1.expect("a good response");
    for second in 1..=100 {
        let now = at(second * 1000);
        receive(&mut session, &response(&queries[1], 100), now).1.expect("a good response");
        assert!(session.end_passed_over(now).is_empty(), "{second}");
    }
}
