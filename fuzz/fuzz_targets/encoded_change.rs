//! Reads any bytes as a change: what is accepted has its records, is written back as it was, and can be applied.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zone::encoded_change::EncodedChange;

fuzz_target!(|bytes: &[u8]| {
    let Ok(change) = EncodedChange::from_bytes(bytes.into()) else { return };
    assert_eq!(change.as_bytes(), bytes);
    let (removed, added) = (change.removed().count(), change.added().count());
    assert_eq!(change.records().count(), 2 + removed + added);
    assert_eq!(change.to_change_set().len(), 2 + removed + added);
    let alone = EncodedChange::condense(std::slice::from_ref(&change)).expect("one change is a chain");
    assert_eq!((alone.from_serial(), alone.to_serial()), (change.from_serial(), change.to_serial()));
});
