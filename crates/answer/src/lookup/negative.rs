//! Negative answers: NXDOMAIN and NODATA, with the SOA record (RFC 2308).

use wire::message::{Rcode, Section};
use zone::canonical_key::ancestor_len;

use super::{Lookup, Step};
use crate::denial::Denied;
use crate::message_writer::Full;
use crate::name_writer::OwnerName;
use crate::zone_cut::ZonePosition;

impl<'z> Lookup<'_, 'z, '_> {
    /// RFC 1034 4.3.2 step 3c: the name has no entry.
    pub(super) fn not_found(&mut self, predecessor: &ZonePosition<'z>) -> Result<Step, Full> {
        self.authoritative = true;
        let successor = predecessor.cursor.clone().next();
        let key = self.qname.key();
        if successor.is_some_and(|successor| successor.is_at_or_below(key)) {
            // RFC 4592 2.2.2: an empty non-terminal exists, without data.
            self.deny(Denied::EmptyNonTerminal { predecessor: &predecessor.cursor });
            return self.negative(Rcode::NOERROR);
        }
        let common = successor.map_or(0, |successor| successor.common_len(key)).max(predecessor.entry.common_len(key));
        let encloser_len = ancestor_len(key, common);
        if let Some(step) = self.match_wildcard(encloser_len, &predecessor.cursor)? {
            return Ok(step);
        }
        self.deny(Denied::Name { encloser_len, predecessor: &predecessor.cursor });
        self.negative(Rcode::NXDOMAIN)
    }

    /// Adds the SOA record with the TTL of negative answers (RFC 2308 2, 3, 5).
    pub(super) fn negative(&mut self, rcode: Rcode) -> Result<Step, Full> {
        let apex_labels = self.zone.apex_labels();
        self.count_for(apex_labels);
        let (mut soa, ttl) = self.zone.negative_soa();
        soa.ttl = ttl;
        let apex = self.zone.apex_has_upper_case().then(|| self.zone.apex_entry());
        let mut owner = match &apex {
            Some(apex) => OwnerName::in_zone_case(self.zone, apex, true, self.offsets(apex_labels)),
            None => OwnerName::at(self.offsets(apex_labels)),
        };
        if self.message.push(Section::Authority, &soa, &mut owner, self.dnssec).is_err() {
            self.message.set_truncated();
        }
        Ok(Step::Done(rcode))
    }
}
