//! The answer as it is written: sections in order, whole RRsets or nothing.

use wire::{HEADER_LEN, Rtype};
use zone::rrset::{MAX_POINTER, MessageOffsets, RECORD_HEAD_LEN, Rrset};
use zone::tree::TreeEntry;
use zone::{OWNER_BUFFER_LEN, Zone};

/// An answer in the making.
pub(crate) struct Message<'o> {
    pub(crate) out: &'o mut [u8],
    pub(crate) at: usize,
    /// What must not be passed: the largest answer less what OPT will take.
    pub(crate) limit: usize,
    pub(crate) counts: [u16; 3],
    pub(crate) truncated: bool,
}

/// An owner of records that are to be written.
#[derive(Clone, Copy)]
pub(crate) struct Owner<'e, 'z> {
    /// Where it stands in the message, though maybe in another case than the zone text has.
    pub(crate) place: MessageOffsets,
    /// The zone and its entry there: the first record is to begin with the name as the zone text has it. After that the
    /// place is where this stands.
    pub(crate) unwritten: Option<(&'z Zone, &'e TreeEntry<'z>)>,
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
        place: MessageOffsets,
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

    /// RFC 4343 4.1: adds an RRset of an owner that was looked up, in the case of the zone; returns where its pointers count from.
    #[inline]
    pub(crate) fn push_of(
        &mut self,
        section: Section,
        rrset: &Rrset<'_>,
        ttl: u32,
        owner: &mut Owner<'_, '_>,
        signatures: bool,
    ) -> Result<usize, Full> {
        if owner.unwritten.is_some() {
            return self.write_out(owner, |message, place| message.push(section, rrset, ttl, place, signatures));
        }
        let at = self.at;
        self.push(section, rrset, ttl, owner.place, signatures)?;
        Ok(at)
    }

    /// Adds a record made of parts, of an owner that was looked up.
    pub(crate) fn push_raw_of(
        &mut self,
        section: Section,
        owner: &mut Owner<'_, '_>,
        rtype: Rtype,
        ttl: u32,
        rdata: &[u8],
    ) -> Result<(), Full> {
        if owner.unwritten.is_some() {
            let push =
                |message: &mut Self, place: MessageOffsets| message.push_raw(section, place.owner, rtype, ttl, rdata);
            return self.write_out(owner, push).map(|_| ());
        }
        self.push_raw(section, owner.place.owner, rtype, ttl, rdata)
    }

    /// Lets `push` add records of an owner that does not stand in the message yet: its name is written out in the place of
    /// the pointer with which the first of them would begin. Returns where that begins.
    #[inline(never)]
    fn write_out(
        &mut self,
        owner: &mut Owner<'_, '_>,
        push: impl FnOnce(&mut Self, MessageOffsets) -> Result<(), Full>,
    ) -> Result<usize, Full> {
        let start = self.at;
        // Where no pointer reaches, the case of the question must do.
        let Some((zone, entry)) = owner.unwritten.filter(|_| start <= MAX_POINTER) else {
            return push(self, owner.place).map(|()| start);
        };
        let mut name = [0; OWNER_BUFFER_LEN];
        let apex = pointer_target(zone, owner.place.apex);
        let (labels, len) = zone.write_owner(entry, apex, &mut name);
        let place = MessageOffsets { owner: start, apex: apex.unwrap_or(start + labels) };
        self.at += len - 2;
        let first = self.at;
        if let Err(Full) = push(self, place) {
            self.at = start;
            return Err(Full);
        }
        self.out[start..start + len].copy_from_slice(&name[..len]);
        *owner = Owner { place, unwritten: None };
        Ok(first)
    }

    /// Adds an RRset of an owner that does not stand in the message yet: its name is written out before the apex.
    pub(crate) fn push_entry(
        &mut self,
        section: Section,
        zone: &Zone,
        entry: &TreeEntry<'_>,
        rrset: &Rrset<'_>,
        apex: usize,
        signatures: bool,
    ) -> Result<(), Full> {
        let place = MessageOffsets { owner: apex, apex };
        if entry.key_len() == 0 && !zone.apex_has_upper_case() {
            return self.push(section, rrset, rrset.ttl, place, signatures);
        }
        if self.at > MAX_POINTER {
            return self.push_far(section, zone, entry, rrset, apex, signatures);
        }
        let mut owner = Owner { place, unwritten: Some((zone, entry)) };
        let push =
            |message: &mut Self, place: MessageOffsets| message.push(section, rrset, rrset.ttl, place, signatures);
        self.write_out(&mut owner, push).map(|_| ())
    }

    /// Adds an RRset whose owner stands, or would stand, where no pointer reaches: each record has it in full. The set has no
    /// compressed names.
    #[cold]
    pub(crate) fn push_far(
        &mut self,
        section: Section,
        zone: &Zone,
        entry: &TreeEntry<'_>,
        rrset: &Rrset<'_>,
        apex: usize,
        signatures: bool,
    ) -> Result<(), Full> {
        let mut owner = [0; OWNER_BUFFER_LEN];
        let apex = pointer_target(zone, apex);
        let (_, owner_len) = zone.write_owner(entry, apex, &mut owner);
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

/// The offset of the apex, if a pointer reaches it and it needs no other case than there.
#[inline]
fn pointer_target(zone: &Zone, apex: usize) -> Option<usize> {
    Some(apex).filter(|&apex| apex <= MAX_POINTER && !zone.apex_has_upper_case())
}
