//! Errors and warnings: their positions and messages, and where parsing continues.

use crate::CheckMode;

use super::{Lines, ParseOptions, ParseOutcome, apex, parse, read, records, source};

/// Each error alone, with the start of its message. A valid record after it is parsed.
#[test]
fn each_error_has_its_position_and_message() {
    for (text, finding) in [
        // Owner, TTL, class, type.
        (" 1 A 192.0.2.1", "zone:1:2: error: the first record has no owner"),
        ("a", "zone:1:2: error: the type is missing"),
        ("a 1 IN ; A", "zone:1:7: error: the type is missing"),
        ("a 1 1 A 192.0.2.1", "zone:1:5: error: the TTL is stated twice (help: the type comes next)"),
        ("a IN IN A 192.0.2.1", "zone:1:6: error: the class is stated twice"),
        ("a 1x A 192.0.2.1", "zone:1:3: error: the TTL has an unknown unit"),
        ("a 99999999999 A 192.0.2.1", "zone:1:3: error: the TTL does not fit in 32 bits"),
        ("a CH A 192.0.2.1", "zone:1:3: error: the class is CH (help: only class IN is supported)"),
        ("a CLASS3 A 192.0.2.1", "zone:1:3: error: the class is CH"),
        ("a CLASS9 A 192.0.2.1", "zone:1:3: error: the class is CLASS9"),
        ("a NONE A 192.0.2.1", "zone:1:3: error: the class is NONE"),
        ("a ANY A 192.0.2.1", "zone:1:3: error: ANY is a QTYPE or meta-type, not the type of a record in a zone"),
        ("a 1 CNMAE b", "zone:1:5: error: unknown type CNMAE (help: did you mean CNAME?)"),
        ("a 1 \\A 192.0.2.1", "zone:1:5: error: unknown type \\\\A ("),
        ("A 192.0.2.1", "zone:1:3: error: the TTL has an unknown unit"),
        (
            "MX mail",
            "zone:1:4: error: unknown type mail (help: MX is taken as the owner; write a space before it if it is the type)",
        ),
        ("a 1 \"A\" 192.0.2.1", "zone:1:5: error: TTL, class and type must not be quoted"),
        ("a 1 AXFR x", "zone:1:5: error: AXFR is a QTYPE or meta-type, not the type of a record in a zone"),
        // Owners.
        ("a..b 1 A 192.0.2.1", "zone:1:1: error: the name has an empty label"),
        ("a\\300 1 A 192.0.2.1", "zone:1:1: error: a backslash must be followed by"),
        // Quotes and parentheses.
        ("a 1 TXT \"x\\\"", "zone:1:9: error: this quote is not closed (help: close it with \""),
        ("a 1 TXT \"x\nb 1 TXT \"y\"", "zone:1:9: error: this quote is not closed"),
        ("a 1 TXT x\"y", "zone:1:10: error: a quote in the middle of a word"),
        ("a 1 HTTPS 1 . alpn=\"h2", "zone:1:20: error: a quote in the middle of a word"),
        ("a 1 A (\n 192.0.2.1", "zone:1:7: error: this parenthesis is not closed (help: close it with )"),
        ("a 1 A ((192.0.2.1))", "zone:1:7: error: this parenthesis is not closed"),
        ("a 1 A 192.0.2.1 )", "zone:1:17: error: a closing parenthesis without an opening one"),
        (")", "zone:1:1: error: a closing parenthesis without an opening one"),
        ("a 1 TXT x\\", "zone:1:10: error: a backslash at the end of the line escapes nothing"),
    ] {
        let outcome = read(format!("{text}\nlast 1 A 192.0.2.9\n").as_bytes());
        assert_eq!(outcome.findings.len(), 1, "{text}: {outcome:?}");
        assert!(outcome.findings[0].starts_with(finding), "{text}: {:?}", outcome.findings);
        assert!(outcome.findings[0].contains(" (help: "), "{text} has no help: {:?}", outcome.findings);
        let last = outcome.records.last().expect("a record");
        assert!(last.ends_with(" last.example. 1 IN A 192.0.2.9"), "{text}: {outcome:?}");
    }
}

/// Violations that load with a warning, or fail in strict mode.
#[test]
fn violations_load_with_a_warning() {
    for (text, finding, record) in [
        ("a.test. 1 A 192.0.2.1", "zone:1:1: FOUND: an out-of-zone record is skipped: a.test. (", ""),
        ("a.test. 1 A 192.0.2.1\n 1 A 192.0.2.2", "zone:1:1: FOUND: an out-of-zone record is skipped: a.test. (", ""),
        ("$GENERATE 1-1 $.test. 1 A 192.0.2.$", "zone:1:15: FOUND: an out-of-zone record is skipped: 1.test. (", ""),
        ("a 1 TYPE41 \\# 0", "zone:1:15: FOUND: a record of a QTYPE or meta-type is skipped: OPT (", ""),
        ("\"a b\" 1 TXT x", "zone:1:1: FOUND: the owner is in quotes (", "a\\032b.example. 1 IN TXT \"x\""),
        ("a 1 TXT \"x\"y", "zone:1:12: FOUND: a blank is missing next to a quote (", "a.example. 1 IN TXT \"x\" \"y\""),
        ("a 1 TXT \"x\"\"y\"", "zone:1:12: FOUND: a blank is missing", "a.example. 1 IN TXT \"x\" \"y\""),
        ("a 1 TXT x\"y\"", "zone:1:10: FOUND: a blank is missing", "a.example. 1 IN TXT \"x\" \"y\""),
        ("a 1 TXT x=\"y z\"", "zone:1:11: FOUND: a blank is missing", "a.example. 1 IN TXT \"x=\" \"y z\""),
        ("a 1 TXT x\"y\"z", "zone:1:10: FOUND: a blank is missing", "a.example. 1 IN TXT \"x\" \"y\" \"z\""),
        (
            "a 1 HTTPS 1 . alpn=\"h2\"port=53",
            "zone:1:24: FOUND: a blank is",
            "a.example. 1 IN HTTPS 1 . alpn=h2 port=53",
        ),
        (
            "a 1 TYPE0 \\# 1 00",
            "zone:1:5: FOUND: a record of a reserved type: TYPE0 (",
            "a.example. 1 IN TYPE0 \\# 1 00",
        ),
        (
            "a 1 ALIAS b",
            "zone:1:5: FOUND: ALIAS is stored and transferred, but not",
            "a.example. 1 IN ALIAS b.example.",
        ),
        ("a A 192.0.2.1", "zone:1:5: FOUND: there is no TTL: neither here", "a.example. 3600 IN A 192.0.2.1"),
    ] {
        for (checks, severity) in [(CheckMode::Lenient, "warning"), (CheckMode::Strict, "error")] {
            let apex = apex();
            let options = ParseOptions { check_mode: checks, ..ParseOptions::new(apex.as_ref()) };
            let outcome = ParseOutcome::from(parse(source(text.as_bytes()), &options, Lines::default));
            let finding = finding.replace("FOUND", severity);
            assert!(outcome.findings.len() == 1 && outcome.findings[0].starts_with(&finding), "{text}: {outcome:?}");
            let records: Vec<_> = outcome.records.iter().filter_map(|line| line.split_once(' ')).collect();
            assert_eq!(records.first().map_or("", |(_, record)| record), record, "{text}");
        }
    }
}

/// An error in RDATA is reported at its field, or after the last field, or the type, if a field is missing.
#[test]
fn rdata_errors_have_positions() {
    for (text, position) in [
        ("a 1 A", "zone:1:6"),
        ("a 1 A 192.0.2", "zone:1:7"),
        ("a 1 A 192.0.2.1 x", "zone:1:17"),
        ("a 1 MX (\n  1 ; preference\n  b..c )", "zone:3:3"),
        ("a 1 MX (\n  1 ; preference\n )", "zone:2:4"),
        ("a 1 TXT \"a\" \\256", "zone:1:13"),
    ] {
        let outcome = read(text.as_bytes());
        assert_eq!(outcome.records, [""; 0]);
        assert_eq!(outcome.findings.len(), 1, "{text}: {outcome:?}");
        assert!(outcome.findings[0].starts_with(&format!("{position}: error: ")), "{text}: {:?}", outcome.findings);
    }
}

/// All errors are found in one run, even two in one record.
#[test]
fn parsing_continues_after_an_error() {
    let text = b"$TTL 1\na..b A 1.2.3.4.5\n A x\nb A 192.0.2.1\nc A (\nd A 192.0.2.2\n A y\ne TXT \"\nf A 192.0.2.3\n";
    let outcome = read(text);
    let positions: Vec<_> = outcome.findings.iter().map(|line| line.split(": ").next().expect("a position")).collect();
    assert_eq!(positions, ["zone:2:1", "zone:2:8", "zone:3:4", "zone:5:5", "zone:7:4", "zone:8:7"]);
    let lines: Vec<_> = outcome.records.iter().map(|line| line.split(' ').next().expect("a line")).collect();
    assert_eq!(lines, ["0:4", "0:6", "0:9"]);
}

/// After an open parenthesis parsing continues at a line that looks like a record, not at a field of the broken one.
#[test]
fn recovery_skips_the_fields_of_the_broken_record() {
    let text = "$TTL 1\n@ SOA a b ( ; no end\n 1 ; serial\n3600\n 1h\n\n )))\nxyz\n$TTL 2\nb A 192.0.2.1";
    let outcome = read(text.replace(" )))", "").as_bytes());
    assert_eq!(outcome.findings.len(), 1, "{outcome:?}");
    assert_eq!(outcome.records, ["0:10 b.example. 2 IN A 192.0.2.1"]);
}

/// A missing owner is reported once, not for all records that lack it.
#[test]
fn a_missing_owner_is_reported_once() {
    let outcome = read(b" 1 A 192.0.2.1\n 1 A 192.0.2.2\n 1 A x\na 1 A 192.0.2.3");
    let positions: Vec<_> = outcome.findings.iter().map(|line| line.split(": ").next().expect("a position")).collect();
    assert_eq!(positions, ["zone:1:2", "zone:3:6"]);
    assert_eq!(outcome.records, ["0:4 a.example. 1 IN A 192.0.2.3"]);
}

/// Records without an owner after an invalid one are checked, but do not get the previous owner.
#[test]
fn an_invalid_owner_is_not_replaced_by_the_previous_one() {
    for wrong in ["a.test. 1 A 192.0.2.2", "b..c 1 A 192.0.2.2", "b 1 TXT \"", "b 1 A ("] {
        let outcome = read(format!("a 1 A 192.0.2.1\n{wrong}\n 1 A 192.0.2.3\n").as_bytes());
        assert_eq!(outcome.findings.len(), 1, "{wrong}: {outcome:?}");
        assert_eq!(outcome.records, ["0:1 a.example. 1 IN A 192.0.2.1"], "{wrong}");
    }
}

/// Errors and warnings have separate limits, so that warnings do not hide errors.
#[test]
fn findings_are_bounded() {
    let apex = apex();
    let text = "a 3000000000 A 192.0.2.1\n".repeat(5) + &"a 1 A x\n".repeat(4) + "a 1 A 192.0.2.1\n";
    let options = ParseOptions { error_limit: 3, ..ParseOptions::new(apex.as_ref()) };
    let outcome = ParseOutcome::from(parse(source(text.as_bytes()), &options, Lines::default));
    let positions: Vec<_> = outcome.findings.iter().map(|line| line.split(": ").next().expect("a position")).collect();
    assert_eq!(positions, ["zone:1:3", "zone:2:3", "zone:3:3", "zone:6:7", "zone:7:7", "zone:8:7", "zone", "zone"]);
    assert_eq!(
        outcome.findings[6],
        "zone: warning: 2 more warnings are not listed (help: fix those listed and check again)"
    );
    assert_eq!(
        outcome.findings[7],
        "zone: error: 1 more errors are not listed (help: fix those listed and check again)"
    );
    assert_eq!(outcome.records.len(), 6);
}

/// Fields and entries that are too long for any RDATA are errors, and are not stored.
#[test]
fn long_fields_and_entries_are_errors() {
    for (text, position, message) in [
        (format!("a 1 TXT {}", "x".repeat(262_141)), "zone:1:9", "the field is longer than any RDATA"),
        (format!("a 1 TXT \"{}\"", "x".repeat(262_141)), "zone:1:9", "this quote is not closed"),
        (format!("a 1 TXT {}", "x ".repeat(70_000)), "zone:1:131089", "the entry has more fields than any record"),
        (format!("a 1 TXT {}", ("x".repeat(255) + " ").repeat(257)), "zone:1:65545", "the text makes"),
        // Each quote looks no further than the next one.
        (format!("a 1 TXT{}", " b=\"c".repeat(100_001)), "zone:1:327709", "the entry has more fields than any record"),
    ] {
        let outcome = read(text.as_bytes());
        assert_eq!(outcome.findings.len(), 1);
        assert!(outcome.findings[0].starts_with(&format!("{position}: error: {message}")), "{:?}", outcome.findings);
    }
    let hex = format!("a 1 TYPE731 \\# 65535 {}", "00 ".repeat(65_535));
    assert_eq!(records(hex).len(), 1);
}
