//! Invalid RDATA of each type; the tests of zone text cover valid RDATA.

use super::*;

fn octets(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.chars().filter_map(|digit| digit.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

#[test]
fn malformed_octets_are_refused() {
    use RdataError::{Form, Long, Name, Short};
    for (rtype, hex, error) in [
        (Rtype::A, "c00002", Short("address")),
        (Rtype::A, "c000020100", Long(1)),
        (Rtype::NS, "0161", Short("name server")),
        (Rtype::NS, "c00c", Name("name server", NameError::LongLabel)),
        (Rtype::SOA, "00000000000100000002000000030000000400000005ff", Long(1)),
        (Rtype::TXT, "", Short("text")),
        (Rtype::TXT, "0261", Form("text", "has a string that is cut off")),
        (Rtype::TXT, "016102", Form("text", "has a string that is cut off")),
        (Rtype::NSEC, "00", Form("type list", "is empty")),
        (Rtype::NSEC, "0000024000", Form("type list", "has a window with trailing zero octets")),
        (Rtype::NSEC, "000000", Form("type list", "has a window that is not 1 to 32 octets long")),
        (Rtype::NSEC, "00000240", Form("type list", "is cut off")),
        (Rtype::NSEC, "000021ff", Form("type list", "has a window that is not 1 to 32 octets long")),
        (Rtype::NSEC, "00000140000140", Form("type list", "has windows out of order")),
        (Rtype::NSEC, "00010140000140", Form("type list", "has windows out of order")),
        (Rtype::NSEC3, "0100000000 00", Form("next hashed owner", "is empty")),
        (
            Rtype::LOC,
            "00a01613 80000000 80000000 00989680",
            Form("location", "has a size or precision with a digit over 9"),
        ),
        (Rtype::LOC, "00121613 934fd901 80000000 00989680", Form("location", "has a latitude over 90 degrees")),
        (Rtype::APL, "0001180201 00", Form("prefix list", "has an address with trailing zero octets")),
        (Rtype::APL, "00012100", Form("prefix list", "has an address or a prefix that is too long")),
        (Rtype::IPSECKEY, "0a8100c0000201", Form("gateway", "is of an unknown type")),
        (Rtype::CAA, "0000", Form("tag", "does not consist of letters and digits")),
        (Rtype::URI, "00010001", Form("target", "is empty")),
        (Rtype::DS, "0001 08 02 00", Form("digest", "has the wrong length")),
        (Rtype::NSEC3, "01000000000100", Form("next hashed owner", "has a length that its algorithm does not make")),
        (Rtype::KEY, "00000000", Form("key", "is cut off")),
        (Rtype::A6, "81", Form("prefix name", "is cut off")),
        (Rtype::LOC, "0012161380000000", Form("location", "is cut off")),
        (Rtype::EUI48, "00005e00532a00", Form("data", "has octets left over at the end")),
        (Rtype::ALIAS, "40", Form("target", "is not a domain name")),
        (Rtype::SVCB, "000100000300", Form("parameter list", "is cut off")),
        (Rtype::SVCB, "00010000030001aa", Form("parameter list", "has a bad value")),
        (
            Rtype::SVCB,
            "000100000300020001000300020002",
            Form("parameter list", "has keys that are not in ascending order"),
        ),
        (
            Rtype::SVCB,
            "0001000000000200 03",
            Form("parameter list", "lacks a mandatory key, or names \"mandatory\" as one"),
        ),
        (Rtype::SVCB, "00010000020000", Form("parameter list", "has \"no-default-alpn\" without \"alpn\"")),
    ] {
        assert_eq!(check(rtype, &octets(hex)), Err(error), "{rtype} {hex}");
    }
    assert_eq!(check(Rtype(65280), &[0; 65536]), Err(Long(1)));
}

/// Truncated, extended, and with each octet replaced.
#[test]
fn rdata_that_is_plain_passes_the_check_of_each_field() {
    let hash = "00112233445566778899aabbccddeeff00112233";
    let mut plain = 0;
    for (rtype, hex) in [
        (Rtype::NS, "026e73017a00".to_owned()),
        (Rtype::RRSIG, "002b 0d 02 00000e10 70dbd880 5e0be100 0001 026e73017a00 abcdef".to_owned()),
        (Rtype::DS, format!("0001 08 01 {hash}")),
        (Rtype::DS, format!("0001 0d 02 {hash} 445566778899aabbccddeeff")),
        (Rtype::DS, format!("0001 0d 04 {hash} {hash} 1122334455667788")),
        (Rtype::NSEC3, format!("01 01 000c 04 aabbccdd 14 {hash} 00 06 400000000002")),
        (Rtype::NSEC3, format!("01 01 0000 00 14 {hash}")),
    ] {
        let rdata = octets(&hex);
        assert!(is_plain(rtype, &rdata), "{rtype} {hex}");
        let mut variants: Vec<Vec<u8>> = (0..rdata.len()).map(|len| rdata[..len].to_vec()).collect();
        variants.extend([0, 1, 64].map(|octet| [&rdata[..], &[octet]].concat()));
        for (at, octet) in (0..rdata.len()).flat_map(|at| (0..=u8::MAX).map(move |octet| (at, octet))) {
            variants.push(rdata.clone());
            variants.last_mut().expect("it was pushed")[at] = octet;
        }
        for variant in variants.iter().filter(|variant| is_plain(rtype, variant)) {
            assert_eq!(check_fields(rtype, variant), Ok(()), "{rtype} {variant:?}");
            plain += 1;
        }
    }
    assert!(plain > 1000);
}

#[test]
fn rfc_3597_3_octets_that_nobody_reads_can_be_served() {
    for (rtype, hex, expected) in [
        (Rtype::LOC, "00", true),
        (Rtype::ALIAS, "03", true),
        (Rtype(65280), "03", true),
        (Rtype::TXT, "0361", true),
        (Rtype::TXT, "", false),
        (Rtype::SRV, "000000000000", false),
        (Rtype::MX, "0000", false),
        (Rtype::RRSIG, "0001", false),
    ] {
        assert_eq!(can_be_served(rtype, &octets(hex)), expected, "{rtype} {hex}");
    }
}

#[test]
fn rfc_3597_4_types_whose_names_may_be_compressed() {
    let is_name = |field: &RdataField| matches!(field.form, Form::CompressibleName);
    let is_compressible = |rtype| fields_of(rtype).iter().any(is_name);
    let compressible = (0..=u16::MAX).map(Rtype).filter(|rtype| is_compressible(*rtype));
    assert!(compressible.clone().count() > 8 && compressible.clone().all(may_be_compressed));
    let others = (0..=u16::MAX).map(Rtype).filter(|&rtype| may_be_compressed(rtype) && !is_compressible(rtype));
    let listed = [Rtype::RP, Rtype::AFSDB, Rtype::RT, Rtype::SIG, Rtype::PX, Rtype::NXT, Rtype::SRV, Rtype::NAPTR];
    assert_eq!(others.collect::<Vec<_>>(), listed);
}
