//! RFC 8945: signed queries, of which no key is known here. RFC 1995: IXFR, which needs the SOA record of the client.

use answer::Transport::Udp;
use wire::message::{Message, Rcode, Record};
use wire::{Class, Name, Rtype};

use crate::server::{Server, query};
use crate::subject::TCP;

const ZONE: &str = "
    example. 3600 SOA ns.invalid. host.invalid. 7 2 3 4 60
    example. 3600 NS ns.invalid.
    ";

fn server() -> Server {
    Server::with_transfer(&[("example.", ZONE)])
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

/// An IXFR query of a client that has this serial.
fn ixfr(serial: u32) -> Message {
    let mut rdata = vec![0, 0];
    rdata.extend(serial.to_be_bytes());
    rdata.extend([0; 16]);
    let soa = Record { owner: name("example."), rtype: Rtype::SOA, class: Class::IN, ttl: 0, rdata };
    Message { authority: vec![soa], ..query("example. IXFR") }
}

#[test]
fn rfc_1995_3_an_ixfr_query_has_the_soa_of_the_client_and_no_other_query_has() {
    assert_eq!(server().ask(&query("example. IXFR"), Udp).rcode, Rcode::FORMERR);
    let stray = Message { authority: ixfr(1).authority, ..query("example. SOA") };
    assert_eq!(server().ask(&stray, Udp).rcode, Rcode::FORMERR);
}

#[test]
fn rfc_1995_2_over_udp_the_current_soa_sends_the_client_to_tcp() {
    let got = server().ask(&ixfr(1), Udp);
    assert_eq!((got.rcode, got.answer.len()), (Rcode::NOERROR, 1));
    assert_eq!(got.answer[0].rtype, Rtype::SOA);
}

#[test]
fn rfc_1995_4_without_a_history_the_whole_zone_is_sent() {
    let messages = server().transfer(&ixfr(1));
    let types: Vec<Rtype> = messages.iter().flat_map(|message| &message.answer).map(|record| record.rtype).collect();
    assert_eq!(types, [Rtype::SOA, Rtype::NS, Rtype::SOA]);
}

#[test]
fn rfc_6895_3_1_types_that_are_no_data_cannot_be_asked_for() {
    for qtype in [Rtype(0), Rtype::OPT, Rtype::TSIG, Rtype(128)] {
        assert_eq!(server().ask(&Message::query(name("example."), qtype), TCP).rcode, Rcode::FORMERR, "{qtype:?}");
    }
}
