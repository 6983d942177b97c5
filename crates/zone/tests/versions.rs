//! Versions of random zones: a transfer has the loaded records, and a reloaded zone equals one loaded from scratch.

mod random_zone;

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;
use random_zone::*;
use wire::Rtype;
use zone::Zone;
use zone::change::{ChangeError, ChangeSet, OutOfZone};
use zone::load::{LoadOptions, load};
use zone::rrset::ZoneNode;
use zone::text::{self, Source};

/// Everything that answers depend on.
fn content(zone: &Zone) -> impl PartialEq + std::fmt::Debug + use<> {
    let flags = |node: &ZoneNode<'_>| [node.is_cut(), node.has_dname(), node.is_occluded(), node.is_below_dname()];
    let flags: Vec<_> = zone.nodes().map(|(entry, node)| (zone.owner(&entry), flags(&node))).collect();
    (flags, transferred(zone), zone.counts(), zone.denial().clone())
}

fn owners(zone: &Zone) -> BTreeSet<String> {
    zone.nodes().map(|(entry, _)| zone.owner(&entry).to_string().to_lowercase()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_record_is_transferred_once(sets in vec(sets(), 0..20)) {
        let records = records(&sets, 1);
        let zone = load_good(&records, None);
        prop_assert_eq!(transferred(&zone), records.iter().cloned().collect::<Vec<_>>());
        prop_assert_eq!(zone.counts().records, records.len() as u64);
    }

    #[test]
    fn a_reloaded_zone_equals_one_loaded_from_scratch(
        mut all in vec(sets(), 0..12),
        is_large in any::<bool>(),
        changes in vec((any::<prop::sample::Index>(), sets(), any::<bool>()), 1..8),
    ) {
        if is_large {
            all.extend(hosts(0));
        }
        let mut zone = load_good(&records(&all, 0), None);
        for (serial, (at, set, is_new)) in (1..).zip(changes) {
            if is_new || all.is_empty() {
                all.push(set);
            } else {
                *at.get_mut(&mut all) = set;
            }
            let records = records(&all, serial);
            zone = load_good(&records, Some(&zone));
            prop_assert!(content(&zone) == content(&load_good(&records, None)), "{:#?}", all);
        }
    }

    /// A zone file with any types and octets is refused, or its records are transferred.
    #[test]
    fn no_record_breaks_a_zone(records in vec((0..280u16, vec(any::<u8>(), 0..40), any::<bool>()), 0..6)) {
        let owner = |is_apex| if is_apex { name(APEX) } else { name("a.z.") };
        let records = records.into_iter().map(|(rtype, rdata, is_apex)| (owner(is_apex), Rtype(rtype), 300, rdata));
        let records: BTreeSet<ZoneRecord> = records.chain(apex_records(1)).collect();
        if let Some(zone) = try_load(&records, None, 1) {
            prop_assert_eq!(transferred(&zone).len() as u64, zone.counts().records);
        }
    }
}

//----------- changes by records -----------------------------------------------

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_changed_zone_equals_one_loaded_from_scratch_and_a_rebuilt_one(
        versions in vec(vec(sets_and_dnames(), 0..12), 2..6),
        is_large in any::<bool>(),
    ) {
        let versions = versions.iter().enumerate().map(|(serial, sets)| {
            let more = if is_large { hosts(serial as u16) } else { Vec::new() };
            records(&[sets.as_slice(), &more].concat(), serial as u32)
        });
        let mut last: Option<(BTreeSet<ZoneRecord>, Zone)> = None;
        for records in versions {
            let expected = try_load(&records, None, 1);
            let changed = last.as_ref().map(|(old, zone)| zone.apply(change_set(old, &records), RULES));
            match (changed, expected) {
                (Some(changed), Some(expected)) => {
                    let zone = changed.expect("a good change").zone;
                    prop_assert!(content(&zone) == content(&expected), "{:#?}", records);
                    let before = last.as_ref().map(|(_, before)| (before, before.counts()));
                    let counts = before.map(|(before, counts)| zone.counts_after(before, counts));
                    prop_assert_eq!(counts, Some(zone.counts()));
                    if let Some((_, before)) = &last {
                        let missing = owners(before).difference(&owners(&zone)).count() as u64;
                        prop_assert_eq!(zone.missing_names(before), missing);
                    }
                    // Only a rebuild notices that the last wildcard is gone.
                    prop_assert!(zone.has_wildcards() >= expected.has_wildcards());
                    let rebuilt = zone.rebuild(1);
                    prop_assert!(content(&rebuilt) == content(&expected), "{:#?}", records);
                    prop_assert_eq!(rebuilt.has_wildcards(), expected.has_wildcards());
                    last = Some((records, zone));
                }
                (Some(changed), None) => prop_assert!(matches!(changed, Err(ChangeError::Invalid(_)))),
                (None, expected) => last = expected.map(|zone| (records, zone)),
            }
        }
    }
}

/// A leaf of few delegations has the same octets in both versions: they refer to their name servers by number.
#[test]
fn a_version_with_other_tables_is_counted_as_it_is() {
    let with_servers = |servers: &[&[u8]], owners: usize| {
        let owners = (0..owners).map(|number| name(&format!("d{number:03}.z.")));
        let delegations = owners.flat_map(|owner| servers.iter().map(move |server| (owner.clone(), server.to_vec())));
        let delegations = delegations.map(|(owner, server)| (owner, Rtype::NS, 300, server));
        load_good(&delegations.chain(apex_records(1)).collect::<Vec<ZoneRecord>>(), None)
    };
    let servers: [&[u8]; 2] = [b"\x02ns\x08provider\x03net\0", b"\x02ns\x08provider\x03org\0"];
    // The last leaf has up to some hundred owners.
    for owners in (300..600).step_by(20) {
        let [base, version] = [1, 2].map(|count| with_servers(&servers[..count], owners));
        assert_eq!(version.counts_after(&base, base.counts()), version.counts(), "{owners} owners");
    }
}

/// RFC 1995 4: an incremental transfer for another version is refused as a whole.
#[test]
fn rfc_1995_4_a_change_that_removes_a_missing_record_is_refused() {
    let old = records(&hosts(0), 1);
    let zone = load_good(&old, None);
    let mut change = ChangeSet::new(name(APEX).as_ref());
    change.remove(name("1.tld.z.").as_ref(), Rtype::A, &[192, 0, 2, 1]).expect("an owner in the zone");
    let error = zone.apply(change, RULES).err().expect("an error");
    assert!(matches!(&error, ChangeError::NoSuchRecord(owner, Rtype::A) if *owner == name("1.tld.z.")), "{error}");
    let mut change = ChangeSet::new(name(APEX).as_ref());
    assert_eq!(change.add(name("other.").as_ref(), Rtype::A, 300, &[192, 0, 2, 1]), Err(OutOfZone));
}

/// RFC 4343 3: only the names in RDATA compare without case.
#[test]
fn rfc_4343_3_removed_records_compare_without_case() {
    let stored = [
        (Rtype::MX, b"aa\x01b\x00".to_vec()),
        (Rtype::TXT, b"\x01b".to_vec()),
        (Rtype::SVCB, b"\0\x01\x01b\x00".to_vec()),
    ]
    .map(|(rtype, rdata)| (name("m.z."), rtype, 300, rdata));
    let records: BTreeSet<ZoneRecord> = apex_records(1).into_iter().chain(stored).collect();
    let zone = load_good(&records, None);
    let remove = |rtype, rdata: &[u8]| {
        let mut change = ChangeSet::new(name(APEX).as_ref());
        change.remove(name("M.z.").as_ref(), rtype, rdata).expect("an owner in the zone");
        zone.apply(change, RULES).is_ok()
    };
    assert!(remove(Rtype::MX, b"aa\x01B\x00"));
    assert!(!remove(Rtype::MX, b"AA\x01b\x00"));
    assert!(!remove(Rtype::TXT, b"\x01B"));
    assert!(remove(Rtype::SVCB, b"\0\x01\x01b\x00"));
    assert!(!remove(Rtype::SVCB, b"\0\x01\x01B\x00"), "RFC 3597 6: with case in newer types");
}

/// RFC 4343 4: case is preserved, so an owner in another case, even the apex, is a change.
#[test]
fn a_change_in_case_alone_is_a_change() {
    let hosts: String = (0..20).map(|n| format!("h{n}.z. 300 TXT x\n")).collect();
    let old = format!("z. 300 SOA ns.test. host.test. 1 2 3 4 5\nz. 300 NS ns.test.\n{hosts}");
    let apex = name(APEX);
    let load = |text: &str, previous| {
        let options = LoadOptions { previous, ..LoadOptions::new(text::ParseOptions::new(apex.as_ref())) };
        let outcome = load(Source { name: "test".into(), bytes: text.as_bytes() }, &options);
        (outcome.zone.expect("a good zone"), outcome.difference)
    };
    let owners = |zone: &Zone| zone.nodes().map(|(entry, _)| zone.owner(&entry).to_string()).collect::<Vec<_>>();
    let first = load(&old, None).0;
    for (new, changed) in [(old.clone(), 0), (old.replace("h7", "H7"), 1), (old.replace("z. 300 SOA", "Z. 300 SOA"), 1)]
    {
        let (zone, difference) = load(&new, Some(&first));
        assert_eq!(difference.map(|it| (it.added, it.removed, it.changed)), Some((0, 0, changed)));
        assert_eq!(owners(&zone), owners(&load(&new, None).0));
        assert_eq!(owners(&zone) == owners(&first), changed == 0);
    }
}

#[test]
fn a_set_may_have_more_records_than_a_message_counts() {
    let address = |n: u32| (name("many.z."), Rtype::A, 60, n.to_be_bytes().to_vec());
    let records: BTreeSet<ZoneRecord> = (0..70_000).map(address).chain(apex_records(1)).collect();
    let zone = load_good(&records, None);
    assert_eq!(transferred(&zone), records.into_iter().collect::<Vec<_>>());
}

#[test]
fn a_set_may_have_any_number_of_signatures() {
    let set = |n| Set { owner: "a.z.".into(), rtype: Rtype::A, first: 1, count: 1, signature_len: Some(n) };
    for count in [1, 254, 255, 256, 700] {
        let records = records(&(1..=count).map(set).collect::<Vec<_>>(), 1);
        assert_eq!(transferred(&load_good(&records, None)), records.into_iter().collect::<Vec<_>>(), "{count}");
    }
}

/// Each thread builds a range of names, which never ends below a zone cut.
#[test]
fn a_zone_built_on_several_threads_equals_one_built_on_one() {
    let cut = |n: u16| {
        let owner = format!("{}.{}.z.", n % 3, n / 3);
        let server = Set { owner: format!("ns.{owner}"), rtype: Rtype::A, first: n, count: 1, signature_len: None };
        [Set { owner, rtype: Rtype::NS, first: n % 7, count: 2, signature_len: Some(64) }, server]
    };
    for first in ["0", "zz"] {
        let all: Vec<Set> = (0..12_000).flat_map(cut).collect();
        let long: Vec<Set> =
            (0..25_000).map(|n| Set { owner: format!("{n}.{first}.z."), rtype: Rtype::A, ..all[0].clone() }).collect();
        for sets in [all.as_slice(), &long] {
            let records = records(sets, 1);
            let threaded = try_load(&records, None, 4).expect("a good zone");
            assert!(content(&threaded) == content(&load_good(&records, None)), "{first}");
        }
    }
}

#[test]
fn a_zone_may_have_more_ttls_than_can_be_interned() {
    let host = |n: u32| (name(&format!("h{n}.z.")), Rtype::A, n, n.to_be_bytes().to_vec());
    let mut records: BTreeSet<ZoneRecord> = (0..600).map(host).chain(apex_records(1)).collect();
    let zone = load_good(&records, None);
    assert_eq!(transferred(&zone), records.iter().cloned().collect::<Vec<_>>());
    records.extend((600..650).map(host));
    assert_eq!(transferred(&load_good(&records, Some(&zone))), records.into_iter().collect::<Vec<_>>());
}

/// Each version changes one in a hundred owners: after many versions the zone is not much larger than one loaded from scratch.
#[test]
fn many_small_changes_do_not_make_a_zone_grow() {
    let mut all = hosts(0);
    let mut zone = load_good(&records(&all, 0), None);
    for (serial, changed) in (1..).zip((0..HOSTS).collect::<Vec<_>>().chunks(4)) {
        for &n in changed {
            all[usize::from(n)].first = 100 + n % 3;
        }
        zone = load_good(&records(&all, serial), Some(&zone));
    }
    let anew = load_good(&records(&all, 0), None).heap_size();
    let len = zone.heap_size();
    assert!(len * 2 < anew * 3, "{len} octets, {anew} if loaded anew");
}
