//! Writing a response: sections in order, whole RRsets or nothing; and its header.

use wire::message::{Rcode, Section};
use wire::{Class, HEADER_LEN, MAX_NAME_LEN, Rtype};
use zone::rrset::{MAX_POINTER, MAX_RRSET_OFFSET, MessageOffsets, RECORD_HEAD_LEN, Rrset};

use crate::name_writer::{OwnerName, SpelledName};
use crate::query::Query;

/// A response being written.
pub(crate) struct MessageWriter<'o> {
    pub(crate) out: &'o mut [u8],
    /// Where the next record goes.
    pub(crate) at: usize,
    /// The length limit, less what is reserved for OPT.
    pub(crate) limit: usize,
    /// Records by [`Section`].
    pub(crate) counts: [u16; 3],
    /// TC: see [`MessageWriter::set_truncated`].
    pub(crate) truncated: bool,
}

/// What the header of a response says, and what RRL counts the response as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResponseStatus {
    pub(crate) rcode: Rcode,
    /// The AA flag.
    pub(crate) authoritative: bool,
    /// The length of the suffix of the question's name for which [`crate::rrl`] counts the response; 0 for errors.
    pub(crate) rrl_suffix_len: u8,
}

impl ResponseStatus {
    /// A response without records.
    pub(crate) fn empty(rcode: Rcode) -> ResponseStatus {
        ResponseStatus { rcode, ..ResponseStatus::default() }
    }
}

/// The records do not fit.
#[derive(Debug)]
pub(crate) struct Full;

/// After this offset, compression pointers (RFC 1035 4.1.4) within one RRset may not reach its names.
pub(crate) const MAX_COMPRESSED_RRSET: usize = MAX_POINTER - MAX_RRSET_OFFSET;

impl<'o> MessageWriter<'o> {
    pub(crate) fn new(out: &'o mut [u8], at: usize, limit: usize) -> MessageWriter<'o> {
        MessageWriter { out, at, limit, counts: [0; 3], truncated: false }
    }

    /// Removes everything after the question, which ends at `question_end`.
    #[cold]
    pub(crate) fn clear(&mut self, question_end: usize) {
        (self.at, self.counts, self.truncated) = (question_end, [0; 3], false);
    }

    /// How many octets are left.
    pub(crate) fn room(&self) -> usize {
        self.limit.saturating_sub(self.at)
    }

    /// Adds an RRset, with its signatures if asked for; all of it or nothing.
    ///
    /// Returns the offset from which [`Rrset::targets`] counts: where its first record would start with a pointer as owner.
    #[inline]
    pub(crate) fn push(
        &mut self,
        section: Section,
        rrset: &Rrset<'_>,
        owner: &mut OwnerName<'_, '_>,
        signatures: bool,
    ) -> Result<usize, Full> {
        if !owner.is_pointer() {
            return self.push_spelled(section, rrset, owner, signatures);
        }
        let start = self.at;
        self.push_at(section, rrset, owner.offsets, signatures)?;
        Ok(start)
    }

    /// Adds an RRset whose owner the message has within the reach of pointers.
    #[inline]
    pub(crate) fn push_at(
        &mut self,
        section: Section,
        rrset: &Rrset<'_>,
        offsets: MessageOffsets,
        signatures: bool,
    ) -> Result<(), Full> {
        debug_assert!(offsets.owner <= MAX_POINTER);
        let signatures = Some(rrset.signatures()).filter(|set| signatures && !set.is_empty());
        let len = rrset.message_len() + signatures.map_or(0, |set| set.message_len());
        if self.at > MAX_COMPRESSED_RRSET && rrset.has_compressed_names() {
            return self.push_distant(section, rrset, &mut OwnerName::at(offsets), signatures.is_some()).map(drop);
        }
        if len > self.room() {
            return Err(Full);
        }
        self.at = rrset.write(offsets, rrset.ttl, self.out, self.at);
        self.counts[section as usize] += rrset.count as u16;
        if let Some(set) = signatures {
            self.at = set.write(offsets.owner, rrset.ttl, self.out, self.at);
            self.counts[section as usize] += set.count as u16;
        }
        Ok(())
    }

    /// Adds an RRset whose first record spells the owner. The others point there, or spell it too where no pointer reaches.
    #[inline(never)]
    fn push_spelled(
        &mut self,
        section: Section,
        rrset: &Rrset<'_>,
        owner: &mut OwnerName<'_, '_>,
        signatures: bool,
    ) -> Result<usize, Full> {
        if self.at > MAX_COMPRESSED_RRSET - MAX_NAME_LEN && rrset.has_compressed_names() {
            return self.push_distant(section, rrset, owner, signatures);
        }
        let (start, counts) = (self.at, self.counts);
        let name = owner.spell(self.out);
        // The name ends over the pointer with which the first record would start.
        let first = start + name.octets().len() - 2;
        let pushed = if start <= MAX_POINTER {
            let mut written = *owner;
            written.written(&name, start);
            self.at = first;
            self.push_at(section, rrset, written.offsets, signatures).map(|()| {
                self.out[start..first + 2].copy_from_slice(name.octets());
                *owner = written;
            })
        } else {
            let mut records = rrset.opaque_parts();
            records
                .try_for_each(|rdata| self.push_record(section, owner, Class::IN, rrset.rtype, rrset.ttl, &rdata))
                .and_then(|()| self.push_signatures(section, rrset, owner, signatures))
        };
        if pushed.is_err() {
            (self.at, self.counts) = (start, counts);
        }
        pushed.map(|()| first)
    }

    /// Adds an RRset record by record, with the owner and the names in its RDATA spelled out where no pointer reaches them.
    #[cold]
    fn push_distant(
        &mut self,
        section: Section,
        rrset: &Rrset<'_>,
        owner: &mut OwnerName<'_, '_>,
        signatures: bool,
    ) -> Result<usize, Full> {
        let (start, counts) = (self.at, self.counts);
        let (mut first, mut offsets, mut written) = (start, owner.offsets, *owner);
        if !owner.is_pointer() {
            let name = owner.spell(self.out);
            if name.octets().len() > self.room() {
                return Err(Full);
            }
            // Already here, as RDATA of the first record may end in a part of it.
            self.out[start..start + name.octets().len()].copy_from_slice(name.octets());
            first += name.octets().len() - 2;
            offsets = owner.offsets_after(&name, start);
        }
        let mut rdatas = rrset.distant_rdatas();
        let pushed = rdatas
            .try_for_each(|rdata| {
                let rdata = rdata.spell(offsets, first, self.out);
                self.push_record(section, &mut written, Class::IN, rrset.rtype, rrset.ttl, &[rdata.octets()])
            })
            .and_then(|()| self.push_signatures(section, rrset, &mut written, signatures));
        match pushed {
            Ok(()) => *owner = written,
            Err(Full) => (self.at, self.counts) = (start, counts),
        }
        pushed.map(|()| first)
    }

    /// Adds the signatures of an RRset, if asked for, one by one.
    fn push_signatures(
        &mut self,
        section: Section,
        rrset: &Rrset<'_>,
        owner: &mut OwnerName<'_, '_>,
        signatures: bool,
    ) -> Result<(), Full> {
        let mut rdatas = Some(rrset.signatures()).filter(|_| signatures).into_iter().flat_map(|set| set.rdatas());
        rdatas.try_for_each(|rdata| self.push_record(section, owner, Class::IN, Rtype::RRSIG, rrset.ttl, &rdata.parts))
    }

    /// Adds one record, whose RDATA is given in parts.
    pub(crate) fn push_record(
        &mut self,
        section: Section,
        owner: &mut OwnerName<'_, '_>,
        class: Class,
        rtype: Rtype,
        ttl: u32,
        rdata: &[&[u8]],
    ) -> Result<(), Full> {
        let rdata_len: usize = rdata.iter().map(|part| part.len()).sum();
        let start = self.at;
        let spelled = (!owner.is_pointer()).then(|| owner.spell(self.out));
        let pointer = (0xc000 | owner.offsets.owner as u16).to_be_bytes();
        let name = spelled.as_ref().map_or(&pointer[..], SpelledName::octets);
        let len = name.len() + RECORD_HEAD_LEN - 2 + rdata_len;
        if len > self.room() {
            return Err(Full);
        }
        let (written, record) = self.out[start..start + len].split_at_mut(name.len());
        written.copy_from_slice(name);
        record[..2].copy_from_slice(&rtype.0.to_be_bytes());
        record[2..4].copy_from_slice(&class.0.to_be_bytes());
        record[4..8].copy_from_slice(&ttl.to_be_bytes());
        record[8..10].copy_from_slice(&(rdata_len as u16).to_be_bytes());
        let mut at = 10;
        for part in rdata {
            record[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        self.at += len;
        self.counts[section as usize] += 1;
        if let Some(name) = &spelled {
            owner.written(name, start);
        }
        Ok(())
    }

    /// Writes the header, without OPT in the counts.
    #[inline]
    pub(crate) fn write_header(&mut self, query: &Query<'_>, status: ResponseStatus) {
        let header = &query.header;
        let aa = u8::from(status.authoritative) << 2;
        let tc = u8::from(self.truncated) << 1;
        self.out[..2].copy_from_slice(&header.id);
        self.out[2] = 0x80 | header.opcode.0 << 3 | aa | tc | u8::from(header.rd);
        // RFC 4035 3.1.6: an authoritative server clears AD and CD.
        self.out[3] = status.rcode.0 as u8 & 15;
        self.out[4..6].copy_from_slice(&[0, u8::from(query.has_question())]);
        self.write_counts(false);
    }

    /// Writes the section counts into the header.
    #[inline]
    pub(crate) fn write_counts(&mut self, has_opt: bool) {
        let [answers, authorities, additionals] = self.counts;
        self.out[6..8].copy_from_slice(&answers.to_be_bytes());
        self.out[8..10].copy_from_slice(&authorities.to_be_bytes());
        self.out[10..HEADER_LEN].copy_from_slice(&(additionals + u16::from(has_opt)).to_be_bytes());
    }
}
