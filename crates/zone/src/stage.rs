//! Records as the parser hands them over, in runs of one owner, until a zone is made of them.

use std::cmp::Ordering;

use wire::{NameRef, Rtype};

use crate::canonical_key::CanonicalKey;
use crate::case::{self, Case, MIXED, UPPER};
use crate::encode::Raw;
use crate::text::{RecordSink, ZoneRecord};

/// Records of one stretch of zone text, by owner. The parser fills one per stretch.
pub(crate) struct Stage {
    apex_len: usize,
    pub(crate) names: Part,
    pub(crate) nsec3: Part,
    key: CanonicalKey,
}

/// Runs of records with the same owner.
#[derive(Default)]
pub(crate) struct Part {
    bytes: Vec<u8>,
    runs: Vec<Run>,
    /// The owner of the last run, as it was written.
    owner: Vec<u8>,
}

/// Records of one owner that came one after the other, at `start` of the stage's bytes:
/// the length of the key with the flags of the owner's case above it, the key, the case, the records.
#[derive(Clone, Copy)]
pub(crate) struct Run {
    /// The first sixteen octets of the key.
    head: u128,
    start: u64,
    stage: u32,
    records: u32,
}

impl Stage {
    /// An empty stage for a zone with this apex.
    pub(crate) fn new(apex: NameRef<'_>) -> Stage {
        Stage { apex_len: apex.wire().len(), names: Part::default(), nsec3: Part::default(), key: CanonicalKey::new() }
    }
}

impl RecordSink for Stage {
    fn record(&mut self, record: ZoneRecord<'_>) {
        let raw =
            Raw { rtype: record.rtype, ttl: record.ttl, rdata: record.rdata, file: record.file, line: record.line };
        let part = if raw.set_rtype() == Rtype::NSEC3 { &mut self.nsec3 } else { &mut self.names };
        if part.runs.is_empty() || part.owner != record.owner.wire() {
            self.key.set(record.owner.wire(), self.apex_len);
            part.begin(self.key.as_bytes(), record.owner, self.apex_len);
        }
        part.push(&raw);
    }
}

impl Part {
    fn begin(&mut self, key: &[u8], owner: NameRef<'_>, apex_len: usize) {
        self.owner.clear();
        self.owner.extend_from_slice(owner.wire());
        self.runs.push(Run { head: head(key), start: self.bytes.len() as u64, stage: 0, records: 0 });
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0, 0]);
        self.bytes.extend_from_slice(key);
        let flags = case::append_of(owner.wire(), apex_len, &mut self.bytes);
        let head = key.len() as u16 | u16::from(flags) << FLAGS_SHIFT;
        self.bytes[start..start + 2].copy_from_slice(&head.to_ne_bytes());
    }

    fn push(&mut self, raw: &Raw<'_>) {
        let mut fixed = [0; FIXED_LEN];
        fixed[..2].copy_from_slice(&raw.rtype.0.to_ne_bytes());
        fixed[2..6].copy_from_slice(&raw.ttl.to_ne_bytes());
        fixed[6..8].copy_from_slice(&raw.file.to_ne_bytes());
        fixed[8..12].copy_from_slice(&raw.line.to_ne_bytes());
        fixed[12..].copy_from_slice(&(raw.rdata.len() as u16).to_ne_bytes());
        self.bytes.extend_from_slice(&fixed);
        self.bytes.extend_from_slice(raw.rdata);
        if let Some(run) = self.runs.last_mut() {
            run.records += 1;
        }
    }
}

impl Run {
    /// Whether the owner is the apex: all keys but the empty one begin with another octet than 0.
    pub(crate) fn is_apex(&self) -> bool {
        self.head == 0
    }
}

/// Where the flags of the case begin in the number that has the length of the key.
const FLAGS_SHIFT: u32 = 11;
const _: () =
    assert!(crate::canonical_key::MAX_KEY_LEN < 1 << FLAGS_SHIFT && UPPER < MIXED && MIXED < 1 << (16 - FLAGS_SHIFT));

/// The octets of a staged record before its RDATA: type, TTL, file, line, length.
const FIXED_LEN: usize = 14;

fn head(key: &[u8]) -> u128 {
    let mut bytes = [0; 16];
    let len = key.len().min(16);
    bytes[..len].copy_from_slice(&key[..len]);
    u128::from_be_bytes(bytes)
}

/// The bytes of all stages, to which runs refer.
#[derive(Clone, Copy)]
pub(crate) struct Staged<'s>(pub(crate) &'s [Part]);

impl<'s> Staged<'s> {
    #[inline]
    pub(crate) fn key(&self, run: &Run) -> &'s [u8] {
        let bytes = &self.0[run.stage as usize].bytes[run.start as usize..];
        let len = u16::from_ne_bytes([bytes[0], bytes[1]]) & ((1 << FLAGS_SHIFT) - 1);
        &bytes[2..2 + len as usize]
    }

    /// The case of the owner, and the records.
    #[inline]
    fn case_and_records(&self, run: &Run) -> (Case<'s>, &'s [u8]) {
        let bytes = &self.0[run.stage as usize].bytes[run.start as usize..];
        let flags = u16::from_ne_bytes([bytes[0], bytes[1]]) >> FLAGS_SHIFT;
        Case::read(flags as u8, &bytes[2 + self.key(run).len()..])
    }

    /// The case of the owner.
    pub(crate) fn case(&self, run: &Run) -> Case<'s> {
        self.case_and_records(run).0
    }

    #[inline]
    pub(crate) fn compare(&self, a: &Run, b: &Run) -> Ordering {
        a.head
            .cmp(&b.head)
            .then_with(|| self.key(a).cmp(self.key(b)))
            .then_with(|| (a.stage, a.start).cmp(&(b.stage, b.start)))
    }

    pub(crate) fn append_records(&self, run: &Run, out: &mut Vec<Raw<'s>>) {
        let (_, mut rest) = self.case_and_records(run);
        for _ in 0..run.records {
            let (fixed, more) = rest.split_at(FIXED_LEN);
            let u16_at = |at: usize| u16::from_ne_bytes([fixed[at], fixed[at + 1]]);
            let u32_at = |at: usize| u32::from(u16_at(at)) | u32::from(u16_at(at + 2)) << 16;
            let (rdata, more) = more.split_at(u16_at(12) as usize);
            out.push(Raw { rtype: Rtype(u16_at(0)), ttl: u32_at(2), rdata, file: u16_at(6), line: u32_at(8) });
            rest = more;
        }
    }
}

/// Takes the runs out of all parts; each part's are freed before the next part's are copied.
pub(crate) fn gather(parts: &mut [Part]) -> Vec<Run> {
    let mut runs = Vec::with_capacity(parts.iter().map(|part| part.runs.len()).sum());
    for (stage, part) in parts.iter_mut().enumerate() {
        let taken = std::mem::take(&mut part.runs);
        runs.extend(taken.into_iter().map(|run| Run { stage: stage as u32, ..run }));
    }
    runs
}
