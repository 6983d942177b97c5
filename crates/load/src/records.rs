//! Iterates over the records of a message without allocation.

use wire::name::skip_name;
use wire::{HEADER_LEN, Rtype};

/// A record of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordView<'m> {
    /// 0 answer, 1 authority, 2 additional.
    pub section: u8,
    pub rtype: Rtype,
    /// Its RDATA as in the message, with compressed names.
    pub rdata: &'m [u8],
}

/// The records of a message of at least a header, up to the first malformed one.
pub fn records(message: &[u8]) -> impl Iterator<Item = RecordView<'_>> {
    let count = |at: usize| usize::from(u16::from_be_bytes([message[at], message[at + 1]]));
    let mut at = Some(HEADER_LEN);
    for _ in 0..count(4) {
        at = at.and_then(|at| skip_name(message, at)).map(|end| end + 4);
    }
    let sections = [(0, count(6)), (1, count(8)), (2, count(10))];
    let sections = sections.into_iter().flat_map(|(section, count)| std::iter::repeat_n(section, count));
    sections.map_while(move |section| {
        let head = skip_name(message, at?)?;
        let [type_high, type_low, .., len_high, len_low] = *message.get(head..)?.first_chunk::<10>()?;
        let end = head + 10 + usize::from(u16::from_be_bytes([len_high, len_low]));
        at = Some(end);
        let rtype = Rtype(u16::from_be_bytes([type_high, type_low]));
        Some(RecordView { section, rtype, rdata: message.get(head + 10..end)? })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: &[u8] = b"\x00\x00\x80\x00\x00\x01\x00\x01\x00\x00\x00\x01\
        \x01a\x00\x00\x01\x00\x01\
        \xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\xc0\x00\x02\x01\
        \x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x00";

    #[test]
    fn every_record_is_returned_once() {
        let found: Vec<_> = records(MESSAGE).collect();
        assert_eq!(
            found,
            [
                RecordView { section: 0, rtype: Rtype::A, rdata: &[192, 0, 2, 1] },
                RecordView { section: 2, rtype: Rtype::OPT, rdata: &[] },
            ]
        );
    }

    #[test]
    fn truncated_messages_end_the_iteration() {
        for len in HEADER_LEN..MESSAGE.len() {
            assert!(records(&MESSAGE[..len]).count() < 2, "{len}");
        }
    }
}
