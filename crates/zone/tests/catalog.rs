//! Catalog zones (RFC 9432): members are read, and read again from the records that list them.

use wire::{Name, Rtype};
use zone::Zone;
use zone::catalog::{self, CatalogError, CatalogMember, MemberChange};
use zone::change::{ChangeRules, ChangeSet};
use zone::load::load_text;

const APEX: &str = "$ORIGIN c.\n@ 0 SOA invalid. invalid. 1 1 1 1 1\n@ 0 NS invalid.\n";

fn zone_of(text: &str) -> Zone {
    let apex = name("c.");
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let text = format!("{APEX}{}\n", lines.join("\n"));
    load_text(apex.as_ref(), text.as_bytes()).zone.expect("a valid zone")
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
    let members: Result<Vec<CatalogMember>, CatalogError> = catalog::members_after(&zone, None).collect();
    let expected = [
        member("a", "example.com.", &["first", "second"], None),
        member("a.b", "example.org.", &[], None),
        member("b", "example.net.", &[], Some("other.catalog.")),
    ];
    assert_eq!(members, Ok(expected.to_vec()));
    assert_eq!(catalog::members_after(&zone_of(""), None).count(), 0);
}

#[test]
fn rfc_9432_4_1_a_member_has_one_zone() {
    let zone = zone_of("a.zones 0 PTR x.\na.zones 0 PTR y.\nb.zones 0 PTR z.\ncoo.b.zones 0 PTR p.");
    assert_eq!(catalog::member(&zone, b"a"), Err(CatalogError::NotOneZone(name("a.zones.c."))));
    assert_eq!(catalog::member(&zone, b"b"), Ok(Some(member("b", "z.", &[], Some("p.")))));
    assert_eq!(catalog::member(&zone, b"none"), Ok(None));
}

#[test]
fn rfc_9432_5_1_a_broken_catalog_is_not_processed() {
    let good = zone_of("version 0 TXT 2\na.zones 0 PTR x.\nb.zones 0 PTR y.");
    assert_eq!(catalog::check(&good), Ok(()));
    for (text, error) in [
        ("a.zones 0 PTR x.", CatalogError::NoVersion(name("c."))),
        ("version 0 TXT 2\na.zones 0 PTR x.\na.zones 0 PTR y.", CatalogError::NotOneZone(name("a.zones.c."))),
        ("version 0 TXT 2\nb.zones 0 PTR x.\na.zones 0 PTR X.", CatalogError::Duplicate(name("x."))),
        (
            "version 0 TXT 2\na.zones 0 PTR x.\ncoo.a.zones 0 PTR p.\ncoo.a.zones 0 PTR q.",
            CatalogError::NotOneOwner(name("coo.a.zones.c.")),
        ),
    ] {
        let broken = zone_of(text);
        assert_eq!(catalog::check(&broken), Err(error.clone()), "{text}");
        assert_eq!(catalog::changes(&zone_of("version 0 TXT 2"), &broken), Err(error), "{text}");
    }
}

#[test]
fn rfc_9432_5_4_a_zone_with_another_label_is_another_member() {
    let old = zone_of("version 0 TXT 2\na.zones 0 PTR x.\nb.zones 0 PTR y.\nc.zones 0 PTR z.");
    let new = zone_of(
        "version 0 TXT 2\nd.zones 0 PTR x.\nB.zones 5 PTR Y.\nc.zones 0 PTR z.
        group.c.zones 0 TXT g\nx.ext.b.zones 0 TXT ignored",
    );
    let expected = [
        MemberChange { old: Some(member("a", "x.", &[], None)), new: None },
        MemberChange { old: Some(member("c", "z.", &[], None)), new: Some(member("c", "z.", &["g"], None)) },
        MemberChange { old: None, new: Some(member("d", "x.", &[], None)) },
    ];
    assert_eq!(catalog::changes(&old, &new), Ok(expected.to_vec()));
}

#[test]
fn members_are_listed_from_any_label_on() {
    let zone = zone_of(
        "version 0 TXT 2\na.zones 0 PTR x.\ngroup.a.zones 0 TXT g\nb\\000.zones 0 PTR y.\nc.zones 0 PTR z.\nz 0 PTR z.",
    );
    let after = |label: Option<&[u8]>| -> Vec<String> {
        let members = catalog::members_after(&zone, label);
        members.map(|member| member.expect("a valid member").zone.to_string()).collect()
    };
    assert_eq!(after(None), ["x.", "y.", "z."]);
    assert_eq!(after(Some(b"a")), ["y.", "z."]);
    assert_eq!(after(Some(b"b\0")), ["z."]);
    assert_eq!(after(Some(b"b")), ["y.", "z."], "a member that was removed");
    assert!(after(Some(b"c")).is_empty());
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
    change.remove(apex.as_ref(), Rtype::NS, b"\x07invalid\0").expect("in the zone");
    let records = catalog::apex_records(apex.as_ref()).into_iter();
    for (owner, rtype, rdata) in records.chain(catalog::member_records(apex.as_ref(), &produced)) {
        change.add(owner.as_ref(), rtype, 0, &rdata).expect("in the zone");
    }
    let rules = ChangeRules { check_mode: zone::CheckMode::Lenient, nsec3_max_iterations: 0 };
    let zone = zone_of("").apply(change, rules).expect("a valid change").zone;
    assert_eq!(catalog::check(&zone), Ok(()));
    assert_eq!(catalog::members_after(&zone, None).collect::<Vec<_>>(), [Ok(produced)]);
}

#[test]
fn produced_members_are_found_by_their_zones() {
    let apex = name("c.");
    let labels = [
        catalog::unique_label(name("x.").as_ref()).to_vec(),
        catalog::unique_label_since(name("y.").as_ref(), 7).to_vec(),
        catalog::unique_label_since(name("Z.").as_ref(), 0xfedc_ba98).to_vec(),
    ];
    let members = labels.iter().zip(["x.", "y.", "z."]).map(|(label, zone)| {
        let label = std::str::from_utf8(label).expect("hexadecimal digits");
        member(label, zone, &["g"], None)
    });
    let members: Vec<CatalogMember> = members.collect();
    let mut change = ChangeSet::new(apex.as_ref());
    for (owner, rtype, rdata) in members.iter().flat_map(|member| catalog::member_records(apex.as_ref(), member)) {
        change.add(owner.as_ref(), rtype, 0, &rdata).expect("in the zone");
    }
    let rules = ChangeRules { check_mode: zone::CheckMode::Lenient, nsec3_max_iterations: 0 };
    let zone = zone_of("version 0 TXT 2").apply(change, rules).expect("a valid change").zone;
    for member in &members {
        assert_eq!(catalog::produced_member(&zone, member.zone.as_ref()).as_ref(), Some(member));
    }
    assert_eq!(catalog::produced_member(&zone, name("w.").as_ref()), None);
    assert_eq!(catalog::produced_member(&zone_of(""), name("x.").as_ref()), None);
    assert!(labels[2].ends_with(b"fedcba98") && labels[1].ends_with(b"00000007"));
}
