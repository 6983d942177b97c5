//! Signatures made here with Ed25519, and those of RFC 6605 with ECDSA and of RFC 5702 with RSA.

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use data_encoding::BASE64;

use super::*;
use crate::load::load_text;

/// 2010-08-20.
const NOW: u64 = 1_282_300_000;

fn zone_of(apex: &str, text: &str) -> Zone {
    let apex: Name = apex.parse().expect("a name");
    load_text(apex.as_ref(), text.as_bytes()).zone.expect("a valid zone")
}

fn rules(scope: SignatureScope) -> SignatureRules {
    SignatureRules { now_s: NOW, min_validity_s: 3600, scope }
}

/// The keys of a test zone, which sign what it names.
struct Signer {
    pair: Ed25519KeyPair,
    dnskey: Vec<u8>,
}

impl Signer {
    fn new() -> Signer {
        let pair = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).expect("a seed of 32 octets");
        let dnskey = [&[1, 1, 3, 15], pair.public_key().as_ref()].concat();
        Signer { pair, dnskey }
    }

    fn dnskey(&self) -> String {
        format!("z. 60 DNSKEY 257 3 15 {}\n", BASE64.encode(&self.dnskey[4..]))
    }

    /// An RRSIG record of one record, valid for these seconds.
    fn rrsig(&self, owner: &str, rtype: Rtype, rdata: &[u8], labels: u8, valid_s: [u64; 2]) -> String {
        let name: Name = owner.parse().expect("a name");
        let tag = key_tag(&self.dnskey);
        let times = valid_s.map(|time| time as u32);
        let mut signed = [&rtype.0.to_be_bytes()[..], &[15, labels], &60u32.to_be_bytes()].concat();
        signed.extend([times[1].to_be_bytes(), times[0].to_be_bytes()].concat());
        signed.extend([&tag.to_be_bytes()[..], b"\x01z\0", name.wire(), &rtype.0.to_be_bytes(), &[0, 1]].concat());
        signed.extend([&60u32.to_be_bytes()[..], &(rdata.len() as u16).to_be_bytes(), rdata].concat());
        let signature = BASE64.encode(self.pair.sign(&signed).as_ref());
        format!("{owner} 60 RRSIG {rtype} 15 {labels} 60 {} {} {tag} z. {signature}\n", times[1], times[0])
    }
}

const SOA: &[u8] = b"\x02ns\x01z\0\x01h\x01z\0\0\0\0\x07\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\0\0\x01";
const NS: &[u8] = b"\x02ns\x01z\0";
const ADDRESS: &[u8] = &[192, 0, 2, 1];
const VALID: [u64; 2] = [NOW - 1000, NOW + 100_000];

/// A zone whose NS records are signed for these times.
fn signed(ns_valid_s: [u64; 2]) -> String {
    let signer = Signer::new();
    let mut text = format!("z. 60 SOA ns.z. h.z. 7 1 1 1 1\nz. 60 NS NS.z.\n{}", signer.dnskey());
    text += &signer.rrsig("z.", Rtype::SOA, SOA, 1, VALID);
    text += &signer.rrsig("z.", Rtype::NS, NS, 1, ns_valid_s);
    text + &signer.rrsig("z.", Rtype::DNSKEY, &signer.dnskey, 1, VALID)
}

fn fault(text: &str, scope: SignatureScope) -> Option<(String, Rtype, SignatureFault)> {
    let error = verify(&zone_of("z.", text), rules(scope)).err()?;
    Some((error.owner.to_string(), error.rtype, error.fault))
}

#[test]
fn rfc_4035_5_3_the_apex_is_verified() {
    let apex = |text: &str| fault(text, SignatureScope::Apex);
    let good = signed(VALID);
    assert_eq!(verify(&zone_of("z.", &good), rules(SignatureScope::Apex)), Ok(SignatureStatus::Valid));
    let ns = |fault| Some(("z.".to_owned(), Rtype::NS, fault));
    let (past, later) = (NOW - 1, NOW + 100);
    assert_eq!(apex(&signed([1, past])), ns(SignatureFault::Expired(past as u32)));
    assert_eq!(apex(&signed([1, later])), ns(SignatureFault::ExpiresSoon(later as u32)));
    assert_eq!(apex(&signed([later, VALID[1]])), ns(SignatureFault::Early(later as u32)));
    assert_eq!(apex(&good.replace("NS NS.z.", "NS other.z.")), ns(SignatureFault::Mismatch));
    let without: String =
        good.lines().filter(|line| !line.contains("RRSIG NS")).map(|line| line.to_owned() + "\n").collect();
    assert_eq!(apex(&without), ns(SignatureFault::Missing));
    let expired = signed([1, past]);
    let two = good + expired.lines().find(|line| line.contains("RRSIG NS")).expect("it is signed") + "\n";
    assert_eq!(apex(&two), None, "RFC 6840 5.11: one valid signature is enough");
}

/// A signer drops records that are equal in canonical form, so a zone that names one in two cases is signed correctly.
#[test]
fn rfc_4034_6_3_duplicates_in_canonical_form_are_signed_once() {
    let srv = b"\0\0\0\0\0\x01\x01h\x01z\0";
    let text = signed(VALID) + "s.z. 60 SRV 0 0 1 h.z.\ns.z. 60 SRV 0 0 1 H.z.\n";
    let text = text + &Signer::new().rrsig("s.z.", Rtype::SRV, srv, 2, VALID);
    assert_eq!(fault(&text, SignatureScope::Zone), None);
}

#[test]
fn rfc_5011_2_1_a_revoked_key_verifies_nothing() {
    let text = signed(VALID).replace("DNSKEY 257 3 15", "DNSKEY 385 3 15");
    assert!(matches!(fault(&text, SignatureScope::Apex), Some((_, _, SignatureFault::Missing))));
}

#[test]
fn rfc_4034_3_1_5_times_wrap_around() {
    let text = signed([NOW - 1000, NOW + (1 << 31) - 2000]);
    assert_eq!(fault(&text, SignatureScope::Apex), None);
}

#[test]
fn zones_without_known_keys_are_not_verified() {
    let unsigned = zone_of("z.", "z. 60 SOA ns.z. h.z. 7 1 1 1 1\nz. 60 NS ns.z.\n");
    assert_eq!(verify(&unsigned, rules(SignatureScope::Zone)), Ok(SignatureStatus::Unsigned));
    let unknown = zone_of("z.", "z. 60 SOA ns.z. h.z. 7 1 1 1 1\nz. 60 NS ns.z.\nz. 60 DNSKEY 257 3 250 AAAA\n");
    assert_eq!(verify(&unknown, rules(SignatureScope::Zone)), Ok(SignatureStatus::UnknownAlgorithm));
}

#[test]
fn rfc_4035_2_2_everything_but_glue_and_delegations_is_signed() {
    let signer = Signer::new();
    let more = "ns.z. 60 A 192.0.2.1\n*.w.z. 60 A 192.0.2.1\nsub.z. 60 NS ns.sub.z.\nns.sub.z. 60 A 192.0.2.1\n";
    let text = signed(VALID) + more;
    let is_missing = |owner: &str| Some((owner.to_owned(), Rtype::A, SignatureFault::Missing));
    assert_eq!(fault(&text, SignatureScope::Apex), None);
    assert_eq!(fault(&text, SignatureScope::Zone), is_missing("ns.z."));
    let text = text + &signer.rrsig("ns.z.", Rtype::A, ADDRESS, 2, VALID);
    assert_eq!(fault(&text, SignatureScope::Zone), is_missing("*.w.z."));
    let expanded = signer.rrsig("*.w.z.", Rtype::A, ADDRESS, 3, VALID);
    assert_eq!(fault(&(text.clone() + &expanded), SignatureScope::Zone), is_missing("*.w.z."));
    let text = text + &signer.rrsig("*.w.z.", Rtype::A, ADDRESS, 2, VALID);
    assert_eq!(fault(&text, SignatureScope::Zone), None);
}

/// Checks the address of `www.example.net`, the only record that is signed, by this key.
fn check_example(dnskey: &str, address: &str, rrsig: &str) -> Result<(), SignatureError> {
    let zone = zone_of(
        "example.net.",
        &format!(
            "example.net. 3600 SOA a. b. 1 1 1 1 1\nexample.net. 3600 NS a.\nexample.net. 3600 DNSKEY {dnskey}\n\
             www.example.net. 3600 A {address}\nwww.example.net. 3600 RRSIG A {rrsig}\n"
        ),
    );
    let dnskey = zone.apex_node().rrset(Rtype::DNSKEY).expect("a key");
    let keys = dnskey.stored().filter_map(|stored| ZoneKey::of(stored.bytes)).collect();
    let mut checker = SignatureChecker {
        apex: zone.apex(),
        keys,
        rules: rules(SignatureScope::Zone),
        decoder: NodeDecoder::default(),
        message: Vec::new(),
    };
    let (entry, node) = zone.nodes().nth(1).expect("www");
    checker.check_node(&zone, &entry, node, |_| true)
}

/// The signature of [`check_example`] fits this address, and no other.
fn assert_verifies(dnskey: &str, address: &str, rrsig: &str) {
    assert_eq!(check_example(dnskey, address, rrsig), Ok(()));
    let other = check_example(dnskey, "192.0.2.99", rrsig).expect_err("another address");
    assert_eq!(other.fault, SignatureFault::Mismatch);
}

/// RFC 6605 6.1: P-256.
#[test]
fn rfc_6605_6_1_the_example_verifies() {
    let dnskey = "257 3 13 GojIhhXUN/u4v54ZQqGSnyhWJwaubCvTmeexv7bR6edbkrSqQpF64cYbcB7wNcP+e+MAnLr+Wi9xMWyQLc8NAA==";
    let rrsig = "13 3 3600 20100909100439 20100812100439 55648 example.net. \
        qx6wLYqmh+l9oCKTN6qIc+bw6ya+KJ8oMz0YP107epXAyGmt+3SNruPFKG7tZoLBLlUzGGus7ZwmwWep666VCw==";
    assert_verifies(dnskey, "192.0.2.1", rrsig);
}

/// RFC 5702 6.1 has a key of 512 bits.
#[test]
fn rfc_5702_6_1_the_key_of_the_example_is_too_short() {
    let dnskey = "256 3 8 AwEAAcFcGsaxxdgiuuGmCkVImy4h99CqT7jwY3pexPGcnUFtR2Fh36BponcwtkZ4cAgtvd4Qs8PkxUdp6p/DlUmObdk=";
    let rrsig = "8 3 3600 20300101000000 20000101000000 9033 example.net. \
        kRCOH6u7l0QGy9qpC9l1sLncJcOKFLJ7GhiUOibu4teYp5VE9RncriShZNz85mwlMgNEacFYK/lPtPiVYP4bwg==";
    let error = check_example(dnskey, "192.0.2.91", rrsig).expect_err("a short key");
    assert_eq!(error.fault, SignatureFault::Mismatch);
}

/// As in RFC 5702 6.1, with a key of 1,024 bits. Signed by OpenSSL.
#[test]
fn rfc_5702_3_1_rsasha256_verifies() {
    let dnskey = "256 3 8 AwEAAev/Tkd5ZyZ3CLMYaEIz9QNBJrTxZQHjXfauDdyJN4mninIjIbP9Cvf68QjE5nGQ+CRneG0YXyXo81sDHuGB\
        OVk0SrcWPPyMjd9HQeFZ7TQGx21RZl65B/TreVLKTjdeCSYjiLgnZvow2f7WlJ+lGQKRF9YdFl+y/+xEXXk72/e1";
    let rrsig = "8 3 3600 20300101000000 20000101000000 6429 example.net. \
        LmDUbF2C9HRFR/PgV9uSAHJLV4r/HiYOJ3hS9jlvk8ved3SoQlLagZYCzixVSJ9xxguPymcCZlfpvEUL/9EC3xhvoDhO+HYie3uihlfHUE4O\
        hNCbGgLQH7cLSlsigXJdVBYIxZH/Q6sB0feqRu0/BpPEERRU+TJuUw69NeMSMIA=";
    assert_verifies(dnskey, "192.0.2.91", rrsig);
}

/// RFC 5702 6.2: RSASHA512.
#[test]
fn rfc_5702_6_2_the_example_verifies() {
    let dnskey = "256 3 10 AwEAAdHoNTOW+et86KuJOWRDp1pndvwb6Y83nSVXXyLA3DLroROUkN6X0O6pnWnjJQujX/AyhqFDxj13tOnD9u/1\
        kTg7cV6rklMrZDtJCQ5PCl/D7QNPsgVsMu1J2Q8gpMpztNFLpPBz1bWXjDtaR7ZQBlZ3PFY12ZTSncorffcGmhOL";
    let rrsig = "10 3 3600 20300101000000 20000101000000 3740 example.net. \
        tsb4wnjRUDnB1BUi+t6TMTXThjVnG+eCkWqjvvjhzQL1d0YRoOe0CbxrVDYd0xDtsuJRaeUw1ep94PzEWzr0iGYgZBWm/zpq+9fOuagYJRfD\
        qfReKBzMweOLDiNa8iP5g9vMhpuv6OPlvpXwm9Sa9ZXIbNl1MBGk0fthPgxdDLw=";
    assert_verifies(dnskey, "192.0.2.91", rrsig);
}

#[test]
fn rfc_3110_2_the_length_of_the_exponent_has_one_or_three_octets() {
    let parts = |key: &[u8]| rsa_key(key).map(|RsaPublicKeyComponents { n, e }| (e.to_vec(), n.to_vec()));
    let expected = |e: &[u8], n: &[u8]| Some((e.to_vec(), n.to_vec()));
    for key in [&b"\x01\x03\xc1\x02"[..], b"\0\0\x01\x03\xc1\x02", b"\x03\0\0\x03\0\xc1\x02"] {
        assert_eq!(parts(key), expected(b"\x03", b"\xc1\x02"), "{key:?}");
    }
    let long = [&b"\0\x01\0"[..], &[7; 256], b"\x09"].concat();
    assert_eq!(parts(&long), expected(&[7; 256], b"\x09"));
}

#[test]
fn rfc_3110_2_keys_without_an_exponent_or_a_modulus_verify_nothing() {
    let beyond = [&b""[..], b"\x01", b"\x02\x03", b"\xff\x03\x01", b"\0\x01\0\x03"];
    assert!(beyond.iter().all(|key| rsa_key(key).is_none()));
    let empty = [&b"\0"[..], b"\0\0", b"\0\0\0", b"\0\0\0\xc1", b"\x01\0", b"\x01\x03", b"\x01\0\xc1", b"\x01\x03\0"];
    for key in beyond.iter().chain(&empty) {
        let rdata = [&[1, 0, 3, 8][..], *key].concat();
        let zone_key = ZoneKey::of(&rdata).expect("a key of a zone");
        assert!(!zone_key.verifies(b"message", &[1; 128]), "{key:?}");
    }
}
