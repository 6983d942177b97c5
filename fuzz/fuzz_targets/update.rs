//! Applies any bytes as UPDATE messages, each after its length of 16 bits, to one zone: an update is refused, or changes nothing, or
//! leads to a zone that still has its SOA record and a name server, and a later serial.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use wire::serial::is_later;
use wire::{Message, NameRef, Rtype};
use zone::change::{ChangeError, ChangeRules};
use zone::load::load_text;
use zone::serial_policy::SerialPolicy;
use zone::update::{UpdateRules, prepare};
use zone::{CheckMode, Zone};

/// Wildcards, cuts with glue, aliases and a chain of NSEC3 records: what changes of names have effects on.
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

static START: LazyLock<Zone> = LazyLock::new(|| {
    load_text(NameRef::from_wire(b"\x01z\0").expect("a name"), ZONE.as_bytes()).zone.expect("a valid zone")
});

fuzz_target!(|bytes: &[u8]| {
    let (mut zone, mut rest) = (START.clone(), bytes);
    while let Some((len, more)) = rest.split_first_chunk::<2>() {
        let len = usize::from(u16::from_be_bytes(*len)).min(more.len());
        let (message, more) = more.split_at(len);
        rest = more;
        let Ok(message) = Message::parse(message) else { continue };
        let rules = UpdateRules {
            allows: &|_: NameRef<'_>, rtype: Rtype| rtype != Rtype::MX,
            allows_signed: message.id & 1 != 0,
            serial_policy: [SerialPolicy::Keep, SerialPolicy::Date, SerialPolicy::Unix][usize::from(message.id >> 1) % 3],
            now_s: 1_700_000_000,
        };
        let Ok(change) = prepare(&message, &zone, &rules) else { continue };
        if change.is_empty() {
            continue;
        }
        match zone.apply(change, ChangeRules { check_mode: CheckMode::Lenient, nsec3_max_iterations: 150 }) {
            Ok(applied) => {
                assert!(is_later(applied.zone.serial(), zone.serial()));
                assert!(applied.zone.apex_node().rrset(Rtype::NS).is_some());
                zone = applied.zone;
            }
            Err(ChangeError::Invalid(_)) => {}
            Err(error) => panic!("the change does not fit the zone that it was computed from: {error}"),
        }
    }
});
