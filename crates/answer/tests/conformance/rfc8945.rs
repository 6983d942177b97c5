//! RFC 8945: queries signed with an unknown key. RFC 6895: types that must not be queried for.

use answer::Transport::Udp;
use wire::message::{Edns, Message, Rcode, Record};
use wire::{Class, Name, Rtype};

use crate::server::{Server, query};
use crate::subject::TCP;

const ZONE: &str = "
    example. 3600 SOA ns.invalid. host.invalid. 7 2 3 4 60
    example. 3600 NS ns.invalid.
    ";

fn server() -> Server {
    Server::new(&[("example.", ZONE)])
}

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

/// A TSIG record: an algorithm, six octets of time, fudge, a MAC of 16 octets, the original id, no error, no other data.
fn tsig() -> Record {
    let mut rdata = name("hmac-sha256.").wire().to_vec();
    rdata.extend([0, 0, 0x60, 0, 0, 0, 1, 0x2c, 0, 16]);
    rdata.extend([0xab; 16]);
    rdata.extend([0; 6]);
    Record { owner: name("key."), rtype: Rtype::TSIG, class: Class::ANY, ttl: 0, rdata }
}

fn with_additional(records: &[Record]) -> Message {
    Message { additional: records.to_vec(), ..query("example. SOA") }
}

#[test]
fn rfc_8945_5_2_1_no_key_is_known() {
    let got = server().ask(&with_additional(&[tsig()]), Udp);
    assert_eq!((got.rcode, got.answer.len()), (Rcode(9), 0), "NOTAUTH");
}

/// RFC 8945 5.3.2: the last record is a TSIG record with an empty MAC and BADKEY.
#[test]
fn rfc_8945_5_3_2_an_unknown_key_gets_an_unsigned_badkey() {
    let mut rdata = name("hmac-sha256.").wire().to_vec();
    rdata.extend([0, 0, 0x60, 0, 0, 0, 1, 0x2c, 0, 0, 0x12, 0x34, 0, 17, 0, 0]);
    let refusal = Record { rdata, ..tsig() };
    for edns in [None, Some(Edns::default())] {
        let asked = Message { id: 0x1234, edns: edns.clone(), ..with_additional(&[tsig()]) };
        let got = server().exchange(&asked.to_wire(), Udp).expect("an answer");
        assert!(got.ends_with(&refusal.rdata), "it is the last one");
        let got = Message::parse(&got).expect("a well-formed answer");
        assert_eq!((got.edns, &got.additional[..]), (edns, &[refusal.clone()][..]));
    }
}

#[test]
fn rfc_8945_5_1_the_signature_is_the_last_record_and_one() {
    for records in
        [[tsig(), tsig()], [tsig(), Record { rtype: Rtype::A, class: Class::IN, rdata: vec![0; 4], ..tsig() }]]
    {
        assert_eq!(server().ask(&with_additional(&records), Udp).rcode, Rcode::FORMERR);
    }
}

#[test]
fn rfc_8945_4_2_all_fields_are_there_and_the_class_is_any() {
    let mut cut = tsig();
    cut.rdata.pop();
    for record in [cut, Record { class: Class::IN, ..tsig() }] {
        assert_eq!(server().ask(&with_additional(&[record]), Udp).rcode, Rcode::FORMERR);
    }
}

#[test]
fn rfc_6895_3_1_types_that_are_no_data_cannot_be_asked_for() {
    for qtype in [Rtype(0), Rtype::OPT, Rtype::TSIG, Rtype(128)] {
        assert_eq!(server().ask(&Message::query(name("example."), qtype), TCP).rcode, Rcode::FORMERR, "{qtype:?}");
    }
}
