//! Dynamic update (RFC 2136): from an UPDATE message to a change of the zone.
//!
//! [`prepare`] checks the message, its prerequisites and the rights of the requestor. It changes nothing: the caller applies the
//! [`ChangeSet`], makes it durable and acknowledges it. TSIG and the zone section are checked before.

use std::collections::{BTreeMap, HashMap};

use wire::message::{Rcode, Record};
use wire::serial::{is_later, of_soa};
use wire::{Class, Message, Name, NameRef, Rtype, rdata};

use crate::canonical_key::CanonicalKey;
use crate::change::ChangeSet;
use crate::node_decoder::NodeDecoder;
use crate::owner_records::is_same;
use crate::serial_policy::SerialPolicy;
use crate::stage::StagedRecord;
use crate::zone::Zone;

/// What an update may do.
#[derive(Clone, Copy)]
pub struct UpdateRules<'a> {
    /// Whether the requestor may add or delete records of this type at this owner (RFC 2136 3.3).
    pub allows: &'a dyn Fn(NameRef<'_>, Rtype) -> bool,
    /// Whether the requestor may change a zone with DNSKEY records. Such an update brings its own signatures and SOA record.
    pub allows_signed: bool,
    /// The next serial, if the update does not set a later one.
    pub serial_policy: SerialPolicy,
    /// The time in seconds since 1970.
    pub now_s: u64,
}

/// Why an update is refused. Nothing has changed then (RFC 2136 3.4: an update is atomic).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{rcode}: {reason}")]
pub struct UpdateRefusal {
    /// The RCODE of the response.
    pub rcode: Rcode,
    /// The reason, for the log.
    pub reason: String,
}

/// The change that an UPDATE message asks for. It is empty if the message changes nothing; then the serial stays, too.
pub fn prepare(message: &Message, zone: &Zone, rules: &UpdateRules<'_>) -> Result<ChangeSet, UpdateRefusal> {
    let mut stored = StoredOwners { zone, owners: HashMap::new() };
    check_prerequisites(&message.answer, &mut stored)?;
    for record in &message.authority {
        check_form(record, zone)?;
    }
    check_rights(&message.authority, &mut stored, rules)?;
    let mut update = Update { stored, owners: BTreeMap::new() };
    for record in &message.authority {
        update.apply(record);
    }
    update.finish(rules)
}

fn refuse<T>(rcode: Rcode, reason: impl Into<String>) -> Result<T, UpdateRefusal> {
    Err(UpdateRefusal { rcode, reason: reason.into() })
}

fn check_in_zone(record: &Record, zone: &Zone) -> Result<(), UpdateRefusal> {
    match record.owner.as_ref().is_at_or_below(zone.apex()) {
        true => Ok(()),
        false => refuse(Rcode::NOTZONE, format!("{} is not in the zone", record.owner)),
    }
}

//----------- prerequisites --------------------------------------------------------

/// RFC 2136 3.2: all prerequisites hold.
fn check_prerequisites(prerequisites: &[Record], stored: &mut StoredOwners<'_>) -> Result<(), UpdateRefusal> {
    let mut expected: BTreeMap<(Name, u16), Vec<&Record>> = BTreeMap::new();
    for record in prerequisites {
        if record.ttl != 0 {
            return refuse(Rcode::FORMERR, "a prerequisite has a TTL");
        }
        check_in_zone(record, stored.zone)?;
        match record.class {
            Class::IN if !record.rtype.is_meta() => {
                let rrset = (record.owner.to_lowercase(), record.rtype.0);
                expected.entry(rrset).or_default().push(record);
            }
            Class::ANY | Class::NONE if record.rdata.is_empty() => check_existence(record, stored)?,
            _ => return refuse(Rcode::FORMERR, "a prerequisite has an invalid class, type or data"),
        }
    }
    expected.values().try_for_each(|records| check_equal(records, stored))
}

/// RFC 2136 3.2.1 to 3.2.4: a name is or is not in use; an RRset does or does not exist.
fn check_existence(record: &Record, stored: &mut StoredOwners<'_>) -> Result<(), UpdateRefusal> {
    let records = stored.records_of(record.owner.as_ref());
    let is_name = record.rtype == Rtype::ANY;
    let exists = records.iter().any(|found| is_name || found.rtype == record.rtype);
    let Record { owner, rtype, .. } = record;
    match (record.class == Class::ANY, is_name) {
        (wanted, _) if wanted == exists => Ok(()),
        (true, true) => refuse(Rcode::NXDOMAIN, format!("prerequisite: {owner} is not in use")),
        (true, false) => refuse(Rcode::NXRRSET, format!("prerequisite: {owner} has no {rtype} records")),
        (false, true) => refuse(Rcode::YXDOMAIN, format!("prerequisite: {owner} is in use")),
        (false, false) => refuse(Rcode::YXRRSET, format!("prerequisite: {owner} has {rtype} records")),
    }
}

/// RFC 2136 3.2.5: an RRset has exactly these records, with any TTL.
fn check_equal(expected: &[&Record], stored: &mut StoredOwners<'_>) -> Result<(), UpdateRefusal> {
    let Record { owner, rtype, .. } = expected[0];
    let found = stored.records_of(owner.as_ref()).iter().filter(|found| found.rtype == *rtype);
    let expected: Vec<OwnedRecord> = expected.iter().map(|record| OwnedRecord::of(record)).collect();
    let is_equal = found.clone().all(|found| expected.iter().any(|record| record.is_same(found)))
        && expected.iter().all(|record| found.clone().any(|found| found.is_same(record)));
    match is_equal {
        true => Ok(()),
        false => refuse(Rcode::NXRRSET, format!("prerequisite: {owner} has other {rtype} records")),
    }
}

//----------- form and rights ------------------------------------------------------

/// RFC 2136 3.4.1.2: the update section is well-formed.
fn check_form(record: &Record, zone: &Zone) -> Result<(), UpdateRefusal> {
    check_in_zone(record, zone)?;
    let Record { rtype, class, ttl, rdata, .. } = record;
    let is_valid = match *class {
        Class::IN => !rtype.is_meta() && is_well_formed(*rtype, rdata),
        Class::ANY => *ttl == 0 && rdata.is_empty() && (*rtype == Rtype::ANY || !rtype.is_meta()),
        Class::NONE => *ttl == 0 && !rtype.is_meta(),
        _ => false,
    };
    match is_valid {
        true => Ok(()),
        false => refuse(Rcode::FORMERR, format!("an update of {rtype} records in class {class} is malformed")),
    }
}

/// Whether the RDATA can be stored. Data that breaks another rule of its RFC is as welcome as in a zone file.
fn is_well_formed(rtype: Rtype, rdata: &[u8]) -> bool {
    matches!(rdata::check(rtype, rdata), Ok(()) | Err(rdata::RdataError::Form(..)))
}

/// RFC 2136 3.3: the requestor may change all these records.
fn check_rights(
    updates: &[Record],
    stored: &mut StoredOwners<'_>,
    rules: &UpdateRules<'_>,
) -> Result<(), UpdateRefusal> {
    if !updates.is_empty() && stored.zone.is_signed() && !rules.allows_signed {
        return refuse(Rcode::REFUSED, "the zone is signed, and this key may not update signed zones");
    }
    for Record { owner, rtype, .. } in updates {
        let owner = owner.as_ref();
        let is_allowed = match *rtype {
            Rtype::ANY => stored.records_of(owner).iter().all(|found| (rules.allows)(owner, found.rtype)),
            rtype => (rules.allows)(owner, rtype),
        };
        if !is_allowed {
            return refuse(Rcode::REFUSED, format!("{owner}: this client may not update {rtype} records"));
        }
    }
    Ok(())
}

//----------- Update ---------------------------------------------------------------

/// The owners that an update names, while its records are applied one by one.
struct Update<'z> {
    stored: StoredOwners<'z>,
    /// By name in lower case.
    owners: BTreeMap<Name, UpdatedOwner>,
}

struct UpdatedOwner {
    /// As the update spells it.
    owner: Name,
    before: Vec<OwnedRecord>,
    records: Vec<OwnedRecord>,
}

impl UpdatedOwner {
    fn is_changed(&self) -> bool {
        self.before.len() != self.records.len() || self.records.iter().any(|record| !self.before.contains(record))
    }
}

impl Update<'_> {
    /// RFC 2136 3.4.2: applies one record of the update section.
    fn apply(&mut self, record: &Record) {
        let is_apex = record.owner.as_ref().label_count() == self.stored.zone.apex_labels();
        let records = &mut self.owner(record.owner.as_ref()).records;
        match record.class {
            Class::IN => add(records, record, is_apex),
            Class::ANY => records.retain(|found| {
                let is_kept = is_apex && matches!(found.rtype, Rtype::SOA | Rtype::NS);
                is_kept || record.rtype != Rtype::ANY && found.rtype != record.rtype
            }),
            _ => delete(records, record, is_apex),
        }
    }

    fn owner(&mut self, owner: NameRef<'_>) -> &mut UpdatedOwner {
        let stored = &mut self.stored;
        self.owners.entry(owner.to_owned().to_lowercase()).or_insert_with(|| {
            let before = stored.records_of(owner).to_vec();
            UpdatedOwner { owner: owner.to_owned(), records: before.clone(), before }
        })
    }

    /// The difference as a change, with a new serial (RFC 2136 3.6).
    fn finish(mut self, rules: &UpdateRules<'_>) -> Result<ChangeSet, UpdateRefusal> {
        let mut change = ChangeSet::new(self.stored.zone.apex());
        if !self.owners.values().any(UpdatedOwner::is_changed) {
            return Ok(change);
        }
        self.advance_serial(rules)?;
        for UpdatedOwner { owner, before, records } in self.owners.values() {
            let outside = |_| UpdateRefusal { rcode: Rcode::NOTZONE, reason: format!("{owner} is not in the zone") };
            for gone in before.iter().filter(|old| !records.iter().any(|new| new.is_same(old))) {
                change.remove(owner.as_ref(), gone.rtype, &gone.rdata).map_err(outside)?;
            }
            for new in records.iter().filter(|new| !before.contains(new)) {
                change.add(owner.as_ref(), new.rtype, new.ttl, &new.rdata).map_err(outside)?;
            }
        }
        Ok(change)
    }

    fn advance_serial(&mut self, rules: &UpdateRules<'_>) -> Result<(), UpdateRefusal> {
        let zone = self.stored.zone;
        let (old, is_signed, apex) = (zone.serial(), zone.is_signed(), zone.apex().to_owned());
        let records = &mut self.owner(apex.as_ref()).records;
        let soa =
            records.iter_mut().find(|record| record.rtype == Rtype::SOA).expect("no update deletes the SOA record");
        if of_soa(&soa.rdata).is_some_and(|serial| is_later(serial, old)) {
            return Ok(());
        }
        if is_signed {
            return refuse(Rcode::REFUSED, "an update of a signed zone must bring a SOA record with a later serial");
        }
        let at = soa.rdata.len() - SOA_NUMBERS_LEN;
        soa.rdata[at..at + 4].copy_from_slice(&rules.serial_policy.next(old, rules.now_s).to_be_bytes());
        Ok(())
    }
}

/// The serial and the four other numbers that end SOA RDATA (RFC 1035 3.3.13).
const SOA_NUMBERS_LEN: usize = 20;

/// RFC 2136 3.4.2.2: adds a record, or replaces one.
fn add(records: &mut Vec<OwnedRecord>, record: &Record, is_apex: bool) {
    let new = OwnedRecord::of(record);
    // RFC 4035 2.5, RFC 2181 10.1: what may be beside a CNAME record.
    let is_beside_cname = |rtype| matches!(rtype, Rtype::RRSIG | Rtype::NSEC | Rtype::KEY);
    let is_ignored = match new.rtype {
        Rtype::SOA => {
            let old = records.iter().find(|record| record.rtype == Rtype::SOA).and_then(|old| of_soa(&old.rdata));
            !is_apex || !of_soa(&new.rdata).zip(old).is_some_and(|(new, old)| is_later(new, old))
        }
        Rtype::CNAME => records.iter().any(|old| old.rtype != Rtype::CNAME && !is_beside_cname(old.rtype)),
        rtype => !is_beside_cname(rtype) && records.iter().any(|old| old.rtype == Rtype::CNAME),
    };
    if is_ignored {
        return;
    }
    let is_single = matches!(new.rtype, Rtype::SOA | Rtype::CNAME | Rtype::DNAME);
    records.retain(|old| if is_single { old.rtype != new.rtype } else { !old.is_same(&new) });
    // RFC 2181 5.2: all records of an RRset have one TTL.
    records.iter_mut().filter(|old| old.is_in_set_of(&new)).for_each(|old| old.ttl = new.ttl);
    records.push(new);
}

/// RFC 2136 3.4.2.4: deletes a record, but not the SOA record nor the last NS record of the apex.
fn delete(records: &mut Vec<OwnedRecord>, record: &Record, is_apex: bool) {
    let gone = OwnedRecord::of(record);
    let is_last_ns =
        || is_apex && gone.rtype == Rtype::NS && records.iter().filter(|old| old.rtype == Rtype::NS).count() == 1;
    if gone.rtype != Rtype::SOA && !is_last_ns() {
        records.retain(|old| !old.is_same(&gone));
    }
}

//----------- records --------------------------------------------------------------

#[derive(Clone, Debug, PartialEq, Eq)]
struct OwnedRecord {
    rtype: Rtype,
    ttl: u32,
    rdata: Vec<u8>,
}

impl OwnedRecord {
    fn of(record: &Record) -> OwnedRecord {
        OwnedRecord { rtype: record.rtype, ttl: record.ttl, rdata: record.rdata.clone() }
    }

    fn staged(&self) -> StagedRecord<'_> {
        StagedRecord { rtype: self.rtype, ttl: self.ttl, rdata: &self.rdata, file: 0, line: 0 }
    }

    /// Whether both are equal except for their TTL (RFC 2136 1.1.1).
    fn is_same(&self, other: &OwnedRecord) -> bool {
        is_same(&self.staged(), &other.staged())
    }

    /// Whether both are in one RRset. The signatures over different RRsets are different sets (RFC 4034 3).
    fn is_in_set_of(&self, other: &OwnedRecord) -> bool {
        self.rtype == other.rtype && self.staged().set_rtype() == other.staged().set_rtype()
    }
}

/// The owners that a message names, each decoded once: a message may name one with many records thousands of times.
struct StoredOwners<'z> {
    zone: &'z Zone,
    owners: HashMap<Name, Vec<OwnedRecord>>,
}

impl StoredOwners<'_> {
    /// All records of an owner.
    fn records_of(&mut self, owner: NameRef<'_>) -> &[OwnedRecord] {
        let zone = self.zone;
        self.owners.entry(owner.to_owned()).or_insert_with(|| records_of(zone, owner))
    }
}

/// All records of an owner; none if it is not in the zone.
fn records_of(zone: &Zone, owner: NameRef<'_>) -> Vec<OwnedRecord> {
    // In their original case, which the names in RDATA share.
    let apex = zone.owner(&zone.apex_entry());
    let key = CanonicalKey::from_name(owner, apex.wire().len());
    let mut decoder = NodeDecoder::default();
    let mut records = Vec::new();
    for cursor in [zone.seek(key.as_bytes()), zone.seek_nsec3(key.as_bytes())] {
        let Some(entry) = Some(cursor).filter(|cursor| cursor.is_exact()).and_then(|cursor| cursor.entry()) else {
            continue;
        };
        let owner = zone.owner(&entry);
        let found = decoder.decode(zone.node(&entry), owner.as_ref(), apex.as_ref());
        records.extend(found.iter().map(|record| OwnedRecord {
            rtype: record.rtype,
            ttl: record.ttl,
            rdata: record.rdata.to_vec(),
        }));
    }
    records
}
