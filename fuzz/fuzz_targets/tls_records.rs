//! The record layer of TLS: octets of a peer, some of them records with the right keys.
//!
//! The first octet chooses the suite. Then steps, each an octet for its kind and one for a length, then octets: data, a record of
//! any type, a request for new keys, octets that are no record of the peer, or an answer. The property: data arrives as it was sent,
//! or not at all; an error is final; what this side sends can be read by the peer.
#![no_main]

use libfuzzer_sys::fuzz_target;
use server::tls::record_layer::{CipherSuite, RecordLayer, TrafficKeys};

fn layers(suite: CipherSuite) -> (RecordLayer, RecordLayer) {
    let keys = |secret: u8| TrafficKeys::new(suite, &[secret; 48][..suite.secret_len()], 0);
    (RecordLayer::new(keys(2), keys(1)), RecordLayer::new(keys(1), keys(2)))
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, mut rest)) = bytes.split_first() else { return };
    let suite = [CipherSuite::Aes128Gcm, CipherSuite::Aes256Gcm, CipherSuite::ChaCha20Poly1305][usize::from(choice % 3)];
    let (mut peer, mut own) = layers(suite);
    let mut is_honest = true;
    while let Some(([kind, len], more)) = rest.split_first_chunk::<2>() {
        let (octets, more) = more.split_at(usize::from(*len).min(more.len()));
        rest = more;
        let (mut sent, mut data) = (Vec::new(), &[][..]);
        match kind % 6 {
            0 => {
                peer.seal(octets, &mut sent);
                data = octets;
            }
            1 => {
                let (content_type, content) = octets.split_first().unwrap_or((&23, &[]));
                peer.seal_any(*content_type, content, &mut sent);
                is_honest = false;
            }
            2 => peer.request_key_update(&mut sent),
            3 => {
                sent.extend_from_slice(octets);
                is_honest = false;
            }
            // Without data, many new keys in a row would be refused.
            4 if !octets.is_empty() => {
                own.seal(octets, &mut sent);
                let mut out = vec![0; sent.len()];
                let len = peer.open(&mut sent, &mut out).expect("this side follows the rules");
                assert_eq!(&out[..len], octets);
                continue;
            }
            _ => peer.seal_close_notify(&mut sent),
        }
        let mut out = vec![0; sent.len()];
        match own.open(&mut sent, &mut out) {
            Ok(len) if is_honest && !own.is_closed() => assert_eq!(&out[..len], data),
            Ok(_) => {}
            Err(error) => {
                let mut alert = Vec::new();
                own.seal_alert(error, &mut alert);
                let mut out = vec![0; alert.len()];
                assert!(alert.is_empty() || peer.open(&mut alert, &mut out).is_err());
                return;
            }
        }
    }
});
