//! Names at or below a zone cut: referrals.

use wire::Rtype;
use wire::message::Rcode;
use zone::rrset::ZoneNode;
use zone::tree::{TreeCursor, TreeEntry};
use zone::{Denial, Zone};

use super::{Lookup, Step, WrittenRrset};
use crate::denial::Denied;
use crate::glue::{Glue, GlueAdded};
use crate::message_writer::{Full, Section};
use crate::name_writer::OwnerName;
use crate::referral_cache::CutId;
use crate::zone_cut::find_cut_above;

impl<'z> Lookup<'_, 'z, '_> {
    /// Answers for a name that is a cut or DNAME owner, or below one; `None` if it is authoritative data.
    pub(super) fn at_or_below_cut(
        &mut self,
        zone: &'z Zone,
        cursor: &TreeCursor<'z>,
        entry: &TreeEntry<'z>,
        node: &ZoneNode<'z>,
    ) -> Result<Option<Step>, Full> {
        if cursor.is_exact() && !node.is_occluded() {
            // RFC 4035 3.1.4.1: the parent side of the cut answers for DS. RFC 6672 2.3: a DNAME does not redirect its owner.
            let refers = node.is_cut() && self.qtype != Rtype::DS;
            return if refers { self.refer(zone, node, entry, cursor.clone()).map(Some) } else { Ok(None) };
        }
        let Some((cursor, entry, node)) = find_cut_above(zone, cursor, self.key.as_bytes()) else { return Ok(None) };
        if node.is_cut() {
            return self.refer(zone, &node, &entry, cursor).map(Some);
        }
        self.redirect(zone, &node, &entry).map(Some)
    }

    /// RFC 1034 4.3.2 step 3b: the NS RRset of the cut, its DS RRset or the proof that there is none (RFC 4035 3.1.4), and
    /// glue.
    fn refer(
        &mut self,
        zone: &'z Zone,
        node: &ZoneNode<'z>,
        entry: &TreeEntry<'z>,
        cursor: TreeCursor<'z>,
    ) -> Result<Step, Full> {
        let labels = zone.apex_labels() + entry.label_count();
        self.count_for(labels);
        let mut owner = self.owner(zone, node, entry, labels);
        let cut_at = owner.place.owner;
        let (cut, start) = (CutId::new(entry, self.dnssec), self.message.at);
        let is_first = self.message.counts == [0; 3];
        if is_first && self.referral_cache.write(cut, cut_at, self.message) {
            return Ok(Step::Done(Rcode::NOERROR));
        }
        let Some(ns) = node.rrset(Rtype::NS) else { return Ok(Step::Done(Rcode::NOERROR)) };
        let ns_at = self.message.push(Section::Authority, &ns, ns.ttl, &mut owner, false)?;
        let is_signed = self.dnssec && *zone.denial() != Denial::None;
        if is_signed {
            match node.rrset(Rtype::DS) {
                Some(ds) => _ = self.message.push(Section::Authority, &ds, ds.ttl, &mut owner, true)?,
                None => self.deny(zone, Denied::Type { labels, entry, node }),
            }
        }
        self.proofs.write(self.message)?;
        let glue = Glue { zone, ns: &ns, ns_at, place: owner.place, dnssec: self.dnssec };
        let added = glue.push(entry, cursor, self.message)?;
        // A referral without glue and proofs is as cheap to write as to copy.
        if is_first && (added == GlueAdded::All || added == GlueAdded::None && is_signed) {
            self.referral_cache.note(cut, cut_at, self.message, start);
        }
        Ok(Step::Done(Rcode::NOERROR))
    }

    /// RFC 4592 4.2 leaves NS records of a wildcard undefined; here they delegate each name that the wildcard matches.
    pub(super) fn refer_wildcard(
        &mut self,
        zone: &'z Zone,
        node: &ZoneNode<'z>,
        encloser_len: usize,
        predecessor: TreeCursor<'z>,
    ) -> Result<Step, Full> {
        let Some(ns) = node.rrset(Rtype::NS) else { return Ok(Step::Done(Rcode::NOERROR)) };
        self.authoritative = self.message.counts[Section::Answer as usize] > 0;
        let mut owner = OwnerName::at(self.place(zone, self.qname.labels()));
        let at = self.message.push(Section::Authority, &ns, ns.ttl, &mut owner, false)?;
        self.answered = Some(WrittenRrset { zone, rrset: ns, at });
        if !self.dnssec || *zone.denial() == Denial::None {
            return Ok(Step::Done(Rcode::NOERROR));
        }
        // RFC 4035 3.1.4: the wildcard's DS RRset and the proof that it is a wildcard's, or the proof that there is none.
        match node.rrset(Rtype::DS) {
            Some(ds) => {
                self.message.push(Section::Authority, &ds, ds.ttl, &mut owner, true)?;
                self.deny(zone, Denied::WildcardAnswer { encloser_len, predecessor });
            }
            None => self.deny(zone, Denied::WildcardType { encloser_len, predecessor }),
        }
        Ok(Step::Done(Rcode::NOERROR))
    }
}
