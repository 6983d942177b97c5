//! Glue: the addresses of a cut's name servers, where the zone has them (RFC 9471).

use zone::Zone;
use zone::rrset::{MAX_POINTER, MessageOffsets, Rrset};
use zone::tree::{TreeCursor, TreeEntry};

use crate::additional::push_addresses;
use crate::message_writer::{Full, MessageWriter};
use crate::qname::Qname;
use crate::targets::written_targets;
use crate::zone_cut::ZonePosition;

/// The NS RRset of a cut as it was written.
pub(crate) struct Glue<'g, 'z> {
    pub(crate) zone: &'z Zone,
    pub(crate) cut: &'g ZonePosition<'z>,
    pub(crate) ns: &'g Rrset<'z>,
    /// Where the message has the RRset.
    pub(crate) ns_at: usize,
    /// Where the message has the cut and the apex.
    pub(crate) offsets: MessageOffsets,
    pub(crate) dnssec: bool,
}

/// How much glue was added.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum GlueAdded {
    /// There is none: no name server is in the zone.
    None,
    /// Some sibling glue did not fit.
    Partial,
    /// All there is.
    All,
}

/// Where the zone has a name server.
enum NameServer<'z> {
    /// Not at or below the cut.
    Sibling,
    /// At or below the cut, without an entry.
    Missing,
    /// At or below the cut.
    InDomain(TreeEntry<'z>),
}

impl<'z> Glue<'_, 'z> {
    /// Adds the addresses. In-domain glue must all fit, or the response is truncated (RFC 9471 3.1); sibling glue follows
    /// as far as it fits (3.2).
    #[inline]
    pub(crate) fn push(&self, message: &mut MessageWriter<'_>) -> Result<GlueAdded, Full> {
        let (mut added, mut has_siblings) = (GlueAdded::None, false);
        let mut previous = self.cut.cursor.clone();
        let mut targets = written_targets(self.ns, self.ns_at);
        while let Some(at) = targets.next_in_zone(message.out) {
            added = GlueAdded::All;
            match self.find(&mut previous, at, message.out) {
                NameServer::Sibling => has_siblings = true,
                NameServer::Missing => {}
                NameServer::InDomain(entry) => self.push_server(&entry, at, message)?,
            }
        }
        if has_siblings && !self.push_siblings(message) {
            added = GlueAdded::Partial;
        }
        Ok(added)
    }

    fn push_server(&self, entry: &TreeEntry<'z>, name_at: usize, message: &mut MessageWriter<'_>) -> Result<(), Full> {
        let offsets = MessageOffsets { owner: name_at, ..self.offsets };
        if push_addresses(&self.zone.node(entry), offsets, self.dnssec, message) { Ok(()) } else { Err(Full) }
    }

    /// Finds the name server whose name is at `at` of the message. Name servers are sorted like the tree, so it is mostly
    /// the entry after the previous one.
    #[inline]
    fn find(&self, previous: &mut TreeCursor<'z>, at: usize, message: &[u8]) -> NameServer<'z> {
        let mut next = previous.clone();
        if let Some(entry) = next.next()
            && self.is_name_of(&entry, at, message)
        {
            *previous = next;
            return NameServer::InDomain(entry);
        }
        let mut name = Qname::new();
        if !self.read_server(&mut name, at, message) {
            return NameServer::Missing;
        }
        if !self.cut.entry.is_prefix_of(name.key()) {
            return NameServer::Sibling;
        }
        match previous.find(name.key()) {
            Some(found) => {
                let entry = found.entry();
                *previous = found;
                entry.map_or(NameServer::Missing, NameServer::InDomain)
            }
            None => NameServer::Missing,
        }
    }

    /// Reads the name at `at` of the message and sets its key; returns whether it can be in the zone. The check of a stored image
    /// does not include whether names marked as in the zone are.
    fn read_server(&self, name: &mut Qname, at: usize, message: &[u8]) -> bool {
        let is_long = name.read_compressed(message, at).is_some() && name.labels() >= self.zone.apex_labels();
        if is_long {
            name.set_key(self.zone.apex_labels());
        }
        is_long
    }

    /// Whether the name at `at` of the message is that of the entry. A quick test with false negatives: it recognizes names
    /// that end in a pointer to the cut, in lower case, without escapes, and in the same leaf as the cut.
    #[inline]
    fn is_name_of(&self, entry: &TreeEntry<'_>, mut at: usize, message: &[u8]) -> bool {
        let mut room = [0; _];
        // The part of the key below the cut; labels are removed from its end.
        let Some(mut rest) = entry.key_below(&self.cut.entry, &mut room) else { return false };
        // By hand, as most referrals come here: most names are a label or two and a pointer to the cut, which ends the comparison.
        // No name has more labels and pointers.
        for _ in 0..wire::MAX_NAME_LEN {
            let Some(&len) = message.get(at) else { return false };
            let len = usize::from(len);
            if len & 0xc0 != 0 {
                let Some(&low) = message.get(at + 1) else { return false };
                at = (len << 8 | usize::from(low)) & MAX_POINTER;
                if at == self.offsets.owner {
                    return rest.is_empty();
                }
                continue;
            }
            let Some((before, [label @ .., 0])) = rest.len().checked_sub(len + 1).map(|start| rest.split_at(start))
            else {
                return false;
            };
            // Escaped octets make a label of the key look like another, or like two.
            if message.get(at + 1..at + 1 + len) != Some(label) || label.iter().any(|&octet| octet <= 1) {
                return false;
            }
            rest = before;
            at += 1 + len;
        }
        false
    }

    /// Adds sibling glue; returns whether all of it fits.
    #[cold]
    fn push_siblings(&self, message: &mut MessageWriter<'_>) -> bool {
        let (mut name, mut all_fit) = (Qname::new(), true);
        let mut near: Option<TreeCursor<'z>> = None;
        let mut targets = written_targets(self.ns, self.ns_at);
        while let Some(at) = targets.next_in_zone(message.out) {
            if !self.read_server(&mut name, at, message.out) || self.cut.entry.is_prefix_of(name.key()) {
                continue;
            }
            let found = match &near {
                Some(near) => near.find(name.key()),
                None => Some(self.zone.seek(name.key())).filter(TreeCursor::is_exact),
            };
            if let Some(entry) = found.as_ref().and_then(TreeCursor::entry) {
                all_fit &= self.push_server(&entry, at, message).is_ok();
                near = found;
            }
        }
        all_fit
    }
}
