//! Receives any bytes as the messages of a transfer: the first octet says what was asked for, then each message follows its length
//! of 16 bits. A transfer that completes is a zone, or changes that are well-formed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::NameRef;
use zone::encoded_change::EncodedChange;
use zone::transfer_receiver::{ReceiveStatus, Received, TransferLimits, TransferReceiver, TransferRequest};
use zone::zone_builder::ZoneBuilderOptions;

fuzz_target!(|bytes: &[u8]| {
    let Some((&kind, mut rest)) = bytes.split_first() else { return };
    let serial = Some(u32::from(kind >> 3));
    let request = TransferRequest {
        ixfr_from: serial.filter(|_| kind & 1 != 0),
        not_before: serial.filter(|_| kind & 2 != 0),
        is_udp: kind & 4 != 0,
    };
    let limits = TransferLimits { max_records: 10_000, max_octets: 1 << 20, max_memory: 1 << 20 };
    let mut receiver = TransferReceiver::new(NameRef::ROOT, request, limits, ZoneBuilderOptions::default());
    while let Some((len, more)) = rest.split_first_chunk::<2>() {
        let len = usize::from(u16::from_be_bytes(*len)).min(more.len());
        let (message, more) = more.split_at(len);
        rest = more;
        match receiver.receive(message) {
            Ok(ReceiveStatus::More) => {}
            Ok(ReceiveStatus::Complete) => break,
            Err(error) => return drop(error.to_string()),
        }
    }
    match receiver.finish() {
        Ok(Received::Full { zone, .. }) => drop(zone.counts()),
        Ok(Received::Changes(changes)) => {
            for change in &changes {
                assert!(change.increases_serial());
                assert_eq!(EncodedChange::from_bytes(change.as_bytes().into()).as_ref(), Ok(change));
            }
            assert!(EncodedChange::condense(&changes).is_some(), "changes follow each other");
        }
        Ok(Received::SoaOnly { .. }) | Err(_) => {}
    }
});
