//! Any octets: not a message, or one that is equal after writing and parsing it again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::Message;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(message) = Message::parse(bytes) {
        let again = Message::parse(&message.to_wire());
        assert_eq!(again, Ok(message));
    }
});
