//! Encoded changes: the change between two versions makes one from the other, record by record.

mod random_zone;

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;
use random_zone::*;
use wire::{Name, Rtype};
use zone::encoded_change::{EncodedChange, EncodedChangeError, EncodedRecord};
use zone::{CheckMode, Zone};

/// Owner, type, TTL and RDATA as octets: with their case.
type ExactRecord = (Vec<u8>, u16, u32, Vec<u8>);

fn exact(records: Vec<ZoneRecord>) -> Vec<ExactRecord> {
    let mut exact: Vec<_> =
        records.into_iter().map(|(owner, rtype, ttl, rdata)| (owner.wire().to_vec(), rtype.0, ttl, rdata)).collect();
    exact.sort();
    exact
}

/// Sets with their TTL, whether the owner is in upper case, and the cases of their RDATA; and whether there are many hosts.
type Version = (Vec<(Set, u32, bool, &'static [Spelling])>, bool);

/// Sets with several TTLs, owners in upper case, and RDATA in several cases.
fn versions() -> impl Strategy<Value = Vec<BTreeSet<ZoneRecord>>> {
    let set = (sets_and_dnames(), prop_oneof![3 => Just(300), 1 => 1..4u32], prop::bool::weighted(0.2), spellings());
    vec((vec(set, 0..12), any::<bool>()), 2..6).prop_map(|versions| {
        let records = |(serial, (sets, is_large)): (usize, Version)| {
            let mut records: BTreeSet<ZoneRecord> = records(&[], serial as u32);
            if is_large {
                records.extend(hosts(serial as u16).iter().flat_map(Set::records));
            }
            for (set, ttl, is_upper, spellings) in sets {
                // One owner has one case, and one set has one TTL.
                let is_upper = is_upper && set.owner != APEX;
                let owner = if is_upper { name(&set.owner.replace(['h', 'a'], "X")) } else { name(&set.owner) };
                records.retain(|(old, rtype, ..)| (old, rtype) != (&owner, &set.rtype) && *rtype != Rtype::RRSIG);
                for spell in spellings {
                    let spelled = set.records().into_iter().map(|(_, rtype, _, rdata)| (rtype, spell(&rdata)));
                    records.extend(spelled.map(|(rtype, rdata)| (owner.clone(), rtype, ttl, rdata)));
                }
            }
            records
        };
        versions.into_iter().enumerate().map(records).collect()
    })
}

/// What spells RDATA in one case.
type Spelling = fn(&[u8]) -> Vec<u8>;

/// Names in lower case, in upper case, or each of a set in both: RFC 4034 6.2 decides whether that makes one record or two. Where
/// other octets are letters, the records are others.
fn spellings() -> impl Strategy<Value = &'static [Spelling]> {
    const LOWER: Spelling = <[u8]>::to_ascii_lowercase;
    const UPPER: Spelling = <[u8]>::to_ascii_uppercase;
    prop_oneof![6 => Just(&[LOWER][..]), 1 => Just(&[UPPER][..]), 1 => Just(&[UPPER, LOWER][..])]
}

/// Removed and added records in an order that does not depend on how the change was made.
fn sorted(change: &EncodedChange) -> [Vec<EncodedRecord<'_>>; 2] {
    let mut parts = [change.removed().collect::<Vec<_>>(), change.added().collect()];
    parts.iter_mut().for_each(|part| part.sort_by_key(|it| (it.owner.wire(), it.rtype, it.rdata)));
    parts
}

fn apply(zone: &Zone, change: &EncodedChange) -> Zone {
    let applied = zone.apply(change.to_change_set(), RULES).expect("a good change");
    // The change between the versions is the one that was applied; a condensed one has another order.
    assert!(sorted(&applied.change) == sorted(change), "{:?} for {change:?}", applied.change);
    applied.zone
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rfc_1995_4_the_change_between_two_versions_makes_one_from_the_other(versions in versions()) {
        let mut last: Option<Zone> = None;
        let mut first: Option<Zone> = None;
        let mut changes = Vec::new();
        for records in versions {
            let Some(new) = try_load(&records, None, 1) else { continue };
            let reloaded = last.as_ref().map(|old| load_good(&records, Some(old)));
            if let (Some(old), Some(reloaded)) = (&last, &reloaded) {
                let change = EncodedChange::between(old, &new);
                prop_assert_eq!(&change, &EncodedChange::between(old, reloaded));
                prop_assert_eq!(EncodedChange::from_bytes(change.as_bytes().into()), Ok(change.clone()));
                let changed = apply(old, &change);
                prop_assert!(exact(transferred(&changed)) == exact(transferred(&new)), "{:?}", change);
                // What is equal is not in the change.
                let again = EncodedChange::between(&changed, &new);
                prop_assert_eq!((again.removed().count(), again.added().count()), (0, 0));
                changes.push(change);
            }
            first = first.or_else(|| Some(new.clone()));
            last = Some(reloaded.unwrap_or(new));
        }
        if let (Some(first), Some(last), Some(all)) = (first, last, EncodedChange::condense(&changes)) {
            prop_assert!(exact(transferred(&apply(&first, &all))) == exact(transferred(&last)), "{:?}", all);
        }
    }

    #[test]
    fn damaged_changes_are_refused_or_valid(
        versions in versions(), at in any::<prop::sample::Index>(), octet: u8, cut in any::<prop::sample::Index>()
    ) {
        let zones: Vec<Zone> = versions.iter().filter_map(|records| try_load(records, None, 1)).take(2).collect();
        if let [old, new] = zones.as_slice() {
            let mut bytes = EncodedChange::between(old, new).as_bytes().to_vec();
            let at = at.index(bytes.len());
            bytes[at] = octet;
            bytes.truncate(1 + cut.index(bytes.len()));
            if let Ok(change) = EncodedChange::from_bytes(bytes.as_slice().into()) {
                // Whatever was accepted can be used.
                let records: Vec<_> = change.records().collect();
                prop_assert_eq!(records.len(), 2 + change.removed().count() + change.added().count());
                let _ = old.apply(change.to_change_set(), RULES);
            }
        }
    }
}

/// RFC 2181 5.2: a set has one TTL, so another TTL is a change of all its records and signatures.
#[test]
fn rfc_2181_5_2_another_ttl_changes_all_records_of_a_set() {
    let set = Set { owner: "a.z.".into(), rtype: Rtype::A, first: 1, count: 3, signature_len: Some(8) };
    let mut records = records(&[set], 1);
    let old = load_good(&records, None);
    records = records
        .into_iter()
        .map(|(owner, rtype, ttl, rdata)| {
            let ttl = if owner == name("a.z.") { 60 } else { ttl };
            (owner, rtype, ttl, rdata)
        })
        .collect();
    let change = EncodedChange::between(&old, &load_good(&records, None));
    assert_eq!(change.removed().map(|record| record.ttl).collect::<Vec<_>>(), [300; 4]);
    assert_eq!(change.added().map(|record| record.ttl).collect::<Vec<_>>(), [60; 4]);
}

/// A primary that names a record in another case, or with another TTL, than this server has it.
#[test]
fn removed_records_are_those_that_the_old_version_had() {
    let old: BTreeSet<ZoneRecord> =
        records(&[], 1).into_iter().chain([(name("Host.z."), Rtype::PTR, 300, b"\x01B\x00".to_vec())]).collect();
    let zone = load_good(&old, None);
    let mut set = zone::change::ChangeSet::new(name(APEX).as_ref());
    set.remove(name("hOST.z.").as_ref(), Rtype::PTR, b"\x01b\x00").expect("an owner in the zone");
    set.add(name("HOST.z.").as_ref(), Rtype::A, 60, &[192, 0, 2, 1]).expect("an owner in the zone");
    let applied = zone.apply(set, RULES).expect("a good change");
    let removed: Vec<_> = applied.change.removed().collect();
    assert_eq!(removed.len(), 1);
    assert_eq!((removed[0].owner.wire(), removed[0].ttl), (b"\x04Host\x01z\x00".as_slice(), 300));
    assert_eq!(removed[0].rdata, b"\x01B\x00");
    // The owner lost its last record, so it comes back in the case of the new one.
    assert_eq!(applied.change.added().map(|record| record.owner.wire()).collect::<Vec<_>>(), [b"\x04HOST\x01z\x00"]);
    assert!(!applied.change.increases_serial());
}

/// A change of all records of one owner takes time in proportion to them, not to their square.
#[test]
fn a_large_set_is_changed_in_one_pass() {
    let set = |ttl| {
        let address = move |n: u32| (name("many.z."), Rtype::A, ttl, n.to_be_bytes().to_vec());
        let records: BTreeSet<ZoneRecord> = (0..60_000).map(address).chain(records(&[], ttl)).collect();
        load_good(&records, None)
    };
    let (old, new) = (set(60), set(61));
    let start = std::time::Instant::now();
    let changed = apply(&old, &EncodedChange::between(&old, &new));
    assert_eq!(EncodedChange::between(&changed, &new).added().count(), 0);
    // Comparing each record with each takes a minute.
    assert!(start.elapsed().as_secs() < 10, "{:?}", start.elapsed());
}

#[test]
fn a_change_costs_what_differs() {
    let old = records(&hosts(0), 1);
    let zone = load_good(&old, None);
    let mut set = zone::change::ChangeSet::new(name(APEX).as_ref());
    set.add(name("7.tld.z.").as_ref(), Rtype::A, 60, &[192, 0, 2, 1]).expect("an owner in the zone");
    let change = zone.apply(set, RULES).expect("a good change").change;
    assert_eq!((change.removed().count(), change.added().count()), (0, 1));
    assert_eq!((change.apex(), change.from_serial(), change.to_serial()), (name(APEX).as_ref(), 1, 1));
}

#[test]
fn an_invalid_change_is_refused_for_its_error() {
    let zone = load_good(&records(&hosts(0), 1), None);
    let mut set = zone::change::ChangeSet::new(name(APEX).as_ref());
    // There is a warning, too: the zone has no NSEC3 records.
    set.add(name(APEX).as_ref(), Rtype::NSEC3PARAM, 60, &[1, 0, 0xff, 0xff, 0]).expect("an owner in the zone");
    let rules = zone::change::ChangeRules { nsec3_max_iterations: 150, ..RULES };
    let error = zone.apply(set, rules).err().expect("too many iterations").to_string();
    assert!(error.starts_with("error: more NSEC3 iterations than"), "{error}");
}

/// A change is checked as the zone that it leads to is when it is loaded.
#[test]
fn rfc_6672_2_4_with_strict_checks_no_change_adds_a_dname_above_names() {
    let set = |owner: &str, rtype| Set { owner: owner.into(), rtype, first: 1, count: 1, signature_len: None };
    let below = || set("b.a.z.", Rtype::A);
    let old = records(&[below()], 1);
    let strict = zone::change::ChangeRules { check_mode: CheckMode::Strict, ..RULES };
    let above = records(&[below(), set("a.z.", Rtype::DNAME)], 2);
    for (new, is_valid) in [
        (&above, false),
        (&records(&[below(), set("a.z.", Rtype::NS)], 2), true),
        (&records(&[set("a.z.", Rtype::DNAME)], 2), true),
    ] {
        assert_eq!(try_load_by(CheckMode::Strict, new, None, 1).is_some(), is_valid, "{new:?}");
        let error = load_good(&old, None).apply(change_set(&old, new), strict).err().map(|error| error.to_string());
        assert_eq!(error.is_none(), is_valid, "{error:?}");
        assert!(error.is_none_or(|error| error.starts_with("error: a record below a DNAME: b.a.z. ")));
    }
    let applied = load_good(&old, None).apply(change_set(&old, &above), RULES).expect("a good change");
    let warnings: Vec<_> = applied.warnings.iter().map(|found| found.message.as_str()).collect();
    assert_eq!(warnings, ["a record below a DNAME: b.a.z."]);
}

/// What a server may count to decide where to apply a change: it visits no more than it was permitted to.
#[test]
fn owners_below_changed_zone_cuts_are_counted_up_to_a_limit() {
    let zone = load_good(&records(&hosts(0), 1), None);
    let below = zone.nodes().filter(|(entry, _)| entry.label_count() > 1 && entry.is_at_or_below(b"tld\0")).count();
    assert!(below > 20);
    let count = |owner: &str, rtype: Rtype, removed: bool, max| {
        let mut set = zone::change::ChangeSet::new(name(APEX).as_ref());
        let (owner, rdata) = (name(owner), b"\x02ns\0");
        if removed { set.remove(owner.as_ref(), rtype, rdata) } else { set.add(owner.as_ref(), rtype, 60, rdata) }
            .expect("an owner in the zone");
        set.owners_below_cuts(&zone, max)
    };
    for rtype in [Rtype::NS, Rtype::DNAME] {
        assert_eq!((count("tld.z.", rtype, false, 9999), count("tld.z.", rtype, true, 9999)), (below, below));
        assert_eq!((count("tld.z.", rtype, false, 10), count("7.tld.z.", rtype, false, 10)), (11, 0));
    }
    assert_eq!(count("tld.z.", Rtype::CNAME, false, 10), 0);
}

#[test]
fn octets_that_are_no_change_are_refused() {
    let record = |owner: &str, rtype: Rtype, class: u16, rdata: &[u8]| {
        let owner: Name = name(owner);
        let len = (rdata.len() as u16).to_be_bytes();
        [owner.wire(), &rtype.0.to_be_bytes(), &class.to_be_bytes(), &[0, 0, 0, 60], &len, rdata].concat()
    };
    let soa_rdata = [b"\x02ns\x00\x04host\x00".as_slice(), &[0, 0, 0, 1], &[0; 16]].concat();
    let soa = record("z.", Rtype::SOA, 1, &soa_rdata);
    let address = |owner| record(owner, Rtype::A, 1, &[192, 0, 2, 1]);
    let at = soa.len();
    type Bad = EncodedChangeError;
    let cases = [
        (address("z."), Bad::NoOldSoa),
        (Vec::new(), Bad::NoOldSoa),
        ([soa.clone(), address("a.z.")].concat(), Bad::NoNewSoa),
        ([soa.clone(), soa.clone(), soa.clone()].concat(), Bad::ExtraSoa(2 * at)),
        ([soa.clone(), record("a.z.", Rtype::SOA, 1, &soa_rdata)].concat(), Bad::ExtraSoa(at)),
        ([soa.clone(), address("a.y.")].concat(), Bad::OutOfZone(at)),
        ([soa.clone(), record("a.z.", Rtype::A, 3, &[1; 4])].concat(), Bad::Class(at)),
        ([soa.clone(), record("a.z.", Rtype::OPT, 1, &[])].concat(), Bad::Rtype(at, Rtype::OPT)),
        ([soa.clone(), soa[..at - 1].to_vec()].concat(), Bad::Short(at)),
    ];
    for (bytes, error) in cases {
        assert_eq!(EncodedChange::from_bytes(bytes.as_slice().into()), Err(error), "{bytes:?}");
    }
    let long = [soa, record("a.z.", Rtype::A, 1, &[1; 5])].concat();
    let error = EncodedChange::from_bytes(long.as_slice().into()).expect_err("an address of five octets");
    assert!(error.to_string().contains("octets left over"), "{error}");
}
