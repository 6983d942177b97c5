//! Parts that RRsets share are stored once: heads of signatures, and NSEC3 RDATA without its hash. Records are what they were.

mod random_zone;

use random_zone::{APEX, ZoneRecord, load_good, name, transferred};
use wire::Rtype;
use zone::CheckMode;
use zone::Zone;
use zone::change::{ChangeRules, ChangeSet};
use zone::load::{LoadOptions, load};
use zone::text::{ParseOptions, Source};

/// More than this number of heads are not interned.
const MANY: u32 = 4096 + 500;

/// RFC 4034 3.1: the RDATA of a signature by `signer`.
fn signature(covered: Rtype, times: [u32; 2], signer: &str, octets: &[u8]) -> Vec<u8> {
    let [expiration, inception] = times.map(u32::to_be_bytes);
    let fixed = [&covered.0.to_be_bytes()[..], &[13, 2], &60u32.to_be_bytes(), &expiration, &inception, &[4, 5]];
    [&fixed.concat()[..], name(signer).wire(), octets].concat()
}

fn record(owner: &str, rtype: Rtype, rdata: Vec<u8>) -> ZoneRecord {
    (name(owner), rtype, 60, rdata)
}

fn apex() -> Vec<ZoneRecord> {
    let soa = b"\x02ns\x01z\0\x04host\x01z\0\0\0\0\x01\0\0\0\x02\0\0\0\x03\0\0\0\x04\0\0\0\x05".to_vec();
    vec![record(APEX, Rtype::SOA, soa), record(APEX, Rtype::NS, b"\x02ns\x01z\0".to_vec())]
}

/// The address of `h{n}` and its signature.
fn host(n: u32, times: [u32; 2]) -> [ZoneRecord; 2] {
    let (owner, octets) = (format!("h{n}.z."), [&n.to_be_bytes()[..], &[7; 60]].concat());
    let rrsig = signature(Rtype::A, times, APEX, &octets);
    [record(&owner, Rtype::A, n.to_be_bytes().to_vec()), record(&owner, Rtype::RRSIG, rrsig)]
}

/// RFC 5155 3.2: an NSEC3 record with its signature.
fn nsec3(n: u32, salt: &[u8], types: &[u8]) -> [ZoneRecord; 2] {
    let owner = format!("{n:032}.z.");
    let rdata = [&[1, 1, 0, 0, salt.len() as u8][..], salt, &[20], &[n as u8; 20], types].concat();
    let rrsig = signature(Rtype::NSEC3, [9, 8], APEX, &[n as u8; 64]);
    [record(&owner, Rtype::NSEC3, rdata), record(&owner, Rtype::RRSIG, rrsig)]
}

fn sorted(mut records: Vec<ZoneRecord>) -> Vec<ZoneRecord> {
    records.sort();
    records
}

/// A zone has the records it was loaded from; the same text changes nothing.
fn check(records: Vec<ZoneRecord>) -> Zone {
    let records = sorted(records);
    let text: String = records
        .iter()
        .map(|(owner, rtype, ttl, rdata)| {
            let hex: String = rdata.iter().map(|octet| format!("{octet:02x}")).collect();
            format!("{owner} {ttl} IN {rtype} \\# {} {hex}\n", rdata.len())
        })
        .collect();
    let apex = name(APEX);
    let load_after = |previous| {
        let options = LoadOptions { previous, ..LoadOptions::new(ParseOptions::new(apex.as_ref())) };
        load(Source { name: "test".into(), bytes: text.as_bytes() }, &options)
    };
    let first = load_after(None);
    let zone = first.zone.unwrap_or_else(|| panic!("{:?}", first.findings));
    assert!(transferred(&zone) == records, "a record is lost or changed");
    assert!(transferred(&zone.rebuild(2)) == records, "a record is lost or changed in a rebuild");
    let again = load_after(Some(&zone));
    assert!(!again.is_changed(), "{:?}", again.difference);
    zone
}

#[test]
fn signatures_with_the_same_times_share_their_head() {
    let hosts = (0..1000).flat_map(|n| host(n, [9, 8]));
    let zone = check(apex().into_iter().chain(hosts).collect());
    // 64 octets of signature and 4 of the address; 26 more if each had its head.
    assert!(zone.heap_size() < 1000 * 95, "{} octets", zone.heap_size());
}

#[test]
fn signatures_whose_times_differ_too_often_keep_only_their_times() {
    let hosts = (0..MANY).flat_map(|n| host(n, [n + 1, n]));
    let zone = check(apex().into_iter().chain(hosts).collect());
    let last = zone.get(format!("h{}\0", MANY - 1).as_bytes()).and_then(|node| node.rrset(Rtype::A)).expect("a host");
    let octets = [&(MANY - 1).to_be_bytes()[..], &[7; 60]].concat();
    let expected = signature(Rtype::A, [MANY, MANY - 1], APEX, &octets);
    let rdatas: Vec<_> = last.signatures().rdatas().map(|rdata| rdata.parts.concat()).collect();
    assert_eq!(rdatas, [expected]);
    let mut out = vec![0; 200];
    assert_eq!(last.signatures().write(12, 60, &mut out, 10), 10 + last.signatures().message_len());
    assert_eq!(out[10 + 12..][..rdatas[0].len()], rdatas[0]);
}

/// Times of 0 are those of a head without times.
#[test]
fn odd_signatures_are_kept() {
    let mut records = apex();
    records.extend((0..600).flat_map(|n| host(n, [0, n % 2])));
    for n in 0..300 {
        let owner = format!("h{n}.z.");
        match n % 4 {
            0 => records.push(record(&owner, Rtype::RRSIG, signature(Rtype::A, [3, 2], APEX, &[n as u8; 256]))),
            1 => records.push(record(&owner, Rtype::RRSIG, signature(Rtype::MX, [3, 2], "Other.Signer.", b"\x01"))),
            2 => records.push(record(&owner, Rtype::RRSIG, signature(Rtype(65280), [0, 0], ".", &[1; 30_000]))),
            _ => records.push(record(&owner, Rtype::RRSIG, signature(Rtype::AAAA, [u32::MAX, 0], "Z.", b"\0"))),
        }
    }
    check(records);
}

#[test]
fn nsec3_records_share_all_but_the_hash() {
    let types: [&[u8]; 3] = [b"\0\x06\x20\0\0\0\0\x12", b"\0\x01\x40", b""];
    let chain = |salt: &'static [u8]| (0..1000).flat_map(move |n| nsec3(n, salt, types[n as usize % 3]));
    let zone = check(apex().into_iter().chain(chain(b"")).collect());
    // 64 octets of signature and 20 of the hash; owners are alike. Nine more if each had its parameters and types.
    assert!(zone.heap_size() < 1000 * 108, "{} octets", zone.heap_size());
    // RFC 5155 8.2: chains with other parameters are there during a change, here at the same owners.
    let other = chain(b"salt").filter(|record| record.1 == Rtype::NSEC3);
    check(apex().into_iter().chain(chain(b"")).chain(other).collect());
}

#[test]
fn changes_use_the_heads_of_the_zone() {
    const RULES: ChangeRules = ChangeRules { check_mode: CheckMode::Lenient, nsec3_max_iterations: u16::MAX };
    let mut records: Vec<_> = apex().into_iter().chain((0..1000).flat_map(|n| host(n, [9, 8]))).collect();
    let zone = load_good(&records, None);
    let apex = name(APEX);
    let mut change = ChangeSet::new(apex.as_ref());
    let (old_soa, mut new_soa) = (records[0].3.clone(), records[0].3.clone());
    let serial = new_soa.len() - 17;
    new_soa[serial] += 1;
    records[0].3.clone_from(&new_soa);
    change.remove(apex.as_ref(), Rtype::SOA, &old_soa).expect("in the zone");
    change.add(apex.as_ref(), Rtype::SOA, 60, &new_soa).expect("in the zone");
    let new = signature(Rtype::A, [19, 18], APEX, &[1; 64]);
    for (owner, rtype, ttl, rdata) in records.iter_mut().filter(|record| record.1 == Rtype::RRSIG).take(50) {
        change.remove(owner.as_ref(), *rtype, rdata).expect("in the zone");
        change.add(owner.as_ref(), *rtype, *ttl, &new).expect("in the zone");
        rdata.clone_from(&new);
    }
    let changed = zone.apply(change, RULES).expect("a good change").zone;
    assert!(transferred(&changed) == sorted(records), "a record is lost or changed");
    // Fifty signatures have their own times.
    let more = changed.heap_size() - zone.heap_size();
    assert!((400..50_000).contains(&more), "{more} octets");
}
