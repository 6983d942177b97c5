//! Random zones: drafts of records by owner, made into well-formed zones.

use std::fmt;

use proptest::collection::vec;
use proptest::prelude::*;
use wire::message::Record;
use wire::{Class, Name, Rtype};

use super::names::{APEXES, Front, fronts, labels, name, names, with_case};
use super::sign::{sign, signings};
use crate::oracle::zone::{Zone, join};
use crate::text::lines;

/// A zone that servers load: SOA first, the rest in any order.
#[derive(Clone)]
pub struct Sample {
    /// The apex.
    pub apex: Name,
    /// All its records.
    pub records: Vec<Record>,
}

impl Sample {
    /// The zone as the oracle sees it.
    pub fn plain(&self) -> Zone {
        Zone::new(self.apex.clone(), &self.records)
    }

    /// The zone as text.
    pub fn text(&self) -> String {
        lines(&self.records)
    }

    /// As [`Self::text`], with two records repeated so often that a server takes the zone for a big one and stores parts of it once.
    pub fn long_text(&self) -> String {
        const REPETITIONS: usize = 150;
        let is_other = |record: &&Record| record.owner != self.apex;
        let repeated: Vec<_> = self.records.iter().take(1).chain(self.records.iter().find(is_other)).cloned().collect();
        self.text() + &lines(&repeated).repeat(REPETITIONS)
    }
}

impl fmt::Debug for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\n; zone {}\n{}", self.apex, self.text())
    }
}

/// One zone, and any of the others above, below and beside it.
pub fn zones() -> impl Strategy<Value = Vec<Sample>> {
    (0..APEXES.len(), [proptest::bool::weighted(0.3); APEXES.len()]).prop_flat_map(|(one, others)| {
        let is_made = move |at: &usize| *at == one || others[*at];
        (0..APEXES.len()).filter(is_made).map(|at| zone(name(APEXES[at]))).collect::<Vec<_>>()
    })
}

fn zone(apex: Name) -> impl Strategy<Value = Sample> {
    let parts = (vec(items(), 0..20), signings(), 0..3u32, proptest::bool::weighted(0.9), any::<u64>(), cases());
    parts.prop_map(move |(items, signing, minimum, has_servers, seed, case)| {
        let mut records = Draft::new(&apex, minimum * 1800, has_servers).with(&items);
        sign(&apex, &mut records, &signing);
        shuffle(&mut records[1..], seed);
        turn_case(&mut records, case);
        Sample { apex: apex.clone(), records }
    })
}

/// Which letters of owners are in the other case.
fn cases() -> impl Strategy<Value = u64> {
    prop_oneof![2 => Just(0), 1 => Just(u64::MAX), 2 => any::<u64>()]
}

/// RFC 4343 3: records of one owner may have it in different case.
fn turn_case(records: &mut [Record], case: u64) {
    for (at, record) in records.iter_mut().enumerate() {
        record.owner = with_case(&record.owner, case.rotate_left(at as u32 % 5));
    }
}

/// Zone text may have its records in any order.
fn shuffle(records: &mut [Record], mut seed: u64) {
    for end in (1..records.len()).rev() {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        records.swap(end, (seed >> 33) as usize % (end + 1));
    }
}

//----------- drafts -----------------------------------------------------------

/// Records of the name `front` below the apex.
#[derive(Clone, Debug)]
struct Item {
    front: Front,
    ttl: u32,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    /// One record of these types, with a number that makes it distinct.
    Data(Rtype, u8),
    /// One record of these types with a name in its RDATA, after a number if the type has one.
    Pointing(Rtype, u8, Target),
    /// A CNAME or DNAME.
    Alias(Rtype, Target),
    /// A zone cut.
    Cut { servers: Vec<Server>, signed: bool },
}

/// A name server of a cut.
#[derive(Clone, Debug)]
enum Server {
    /// Below the cut, with addresses of these types.
    Below { label: Front, glue: Vec<Rtype> },
    /// Anywhere.
    Anywhere(Target),
}

/// A name that something points to.
#[derive(Clone, Debug)]
enum Target {
    /// In the zone itself.
    Here(Front),
    /// Anywhere.
    There(Name),
}

impl Target {
    fn wire(&self, apex: &Name) -> Vec<u8> {
        match self {
            Target::Here(front) => [front, apex.wire()].concat(),
            Target::There(name) => name.wire().to_vec(),
        }
    }
}

const OWN_TYPE: Rtype = Rtype(65_280);

fn items() -> impl Strategy<Value = Item> {
    let data = proptest::sample::select(&[Rtype::A, Rtype::AAAA, Rtype::TXT, OWN_TYPE][..]);
    let pointing =
        proptest::sample::select(&[Rtype::MX, Rtype::SRV, Rtype::PTR, Rtype::SVCB, Rtype::HTTPS, Rtype::NS][..]);
    let kind = prop_oneof![
        4 => (data, 0..2u8).prop_map(|(rtype, number)| Kind::Data(rtype, number)),
        2 => (pointing, 0..3u8, targets()).prop_map(|(rtype, number, target)| Kind::Pointing(rtype, number, target)),
        3 => targets().prop_map(|target| Kind::Alias(Rtype::CNAME, target)),
        1 => targets().prop_map(|target| Kind::Alias(Rtype::DNAME, target)),
        3 => (vec(servers(), 1..4), any::<bool>()).prop_map(|(servers, signed)| Kind::Cut { servers, signed }),
    ];
    (fronts(), 1..4u32, kind).prop_map(|(front, hours, kind)| Item { front, ttl: hours * 3600, kind })
}

fn servers() -> impl Strategy<Value = Server> {
    let glue = proptest::sample::select(vec![vec![], vec![Rtype::A], vec![Rtype::AAAA], vec![Rtype::A, Rtype::AAAA]]);
    prop_oneof![
        (labels(), glue).prop_map(|(label, glue)| Server::Below { label, glue }),
        targets().prop_map(Server::Anywhere),
    ]
}

fn targets() -> impl Strategy<Value = Target> {
    prop_oneof![fronts().prop_map(Target::Here), names().prop_map(Target::There)]
}

/// A zone being generated. Records that would make servers refuse it are left out.
struct Draft<'a> {
    apex: &'a Name,
    records: Vec<Record>,
}

impl Draft<'_> {
    fn new(apex: &Name, minimum: u32, has_servers: bool) -> Draft<'_> {
        let mut draft = Draft { apex, records: Vec::new() };
        let numbers = [7, 7200, 900, 604_800, minimum].map(u32::to_be_bytes).concat();
        let soa = [b"\x02ns\x01z\x00".as_slice(), b"\x04Host\x01z\x00", &numbers].concat();
        draft.add(apex, Rtype::SOA, 3600, soa);
        if has_servers {
            draft.add(apex, Rtype::NS, 3600, b"\x01a\x01z\x00".to_vec());
        }
        draft
    }

    fn with(mut self, items: &[Item]) -> Vec<Record> {
        for item in items {
            if let Some(owner) = join(&item.front, self.apex) {
                self.add_item(&owner, item);
            }
        }
        self.records
    }

    fn add_item(&mut self, owner: &Name, item: &Item) {
        match &item.kind {
            Kind::Data(rtype, number) => self.add_data(owner, *rtype, item.ttl, *number),
            Kind::Pointing(rtype, number, target) => {
                let before: &[u8] = match *rtype {
                    Rtype::MX | Rtype::SVCB | Rtype::HTTPS => &[0, *number],
                    Rtype::SRV => &[0, 1, 0, 2, 0, *number],
                    _ => &[],
                };
                self.add(owner, *rtype, item.ttl, [before, &target.wire(self.apex)].concat());
            }
            Kind::Alias(rtype, target) => self.add(owner, *rtype, item.ttl, target.wire(self.apex)),
            Kind::Cut { servers, signed } => self.add_cut(owner, item.ttl, servers, *signed),
        }
    }

    fn add_data(&mut self, owner: &Name, rtype: Rtype, ttl: u32, number: u8) {
        let rdata = match rtype {
            Rtype::A => vec![192, 0, 2, number],
            Rtype::AAAA => [b"\x20\x01\x0d\xb8".as_slice(), &[number; 12]].concat(),
            Rtype::TXT => vec![4, b'T', b'"', 0, number],
            _ => vec![number; 5],
        };
        self.add(owner, rtype, ttl, rdata);
    }

    fn add_cut(&mut self, owner: &Name, ttl: u32, servers: &[Server], signed: bool) {
        if owner == self.apex || !self.allows(owner, Rtype::NS) {
            return;
        }
        for server in servers {
            match server {
                Server::Anywhere(target) => self.add(owner, Rtype::NS, ttl, target.wire(self.apex)),
                Server::Below { label, glue } => {
                    let Some(target) = join(label, owner) else { continue };
                    self.add(owner, Rtype::NS, ttl, target.wire().to_vec());
                    glue.iter().for_each(|rtype| self.add_data(&target, *rtype, ttl, 9));
                }
            }
        }
        if signed && self.has(owner, Rtype::NS) {
            let digest = [b"\x30\x39\x0d\x02".as_slice(), &[7; 32]].concat();
            self.add(owner, Rtype::DS, ttl, digest);
        }
    }

    /// Adds a record, with the TTL of its set, unless servers would refuse the zone.
    fn add(&mut self, owner: &Name, rtype: Rtype, ttl: u32, rdata: Vec<u8>) {
        if !self.allows(owner, rtype) {
            return;
        }
        let ttl = self.at(owner).find(|record| record.rtype == rtype).map_or(ttl, |record| record.ttl);
        // Names that differ only in case are equal (RFC 4343 3).
        if self.at(owner).all(|record| record.rtype != rtype || !record.rdata.eq_ignore_ascii_case(&rdata)) {
            self.records.push(Record { owner: owner.clone(), rtype, class: Class::IN, ttl, rdata });
        }
    }

    /// No other data beside a CNAME (RFC 1034 3.6.2), one DNAME per owner (RFC 6672 2.4); NS and DNAME at wildcards are
    /// undefined (RFC 4592 4.2, 4.4).
    fn allows(&self, owner: &Name, rtype: Rtype) -> bool {
        let fits = match rtype {
            Rtype::CNAME => self.at(owner).next().is_none(),
            Rtype::DNAME => !owner.as_ref().is_wildcard() && !self.has(owner, Rtype::DNAME),
            Rtype::NS => owner == self.apex || !owner.as_ref().is_wildcard(),
            _ => true,
        };
        fits && !self.has(owner, Rtype::CNAME)
    }

    fn has(&self, owner: &Name, rtype: Rtype) -> bool {
        self.at(owner).any(|record| record.rtype == rtype)
    }

    fn at(&self, owner: &Name) -> impl Iterator<Item = &Record> {
        self.records.iter().filter(move |record| record.owner == *owner)
    }
}
