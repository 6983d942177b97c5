//! Verifies any bytes as a signed query and as a response, and signs them where they are a message. The first octet chooses the key, the
//! second one how the signed message is changed.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use wire::tsig::{ALGORITHM_NAMES, TsigKey, TsigSigner, TsigVerifier, find, verify_query};
use wire::{Message, NameRef, Rtype};

/// Keys of all algorithms, with full MACs and with truncated ones. No input knows their secret.
static KEYS: LazyLock<Vec<TsigKey>> = LazyLock::new(|| {
    let name = NameRef::from_wire(b"\x03key\0").expect("a name");
    let keys = ALGORITHM_NAMES.map(|algorithm| TsigKey::new(algorithm, name, &[7; 32]).expect("a known algorithm"));
    let truncated = keys.clone().map(|key| {
        let half = key.min_mac_len() / 2;
        key.with_min_mac_len(half.max(10)).expect("RFC 8945 5.2.2.1 permits it")
    });
    keys.into_iter().chain(truncated).collect()
});

/// The time signed, and the time when a signature is verified.
const NOW_S: u64 = 1_700_000_000;

fuzz_target!(|bytes: &[u8]| {
    let Some(([choice, change], message)) = bytes.split_first_chunk::<2>() else { return };
    let key = &KEYS[usize::from(*choice) % KEYS.len()];
    verify_any(message, key);
    let Ok(parsed) = Message::parse(message) else { return };
    let mut records = parsed.answer.iter().chain(&parsed.authority).chain(&parsed.additional);
    if message.len() > 60_000 || records.any(|record| record.rtype == Rtype::TSIG) {
        return;
    }
    let mut signed = message.to_vec();
    let mut signer = TsigSigner::for_query(key);
    let Ok(mac) = signer.sign(&mut signed, 0, NOW_S) else { return };
    let Ok(Some(mut responses)) = verify_query(&signed, |_| Some(key), NOW_S) else {
        panic!("a signed message does not verify");
    };
    let mut response = message.to_vec();
    responses.sign(&mut response, 0, NOW_S).expect("as long as the query");
    assert_eq!(TsigVerifier::new(key, &mac).verify(&response, NOW_S), Ok(()));
    // Any other octet of what was signed, after the ID.
    let at = 2 + usize::from(*change) % (message.len() - 2);
    signed[at] ^= 1 << (change % 8);
    assert!(!matches!(verify_query(&signed, |_| Some(key), NOW_S), Ok(Some(_))), "octet {at} was changed");
});

/// No signature is right, whatever the octets are: failures have an error, and a response that can be read.
fn verify_any(message: &[u8], key: &TsigKey) {
    match verify_query(message, |_| Some(key), NOW_S) {
        Ok(signer) => assert!(signer.is_none(), "the secret is not known"),
        Err(failure) => {
            let mut response = vec![0; 12];
            failure.sign(&mut response, 0, NOW_S).expect("it is short");
            assert!(find(&response).is_ok(), "{}", failure.error);
        }
    }
    let mac = TsigSigner::for_query(key).sign(&mut vec![0; 12], 0, NOW_S).expect("it is short");
    assert!(TsigVerifier::new(key, &mac).verify(message, NOW_S).is_err(), "the secret is not known");
}
