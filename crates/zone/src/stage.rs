//! Staging: parsed records grouped by owner, until the zone is built from them.

use std::cmp::Ordering;

use wire::{NameRef, Rtype};

use crate::canonical_key::CanonicalKey;
use crate::owner_case::write_name;
use crate::owner_case::{self, MIXED, OwnerCase, UPPER};
use crate::text::{RecordSink, ZoneRecord};

/// The octets of a record in a message before its RDATA, with a compressed owner.
pub const RECORD_HEAD_LEN: usize = 12;

/// A record of one owner, with RDATA in uncompressed wire form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StagedRecord<'r> {
    pub(crate) rtype: Rtype,
    pub(crate) ttl: u32,
    pub(crate) rdata: &'r [u8],
    /// Where the record is in the zone text, for findings; not stored in the zone.
    pub(crate) file: u16,
    pub(crate) line: u32,
}

impl<'r> StagedRecord<'r> {
    /// The length of the record in a message, with a compressed owner.
    pub(crate) fn message_len(&self) -> usize {
        RECORD_HEAD_LEN + self.rdata.len()
    }

    /// As a record of zone text.
    pub(crate) fn with_owner<'o>(&self, owner: NameRef<'o>) -> ZoneRecord<'o>
    where
        'r: 'o,
    {
        let StagedRecord { rtype, ttl, rdata, file, line } = *self;
        ZoneRecord { owner, rtype, ttl, rdata, file, line }
    }

    /// The type of the RRset that stores this record: for an RRSIG the type covered (RFC 4034 3.1.1).
    pub(crate) fn set_rtype(&self) -> Rtype {
        match (self.rtype, self.rdata) {
            (Rtype::RRSIG, [high, low, ..]) => Rtype(u16::from_be_bytes([*high, *low])),
            (rtype, _) => rtype,
        }
    }
}

/// The staged records of one chunk of zone text; NSEC3 records are separate.
#[derive(Clone)]
pub(crate) struct StagedChunk {
    apex_len: usize,
    pub(crate) names: OwnerRuns,
    pub(crate) nsec3: OwnerRuns,
    key: CanonicalKey,
}

/// Consecutive records of the same owner as runs.
#[derive(Clone, Default)]
pub(crate) struct OwnerRuns {
    bytes: Vec<u8>,
    runs: Vec<Run>,
    /// The owner of the last run, in its original case.
    owner: Vec<u8>,
}

/// The staged octets of a zone of few records, which are allocated once.
const SMALL_ZONE_LEN: usize = 256;

/// Consecutive records of one owner. At `start` of the chunk's bytes: the length of the key, with the case flags in the upper bits, the
/// key, the owner case, the records.
#[derive(Clone, Copy)]
pub(crate) struct Run {
    /// The first 16 octets of the key, as a number, for fast comparison.
    head: u128,
    start: u64,
    chunk: u32,
    records: u32,
}

impl StagedChunk {
    /// An empty chunk for a zone with this apex.
    pub(crate) fn new(apex: NameRef<'_>) -> StagedChunk {
        StagedChunk {
            apex_len: apex.wire().len(),
            names: OwnerRuns::default(),
            nsec3: OwnerRuns::default(),
            key: CanonicalKey::new(),
        }
    }

    /// The octets of the apex.
    #[inline]
    pub(crate) fn apex_len(&self) -> usize {
        self.apex_len
    }
}

impl RecordSink for StagedChunk {
    fn record(&mut self, record: ZoneRecord<'_>) {
        let staged = StagedRecord {
            rtype: record.rtype,
            ttl: record.ttl,
            rdata: record.rdata,
            file: record.file,
            line: record.line,
        };
        let part = if staged.set_rtype() == Rtype::NSEC3 { &mut self.nsec3 } else { &mut self.names };
        if part.runs.is_empty() || part.owner != record.owner.wire() {
            self.key.set(record.owner.wire(), self.apex_len);
            part.begin(self.key.as_bytes(), record.owner, self.apex_len);
        }
        part.push(&staged);
    }
}

impl OwnerRuns {
    /// The octets of the staged owners and records.
    #[inline]
    pub(crate) fn octets(&self) -> usize {
        self.bytes.len()
    }

    /// The number of runs.
    pub(crate) fn count(&self) -> usize {
        self.runs.len()
    }

    /// The runs, in the order of the records.
    pub(crate) fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// The run of the first records.
    pub(crate) fn first_run(&self) -> Option<Run> {
        self.runs.first().copied()
    }

    /// Whether the owners are in canonical order.
    pub(crate) fn is_sorted(&self) -> bool {
        let staged = Staged(std::slice::from_ref(self));
        self.runs.is_sorted_by(|a, b| staged.compare(a, b).is_le())
    }

    /// The runs, in the order of the records.
    pub(crate) fn take_runs(&mut self) -> Vec<Run> {
        std::mem::take(&mut self.runs)
    }

    /// Removes all runs but the `last`, to which records may still be added. `spare` is an empty list to reuse.
    pub(crate) fn keep_only(&mut self, last: Run, mut spare: Vec<Run>) {
        self.bytes.drain(..last.start as usize);
        spare.clear();
        spare.push(Run { start: 0, ..last });
        self.runs = spare;
    }

    /// Appends an owner with its records.
    pub(crate) fn append(&mut self, key: &[u8], case: OwnerCase<'_>, records: &[StagedRecord<'_>]) {
        self.begin_run(key, |out| {
            case.append(out);
            case.flags()
        });
        records.iter().for_each(|record| self.push(record));
    }

    fn begin(&mut self, key: &[u8], owner: NameRef<'_>, apex_len: usize) {
        self.owner.clear();
        self.owner.extend_from_slice(owner.wire());
        self.begin_run(key, |out| owner_case::append_of(owner.wire(), apex_len, out));
    }

    /// `append_case` appends the owner case and returns its flags.
    fn begin_run(&mut self, key: &[u8], append_case: impl FnOnce(&mut Vec<u8>) -> u8) {
        if self.bytes.is_empty() {
            self.bytes.reserve(SMALL_ZONE_LEN);
        }
        let start = self.bytes.len();
        self.runs.push(Run { head: key_head(key), start: start as u64, chunk: 0, records: 0 });
        self.bytes.extend_from_slice(&[0, 0]);
        self.bytes.extend_from_slice(key);
        let flags = append_case(&mut self.bytes);
        let head = key.len() as u16 | u16::from(flags) << FLAGS_SHIFT;
        self.bytes[start..start + 2].copy_from_slice(&head.to_ne_bytes());
    }

    fn push(&mut self, record: &StagedRecord<'_>) {
        let mut fixed = [0; FIXED_LEN];
        fixed[..2].copy_from_slice(&record.rtype.0.to_ne_bytes());
        fixed[2..6].copy_from_slice(&record.ttl.to_ne_bytes());
        fixed[6..8].copy_from_slice(&record.file.to_ne_bytes());
        fixed[8..12].copy_from_slice(&record.line.to_ne_bytes());
        fixed[12..].copy_from_slice(&(record.rdata.len() as u16).to_ne_bytes());
        self.bytes.extend_from_slice(&fixed);
        self.bytes.extend_from_slice(record.rdata);
        if let Some(run) = self.runs.last_mut() {
            run.records += 1;
        }
    }
}

impl Run {
    /// Whether it is in the first of the parts given to [`gather_runs`].
    pub(crate) fn is_in_first_part(&self) -> bool {
        self.chunk == 0
    }

    /// Whether the owner is the apex: only the empty key starts with a zero octet.
    pub(crate) fn is_apex(&self) -> bool {
        self.head == 0
    }
}

/// The position of the case flags in the number that holds the length of the key.
const FLAGS_SHIFT: u32 = 11;
const _: () =
    assert!(crate::canonical_key::MAX_KEY_LEN < 1 << FLAGS_SHIFT && UPPER < MIXED && MIXED < 1 << (16 - FLAGS_SHIFT));

/// The octets of a staged record before its RDATA: type, TTL, file, line, RDATA length.
const FIXED_LEN: usize = 14;

/// The first 16 octets of a key as a number: keys compare as these numbers do, unless they are equal.
#[inline]
pub(crate) fn key_head(key: &[u8]) -> u128 {
    let mut bytes = [0; 16];
    let len = key.len().min(16);
    bytes[..len].copy_from_slice(&key[..len]);
    u128::from_be_bytes(bytes)
}

/// The bytes of all chunks, which runs refer to.
#[derive(Clone, Copy)]
pub(crate) struct Staged<'s>(pub(crate) &'s [OwnerRuns]);

/// An owner of staged records.
pub(crate) struct StagedOwner<'o> {
    pub(crate) key: &'o [u8],
    pub(crate) case: OwnerCase<'o>,
    /// The name in its original case.
    pub(crate) name: NameRef<'o>,
}

impl<'s> Staged<'s> {
    /// Passes on the owners of sorted runs, in key order, each with all its records.
    pub(crate) fn for_each_owner(
        self,
        runs: &[Run],
        apex: NameRef<'_>,
        mut take: impl FnMut(StagedOwner<'_>, &mut [StagedRecord<'_>]),
    ) {
        let (mut records, mut room) = (Vec::new(), [0; _]);
        for same in runs.chunk_by(|a, b| a.head == b.head && self.key(a) == self.key(b)) {
            records.clear();
            same.iter().for_each(|run| self.append_records(run, &mut records));
            // RFC 4343 4.2: if an owner is written in several cases, the first one is kept.
            let (key, case) = (self.key(&same[0]), self.case(&same[0]));
            let name = write_name(key, case, apex, &mut room);
            take(StagedOwner { key, case, name }, &mut records);
        }
    }

    #[inline]
    pub(crate) fn key(&self, run: &Run) -> &'s [u8] {
        let bytes = &self.0[run.chunk as usize].bytes[run.start as usize..];
        let len = u16::from_ne_bytes([bytes[0], bytes[1]]) & ((1 << FLAGS_SHIFT) - 1);
        &bytes[2..2 + len as usize]
    }

    /// The owner case, and the records.
    #[inline]
    fn case_and_records(&self, run: &Run) -> (OwnerCase<'s>, &'s [u8]) {
        let bytes = &self.0[run.chunk as usize].bytes[run.start as usize..];
        let flags = u16::from_ne_bytes([bytes[0], bytes[1]]) >> FLAGS_SHIFT;
        OwnerCase::read(flags as u8, &bytes[2 + self.key(run).len()..])
    }

    /// The owner case.
    pub(crate) fn case(&self, run: &Run) -> OwnerCase<'s> {
        self.case_and_records(run).0
    }

    #[inline]
    pub(crate) fn compare(&self, a: &Run, b: &Run) -> Ordering {
        a.head
            .cmp(&b.head)
            .then_with(|| self.key(a).cmp(self.key(b)))
            .then_with(|| (a.chunk, a.start).cmp(&(b.chunk, b.start)))
    }

    pub(crate) fn append_records(&self, run: &Run, out: &mut Vec<StagedRecord<'s>>) {
        let (_, mut rest) = self.case_and_records(run);
        for _ in 0..run.records {
            let (fixed, more) = rest.split_at(FIXED_LEN);
            let u16_at = |at: usize| u16::from_ne_bytes([fixed[at], fixed[at + 1]]);
            let u32_at = |at: usize| u32::from(u16_at(at)) | u32::from(u16_at(at + 2)) << 16;
            let (rdata, more) = more.split_at(u16_at(12) as usize);
            out.push(StagedRecord { rtype: Rtype(u16_at(0)), ttl: u32_at(2), rdata, file: u16_at(6), line: u32_at(8) });
            rest = more;
        }
    }
}

/// Moves the runs of all chunks into one list; frees those of each chunk before copying the next.
pub(crate) fn gather_runs(parts: &mut [OwnerRuns]) -> Vec<Run> {
    let mut runs = Vec::with_capacity(parts.iter().map(|part| part.runs.len()).sum());
    for (chunk, part) in parts.iter_mut().enumerate() {
        let taken = std::mem::take(&mut part.runs);
        runs.extend(taken.into_iter().map(|run| Run { chunk: chunk as u32, ..run }));
    }
    runs
}
