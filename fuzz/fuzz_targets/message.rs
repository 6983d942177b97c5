//! Any bytes: they are no message, or one that is read again as it was written.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::Message;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(message) = Message::parse(bytes) {
        let again = Message::parse(&message.to_wire());
        assert_eq!(again, Ok(message));
    }
});
