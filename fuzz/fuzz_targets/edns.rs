//! Any OPT record after a valid question: FORMERR, BADVERS or the answer, with a well-formed OPT record.
//!
//! Six octets choose payload size, version, flags and the number of OPT records; the rest is the RDATA.
#![no_main]

use std::sync::{Arc, OnceLock};

use answer::CookieSecrets;
use answer::{Acl, ZoneState, AnswerConfig, Served, Transport};
use libfuzzer_sys::fuzz_target;
use wire::message::{Message, Rcode};
use wire::{Name, Rtype};
use zonda_fuzz::{ask_anything, subject};

fn served() -> &'static Arc<Served> {
    static SERVED: OnceLock<Arc<Served>> = OnceLock::new();
    SERVED.get_or_init(|| {
        let options =
            AnswerConfig { nsid: vec![b'n'; 100].into(), cookies: Some(CookieSecrets(vec![[7; 16]])), ..AnswerConfig::default() };
        let text = "example. 60 IN SOA ns. host. 1 2 3 4 5\nexample. 60 NS ns.\n";
        let zone = subject::zone(&apex(), text);
        subject::serve([ZoneState::Loaded(zone)], options, Acl::default())
    })
}

fn apex() -> Name {
    "example.".parse().expect("a good name")
}

fuzz_target!(|bytes: &[u8]| {
    let Some(([payload @ .., version, high, low, copies], rdata)) = bytes.split_first_chunk::<6>() else { return };
    let Ok(len) = u16::try_from(rdata.len()) else { return };
    let fixed = [&[0, 0, 41][..], payload, &[0, *version, *high, *low], &len.to_be_bytes()].concat();
    let copies = copies % 3;
    let mut query = Message::query(apex(), Rtype::SOA).to_wire();
    query[11] = copies;
    for _ in 0..copies {
        query.extend_from_slice(&fixed);
        query.extend_from_slice(rdata);
    }
    for transport in [Transport::Udp, subject::TCP] {
        let answer = ask_anything(served(), &query, transport).expect("an answer");
        let rcodes: &[Rcode] = match (copies, version) {
            (2.., _) => &[Rcode::FORMERR],
            // The option format of other versions is unknown.
            (1, 1..) => &[Rcode::BADVERS],
            (1, 0) if Message::parse(&query).is_err() => &[Rcode::FORMERR],
            // Some options have a fixed format.
            (1, 0) => &[Rcode::NOERROR, Rcode::FORMERR],
            (0, _) => &[Rcode::NOERROR],
        };
        assert!(rcodes.contains(&answer.rcode), "{:?}", answer.rcode);
        if let Some(edns) = &answer.edns {
            assert_eq!((edns.version, edns.reserved, edns.dnssec_ok), (0, 0, high & 0x80 != 0));
        }
    }
});
