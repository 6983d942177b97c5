//! Glue: the addresses of the name servers of a cut that stand in the zone itself (RFC 9471).

use zone::Zone;
use zone::canonical_key::CanonicalKey;
use zone::rrset::{MAX_POINTER, MessageOffsets, Rrset};
use zone::tree::{TreeCursor, TreeEntry};

use crate::additional::{address_sets, push_addresses};
use crate::message::{Full, Message, Section};
use crate::qname::Qname;

/// The NS set of a cut as it was written.
pub(crate) struct Glue<'g, 'z> {
    pub(crate) zone: &'z Zone,
    pub(crate) ns: &'g Rrset<'z>,
    /// Where the set stands in the message.
    pub(crate) ns_at: usize,
    /// Where the cut and the apex stand in the message.
    pub(crate) place: MessageOffsets,
    pub(crate) dnssec: bool,
}

impl<'z> Glue<'_, 'z> {
    /// Adds the addresses. Those of servers at or below the cut must all be there, or the answer is truncated
    /// (RFC 9471 3.1); others, sibling glue, come behind them as they fit (3.2).
    #[inline]
    pub(crate) fn push(
        &self,
        cut: &TreeEntry<'z>,
        cursor: TreeCursor<'z>,
        message: &mut Message<'_>,
    ) -> Result<Added, Full> {
        let (mut added, mut has_siblings) = (Added::None, false);
        let mut below = cursor;
        for (in_zone, offset) in self.ns.targets() {
            if !in_zone {
                continue;
            }
            added = Added::All;
            match self.find_below(cut, &mut below, self.ns_at + offset, message) {
                Target::Sibling => has_siblings = true,
                Target::Missing => {}
                Target::Below(entry) => self.push_of(&entry, self.ns_at + offset, message)?,
            }
        }
        if has_siblings && !self.push_siblings(cut, message) {
            added = Added::Some;
        }
        Ok(added)
    }

    fn push_of(&self, entry: &TreeEntry<'z>, owner: usize, message: &mut Message<'_>) -> Result<(), Full> {
        let node = self.zone.node(entry);
        if owner > MAX_POINTER {
            let push = |set| message.push_far(Section::Additional, self.zone, entry, &set, self.place.apex, false);
            return address_sets(&node).try_for_each(push);
        }
        let place = MessageOffsets { owner, ..self.place };
        if push_addresses(&node, place, self.dnssec, message) { Ok(()) } else { Err(Full) }
    }

    /// Finds the owner of the glue for the name at `at`. Name servers sort as the tree does, so it is mostly the next entry.
    #[inline]
    fn find_below(
        &self,
        cut: &TreeEntry<'z>,
        below: &mut TreeCursor<'z>,
        at: usize,
        message: &Message<'_>,
    ) -> Target<'z> {
        let mut next = below.clone();
        if let Some(entry) = next.next()
            && self.is_name_of(&entry, cut, at, message.out)
        {
            *below = next;
            return Target::Below(entry);
        }
        let (mut name, mut key) = (Qname::new(), CanonicalKey::new());
        if name.read_written(message.out, at).is_none() {
            return Target::Missing;
        }
        key.set(name.wire(), self.zone.apex().wire().len());
        if !cut.is_prefix_of(key.as_bytes()) {
            return Target::Sibling;
        }
        match below.find(key.as_bytes()) {
            Some(found) => {
                let entry = found.entry();
                *below = found;
                entry.map_or(Target::Missing, Target::Below)
            }
            None => Target::Missing,
        }
    }

    /// Whether the name at `at` of the message is that of the entry. Only names that end in a pointer to the cut are
    /// recognized, in lower case and without escapes, and only in the leaf of the cut: of all others this says no.
    #[inline]
    fn is_name_of(&self, entry: &TreeEntry<'_>, cut: &TreeEntry<'_>, mut at: usize, message: &[u8]) -> bool {
        if !std::ptr::eq(entry.prefix, cut.prefix) {
            return false;
        }
        // What the key has below the cut; labels are taken from its end.
        let Some(mut rest) = entry.suffix.strip_prefix(cut.suffix) else { return false };
        // As many steps as a name has labels and pointers.
        for _ in 0..wire::MAX_NAME_LEN {
            let Some(&len) = message.get(at) else { return false };
            let len = usize::from(len);
            if len & 0xc0 != 0 {
                let Some(&low) = message.get(at + 1) else { return false };
                at = (len << 8 | usize::from(low)) & MAX_POINTER;
                if at == self.place.owner {
                    return rest.is_empty();
                }
                continue;
            }
            let Some((before, [label @ .., 0])) = rest.len().checked_sub(len + 1).map(|start| rest.split_at(start))
            else {
                return false;
            };
            // Octets that keys escape may look like another label in a key, or like two.
            if message.get(at + 1..at + 1 + len) != Some(label) || label.iter().any(|&octet| octet <= 1) {
                return false;
            }
            rest = before;
            at += 1 + len;
        }
        false
    }

    /// Adds the addresses of servers that stand elsewhere in the zone; returns whether all of them fit.
    #[cold]
    fn push_siblings(&self, cut: &TreeEntry<'z>, message: &mut Message<'_>) -> bool {
        let (mut name, mut key, mut fit) = (Qname::new(), CanonicalKey::new(), true);
        let mut near: Option<TreeCursor<'z>> = None;
        for (_, offset) in self.ns.targets().filter(|(in_zone, _)| *in_zone) {
            let at = self.ns_at + offset;
            if name.read_written(message.out, at).is_none() {
                continue;
            }
            key.set(name.wire(), self.zone.apex().wire().len());
            if cut.is_prefix_of(key.as_bytes()) {
                continue;
            }
            let found = match &near {
                Some(near) => near.find(key.as_bytes()),
                None => Some(self.zone.seek(key.as_bytes())).filter(TreeCursor::is_exact),
            };
            if let Some(entry) = found.as_ref().and_then(TreeCursor::entry) {
                fit &= self.push_of(&entry, at, message).is_ok();
                near = found;
            }
        }
        fit
    }
}

/// What became of the addresses.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Added {
    /// No name server is in the zone.
    None,
    /// Some did not fit.
    Some,
    /// All that there are.
    All,
}

/// Where the name of a name server is.
enum Target<'z> {
    /// Not at or below the cut.
    Sibling,
    /// At or below the cut, without an entry.
    Missing,
    /// At or below the cut.
    Below(TreeEntry<'z>),
}
