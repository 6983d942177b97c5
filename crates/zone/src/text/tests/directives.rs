//! `$ORIGIN`, `$TTL`, `$INCLUDE` and `$GENERATE`.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Mutex;

use super::super::generate::PIECE_HELP;
use super::{Lines, ParseOptions, ParseOutcome, apex, parse, read, records, source};
use crate::FilePosition;
use crate::text::{ErrorText, IncludedFile, RecordLimits};

/// A file identified by its text.
fn included(name: impl AsRef<Path>, text: &str) -> IncludedFile {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    IncludedFile {
        name: text_of(name.as_ref()).into(),
        id: (0, hasher.finish()),
        text: Box::new(text.as_bytes().to_vec()),
    }
}

fn text_of(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Parses `text`, which may include `files`.
fn read_with(files: &[(&str, &str)], text: &str) -> ParseOutcome {
    let files: HashMap<_, _> = files.iter().copied().collect();
    let include = |path: &Path, _: &FilePosition| match files.get(text_of(path)) {
        Some(text) => Ok(included(path, text)),
        None => Err(ErrorText { message: "no such file".into(), help: "correct the path" }),
    };
    let apex = apex();
    parse(
        source(text.as_bytes()),
        &ParseOptions { include: &include, ..ParseOptions::new(apex.as_ref()) },
        Lines::default,
    )
    .into()
}

/// RFC 1035 5.1: `$ORIGIN` completes the names after it; a relative one is completed with the previous one.
#[test]
fn rfc1035_5_1_origin() {
    let text = "$TTL 1\n$ORIGIN sub.example.\na NS b\n$origin deep\na NS @\n$ORIGIN .\na.example NS b";
    assert_eq!(
        records(text),
        [
            "a.sub.example. 1 IN NS b.sub.example.",
            "a.deep.sub.example. 1 IN NS deep.sub.example.",
            "a.example. 1 IN NS b.",
        ]
    );
}

/// RFC 1035 5.1: an included file has the origin stated, or the current one; origin and owner are restored after it.
#[test]
fn rfc1035_5_1_include() {
    let files = [
        ("one", "a NS b\n$ORIGIN elsewhere.example.\na NS b\n $INCLUDED A 1\n"),
        ("two", "  NS b\n$TTL 2\n$INCLUDE three c.example.\nlast NS b"),
        ("three", "$TTL 3\n@ NS b"),
    ];
    let text = "$TTL 1\nwww NS b\n$INCLUDE one sub\n NS c\n$INCLUDE \"two\" ; comment\n NS d";
    let outcome = read_with(&files, text);
    assert_eq!(
        outcome.records,
        [
            "0:2 www.example. 1 IN NS b.example.",
            "1:1 a.sub.example. 1 IN NS b.sub.example.",
            "1:3 a.elsewhere.example. 1 IN NS b.elsewhere.example.",
            "0:4 www.example. 1 IN NS c.example.",
            "2:1 www.example. 1 IN NS b.example.",
            "3:2 c.example. 3 IN NS b.c.example.",
            "2:4 last.example. 3 IN NS b.example.",
            "0:6 www.example. 3 IN NS d.example.",
        ]
    );
    assert_eq!(
        outcome.findings,
        ["one:4:2: error: unknown type $INCLUDED (help: write a directive at the start of its line)"]
    );
}

#[test]
fn included_files_have_names() {
    let apex = apex();
    let include = |path: &Path, position: &FilePosition| match position.to_string().as_str() {
        "zone:2:10" => Ok(included("folder/a b", &format!("{} 1 A 192.0.2.1\n$INCLUDE c", path.display()))),
        "folder/a b:2:10" => Ok(included("folder/c", "")),
        position => Err(ErrorText { message: position.into(), help: "" }),
    };
    let options = ParseOptions { include: &include, ..ParseOptions::new(apex.as_ref()) };
    let parsed = parse(source(b"\n$INCLUDE a\\032b"), &options, Lines::default);
    assert_eq!(parsed.files.iter().map(|name| &**name).collect::<Vec<_>>(), ["zone", "folder/a b", "folder/c"]);
}

#[test]
fn includes_that_fail() {
    let files = [("self", "$INCLUDE self"), ("a", "$INCLUDE b"), ("b", "\n\n$INCLUDE a")];
    for (text, error) in [
        ("$INCLUDE none", "zone:1:10: error: none is not included: no such file (help: correct the path)"),
        (
            "$INCLUDE self ;",
            "self:1:10: error: self is not included: it is self, which includes it (help: break the cycle)",
        ),
        ("$INCLUDE a", "b:3:10: error: a is not included: it is a, which includes it (help: break the cycle)"),
        ("$INCLUDE", "zone:1:9: error: a file is missing (help: as in $INCLUDE hosts.zone sub.example.com.)"),
        (
            "$INCLUDE a b c",
            "zone:1:14: error: unexpected field after the origin (help: as in $INCLUDE hosts.zone sub.example.com.)",
        ),
        (
            "$INCLUDE \\256",
            "zone:1:10: error: a backslash must be followed by one character or by three digits up to 255 (help: write \\\\ for a backslash)",
        ),
    ] {
        assert_eq!(
            read_with(&files, text),
            ParseOutcome { records: vec![], findings: vec![error.to_owned()] },
            "{text}"
        );
    }
}

/// Paths on Unix are octets: raw ones and escapes, also those that are not UTF-8.
#[test]
fn include_path_is_octets() {
    let opened = Mutex::new(Vec::new());
    let include = |path: &Path, _: &FilePosition| {
        opened.lock().expect("no panic").push(path.as_os_str().as_bytes().to_vec());
        Ok(included("file", ""))
    };
    let apex = apex();
    let options = ParseOptions { include: &include, ..ParseOptions::new(apex.as_ref()) };
    let text = b"$INCLUDE a\\255\\\\b\n$INCLUDE \xfe\xc3\xa4\n$INCLUDE \"\xff c\"\n";
    let outcome = ParseOutcome::from(parse(source(text), &options, Lines::default));
    assert_eq!(outcome.findings, [""; 0]);
    let paths = opened.into_inner().expect("no panic");
    assert_eq!(paths, [b"a\xff\\b".as_slice(), b"\xfe\xc3\xa4", b"\xff c"]);
}

#[test]
fn includes_are_bounded_in_depth() {
    let apex = apex();
    let include = |path: &Path, _: &FilePosition| {
        let next = text_of(path).parse::<u32>().expect("a number") + 1;
        Ok(included(path, &format!("$INCLUDE {next}")))
    };
    let options = ParseOptions { include: &include, ..ParseOptions::new(apex.as_ref()) };
    let outcome = ParseOutcome::from(parse(source(b"$INCLUDE 1"), &options, Lines::default));
    assert_eq!(
        outcome.findings,
        ["16:1:10: error: 17 is not included: files are included 16 levels deep (help: nest them less)"]
    );
}

/// The syntax of BIND's reference manual, with its examples.
#[test]
fn bind_generate() {
    for (text, expected) in [
        ("$GENERATE 1-2 $ CNAME $.0", vec!["1.example. 1 IN CNAME 1.0.example.", "2.example. 1 IN CNAME 2.0.example."]),
        ("$GENERATE 1-5/2 h$ A 1.2.3.$", vec!["h1", "h3", "h5"]),
        ("$GENERATE 1-1 HOST-$ MX \"0 .\"", vec!["HOST-1.example. 1 IN MX 0 ."]),
        ("$GENERATE 7-7 a 60 IN MX 10 mail$", vec!["a.example. 60 IN MX 10 mail7.example."]),
        ("$GENERATE 1-1 h${0,3} A 1.2.3.${10}", vec!["h001.example. 1 IN A 1.2.3.11"]),
        ("$GENERATE 10-10 h${-5,3,d} A 1.2.3.${+1}", vec!["h005.example. 1 IN A 1.2.3.11"]),
        ("$GENERATE 255-255 h${0,4,x}.${0,0,X}.${0,0,o} A 1.2.3.4", vec!["h00ff.FF.377.example. 1 IN A 1.2.3.4"]),
        ("$GENERATE 271-271 ${0,0,n} A 1.2.3.4", vec!["f.0.1.example. 1 IN A 1.2.3.4"]),
        ("$GENERATE 271-271 ${0,9,N} A 1.2.3.4", vec!["F.0.1.0.0.example. 1 IN A 1.2.3.4"]),
        ("$GENERATE 271-271 ${0,8,n}ip6 A 1.2.3.4", vec!["f.0.1.0.ip6.example. 1 IN A 1.2.3.4"]),
        ("$GENERATE 1-1 h${-5,3}.${-5,0,x} A 1.2.3.4", vec!["h-04.fffffffc.example. 1 IN A 1.2.3.4"]),
        ("$GENERATE 1-1 a HTTPS \"1 . alpn=\\\"h$\\\"\"", vec!["a.example. 1 IN HTTPS 1 . alpn=h1"]),
        ("$GENERATE 1-1 h${0,+2} A 1.2.3.4", vec!["h01.example. 1 IN A 1.2.3.4"]),
        ("$GENERATE 1-1 a$$\\$$ A 1.2.3.4", vec!["a\\$\\$1.example. 1 IN A 1.2.3.4"]),
        ("$GENERATE 1-1 a TXT \"\\\"b $\\\" $\"", vec!["a.example. 1 IN TXT \"b 1\" \"1\""]),
        ("$GENERATE 1-1 a TXT \"b $\" c", vec!["a.example. 1 IN TXT \"b 1\" \"c\""]),
        ("$GENERATE 1-1 a$.example. NS ( b$\n)", vec!["a1.example. 1 IN NS b1.example."]),
    ] {
        let records = records(format!("$TTL 1\n{text}"));
        assert_eq!(records.len(), expected.len(), "{text}: {records:?}");
        for (record, expected) in records.iter().zip(expected) {
            assert!(record.starts_with(expected), "{text}: {record} is not {expected}");
        }
    }
}

#[test]
fn violations_in_generated_records_are_reported() {
    let outcome = read(b"$TTL 1\n$GENERATE 1-1 a TXT \"k=\\\"v $\\\"\"\n$GENERATE 1-1 a TXT \"\\\"v\\\"w\"");
    assert_eq!(outcome.records, ["0:2 a.example. 1 IN TXT \"k=\" \"v 1\"", "0:3 a.example. 1 IN TXT \"v\" \"w\""]);
    assert!(outcome.findings[0].starts_with("zone:2:21: warning: a blank is missing"), "{outcome:?}");
    assert!(outcome.findings[1].starts_with("zone:3:21: warning: a blank is missing"), "{outcome:?}");
}

#[test]
fn generate_leaves_the_owner_alone() {
    let outcome = records("$TTL 1\na A 192.0.2.1\n$GENERATE 1-1 b A 192.0.2.2\n A 192.0.2.3");
    assert_eq!(outcome[2], "a.example. 1 IN A 192.0.2.3");
}

#[test]
fn generate_is_checked() {
    for (arguments, column, message) in [
        ("", 10, "a range, an owner, a type and RDATA are missing"),
        (" 1-2", 14, "a range, an owner, a type and RDATA are missing"),
        (" 1-2 a", 16, "the type is missing"),
        (" 1-2 a A", 18, "the RDATA is missing"),
        (" 2-1 a A 1.2.3.4", 11, "the range ends before it starts"),
        (" 1 a A 1.2.3.4", 11, "the range is not START-STOP or START-STOP/STEP"),
        (" 1-x a A 1.2.3.4", 11, "the range has something other than numbers up to 2147483647"),
        (" 1-2147483648 a A 1.2.3.4", 11, "the range has something other than numbers up to 2147483647"),
        (" 1-2/0 a A 1.2.3.4", 11, "the step of the range is 0"),
        (
            " 0-1000000 a A 1.2.3.4",
            11,
            "the zone has more than 1000000 records that are generated or included again (help: raise `max-generated`)",
        ),
        (" 1-2 a${ A 1.2.3.4", 15, "a closing brace is missing"),
        (" 1-2 a${x} A 1.2.3.4", 15, "the offset is not a number"),
        (" 1-2 a${0,x} A 1.2.3.4", 15, "the width is not a number"),
        (" 1-2 a${0,256} A 1.2.3.4", 15, "the width is over 255"),
        (" 1-2 a${0,1,y} A 1.2.3.4", 15, "the base is unknown"),
        (" 1-2 a${0,1,d,4} A 1.2.3.4", 15, "the braces hold more than offset, width and base"),
        (" 1-1 a${2147483647} A 1.2.3.4", 15, "the offset makes the number too large"),
        (" 1-2 a.. A 1.2.3.4", 15, "the name has an empty label"),
        (" 1-2 a CNMAE b", 17, "unknown type CNMAE"),
        (" 1-2 a TXT \"a\nb\"", 21, "the RDATA has more than one line"),
        (" 1-2 a TXT \"(a\"", 21, "this parenthesis is not closed"),
    ] {
        let outcome = read(format!("$TTL 1\n$GENERATE{arguments}").as_bytes());
        let expected = format!("zone:2:{column}: error: {message}");
        assert!(outcome.findings.len() == 1 && outcome.findings[0].starts_with(&expected), "{expected}: {outcome:?}");
    }
}

#[test]
fn bad_directives() {
    for (text, error) in [
        ("$TTL", "zone:1:5: error: a TTL is missing (help: as in $TTL 3600 or $TTL 1h)"),
        ("$TTL 1 2", "zone:1:8: error: unexpected field after the argument (help: as in $TTL 3600 or $TTL 1h)"),
        (
            "$TTL x",
            "zone:1:6: error: the TTL is not a number of seconds (help: write seconds, or numbers with units as in 1w2d3h4m5s)",
        ),
        ("$ORIGIN", "zone:1:8: error: a name is missing (help: as in $ORIGIN example.com.)"),
        ("$ORIGIN a..b", "zone:1:9: error: the name has an empty label (help: correct the name)"),
        ("$ORGIN a.", "zone:1:1: error: unknown directive $ORGIN (help: did you mean $ORIGIN?)"),
        (
            "$X",
            "zone:1:1: error: unknown directive $X (help: known are $ORIGIN, $TTL, $INCLUDE and $GENERATE; \
             write \\$ for an owner that starts with $)",
        ),
    ] {
        assert_eq!(read(text.as_bytes()).findings, [error], "{text}");
    }
}

//----------- limits -----------------------------------------------------------

/// Parses text, which may include `files`, within limits; returns the number of records and the findings.
fn within(limits: RecordLimits, files: &[(&str, &str)], text: &str) -> (usize, Vec<String>) {
    let files: HashMap<_, _> = files.iter().copied().collect();
    let include = |path: &Path, _: &FilePosition| Ok(included(path, files[text_of(path)]));
    let apex = apex();
    let options = ParseOptions { include: &include, limits, ..ParseOptions::new(apex.as_ref()) };
    let ParseOutcome { records, findings } = parse(source(text.as_bytes()), &options, Lines::default).into();
    (records.len(), findings)
}

#[test]
fn records_are_limited() {
    let limits = RecordLimits { records: 3, ..RecordLimits::DEFAULT };
    let three = "$TTL 1\na NS b\na NS c\na NS d\n";
    assert_eq!(within(limits, &[], three).1, [""; 0].map(String::from));
    let error = "zone:5:6: error: the zone has more than 3 records (help: raise `max-records`)".to_owned();
    assert_eq!(within(limits, &[], &format!("{three}a NS e\na NS f\n")), (3, vec![error]), "it is reported once");
    let range = "zone:2:11: error: the zone has more than 3 records (help: raise `max-records`)".to_owned();
    let unlimited = RecordLimits { generated: u64::MAX, ..limits };
    assert_eq!(within(unlimited, &[], "$TTL 1\n$GENERATE 0-2147483647 a$ NS b\n"), (0, vec![range]));
}

#[test]
fn generated_records_are_limited() {
    let limits = RecordLimits { generated: 3, ..RecordLimits::DEFAULT };
    let error = |place: &str| {
        vec![format!(
            "{place}: error: the zone has more than 3 records that are generated or included again (help: raise `max-generated`)"
        )]
    };
    let generate = |count: u32| format!("$GENERATE 1-{count} a$ 1 NS b\n");
    assert_eq!(within(limits, &[], &generate(3)), (3, vec![]));
    assert_eq!(within(limits, &[], &generate(4)), (0, error("zone:1:11")));
    assert_eq!(within(limits, &[], &[generate(2), generate(2)].concat()), (2, error("zone:2:11")), "all count");
    let large = "$GENERATE 1-3 a 1 TXT ${0,200} ${0,200}\n";
    assert_eq!(within(limits, &[], large), (1, error("zone:1:23")), "a large record counts as several");
    let left_out = "$GENERATE 1-3 a$.elsewhere. 1 NS b\n";
    let last = |text: &str| within(limits, &[], text).1.pop();
    assert_eq!(last(&left_out.repeat(2)), error("zone:2:11").pop(), "records that are left out count as well");
    let comment = format!("$GENERATE 1-3 a 1 A \"192.0.2.1 ;{}\"\n", "${0,255}".repeat(4));
    assert_eq!(last(&comment), error("zone:1:21").pop(), "a comment counts, too");
    let endless = format!("$GENERATE 1-1 a 1 A \"192.0.2.1 ;{}\"\n", "${0,255}".repeat(1280));
    let message = "zone:1:21: error: the text is longer than any RDATA (help: ".to_owned() + PIECE_HELP + ")";
    assert_eq!(last(&endless), Some(message));

    let again = |count| ["$INCLUDE f\n"].repeat(count).concat();
    let (one, comment) = ([("f", "a 1 NS b\n")], [("f", &*format!(";{:300}\n", ""))]);
    assert_eq!(within(limits, &one, &again(2)), (2, vec![]), "one for the text and one for the record");
    assert_eq!(within(limits, &one, &again(3)), (2, error("f:1:8")));
    assert_eq!(within(limits, &comment, &again(3)).1[0].split(": ").next(), Some("zone:3:10"), "text counts too");
}
