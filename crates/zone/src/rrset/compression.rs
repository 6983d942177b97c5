//! Name compression (RFC 1035 4.1.4) inside a stored RRset: replaces the longest possible suffix of a name by a relocatable pointer.
//!
//! A name may point to the owner, to the apex, or to an earlier name of the same RRset. Writing the set into a message only adds
//! the offset that the pointer is relative to: see `write`.

use wire::NameRef;
use wire::name::LabelOffsets;

use super::{BASE_APEX, BASE_OWNER, BASE_RRSET, ENDS_IN_POINTER, IN_ZONE, make_pointer};

/// Relocatable pointers have offsets of 12 bits: names further into a set cannot be pointed to.
pub const MAX_RRSET_OFFSET: usize = 0x0fff;
/// How many names of a set a later name is compared with.
const MAX_TARGETS: usize = 24;

/// Compresses the names of one RRset.
#[derive(Default)]
pub(super) struct NameCompressor {
    targets: Vec<PointerTarget>,
    /// The uncompressed wire form of all targets, concatenated.
    names: Vec<u8>,
}

/// A name of the set that later names may point to.
struct PointerTarget {
    /// Start and end of its wire form in `names`.
    start: usize,
    end: usize,
    /// How many octets of it are stored literally; a pointer replaces the rest.
    literal: usize,
    /// Its offset in the message, relative to the start of the set.
    message_offset: usize,
}

/// A name with the offsets of its labels.
pub(super) struct SplitName<'n> {
    pub(super) wire: &'n [u8],
    labels: LabelOffsets,
}

impl NameCompressor {
    pub(super) fn clear(&mut self) {
        self.targets.clear();
        self.names.clear();
    }

    /// Appends `name` to `out`, as short as pointers make it; returns the flags of an RDATA that ends in it. The name is at
    /// `message_offset` from the start of the set as written in a message; later names may point to it if `is_target`.
    pub(super) fn push(
        &mut self,
        owner: &SplitName<'_>,
        apex_len: usize,
        name: &[u8],
        message_offset: usize,
        is_target: bool,
        out: &mut Vec<u8>,
    ) -> u16 {
        let name = SplitName::new(name);
        let common_len = name.common_suffix_len(owner);
        let mut flags = if common_len >= apex_len { IN_ZONE } else { 0 };
        let (suffix_len, pointer) = self.longest_suffix(owner, apex_len, &name, common_len);
        let literal = name.wire.len() - if pointer.is_some() { suffix_len } else { 0 };
        out.extend_from_slice(&name.wire[..literal]);
        if let Some(pointer) = pointer {
            out.extend_from_slice(&pointer);
            flags |= ENDS_IN_POINTER;
        }
        let is_reachable = message_offset + literal <= MAX_RRSET_OFFSET;
        if is_target && literal > 1 && self.targets.len() < MAX_TARGETS && is_reachable {
            let start = self.names.len();
            self.names.extend_from_slice(name.wire);
            self.targets.push(PointerTarget { start, end: self.names.len(), literal, message_offset });
        }
        flags
    }

    /// The length of the longest suffix of `name` that a pointer can replace, and that pointer.
    fn longest_suffix(
        &self,
        owner: &SplitName<'_>,
        apex_len: usize,
        name: &SplitName<'_>,
        common_len: usize,
    ) -> (usize, Option<[u8; 2]>) {
        // The whole owner or apex only: in a message their labels may be split by a pointer. RFC 5936 3.4: and only in the
        // same case.
        let ends_in = |suffix: &[u8]| common_len >= suffix.len() && name.wire.ends_with(suffix);
        let apex = &owner.wire[owner.wire.len() - apex_len..];
        let mut best = match () {
            _ if owner.wire.len() > apex_len && ends_in(owner.wire) => {
                (owner.wire.len(), Some(make_pointer(BASE_OWNER, 0)))
            }
            // The root label alone is shorter than a pointer.
            _ if apex_len > 1 && ends_in(apex) => (apex_len, Some(make_pointer(BASE_APEX, 0))),
            _ => (1, None),
        };
        for target in &self.targets {
            let start = name.common_suffix_start(&self.names[target.start..target.end]);
            let Some(start) = start.filter(|&start| start < target.literal) else { continue };
            let len = target.end - target.start - start;
            if len > best.0 {
                best = (len, Some(make_pointer(BASE_RRSET, target.message_offset + start)));
            }
        }
        best
    }
}

impl<'n> SplitName<'n> {
    pub(super) fn new(wire: &'n [u8]) -> SplitName<'n> {
        SplitName { wire, labels: LabelOffsets::new(wire) }
    }

    /// The length of the longest common suffix of both names in any case, in octets with the root label.
    fn common_suffix_len(&self, other: &SplitName<'_>) -> usize {
        let mut len = 1;
        for (&start, &other_start) in self.labels.as_slice().iter().rev().zip(other.labels.as_slice().iter().rev()) {
            let (suffix, theirs) = (&self.wire[usize::from(start)..], &other.wire[usize::from(other_start)..]);
            if suffix.len() != theirs.len() || !suffix.eq_ignore_ascii_case(theirs) {
                break;
            }
            len = suffix.len();
        }
        len
    }

    /// The offset in `target` of the longest suffix that both names have in the same case; the root label does not count.
    fn common_suffix_start(&self, target: &[u8]) -> Option<usize> {
        let mut suffixes = NameRef::from_valid_wire(target).suffixes().map(NameRef::wire);
        let common = suffixes.find(|suffix| {
            let start = self.wire.len().checked_sub(suffix.len());
            start.is_some_and(|start| self.labels.as_slice().contains(&(start as u8)) && self.wire[start..] == **suffix)
        })?;
        Some(target.len() - common.len())
    }
}
