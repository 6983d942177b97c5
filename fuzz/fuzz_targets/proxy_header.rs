//! PROXY headers of version 2: octets of a proxy, as a datagram, and as a connection that reads what its header lacks.
//!
//! The property: a header, if it is accepted, is within the octets and ends where nothing that follows matters; a connection reads the
//! same header, and nothing after it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use server::listen::proxy::{ProxyError, ProxyHeader, missing, parse};

/// Reads a header as a connection does.
fn read(octets: &[u8]) -> Result<ProxyHeader, ProxyError> {
    let mut received = 0;
    loop {
        match missing(&octets[..received])? {
            0 => return parse(&octets[..received]),
            lacking if lacking <= octets.len() - received => received += lacking,
            _ => return Err(ProxyError::Invalid),
        }
    }
}

fuzz_target!(|octets: &[u8]| {
    let parsed = parse(octets);
    if let Ok(header) = parsed {
        assert!(header.len <= octets.len(), "{header:?} of {} octets", octets.len());
        assert_eq!(parse(&octets[..header.len]), parsed);
        assert!((0..header.len).all(|len| parse(&octets[..len]).is_err()));
    }
    assert_eq!(read(octets), parsed);
    for len in 0..octets.len().min(64) {
        _ = missing(&octets[..len]);
    }
});
