//! The records of a message in place, with the owners and RDATA as they are there. Nothing is decompressed or allocated.

use crate::name::skip_name;
use crate::{Class, HEADER_LEN, Rtype};

/// The sections after the question (RFC 1035 4.1).
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    Answer = 0,
    Authority = 1,
    Additional = 2,
}

/// The records of a message with their sections, in order, up to the first one that is malformed or cut off.
#[derive(Clone, Debug)]
pub struct RawRecords<'m> {
    message: &'m [u8],
    /// Where the next one starts.
    at: usize,
    /// How many are left of each section.
    left: [u16; 3],
}

/// A record as it is in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawRecord<'m> {
    /// Where it starts, with its owner.
    pub start: usize,
    /// The type.
    pub rtype: Rtype,
    /// The class, or what OPT has in its place.
    pub class: Class,
    /// The time to live in seconds, or what OPT has in its place.
    pub ttl: u32,
    /// The RDATA. Names in it may be compressed.
    pub rdata: &'m [u8],
    /// Where it ends.
    pub end: usize,
}

/// The octets of a record between its owner and its RDATA.
const HEAD_LEN: usize = 10;

impl<'m> RawRecords<'m> {
    /// Those of a message; `None` if its header or a question is malformed or cut off.
    pub fn of(message: &'m [u8]) -> Option<RawRecords<'m>> {
        let header: &[u8; HEADER_LEN] = message.first_chunk()?;
        let count = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let mut at = HEADER_LEN;
        for _ in 0..count(4) {
            at = skip_name(message, at)? + 4;
        }
        Some(RawRecords { message, at, left: [count(6), count(8), count(10)] })
    }

    /// How many records are left, by the counts in the header. At the end, those that are left could not be read.
    pub fn left(&self) -> usize {
        self.left.iter().map(|count| usize::from(*count)).sum()
    }
}

impl<'m> Iterator for RawRecords<'m> {
    type Item = (Section, RawRecord<'m>);

    fn next(&mut self) -> Option<(Section, RawRecord<'m>)> {
        let sections = [Section::Answer, Section::Authority, Section::Additional];
        let section = sections.into_iter().find(|section| self.left[*section as usize] > 0)?;
        let record = RawRecord::read(self.message, self.at)?;
        self.left[section as usize] -= 1;
        self.at = record.end;
        Some((section, record))
    }
}

impl<'m> RawRecord<'m> {
    /// The record that starts at `start`; `None` if it is malformed or cut off.
    pub fn read(message: &'m [u8], start: usize) -> Option<RawRecord<'m>> {
        let owner_end = skip_name(message, start)?;
        let head: &[u8; HEAD_LEN] = message.get(owner_end..)?.first_chunk()?;
        let end = owner_end + HEAD_LEN + usize::from(u16::from_be_bytes([head[8], head[9]]));
        Some(RawRecord {
            start,
            rtype: Rtype(u16::from_be_bytes([head[0], head[1]])),
            class: Class(u16::from_be_bytes([head[2], head[3]])),
            ttl: u32::from_be_bytes([head[4], head[5], head[6], head[7]]),
            rdata: message.get(owner_end + HEAD_LEN..end)?,
            end,
        })
    }

    /// Whether its owner is the root, written without a pointer.
    pub fn is_root(&self) -> bool {
        self.end - self.rdata.len() - HEAD_LEN == self.start + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: &[u8] = b"\x00\x00\x80\x00\x00\x01\x00\x01\x00\x00\x00\x01\
        \x01a\x00\x00\x01\x00\x01\
        \xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\xc0\x00\x02\x01\
        \x00\x00\x29\x04\xd0\x00\x00\x80\x00\x00\x00";

    #[test]
    fn every_record_is_returned_once_with_its_section() {
        let mut records = RawRecords::of(MESSAGE).expect("a header and a question");
        assert_eq!(records.left(), 2);
        let (class, rdata) = (Class::IN, &[192, 0, 2, 1][..]);
        let answer = RawRecord { start: 19, rtype: Rtype::A, class, ttl: 60, rdata, end: 35 };
        let opt = RawRecord { start: 35, rtype: Rtype::OPT, class: Class(1232), ttl: 0x8000, rdata: &[], end: 46 };
        let expected = [(Section::Answer, answer), (Section::Additional, opt)];
        assert_eq!(records.by_ref().collect::<Vec<_>>(), expected);
        assert_eq!((records.left(), records.next()), (0, None));
        assert_eq!([answer, opt].map(|record| record.is_root()), [false, true]);
    }

    #[test]
    fn what_is_cut_off_is_left() {
        for len in 0..MESSAGE.len() {
            let records = RawRecords::of(&MESSAGE[..len]);
            assert_eq!(records.is_some(), len >= HEADER_LEN + 3, "{len}");
            let left = records.map(|mut records| (records.by_ref().count(), records.left()));
            assert!(left.is_none_or(|(count, left)| left > 0 && count + left == 2), "{len}");
        }
    }
}
