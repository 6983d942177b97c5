//! Random zones and changes, for property tests.

// Each test binary uses a part of it.
#![allow(dead_code)]

use std::collections::BTreeSet;

use proptest::prelude::*;
use wire::{Message, Name, Rtype};
use zone::axfr::AxfrStream;
use zone::change::{ChangeRules, ChangeSet};
use zone::load::{LoadOptions, load};
use zone::text::{self, Source};
use zone::{CheckMode, Zone};

/// Owner, type, TTL and RDATA.
pub type ZoneRecord = (Name, Rtype, u32, Vec<u8>);

pub const APEX: &str = "z.";

pub fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

/// Loads records, given as RFC 3597 has those of unknown types; `None` where the zone has errors.
pub fn try_load<'r>(
    records: impl IntoIterator<Item = &'r ZoneRecord>,
    previous: Option<&Zone>,
    threads: usize,
) -> Option<Zone> {
    try_load_by(CheckMode::Lenient, records, previous, threads)
}

/// The same with this check mode.
pub fn try_load_by<'r>(
    check_mode: CheckMode,
    records: impl IntoIterator<Item = &'r ZoneRecord>,
    previous: Option<&Zone>,
    threads: usize,
) -> Option<Zone> {
    let mut text = String::new();
    for (owner, rtype, ttl, rdata) in records {
        let hex: String = rdata.iter().map(|octet| format!("{octet:02x}")).collect();
        text += &format!("{owner} {ttl} IN {rtype} \\# {} {hex}\n", rdata.len());
    }
    let apex = name(APEX);
    let text_options = text::ParseOptions { threads, check_mode, ..text::ParseOptions::new(apex.as_ref()) };
    let options = LoadOptions { previous, ..LoadOptions::new(text_options) };
    load(Source { name: "test".into(), bytes: text.as_bytes() }, &options).zone
}

pub fn load_good<'r>(records: impl IntoIterator<Item = &'r ZoneRecord>, previous: Option<&Zone>) -> Zone {
    try_load(records, previous, 1).expect("a good zone")
}

/// All records of a zone as they are transferred, the closing SOA left out.
pub fn transferred(zone: &Zone) -> Vec<ZoneRecord> {
    let question = [name(APEX).wire(), &[0, 252, 0, 1]].concat();
    let mut transfer = AxfrStream::new(zone.clone(), [0, 1], &question, b"");
    let mut out = vec![0; usize::from(u16::MAX)];
    let mut records = Vec::new();
    while let Some(len) = transfer.next_message(&mut out) {
        let message = Message::parse(&out[..len]).expect("a well-formed message");
        let answer = message.answer.into_iter();
        records.extend(answer.map(|it| (it.owner, it.rtype, it.ttl, it.rdata)));
    }
    let last = records.pop();
    assert_eq!(last.as_ref(), records.first(), "the SOA record begins and ends a transfer");
    records.sort();
    records
}

//----------- random records ---------------------------------------------------

pub fn apex_records(serial: u32) -> Vec<ZoneRecord> {
    let soa = [b"\x02ns\x01z\x00\x04host\x01z\x00".as_slice(), &[serial, 2, 3, 4, 5].map(u32::to_be_bytes).concat()];
    vec![(name(APEX), Rtype::SOA, 300, soa.concat()), (name(APEX), Rtype::NS, 300, b"\x02ns\x01z\x00".to_vec())]
}

/// `count` records of one set, and signatures over it.
#[derive(Clone, Debug)]
pub struct Set {
    pub owner: String,
    pub rtype: Rtype,
    pub first: u16,
    pub count: u16,
    pub signature_len: Option<u16>,
}

impl Set {
    pub fn records(&self) -> Vec<ZoneRecord> {
        let owner = name(&self.owner);
        let numbers = self.first..self.first.saturating_add(self.count);
        let mut records: Vec<_> = numbers.map(|n| (owner.clone(), self.rtype, 300, rdata(self.rtype, n))).collect();
        if let Some(len) = self.signature_len {
            let fixed =
                [self.rtype.0.to_be_bytes().as_slice(), &[13, 2, 0, 0, 1, 44], &[1; 10], &[1, b'z', 0]].concat();
            records.push((owner, Rtype::RRSIG, 300, [fixed, vec![7; usize::from(len)]].concat()));
        }
        records
    }
}

pub fn rdata(rtype: Rtype, n: u16) -> Vec<u8> {
    let [high, low] = n.to_be_bytes();
    let host = format!("\x06{n:06}");
    let in_zone = [host.as_bytes(), b"\x02ns\x01z\x00"].concat();
    let elsewhere = [host.as_bytes(), b"\x07servers\x04test\x00"].concat();
    match rtype {
        Rtype::A => vec![10, 0, high, low],
        Rtype::NS | Rtype::PTR | Rtype::DNAME => {
            if n.is_multiple_of(2) {
                in_zone
            } else {
                elsewhere
            }
        }
        Rtype::MX => [&[high, low], elsewhere.as_slice()].concat(),
        Rtype::SRV => [&[high, low, 0, 0, 0, 53], in_zone.as_slice()].concat(),
        Rtype::SVCB => [&[0, 1], in_zone.as_slice()].concat(),
        Rtype::TXT => [&[255; 256], [3, b'x', high, low].as_slice()].concat(),
        _ => [&[high, low], vec![9; usize::from(n) * 8 % 60_000].as_slice()].concat(),
    }
}

pub fn sets() -> impl Strategy<Value = Set> {
    let owner = prop_oneof![
        4 => (0..40u8).prop_map(|n| format!("h{n}.z.")),
        2 => proptest::sample::select(vec!["*.z.", "a.z.", "*.a.z.", "b.a.z.", "\\000.a.z.", "\\001\\001.a.z.", "z."])
            .prop_map(str::to_owned),
    ];
    let rtypes = [Rtype::A, Rtype::NS, Rtype::PTR, Rtype::MX, Rtype::TXT, Rtype::SRV, Rtype::SVCB, Rtype(65_280)];
    let count = prop_oneof![20 => 1..4u16, 1 => 60..70u16, 1 => 200..2000u16];
    let signature_len = proptest::option::weighted(0.3, prop_oneof![10 => 1..100u16, 1 => 15_000..60_000u16]);
    (owner, proptest::sample::select(rtypes.to_vec()), 0..4u16, count, signature_len)
        .prop_map(|(owner, rtype, first, count, signature_len)| Set { owner, rtype, first, count, signature_len })
}

/// Enough hosts for a zone with intern tables.
pub const HOSTS: u16 = 300;

/// Delegations to a few servers, as a TLD has them.
pub fn hosts(servers: u16) -> Vec<Set> {
    let set = |n: u16| Set {
        owner: format!("{n}.tld.z."),
        rtype: Rtype::NS,
        first: servers + n % 3,
        count: 2,
        signature_len: None,
    };
    (0..HOSTS).map(set).collect()
}

pub fn records(sets: &[Set], serial: u32) -> BTreeSet<ZoneRecord> {
    let mut records: BTreeSet<ZoneRecord> = sets.iter().flat_map(Set::records).collect();
    records.extend(apex_records(serial));
    records
}

/// An RRset as above, or a DNAME.
pub fn sets_and_dnames() -> impl Strategy<Value = Set> {
    let dname = |set: Set| Set { rtype: Rtype::DNAME, count: 1, first: set.first % 2, ..set };
    prop_oneof![4 => sets(), 1 => sets().prop_map(dname)]
}

/// The change from one list of records to another.
pub fn change_set(old: &BTreeSet<ZoneRecord>, new: &BTreeSet<ZoneRecord>) -> ChangeSet {
    let mut change = ChangeSet::new(name(APEX).as_ref());
    for (owner, rtype, _, rdata) in old.difference(new) {
        change.remove(owner.as_ref(), *rtype, rdata).expect("an owner in the zone");
    }
    for (owner, rtype, ttl, rdata) in new.difference(old) {
        change.add(owner.as_ref(), *rtype, *ttl, rdata).expect("an owner in the zone");
    }
    change
}

pub const RULES: ChangeRules = ChangeRules { check_mode: CheckMode::Lenient, nsec3_max_iterations: u16::MAX };
