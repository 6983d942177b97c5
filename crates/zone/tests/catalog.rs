//! Catalog zones (RFC 9432): members are read, and read again from the records that list them.

use wire::Name;
use zone::Zone;
use zone::catalog::{self, CatalogError, CatalogMember};
use zone::change::{ChangeRules, ChangeSet};
use zone::load::{LoadOptions, load};
use zone::text::{self, Source};

const APEX: &str = "$ORIGIN c.\n@ 0 SOA invalid. invalid. 1 1 1 1 1\n@ 0 NS invalid.\n";

fn zone_of(text: &str) -> Zone {
    let apex = name("c.");
    let options = LoadOptions::new(text::ParseOptions::new(apex.as_ref()));
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let text = format!("{APEX}{}\n", lines.join("\n"));
    load(Source { name: "test".into(), bytes: text.as_bytes() }, &options).zone.expect("a valid zone")
}

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

fn member(label: &str, zone: &str, groups: &[&str], change_of_ownership: Option<&str>) -> CatalogMember {
    CatalogMember {
        label: label.as_bytes().into(),
        zone: name(zone),
        groups: groups.iter().map(|group| group.as_bytes().into()).collect(),
        change_of_ownership: change_of_ownership.map(name),
    }
}

#[test]
fn rfc_9432_4_2_1_only_version_2_is_processed() {
    let version = |text: &str| catalog::check_version(&zone_of(text));
    assert_eq!(version("version 0 TXT 2"), Ok(()));
    assert_eq!(version("VERSION 0 TXT \"2\""), Ok(()));
    assert_eq!(version("version 0 TXT 1"), Err(CatalogError::UnknownVersion("1".into())));
    assert_eq!(version("version 0 TXT 2 2"), Err(CatalogError::UnknownVersion("2\u{1}2".into())));
    for text in ["", "version 0 TXT 2\nversion 0 TXT 1", "version 0 A 192.0.2.2"] {
        assert_eq!(version(text), Err(CatalogError::NoVersion(name("c."))), "{text}");
    }
}

#[test]
fn rfc_9432_4_1_members_are_read() {
    let zone = zone_of(
        "zones 0 TXT ignored
        a.zones 0 PTR Example.COM.
        group.a.zones 0 TXT second
        group.a.zones 0 TXT fi rst
        something.ext.a.zones 0 TXT ignored
        B.zones 0 PTR example.net.
        coo.b.zones 0 PTR other.catalog.
        a\\.b.zones 0 PTR example.org.
        group.orphan.zones 0 TXT ignored
        zonesx 0 PTR example.edu.",
    );
    let members: Result<Vec<CatalogMember>, CatalogError> = catalog::members(&zone).collect();
    let expected = [
        member("a", "example.com.", &["first", "second"], None),
        member("a.b", "example.org.", &[], None),
        member("b", "example.net.", &[], Some("other.catalog.")),
    ];
    assert_eq!(members, Ok(expected.to_vec()));
    assert_eq!(catalog::members(&zone_of("")).count(), 0);
}

#[test]
fn rfc_9432_4_1_a_member_has_one_zone() {
    let zone =
        zone_of("a.zones 0 PTR x.\na.zones 0 PTR y.\nb.zones 0 PTR z.\ncoo.b.zones 0 PTR p.\ncoo.b.zones 0 PTR q.");
    assert_eq!(catalog::member(&zone, b"a"), Err(CatalogError::NotOneZone(name("a.zones.c."))));
    assert_eq!(catalog::member(&zone, b"b"), Ok(Some(member("b", "z.", &[], None))));
    assert_eq!(catalog::member(&zone, b"none"), Ok(None));
}

#[test]
fn changed_owners_lead_to_their_members() {
    let zone = zone_of("");
    let owners: Vec<Name> =
        ["a.zones.c.", "group.A.zones.c.", "x.y.b.zones.c.", "zones.c.", "version.c.", "c."].map(name).to_vec();
    let labels = catalog::changed_labels(&zone, owners.iter().map(Name::as_ref));
    assert_eq!(labels.iter().map(|label| &**label).collect::<Vec<_>>(), [b"a", b"b"]);
}

#[test]
fn produced_members_are_read_again() {
    let label = catalog::unique_label(name("Example.com.").as_ref());
    assert_eq!(label, catalog::unique_label(name("example.com.").as_ref()));
    let label = std::str::from_utf8(&label).expect("hexadecimal digits");
    let long = "x".repeat(300);
    let produced = member(label, "example.com.", &["customers", &long], Some("next.catalog."));
    let apex = name("c.");
    let mut change = ChangeSet::new(apex.as_ref());
    for (owner, rtype, rdata) in catalog::member_records(apex.as_ref(), &produced) {
        change.add(owner.as_ref(), rtype, 0, &rdata).expect("in the zone");
    }
    let rules = ChangeRules { check_mode: zone::CheckMode::Lenient, nsec3_max_iterations: 0 };
    let zone = zone_of("").apply(change, rules).expect("a valid change").zone;
    assert_eq!(catalog::members(&zone).collect::<Vec<_>>(), [Ok(produced)]);
}
