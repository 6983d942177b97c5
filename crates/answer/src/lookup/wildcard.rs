//! Wildcard expansion (RFC 4592).

use wire::Rtype;
use wire::message::Rcode;
use zone::canonical_key::label_count;
use zone::rrset::ZoneNode;
use zone::tree::TreeCursor;

use super::{Lookup, Step};
use crate::denial::Denied;
use crate::message_writer::Full;
use crate::name_writer::OwnerName;

impl<'z> Lookup<'_, 'z, '_> {
    /// Answers from the wildcard directly below the closest encloser, if there is one, and from no other (RFC 4592 3.3.1).
    /// The key becomes that of the wildcard.
    #[inline]
    pub(super) fn match_wildcard(
        &mut self,
        encloser_len: usize,
        predecessor: &TreeCursor<'z>,
    ) -> Result<Option<Step>, Full> {
        if !self.zone.has_wildcards() {
            return Ok(None);
        }
        self.qname.set_wildcard_key(encloser_len);
        let mut wildcard = self.zone.seek(self.qname.key());
        let node = wildcard.entry().filter(|_| wildcard.is_exact()).map(|entry| self.zone.node(&entry));
        // RFC 4592 4.9: an empty non-terminal can be a wildcard too.
        let exists = node.is_some() || wildcard.next().is_some_and(|next| next.is_at_or_below(self.qname.key()));
        if !exists {
            return Ok(None);
        }
        self.expand(node, encloser_len, predecessor).map(Some)
    }

    /// RFC 4592 3.3: answers with the wildcard's records, owned by the name. An empty non-terminal has no node.
    fn expand(
        &mut self,
        node: Option<ZoneNode<'z>>,
        encloser_len: usize,
        predecessor: &TreeCursor<'z>,
    ) -> Result<Step, Full> {
        self.count_for(self.zone.apex_labels() + label_count(&self.qname.key()[..encloser_len]));
        if let Some(node) = node.filter(|node| node.is_cut() && self.qtype != Rtype::DS) {
            return self.refer_wildcard(&node, encloser_len, predecessor);
        }
        // RFC 1034 4.3.2 step 3c: the owner is the name of the query, in its case.
        let owner = OwnerName::at(self.offsets(self.qname.labels()));
        if let Some(node) = node
            && let Some(step) = self.answer_from(&node, owner, true)?
        {
            self.deny(Denied::WildcardAnswer { encloser_len, predecessor });
            return Ok(step);
        }
        self.deny(Denied::WildcardType { encloser_len, predecessor });
        self.negative(Rcode::NOERROR)
    }
}
