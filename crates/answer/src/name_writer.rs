//! Owner names: a compression pointer where one reaches the name, and the name itself elsewhere.
//!
//! A name is spelled out where it is not in the message yet, where it is past the reach of pointers, and where the message
//! has it in another case than the zone (RFC 4343 4.1).

use wire::name::skip_name;
use zone::rrset::{MAX_POINTER, MessageOffsets};
use zone::tree::TreeEntry;
use zone::{OWNER_BUFFER_LEN, Zone};

/// The owner of records to be written.
#[derive(Clone, Copy)]
pub(crate) struct OwnerName<'e, 'z> {
    /// Where the message has the owner, in the right case unless `unwritten`, and the apex.
    pub(crate) offsets: MessageOffsets,
    /// The zone's entry of this name, to be spelled out by the next record.
    unwritten: Option<(&'z Zone, &'e TreeEntry<'z>)>,
}

/// A name as a record starts with it.
pub(crate) struct SpelledName {
    octets: [u8; OWNER_BUFFER_LEN],
    len: usize,
    /// Where its labels below the apex end.
    apex_start: usize,
    /// Whether it ends in a pointer to the apex.
    points_to_apex: bool,
}

impl<'e, 'z> OwnerName<'e, 'z> {
    /// A name that the message has.
    #[inline]
    pub(crate) fn at(offsets: MessageOffsets) -> OwnerName<'e, 'z> {
        OwnerName { offsets, unwritten: None }
    }

    /// The name of a zone's entry, which the message does not have.
    #[inline]
    pub(crate) fn of_entry(zone: &'z Zone, entry: &'e TreeEntry<'z>, apex: usize) -> OwnerName<'e, 'z> {
        let offsets = MessageOffsets { owner: apex, apex };
        let is_written = entry.key_len() == 0 && !zone.apex_has_upper_case();
        OwnerName { offsets, unwritten: (!is_written).then_some((zone, entry)) }
    }

    /// The name of a zone's entry, which the message has in the case of the query.
    #[inline]
    pub(crate) fn in_zone_case(
        zone: &'z Zone,
        entry: &'e TreeEntry<'z>,
        has_upper_case: bool,
        offsets: MessageOffsets,
    ) -> OwnerName<'e, 'z> {
        OwnerName { offsets, unwritten: has_upper_case.then_some((zone, entry)) }
    }

    /// Whether a pointer will do.
    #[inline]
    pub(crate) fn is_pointer(&self) -> bool {
        self.unwritten.is_none() && self.offsets.owner <= MAX_POINTER
    }

    /// Spells the name out for a record of `message`.
    pub(crate) fn spell(&self, message: &[u8]) -> SpelledName {
        let mut name = SpelledName { octets: [0; OWNER_BUFFER_LEN], len: 0, apex_start: 0, points_to_apex: false };
        match self.unwritten {
            Some((zone, entry)) => {
                let apex = Some(self.offsets.apex).filter(|&apex| apex <= MAX_POINTER && !zone.apex_has_upper_case());
                name.points_to_apex = apex.is_some();
                (name.apex_start, name.len) = zone.write_owner(entry, apex, &mut name.octets);
            }
            None => {
                let start = self.offsets.owner;
                let end = skip_name(message, start).expect("owners are written whole");
                name.len = end - start;
                name.octets[..name.len].copy_from_slice(&message[start..end]);
            }
        }
        name
    }

    /// Notes that `name` was written at `start`: the next records point there if a pointer reaches it.
    pub(crate) fn written(&mut self, name: &SpelledName, start: usize) {
        if start <= MAX_POINTER {
            self.offsets = self.offsets_after(name, start);
            self.unwritten = None;
        }
    }

    /// Where the message has the owner and the apex after `name` was written at `start`.
    pub(crate) fn offsets_after(&self, name: &SpelledName, start: usize) -> MessageOffsets {
        match self.unwritten {
            None => self.offsets,
            Some(_) if name.points_to_apex => MessageOffsets { owner: start, ..self.offsets },
            Some(_) => MessageOffsets { owner: start, apex: start + name.apex_start },
        }
    }
}

impl SpelledName {
    /// The name in wire form; it may end in a pointer.
    pub(crate) fn octets(&self) -> &[u8] {
        &self.octets[..self.len]
    }
}
