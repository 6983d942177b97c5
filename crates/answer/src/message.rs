//! The answer as it is written: sections in order, whole RRsets or nothing.

use wire::{HEADER_LEN, Rtype};
use zone::Zone;
use zone::key::{self, Key};
use zone::rrset::{MAX_POINTER, Place, RECORD_HEAD_LEN, Rrset};
use zone::tree::Entry;

/// An answer in the making.
pub(crate) struct Message<'o> {
    pub(crate) out: &'o mut [u8],
    pub(crate) at: usize,
    /// What must not be passed: the largest answer less what OPT will take.
    pub(crate) limit: usize,
    pub(crate) counts: [u16; 3],
    pub(crate) truncated: bool,
}

/// The sections behind the question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    Answer = 0,
    Authority = 1,
    Additional = 2,
}

/// It did not fit.
#[derive(Debug)]
pub(crate) struct Full;

/// A set longer than this may have names that its own pointers do not reach from where it begins.
const POINTER_REACH: usize = MAX_POINTER - 0x0fff;

impl<'o> Message<'o> {
    pub(crate) fn new(out: &'o mut [u8], at: usize, limit: usize) -> Message<'o> {
        Message { out, at, limit, counts: [0; 3], truncated: false }
    }

    /// Removes all behind the question, which ends at `question_end`.
    #[cold]
    pub(crate) fn clear(&mut self, question_end: usize) {
        (self.at, self.counts, self.truncated) = (question_end, [0; 3], false);
    }

    /// How many octets are left.
    pub(crate) fn room(&self) -> usize {
        self.limit.saturating_sub(self.at)
    }

    /// Adds an RRset whose owner and apex stand in the message, with its signatures if asked for; all of it or nothing.
    #[inline]
    pub(crate) fn push(
        &mut self,
        section: Section,
        rrset: &Rrset<'_>,
        ttl: u32,
        place: Place,
        signatures: bool,
    ) -> Result<(), Full> {
        let signatures = Some(rrset.signatures()).filter(|set| signatures && !set.is_empty());
        let len = rrset.message_len() + signatures.map_or(0, |set| set.message_len());
        // What pointers do not reach is left out: it is a message of 16 KiB and more that asks for it.
        if len > self.room() || self.at > POINTER_REACH && rrset.has_compressed_names() || place.owner > MAX_POINTER {
            return Err(Full);
        }
        self.at = rrset.write(place, ttl, self.out, self.at);
        self.counts[section as usize] += rrset.count as u16;
        if let Some(set) = signatures {
            self.at = set.write(place.owner, ttl, self.out, self.at);
            self.counts[section as usize] += set.count as u16;
        }
        Ok(())
    }

    /// Adds an RRset of an owner that does not stand in the message yet: its name is written out before the apex.
    pub(crate) fn push_entry(
        &mut self,
        section: Section,
        zone: &Zone,
        entry: &Entry<'_>,
        rrset: &Rrset<'_>,
        apex: usize,
        signatures: bool,
    ) -> Result<(), Full> {
        if entry.key_len() == 0 {
            return self.push(section, rrset, rrset.ttl, Place { owner: apex, apex }, signatures);
        }
        if self.at > MAX_POINTER {
            return self.push_far(section, zone, entry, rrset, apex, signatures);
        }
        let mut owner = [0; wire::MAX_NAME_LEN * 2];
        let len = write_owner(zone, entry, apex, &mut owner);
        let start = self.at;
        // The owner takes the place of the pointer with which the first record would begin.
        self.at += len - 2;
        let pushed = self.push(section, rrset, rrset.ttl, Place { owner: start, apex }, signatures);
        match pushed {
            Ok(()) => self.out[start..start + len].copy_from_slice(&owner[..len]),
            Err(Full) => self.at = start,
        }
        pushed
    }

    /// Adds an RRset whose owner stands, or would stand, where no pointer reaches: each record has it in full. The set has no
    /// compressed names.
    #[cold]
    pub(crate) fn push_far(
        &mut self,
        section: Section,
        zone: &Zone,
        entry: &Entry<'_>,
        rrset: &Rrset<'_>,
        apex: usize,
        signatures: bool,
    ) -> Result<(), Full> {
        let mut owner = [0; wire::MAX_NAME_LEN * 2];
        let owner_len = write_owner(zone, entry, apex, &mut owner);
        let signatures = Some(rrset.signatures()).filter(|_| signatures);
        let records = || {
            let signatures = signatures.into_iter().flat_map(|set| set.rdatas()).map(|rdata| (Rtype::RRSIG, rdata));
            rrset.opaque().map(|rdata| (rrset.rtype, rdata)).chain(signatures)
        };
        let len: usize = records().map(|(_, rdata)| owner_len + RECORD_HEAD_LEN - 2 + rdata.len()).sum();
        if len > self.room() {
            return Err(Full);
        }
        for (rtype, rdata) in records() {
            let start = self.at;
            self.at += owner_len - 2;
            // Its pointer is covered by the end of the owner.
            self.push_raw(section, 0, rtype, rrset.ttl, rdata)?;
            self.out[start..start + owner_len].copy_from_slice(&owner[..owner_len]);
        }
        Ok(())
    }

    /// Adds a record made of parts, with an owner that stands in the message.
    pub(crate) fn push_raw(
        &mut self,
        section: Section,
        owner: usize,
        rtype: Rtype,
        ttl: u32,
        rdata: &[u8],
    ) -> Result<(), Full> {
        let len = 12 + rdata.len();
        if len > self.room() || owner > MAX_POINTER {
            return Err(Full);
        }
        let record = &mut self.out[self.at..self.at + len];
        record[..2].copy_from_slice(&(0xc000 | owner as u16).to_be_bytes());
        record[2..4].copy_from_slice(&rtype.0.to_be_bytes());
        record[4..6].copy_from_slice(&[0, 1]);
        record[6..10].copy_from_slice(&ttl.to_be_bytes());
        record[10..12].copy_from_slice(&(rdata.len() as u16).to_be_bytes());
        record[12..].copy_from_slice(rdata);
        self.at += len;
        self.counts[section as usize] += 1;
        Ok(())
    }

    /// Writes the counts of the sections into the header.
    #[inline]
    pub(crate) fn write_counts(&mut self, has_opt: bool) {
        let [answers, authorities, additionals] = self.counts;
        self.out[6..8].copy_from_slice(&answers.to_be_bytes());
        self.out[8..10].copy_from_slice(&authorities.to_be_bytes());
        self.out[10..HEADER_LEN].copy_from_slice(&(additionals + u16::from(has_opt)).to_be_bytes());
    }
}

/// Writes the owner of an entry, with a pointer to the apex where one is shorter and reaches it; returns its length.
fn write_owner(zone: &Zone, entry: &Entry<'_>, apex: usize, out: &mut [u8]) -> usize {
    let mut key = Key::new();
    entry.copy_key(&mut key);
    let len = key::write_labels(key.as_bytes(), out);
    let pointer = (0xc000 | apex as u16).to_be_bytes();
    let is_far = apex > MAX_POINTER || zone.apex().is_root();
    let end = if is_far { zone.apex().wire() } else { &pointer };
    out[len..len + end.len()].copy_from_slice(end);
    len + end.len()
}
