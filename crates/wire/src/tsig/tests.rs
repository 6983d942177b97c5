//! Comparison with messages signed by dnspython, and the rules of RFC 8945.

use super::*;
use crate::message::Rcode;

/// The time signed of the dnspython messages.
const NOW_S: u64 = 1_700_000_000;

/// A query for a transfer of `example.`, not signed.
const QUERY: &str = "123400000001000000000000076578616d706c650000fc0001";
/// The first answer to it, with the SOA record, not signed.
const ANSWER: &str = "123480000001000100000000076578616d706c650000fc0001c00c000600010000003c001d026e73c00c0168c00c0000000100000001000000010000000100000001";
/// A second one without a question, with an address.
const SECOND: &str = "12348000000000010000000003777777076578616d706c6500000100010000003c0004c0000201";
/// The third one, as the first without the question.
const THIRD: &str = "123480000000000100000000076578616d706c6500000600010000003c001d026e73c00c0168c00c0000000100000001000000010000000100000001";

/// The MACs of QUERY and ANSWER in every algorithm.
const MACS: [(&str, &str, &str); 5] = [
    ("hmac-sha1", "fff00dd73ebe596402929206ed89d2d7f476eb90", "537ec9c7cc45dad2b69ee0fcd231938912abe0f4"),
    (
        "hmac-sha224",
        "adc45fb65bf2fbc05d53776736bbf5f30ef101334c64d2035dda5847",
        "c8743aebc12e91d3370b7f2e888a8936ddf6a3b5286e473f7d91e708",
    ),
    (
        "hmac-sha256",
        "05ac341e57f7d47e3cf8f07957fd9adfdac96372c2906476f71911b64cc9a6ac",
        "2daa25f8163477ce93271318ec8b836a0fc11127a10b913293aba38b842650af",
    ),
    (
        "hmac-sha384",
        "99cb46ea039d4ae1d82d3e74e31939b91d5a896f85c14d5b669975f75c3f8fc1b398c8f3d44bbf64c308344d5723f1d2",
        "7990032222ea1bc7e0166067676979c052afec4364a99b3ee8f1ca3163c151eea9e7a1cb24aeaafa9004c960844ea18f",
    ),
    (
        "hmac-sha512",
        "d35fa6509fca8d96743325870c7f357de487b218baec530cac3018b02f3865172b64c92c26c5f48701032f5cb6db43cb0f44a2f030355475813a6401ece2887b",
        "c45a035fbae988c6136f66638ffcc5cc20a23510b939b8a692ad6cfd43da1c5a702794995bd49a6309ca33d1e5b7d6706aff6e5ca8fac6504f8635ee09cca6e2",
    ),
];

/// That of THIRD with HMAC-SHA256 when SECOND was not signed.
const THIRD_MAC: &str = "30d023fe91cdae3583494729a1374fb2a6cbc4e1b763d6694bb31be16a7738f7";

fn octets(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex")).collect()
}

fn key(algorithm: &str) -> TsigKey {
    let secret: Vec<u8> = (1..33).collect();
    let name: crate::Name = "Transfer.Key.example".parse().expect("a literal");
    TsigKey::new(algorithm, name.as_ref(), &secret).expect("a known algorithm")
}

/// QUERY, signed.
fn signed_query(key: &TsigKey) -> (Vec<u8>, Mac) {
    let mut query = octets(QUERY);
    let mac = TsigSigner::for_query(key).sign(&mut query, 0, NOW_S).expect("short");
    (query, mac)
}

fn verified<'k>(query: &[u8], key: &'k TsigKey, now_s: u64) -> Result<Option<TsigSigner<&'k TsigKey>>, TsigError> {
    verify_query(query, |name| (name == key.name()).then_some(key), now_s).map_err(|failure| failure.error)
}

/// A message with a TSIG record as dnspython writes it, with a compressed key name.
fn signed_by_dnspython(message: &str, algorithm: &str, mac: &str) -> Vec<u8> {
    let mut octets = octets(message);
    octets[11] += 1;
    octets.extend_from_slice(b"\x08Transfer\x03Key\xc0\x0c");
    octets.extend_from_slice(&[0, 250, 0, 255, 0, 0, 0, 0, 0, (algorithm.len() + 18 + mac.len() / 2) as u8]);
    octets.push(algorithm.len() as u8);
    octets.extend_from_slice(algorithm.as_bytes());
    octets.extend_from_slice(&[0, 0, 0, 0x65, 0x53, 0xf1, 0, 1, 44, 0, (mac.len() / 2) as u8]);
    octets.extend_from_slice(&self::octets(mac));
    octets.extend_from_slice(&[0x12, 0x34, 0, 0, 0, 0]);
    octets
}

#[test]
fn macs_equal_those_of_dnspython() {
    for (algorithm, query_mac, answer_mac) in MACS {
        let key = key(algorithm);
        let (query, mac) = signed_query(&key);
        assert_eq!(mac.octets(), octets(query_mac), "{algorithm}");
        let mut signer = verified(&query, &key, NOW_S).expect("as signed").expect("signed");
        let mut answer = octets(ANSWER);
        let signed = signer.sign(&mut answer, 0, NOW_S).expect("short");
        assert_eq!(signed.octets(), octets(answer_mac), "{algorithm}");
        for answer in [answer, signed_by_dnspython(ANSWER, algorithm, answer_mac)] {
            let mut verifier = TsigVerifier::new(&key, &mac);
            assert_eq!((verifier.verify(&answer, NOW_S), verifier.finish()), (Ok(()), Ok(())), "{algorithm}");
        }
        let query = signed_by_dnspython(QUERY, algorithm, query_mac);
        assert!(verified(&query, &key, NOW_S).is_ok_and(|signer| signer.is_some()), "{algorithm}");
    }
}

#[test]
fn rfc_8945_5_3_1_up_to_99_messages_may_be_unsigned() {
    let (key, (algorithm, query_mac, answer_mac)) = (key("hmac-sha256"), MACS[2]);
    let mut first = TsigVerifier::new(&key, &Mac::new(&octets(query_mac)).expect("short"));
    assert_eq!(first.clone().verify(&octets(ANSWER), NOW_S), Err(TsigError::Unsigned), "the first one is signed");
    assert_eq!(first.verify(&signed_by_dnspython(ANSWER, algorithm, answer_mac), NOW_S), Ok(()));
    let third = signed_by_dnspython(THIRD, algorithm, THIRD_MAC);
    assert_eq!(first.clone().verify(&third, NOW_S), Err(TsigError::BadSig), "the second message is missing");

    let mut good = first.clone();
    assert_eq!(good.verify(&octets(SECOND), NOW_S), Ok(()));
    assert_eq!(good.finish(), Err(TsigError::Unsigned), "the last one is signed");
    assert_eq!((good.verify(&third, NOW_S), good.finish()), (Ok(()), Ok(())));

    let mut forged = octets(SECOND);
    *forged.last_mut().expect("not empty") ^= 1;
    assert_eq!((first.clone().verify(&forged, NOW_S), first.verify(&forged, NOW_S)), (Ok(()), Ok(())));
    assert_eq!(first.verify(&third, NOW_S), Err(TsigError::BadSig));

    for _ in 0..99 {
        assert_eq!(good.verify(&octets(SECOND), NOW_S), Ok(()));
    }
    assert_eq!(good.verify(&octets(SECOND), NOW_S), Err(TsigError::Unsigned), "the hundredth in a row");
}

#[test]
fn all_messages_of_an_exchange_can_be_signed() {
    let key = key("hmac-sha512");
    let (query, mac) = signed_query(&key);
    let mut signer = verified(&query, &key, NOW_S).expect("as signed").expect("signed");
    let mut verifier = TsigVerifier::new(&key, &mac);
    let mut out = vec![9; 5];
    for (number, message) in [ANSWER, SECOND, THIRD].into_iter().enumerate() {
        let start = out.len();
        out.extend_from_slice(&octets(message));
        signer.sign(&mut out, start, NOW_S + number as u64).expect("short");
        assert_eq!(verifier.verify(&out[start..], NOW_S), Ok(()), "message {number}");
    }
    assert_eq!(verifier.finish(), Ok(()));
    let mut long = vec![0; 65_450];
    assert_eq!(signer.sign(&mut long, 0, NOW_S).map(drop), Err(MessageTooLong));
    assert_eq!(long.len(), 65_450);
}

/// RFC 8945 5.2: per error of a query the RCODE, the error that the client sees, and the length of the response's MAC.
#[test]
fn rfc_8945_5_2_each_error_has_its_rcode_and_tsig_error() {
    let (key, other) = (key("hmac-sha256"), key("hmac-sha1"));
    let (query, _) = signed_query(&key);
    let outcome = |query: &[u8], known: Option<&TsigKey>, now_s| {
        let failure = verify_query(query, |_| known, now_s).expect_err("it is wrong");
        let mut answer = octets(ANSWER);
        failure.sign(&mut answer, 0, now_s).expect("short");
        let mac = record::find(query).map_or(None, |found| Mac::new(found?.0.mac));
        let mac = mac.unwrap_or(Mac::new(&[]).expect("short"));
        let seen = TsigVerifier::new(&key, &mac).verify(&answer, NOW_S).expect_err("a failure");
        let mac_len = record::find(&answer).expect("well-formed").map_or(0, |(tsig, _)| tsig.mac.len());
        (failure.error, failure.rcode(), seen, mac_len)
    };
    let mut forged = query.clone();
    forged[14] ^= 1;
    let late_s = NOW_S + u64::from(FUDGE_S) + 1;
    assert_eq!(outcome(&query, None, NOW_S), (TsigError::BadKey, Rcode::NOTAUTH, TsigError::FromPeer(17), 0));
    assert_eq!(outcome(&query, Some(&other), NOW_S), (TsigError::BadKey, Rcode::NOTAUTH, TsigError::FromPeer(17), 0));
    assert_eq!(outcome(&forged, Some(&key), NOW_S), (TsigError::BadSig, Rcode::NOTAUTH, TsigError::FromPeer(16), 0));
    // RFC 8945 5.3.2: signed, with the time of the query.
    assert_eq!(outcome(&query, Some(&key), late_s), (TsigError::BadTime, Rcode::NOTAUTH, TsigError::FromPeer(18), 32));
    assert!(verified(&query, &key, late_s - 1).is_ok());
    let truncated = |len: usize| signed_by_dnspython(QUERY, MACS[2].0, &MACS[2].1[..2 * len]);
    assert_eq!(
        outcome(&truncated(16), Some(&key), NOW_S),
        (TsigError::BadTrunc, Rcode::NOTAUTH, TsigError::FromPeer(22), 32)
    );
    // RFC 8945 5.2.2.1: of lengths that no MAC may have.
    assert_eq!(
        outcome(&truncated(15), Some(&key), NOW_S),
        (TsigError::Malformed, Rcode::FORMERR, TsigError::Unsigned, 0)
    );
    let long = signed_by_dnspython(QUERY, MACS[2].0, &format!("{}00", MACS[2].1));
    assert_eq!(verified(&long, &key, NOW_S).map(drop), Err(TsigError::Malformed));
}

#[test]
fn rfc_8945_5_2_2_1_a_key_may_accept_truncated_macs() {
    let (algorithm, query_mac, answer_mac) = MACS[2];
    let key = key("hmac-sha256").with_min_mac_len(16).expect("half of the full length");
    let truncated = |message, mac: &str, len: usize| signed_by_dnspython(message, algorithm, &mac[..2 * len]);
    for len in [16, 31, 32] {
        let query = truncated(QUERY, query_mac, len);
        let mut signer = verified(&query, &key, NOW_S).expect("long enough").expect("signed");
        let mut answer = octets(ANSWER);
        signer.sign(&mut answer, 0, NOW_S).expect("short");
        // RFC 8945 4.3.1: the digest has the MAC of the query as it was sent, and that of the response is at least as long.
        let sent = Mac::new(&octets(query_mac)[..len]).expect("short");
        assert_eq!(TsigVerifier::new(&key, &sent).verify(&answer, NOW_S), Ok(()));
        assert_eq!(record::find(&answer).expect("well-formed").expect("signed").0.mac.len(), 32);
    }
    let full = Mac::new(&octets(query_mac)).expect("short");
    assert_eq!(TsigVerifier::new(&key, &full).verify(&truncated(ANSWER, answer_mac, 16), NOW_S), Ok(()));
    let strict = key.clone().with_min_mac_len(20).expect("longer than half");
    assert_eq!(verified(&truncated(QUERY, query_mac, 16), &strict, NOW_S).map(drop), Err(TsigError::BadTrunc));
    assert!(strict != key && key.accepts_truncated());
    for wrong in [15, 33] {
        let error = key.clone().with_min_mac_len(wrong).expect_err("no MAC may have that length");
        assert_eq!(error, TsigKeyError::MacLength { min: 16, max: 32 });
    }
    let sha1 = self::key("hmac-sha1").with_min_mac_len(9).expect_err("less than 10 octets");
    assert_eq!(sha1, TsigKeyError::MacLength { min: 10, max: 20 });
}

#[test]
fn rfc_8945_5_2_3_badtime_responses_have_the_server_time() {
    let key = key("hmac-sha256");
    let (query, _) = signed_query(&key);
    let failure = verify_query(&query, |_| Some(&key), NOW_S + 1000).expect_err("late");
    let mut answer = octets(ANSWER);
    failure.sign(&mut answer, 0, NOW_S + 1000).expect("short");
    let (tsig, _) = record::find(&answer).expect("well-formed").expect("signed");
    assert_eq!((tsig.time_s, tsig.other), (NOW_S, &(NOW_S + 1000).to_be_bytes()[2..]));
}

#[test]
fn rfc_8945_5_1_tsig_is_the_only_one_and_the_last_record() {
    let key = key("hmac-sha256");
    let (query, _) = signed_query(&key);
    let start = octets(QUERY).len();
    let mut twice = query.clone();
    twice.extend_from_slice(&query[start..]);
    twice[11] += 1;
    let mut trailing = query.clone();
    trailing.push(0);
    let mut in_answer = query.clone();
    in_answer.swap(7, 11);
    in_answer.extend_from_slice(&[0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0]);
    in_answer[11] = 1;
    let mut class_in = query.clone();
    class_in[start + key.name().wire().len() + 3] = 1;
    for wrong in [twice, trailing, in_answer, class_in] {
        assert_eq!(verified(&wrong, &key, NOW_S).map(drop), Err(TsigError::Malformed));
    }
    for len in 0..query.len() {
        assert_eq!(verified(&query[..len], &key, NOW_S).map(drop), Err(TsigError::Malformed), "{len} octets");
    }
    assert!(verified(&octets(QUERY), &key, NOW_S).is_ok_and(|signer| signer.is_none()), "not signed at all");
}

#[test]
fn rfc_8945_4_3_2_forwarders_may_change_the_message_id() {
    let key = key("hmac-sha256");
    let (mut query, _) = signed_query(&key);
    query[..2].copy_from_slice(b"zz");
    assert!(verified(&query, &key, NOW_S).is_ok());
}

#[test]
fn every_changed_bit_is_detected_except_message_id_and_case_of_names() {
    let key = key("hmac-sha384");
    let (query, _) = signed_query(&key);
    let names = octets(QUERY).len()..query.len();
    for (at, bit) in (2..query.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
        let mut changed = query.clone();
        changed[at] ^= 1 << bit;
        let is_case = names.contains(&at) && changed[at].eq_ignore_ascii_case(&query[at]);
        let is_signed = verified(&changed, &key, NOW_S).is_ok_and(|signer| signer.is_some());
        assert!(!is_signed || is_case, "bit {bit} of octet {at}");
    }
}

#[test]
fn keys_have_a_text_form() {
    let text = "HMAC-SHA256.:Transfer.key.example:AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=";
    let read: TsigKey = text.parse().expect("a key");
    let (query, _) = signed_query(&key("hmac-sha256"));
    assert!(verified(&query, &read, NOW_S).is_ok());
    let wrong = |text: &str| text.parse::<TsigKey>().map(drop).expect_err("wrong");
    assert_eq!(wrong("hmac-sha256:name"), TsigKeyError::Form);
    assert_eq!(wrong("hmac-md5.sig-alg.reg.int:name:AAAA"), TsigKeyError::Algorithm);
    assert_eq!(wrong("hmac-sha1:a..b:AAAA"), TsigKeyError::Name(crate::name::NameError::EmptyLabel));
    assert_eq!((wrong("hmac-sha1:a:"), wrong("hmac-sha1:a:?")), (TsigKeyError::Secret, TsigKeyError::Secret));
    assert!(!format!("{read:?}").contains("AQID"), "secrets are not shown");
}
