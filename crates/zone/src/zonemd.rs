//! ZONEMD (RFC 8976): the digest of a whole zone, checked against the ZONEMD records of its apex.

use aws_lc_rs::digest::{Context, SHA384, SHA512};
use wire::{Name, NameRef, Rtype};

use crate::canonical_form::canonical_rdata;
use crate::node_decoder::NodeDecoder;
use crate::stage::StagedRecord;
use crate::tree::TreeEntry;
use crate::zone::Zone;

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ZonemdStatus {
    /// A digest matches.
    Verified,
    /// The zone has no ZONEMD record.
    Absent,
    /// RFC 8976 4: no record has the serial of the zone, a known scheme and a known algorithm, so nothing can be said.
    Unsupported,
    /// No digest matches: the zone is incomplete or was changed.
    Mismatch,
    /// The records are for this serial, which is not that of the zone.
    OtherSerial(u32),
}

/// RFC 8976 2.2.2: the only scheme.
const SIMPLE: u8 = 1;

/// Computes the digests of a zone and compares them with its ZONEMD records (RFC 8976 4). Visits every record.
pub fn verify(zone: &Zone) -> ZonemdStatus {
    let records = zonemd_rdatas(zone);
    if records.is_empty() {
        return ZonemdStatus::Absent;
    }
    let current: Vec<&Vec<u8>> = records.iter().filter(|rdata| serial_of(rdata) == zone.serial()).collect();
    if current.is_empty() {
        return ZonemdStatus::OtherSerial(serial_of(&records[0]));
    }
    let mut status = ZonemdStatus::Unsupported;
    for (algorithm, digest) in [(1, &SHA384), (2, &SHA512)] {
        let matches = |rdata: &&&Vec<u8>| rdata[4] == SIMPLE && rdata[5] == algorithm;
        // RFC 8976 2: of records with equal scheme and algorithm none is used.
        let [expected] = current.iter().filter(matches).collect::<Vec<_>>()[..] else { continue };
        if digest_of(zone, Context::new(digest)) == expected[6..] {
            return ZonemdStatus::Verified;
        }
        status = ZonemdStatus::Mismatch;
    }
    status
}

/// The RDATA of the ZONEMD records at the apex, except what is too short to have a digest.
fn zonemd_rdatas(zone: &Zone) -> Vec<Vec<u8>> {
    let (apex, mut decoder) = (zone.apex(), NodeDecoder::default());
    let records = decoder.decode(zone.apex_node(), apex, apex);
    let found = records.iter().filter(|record| record.rtype == Rtype::ZONEMD && record.rdata.len() > 6);
    found.map(|record| record.rdata.to_vec()).collect()
}

pub(crate) fn serial_of(rdata: &[u8]) -> u32 {
    rdata.first_chunk().map_or(0, |serial| u32::from_be_bytes(*serial))
}

/// RFC 8976 3.3.1: the digest of all records in canonical form and order.
fn digest_of(zone: &Zone, context: Context) -> Vec<u8> {
    let mut writer = CanonicalWriter {
        zone,
        apex: zone.owner(&zone.apex_entry()),
        context,
        decoder: NodeDecoder::default(),
        record: Vec::new(),
    };
    // NSEC3 owners are in a tree of their own; both are in canonical order, and they may share owners.
    let (mut names, mut nsec3) = (zone.names().iter().peekable(), zone.nsec3().iter().peekable());
    let (mut left, mut right) = (Vec::new(), Vec::new());
    loop {
        let order = match (names.peek(), nsec3.peek()) {
            (None, None) => return writer.context.finish().as_ref().to_vec(),
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some(name), Some(hash)) => {
                left.clear();
                right.clear();
                name.append_key(&mut left);
                hash.append_key(&mut right);
                left.cmp(&right)
            }
        };
        let name = if order.is_le() { names.next() } else { None };
        let hash = if order.is_ge() { nsec3.next() } else { None };
        writer.write_owner(name, hash);
    }
}

struct CanonicalWriter<'z> {
    zone: &'z Zone,
    apex: Name,
    context: Context,
    decoder: NodeDecoder,
    record: Vec<u8>,
}

impl CanonicalWriter<'_> {
    /// Adds all records of one owner, which may be in both trees.
    fn write_owner(&mut self, name: Option<TreeEntry<'_>>, nsec3: Option<TreeEntry<'_>>) {
        let mut records: Vec<(Rtype, u32, Box<[u8]>)> = Vec::new();
        let mut owner = None;
        for entry in name.into_iter().chain(nsec3) {
            let this = self.zone.owner(&entry);
            let is_apex = this.wire().len() == self.apex.wire().len();
            let found = self.decoder.decode(self.zone.node(&entry), this.as_ref(), self.apex.as_ref());
            let included = found.into_iter().filter(|record| !is_apex || !is_excluded(record));
            records
                .extend(included.map(|record| (record.rtype, record.ttl, canonical_rdata(record.rtype, record.rdata))));
            owner = Some(this.to_lowercase());
        }
        let Some(owner) = owner else { return };
        // RFC 8976 3.3.1: RRsets by type, RRs by their RDATA (RFC 4034 6.3).
        records.sort_by(|a, b| (a.0.0, &a.2).cmp(&(b.0.0, &b.2)));
        for (rtype, ttl, rdata) in records {
            self.write_record(owner.as_ref(), rtype, ttl, &rdata);
        }
    }

    fn write_record(&mut self, owner: NameRef<'_>, rtype: Rtype, ttl: u32, rdata: &[u8]) {
        self.record.clear();
        self.record.extend_from_slice(owner.wire());
        self.record.extend_from_slice(&rtype.0.to_be_bytes());
        self.record.extend_from_slice(&[0, 1]);
        self.record.extend_from_slice(&ttl.to_be_bytes());
        self.record.extend_from_slice(&(rdata.len() as u16).to_be_bytes());
        self.record.extend_from_slice(rdata);
        self.context.update(&self.record);
    }
}

/// RFC 8976 3.3.1: the ZONEMD records of the apex and their signatures are not part of the digest.
fn is_excluded(record: &StagedRecord<'_>) -> bool {
    record.set_rtype() == Rtype::ZONEMD
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::load_text;

    /// RFC 8976 A.1.
    const SIMPLE_EXAMPLE: &str = "
example. 86400 SOA ns1 admin 2018031900 1800 900 604800 86400
example. 86400 NS ns1
example. 86400 NS ns2
example. 86400 ZONEMD 2018031900 1 1 c68090d90a7aed716bc459f9340e3d7c1370d4d24b7e2fc3a1ddc0b9a87153b9a9713b3c9ae5cc27777f98b8e730044c
ns1 3600 A 203.0.113.63
ns2 3600 AAAA 2001:db8::63
";

    fn zone_of(apex: &str, text: &[u8]) -> Zone {
        let apex: Name = apex.parse().expect("a name");
        load_text(apex.as_ref(), text).zone.expect("a valid zone")
    }

    fn status(text: &str) -> ZonemdStatus {
        verify(&zone_of("example.", text.as_bytes()))
    }

    #[test]
    fn rfc_8976_a_1_the_simple_example_verifies() {
        assert_eq!(status(SIMPLE_EXAMPLE), ZonemdStatus::Verified);
        assert_eq!(status(&SIMPLE_EXAMPLE.replace("ns1 3600", "NS1 3600")), ZonemdStatus::Verified, "in any case");
        let signed = format!(
            "{SIMPLE_EXAMPLE}example. 86400 RRSIG ZONEMD 13 1 86400 20300101000000 20200101000000 1 example. AAAA\n"
        );
        assert_eq!(status(&signed), ZonemdStatus::Verified, "the signature of the ZONEMD RRset is excluded");
    }

    #[test]
    fn rfc_8976_4_every_change_is_found() {
        for (old, new) in
            [("203.0.113.63", "203.0.113.64"), ("ns1 3600", "ns1 3601"), ("ns2 3600 AAAA", "ns3 3600 AAAA")]
        {
            assert_eq!(status(&SIMPLE_EXAMPLE.replace(old, new)), ZonemdStatus::Mismatch, "{new}");
        }
        let hash = "0123456789abcdefghijklmnopqrstuv";
        let more = format!("{SIMPLE_EXAMPLE}{hash} 60 NSEC3 1 0 0 - {hash} A\n");
        assert_eq!(status(&more), ZonemdStatus::Mismatch, "NSEC3 records are part of the digest");
    }

    #[test]
    fn rfc_8976_4_records_that_cannot_be_used() {
        let without = SIMPLE_EXAMPLE.lines().filter(|line| !line.contains("ZONEMD")).collect::<Vec<_>>().join("\n");
        assert_eq!(status(&without), ZonemdStatus::Absent);
        assert_eq!(status(&SIMPLE_EXAMPLE.replace("ZONEMD 2018031900", "ZONEMD 7")), ZonemdStatus::OtherSerial(7));
        assert_eq!(status(&SIMPLE_EXAMPLE.replace("1 1 c6", "2 1 c6")), ZonemdStatus::Unsupported);
        assert_eq!(status(&SIMPLE_EXAMPLE.replace("1 1 c6", "1 240 c6")), ZonemdStatus::Unsupported);
        let twice = format!("{SIMPLE_EXAMPLE}example. 86400 ZONEMD 2018031900 1 1 {}\n", "00".repeat(48));
        assert_eq!(status(&twice), ZonemdStatus::Unsupported, "RFC 8976 2: two records with one scheme and algorithm");
    }
}
