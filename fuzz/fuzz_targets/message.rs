//! Any octets: not a message, or one that is equal after writing and parsing it again, and has the same records in place.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::message::{RawRecords, Section};
use wire::{Message, Rtype};

fuzz_target!(|bytes: &[u8]| {
    let in_place = RawRecords::of(bytes);
    if let Ok(message) = Message::parse(bytes) {
        let again = Message::parse(&message.to_wire());
        assert_eq!(again.as_ref(), Ok(&message));
        check_in_place(&message, in_place.expect("it has a header"));
    } else if let Some(mut records) = in_place {
        let (count, found) = (records.left(), records.by_ref().count());
        assert_eq!(found + records.left(), count);
    }
});

/// The records in place are those of the message.
fn check_in_place(message: &Message, records: RawRecords<'_>) {
    let found = |section| {
        let records = records.clone().filter(move |(of, record)| *of == section && record.rtype != Rtype::OPT);
        records.map(|(_, record)| (record.rtype, record.class, record.ttl)).collect::<Vec<_>>()
    };
    for (section, parsed) in [
        (Section::Answer, &message.answer),
        (Section::Authority, &message.authority),
        (Section::Additional, &message.additional),
    ] {
        let parsed: Vec<_> = parsed.iter().map(|record| (record.rtype, record.class, record.ttl)).collect();
        assert_eq!(found(section), parsed, "{section:?}");
    }
    let opt = records.clone().any(|(_, record)| record.rtype == Rtype::OPT);
    assert_eq!((opt, records.left()), (message.edns.is_some(), records.count()));
}
