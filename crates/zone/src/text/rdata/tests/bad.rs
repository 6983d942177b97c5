//! Errors and violations: the field, the message, and the help.

use super::rdata;

/// Type, text, the number of the field, the message.
#[rustfmt::skip]
const ERRORS: &[(&str, &str, usize, &str)] = &[
    ("A", "", 0, "the address is missing"),
    ("A", "192.0.2.1 192.0.2.2", 1, "there is a field too many"),
    ("A", "192.0.2", 0, "the address is not an IPv4 address"),
    ("A", "192.0.2.1.", 0, "the address is not an IPv4 address"),
    ("A", "192.0.2.256", 0, "the address is not an IPv4 address"),
    ("A", "192.0.2.01", 0, "the address is not an IPv4 address"),
    ("A", "192.0..1", 0, "the address is not an IPv4 address"),
    ("A", "192.0.2.-1", 0, "the address is not an IPv4 address"),
    ("A", "\"192.0.2.1\"", 0, "the address is in quotes"),
    ("AAAA", "2001:db8", 0, "the address is not an IPv6 address"),
    ("AAAA", "1:2:3:4:5:6:7:8:9", 0, "the address is not an IPv6 address"),
    ("AAAA", "1::2::3", 0, "the address is not an IPv6 address"),
    ("AAAA", "1:2:3:4:5:6:7:8::", 0, "the address is not an IPv6 address"),
    ("AAAA", ":1::", 0, "the address is not an IPv6 address"),
    ("AAAA", "1::2:", 0, "the address is not an IPv6 address"),
    ("AAAA", "12345::", 0, "the address is not an IPv6 address"),
    ("AAAA", "::1.2.3", 0, "the address is not an IPv6 address"),
    ("AAAA", "::1.2.3.4:5", 0, "the address is not an IPv6 address"),
    ("AAAA", "fe80::1%eth0", 0, "the address is not an IPv6 address"),
    ("NS", "a..b", 0, "the name server is not a domain name: the name has an empty label"),
    ("NS", "a\\256.b", 0, "the name server is not a domain name: a backslash must be followed by one character or by three digits up to 255"),
    ("NS", "a\\", 0, "the name server is not a domain name: a backslash must be followed by one character or by three digits up to 255"),
    ("NS", "\"a.\"", 0, "the name server is in quotes"),
    ("SOA", "a. b. 1 2 3 4", 6, "the minimum TTL is missing"),
    ("SOA", "a. b. 1h 2 3 4 5", 2, "the serial is not a number"),
    ("SOA", "a. b. 1 1h30 3 4 5", 3, "the refresh interval is not a number of seconds"),
    ("SOA", "a. b. 1 2 3 4 7102w", 6, "the minimum TTL is not a number of seconds"),
    ("MX", "a.", 0, "the preference is not a number"),
    ("MX", "ten a.", 0, "the preference is not a number"),
    ("MX", "+10 a.", 0, "the preference is not a number"),
    ("MX", "-1 a.", 0, "the preference is not a number"),
    ("MX", "65536 a.", 0, "the preference is larger than 65535"),
    ("MX", "99999999999999999999999 a.", 0, "the preference is larger than 65535"),
    ("MX", "10 a. b.", 2, "there is a field too many"),
    ("MX", "10", 1, "the exchange is missing"),
    ("WKS", "10.0.0.1 TCP nosuchservice", 2, "the service list is not known"),
    ("WKS", "10.0.0.1 TCP 65536", 2, "the service list is larger than 65535"),
    ("HINFO", "PC", 1, "the operating system is missing"),
    ("TXT", "", 0, "the text is missing"),
    ("TXT", "a\\256", 0, "the text has a bad escape"),
    ("TXT", "a\\9", 0, "the text has a bad escape"),
    ("NSAP", "47.0005", 0, "the address is not an NSAP address"),
    ("NSAP", "0x470", 0, "the address is not an NSAP address"),
    ("NSAP", "0x", 0, "the address is not an NSAP address"),
    ("NXT", "a. TYPE128", 1, "the type list has a type that is not from 1 to 127"),
    ("NXT", "a.", 1, "the type list is missing"),
    ("LOC", "91 N 0 E 0m", 0, "the latitude is larger than 90"),
    ("LOC", "1 60 N 0 E 0m", 1, "the latitude is not an angle"),
    ("LOC", "1 0 60 N 0 E 0m", 2, "the latitude is not an angle"),
    ("LOC", "1 0 1.2345 N 0 E 0m", 2, "the latitude is not an angle"),
    ("LOC", "1 E 0 E 0m", 1, "the latitude is not an angle"),
    ("LOC", "1 0 0 0 N 0 E 0m", 3, "the latitude is not an angle"),
    ("LOC", "1 N 181 E 0m", 2, "the longitude is larger than 180"),
    ("LOC", "1 N 1 E", 4, "the altitude is missing"),
    ("LOC", "1 N 1 E -100000.01m", 4, "the altitude is not an altitude"),
    ("LOC", "1 N 1 E 42849672.96m", 4, "the altitude is not an altitude"),
    ("LOC", "1 N 1 E 0m -1m", 5, "the size is not a length"),
    ("LOC", "1 N 1 E 0m 1m 1m 1m 1m", 8, "there is a field too many"),
    ("EID", "0", 0, "the endpoint identifier has an odd number of digits"),
    ("SRV", "1 2 65536 a.", 2, "the port is larger than 65535"),
    ("SRV", "1 2 a.", 2, "the port is not a number"),
    ("NAPTR", "1 2 \"s\" \"x\" a.", 5, "the replacement is missing"),
    ("ATMA", "+12x", 0, "the address is not an ATM address"),
    ("ATMA", "123", 0, "the address is not an ATM address"),
    ("CERT", "PGX 0 0 AQ==", 0, "the certificate type is not known"),
    ("CERT", "PGP 0 0", 3, "the certificate is missing"),
    ("A6", "129 ::1 a.", 0, "the prefix length is larger than 128"),
    ("A6", "64 1::1 a.", 1, "the address suffix has bits within the prefix"),
    ("A6", "64 ::1", 2, "the prefix name is missing"),
    ("A6", "0 ::1 a.", 2, "there is a field too many"),
    ("APL", "1:192.168.0.0", 0, "the prefix list has an item that is not an address prefix"),
    ("APL", "1:192.168.0.0/33", 0, "the prefix list has an item that is not an address prefix"),
    ("APL", "2:192.168.0.0/16", 0, "the prefix list has an item that is not an address prefix"),
    ("APL", "3:00/1", 0, "the prefix list has an item that is not an address prefix"),
    ("APL", "1:10.0.0.0/8 ::1/128", 1, "the prefix list has an item that is not an address prefix"),
    ("DS", "60485 5 1 2BB1 8", 4, "the digest has an odd number of digits"),
    ("DS", "60485 5 1 xyz", 3, "the digest is not hexadecimal"),
    ("DS", "60485 RSA 1 00", 1, "the algorithm is not known"),
    ("DS", "60485 256 1 00", 1, "the algorithm is larger than 255"),
    ("DS", "60485 5 1", 3, "the digest is missing"),
    ("IPSECKEY", "10 0 2 a. AQID", 3, "the gateway should be empty"),
    ("IPSECKEY", "10 1 2 2001:db8::1 AQID", 3, "the gateway is not an IPv4 address"),
    ("IPSECKEY", "10 4 2 a. AQID", 2, "the gateway has an unknown type"),
    ("RRSIG", "A 8 3 1h 20030322173103 20030220173103 2642 a. AA==", 3, "the original TTL is not a number"),
    ("RRSIG", "A 8 3 1 20030229000000 20030220173103 2642 a. AA==", 4, "the expiration is not a time"),
    ("RRSIG", "A 8 3 1 20031301000000 20030220173103 2642 a. AA==", 4, "the expiration is not a time"),
    ("RRSIG", "A 8 3 1 20030101240000 20030220173103 2642 a. AA==", 4, "the expiration is not a time"),
    ("RRSIG", "A 8 3 1 2003032217310 20030220173103 2642 a. AA==", 4, "the expiration is not a time"),
    ("RRSIG", "NOSUCH 8 3 1 0 0 2642 a. AA==", 0, "the type covered has the unknown type \"NOSUCH\""),
    ("RRSIG", "A 8 3 1 0 0 2642 a.", 8, "the signature is missing"),
    ("RRSIG", "A 8 3 1 0 0 2642 a. AA= =A", 9, "the signature is badly padded"),
    ("RRSIG", "A 8 3 1 0 0 2642 a. AAA", 8, "the signature is cut off"),
    ("RRSIG", "A 8 3 1 0 0 2642 a. AA== AA==", 9, "the signature is badly padded"),
    ("RRSIG", "A 8 3 1 0 0 2642 a. A*AA", 8, "the signature is not base64"),
    ("NSEC", "a. A NOSUCH", 2, "the type list has the unknown type \"NOSUCH\""),
    ("NSEC", "a. TYPE65536", 1, "the type list has the unknown type \"TYPE65536\""),
    ("DNSKEY", "256 3 8", 3, "the public key is missing"),
    ("DNSKEY", "65536 3 8 AQID", 0, "the flags field is larger than 65535"),
    ("DHCID", "", 0, "the data is missing"),
    ("NSEC3", "1 256 0 - 2T7B4G4VSA5SMI47K61MV5BV1A22BOJR", 1, "the flags field is larger than 255"),
    ("NSEC3", "1 0 65536 - 2T7B4G4VSA5SMI47K61MV5BV1A22BOJR", 2, "the iteration count is larger than 65535"),
    ("NSEC3", "1 0 0 abc 2T7B4G4VSA5SMI47K61MV5BV1A22BOJR", 3, "the salt is not hexadecimal"),
    ("NSEC3", "1 0 0 \"\" 2T7B4G4VSA5SMI47K61MV5BV1A22BOJR", 3, "the salt is in quotes"),
    ("NSEC3", "1 0 0 - 2T7B4G4VSA5SMI47K61MV5BV1A22BOJW", 4, "the next hashed owner is not base32hex"),
    ("NSEC3", "1 0 0 - 2T7B4G4VSA5SMI47K61MV5BV1A22BOJ=", 4, "the next hashed owner is not base32hex"),
    ("NSEC3", "1 0 0 -", 4, "the next hashed owner is missing"),
    ("NSEC3PARAM", "1 0 0 - -", 4, "there is a field too many"),
    ("TLSA", "3 1 1", 3, "the association data is missing"),
    ("HIP", "2 2001 Aw", 2, "the public key is cut off"),
    ("HIP", "2 xx AwEA", 1, "the host identity is not hexadecimal, or not 1 to 255 octets"),
    ("SVCB", "0 alpn=\"h2\"", 1, "the target is missing"),
    ("SVCB", "1 . alpn=h2 alpn=h3", 3, "the parameter list has the key alpn twice"),
    ("SVCB", "1 . alpn=h2 key1=h3", 3, "the parameter list has the key alpn twice"),
    ("SVCB", "1 . alpn", 2, "the parameter list has a bad value for alpn"),
    ("SVCB", "1 . alpn=h2,,h3", 2, "the parameter list has a bad value for alpn"),
    ("SVCB", "1 . alpn=h\\\\2", 2, "the parameter list has a bad value for alpn"),
    ("SVCB", "1 . no-default-alpn=x alpn=h2", 2, "the parameter list has a bad value for no-default-alpn"),
    ("SVCB", "1 . port=65536", 2, "the parameter list has a bad value for port"),
    ("SVCB", "1 . port=", 2, "the parameter list has a bad value for port"),
    ("SVCB", "1 . ipv4hint=", 2, "the parameter list has a bad value for ipv4hint"),
    ("SVCB", "1 . ipv4hint=1.2.3", 2, "the parameter list has a bad value for ipv4hint"),
    ("SVCB", "1 . ipv6hint=::1,", 2, "the parameter list has a bad value for ipv6hint"),
    ("SVCB", "1 . ech=A", 2, "the parameter list has a bad value for ech"),
    ("SVCB", "1 . mandatory=alpn", 2, "the parameter list has mandatory without alpn"),
    ("SVCB", "1 . mandatory=mandatory", 2, "the parameter list has a bad value for mandatory"),
    ("SVCB", "1 . mandatory=alpn,alpn alpn=h2", 2, "the parameter list has a bad value for mandatory"),
    ("SVCB", "1 . mandatory= alpn=h2", 2, "the parameter list has a bad value for mandatory"),
    ("SVCB", "1 . key65536=x", 2, "the parameter list has the unknown key \"key65536\""),
    ("SVCB", "1 . key=x", 2, "the parameter list has the unknown key \"key\""),
    ("SVCB", "1 . Alpn=h2", 2, "the parameter list has the unknown key \"Alpn\""),
    ("SVCB", "1 . dohpath", 2, "the parameter list has a bad value for dohpath"),
    ("SVCB", "1 . ohttp=1", 2, "the parameter list has a bad value for ohttp"),
    ("SVCB", "1 . tls-supported-groups=29,29", 2, "the parameter list has a bad value for tls-supported-groups"),
    ("SVCB", "1 . key9999=\\256", 2, "the parameter list has a bad value for key9999"),
    ("SVCB", "1 . \"alpn=h2\"", 2, "the parameter list is in quotes"),
    ("SVCB", "65536 .", 0, "the priority is larger than 65535"),
    ("DSYNC", "CDS PUSH 1 a.", 1, "the scheme is not known"),
    ("NID", "10 14:0:0", 1, "the node identifier is not 64 bits in hexadecimal"),
    ("NID", "10 14:0:0:1:2", 1, "the node identifier is not 64 bits in hexadecimal"),
    ("NID", "10 14:0:0:12345", 1, "the node identifier is not 64 bits in hexadecimal"),
    ("L32", "10 a.", 1, "the locator is not an IPv4 address"),
    ("EUI48", "00-00-5e-00-53", 0, "the address is not 6 octets in hexadecimal"),
    ("EUI48", "00:00:5e:00:53:2a", 0, "the address is not 6 octets in hexadecimal"),
    ("EUI48", "0-000-5e-00-53-2a", 0, "the address is not 6 octets in hexadecimal"),
    ("EUI64", "00-00-5e-00-53-2a", 0, "the address is not 8 octets in hexadecimal"),
    ("URI", "10 1 a b", 3, "there is a field too many"),
    ("CAA", "0 issue a b", 3, "there is a field too many"),
    ("CAA", "256 issue x", 0, "the flags field is larger than 255"),
    ("AMTRELAY", "10 2 1 192.0.2.1", 1, "the discovery bit is larger than 1"),
    ("AMTRELAY", "10 0 4 192.0.2.1", 2, "the relay has an unknown type"),
    ("AMTRELAY", "10 0 0 192.0.2.1", 3, "the relay should be empty"),
    ("DOA", "1 2 3 \"\" ", 4, "the data is missing"),
    ("IPN", "18446744073709551616", 0, "the node number is larger than 18446744073709551615"),
    ("NULL", "x", 0, "the type NULL has no text form of its own"),
    ("OPT", "", 0, "the type OPT has no text form of its own"),
    ("TYPE65280", "x", 0, "the type TYPE65280 has no text form of its own"),
    ("TYPE65280", "", 0, "the type TYPE65280 has no text form of its own"),
    ("TYPE65280", "\\# 1", 1, "the data has 0 octets, not 1"),
    ("TYPE65280", "\\# 2 00", 1, "the data has 1 octets, not 2"),
    ("TYPE65280", "\\# 1 0000", 1, "the data has 2 octets, not 1"),
    ("TYPE65280", "\\# 65536 00", 1, "the data is larger than 65535"),
    ("TYPE65280", "\\# x", 1, "the data is not a number"),
    ("TYPE65280", "\\#", 1, "the data is missing"),
    ("TYPE65280", "\\# 1 0", 2, "the data has an odd number of digits"),
    ("TYPE65280", "\"\\#\" 1 00", 0, "the type TYPE65280 has no text form of its own"),
    ("A", "\\# 3 000000", 1, "the data does not fit the type A: the address is cut off"),
    ("MX", "\\# 4 000a 0000", 1, "the data does not fit the type MX: octets left over at the end: 1"),
    ("NS", "\\# 2 0161", 1, "the data does not fit the type NS: the name server is cut off"),
    ("SVCB", "\\# 12 000100 0001000101 0001000101", 1, "the data has 13 octets, not 12"),
];

#[test]
fn errors_name_the_field() {
    for (rtype, text, field, message) in ERRORS {
        let error = rdata(rtype, text).expect_err(text);
        assert_eq!((error.field, &*error.message), (*field, *message), "{rtype} {text}");
        assert!(!error.help.is_empty(), "{rtype} {text} has no help");
    }
}

/// Records that violate their RFC and are parsed: type, text, the number of the field, the message.
#[rustfmt::skip]
const VIOLATIONS: &[(&str, &str, usize, &str)] = &[
    ("X25", "311", 0, "the address is not a number of at least four digits"),
    ("X25", "3110x", 0, "the address is not a number of at least four digits"),
    ("GPOS", "1 2 3.", 2, "the altitude is not a decimal number"),
    ("GPOS", "1 2 e5", 2, "the altitude is not a decimal number"),
    ("LOC", "90 0 0.001 N 0 E 0m", 3, "the latitude is over 90 degrees"),
    ("DS", "60485 5 1 2BB183AF", 3, "the digest has the wrong length"),
    ("DS", "60485 5 3 2BB183AF", 3, "the digest has the wrong length"),
    ("DS", "60485 5 4 2BB183AF", 3, "the digest has the wrong length"),
    ("SSHFP", "1 2 00", 2, "the fingerprint has the wrong length"),
    ("RRSIG", "A 8 3 1 21060207062816 20030220173103 2642 a. AA==", 4, "the expiration is not a time from 1970 to 2106: it is read as 0 seconds since 1970"),
    ("RRSIG", "A 8 3 1 0 0 2642 a. AB==", 8, "the signature has bits after its last octet"),
    ("NSEC", "a.", 0, "the type list is empty"),
    ("ZONEMD", "1 1 1 001122", 3, "the digest has the wrong length"),
    ("ZONEMD", "1 1 240 0011", 3, "the digest is too short"),
    ("SVCB", "1 . no-default-alpn", 2, "the parameter list has no-default-alpn without alpn"),
    ("SVCB", "1 . ech", 2, "the parameter list has a bad value for ech"),
    ("SVCB", "1 . key01=x", 2, "the parameter list has the invalid key key01"),
    ("SVCB", "1 . key65535=x", 2, "the parameter list has the invalid key key65535"),
    ("SVCB", "1 . key3=x", 2, "the parameter list has a bad value for key3"),
    ("URI", "10 1 \"\"", 2, "the target is empty"),
    ("CAA", "0 is-sue x", 1, "the tag does not consist of letters and digits"),
    ("CAA", "0 \"issue\" x", 1, "the tag is in quotes"),
    ("NSEC", "\\# 4 00000100", 1, "the data violates a rule of the type NSEC: the type list has a window with trailing zero octets"),
    ("EUI48", "0-0-5e-0-53-2a", 0, "the address has octets of one digit"),
    ("TXT", "\\# abc", 0, "the data has \\# without a number of octets after it: it is read as text"),
    ("NSEC3", "1 0 0 - 2T7B4G4VSA5SMI47K61MV5BV1A22BOJR= A", 4, "the next hashed owner is padded"),
    ("NSEC3", "1 0 0 - 2T7B4G4VSA5SMI47 A", 4, "the next hashed owner has a length that its algorithm does not make"),
];

#[test]
fn violations_name_the_field() {
    for (rtype, text, field, message) in VIOLATIONS {
        let violation = super::rdata_and_violation(rtype, text).expect(text).1.expect(text);
        assert_eq!((violation.field, &*violation.message), (*field, *message), "{rtype} {text}");
        assert!(!violation.help.is_empty(), "{rtype} {text} has no help");
    }
}

#[test]
fn help_says_how_to_fix_it() {
    for (rtype, text, help) in [
        ("MX", "10", "MX takes: preference, exchange"),
        ("MX", "10 a. b.", "MX takes: preference, exchange"),
        ("MX", "65536 a.", "write a whole number from 0 to 65535"),
        (
            "LOC",
            "1 N 1 E",
            "LOC takes: d1 [m1 [s1]] N|S, d2 [m2 [s2]] E|W, altitude [size [horizontal [vertical precision]]]",
        ),
        (
            "CERT",
            "X 0 0 AA==",
            "write a number from 0 to 65535 or one of PKIX, SPKI, PGP, IPKIX, ISPKI, IPGP, ACPKIX, IACPKIX, URI, OID",
        ),
        ("SVCB", "1 . alpn", "write identifiers of 1 to 255 octets, separated by commas"),
        ("SVCB", "1 . mandatory=port", "add the missing key"),
        ("NULL", "", "write \\#, the number of octets, and the octets in hexadecimal (RFC 3597)"),
    ] {
        assert_eq!(rdata(rtype, text).expect_err(text).help, help, "{rtype} {text}");
    }
}

#[test]
fn lengths_are_limited() {
    let string = "a".repeat(256);
    let error = rdata("HINFO", &format!("x {string}")).expect_err("a string of 256 octets");
    assert_eq!((error.field, &*error.message), (1, "the operating system is longer than 255 octets"));
    assert!(rdata("HINFO", &format!("x {}", &string[1..])).is_ok());

    let (split, violation) = super::rdata_and_violation("TXT", &string).expect("a string of 256 octets is split");
    assert_eq!((split.len(), split[0], split[256]), (258, 255, 1));
    assert_eq!(violation.expect("a violation").message, "the text is longer than 255 octets: it is split");
    assert!(rdata("CAA", &format!("0 issue {string}")).is_ok(), "RFC 8659 4.1.1: values are not character strings");

    let salt = "00".repeat(256);
    let error = rdata("NSEC3PARAM", &format!("1 0 0 {salt}")).expect_err("a salt of 256 octets");
    assert_eq!((error.field, &*error.message), (3, "the salt is longer than 255 octets"));
    assert!(rdata("NSEC3PARAM", &format!("1 0 0 {}", &salt[2..])).is_ok());

    let longest = format!("{}a", "a ".repeat(32766));
    assert_eq!(rdata("TXT", &longest).map(|rdata| rdata.len()), Ok(65534));
    let error = rdata("TXT", &format!("{longest} a")).expect_err("65536 octets");
    assert_eq!((error.field, &*error.message), (32767, "the text makes the record too long"));

    let label = "a".repeat(63);
    let error = rdata("NS", &format!("{label}a")).expect_err("a label of 64 octets");
    assert_eq!(error.message, "the name server is not a domain name: a label is longer than 63 octets");
    let error = rdata("NS", &format!("{label}.{label}.{label}.{}.", &label[1..])).expect_err("a name of 256 octets");
    assert_eq!(error.message, "the name server is not a domain name: the name is longer than 255 octets");
    assert_eq!(rdata("NS", &format!("{label}.{label}.{label}.{}.", &label[2..])).map(|rdata| rdata.len()), Ok(255));
}
