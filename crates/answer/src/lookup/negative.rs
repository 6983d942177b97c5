//! Negative answers: NXDOMAIN and NODATA, with the SOA record (RFC 2308).

use wire::message::Rcode;
use zone::Zone;
use zone::canonical_key::ancestor_len;
use zone::tree::{TreeCursor, TreeEntry};

use super::{Lookup, Step};
use crate::denial::Denied;
use crate::message_writer::{Full, Section};
use crate::name_writer::OwnerName;

impl<'z> Lookup<'_, 'z, '_> {
    /// RFC 1034 4.3.2 step 3c: the name has no entry; `cursor` and `entry` are its predecessor's.
    pub(super) fn not_found(
        &mut self,
        zone: &'z Zone,
        mut cursor: TreeCursor<'z>,
        entry: &TreeEntry<'z>,
    ) -> Result<Step, Full> {
        self.authoritative = true;
        let predecessor = cursor.clone();
        let successor = cursor.next();
        let key = self.key.as_bytes();
        if successor.is_some_and(|successor| successor.is_at_or_below(key)) {
            // RFC 4592 2.2.2: an empty non-terminal exists, without data.
            self.deny(zone, Denied::EmptyNonTerminal { predecessor });
            return self.negative(zone, Rcode::NOERROR);
        }
        let common = successor.map_or(0, |successor| successor.common_len(key)).max(entry.common_len(key));
        let encloser_len = ancestor_len(key, common);
        if let Some(step) = self.match_wildcard(zone, encloser_len, &predecessor)? {
            return Ok(step);
        }
        self.deny(zone, Denied::Name { encloser_len, predecessor });
        self.negative(zone, Rcode::NXDOMAIN)
    }

    /// Adds the SOA record with the TTL of negative answers (RFC 2308 2, 3, 5).
    pub(super) fn negative(&mut self, zone: &'z Zone, rcode: Rcode) -> Result<Step, Full> {
        self.count_for(zone.apex_labels());
        let (soa, ttl) = zone.negative_soa();
        let place = self.place(zone, zone.apex_labels());
        let apex;
        let mut owner = match zone.apex_has_upper_case() {
            true => {
                apex = zone.apex_entry();
                OwnerName::in_zone_case(zone, &apex, true, place)
            }
            false => OwnerName::at(place),
        };
        if self.message.push(Section::Authority, &soa, ttl, &mut owner, self.dnssec).is_err() {
            self.message.truncated = true;
        }
        Ok(Step::Done(rcode))
    }
}
