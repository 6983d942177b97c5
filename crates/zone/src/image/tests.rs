//! Images of what no zone file, transfer or update can make of a zone. Damage that the checksum misses can.

use super::*;
use crate::build_options::BuildOptions;
use crate::canonical_key::CanonicalKey;
use crate::intern::Interner;
use crate::load::load_text;
use crate::occlusion::own_flags;
use crate::owner_case::OwnerCase;
use crate::rrset::NodeEncoder;
use crate::stage::StagedRecord;
use crate::tree::{Tree, TreeEdit};

const APEX: &str = "example.";

fn zone() -> Zone {
    let apex: Name = APEX.parse().expect("a name");
    let text = "@ 60 SOA ns host 1 2 3 4 5\n@ 60 NS ns\nns 60 A 192.0.2.1\nalias 60 CNAME ns\n";
    load_text(apex.as_ref(), text.as_bytes()).zone.expect("a valid zone")
}

/// RDATA of a SOA record with this serial.
fn soa(serial: u32) -> Vec<u8> {
    [&[0, 0][..], &serial.to_be_bytes(), &[0; 16]].concat()
}

/// The zone with these records alone at an owner, checked by nobody.
fn with_records<'r>(owner: &str, records: &[(Rtype, &'r [u8])]) -> Zone {
    let zone = zone();
    let (owner, options) = (owner.parse::<Name>().expect("a name"), BuildOptions::of_records(zone.apex()));
    let key = CanonicalKey::from_name(owner.as_ref(), options.apex.wire().len());
    let staged = |&(rtype, rdata): &(Rtype, &'r [u8])| StagedRecord { rtype, ttl: 60, rdata, file: 0, line: 0 };
    let mut staged: Vec<_> = records.iter().map(staged).collect();
    let (interner, flags) = (Interner::existing(zone.interned()), own_flags(key.as_bytes(), &staged));
    let mut encoder = NodeEncoder::new(options.apex);
    let value = encoder.encode(&interner, owner.as_ref(), OwnerCase::LOWER, flags, &mut staged);
    let names = zone.names().apply(&[TreeEdit { key: key.as_bytes().into(), value: Some(value.into()) }]);
    let content = ZoneContent::new(names, Tree::empty(), zone.interned().clone(), Denial::None);
    Zone { content, ..zone.clone() }
}

fn decode_image_of(zone: &Zone) -> Result<Zone, ImageError> {
    let (mut encoder, mut decoder, mut chunk) = (ImageEncoder::new(zone.clone()), ImageDecoder::new(), Vec::new());
    while encoder.next_chunk(&mut chunk) {
        decoder.push(&chunk)?;
    }
    decoder.finish()
}

/// Such a zone would end a rebuild with a panic.
#[test]
fn images_of_invalid_zones_are_refused() {
    const NAME: &[u8] = b"\x01a\0";
    const OTHER: &[u8] = b"\x01b\0";
    let (first, second) = (soa(1), soa(2));
    for (owner, records, error) in [
        (APEX, vec![(Rtype::SOA, &first[..]), (Rtype::SOA, &second[..])], ImageError::SeveralSoa),
        ("ns.example.", vec![(Rtype::SOA, &first[..])], ImageError::Records),
        ("alias.example.", vec![(Rtype::CNAME, NAME), (Rtype::CNAME, OTHER)], ImageError::Records),
        ("alias.example.", vec![(Rtype::CNAME, NAME), (Rtype::A, &[192, 0, 2, 1][..])], ImageError::Records),
        ("d.example.", vec![(Rtype::DNAME, NAME), (Rtype::DNAME, OTHER)], ImageError::Records),
    ] {
        let refused = decode_image_of(&with_records(owner, &records)).err();
        assert_eq!(refused, Some(error), "{owner} {records:?}");
    }
    for records in [vec![(Rtype::CNAME, NAME)], vec![(Rtype::CNAME, NAME), (Rtype::KEY, &[0, 0, 3, 8, 1][..])]] {
        let decoded = decode_image_of(&with_records("alias.example.", &records)).expect("a valid zone");
        assert_eq!(decoded.rebuild(1).counts(), decoded.counts());
    }
}
