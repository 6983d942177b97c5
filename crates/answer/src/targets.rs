//! Where a message has the names in the RDATA of an RRset, such as name servers and mail exchangers.

use wire::Rtype;
use wire::name::skip_name;
use zone::rrset::{RECORD_HEAD_LEN, Rrset};

use crate::message_writer::MAX_COMPRESSED_RRSET;

/// The targets of an RRset of NS or MX records in a message.
pub(crate) struct WrittenTargets<I> {
    stored: I,
    /// Where the set starts: see [`MessageWriter::push`](crate::message_writer::MessageWriter::push).
    start: usize,
    /// Where the next record would start with a pointer as owner; only for sets that were written record by record.
    head: usize,
    /// The octets of RDATA that precede the target.
    skip: usize,
}

/// The targets of `rrset`, which was written at `start`.
#[inline]
pub(crate) fn written_targets<'z>(
    rrset: &Rrset<'z>,
    start: usize,
) -> WrittenTargets<impl Iterator<Item = (bool, usize)> + use<'z>> {
    let skip = if rrset.rtype == Rtype::MX { 2 } else { 0 };
    WrittenTargets { stored: rrset.targets(), start, head: start, skip }
}

impl<I: Iterator<Item = (bool, usize)>> WrittenTargets<I> {
    /// The offset of the next target that is at or below the apex.
    #[inline]
    pub(crate) fn next_in_zone(&mut self, message: &[u8]) -> Option<usize> {
        loop {
            let (in_zone, offset) = self.stored.next()?;
            let at = if self.start <= MAX_COMPRESSED_RRSET { self.start + offset } else { self.walk(message)? };
            if in_zone {
                return Some(at);
            }
        }
    }

    /// The offset of the next target of a set whose records may be longer than stored.
    #[cold]
    fn walk(&mut self, message: &[u8]) -> Option<usize> {
        let rdata = self.head + RECORD_HEAD_LEN;
        let len = u16::from_be_bytes([*message.get(rdata - 2)?, *message.get(rdata - 1)?]);
        // Nothing follows the last record.
        self.head = next_head(message, self.head, len.into()).unwrap_or(message.len());
        Some(rdata + self.skip)
    }
}

/// Where the record after the one at `head` would start with a pointer as owner: past the reach of pointers, each spells
/// its owner out.
pub(crate) fn next_head(message: &[u8], head: usize, rdata_len: usize) -> Option<usize> {
    skip_name(message, head + RECORD_HEAD_LEN + rdata_len).map(|end| end - 2)
}
