//! Versions that a server makes by itself from one that it serves: with another serial, or without a stale digest.

use wire::{NameRef, Rtype, soa};

use crate::change::{ChangeRules, ChangeSet};
use crate::node_decoder::NodeDecoder;
use crate::zone::Zone;
use crate::zonemd;

impl Zone {
    /// The unsigned zone with another serial, and without the ZONEMD records that this makes stale. Costs as much as a change of
    /// a few records.
    pub fn with_serial(&self, serial: u32) -> Zone {
        let mut rdata = self.soa_rdata();
        let mut change = ChangeSet::new(self.apex());
        change.remove(self.apex(), Rtype::SOA, &rdata).expect(APEX);
        soa::set_serial(&mut rdata, serial);
        change.add(self.apex(), Rtype::SOA, self.soa().ttl, &rdata).expect(APEX);
        let edited = self.edited(change);
        edited.without_stale_digest().unwrap_or(edited)
    }

    /// The zone without its ZONEMD records if none has its serial: a change has made them stale. `None` if there is nothing to remove.
    ///
    /// A signed zone is left as it is: its NSEC records and signatures say which types there are, and only its signer can
    /// change them. Verifiers ignore records with another serial (RFC 8976 4).
    pub fn without_stale_digest(&self) -> Option<Zone> {
        if self.apex_node().rrset(Rtype::ZONEMD).is_none() || self.is_signed() {
            return None;
        }
        let (apex, mut decoder) = (self.apex(), NodeDecoder::default());
        let records = decoder.decode(self.apex_node(), apex, apex);
        let digests = || records.iter().filter(|record| record.rtype == Rtype::ZONEMD);
        if digests().any(|record| zonemd::serial_of(record.rdata) == self.serial()) {
            return None;
        }
        let mut change = ChangeSet::new(apex);
        digests().for_each(|record| change.remove(apex, Rtype::ZONEMD, record.rdata).expect(APEX));
        Some(self.edited(change))
    }

    /// Whether the zone has DNSKEY records: only its signer can change its content.
    pub fn is_signed(&self) -> bool {
        self.apex_node().rrset(Rtype::DNSKEY).is_some()
    }

    /// Whether the zone has ZONEMD records.
    pub fn has_digest(&self) -> bool {
        self.apex_node().rrset(Rtype::ZONEMD).is_some()
    }

    fn edited(&self, change: ChangeSet) -> Zone {
        // The records are those of this version, and removing a ZONEMD record or replacing the serial breaks no rule.
        self.apply(change, ChangeRules::ACCEPTED_BEFORE).expect("the zone stays valid").zone
    }
}

const APEX: &str = "the apex is in the zone";

/// Whether a record is a ZONEMD record of the apex.
pub fn is_digest(apex: NameRef<'_>, owner: NameRef<'_>, rtype: Rtype) -> bool {
    rtype == Rtype::ZONEMD && owner.wire().len() == apex.wire().len()
}

#[cfg(test)]
mod tests {
    use wire::Name;

    use super::*;
    use crate::encoded_change::EncodedChange;
    use crate::load::load_text;

    fn zone_of(text: &str) -> Zone {
        let apex: Name = "Z.".parse().expect("a name");
        let text = format!("Z. 300 SOA Ns hostmaster 7 2 3 4 5\nz. 300 NS ns.z.\n{text}");
        load_text(apex.as_ref(), text.as_bytes()).zone.expect("a valid zone")
    }

    fn digest(serial: u32) -> String {
        format!("z. 300 ZONEMD {serial} 1 1 {}\n", "00".repeat(48))
    }

    #[test]
    fn another_serial_changes_nothing_else() {
        let old = zone_of("h 60 A 192.0.2.1\n");
        let new = old.with_serial(9);
        let change = EncodedChange::between(&old, &new);
        assert_eq!((change.from_serial(), change.to_serial()), (7, 9));
        assert_eq!(change.removed().count() + change.added().count(), 0);
        assert_eq!(change.new_soa().ttl, 300);
    }

    #[test]
    fn rfc_8976_4_another_serial_makes_digests_stale() {
        let with = |digests: String| zone_of(&digests).with_serial(9);
        assert!(!with(digest(7)).has_digest());
        assert!(with(digest(7) + &digest(9)).has_digest());
    }

    #[test]
    fn rfc_8976_4_only_digests_of_another_serial_are_removed() {
        for (text, is_stale) in [
            (String::new(), false),
            (digest(7), false),
            (digest(6), true),
            (digest(7) + &digest(6), false),
            (digest(6) + "z. 300 DNSKEY 256 3 13 AAAA\n", false),
        ] {
            let zone = zone_of(&text);
            let without = zone.without_stale_digest();
            assert_eq!(without.is_some(), is_stale, "{text}");
            assert!(without.is_none_or(|zone| !zone.has_digest() && zone.serial() == 7));
        }
    }
}
