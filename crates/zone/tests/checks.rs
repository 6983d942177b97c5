//! What is wrong with a zone whose records are well-formed each by itself, and how it proves what is not there.

use wire::{Name, Rtype};
use zone::load::{Options, Outcome, load};
use zone::text::{self, Source};
use zone::{Denial, Severity, Zone};

const APEX: &str = "@ 60 SOA ns.invalid. host.invalid. 1 2 3 4 60\n@ 60 NS ns.invalid.\n";

fn loaded(text: &str) -> Outcome {
    loaded_after(text, None)
}

fn loaded_after(text: &str, previous: Option<&Zone>) -> Outcome {
    let apex: Name = "example.".parse().expect("a name");
    let source = Source { name: "test".into(), bytes: text.as_bytes() };
    let text_options = text::Options { threads: 2, ..text::Options::new(apex.as_ref()) };
    load(source, &Options { previous, thorough: true, nsec3_max_iterations: 150, ..Options::new(text_options) })
}

/// Severity, line and message of all that is found in the apex and these further lines.
fn findings(lines: &str) -> Vec<(Severity, u32, String)> {
    let outcome = loaded(&format!("{APEX}{lines}"));
    outcome.diagnostics.into_iter().map(|found| (found.severity, found.place.line, found.message)).collect()
}

fn has_error(lines: &str, line: u32, message: &str) {
    assert_eq!(findings(lines), [(Severity::Error, line, message.to_owned())], "{lines}");
}

fn has_warning(lines: &str, line: u32, message: &str) {
    assert_eq!(findings(lines), [(Severity::Warning, line, message.to_owned())], "{lines}");
}

#[test]
fn rfc_1035_5_2_one_soa_and_a_name_server_at_the_apex() {
    let messages = |text: &str| loaded(text).diagnostics.into_iter().map(|found| found.message).collect::<Vec<_>>();
    assert_eq!(
        messages("www 60 A 192.0.2.1\n"),
        ["the zone example. has no SOA record", "the zone example. has no NS record at its apex"]
    );
    let two = format!("{APEX}@ 60 SOA ns.invalid. host.invalid. 2 2 3 4 60\n");
    assert_eq!(messages(&two), ["the zone example. has several SOA records"]);
    has_error("below 60 SOA a. b. 1 2 3 4 5\n", 3, "a SOA record stands below the apex: below.example.");
}

#[test]
fn a_file_that_is_read_as_another_zone_is_told_so() {
    let mistakes = findings("a.test. 60 SOA ns.invalid. host.invalid. 1 2 3 4 60\n");
    let messages = [
        (Severity::Error, 3, "a.test. is out of zone example.".to_owned()),
        (Severity::Error, 3, "this file is about the zone a.test. and is read as example.".to_owned()),
    ];
    assert_eq!(mistakes, messages);
}

#[test]
fn rfc_1034_3_6_2_nothing_stands_beside_an_alias() {
    has_error("a 60 CNAME b\na 60 TXT x\n", 4, "CNAME and other data for one name: a.example.");
    has_error("a 60 CNAME b\na 60 CNAME c\n", 4, "two CNAME records for one name: a.example.");
    assert_eq!(findings("a 60 CNAME b\na 60 CNAME b\n"), [], "the same record twice is one record");
    assert_eq!(findings("a 60 CNAME b\na 60 NSEC c CNAME NSEC\n"), [], "RFC 4034 4: DNSSEC adds to it");
}

#[test]
fn rfc_6672_2_4_one_dname_and_nothing_below_it() {
    has_error("a 60 DNAME b\na 60 DNAME c\n", 4, "two DNAME records for one name: a.example.");
    has_error("a 60 DNAME b\nx.a 60 TXT x\n", 4, "a record below a DNAME: x.a.example.");
    has_error("a 60 DNAME b\na 60 NS ns.invalid.\n", 3, "DNAME and NS for one name below the apex: a.example.");
    assert_eq!(findings("@ 60 DNAME b.invalid.\n"), [], "RFC 6672 2.3: at the apex it stands beside NS");
}

#[test]
fn rfc_6672_2_4_a_dname_at_the_apex_covers_what_other_threads_read() {
    let below: String = (0..30_000).map(|n| format!("h{n}.same 60 TXT x\n")).collect();
    let outcome = loaded(&format!("{APEX}@ 60 DNAME b.invalid.\n{below}"));
    assert!(outcome.zone.is_none());
    assert!(outcome.diagnostics[0].message.starts_with("a record below a DNAME"), "{:?}", outcome.diagnostics[0]);
}

#[test]
fn rfc_1035_3_3_13_a_change_raises_the_serial() {
    let text = |serial: u32, more: &str| format!("{}{more}", APEX.replace(" 1 2 3", &format!(" {serial} 2 3")));
    let previous = loaded(&text(5, "")).zone.expect("a good zone");
    let told = |serial, more| {
        let outcome = loaded_after(&text(serial, more), Some(&previous));
        assert!(outcome.zone.is_some());
        outcome.diagnostics.into_iter().map(|found| (found.severity, found.message)).collect::<Vec<_>>()
    };
    let warning = |message: &str| vec![(Severity::Warning, message.to_owned())];
    assert_eq!(told(5, ""), [], "nothing has changed");
    assert_eq!(told(6, "a 60 TXT x\n"), []);
    assert_eq!(told(5, "a 60 TXT x\n"), warning("the zone has changed and its serial is 5 as before"));
    assert_eq!(told(4, "a 60 TXT x\n"), warning("the zone has changed and its serial went back, from 5 to 4"));
}

#[test]
fn rfc_2181_5_2_the_least_ttl_of_a_set_is_served() {
    let lines = "a 60 A 192.0.2.1\na 30 A 192.0.2.2\n";
    has_warning(lines, 4, "records of one set differ in their TTLs: a.example.");
    let zone = loaded(&format!("{APEX}{lines}")).zone.expect("a warning is no error");
    let (_, node) = zone.nodes().last().expect("the owner a");
    assert_eq!(node.rrset(Rtype::A).map(|rrset| (rrset.ttl, rrset.count)), Some((30, 2)));
}

#[test]
fn rfc_2181_10_3_servers_are_no_aliases() {
    has_warning("@ 60 MX 1 m\nm 60 CNAME x.invalid.\n", 3, "MX points to m.example., which is an alias");
    has_warning("_s 60 SRV 1 2 3 t\n", 3, "SRV points to t.example., which has no address");
}

#[test]
fn rfc_9471_a_server_below_its_own_cut_needs_an_address() {
    let message = "no address for the name server ns.cut.example., which stands below its own delegation";
    has_warning("cut 60 NS ns.cut\n", 3, message);
    assert_eq!(findings("cut 60 NS ns.cut\nns.cut 60 A 192.0.2.1\n"), []);
    let hidden = "a record below a delegation that is no address: ns.cut.example.";
    has_warning("cut 60 NS ns.invalid.\nns.cut 60 TXT x\n", 4, hidden);
}

#[test]
fn rfc_5155_4_the_parameters_without_flags_name_the_chain() {
    let denial = |lines: &str| loaded(&format!("{APEX}{lines}")).zone.expect("no errors").denial().clone();
    let chain = "2t7b4g4vsa5smi47k61mv5bv1a22bojr 60 NSEC3 1 0 12 AABBCCDD 2t7b4g4vsa5smi47k61mv5bv1a22bojr SOA NS\n";
    let signed = denial(&format!("@ 60 NSEC3PARAM 1 0 12 AABBCCDD\n{chain}"));
    assert_eq!(signed, Denial::Nsec3 { iterations: 12, salt: [0xaa, 0xbb, 0xcc, 0xdd].into() });
    assert_eq!(denial(&format!("@ 60 NSEC3PARAM 1 1 12 AABBCCDD\n{chain}")), Denial::None, "RFC 5155 4.1.2");
    assert_eq!(denial("@ 60 NSEC example. SOA NS NSEC\n"), Denial::Nsec);
    let missing = "the zone example. has NSEC3PARAM and no NSEC3 records";
    has_warning("@ 60 NSEC3PARAM 1 0 0 -\n", 0, missing);
}

#[test]
fn rfc_9276_3_2_many_iterations_are_told() {
    let chain = "2t7b4g4vsa5smi47k61mv5bv1a22bojr 60 NSEC3 1 0 101 - 2t7b4g4vsa5smi47k61mv5bv1a22bojr SOA NS\n";
    let message = "NSEC3 with 101 iterations: validators treat the zone as unsigned";
    has_warning(&format!("@ 60 NSEC3PARAM 1 0 101 -\n{chain}"), 0, message);
    let message = "NSEC3 with 151 iterations, more than `nsec3-max-iterations` = 150";
    has_error(&format!("@ 60 NSEC3PARAM 1 0 151 -\n{chain}"), 0, message);
}
