//! Names at or below a zone cut: referrals.

use wire::Rtype;
use wire::message::{Rcode, Section};
use zone::Denial;
use zone::rrset::ZoneNode;
use zone::tree::TreeCursor;

use super::{Lookup, Step};
use crate::denial::Denied;
use crate::glue::{Glue, GlueAdded};
use crate::message_writer::Full;
use crate::name_writer::OwnerName;
use crate::referral_cache::{CutHash, CutId};
use crate::zone_cut::{ZonePosition, find_occluding_cut};

impl<'z> Lookup<'_, 'z, '_> {
    /// Answers for a name that is a cut or DNAME owner, or below one; `None` if it is authoritative data. `nearest` is the
    /// name or its predecessor.
    pub(super) fn at_or_below_cut(&mut self, nearest: &ZonePosition<'z>) -> Result<Option<Step>, Full> {
        if nearest.node.is_occluded() {
            let Some(cut) = find_occluding_cut(self.zone, nearest, self.qname.key()) else { return Ok(None) };
            return self.leave_zone(&cut).map(Some);
        }
        // RFC 4035 3.1.4.1: the parent side of the cut answers for DS. RFC 6672 2.3: a DNAME does not redirect its owner.
        let leaves_zone = match nearest.cursor.is_exact() {
            true => nearest.node.is_cut() && self.qtype != Rtype::DS,
            false => !nearest.node.is_plain() && nearest.is_above(self.qname.key()),
        };
        if leaves_zone { self.leave_zone(nearest).map(Some) } else { Ok(None) }
    }

    /// Answers with the cut or DNAME owner.
    #[inline]
    fn leave_zone(&mut self, cut: &ZonePosition<'z>) -> Result<Step, Full> {
        if cut.node.is_cut() { self.refer(cut) } else { self.redirect(cut) }
    }

    /// RFC 1034 4.3.2 step 3b: the NS RRset of the cut, its DS RRset or the proof that there is none (RFC 4035 3.1.4), and
    /// glue.
    fn refer(&mut self, cut: &ZonePosition<'z>) -> Result<Step, Full> {
        let labels = self.label_count(cut);
        let is_first = self.message.counts == [0; 3];
        let cached_as = (is_first && self.referral_cache.takes_part()).then(|| self.cut_hash(labels));
        if let Some(hash) = cached_as {
            if self.refer_from_cache(labels, hash) {
                return Ok(Step::Done(Rcode::NOERROR));
            }
            self.referral_cache.count(false);
        }
        let mut owner = self.owner(cut, labels);
        let start = self.message.at;
        let Some(ns) = cut.node.rrset(Rtype::NS) else { return Ok(Step::Done(Rcode::NOERROR)) };
        let ns_at = self.message.push(Section::Authority, &ns, &mut owner, false)?;
        self.has_referral = true;
        let is_signed = self.dnssec && *self.zone.denial() != Denial::None;
        if is_signed {
            match cut.node.rrset(Rtype::DS) {
                Some(ds) => _ = self.message.push(Section::Authority, &ds, &mut owner, true)?,
                None => self.deny(Denied::Type { labels, name: cut }),
            }
        }
        self.proofs.write(self.message)?;
        let glue = Glue { zone: self.zone, cut, ns: &ns, ns_at, offsets: owner.offsets, dnssec: self.dnssec };
        let added = glue.push(self.message)?;
        // A referral without glue and proofs is as cheap to write as to copy.
        let is_worth_caching = added == GlueAdded::All || added == GlueAdded::None && is_signed;
        if let Some(hash) = cached_as.filter(|_| is_worth_caching) {
            let cut = CutId { name: self.qname.suffix(labels), hash };
            self.referral_cache.note(cut, self.qname.offset(labels), self.message, start);
        }
        Ok(Step::Done(Rcode::NOERROR))
    }

    /// Answers with a cached referral to a cut just below the apex, without a search for it; returns whether there is one. The names at
    /// or below a cut that was found once all get its referral, except for DS queries at the cut (RFC 4035 3.1.4.1).
    #[inline]
    pub(super) fn refer_from_top(&mut self) -> bool {
        let (labels, asked) = (self.zone.apex_labels() + 1, self.qname.labels());
        let is_below = asked > labels || asked == labels && self.qtype != Rtype::DS;
        if !is_below || !self.referral_cache.is_effective() || self.message.counts != [0; 3] {
            return false;
        }
        let cut = self.cut_hash(labels);
        self.refer_from_cache(labels, cut)
    }

    /// Answers with the cached referral to the cut at the last `labels` labels of the name; returns whether there is one.
    #[inline]
    fn refer_from_cache(&mut self, labels: usize, hash: CutHash) -> bool {
        let cut = CutId { name: self.qname.suffix(labels), hash };
        let is_cached = self.referral_cache.write(cut, self.qname.offset(labels), self.message);
        if is_cached {
            self.referral_cache.count(true);
            self.count_for(labels);
        }
        is_cached
    }

    #[inline]
    fn cut_hash(&self, labels: usize) -> CutHash {
        CutHash::new(self.qname.suffix(labels), self.zone.version(), self.dnssec)
    }

    /// RFC 4592 4.2 leaves NS records of a wildcard undefined; here they delegate each name that the wildcard matches.
    pub(super) fn refer_wildcard(
        &mut self,
        node: &ZoneNode<'z>,
        encloser_len: usize,
        predecessor: &TreeCursor<'z>,
    ) -> Result<Step, Full> {
        let Some(ns) = node.rrset(Rtype::NS) else { return Ok(Step::Done(Rcode::NOERROR)) };
        self.authoritative = self.message.counts[Section::Answer as usize] > 0;
        let mut owner = OwnerName::at(self.offsets(self.qname.labels()));
        let at = self.message.push(Section::Authority, &ns, &mut owner, false)?;
        self.has_referral = true;
        self.answered = Some((ns, at));
        if !self.dnssec || *self.zone.denial() == Denial::None {
            return Ok(Step::Done(Rcode::NOERROR));
        }
        // RFC 4035 3.1.4: the wildcard's DS RRset and the proof that it is a wildcard's, or the proof that there is none.
        match node.rrset(Rtype::DS) {
            Some(ds) => {
                self.message.push(Section::Authority, &ds, &mut owner, true)?;
                self.deny(Denied::WildcardAnswer { encloser_len, predecessor });
            }
            None => self.deny(Denied::WildcardType { encloser_len, predecessor }),
        }
        Ok(Step::Done(Rcode::NOERROR))
    }
}
