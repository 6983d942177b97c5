//! Checks across the records of a zone, and its denial of existence.

use wire::{Name, Rtype};
use zone::load::{LoadOptions, LoadOutcome, SerialRules, load};
use zone::serial_policy::SerialPolicy;
use zone::text::{self, Source};
use zone::{CheckMode, Denial, Nsec3Chain, Severity, Zone};

const APEX: &str = "@ 60 SOA ns.invalid. host.invalid. 1 2 3 4 60\n@ 60 NS ns.invalid.\n";

fn loaded(text: &str) -> LoadOutcome {
    loaded_after(text, None)
}

fn loaded_after(text: &str, previous: Option<&Zone>) -> LoadOutcome {
    loaded_by(CheckMode::Lenient, text, previous)
}

fn loaded_by(checks: CheckMode, text: &str, previous: Option<&Zone>) -> LoadOutcome {
    let apex: Name = "example.".parse().expect("a name");
    let source = Source { name: "test".into(), bytes: text.as_bytes() };
    let text_options = text::ParseOptions { threads: 2, check_mode: checks, ..text::ParseOptions::new(apex.as_ref()) };
    let options = LoadOptions { previous, thorough: true, nsec3_max_iterations: 150, ..LoadOptions::new(text_options) };
    let mut outcome = load(source, &options);
    if let Some(previous) = previous {
        outcome.settle_serial(&SerialRules { previous, policy: SerialPolicy::Keep, now_s: 0, check_mode: checks });
    }
    outcome
}

/// Severity, line and message of the findings in a zone with these lines after the apex records.
fn findings(lines: &str) -> Vec<(Severity, u32, String)> {
    let outcome = loaded(&format!("{APEX}{lines}"));
    outcome.findings.into_iter().map(|found| (found.severity, found.position.line, found.message)).collect()
}

fn has_error(lines: &str, line: u32, message: &str) {
    assert_eq!(findings(lines), [(Severity::Error, line, message.to_owned())], "{lines}");
}

fn has_warning(lines: &str, line: u32, message: &str) {
    assert_eq!(findings(lines), [(Severity::Warning, line, message.to_owned())], "{lines}");
}

/// A warning; an error in strict mode.
fn is_strict_error(lines: &str, line: u32, message: &str) {
    has_warning(lines, line, message);
    let strict = loaded_by(CheckMode::Strict, &format!("{APEX}{lines}"), None);
    assert!(strict.zone.is_none(), "{lines}");
    assert_eq!((strict.findings[0].severity, &*strict.findings[0].message), (Severity::Error, message));
}

#[test]
fn rfc_1035_5_2_one_soa_and_a_name_server_at_the_apex() {
    let messages = |text: &str| loaded(text).findings.into_iter().map(|found| found.message).collect::<Vec<_>>();
    assert_eq!(
        messages("www 60 A 192.0.2.1\n"),
        ["the zone has no SOA record: example.", "the zone has no NS record at its apex: example."]
    );
    let two = format!("{APEX}@ 60 SOA ns.invalid. host.invalid. 2 2 3 4 60\n");
    assert_eq!(messages(&two), ["the zone has several SOA records: example."]);
    has_error("below 60 SOA a. b. 1 2 3 4 5\n", 3, "a SOA record below the apex: below.example.");
}

#[test]
fn rfc_1035_5_2_soa_position_and_duplicates() {
    let (soa, ns) = APEX.split_once('\n').expect("two lines");
    let outcome = loaded(&format!("{ns}a 60 TXT x\n{soa}\n"));
    assert_eq!(outcome.findings, []);
    assert_eq!(outcome.zone.map(|zone| zone.serial()), Some(1));
    let many: String = (0..30_000).map(|n| format!("h{n} 60 TXT x\n")).collect();
    for text in [
        format!("{soa}\n{ns}{soa}\n"),
        format!("{soa}\n{ns}{}\n", soa.replace("ns.", "NS.")),
        format!("{}\n{soa}\n{ns}", soa.replace("host.", "Host.")),
        format!("{soa}\n{ns}{many}{soa}\n"),
    ] {
        let outcome = loaded(&text);
        let messages: Vec<_> = outcome.findings.iter().map(|found| &*found.message).collect();
        assert_eq!(messages, ["the SOA record occurs twice: example."]);
        let zone = outcome.zone.expect("no errors");
        assert_eq!((zone.soa().count, zone.serial()), (1, 1));
        assert!(loaded_by(CheckMode::Strict, &text, None).zone.is_none());
    }
}

#[test]
fn rfc_1034_4_2_1_a_zone_without_ns_loads_with_a_warning() {
    let soa = APEX.lines().next().expect("the SOA record");
    let messages = |checks| {
        let outcome = loaded_by(checks, soa, None);
        (outcome.zone.is_some(), outcome.findings.into_iter().map(|found| found.message).collect::<Vec<_>>())
    };
    let message = "the zone has no NS record at its apex: example.".to_owned();
    assert_eq!(messages(CheckMode::Lenient), (true, vec![message.clone()]));
    assert_eq!(messages(CheckMode::Strict), (false, vec![message]));
}

#[test]
fn rfc_1035_5_2_out_of_zone_records_are_skipped() {
    is_strict_error("a.test. 60 A 192.0.2.1\n 60 A 192.0.2.2\n", 3, "an out-of-zone record is skipped: a.test.");
    let zone = loaded(&format!("{APEX}a.test. 60 A 192.0.2.1\nb 60 A 192.0.2.2\n")).zone.expect("only warnings");
    assert_eq!(zone.counts().records, 3);
    let errors = findings("a.test. 60 A 192.0.2.999\n");
    assert_eq!(errors[0].0, Severity::Error, "skipped records are parsed: {errors:?}");
}

#[test]
fn a_file_for_another_zone_is_reported() {
    let text = "a.test. 60 SOA ns.invalid. host.invalid. 1 2 3 4 60\n";
    let errors = findings(text);
    let messages = [
        (Severity::Warning, 3, "an out-of-zone record is skipped: a.test.".to_owned()),
        (
            Severity::Warning,
            3,
            "the file is for another zone: it is loaded as example., and this is the SOA record of a.test.".to_owned(),
        ),
    ];
    assert_eq!(errors, messages);
    let alone: Vec<_> = loaded(text).findings.into_iter().map(|found| found.message).collect();
    assert_eq!(alone[0], "the zone has no SOA record: example.");
    assert!(alone.contains(&messages[1].2), "{alone:?}");
}

#[test]
fn rfc_1034_3_6_2_no_other_data_beside_cname() {
    has_error("a 60 CNAME b\na 60 TXT x\n", 4, "CNAME and other data for one name: a.example.");
    has_error("a 60 CNAME b\na 60 CNAME c\n", 4, "two CNAME records for one name: a.example.");
    assert_eq!(findings("a 60 CNAME b\na 60 CNAME b\n"), [], "the same record twice is one record");
    assert_eq!(findings("a 60 CNAME b.invalid.\na 60 CNAME B.invalid.\n"), [], "RFC 4343 3: case makes no difference");
    assert_eq!(findings("a 60 CNAME b\na 60 NSEC c CNAME NSEC\n"), [], "RFC 4034 4: DNSSEC adds to it");
    for data in ["KEY 0 3 5 AAAA", "NXT b A", "SIG A 8 2 60 20260101000000 20250101000000 1 b AAAA"] {
        let lines = format!("a 60 CNAME b\na 60 {data}\n");
        is_strict_error(&lines, 4, "KEY, SIG or NXT beside CNAME: a.example.");
    }
}

#[test]
fn rfc_6672_2_4_one_dname_and_nothing_below_it() {
    has_error("a 60 DNAME b\na 60 DNAME c\n", 4, "two DNAME records for one name: a.example.");
    assert_eq!(findings("a 60 DNAME b.\na 60 DNAME B.\n"), [], "RFC 4343 3: case makes no difference");
    is_strict_error("a 60 DNAME b\nx.a 60 TXT x\n", 4, "a record below a DNAME: x.a.example.");
    is_strict_error("a 60 DNAME b\nx.a 60 NS ns.invalid.\n", 4, "a record below a DNAME: x.a.example.");
    is_strict_error("a 60 DNAME b\na 60 NS ns.invalid.\n", 3, "DNAME and NS for one name below the apex: a.example.");
    assert_eq!(findings("@ 60 DNAME b.invalid.\n"), [], "RFC 6672 2.3: allowed beside NS at the apex");
}

/// RFC 2181 5: names compare without case in the types of RFC 4034 6.2, and with case in newer ones (RFC 3597 6, RFC 6840 5.1).
#[test]
fn rfc_4034_6_3_records_that_differ_in_the_case_of_names_are_duplicates() {
    let counts = |data: &str| {
        let lines = format!("a 60 {}\na 60 {data}\n", data.replace("x.invalid.", "X.Invalid."));
        let zone = loaded(&format!("{APEX}{lines}")).zone.expect("a good zone");
        let (_, node) = zone.nodes().last().expect("the owner a");
        node.rrsets().map(|rrset| rrset.count.max(rrset.signatures().count)).collect::<Vec<_>>()
    };
    for data in [
        "NS x.invalid.",
        "CNAME x.invalid.",
        "PTR x.invalid.",
        "MINFO x.invalid. x.invalid.",
        "MX 1 x.invalid.",
        "RP x.invalid. x.invalid.",
        "AFSDB 1 x.invalid.",
        "RT 1 x.invalid.",
        "PX 1 x.invalid. x.invalid.",
        "NAPTR 1 2 \"a\" \"b\" \"c\" x.invalid.",
        "KX 1 x.invalid.",
        "SRV 1 2 3 x.invalid.",
        "DNAME x.invalid.",
        "RRSIG A 8 2 60 20260101000000 20250101000000 1 x.invalid. AAAA",
    ] {
        assert_eq!(counts(data), [1], "{data}");
    }
    for data in [
        "TXT x.invalid.",
        "NSEC x.invalid. A",
        "SVCB 1 x.invalid.",
        "HTTPS 1 x.invalid.",
        "LP 1 x.invalid.",
        "NAPTR 1 2 \"a\" \"b\" \"x.invalid.\" .",
    ] {
        assert_eq!(counts(data), [2], "{data}");
    }
}

#[test]
fn rfc_6672_2_4_an_apex_dname_covers_the_ranges_of_all_threads() {
    let below: String = (0..30_000).map(|n| format!("h{n}.same 60 TXT x\n")).collect();
    let outcome = loaded(&format!("{APEX}@ 60 DNAME b.invalid.\n{below}"));
    let zone = outcome.zone.expect("only warnings");
    let hidden = zone.nodes().filter(|(_, node)| node.is_below_dname()).count();
    assert_eq!(hidden, 30_000);
    let (last, rest) = outcome.findings.split_last().expect("findings");
    assert_eq!((rest.len(), &*last.message), (200, "29800 more warnings are not listed"));
    assert!(rest.iter().all(|found| found.message.starts_with("a record below a DNAME")));
}

#[test]
fn rfc_1035_3_3_13_a_change_increases_the_serial() {
    let text = |serial: u32, more: &str| format!("{}{more}", APEX.replace(" 1 2 3", &format!(" {serial} 2 3")));
    let previous = loaded(&text(5, "")).zone.expect("a good zone");
    let findings = |serial, more| {
        let outcome = loaded_after(&text(serial, more), Some(&previous));
        assert!(outcome.zone.is_some());
        outcome.findings.into_iter().map(|found| (found.severity, found.message)).collect::<Vec<_>>()
    };
    let warning = |message: &str| vec![(Severity::Warning, message.to_owned())];
    assert_eq!(findings(5, ""), [], "nothing has changed");
    assert_eq!(findings(6, "a 60 TXT x\n"), []);
    assert_eq!(findings(5, "a 60 TXT x\n"), warning("the zone has changed, but not its serial: 5"));
    assert_eq!(findings(4, "a 60 TXT x\n"), warning("the zone has changed, but its serial went back: from 5 to 4"));
}

#[test]
fn rfc_2181_5_2_the_lowest_ttl_of_an_rrset_is_served() {
    let lines = "a 60 A 192.0.2.1\na 30 A 192.0.2.2\n";
    has_warning(lines, 4, "TTLs differ within an RRset: a.example.");
    let zone = loaded(&format!("{APEX}{lines}")).zone.expect("only warnings");
    let (_, node) = zone.nodes().last().expect("the owner a");
    assert_eq!(node.rrset(Rtype::A).map(|rrset| (rrset.ttl, rrset.count)), Some((30, 2)));
}

#[test]
fn rfc_2181_10_3_targets_are_not_aliases() {
    has_warning("@ 60 MX 1 m\nm 60 CNAME x.invalid.\n", 3, "a record points to an alias: MX m.example.");
    has_warning("_s 60 SRV 1 2 3 t\n", 3, "a record points to a name without an address: SRV t.example.");
}

#[test]
fn rfc_9460_2_3_a_target_in_the_zone_has_addresses() {
    has_warning("s 60 HTTPS 1 t\n", 3, "a record points to a name without an address: HTTPS t.example.");
    let good =
        "s 60 HTTPS 1 t\nt 60 CNAME u\nu 60 A 192.0.2.1\ns 60 SVCB 1 .\na 60 SVCB 0 none\nb 60 SVCB 1 x.invalid.\n";
    assert_eq!(findings(good), []);
}

#[test]
fn rfc_9471_a_server_below_its_own_cut_needs_an_address() {
    let message = "missing glue for a name server below its own delegation: NS ns.cut.example.";
    has_warning("cut 60 NS ns.cut\n", 3, message);
    assert_eq!(findings("cut 60 NS ns.cut\nns.cut 60 A 192.0.2.1\n"), []);
    let hidden = "a record below a delegation is not an address: ns.cut.example.";
    has_warning("cut 60 NS ns.invalid.\nns.cut 60 TXT x\n", 4, hidden);
}

#[test]
fn rfc_5155_4_the_parameters_without_flags_name_the_chain() {
    let denial = |lines: &str| loaded(&format!("{APEX}{lines}")).zone.expect("no errors").denial().clone();
    let chain = "2t7b4g4vsa5smi47k61mv5bv1a22bojr 60 NSEC3 1 0 12 AABBCCDD 2t7b4g4vsa5smi47k61mv5bv1a22bojr SOA NS\n";
    let signed = denial(&format!("@ 60 NSEC3PARAM 1 0 12 AABBCCDD\n{chain}"));
    let apex: Name = "example.".parse().expect("a name");
    assert_eq!(signed, Denial::Nsec3(Nsec3Chain::new(12, &[0xaa, 0xbb, 0xcc, 0xdd], apex.as_ref())));
    assert_eq!(denial(&format!("@ 60 NSEC3PARAM 1 1 12 AABBCCDD\n{chain}")), Denial::None, "RFC 5155 4.1.2");
    assert_eq!(denial("@ 60 NSEC example. SOA NS NSEC\n"), Denial::Nsec);
    let missing = "the zone has NSEC3PARAM, but no NSEC3 records: example.";
    has_warning("@ 60 NSEC3PARAM 1 0 0 -\n", 0, missing);
}

#[test]
fn rfc_9276_3_2_many_iterations_are_reported() {
    let chain = "2t7b4g4vsa5smi47k61mv5bv1a22bojr 60 NSEC3 1 0 101 - 2t7b4g4vsa5smi47k61mv5bv1a22bojr SOA NS\n";
    let message = "validators treat a zone with this many NSEC3 iterations as unsigned: 101";
    has_warning(&format!("@ 60 NSEC3PARAM 1 0 101 -\n{chain}"), 0, message);
    let message = "more NSEC3 iterations than nsec3-max-iterations allows: 151, and the limit is 150";
    has_error(&format!("@ 60 NSEC3PARAM 1 0 151 -\n{chain}"), 0, message);
}

#[test]
fn rfc_1035_4_2_2_a_message_has_at_most_65535_octets() {
    // RDATA of `octets` octets, in strings of 255.
    let txt = |octets: usize| {
        format!(
            "a 60 TXT {}\n",
            "x".repeat(octets % 256 - 1) + &(" ".to_owned() + &"x".repeat(255)).repeat(octets / 256)
        )
    };
    let large_set = "an RRset that fits in no message: queries for it fail: a.example.";
    let large_record = "a record that fits in no message: zone transfers fail: a.example.";
    assert_eq!(findings(&txt(65_496)), []);
    has_warning(&txt(65_497), 3, large_set);
    has_warning(&txt(65_502), 3, large_set);
    let warnings = [large_record, large_set].map(|message| (Severity::Warning, 3, message.to_owned()));
    assert_eq!(findings(&txt(65_503)), warnings);
    let lines: String = (0..400).map(|n| format!("a 60 TXT {} {n}\n", "x".repeat(200))).collect();
    has_warning(&lines, 305, large_set);
}

#[test]
fn errors_are_listed_despite_many_warnings() {
    let warnings: String = (0..1000).map(|n| format!("h{n}.a 60 TXT x\n")).collect();
    let found = findings(&format!("a 60 DNAME b\n{warnings}z 60 CNAME b\nz 60 CNAME c\n"));
    assert_eq!(found[0], (Severity::Error, 1005, "two CNAME records for one name: z.example.".to_owned()));
    assert_eq!(found.len(), 1 + 200 + 1);
}
