//! Transfers between two zones: what a stream sends, a receiver makes the same zone of, in messages of any size and form.

mod random_zone;

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;
use random_zone::*;
use wire::message::{Flags, MessageError, Rcode, Record};
use wire::{Class, Message, Rtype};
use zone::axfr::AxfrStream;
use zone::encoded_change::EncodedChange;
use zone::ixfr::IxfrStream;
use zone::transfer_receiver::{
    ReceiveStatus, Received, TransferError, TransferLimits, TransferReceiver, TransferRequest,
};
use zone::transfer_stream::{TransferContent, TransferStream};
use zone::zone_builder::ZoneBuilderOptions;
use zone::{Finding, Zone};

const AXFR: TransferRequest = TransferRequest { ixfr_from: None, not_before: None, is_udp: false };

fn ixfr(serial: u32) -> TransferRequest {
    TransferRequest { ixfr_from: Some(serial), not_before: Some(serial), is_udp: false }
}

fn question(rtype: Rtype) -> Vec<u8> {
    [name(APEX).wire(), &rtype.0.to_be_bytes(), &[0, 1]].concat()
}

fn axfr(zone: &Zone) -> TransferStream {
    TransferStream::Axfr(AxfrStream::new(zone.clone(), [0, 7], &question(Rtype::AXFR), b""))
}

fn ixfr_stream(zone: &Zone, changes: &[EncodedChange]) -> Option<IxfrStream> {
    IxfrStream::new(zone, changes.to_vec(), [0, 7], &question(Rtype::IXFR), b"")
}

/// The messages of a transfer, each of at most `size` octets.
fn messages(mut stream: TransferStream, size: usize) -> Vec<Vec<u8>> {
    let mut out = vec![0; size];
    let mut messages = Vec::new();
    while let Some(len) = stream.next_message(&mut out) {
        messages.push(out[..len].to_vec());
    }
    messages
}

fn receiver(request: TransferRequest) -> TransferReceiver {
    TransferReceiver::new(name(APEX).as_ref(), request, TransferLimits::default(), ZoneBuilderOptions::default())
}

/// Receives all messages; an error if they end too early or too late.
fn receive(request: TransferRequest, messages: &[Vec<u8>]) -> Result<Received, TransferError> {
    let mut receiver = receiver(request);
    for (at, message) in messages.iter().enumerate() {
        let status = receiver.receive(message)?;
        assert_eq!(status == ReceiveStatus::Complete, at + 1 == messages.len(), "message {at}");
    }
    receiver.finish()
}

fn apply_all(zone: &Zone, changes: &[EncodedChange]) -> Zone {
    changes.iter().fold(zone.clone(), |zone, change| zone.apply(change.to_change_set(), RULES).expect("a change").zone)
}

fn is_same(a: &Zone, b: &Zone) -> bool {
    transferred(a) == transferred(b)
}

/// A chain of versions and the changes between them.
fn chain(versions: &[Vec<Set>], is_large: bool) -> (Vec<Zone>, Vec<EncodedChange>) {
    let mut zones: Vec<Zone> = Vec::new();
    for (serial, sets) in (1..).zip(versions) {
        let more = if is_large { hosts(serial as u16) } else { Vec::new() };
        let records = records(&[sets.as_slice(), &more].concat(), serial);
        zones.extend(try_load(&records, zones.last(), 1));
    }
    let changes = zones.windows(2).map(|pair| EncodedChange::between(&pair[0], &pair[1])).collect();
    (zones, changes)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_zone_arrives_as_it_was_sent_by_axfr(sets in vec(sets_and_dnames(), 0..12), size in 2_000..65_536usize) {
        let Some(zone) = try_load(&records(&sets, 1), None, 1) else { return Ok(()) };
        let sent = messages(axfr(&zone), size);
        match receive(AXFR, &sent) {
            Ok(Received::Full { zone: received, .. }) => prop_assert!(is_same(&zone, &received)),
            // A record that fits in no message of this size.
            Err(TransferError::Rcode(Rcode::SERVFAIL)) => prop_assert!(size < 61_000),
            other => prop_assert!(false, "{:?}", other.err()),
        }
        prop_assert!(sent.iter().all(|message| message.len() <= size));
    }

    /// RFC 1995 4: in one message or many, and condensed (RFC 1995 6).
    #[test]
    fn changes_arrive_as_they_were_sent_by_ixfr(
        versions in vec(vec(sets_and_dnames(), 0..8), 2..5), is_large: bool, size in 62_000..65_536usize, small in 1_000..4_000usize,
    ) {
        let (zones, changes) = chain(&versions, is_large);
        let (Some(first), Some(last)) = (zones.first(), zones.last()) else { return Ok(()) };
        let condensed: Vec<_> = EncodedChange::condense(&changes).into_iter().collect();
        for changes in [&changes, &condensed].into_iter().filter(|changes| !changes.is_empty()) {
            let stream = TransferStream::Ixfr(ixfr_stream(last, changes).expect("a chain"));
            prop_assert_eq!(stream.content(), TransferContent::Incremental);
            let Received::Changes(received) = receive(ixfr(first.serial()), &messages(stream, size)).expect("a transfer")
                else { panic!("no changes") };
            prop_assert!(received == *changes);
            prop_assert!(is_same(&apply_all(first, &received), last));
            // In small messages, unless a record is too large for them.
            let stream = TransferStream::Ixfr(ixfr_stream(last, changes).expect("a chain"));
            let sent = messages(stream, small);
            prop_assert!(sent.iter().all(|message| message.len() <= small));
            match receive(ixfr(first.serial()), &sent) {
                Ok(Received::Changes(received)) => prop_assert!(received == *changes),
                Err(TransferError::Rcode(Rcode::SERVFAIL)) => {}
                other => prop_assert!(false, "{:?}", other.err()),
            }
            // RFC 1995 2: over UDP it is one message.
            let mut out = vec![0; small];
            let len = ixfr_stream(last, changes).expect("a chain").udp_message(&mut out);
            let request = TransferRequest { is_udp: true, ..ixfr(first.serial()) };
            match len.map(|len| receive(request, &[out[..len].to_vec()]).expect("a response")) {
                Some(Received::Changes(received)) => prop_assert!(received == *changes),
                Some(_) => prop_assert!(false),
                None => prop_assert!(sent.len() > 1 || Message::parse(&sent[0]).expect("well-formed").rcode == Rcode::SERVFAIL),
            }
        }
    }

    /// Octets that change on the way are found where they can be, and never cause a panic.
    #[test]
    fn damaged_transfers_are_refused_or_harmless(
        versions in vec(vec(sets_and_dnames(), 0..6), 2..3),
        is_axfr: bool,
        at in any::<prop::sample::Index>(),
        octet in any::<prop::sample::Index>(),
        bit in 0..8u8,
    ) {
        let (zones, changes) = chain(&versions, false);
        let [old, new] = zones.as_slice() else { return Ok(()) };
        let (request, stream) = match is_axfr {
            true => (AXFR, axfr(new)),
            false => (ixfr(old.serial()), TransferStream::Ixfr(ixfr_stream(new, &changes).expect("a chain"))),
        };
        let sent = messages(stream, 65_535);
        // The end is missing.
        let at = at.index(sent.len());
        let octet = octet.index(sent[at].len());
        let mut truncated = receiver(request);
        let results: Vec<_> = sent[..at].iter().map(|message| truncated.receive(message)).collect();
        prop_assert!(results.iter().all(|result| matches!(result, Ok(ReceiveStatus::More))));
        prop_assert!(matches!(truncated.receive(&sent[at][..octet]), Err(TransferError::Message(_))));
        prop_assert!(truncated.finish().is_err());
        // A bit is flipped.
        let mut damaged = receiver(request);
        let mut messages = sent;
        messages[at][octet] ^= 1 << bit;
        let status = messages.iter().map(|message| damaged.receive(message)).take_while(Result::is_ok).last();
        if matches!(status, Some(Ok(ReceiveStatus::Complete)))
            && let Ok(Received::Changes(changes)) = damaged.finish()
        {
            changes.iter().for_each(|change| drop(old.apply(change.to_change_set(), RULES)));
        }
    }
}

//----------- forms of responses -----------------------------------------------

fn record((owner, rtype, ttl, rdata): ZoneRecord) -> Record {
    Record { owner, rtype, class: Class::IN, ttl, rdata }
}

fn soa(serial: u32) -> Record {
    record(apex_records(serial).remove(0))
}

fn ns() -> Record {
    record(apex_records(1).remove(1))
}

fn host(octet: u8) -> Record {
    record((name("h.z."), Rtype::A, 300, vec![192, 0, 2, octet]))
}

/// Uncompressed responses with these answers, the question in the first one only.
fn responses<const N: usize>(qtype: Rtype, answers: [Vec<Record>; N]) -> Vec<Vec<u8>> {
    let flags = Flags { response: true, ..Flags::default() };
    let mut messages: Vec<Message> =
        answers.into_iter().map(|answer| Message { flags, answer, ..Message::default() }).collect();
    messages[0].questions = Message::query(name("Z."), qtype).questions;
    messages.iter().map(Message::to_wire).collect()
}

fn error_of(request: TransferRequest, answers: Vec<Record>) -> String {
    let qtype = if request.ixfr_from.is_some() { Rtype::IXFR } else { Rtype::AXFR };
    let message = responses(qtype, [answers]).remove(0);
    let mut receiver = receiver(request);
    let result = receiver.receive(&message).and_then(|_| receiver.finish());
    result.err().expect("an error").to_string()
}

/// RFC 5936 2.2: one record per message, as old servers send, and the question in the first one only.
#[test]
fn rfc_5936_2_2_one_record_per_message_is_accepted() {
    let sent = responses(Rtype::AXFR, [vec![soa(1)], vec![ns()], vec![], vec![host(1)], vec![soa(1)]]);
    let Ok(Received::Full { zone, findings }) = receive(AXFR, &sent) else { panic!("no zone") };
    assert_eq!((zone.serial(), zone.counts().records, findings.len()), (1, 3, 0));
}

/// RFC 1995 4: a server without the history sends the whole zone.
#[test]
fn rfc_1995_4_ixfr_may_be_answered_with_a_whole_zone() {
    for sent in [
        responses(Rtype::IXFR, [vec![soa(3), ns(), host(1), soa(3)]]),
        responses(Rtype::IXFR, [vec![soa(3)], vec![ns(), host(1)], vec![soa(3)]]),
    ]
    .iter_mut()
    {
        assert!(matches!(receive(ixfr(2), sent), Ok(Received::Full { zone, .. }) if zone.serial() == 3));
    }
}

/// RFC 1995 2, 4: the SOA record alone says that the client is up to date, or, over UDP, that the response is too long.
#[test]
fn rfc_1995_2_the_soa_alone_is_a_response() {
    let sent = responses(Rtype::IXFR, [vec![soa(3)]]);
    assert!(matches!(receive(ixfr(3), &sent), Ok(Received::SoaOnly { serial: 3 })));
    let udp = TransferRequest { is_udp: true, ..ixfr(2) };
    assert!(matches!(receive(udp, &sent), Ok(Received::SoaOnly { serial: 3 })));
    // An expired zone accepts any serial, also an earlier one.
    let expired = TransferRequest { not_before: None, ..ixfr(4) };
    assert!(matches!(receive(expired, &sent), Ok(Received::SoaOnly { serial: 3 })));
    // Over TCP the zone may follow.
    assert_eq!(receiver(ixfr(2)).receive(&sent[0]).expect("a response"), ReceiveStatus::More);
}

/// RFC 5936 2.2, RFC 1995 4: the first record has the serial, so the rest of a zone that the client has already is not received.
#[test]
fn rfc_5936_2_2_a_zone_with_the_serial_of_the_client_ends_at_its_first_record() {
    let held = TransferRequest { not_before: Some(3), ..AXFR };
    for (request, qtype) in [(held, Rtype::AXFR), (ixfr(3), Rtype::IXFR)] {
        for first in [vec![soa(3)], vec![soa(3), ns(), host(1), soa(3)]] {
            assert!(matches!(receive(request, &responses(qtype, [first])), Ok(Received::SoaOnly { serial: 3 })));
        }
        let newer = responses(qtype, [vec![soa(4), ns(), soa(4)]]);
        assert!(matches!(receive(request, &newer), Ok(Received::Full { .. })));
    }
    let whole = responses(Rtype::AXFR, [vec![soa(3), ns(), soa(3)]]);
    assert!(matches!(receive(AXFR, &whole), Ok(Received::Full { .. })), "forced, or expired");
}

#[test]
fn rfc_1995_4_several_changes_follow_each_other() {
    let answers = vec![soa(3), soa(1), host(1), soa(2), host(2), soa(2), soa(3), host(3), soa(3)];
    let Ok(Received::Changes(changes)) = receive(ixfr(1), &responses(Rtype::IXFR, [answers])) else {
        panic!("no changes");
    };
    let counts: Vec<_> =
        changes.iter().map(|it| (it.from_serial(), it.to_serial(), it.removed().count(), it.added().count())).collect();
    assert_eq!(counts, [(1, 2, 1, 1), (2, 3, 0, 1)]);
}

#[test]
fn odd_records_are_reported_in_whole_zones_and_in_changes() {
    let outside = Record { owner: name("h.other."), ..host(1) };
    let meta = Record { rtype: Rtype(251), ..host(1) };
    let eternal = Record { ttl: 1 << 31, ..host(1) };
    let odd = [outside, meta, eternal];
    let messages = |findings: Vec<Finding>| findings.into_iter().map(|finding| finding.message).collect::<Vec<_>>();
    let whole = [vec![soa(2), ns()], odd.to_vec(), vec![soa(2)]].concat();
    let Ok(Received::Full { findings, .. }) = receive(AXFR, &responses(Rtype::AXFR, [whole])) else {
        panic!("no zone")
    };
    let expected = messages(findings);
    assert_eq!(expected.len(), odd.len(), "{expected:?}");
    let changes =
        [vec![soa(3), soa(1), soa(2)], odd.to_vec(), vec![soa(2)], odd.to_vec(), vec![soa(3), soa(3)]].concat();
    let mut receiver = receiver(ixfr(1));
    for message in responses(Rtype::IXFR, [changes]) {
        receiver.receive(&message).expect("a response");
    }
    assert_eq!(messages(receiver.take_findings()), expected, "not of the removed ones");
}

#[test]
fn an_error_says_what_was_sent_and_what_was_expected() {
    let other = Record { owner: name("other."), ..soa(3) };
    let class = Record { class: Class::CH, ..host(1) };
    let held = TransferRequest { not_before: Some(4), ..AXFR };
    for (request, answers, error) in [
        (AXFR, vec![host(1)], "the transfer starts with a record of type A; expected the SOA record"),
        (AXFR, vec![other], "the primary sent the SOA record of other.; expected that of z."),
        (held, vec![soa(3)], "the primary has serial 3, which is earlier than 4 (help: increase the serial"),
        (AXFR, vec![soa(3), ns()], "the primary ended the transfer before the last SOA record, after 2 records"),
        (
            AXFR,
            vec![soa(3), ns(), soa(4)],
            "the transfer starts with serial 3 and ends with another SOA record, of serial 4",
        ),
        (AXFR, vec![soa(3), ns(), soa(3), host(1)], "the primary sent records after the last SOA record"),
        (AXFR, vec![soa(3), class], "the primary sent a record of another class than IN: h.z. A"),
        (AXFR, vec![soa(3), Record { rdata: vec![1; 5], ..host(1) }, soa(3)], "the primary sent an invalid zone: "),
        (ixfr(1), vec![soa(3), soa(2)], "the primary sent a change from serial 2; expected one from serial 1"),
        (
            ixfr(1),
            vec![soa(3), soa(1), soa(2), soa(3)],
            "the primary sent a change from serial 3; expected one from serial 2",
        ),
        (
            ixfr(1),
            vec![soa(3), soa(1), soa(4)],
            "the primary sent a change from serial 1 to 4 in a transfer to serial 3",
        ),
        (
            ixfr(1),
            vec![soa(3), soa(1), soa(1)],
            "the primary sent a change from serial 1 to 1 in a transfer to serial 3",
        ),
        (
            ixfr(1),
            vec![soa(3), soa(1), soa(3)],
            "the primary ended the transfer before the last SOA record, after 3 records",
        ),
        (
            ixfr(1),
            vec![soa(3), soa(1), Record { rdata: vec![1; 5], ..host(1) }],
            "the primary sent a malformed A record of h.z.",
        ),
    ] {
        let found = error_of(request, answers);
        assert!(found.starts_with(error), "{found}, not {error}");
    }
}

/// RFC 5936 2.2: the last SOA record is the same as the first one. Only the case of its names does not count: 0x41 and 0x61 are other numbers.
#[test]
fn rfc_5936_2_2_a_last_soa_with_other_numbers_is_refused() {
    let (first, mut last) = (soa(0x41), soa(0x41));
    last.rdata[1].make_ascii_uppercase();
    let messages = responses(Rtype::AXFR, [vec![first.clone(), ns(), last.clone()]]);
    assert!(receive(AXFR, &messages).is_ok(), "another case of a name");
    *last.rdata.last_mut().expect("five numbers") = b'a';
    let first = Record { rdata: [&last.rdata[..last.rdata.len() - 1], b"A"].concat(), ..first };
    assert!(
        error_of(AXFR, vec![first, ns(), last]).starts_with("the transfer starts with serial 65 and ends with another")
    );
    assert!(error_of(AXFR, vec![soa(0x41), ns(), soa(0x61)]).starts_with("the transfer starts with serial 65"));
}

#[test]
fn messages_that_are_no_transfer_are_refused() {
    let good = responses(Rtype::AXFR, [vec![soa(1), ns(), soa(1)]]).remove(0);
    let with = |at: usize, octet: u8| {
        let mut message = good.clone();
        message[at] = octet;
        receiver(AXFR).receive(&message)
    };
    assert!(matches!(with(2, 0), Err(TransferError::NotResponse)));
    assert!(matches!(with(2, 0xa8), Err(TransferError::NotResponse)));
    assert!(matches!(with(2, 0x82), Err(TransferError::Truncated)));
    assert!(matches!(with(3, 5), Err(TransferError::Rcode(Rcode::REFUSED))));
    assert!(matches!(with(13, b'y'), Err(TransferError::Question(..))));
    assert!(matches!(receiver(ixfr(1)).receive(&good), Err(TransferError::Question(_, Rtype::AXFR))));
    assert!(matches!(receiver(AXFR).receive(&good[..11]), Err(TransferError::Message(MessageError::Short))));
}

/// An OPT record with an empty Padding option in each message, and messages with nothing else.
#[test]
fn rfc_9103_7_9_1_padded_and_empty_messages_are_accepted() {
    const OPT: [u8; 15] = [0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 4, 0, 12, 0, 0];
    let answers = [vec![soa(1)], vec![], vec![ns(), host(1)], vec![], vec![], vec![soa(1)]];
    let mut messages = responses(Rtype::AXFR, answers);
    for message in &mut messages {
        assert_eq!(message[10..12], [0, 0], "no additional record");
        message[11] = 1;
        message.extend_from_slice(&OPT);
    }
    let Ok(Received::Full { zone, .. }) = receive(AXFR, &messages) else { panic!("not a whole zone") };
    assert_eq!(zone.serial(), 1);
}

/// A primary that sends without an end.
#[test]
fn endless_transfers_are_ended() {
    let endless = |limits, answer: Vec<Record>, padding: usize| {
        let options = ZoneBuilderOptions::default();
        let mut receiver = TransferReceiver::new(name(APEX).as_ref(), AXFR, limits, options);
        let [first, mut next] = <[Vec<u8>; 2]>::try_from(responses(Rtype::AXFR, [vec![soa(1)], answer])).expect("two");
        next.resize(next.len() + padding, 0);
        receiver.receive(&first).expect("a SOA record");
        (0..100_000).find_map(|_| receiver.receive(&next).err()).expect("an end").to_string()
    };
    let limits = TransferLimits { max_records: 1000, ..TransferLimits::default() };
    assert_eq!(endless(limits, vec![host(1)], 0), "the primary sent more than 1000 records (help: raise max-records)");
    let limits = TransferLimits { max_octets: 1000, ..TransferLimits::default() };
    assert_eq!(
        endless(limits, vec![host(1)], 0),
        "the primary sent more than 1000 octets of records, which is more than the memory of this machine"
    );
    // The same record again and again, and different ones.
    let limits = TransferLimits { max_memory: 1 << 20, ..TransferLimits::default() };
    let expected = "the records that the primary sent take more than 1048576 octets of memory (help: raise max-bytes)";
    assert_eq!(endless(limits, vec![host(1)], 0), expected);
    assert_eq!(endless(limits, (1..100).map(host).collect(), 0), expected);
    // One record per message of 64 KiB, and none at all.
    for answer in [vec![host(1)], vec![]] {
        let error = endless(TransferLimits::default(), answer, 65_000);
        assert!(error.starts_with("the primary sent 4") && error.ends_with(" octets of records"), "{error}");
    }
}

#[test]
fn rfc_3597_4_compressed_names_are_decompressed_in_older_types() {
    let mut message = responses(Rtype::AXFR, [vec![soa(1), ns(), soa(1)]]).remove(0);
    // SRV with a compressed target: a pointer to the question.
    let srv =
        [b"\x01s\xc0\x0c\x00\x21\x00\x01\x00\x00\x00\x3c\x00\x0a\x00\x01\x00\x02\x00\x35".as_slice(), b"\x01h\xc0\x0c"]
            .concat();
    let soa_len = name(APEX).wire().len() + 10 + soa(1).rdata.len();
    let at = message.len() - soa_len;
    message.splice(at..at, srv);
    message[7] += 1;
    let Ok(Received::Full { zone, .. }) = receive(AXFR, &[message]) else { panic!("no zone") };
    let records: BTreeSet<ZoneRecord> = transferred(&zone).into_iter().collect();
    assert!(records.contains(&(name("s.z."), Rtype::SRV, 60, b"\x00\x01\x00\x02\x00\x35\x01h\x01Z\x00".to_vec())));
}

/// RFC 1995 4: only a chain of changes up to the current version can be sent.
#[test]
fn a_chain_with_a_gap_is_not_sent() {
    let set = |first| Set { owner: "a.z.".into(), rtype: Rtype::A, first, count: 1, signature_len: None };
    let (zones, changes) = chain(&[vec![set(1)], vec![set(2)], vec![set(3)], vec![set(4)]], false);
    assert!(ixfr_stream(&zones[3], &changes).is_some());
    assert!(ixfr_stream(&zones[2], &changes).is_none());
    assert!(ixfr_stream(&zones[3], &[changes[0].clone(), changes[2].clone()]).is_none());
    let alone = TransferStream::Ixfr(ixfr_stream(&zones[3], &[]).expect("a SOA record"));
    assert_eq!(alone.content(), TransferContent::SoaOnly);
    let sent = messages(alone, 512);
    assert!(matches!(receive(ixfr(4), &sent), Ok(Received::SoaOnly { serial: 4 })));
}

/// RFC 1995 4, RFC 1035 4.1.4: names are compressed, so that a change of many hosts fits in few octets.
#[test]
fn ixfr_messages_are_compressed() {
    let hosts = |first| {
        (0..100).map(move |n| Set { owner: format!("h{n}.z."), rtype: Rtype::NS, first, count: 1, signature_len: None })
    };
    let (zones, changes) = chain(&[hosts(2).collect(), hosts(4).collect()], false);
    let stream = TransferStream::Ixfr(ixfr_stream(&zones[1], &changes).expect("a chain"));
    let sent: usize = messages(stream, 65_535).iter().map(Vec::len).sum();
    let plain = changes[0].as_bytes().len();
    assert!(sent + 250 < plain, "{sent} octets for {plain}");
}
