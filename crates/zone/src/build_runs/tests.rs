//! A zone built from runs equals one built from staged records, whatever the order of the records and the sizes of the batches.

use std::sync::OnceLock;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use wire::{Name, Rtype};

use super::build;
use crate::build_options::BuildOptions;
use crate::intern::Interner;
use crate::node_decoder::NodeDecoder;
use crate::record_sorter::{BatchSizes, RecordSorter, SorterContext};
use crate::rrset::{BELOW_DNAME, CUT, DNAME, OCCLUDED};
use crate::text::ZoneRecord;
use crate::zone::Zone;

/// Owner, type, TTL, RDATA.
type Record = (String, Rtype, u32, Vec<u8>);

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

/// The zone, and the messages about it with their lines.
type Built = (Option<Zone>, Vec<(String, u32)>);

/// Builds a zone with this many sorters, one after the other.
fn build_in_batches(records: &[Record], batches: BatchSizes, sorters: usize, threads: usize) -> Built {
    let apex = name("z.");
    let files = ["test".into()];
    let options = BuildOptions { files: &files, threads, ..BuildOptions::of_records(apex.as_ref()) };
    let (interner, original) = (Interner::new(), OnceLock::new());
    let context = SorterContext { options: &options, interner: &interner, apex: &original };
    let mut line = 0;
    let sort = |records: &[Record]| {
        let mut sorter = RecordSorter::new(apex.as_ref(), batches);
        for (owner, rtype, ttl, rdata) in records {
            line += 1;
            let owner = name(owner);
            sorter.push(&context, ZoneRecord { owner: owner.as_ref(), rtype: *rtype, ttl: *ttl, rdata, file: 0, line });
        }
        sorter
    };
    let sorters = records.chunks(records.len().div_ceil(sorters)).map(sort).collect();
    let (built, found) = build(&options, interner, &original, sorters);
    let findings = found.finish(&files[0]).into_iter();
    let mut messages: Vec<_> = findings.map(|finding| (finding.message, finding.position.line)).collect();
    messages.sort();
    (built.map(|(zone, _)| zone), messages)
}

/// Everything that answers depend on.
fn content(zone: &Zone) -> impl PartialEq + std::fmt::Debug + use<> {
    let apex = zone.owner(&zone.apex_entry());
    let owners = zone.nodes().map(|(entry, node)| {
        let owner = zone.owner(&entry);
        let mut decoder = NodeDecoder::default();
        let records = decoder.decode(node, owner.as_ref(), apex.as_ref());
        let records: Vec<_> = records.iter().map(|it| (it.rtype, it.ttl, it.rdata.to_vec())).collect();
        // `Name` compares without case.
        (owner.to_string(), entry.value[0] & (CUT | DNAME | OCCLUDED | BELOW_DNAME), records)
    });
    (owners.collect::<Vec<_>>(), zone.denial().clone(), zone.has_wildcards(), zone.counts())
}

//----------- random records ---------------------------------------------------

fn record() -> impl Strategy<Value = Record> {
    let owners =
        ["z.", "a.z.", "A.z.", "b.a.z.", "c.b.a.z.", "*.a.z.", "d.z.", "e.d.z.", "f.e.d.z.", "g.z.", "\\000.z."];
    let common = [Rtype::A, Rtype::A, Rtype::NS, Rtype::NS, Rtype::TXT, Rtype::CNAME, Rtype::DNAME, Rtype::MX];
    let rtypes = [common.as_slice(), &[Rtype::NSEC3, Rtype::RRSIG, Rtype::SOA, Rtype::NSEC]].concat();
    (select(owners.to_vec()), select(rtypes), 0..4u8, prop_oneof![9 => Just(300), 1 => Just(600)]).prop_map(
        |(owner, rtype, number, ttl)| {
            let owner = if rtype == Rtype::NSEC3 { format!("{}.z.", number % 2) } else { owner.to_owned() };
            // A SOA record below the apex is an error: make it rare.
            let rtype = if rtype == Rtype::SOA && owner != "z." && number > 0 { Rtype::TXT } else { rtype };
            (owner, rtype, ttl, rdata(rtype, number))
        },
    )
}

fn rdata(rtype: Rtype, n: u8) -> Vec<u8> {
    let host = [b"\x02h", [n + b'0'].as_slice(), b"\x01a\x01z\x00"].concat();
    match rtype {
        Rtype::A => vec![192, 0, 2, n],
        Rtype::NS | Rtype::CNAME | Rtype::DNAME => host,
        Rtype::MX => [&[0, n], host.as_slice()].concat(),
        Rtype::NSEC => [host.as_slice(), &[0, 1, 0x40]].concat(),
        Rtype::NSEC3 => [&[1, 0, 0, 1, 0, 4], [n; 4].as_slice(), &[0, 1, 0x40]].concat(),
        Rtype::RRSIG => {
            let covered = if n == 0 { Rtype::NSEC3 } else { Rtype::A };
            [covered.0.to_be_bytes().as_slice(), &[13, 2, 0, 0, 1, 44], &[n; 10], &[1, b'z', 0, 7]].concat()
        }
        Rtype::SOA => [b"\x01a\x00\x01b\x00".as_slice(), &[1, 2, 3, 4, 5].map(u32::to_be_bytes).concat()].concat(),
        _ => vec![3, b'x', b'y', n],
    }
}

/// Records in an order between canonical and random, with those of the apex.
fn records() -> impl Strategy<Value = Vec<Record>> {
    let apex = (select(vec!["z.", "Z."]), any::<prop::sample::Index>(), any::<bool>());
    (vec(record(), 0..60), apex, 0..3u8).prop_map(|(mut records, (apex, at, is_signed), order)| {
        if order > 0 {
            records.sort_by_key(|record| name(&record.0));
        }
        let mut more = vec![Rtype::SOA, Rtype::NS];
        more.extend(is_signed.then_some(Rtype::NSEC3PARAM));
        let more = more.into_iter().map(|rtype| {
            let rdata = if rtype == Rtype::NSEC3PARAM { vec![1, 0, 0, 1, 0] } else { rdata(rtype, 0) };
            (apex.to_owned(), rtype, 300, rdata)
        });
        // Mostly at the start, as in zone files and transfers.
        let at = if order > 1 { 0 } else { at.index(records.len() + 1) };
        records.splice(at..at, more);
        records
    })
}

fn batch_sizes() -> impl Strategy<Value = BatchSizes> {
    (1..400usize, 1..300usize, 1..900usize).prop_map(|(first, sorted, unsorted)| BatchSizes { first, sorted, unsorted })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn runs_build_the_zone_that_staged_records_build(
        records in records(),
        batches in batch_sizes(),
        sorters in 1..4usize,
    ) {
        let (expected, expected_messages) = build_in_batches(&records, BatchSizes::UNLIMITED, 1, 1);
        let (zone, messages) = build_in_batches(&records, batches, sorters, 1);
        let texts = |messages: &[(String, u32)]| messages.iter().map(|(text, _)| text.clone()).collect::<Vec<_>>();
        prop_assert_eq!(texts(&messages), texts(&expected_messages));
        prop_assert_eq!(zone.map(|zone| content(&zone)), expected.map(|zone| content(&zone)));
        // Each line is that of a record of the owner.
        for ((text, line), (_, expected_line)) in messages.iter().zip(&expected_messages) {
            let owner = |line: u32| line.checked_sub(1).map(|at| name(&records[at as usize].0));
            prop_assert_eq!(owner(*line), owner(*expected_line), "{}", text);
        }
    }
}

/// Delegations with name servers below them, every third one signed.
fn tld(count: u32) -> Vec<Record> {
    let server = |n: u32| format!("\x03n{:02}\x04test\0", n % 50).into_bytes();
    let delegation = |n: u32| {
        let owner = format!("{}.z.", n.wrapping_mul(0x9e37_79b9));
        let mut records: Vec<Record> = (0..2).map(|i| (owner.clone(), Rtype::NS, 300, server(n + i))).collect();
        records.push((format!("ns.{owner}"), Rtype::A, 300, n.to_be_bytes().to_vec()));
        if n.is_multiple_of(3) {
            records.push((format!("{n:032}.z."), Rtype::NSEC3, 300, rdata(Rtype::NSEC3, (n % 4) as u8)));
        }
        records
    };
    let apex = [Rtype::SOA, Rtype::NS].map(|rtype| ("z.".to_owned(), rtype, 300, rdata(rtype, 0)));
    apex.into_iter().chain((0..count).flat_map(delegation)).collect()
}

#[test]
fn a_big_zone_is_merged_on_several_threads() {
    let mut records = tld(40_000);
    let batches = BatchSizes { first: 100_000, sorted: 50_000, unsorted: 400_000 };
    let expected = build_in_batches(&records, BatchSizes::UNLIMITED, 1, 1).0.expect("a good zone");
    for sorters in [1, 5] {
        let zone = build_in_batches(&records, batches, sorters, 3).0.expect("a good zone");
        assert!(content(&zone) == content(&expected));
    }
    records.sort_by_cached_key(|record| name(&record.0));
    let zone = build_in_batches(&records, batches, 3, 3).0.expect("a good zone");
    assert!(content(&zone) == content(&expected));
    let (len, expected_len) = (zone.heap_size(), expected.heap_size());
    assert!(len * 50 < expected_len * 51, "{len} octets, {expected_len} from staged records");
}

/// RFC 6672 2.4: a DNAME at the apex occludes all names. All have a warning, and are staged until the end.
#[test]
fn rfc_6672_2_4_all_owners_may_have_findings() {
    let mut records = tld(3000);
    records.push(("z.".into(), Rtype::DNAME, 300, rdata(Rtype::DNAME, 0)));
    let batches = BatchSizes { first: 10_000, sorted: 5000, unsorted: 10_000 };
    let (expected, _) = build_in_batches(&records, BatchSizes::UNLIMITED, 1, 1);
    for at_front in [false, true] {
        if at_front {
            records.rotate_right(1);
        }
        let (zone, messages) = build_in_batches(&records, batches, 1, 2);
        assert!(zone.map(|zone| content(&zone.rebuild(1))) == expected.as_ref().map(content));
        assert!(messages.iter().any(|(message, _)| message.starts_with("a record below a DNAME")), "{messages:?}");
    }
}

/// All owners have records in several runs, so that the zone is built again.
#[test]
fn records_in_order_of_their_types_take_no_more_memory() {
    let mut records = tld(10_000);
    let expected = build_in_batches(&records, BatchSizes::UNLIMITED, 1, 1).0.expect("a good zone");
    records.sort_by_key(|(_, rtype, _, rdata)| (*rtype, rdata.first() < Some(&3), rdata.get(2).copied()));
    let batches = BatchSizes { first: 100_000, sorted: 50_000, unsorted: 100_000 };
    let zone = build_in_batches(&records, batches, 1, 1).0.expect("a good zone");
    assert!(content(&zone) == content(&expected));
    let (len, expected_len) = (zone.heap_size(), expected.heap_size());
    assert!(len * 20 < expected_len * 21, "{len} octets, {expected_len} from staged records");
}
