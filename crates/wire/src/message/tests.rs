//! Parsing and writing messages: valid, malformed and random ones.

use proptest::collection::vec;
use proptest::prelude::*;

use super::compressed_labels::MAX_POINTERS;
use super::*;
use crate::HEADER_LEN;

fn name(text: &str) -> Name {
    text.parse().expect("a good name")
}

/// A header with these counts, and `body`.
fn with_header(counts: [u8; 4], body: &[u8]) -> Vec<u8> {
    let [qd, an, ns, ar] = counts;
    [&[0x12, 0x34, 0x80, 0x00, 0, qd, 0, an, 0, ns, 0, ar], body].concat()
}

#[test]
fn a_compressed_response_is_parsed() {
    // www.a. MX? with an answer whose owner points to the question and whose exchange points to its second label.
    let body = b"\x03www\x01a\x00\x00\x0f\x00\x01\
        \xc0\x0c\x00\x0f\x00\x01\x00\x00\x0e\x10\x00\x07\x00\x0a\x02mx\xc0\x10";
    // "mx" and its pointer are 5 octets, the preference 2.
    let message = Message::parse(&with_header([1, 1, 0, 0], body)).expect("a good message");
    assert_eq!(message.id, 0x1234);
    assert_eq!(message.flags, Flags { response: true, ..Flags::default() });
    assert_eq!(message.questions, [Question { name: name("www.a."), qtype: Rtype::MX, qclass: Class::IN }]);
    let rdata = b"\x00\x0a\x02mx\x01a\x00".to_vec();
    let answer = Record { owner: name("www.a."), rtype: Rtype::MX, class: Class::IN, ttl: 3600, rdata };
    assert_eq!(message.answer, [answer]);
}

#[test]
fn rfc_3597_4_names_in_older_types_are_decompressed() {
    // a. NAPTR? with an answer whose replacement, after two numbers and three strings, ends in a pointer to the question.
    let body = b"\x01a\x00\x00\x23\x00\x01\
        \xc0\x0c\x00\x23\x00\x01\x00\x00\x0e\x10\x00\x0e\x00\x01\x00\x02\x01s\x02xy\x00\x01b\xc0\x0c";
    let mut message = with_header([1, 1, 0, 0], body);
    let read = Message::parse(&message).expect("a good message");
    assert_eq!(read.answer[0].rdata, b"\x00\x01\x00\x02\x01s\x02xy\x00\x01b\x01a\x00");
    // Half the pointer.
    message.pop();
    let len_at = message.len() - 14;
    message[len_at] -= 1;
    assert_eq!(Message::parse(&message), Err(MessageError::Rdata(Rtype::NAPTR)));
}

#[test]
fn the_query_of_a_modern_resolver() {
    let mut query = Message::query(name("example.org."), Rtype::AAAA).with_edns(Edns {
        dnssec_ok: true,
        options: vec![EdnsOption { code: 3, data: vec![] }],
        ..Edns::default()
    });
    query.id = 0xabcd;
    query.flags.recursion_desired = true;
    let wire = b"\xab\xcd\x01\x00\x00\x01\x00\x00\x00\x00\x00\x01\x07example\x03org\x00\x00\x1c\x00\x01\
        \x00\x00\x29\x04\xd0\x00\x00\x80\x00\x00\x04\x00\x03\x00\x00";
    assert_eq!(query.to_wire(), wire);
    assert_eq!(Message::parse(wire), Ok(query));
}

#[test]
fn the_response_code_has_its_upper_bits_in_opt() {
    let message = Message { rcode: Rcode::BADVERS, edns: Some(Edns::default()), ..Message::default() };
    let wire = message.to_wire();
    assert_eq!((wire[3], wire[17]), (0, 1), "RFC 6891 6.1.3");
    assert_eq!(Message::parse(&wire), Ok(message));
}

#[test]
fn a_record_of_an_update_may_lack_rdata() {
    let deletion = b"\x01a\x00\x00\x02\x00\xff\x00\x00\x00\x00\x00\x00";
    let message = Message::parse(&with_header([0, 0, 1, 0], deletion)).expect("RFC 2136 2.5.2");
    assert_eq!(message.authority[0].rdata, []);
}

#[test]
fn malformed_messages_are_errors() {
    let opt = b"\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x00";
    let long_label = [b"\x3f".as_slice(), &[b'x'; 63]].concat();
    let cases: [(&str, Vec<u8>, MessageError); 16] = [
        ("no header", vec![0; 11], MessageError::Short),
        ("no question", with_header([1, 0, 0, 0], b""), MessageError::Short),
        ("half a label", with_header([1, 0, 0, 0], b"\x03ab"), MessageError::Short),
        ("half a pointer", with_header([1, 0, 0, 0], b"\x01a\xc0"), MessageError::Short),
        ("no class", with_header([1, 0, 0, 0], b"\x01a\x00\x00\x01\x00"), MessageError::Short),
        ("half the RDATA", with_header([0, 1, 0, 0], b"\0\0\x01\0\x01\0\0\0\0\0\x04\x01\x02"), MessageError::Short),
        ("left over", with_header([0, 0, 0, 0], b"\x00"), MessageError::Trailing),
        ("label type 01", with_header([1, 0, 0, 0], b"\x41a\x00\x00\x01\x00\x01"), MessageError::LabelType),
        ("257 octets", with_header([1, 0, 0, 0], &[long_label.repeat(4), vec![0]].concat()), MessageError::LongName),
        ("to itself", with_header([1, 0, 0, 0], b"\xc0\x0c\x00\x01\x00\x01"), MessageError::Pointer),
        ("a loop", with_header([1, 0, 0, 0], b"\x01a\xc0\x0c\x00\x01\x00\x01"), MessageError::Pointer),
        ("forwards", with_header([1, 0, 0, 0], b"\xc0\x0e\x00\x00\x01\x00\x01"), MessageError::Pointer),
        ("into the header", with_header([1, 0, 0, 0], b"\xc0\x04\x00\x01\x00\x01"), MessageError::Pointer),
        ("NS too long", with_header([0, 1, 0, 0], b"\0\0\x02\0\x01\0\0\0\0\0\x02\0\0"), MessageError::Rdata(Rtype::NS)),
        ("two OPT", with_header([0, 0, 0, 2], &opt.repeat(2)), MessageError::Opt),
        ("OPT as an answer", with_header([0, 1, 0, 0], opt), MessageError::Opt),
    ];
    for (what, bytes, error) in cases {
        assert_eq!(Message::parse(&bytes), Err(error), "{what}");
    }
}

#[test]
fn pointers_to_pointers_are_bounded() {
    // Each question's name is a pointer to the one before; the first is the root.
    let names = |count: usize| {
        let mut body = b"\x00\x00\x01\x00\x01".to_vec();
        for at in 1..count {
            let previous = if at == 1 { HEADER_LEN } else { HEADER_LEN + 5 + (at - 2) * 6 };
            body.extend_from_slice(&(0xc000 | previous as u16).to_be_bytes());
            body.extend_from_slice(b"\x00\x01\x00\x01");
        }
        with_header([count as u8, 0, 0, 0], &body)
    };
    assert!(Message::parse(&names(1 + usize::from(MAX_POINTERS))).is_ok());
    assert_eq!(Message::parse(&names(2 + usize::from(MAX_POINTERS))), Err(MessageError::Pointer));
}

fn names() -> impl Strategy<Value = Name> {
    vec(vec(any::<u8>(), 1..64), 0..4).prop_map(|labels| {
        let mut wire: Vec<u8> = labels.iter().flat_map(|label| [&[label.len() as u8], &label[..]].concat()).collect();
        wire.push(0);
        Name::from_wire(&wire).expect("three labels of 63 octets fit")
    })
}

fn records() -> impl Strategy<Value = Record> {
    let opaque = (prop_oneof![Just(Rtype::A), Just(Rtype::RRSIG), Just(Rtype(65_280))], vec(any::<u8>(), 0..300));
    let ns = names().prop_map(|target| (Rtype::NS, target.wire().to_vec()));
    let mx = (any::<[u8; 2]>(), names()).prop_map(|(n, target)| (Rtype::MX, [&n, target.wire()].concat()));
    let soa = (names(), names(), any::<[u8; 20]>())
        .prop_map(|(primary, mailbox, rest)| (Rtype::SOA, [primary.wire(), mailbox.wire(), &rest].concat()));
    (names(), any::<u16>(), any::<u32>(), prop_oneof![opaque, ns, mx, soa])
        .prop_map(|(owner, class, ttl, (rtype, rdata))| Record { owner, rtype, class: Class(class), ttl, rdata })
}

fn edns() -> impl Strategy<Value = Edns> {
    let options = vec((any::<u16>(), vec(any::<u8>(), 0..40)), 0..4)
        .prop_map(|options| options.into_iter().map(|(code, data)| EdnsOption { code, data }).collect());
    (any::<u16>(), any::<u8>(), any::<bool>(), 0..DNSSEC_OK, options).prop_map(
        |(payload, version, dnssec_ok, reserved, options)| Edns { payload, version, dnssec_ok, reserved, options },
    )
}

prop_compose! {
    fn messages()(
        (id, opcode, bits, rcode) in (any::<u16>(), 0..16u8, any::<u16>(), 0..4096u16),
        questions in vec((names(), any::<u16>(), any::<u16>()), 0..3),
        (answer, authority, additional) in (vec(records(), 0..4), vec(records(), 0..4), vec(records(), 0..4)),
        edns in proptest::option::of(edns()),
    ) -> Message {
        let questions = questions.into_iter().map(|(name, qtype, qclass)| {
            Question { name, qtype: Rtype(qtype), qclass: Class(qclass) }
        });
        let rcode = Rcode(if edns.is_some() { rcode } else { rcode & 0xf });
        Message {
            id, opcode: Opcode(opcode), flags: Flags::from_bits(bits), rcode, questions: questions.collect(),
            answer, authority, additional, edns,
        }
    }
}

/// Miri is about a hundred times slower.
const CASES: u32 = if cfg!(miri) { 8 } else { 256 };

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]
    #[test]
    fn written_messages_parse_to_the_same(message in messages()) {
        let wire = message.to_wire();
        let read = Message::parse(&wire);
        prop_assert_eq!(read.as_ref(), Ok(&message));
        let owned = message.answer.iter().chain(&message.authority).chain(&message.additional);
        let owned = owned.map(|record| (record.rtype, record.class, record.ttl));
        let in_place = RawRecords::of(&wire).expect("a message").map(|(_, record)| record);
        let in_place = in_place.filter(|record| record.rtype != Rtype::OPT);
        prop_assert!(in_place.map(|record| (record.rtype, record.class, record.ttl)).eq(owned));
        // Names compare without case; the bytes must be the same all the same.
        prop_assert_eq!(read.expect("it is equal").to_wire(), wire);
    }

    #[test]
    fn random_octets_do_not_panic(mut bytes in vec(any::<u8>(), 0..200), counts in vec(0..3u8, 4)) {
        let _ = Message::parse(&bytes);
        // Small counts lead deeper into the reader.
        if bytes.len() >= HEADER_LEN {
            for (at, count) in counts.into_iter().enumerate() {
                bytes[4 + 2 * at..6 + 2 * at].copy_from_slice(&[0, count]);
            }
            let _ = Message::parse(&bytes);
        }
    }

    #[test]
    fn damaged_messages_do_not_panic(message in messages(), at in any::<prop::sample::Index>(), byte: u8) {
        let mut wire = message.to_wire();
        let at = at.index(wire.len());
        wire[at] = byte;
        let _ = Message::parse(&wire);
        let _ = Message::parse(&wire[..at]);
    }
}
