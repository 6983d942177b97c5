//! Dynamic update (RFC 2136): from an UPDATE message to a change of the zone.
//!
//! [`prepare`] checks the message, its prerequisites and the rights of the requestor. It changes nothing: the caller applies the
//! [`ChangeSet`], makes it durable and acknowledges it. TSIG and the zone section are checked before.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use wire::message::{Rcode, Record};
use wire::serial::{is_later, of_soa};
use wire::{Class, Message, Name, NameRef, Rtype, rdata, soa};

use crate::canonical_form::canonical_rdata;
use crate::canonical_key::CanonicalKey;
use crate::change::ChangeSet;
use crate::node_decoder::NodeDecoder;
use crate::serial_policy::SerialPolicy;
use crate::stage::StagedRecord;
use crate::ttl_limit::limited_ttl;
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
    let types = stored.types_of(record.owner.as_ref());
    let is_name = record.rtype == Rtype::ANY;
    let exists = if is_name { !types.is_empty() } else { types.contains(&record.rtype) };
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
    let found: HashSet<Box<[u8]>> = found.map(|found| canonical_rdata(*rtype, &found.rdata)).collect();
    let expected: HashSet<Box<[u8]>> = expected.iter().map(|record| canonical_rdata(*rtype, &record.rdata)).collect();
    match found == expected {
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
        Class::IN => !rtype.is_meta() && rdata::is_complete(*rtype, rdata),
        Class::ANY => *ttl == 0 && rdata.is_empty() && (*rtype == Rtype::ANY || !rtype.is_meta()),
        Class::NONE => *ttl == 0 && !rtype.is_meta() && rdata::can_be_served(*rtype, rdata),
        _ => false,
    };
    match is_valid {
        true => Ok(()),
        false => refuse(Rcode::FORMERR, format!("an update of {rtype} records in class {class} is malformed")),
    }
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
            // RFC 2136 3.4.2.3: SOA and NS records at the apex stay.
            Rtype::ANY => {
                let is_apex = owner.label_count() == stored.zone.apex_labels();
                let stays = |found: Rtype| is_apex && matches!(found, Rtype::SOA | Rtype::NS);
                stored.types_of(owner).iter().all(|&found| stays(found) || (rules.allows)(owner, found))
            }
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
    sets: RecordSets,
}

impl Update<'_> {
    /// RFC 2136 3.4.2: applies one record of the update section.
    fn apply(&mut self, record: &Record) {
        let is_apex = record.owner.as_ref().label_count() == self.stored.zone.apex_labels();
        let sets = &mut self.owner(record.owner.as_ref()).sets;
        match record.class {
            Class::IN => add(sets, record, is_apex),
            Class::ANY => sets.0.retain(|(found, _), _| {
                let is_kept = is_apex && matches!(*found, Rtype::SOA | Rtype::NS);
                is_kept || record.rtype != Rtype::ANY && *found != record.rtype
            }),
            _ => delete(sets, record, is_apex),
        }
    }

    fn owner(&mut self, owner: NameRef<'_>) -> &mut UpdatedOwner {
        let stored = &mut self.stored;
        self.owners.entry(owner.to_owned().to_lowercase()).or_insert_with(|| {
            let before = stored.records_of(owner).to_vec();
            UpdatedOwner { owner: owner.to_owned(), sets: RecordSets::new(&before), before }
        })
    }

    /// The difference as a change, with a new serial (RFC 2136 3.6).
    fn finish(mut self, rules: &UpdateRules<'_>) -> Result<ChangeSet, UpdateRefusal> {
        let mut change = ChangeSet::new(self.stored.zone.apex());
        if !self.owners.values().any(UpdatedOwner::is_changed) {
            return Ok(change);
        }
        self.advance_serial(rules)?;
        for changed in self.owners.values() {
            let UpdatedOwner { owner, before, sets } = changed;
            let outside = |_| UpdateRefusal { rcode: Rcode::NOTZONE, reason: format!("{owner} is not in the zone") };
            for gone in before.iter().filter(|old| !sets.contains(old)) {
                change.remove(owner.as_ref(), gone.rtype, &gone.rdata).map_err(outside)?;
            }
            for (rtype, ttl, rdata) in changed.new_records() {
                change.add(owner.as_ref(), rtype, ttl, rdata).map_err(outside)?;
            }
        }
        Ok(change)
    }

    fn advance_serial(&mut self, rules: &UpdateRules<'_>) -> Result<(), UpdateRefusal> {
        let zone = self.stored.zone;
        let (old, is_signed, apex) = (zone.serial(), zone.is_signed(), zone.apex().to_owned());
        let sets = &mut self.owner(apex.as_ref()).sets;
        let (ttl, soa) = sets.soa().expect("no update deletes the SOA record");
        if of_soa(soa).is_some_and(|serial| is_later(serial, old)) {
            return Ok(());
        }
        if is_signed {
            return refuse(Rcode::REFUSED, "an update of a signed zone must bring a SOA record with a later serial");
        }
        let mut advanced = soa.to_vec();
        soa::set_serial(&mut advanced, rules.serial_policy.next(old, rules.now_s));
        sets.put(Rtype::SOA, ttl, &advanced);
        Ok(())
    }
}

impl UpdatedOwner {
    fn is_changed(&self) -> bool {
        self.before.iter().any(|old| !self.sets.contains(old)) || self.new_records().next().is_some()
    }

    /// The records that are not stored as they are: their type, TTL and RDATA.
    fn new_records(&self) -> impl Iterator<Item = (Rtype, u32, &[u8])> {
        let before: HashSet<(Rtype, u32, &[u8])> =
            self.before.iter().map(|record| (record.rtype, record.ttl, &*record.rdata)).collect();
        self.sets.records().filter(move |record| !before.contains(record))
    }
}

/// RFC 2136 3.4.2.2: adds a record, or replaces one.
fn add(sets: &mut RecordSets, record: &Record, is_apex: bool) {
    // RFC 4035 2.5, RFC 2181 10.1: what may be beside a CNAME record.
    let is_beside_cname = |rtype| matches!(rtype, Rtype::CNAME | Rtype::RRSIG | Rtype::NSEC | Rtype::KEY);
    let is_ignored = match record.rtype {
        Rtype::SOA => {
            let old = sets.soa().and_then(|(_, old)| of_soa(old));
            !is_apex || !of_soa(&record.rdata).zip(old).is_some_and(|(new, old)| is_later(new, old))
        }
        Rtype::CNAME => sets.0.keys().any(|(rtype, _)| !is_beside_cname(*rtype)),
        rtype => !is_beside_cname(rtype) && sets.0.contains_key(&(Rtype::CNAME, Rtype::CNAME)),
    };
    if is_ignored {
        return;
    }
    sets.put(record.rtype, limited_ttl(record.ttl), &record.rdata);
}

/// RFC 2136 3.4.2.4: deletes a record, but not the SOA record nor the last NS record of the apex.
fn delete(sets: &mut RecordSets, record: &Record, is_apex: bool) {
    let place = set_of(record.rtype, &record.rdata);
    let Some(set) = sets.0.get_mut(&place).filter(|_| record.rtype != Rtype::SOA) else { return };
    if is_apex && record.rtype == Rtype::NS && set.records.len() == 1 {
        return;
    }
    set.records.remove(&canonical_rdata(record.rtype, &record.rdata));
    if set.records.is_empty() {
        sets.0.remove(&place);
    }
}

//----------- records --------------------------------------------------------------

/// The RRsets of one owner. A message may name an owner with very many records thousands of times: no record is searched for.
struct RecordSets(BTreeMap<(Rtype, Rtype), RecordSet>);

#[derive(Default)]
struct RecordSet {
    ttl: u32,
    /// By [`canonical_rdata`].
    records: HashMap<Box<[u8]>, Vec<u8>>,
}

/// Identifies an RRset. The signatures over different RRsets are different sets (RFC 4034 3).
fn set_of(rtype: Rtype, rdata: &[u8]) -> (Rtype, Rtype) {
    (rtype, StagedRecord { rtype, ttl: 0, rdata, file: 0, line: 0 }.set_rtype())
}

impl RecordSets {
    fn new(records: &[OwnedRecord]) -> RecordSets {
        let mut sets = RecordSets(BTreeMap::new());
        for OwnedRecord { rtype, ttl, rdata } in records {
            let set = sets.0.entry(set_of(*rtype, rdata)).or_default();
            set.ttl = *ttl;
            set.records.insert(canonical_rdata(*rtype, rdata), rdata.clone());
        }
        sets
    }

    /// Whether there is this record, with any TTL (RFC 2136 1.1.1).
    fn contains(&self, record: &OwnedRecord) -> bool {
        let set = self.0.get(&set_of(record.rtype, &record.rdata));
        set.is_some_and(|set| set.records.contains_key(&canonical_rdata(record.rtype, &record.rdata)))
    }

    /// The TTL and RDATA of the SOA record.
    fn soa(&self) -> Option<(u32, &[u8])> {
        let set = self.0.get(&(Rtype::SOA, Rtype::SOA))?;
        Some((set.ttl, set.records.values().next()?))
    }

    /// Adds a record in place of those that are the same, or of the one that there can be of its type.
    fn put(&mut self, rtype: Rtype, ttl: u32, rdata: &[u8]) {
        let set = self.0.entry(set_of(rtype, rdata)).or_default();
        if matches!(rtype, Rtype::SOA | Rtype::CNAME | Rtype::DNAME) {
            set.records.clear();
        }
        // RFC 2181 5.2: all records of an RRset have one TTL.
        set.ttl = ttl;
        set.records.insert(canonical_rdata(rtype, rdata), rdata.to_vec());
    }

    /// Type, TTL and RDATA of all records.
    fn records(&self) -> impl Iterator<Item = (Rtype, u32, &[u8])> {
        self.0
            .iter()
            .flat_map(|(&(rtype, _), set)| set.records.values().map(move |rdata| (rtype, set.ttl, rdata.as_slice())))
    }
}

#[derive(Clone, Debug)]
struct OwnedRecord {
    rtype: Rtype,
    ttl: u32,
    rdata: Vec<u8>,
}

/// The owners that a message names, each decoded once: a message may name one with many records thousands of times.
struct StoredOwners<'z> {
    zone: &'z Zone,
    owners: HashMap<Name, StoredOwner>,
}

struct StoredOwner {
    records: Vec<OwnedRecord>,
    types: BTreeSet<Rtype>,
}

impl StoredOwners<'_> {
    /// All records of an owner.
    fn records_of(&mut self, owner: NameRef<'_>) -> &[OwnedRecord] {
        &self.owner(owner).records
    }

    /// The types of all records of an owner.
    fn types_of(&mut self, owner: NameRef<'_>) -> &BTreeSet<Rtype> {
        &self.owner(owner).types
    }

    fn owner(&mut self, owner: NameRef<'_>) -> &StoredOwner {
        let zone = self.zone;
        self.owners.entry(owner.to_owned()).or_insert_with(|| {
            let records = records_of(zone, owner);
            StoredOwner { types: records.iter().map(|record| record.rtype).collect(), records }
        })
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
