//! Two record layers that talk to each other, and the rules of RFC 8446 that a peer may break.

use super::*;

const SUITES: [CipherSuite; 3] = [CipherSuite::Aes128Gcm, CipherSuite::Aes256Gcm, CipherSuite::ChaCha20Poly1305];

fn keys(suite: CipherSuite, secret: u8) -> TrafficKeys {
    TrafficKeys::new(suite, &[secret; 48][..suite.secret_len()], 0)
}

/// A client and a server.
fn pair(suite: CipherSuite) -> (RecordLayer, RecordLayer) {
    (RecordLayer::new(keys(suite, 2), keys(suite, 1)), RecordLayer::new(keys(suite, 1), keys(suite, 2)))
}

fn sealed(layer: &mut RecordLayer, data: &[u8]) -> Vec<u8> {
    let mut records = Vec::new();
    layer.seal(data, &mut records);
    records
}

/// A record of any type and content.
fn record(layer: &mut RecordLayer, content_type: u8, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    layer.seal_any(content_type, content, &mut out);
    out
}

fn opened(layer: &mut RecordLayer, mut records: Vec<u8>) -> Result<Vec<u8>, RecordError> {
    let mut out = vec![0; records.len()];
    let len = layer.open(&mut records, &mut out)?;
    out.truncate(len);
    Ok(out)
}

fn refused(alert: AlertDescription) -> Result<Vec<u8>, RecordError> {
    Err(RecordError::Refused(alert))
}

fn after(layer: &mut RecordLayer) -> Vec<u8> {
    sealed(layer, b"after")
}

#[test]
fn data_arrives_in_both_directions_and_in_all_suites() {
    let long: Vec<u8> = (0..=255).cycle().take(50_000).collect();
    for suite in SUITES {
        let (mut client, mut server) = pair(suite);
        for data in [&b"x"[..], &[0; 100], &long, b""] {
            let records = sealed(&mut client, data);
            assert_eq!(records.len(), data.len() + data.len().div_ceil(MAX_CONTENT) * OVERHEAD);
            assert!(opened(&mut server, records) == Ok(data.to_vec()), "{suite:?}");
            let records = sealed(&mut server, data);
            assert!(opened(&mut client, records) == Ok(data.to_vec()), "{suite:?}");
        }
    }
}

#[test]
fn rfc_8446_5_2_a_record_that_was_changed_dropped_or_repeated_is_refused() {
    for suite in SUITES {
        let (mut client, _) = pair(suite);
        let (first, second) = (sealed(&mut client, b"first"), sealed(&mut client, b"second"));
        // The version of the header is ignored, but authenticated.
        for at in [1, 2, 5, first.len() - 1] {
            let mut changed = first.clone();
            changed[at] ^= 1;
            assert_eq!(opened(&mut pair(suite).1, changed), refused(AlertDescription::BadRecordMac), "octet {at}");
        }
        assert_eq!(opened(&mut pair(suite).1, second), refused(AlertDescription::BadRecordMac));
        let (_, mut server) = pair(suite);
        assert_eq!(opened(&mut server, first.clone()), Ok(b"first".to_vec()));
        assert_eq!(opened(&mut server, first), refused(AlertDescription::BadRecordMac));
        assert_eq!(opened(&mut server, [23, 3, 3, 0, 3, 1, 2, 3].to_vec()), refused(AlertDescription::BadRecordMac));
    }
}

#[test]
fn rfc_8446_5_1_5_2_records_have_a_maximum_length() {
    let (mut client, mut server) = pair(CipherSuite::Aes128Gcm);
    let longest = record(&mut client, 23, &[1; MAX_CONTENT]);
    assert_eq!(opened(&mut server, longest).map(|data| data.len()), Ok(MAX_CONTENT));
    let longer = record(&mut client, 23, &[1; MAX_CONTENT + 1]);
    assert_eq!(opened(&mut server, longer), refused(AlertDescription::RecordOverflow));
    let header = [23, 3, 3, 0x41, 1];
    assert_eq!(opened(&mut server, header.to_vec()), refused(AlertDescription::RecordOverflow));
}

#[test]
fn rfc_8446_5_4_padding_is_removed_and_a_type_is_required() {
    let (mut client, mut server) = pair(CipherSuite::Aes128Gcm);
    // The content of the type 0 ends with the data's type and padding.
    let padded = record(&mut client, 0, &[b'a', b'b', 23, 0, 0, 0]);
    assert_eq!(opened(&mut server, padded), Ok(b"ab".to_vec()));
    let untyped = record(&mut client, 0, &[0; 10]);
    assert_eq!(opened(&mut server, untyped), refused(AlertDescription::UnexpectedMessage));
}

#[test]
fn rfc_8446_5_only_encrypted_records_and_known_types_are_accepted() {
    // A bare change_cipher_spec, a bare alert, handshake in the clear, nonsense.
    for bare in
        [&[20, 3, 3, 0, 1, 1][..], &[21, 3, 3, 0, 2, 1, 0], &[22, 3, 3, 0, 5, 24, 0, 0, 1, 0], &[99, 3, 3, 0, 0]]
    {
        let (_, mut server) = pair(CipherSuite::Aes128Gcm);
        assert_eq!(opened(&mut server, bare.to_vec()), refused(AlertDescription::UnexpectedMessage));
    }
    for (content_type, content) in [(20, &[1][..]), (24, &[1, 2]), (22, &[4, 0, 0, 1, 0]), (22, &[1, 0, 0, 0])] {
        let (mut client, mut server) = pair(CipherSuite::Aes128Gcm);
        let sent = record(&mut client, content_type, content);
        assert_eq!(
            opened(&mut server, sent),
            refused(AlertDescription::UnexpectedMessage),
            "{content_type} {content:?}"
        );
    }
    let (_, mut server) = pair(CipherSuite::Aes128Gcm);
    assert_eq!(opened(&mut server, vec![23, 3, 3, 0]), refused(AlertDescription::DecodeError));
}

#[test]
fn rfc_8446_4_6_3_both_directions_change_their_keys() {
    for suite in SUITES {
        let (mut client, mut server) = pair(suite);
        for round in 0..100u8 {
            let mut records = sealed(&mut client, &[round]);
            client.request_key_update(&mut records);
            records.extend(after(&mut client));
            assert_eq!(opened(&mut server, records), Ok([&[round][..], b"after"].concat()));
            // The server's own update comes with its next data.
            let answer = sealed(&mut server, b"answer");
            assert_eq!(answer.len(), 2 * OVERHEAD + KEY_UPDATE.len() + 6, "{suite:?}");
            assert_eq!(opened(&mut client, answer), Ok(b"answer".to_vec()));
            let more = sealed(&mut server, b"more");
            assert_eq!(more.len(), OVERHEAD + 4);
            assert_eq!(opened(&mut client, more), Ok(b"more".to_vec()));
        }
    }
}

#[test]
fn rfc_8446_4_6_3_requests_that_are_not_answered_yet_get_one_update() {
    let (mut client, mut server) = pair(CipherSuite::Aes128Gcm);
    let mut records = Vec::new();
    (0..5).for_each(|_| client.request_key_update(&mut records));
    assert_eq!(opened(&mut server, records), Ok(Vec::new()));
    assert_eq!(sealed(&mut server, b"answer").len(), 2 * OVERHEAD + KEY_UPDATE.len() + 6);
}

#[test]
fn rfc_8446_5_1_a_key_update_may_be_split_but_not_interleaved_or_followed() {
    let (mut client, mut server) = pair(CipherSuite::Aes128Gcm);
    let parts = [record(&mut client, 22, &KEY_UPDATE[..1]), record(&mut client, 22, &KEY_UPDATE[1..])].concat();
    client.write.update();
    let records = [parts, after(&mut client)].concat();
    assert_eq!(opened(&mut server, records), Ok(b"after".to_vec()));

    for (content_type, content) in [(23, &b"data"[..]), (21, &[1, 0]), (22, &[])] {
        let (mut client, mut server) = pair(CipherSuite::Aes128Gcm);
        let records = [record(&mut client, 22, &KEY_UPDATE[..3]), record(&mut client, content_type, content)].concat();
        assert_eq!(opened(&mut server, records), refused(AlertDescription::UnexpectedMessage));
    }
    let (mut client, mut server) = pair(CipherSuite::Aes128Gcm);
    let two = record(&mut client, 22, &[KEY_UPDATE, KEY_UPDATE].concat());
    assert_eq!(opened(&mut server, two), refused(AlertDescription::UnexpectedMessage));
    let (mut client, mut server) = pair(CipherSuite::Aes128Gcm);
    let wrong = record(&mut client, 22, &[24, 0, 0, 1, 2]);
    assert_eq!(opened(&mut server, wrong), refused(AlertDescription::IllegalParameter));
}

#[test]
fn rfc_8446_6_2_a_key_update_of_another_length_cannot_be_parsed() {
    for content in [&[24, 0, 0, 0][..], &[24, 0, 0, 2, 0, 0], &[24, 1, 0, 1, 0], &[24, 0, 1]] {
        let (mut client, mut server) = pair(CipherSuite::Aes128Gcm);
        let sent = record(&mut client, 22, content);
        assert_eq!(opened(&mut server, sent), refused(AlertDescription::DecodeError), "{content:?}");
    }
}

/// Those of data are allowed, to hide that there is none.
#[test]
fn rfc_8446_5_4_handshake_and_alert_records_have_content() {
    for (content_type, expected) in [
        (21, refused(AlertDescription::UnexpectedMessage)),
        (22, refused(AlertDescription::UnexpectedMessage)),
        (23, Ok(Vec::new())),
    ] {
        let (mut client, mut server) = pair(CipherSuite::Aes128Gcm);
        let sent = record(&mut client, content_type, &[]);
        assert_eq!(opened(&mut server, sent), expected, "{content_type}");
    }
}

/// So many records, each by `append`.
fn flood(client: &mut RecordLayer, count: u8, append: impl Fn(&mut RecordLayer, &mut Vec<u8>)) -> Vec<u8> {
    let mut records = Vec::new();
    (0..count).for_each(|_| append(client, &mut records));
    records
}

#[test]
fn key_updates_without_data_are_limited() {
    let (mut client, mut server) = pair(CipherSuite::Aes128Gcm);
    for _ in 0..3 {
        let mut records = flood(&mut client, MAX_WITHOUT_DATA, RecordLayer::request_key_update);
        records.extend(after(&mut client));
        assert_eq!(opened(&mut server, records), Ok(b"after".to_vec()));
    }
    let records = flood(&mut client, MAX_WITHOUT_DATA + 1, RecordLayer::request_key_update);
    assert_eq!(opened(&mut server, records), refused(AlertDescription::UnexpectedMessage));
}

#[test]
fn empty_records_and_warnings_are_limited_like_key_updates() {
    // user_canceled is the warning.
    for (content_type, content) in [(23, &[][..]), (21, &[1, 90])] {
        let one = |client: &mut RecordLayer, out: &mut Vec<u8>| client.seal_any(content_type, content, out);
        let (mut client, mut server) = pair(CipherSuite::Aes128Gcm);
        for _ in 0..3 {
            let records = [flood(&mut client, MAX_WITHOUT_DATA, one), after(&mut client)].concat();
            assert_eq!(opened(&mut server, records), Ok(b"after".to_vec()));
        }
        let records = flood(&mut client, MAX_WITHOUT_DATA, one);
        assert_eq!(opened(&mut server, records), Ok(Vec::new()));
        let records = flood(&mut client, 1, RecordLayer::request_key_update);
        assert_eq!(opened(&mut server, records), refused(AlertDescription::UnexpectedMessage));
    }
}

/// A call is a turn of a connection, whose cost is bounded.
#[test]
fn key_updates_with_data_are_limited_per_call() {
    let update = |client: &mut RecordLayer, out: &mut Vec<u8>| {
        client.request_key_update(out);
        client.seal(b"x", out);
    };
    let (mut client, mut server) = pair(CipherSuite::Aes128Gcm);
    for _ in 0..3 {
        let records = flood(&mut client, MAX_KEY_UPDATES, update);
        assert_eq!(opened(&mut server, records).map(|data| data.len()), Ok(MAX_KEY_UPDATES.into()));
    }
    let records = flood(&mut client, MAX_KEY_UPDATES + 1, update);
    assert_eq!(opened(&mut server, records), refused(AlertDescription::UnexpectedMessage));
}

#[test]
fn rfc_8446_5_5_keys_are_replaced_before_they_are_used_up() {
    let (mut client, mut server) = pair(CipherSuite::Aes128Gcm);
    client.read.set_records(RECORDS_PER_KEY);
    server.write.set_records(RECORDS_PER_KEY);
    let records = sealed(&mut server, b"data");
    assert_eq!(records.len(), 2 * OVERHEAD + KEY_UPDATE.len() + 4);
    assert_eq!(opened(&mut client, records), Ok(b"data".to_vec()));
    assert_eq!(server.write.records(), 1);
}

#[test]
fn rfc_8446_6_alerts() {
    let (mut client, mut server) = pair(CipherSuite::Aes128Gcm);
    let mut records = [record(&mut client, 21, &[1, 90]), sealed(&mut client, b"last")].concat();
    client.seal_close_notify(&mut records);
    records.extend(b"what comes after close_notify is ignored");
    assert_eq!((opened(&mut server, records), server.is_closed()), (Ok(b"last".to_vec()), true));

    // An error alert, whatever its level, gets no answer; a refusal is announced.
    let (mut client, mut server) = pair(CipherSuite::Aes128Gcm);
    let sent = record(&mut client, 21, &[1, 40]);
    let error = opened(&mut server, sent).expect_err("handshake_failure");
    assert_eq!(error, RecordError::Received(AlertDescription::HandshakeFailure));
    let mut out = Vec::new();
    server.seal_alert(error, &mut out);
    assert!(out.is_empty());
    let sent = record(&mut client, 21, &[2, 40, 1]);
    let error = opened(&mut server, sent).expect_err("three octets");
    assert_eq!(error, RecordError::Refused(AlertDescription::DecodeError));
    server.seal_alert(error, &mut out);
    assert_eq!(opened(&mut client, out), Err(RecordError::Received(AlertDescription::DecodeError)));
}

#[test]
fn rfc_8446_6_2_no_close_notify_follows_an_error_alert_of_either_side_or_itself() {
    let close_notify = OVERHEAD + 2;
    for (content, alerts) in [(&[2, 40][..], 0), (&[2, 40, 1], 1), (&[1, 0], 1)] {
        let (mut client, mut server) = pair(CipherSuite::Aes128Gcm);
        let sent = record(&mut client, 21, content);
        let mut out = Vec::new();
        if let Err(error) = opened(&mut server, sent) {
            server.seal_alert(error, &mut out);
        }
        (0..2).for_each(|_| server.seal_close_notify(&mut out));
        assert_eq!(out.len(), alerts * close_notify, "{content:?}");
    }
}

/// The example of RFC 8448 3.
#[test]
fn rfc_8448_3_keys_are_derived_as_in_the_example() {
    let hex = |text: &str| data_encoding::HEXLOWER_PERMISSIVE.decode(text.replace(' ', "").as_bytes()).expect("hex");
    let secret = hex("a1 1a f9 f0 55 31 f8 56 ad 47 11 6b 45 a9 50 32 82 04 b4 f4 4b fb 6b 3a 4b 4f 1f 3f cb 63 16 43");
    let mut server = RecordLayer::new(
        TrafficKeys::new(CipherSuite::Aes128Gcm, &secret, 0),
        TrafficKeys::new(CipherSuite::Aes128Gcm, &secret, 1),
    );
    // The server's application data: 50 octets from 0, after one ticket.
    let data: Vec<u8> = (0..50).collect();
    let expected = hex(
        "17 03 03 00 43 2e 93 7e 11 ef 4a c7 40 e5 38 ad 36 00 5f c4 a4 69 32 fc 32 25 d0 5f 82 aa 1b 36 e3 0e fa f9 7d \
         90 e6 df fc 60 2d cb 50 1a 59 a8 fc c4 9c 4b f2 e5 f0 a2 1c 00 47 c2 ab f3 32 54 0d d0 32 e1 67 c2 95 5d",
    );
    assert_eq!(sealed(&mut server, &data), expected);
}

/// What the fuzz target `tls_records` does, with few random steps.
#[test]
fn random_records_arrive_as_they_were_sent_or_not_at_all() {
    let mut random = fastrand::Rng::with_seed(7);
    let (mut refused, mut arrived) = (0, 0);
    for _ in 0..2000 {
        let (mut client, mut server) = pair(SUITES[random.usize(..3)]);
        for _ in 0..random.usize(..8) {
            let data: Vec<u8> = (0..random.usize(..40)).map(|_| random.u8(..)).collect();
            let mut records = Vec::new();
            match random.u8(..5) {
                0 => client.request_key_update(&mut records),
                1 => client.seal_any(random.u8(20..26), &data, &mut records),
                _ => {}
            }
            let is_data = records.is_empty();
            client.seal(&data, &mut records);
            let is_changed = random.u8(..8) == 0;
            if is_changed {
                let at = random.usize(..records.len().max(1)).min(records.len().saturating_sub(1));
                records.iter_mut().skip(at).take(1).for_each(|octet| *octet ^= 1 << random.u8(..8));
            }
            match opened(&mut server, records) {
                Ok(received) if is_data => {
                    assert!(received == data && (!is_changed || data.is_empty()));
                    arrived += 1;
                }
                Ok(_) => {}
                Err(_) => {
                    refused += 1;
                    break;
                }
            }
        }
    }
    assert!(refused > 100 && arrived > 1000, "{refused} refused, {arrived} arrived");
}
