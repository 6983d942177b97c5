//! Turns records in any order into [runs](crate::encoded_run) as they arrive.
//!
//! Records in canonical order (RFC 4034 6.1), as most servers transfer and print them, are encoded in small batches and make one run.
//! Others are staged in large batches, each of which becomes a run.

use std::sync::OnceLock;

use wire::{Name, NameRef};

use crate::build_options::BuildOptions;
use crate::encoded_run::{EncodedRun, RunEncoder};
use crate::intern::Interner;
use crate::stage::{OwnerRuns, Run, Staged, StagedChunk};
use crate::text::{RecordSink, ZoneRecord};

/// What all sorters of a zone share.
pub(crate) struct SorterContext<'c> {
    pub(crate) options: &'c BuildOptions<'c>,
    pub(crate) interner: &'c Interner<'c>,
    /// The apex in the case of its first record, once there is one.
    pub(crate) apex: &'c OnceLock<Name>,
}

impl<'c> SorterContext<'c> {
    /// The apex in its original case, as far as it is known.
    pub(crate) fn apex(&self) -> NameRef<'c> {
        self.apex.get().map_or(self.options.apex, Name::as_ref)
    }
}

/// How many octets are staged before they are encoded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchSizes {
    /// Until it is known in what order the records arrive. A smaller zone is never encoded as runs.
    pub(crate) first: usize,
    /// Records in canonical order: a batch stays in the cache.
    pub(crate) sorted: usize,
    /// Other records: the larger the batches, the fewer runs are merged at the end.
    pub(crate) unsorted: usize,
}

impl BatchSizes {
    pub(crate) const DEFAULT: BatchSizes = BatchSizes { first: 1 << 20, sorted: 64 << 10, unsorted: 8 << 20 };
    /// Stages all records.
    pub(crate) const UNLIMITED: BatchSizes = BatchSizes { first: usize::MAX, sorted: usize::MAX, unsorted: usize::MAX };
}

/// Sorts the records of a zone, or of a chunk of zone text, into runs.
///
/// It is boxed, because lists of sorters are converted: a list that shrinks at each step leaves holes between the zones of a server
/// that has many small ones.
pub(crate) struct RecordSorter {
    stage: StagedChunk,
    names: PartSorter,
    nsec3: PartSorter,
}

/// The sorter of one tree.
struct PartSorter {
    batches: BatchSizes,
    /// How many octets are staged before they are encoded.
    limit: usize,
    runs: Vec<EncodedRun>,
    /// The octets of `runs`.
    octets: usize,
    /// The run that further owners may be appended to. Boxed: the sorters of small zones, hundreds of which may be received at once, have none.
    open: Option<Box<RunEncoder>>,
}

/// What a sorter made of its records.
pub(crate) struct SortedRecords {
    /// Runs in the order of the records.
    pub(crate) names: Vec<EncodedRun>,
    pub(crate) nsec3: Vec<EncodedRun>,
}

impl RecordSorter {
    /// A sorter for a zone with this apex.
    pub(crate) fn new(apex: NameRef<'_>, batches: BatchSizes) -> Box<RecordSorter> {
        let part = || PartSorter { batches, limit: batches.first, runs: Vec::new(), octets: 0, open: None };
        Box::new(RecordSorter { stage: StagedChunk::new(apex), names: part(), nsec3: part() })
    }

    /// Adds a record.
    #[inline]
    pub(crate) fn push(&mut self, context: &SorterContext<'_>, record: ZoneRecord<'_>) {
        if self.stage(context.apex, record) {
            self.encode_full(context);
        }
    }

    /// Stages a record; returns whether a batch is full: then [`Self::encode_full`] must follow. `apex` is that of the context, which
    /// most records do without.
    #[inline]
    pub(crate) fn stage(&mut self, apex: &OnceLock<Name>, record: ZoneRecord<'_>) -> bool {
        if record.owner.wire().len() == self.stage.apex_len() {
            apex.get_or_init(|| record.owner.to_owned());
        }
        self.stage.record(record);
        self.names.is_full(&self.stage.names) || self.nsec3.is_full(&self.stage.nsec3)
    }

    /// Encodes full batches.
    pub(crate) fn encode_full(&mut self, context: &SorterContext<'_>) {
        for (part, stage) in [(&mut self.names, &mut self.stage.names), (&mut self.nsec3, &mut self.stage.nsec3)] {
            if part.is_full(stage) {
                part.encode_batch(context, stage);
            }
        }
    }

    /// Encodes what is staged.
    pub(crate) fn encode_all(&mut self, context: &SorterContext<'_>) {
        self.names.encode_all(context, std::mem::take(&mut self.stage.names));
        self.nsec3.encode_all(context, std::mem::take(&mut self.stage.nsec3));
    }

    /// About the octets of memory that the records take.
    pub(crate) fn octets(&self) -> usize {
        let encoded = |part: &PartSorter| part.octets + part.open.as_ref().map_or(0, |open| open.octets());
        self.stage.names.octets() + self.stage.nsec3.octets() + encoded(&self.names) + encoded(&self.nsec3)
    }

    /// Whether records were encoded.
    pub(crate) fn has_encoded(&self) -> bool {
        let has_encoded = |part: &PartSorter| part.open.is_some() || !part.runs.is_empty();
        has_encoded(&self.names) || has_encoded(&self.nsec3)
    }

    /// All records, if none was encoded.
    pub(crate) fn into_staged(self) -> StagedChunk {
        self.stage
    }

    /// All records as runs.
    pub(crate) fn finish(mut self, context: &SorterContext<'_>) -> SortedRecords {
        self.encode_all(context);
        SortedRecords { names: self.names.runs, nsec3: self.nsec3.runs }
    }
}

impl PartSorter {
    #[inline]
    fn is_full(&self, stage: &OwnerRuns) -> bool {
        stage.octets() >= self.limit
    }

    /// Encodes a full batch, except for its last owner, which may get more records; or raises the limit.
    #[cold]
    fn encode_batch(&mut self, context: &SorterContext<'_>, stage: &mut OwnerRuns) {
        let is_sorted = stage.is_sorted();
        if !is_sorted && self.limit < self.batches.unsorted {
            self.limit = self.batches.unsorted;
            return;
        }
        let mut runs = stage.take_runs();
        let Some(last) = runs.pop() else { return };
        let staged = Staged(std::slice::from_ref(stage));
        if !is_sorted {
            runs.sort_unstable_by(|a, b| staged.compare(a, b));
        }
        self.encode(context, staged, &runs);
        stage.keep_only(last, runs);
        // One owner may have more records than a batch holds.
        self.limit = stage.octets() + if is_sorted { self.batches.sorted } else { self.batches.unsorted };
    }

    fn encode_all(&mut self, context: &SorterContext<'_>, mut stage: OwnerRuns) {
        let mut runs = stage.take_runs();
        let staged = Staged(std::slice::from_ref(&stage));
        runs.sort_unstable_by(|a, b| staged.compare(a, b));
        self.encode(context, staged, &runs);
        self.runs.extend(self.open.take().map(|open| open.finish()));
    }

    fn encode(&mut self, context: &SorterContext<'_>, staged: Staged<'_>, runs: &[Run]) {
        let Some(first) = runs.first() else { return };
        let apex = context.apex();
        if let Some(full) = self.open.take_if(|open| !open.accepts(staged.key(first), apex)) {
            self.octets += full.octets();
            self.runs.push(full.finish());
        }
        let open = self.open.get_or_insert_with(|| Box::new(RunEncoder::new(apex)));
        open.append(context.options, context.interner, staged, runs);
    }
}

/// A [`RecordSorter`] as the sink of a text parser.
pub(crate) struct SorterSink<'c> {
    pub(crate) context: &'c SorterContext<'c>,
    pub(crate) sorter: Box<RecordSorter>,
}

impl RecordSink for SorterSink<'_> {
    fn record(&mut self, record: ZoneRecord<'_>) {
        self.sorter.push(self.context, record);
    }

    fn end(&mut self) {
        if self.sorter.names.limit < usize::MAX {
            self.sorter.encode_all(self.context);
        }
    }
}
