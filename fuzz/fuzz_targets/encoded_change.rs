//! Reads any bytes as a change: what is accepted has its records, and is written back as it was. Applied to a zone, it is refused, or leads
//! to the old records without the removed ones and with the added ones.
#![no_main]

use std::collections::BTreeSet;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use wire::{Message, NameRef, Rtype, rdata};
use zone::axfr::AxfrStream;
use zone::change::ChangeRules;
use zone::encoded_change::{EncodedChange, EncodedRecord};
use zone::load::{LoadOptions, load};
use zone::text::{ParseOptions, Source};
use zone::{CheckMode, Zone};

/// Wildcards, cuts with glue, aliases and a chain of NSEC3 records. The seeds fit its SOA record.
const ZONE: &str = "
z. 300 SOA ns.z. host.z. 5 60 60 600 60
z. 300 NS ns.z.
z. 300 NSEC3PARAM 1 0 0 -
ns.z. 300 A 192.0.2.1
*.w.z. 300 TXT one
sub.z. 300 NS ns.sub.z.
ns.sub.z. 300 A 192.0.2.2
d.z. 300 DNAME e.z.
c.z. 300 CNAME ns.z.
2t7b4g4vsa5smi47k61mv5bv1a22bojr.z. 60 NSEC3 1 0 0 - 2t7b4g4vsa5smi47k61mv5bv1a22bojr A
";

const RULES: ChangeRules = ChangeRules { check_mode: CheckMode::Lenient, nsec3_max_iterations: 150 };

static START: LazyLock<Zone> = LazyLock::new(|| {
    let options = LoadOptions::new(ParseOptions::new(NameRef::from_wire(b"\x01z\0").expect("a name")));
    load(Source { name: "start".into(), bytes: ZONE.as_bytes() }, &options).zone.expect("a valid zone")
});

fuzz_target!(|bytes: &[u8]| {
    let Ok(change) = EncodedChange::from_bytes(bytes.into()) else { return };
    assert_eq!(change.as_bytes(), bytes);
    let (removed, added) = (change.removed().count(), change.added().count());
    assert_eq!(change.records().count(), 2 + removed + added);
    assert_eq!(change.to_change_set().len(), 2 + removed + added);
    let alone = EncodedChange::condense(std::slice::from_ref(&change)).expect("one change is a chain");
    assert_eq!((alone.from_serial(), alone.to_serial()), (change.from_serial(), change.to_serial()));
    if change.apex().wire().eq_ignore_ascii_case(START.apex().wire()) {
        apply(&change);
    }
});

fn apply(change: &EncodedChange) {
    let Ok(applied) = START.apply(change.to_change_set(), RULES) else { return };
    let mut expected = records(&START);
    for record in change.removed().chain([change.old_soa()]) {
        assert!(expected.remove(&of_change(record)), "a record that the zone does not have was removed");
    }
    expected.extend(change.added().chain([change.new_soa()]).map(of_change));
    assert_eq!(records(&applied.zone), expected);
}

/// A record by what makes it the same as another: without its TTL, and with names in lower case where they compare so.
type CanonicalRecord = (Vec<u8>, u16, Vec<u8>);

fn canonical(owner: NameRef<'_>, rtype: Rtype, data: &[u8]) -> CanonicalRecord {
    let mut canonical = data.to_vec();
    if rdata::is_canonicalized(rtype) {
        for name in rdata::names(rtype, data) {
            canonical[name].make_ascii_lowercase();
        }
    }
    (owner.wire().to_ascii_lowercase(), rtype.0, canonical)
}

fn of_change(record: EncodedRecord<'_>) -> CanonicalRecord {
    canonical(record.owner, record.rtype, record.rdata)
}

/// All records of a zone, as it is transferred.
fn records(zone: &Zone) -> BTreeSet<CanonicalRecord> {
    let question = [zone.apex().wire(), &[0, 252, 0, 1]].concat();
    let (mut stream, mut room) = (AxfrStream::new(zone.clone(), [0, 1], &question, &[]), vec![0; 65535]);
    let mut records = BTreeSet::new();
    while let Some(len) = stream.next_message(&mut room) {
        let message = Message::parse(&room[..len]).expect("a well-formed message");
        let of_zone = message.answer.iter().map(|it| canonical(it.owner.as_ref(), it.rtype, &it.rdata));
        records.extend(of_zone);
    }
    records
}
