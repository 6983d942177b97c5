//! Records: owners, TTLs, classes, quotes, comments (RFC 1035 5.1, RFC 2308 4).

use super::{read, records};

/// RFC 1035 5.3: the example, without its $INCLUDE.
#[test]
fn rfc1035_5_3_example() {
    let text = br#"
$ORIGIN ISI.EDU.
@   IN  SOA     VENERA      Action\.domains (
                                 20     ; SERIAL
                                 7200   ; REFRESH
                                 600    ; RETRY
                                 3600000; EXPIRE
                                 60)    ; MINIMUM

        NS      A.ISI.EDU.
        NS      VENERA
        NS      VAXA
        MX      10      VENERA
        MX      20      VAXA

A       A       26.3.0.103

VENERA  A       10.1.0.52
        A       128.9.0.32

VAXA    A       10.2.0.27
        A       128.9.0.33
"#;
    let apex = "isi.edu.".parse::<wire::Name>().expect("a name");
    let options = super::ParseOptions::new(apex.as_ref());
    let outcome: super::ParseOutcome = super::parse(super::source(text), &options, super::Lines::default).into();
    assert_eq!(
        outcome.records,
        [
            "0:3 ISI.EDU. 60 IN SOA VENERA.ISI.EDU. Action\\.domains.ISI.EDU. 20 7200 600 3600000 60",
            "0:10 ISI.EDU. 60 IN NS A.ISI.EDU.",
            "0:11 ISI.EDU. 60 IN NS VENERA.ISI.EDU.",
            "0:12 ISI.EDU. 60 IN NS VAXA.ISI.EDU.",
            "0:13 ISI.EDU. 60 IN MX 10 VENERA.ISI.EDU.",
            "0:14 ISI.EDU. 60 IN MX 20 VAXA.ISI.EDU.",
            "0:16 A.ISI.EDU. 60 IN A 26.3.0.103",
            "0:18 VENERA.ISI.EDU. 60 IN A 10.1.0.52",
            "0:19 VENERA.ISI.EDU. 60 IN A 128.9.0.32",
            "0:21 VAXA.ISI.EDU. 60 IN A 10.2.0.27",
            "0:22 VAXA.ISI.EDU. 60 IN A 128.9.0.33",
        ]
    );
    assert_eq!(
        outcome.findings,
        ["zone:8:34: warning: there is no TTL: the minimum of the SOA becomes the default: 60 \
          (help: write $TTL and a number of seconds before the first record)"]
    );
}

/// RFC 1035 5.1: TTL and class are optional and come in any order.
#[test]
fn rfc1035_5_1_ttl_and_class_in_any_order() {
    for head in ["300 IN", "IN 300", "300", "5m", "5M in", "CLASS1 300", "300 class1"] {
        assert_eq!(records(format!("www {head} A 192.0.2.1")), ["www.example. 300 IN A 192.0.2.1"], "{head}");
    }
    assert_eq!(records("$TTL 60\nwww IN A 192.0.2.1"), ["www.example. 60 IN A 192.0.2.1"]);
}

/// RFC 1035 5.1: names without a final dot are relative, `@` is the origin.
#[test]
fn rfc1035_5_1_names() {
    for (owner, full) in [
        ("www", "www.example."),
        ("a.b", "a.b.example."),
        ("WWW.Example.", "WWW.Example."),
        ("@", "example."),
        ("\\@", "\\@.example."),
        ("example.", "example."),
        ("a\\.b", "a\\.b.example."),
        ("a\\032b", "a\\032b.example."),
        ("\\a\\-", "a-.example."),
        ("*", "*.example."),
        ("\\$TTL", "\\$TTL.example."),
        ("A", "A.example."),
        ("300", "300.example."),
        ("\\;\\(\\)\\\"", "\\;\\(\\)\\\".example."),
    ] {
        assert_eq!(records(format!("{owner} 1 A 192.0.2.1")), [format!("{full} 1 IN A 192.0.2.1")], "{owner}");
    }
}

/// RFC 1035 5.1: a line that begins with a blank has the last stated owner.
#[test]
fn rfc1035_5_1_omitted_owner() {
    let text = "www 1 A 192.0.2.1\n 1 A 192.0.2.2\n; comment\n\n\t1 A 192.0.2.3\n@ 1 A 192.0.2.4\n  1 A 192.0.2.5";
    assert_eq!(
        records(text),
        [
            "www.example. 1 IN A 192.0.2.1",
            "www.example. 1 IN A 192.0.2.2",
            "www.example. 1 IN A 192.0.2.3",
            "example. 1 IN A 192.0.2.4",
            "example. 1 IN A 192.0.2.5",
        ]
    );
}

/// RFC 1035 5.1: parentheses group lines; comments and empty lines may be anywhere.
#[test]
fn rfc1035_5_1_parentheses_and_comments() {
    for text in [
        "www 1 A 192.0.2.1 ; comment ( \" ",
        "www (1 A 192.0.2.1)",
        "www ( 1 ; comment )\n A\n\n192.0.2.1\n)",
        "(www 1 A 192.0.2.1)",
        "www(1)A(192.0.2.1);",
        "www ( 1\r\nA ) 192.0.2.1\r\n",
        "\n  \n;\n( )\n ( ;\n )\nwww 1 A 192.0.2.1",
    ] {
        assert_eq!(records(text), ["www.example. 1 IN A 192.0.2.1"], "{text:?}");
    }
}

/// RFC 1035 5.1: quoted strings contain any octets, even line ends; quotes are escaped.
#[test]
fn rfc1035_5_1_quotes() {
    for (rdata, printed) in [
        ("\"a b\" c", "\"a b\" \"c\""),
        ("\"\"", "\"\""),
        ("\"; ( ) \\\" \\\\ \\065\"", "\"; ( ) \\\" \\\\ A\""),
        ("\"two\nlines\"", "\"two\\010lines\""),
        ("\"a\"\t\"b\"(\"c\")\"d\";", "\"a\" \"b\" \"c\" \"d\""),
    ] {
        assert_eq!(records(format!("a 1 TXT {rdata}")), [format!("a.example. 1 IN TXT {printed}")], "{rdata}");
    }
}

/// Lines within quotes are counted.
#[test]
fn lines_in_quotes_count() {
    let outcome = read(b"a 1 TXT \"x\n\r\n\ry\"\nb 1 A 192.0.2.1\nc 1 A bad");
    assert_eq!(outcome.records[1], "0:5 b.example. 1 IN A 192.0.2.1");
    assert!(outcome.findings[0].starts_with("zone:6:7: error:"), "{outcome:?}");
}

/// RFC 9460 2.1: a quoted value stays with its key.
#[test]
fn rfc9460_2_1_values_in_quotes() {
    assert_eq!(records("a 1 HTTPS 1 . alpn=\"h2,h3\" port=\"53\""), ["a.example. 1 IN HTTPS 1 . alpn=h2,h3 port=53"]);
}

/// Lines end in LF, CR LF or CR, the last one optionally; a byte order mark is skipped.
#[test]
fn line_ends() {
    let expected = ["a.example. 1 IN A 192.0.2.1", "b.example. 1 IN A 192.0.2.2"];
    for end in ["\n", "\r\n", "\r", "\n\r\n", " \n", "\t;\r"] {
        assert_eq!(records(format!("a 1 A 192.0.2.1{end}b 1 A 192.0.2.2")), expected, "{end:?}");
        assert_eq!(records(format!("\u{feff}a 1 A 192.0.2.1{end}b 1 A 192.0.2.2{end}")), expected, "{end:?}");
    }
    assert_eq!(read(b"a 1 A 192.0.2.1\r\rb 1 A 192.0.2.2").records[1], "0:3 b.example. 1 IN A 192.0.2.2");
    assert_eq!(records(""), [""; 0]);
}

/// RFC 2181 11: a label contains any octets.
#[test]
fn rfc2181_11_any_octet() {
    let outcome = read(b"\0\xc3\xa9 1 TXT \xff\0");
    assert_eq!(outcome.findings, [""; 0]);
    assert_eq!(outcome.records, ["0:1 \\000\\195\\169.example. 1 IN TXT \"\\255\\000\""]);
}

/// RFC 1035 5.1: without `$TTL` the last stated TTL applies.
#[test]
fn rfc1035_5_1_last_stated_ttl() {
    let text = "@ 10 SOA a b 1 2 3 4 5\n A 192.0.2.1\n 20 A 192.0.2.2\nb A 192.0.2.3";
    let ttls: Vec<_> = records(text).iter().map(|line| line.split(' ').nth(1).expect("a TTL").to_owned()).collect();
    assert_eq!(ttls, ["10", "10", "20", "20"]);
}

/// RFC 2308 4: `$TTL` applies to all later records that state none.
#[test]
fn rfc2308_4_default_ttl() {
    let text = "$TTL 1h\na A 192.0.2.1\na 20 A 192.0.2.2\na A 192.0.2.3\n$TTL 0\na A 192.0.2.4";
    let ttls: Vec<_> = records(text).iter().map(|line| line.split(' ').nth(1).expect("a TTL").to_owned()).collect();
    assert_eq!(ttls, ["3600", "20", "3600", "0"]);
}

/// As in BIND, if the first record is a SOA without a TTL, its minimum is the default (RFC 2308 4).
#[test]
fn rfc2308_4_soa_minimum() {
    let outcome = read(b"@ SOA a b 1 2 3 4 77\na A 192.0.2.1\na 5 A 192.0.2.2\na A 192.0.2.3");
    let ttls: Vec<_> = outcome.records.iter().map(|line| line.split(' ').nth(2).expect("a TTL")).collect();
    assert_eq!(ttls, ["77", "77", "5", "77"]);
    assert_eq!(outcome.findings.len(), 1);
    assert!(
        outcome.findings[0].contains("warning: there is no TTL: the minimum of the SOA becomes the default: 77"),
        "{outcome:?}"
    );
}

/// RFC 2181 8: a TTL over 2^31 - 1 is treated as 0.
#[test]
fn rfc2181_8_large_ttl() {
    for (text, ttl, warnings) in [
        ("a 2147483647 A 192.0.2.1", 2_147_483_647, 0),
        ("a 2147483648 A 192.0.2.1", 0, 1),
        ("$TTL 4294967295\na A 192.0.2.1", 0, 1),
        ("@ SOA a b 1 2 3 4 4294967295", 0, 1),
    ] {
        let outcome = read(text.as_bytes());
        assert_eq!(outcome.records[0].split(' ').nth(2), Some(ttl.to_string().as_str()), "{text}");
        assert_eq!(
            outcome.findings.iter().filter(|line| line.contains(": warning: ")).count(),
            warnings,
            "{outcome:?}"
        );
    }
}

/// RFC 3597 5: types and classes by number, RDATA of any type in generic form.
#[test]
fn rfc3597_5_unknown_types() {
    assert_eq!(records("a 1 CLASS1 TYPE1 \\# 4 C0000201"), ["a.example. 1 IN A 192.0.2.1"]);
    assert_eq!(records("a 1 IN TYPE731 \\# 6 abcdef ( 012345 )"), ["a.example. 1 IN TYPE731 \\# 6 ABCDEF012345"]);
    assert_eq!(records("a 1 TYPE1 192.0.2.1"), ["a.example. 1 IN A 192.0.2.1"]);
}
