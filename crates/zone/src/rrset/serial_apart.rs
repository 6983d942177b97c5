//! The serial of a small zone, apart from its records: of a million zones, most differ in nothing else, and then share one leaf.
//!
//! The node of the apex is marked, and has zeros in place of the serial. Every [`Rrset`] of it knows the serial, and everything that
//! takes RDATA out of its stored form ends in [`Rrset::put_serial`].
//!
//! The node stays so in a zone that grows by changes of other nodes. Such a zone keeps the standard tables: no set of the node is interned, and
//! the serial is where it was.

use std::borrow::Cow;

use wire::Rtype;
use wire::soa::NUMBERS_LEN;

use super::{Rrset, SERIAL_APART, ZoneNode};

impl<'z> ZoneNode<'z> {
    /// The node of the apex of a zone without tables, without its serial. `None` if it has none already, or a signature over it.
    pub(crate) fn without_serial(&self) -> Option<Box<[u8]>> {
        let at = if self.value[0] & SERIAL_APART == 0 { self.serial_at()? } else { return None };
        let mut value: Box<[u8]> = self.value.into();
        value[0] |= SERIAL_APART;
        value[at..at + 4].fill(0);
        Some(value)
    }

    /// The octets of any node as they were built, with the serial.
    pub(crate) fn with_serial(&self) -> Cow<'z, [u8]> {
        let at = if self.value[0] & SERIAL_APART == 0 { None } else { self.serial_at() };
        let Some(at) = at else { return self.value.into() };
        let mut value = self.value.to_vec();
        value[0] &= !SERIAL_APART;
        value[at..at + 4].copy_from_slice(&self.serial.to_be_bytes());
        value.into()
    }

    /// Where the serial is: in the numbers that the SOA record ends in, if it is the only one, and not signed. No set is interned.
    fn serial_at(&self) -> Option<usize> {
        let mut rrsets = self.rrsets();
        let soa = rrsets.find(|rrset| rrset.rtype == Rtype::SOA)?;
        (soa.count == 1 && soa.signatures().is_empty()).then(|| self.value.len() - rrsets.rest.len() - NUMBERS_LEN)
    }
}

impl Rrset<'_> {
    /// Serial, refresh, retry, expire and minimum of a SOA record (RFC 1035 3.3.13).
    #[inline]
    pub(crate) fn soa_numbers(&self) -> [u32; 5] {
        let stored = self.stored().next().expect("a SOA RRset has a record").bytes;
        let numbers = stored.last_chunk::<NUMBERS_LEN>().expect("SOA RDATA has five numbers").as_chunks::<4>().0;
        let mut numbers: [u32; 5] = std::array::from_fn(|index| u32::from_be_bytes(numbers[index]));
        numbers[0] = self.serial.unwrap_or(numbers[0]);
        numbers
    }

    /// Puts the serial into RDATA of this set, which is complete but for that, at the end of `out`.
    #[inline]
    pub(super) fn put_serial(&self, out: &mut [u8]) {
        if let Some(serial) = self.serial.filter(|_| self.rtype == Rtype::SOA)
            && let Some(numbers) = out.last_chunk_mut::<NUMBERS_LEN>()
        {
            numbers[..4].copy_from_slice(&serial.to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use wire::Name;

    use crate::build::Difference;
    use crate::change::{ChangeRules, ChangeSet};
    use crate::encoded_change::EncodedChange;
    use crate::finding::CheckMode;
    use crate::image::{ImageDecoder, ImageEncoder};
    use crate::load::{LoadOptions, LoadOutcome, load};
    use crate::text::{ParseOptions, Source};
    use crate::zone::Zone;

    use super::*;

    const RULES: ChangeRules = ChangeRules { check_mode: CheckMode::Lenient, nsec3_max_iterations: 0 };

    fn load_after(apex: &str, serial: u32, more: &str, previous: Option<&Zone>) -> LoadOutcome {
        let apex: Name = apex.parse().expect("a name");
        let text = format!("@ 60 SOA ns host {serial} 2 3 4 5\n@ 60 NS ns\nns 60 A 192.0.2.1\n{more}");
        let source = Source { name: "test".into(), bytes: text.as_bytes() };
        let options = LoadOptions { previous, ..LoadOptions::new(ParseOptions::new(apex.as_ref())) };
        load(source, &options)
    }

    fn zone(apex: &str, serial: u32) -> Zone {
        load_after(apex, serial, "", None).zone.expect("a valid zone")
    }

    fn only_leaf(zone: &Zone) -> Arc<[u8]> {
        zone.names().leaves().remove(0)
    }

    fn decode_image_of(zone: &Zone) -> Zone {
        let (mut encoder, mut decoder, mut chunk) = (ImageEncoder::new(zone.clone()), ImageDecoder::new(), Vec::new());
        while encoder.next_chunk(&mut chunk) {
            decoder.push(&chunk).expect("a valid chunk");
        }
        decoder.finish().expect("a valid image")
    }

    fn check(zone: &Zone, serial: u32) {
        let rdata = [b"\x02ns", zone.apex().wire(), b"\x04host", zone.apex().wire()].concat();
        let numbers = [serial, 2, 3, 4, 5].map(u32::to_be_bytes).concat();
        assert_eq!((zone.serial(), zone.expire_s()), (serial, 4));
        assert_eq!(zone.soa_rdata(), [rdata, numbers].concat());
        assert_eq!(zone.rdatas(zone.apex(), Rtype::SOA), [zone.soa_rdata()]);
    }

    #[test]
    fn zones_that_differ_in_their_serials_share_their_leaf() {
        let zones = [("a.", 7), ("b.", u32::MAX), ("c.", 0)].map(|(apex, serial)| (zone(apex, serial), serial));
        for (zone, serial) in &zones {
            let decoded = decode_image_of(zone);
            for same in [zone, &decoded] {
                check(same, *serial);
                assert!(Arc::ptr_eq(&only_leaf(same), &only_leaf(&zones[0].0)));
            }
        }
    }

    /// Its leaf would not be shared, nor would that of a signed zone.
    #[test]
    fn a_larger_zone_has_its_serial_among_its_records() {
        let hosts: String = (0..60).map(|host| format!("h{host} 60 A 192.0.2.{host}\n")).collect();
        let key = format!("@ 60 RRSIG SOA 8 1 60 20300101000000 20200101000000 1 z. {}\n", "AAAA".repeat(16));
        for more in [hosts, key] {
            let zone = load_after("z.", 7, &more, None).zone.expect("a valid zone");
            check(&zone, 7);
            assert!(matches!(zone.apex_node().with_serial(), Cow::Borrowed(_)) && zone.apex_node().value[0] == 0);
        }
    }

    #[test]
    fn a_change_of_other_records_keeps_the_serial() {
        let (old, owner) = (zone("z.", 7), "www.z.".parse::<Name>().expect("a name"));
        let mut change = ChangeSet::new(old.apex());
        change.add(owner.as_ref(), Rtype::A, 60, &[192, 0, 2, 2]).expect("it is in the zone");
        let new = old.apply(change, RULES).expect("a valid change").zone;
        check(&new, 7);
        check(&decode_image_of(&new), 7);
    }

    #[test]
    fn a_change_of_the_serial_alone_is_a_change() {
        let old = zone("z.", 7);
        let new = old.with_serial(8);
        check(&new, 8);
        assert!(Arc::ptr_eq(&only_leaf(&old), &only_leaf(&new)));
        let change = EncodedChange::between(&old, &new);
        assert_eq!((change.from_serial(), change.to_serial()), (7, 8));
        let applied = old.apply(change.to_change_set(), RULES).expect("a valid change");
        check(&applied.zone, 8);
        assert_eq!(applied.difference, Difference { changed: 1, ..Difference::default() });
        assert!(new.apply(change.to_change_set(), RULES).is_err(), "it has another SOA record");
    }

    #[test]
    fn a_reload_compares_the_serials() {
        let hosts: String = (0..6).map(|host| format!("h{host} 60 A 192.0.2.{host}\n")).collect();
        let old = load_after("z.", 7, &hosts, None).zone.expect("a valid zone");
        for (serial, changed) in [(7, 0), (8, 1)] {
            let outcome = load_after("z.", serial, &hosts, Some(&old));
            assert_eq!(outcome.difference, Some(Difference { changed, ..Difference::default() }));
            check(&outcome.zone.expect("a valid zone"), serial);
        }
    }
}
