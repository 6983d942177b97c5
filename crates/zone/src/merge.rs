//! Merges [runs](crate::encoded_run) into the trees of a zone. Leaves whose key range no other run shares are not copied, and the
//! leaves of a run are freed as they are merged.

use std::cmp::Ordering;
use std::mem;

use wire::NameRef;

use crate::build_options::BuildOptions;
use crate::check::check_node;
use crate::encoded_run::{NOT_OCCLUDED, RunLeaf};
use crate::finding::Findings;
use crate::intern::{InternTables, Interner};
use crate::node_decoder::NodeDecoder;
use crate::occlusion::{Occlusion, own_flags};
use crate::owner_case::OwnerCase;
use crate::owner_case::write_name;
use crate::rrset::{BELOW_DNAME, CUT, DNAME, NodeEncoder, OCCLUDED, ZoneNode};
use crate::stage::{OwnerRuns, Run, Staged, StagedRecord, key_head};
use crate::tree::TreeBuilder;

/// Part of a run: its owners in a range of keys.
pub(crate) struct RunPart<'r> {
    pub(crate) leaves: Vec<RunLeaf>,
    pub(crate) staged: &'r [OwnerRuns],
    pub(crate) staged_runs: Vec<Run>,
}

/// A range of keys; the end is exclusive.
#[derive(Clone, Copy)]
pub(crate) struct KeyRange<'k> {
    pub(crate) start: &'k [u8],
    pub(crate) end: Option<&'k [u8]>,
}

impl KeyRange<'_> {
    fn ends_before(&self, key: &[u8]) -> bool {
        self.end.is_some_and(|end| key >= end)
    }
}

/// The result of a merge.
pub(crate) struct Merged {
    pub(crate) tree: TreeBuilder,
    pub(crate) found: Findings,
    /// Owners that several runs have: their RRsets are not interned if they are new.
    pub(crate) joined: usize,
    pub(crate) owners: usize,
}

/// Merges the owners in a range of keys. `parts` are in the order of their records.
pub(crate) fn merge(
    options: &BuildOptions<'_>,
    tables: &InternTables,
    range: KeyRange<'_>,
    parts: Vec<RunPart<'_>>,
    occlusion: Occlusion,
) -> Merged {
    let mut merger = Merger {
        options,
        tables,
        range,
        interner: Interner::existing(tables),
        encoder: NodeEncoder::new(options.apex),
        occlusion,
        value: Vec::new(),
        merged: Merged { tree: TreeBuilder::default(), found: Findings::default(), joined: 0, owners: 0 },
    };
    let mut queue = RunQueue::new(parts, range);
    let mut same = Vec::new();
    while let Some(first) = queue.first() {
        if let Some(leaf) = merger.whole_leaf(&mut queue) {
            merger.push_leaf(leaf);
        } else if queue.is_only(first) {
            merger.push_owner(&queue.cursors[first]);
            queue.advance_first(range);
        } else {
            queue.pop_same(&mut same);
            merger.push_joined(same.iter().map(|&at| &queue.cursors[at]));
            same.drain(..).for_each(|at| queue.advance(at, range));
        }
    }
    merger.merged
}

/// Writes the owners of one range into a tree.
struct Merger<'m> {
    options: &'m BuildOptions<'m>,
    tables: &'m InternTables,
    range: KeyRange<'m>,
    interner: Interner<'m>,
    encoder: NodeEncoder,
    occlusion: Occlusion,
    value: Vec<u8>,
    merged: Merged,
}

/// The flags that depend on the owners above.
const ABOVE: u8 = OCCLUDED | BELOW_DNAME;

impl Merger<'_> {
    /// The next leaf, if it can be shared: no other run has keys in its range, and its flags are right.
    fn whole_leaf(&self, queue: &mut RunQueue<'_>) -> Option<RunLeaf> {
        if !self.merged.tree.is_at_leaf_start() {
            return None;
        }
        let next = queue.second_key();
        let cursor = queue.first_cursor()?;
        let leaf = cursor.leaf.as_ref().filter(|_| cursor.at == 0)?;
        let block = leaf.leaf.block();
        let above = self.occlusion.above(&cursor.key);
        let has_right_flags = match above {
            None => leaf.above_len == NOT_OCCLUDED,
            Some((len, is_dname)) => {
                usize::from(leaf.above_len) == len && (block.entry(0).value[0] & BELOW_DNAME != 0) == is_dname
            }
        };
        let last = block.entry(block.count() - 1);
        let is_before = |key: &[u8]| last.cmp_key(key) == Ordering::Less;
        let is_whole = has_right_flags && next.is_none_or(is_before) && self.range.end.is_none_or(is_before);
        is_whole.then(|| queue.take_leaf(self.range)).flatten()
    }

    fn push_leaf(&mut self, leaf: RunLeaf) {
        let block = leaf.leaf.block();
        let own = |index: &usize| {
            let flags = block.entry(*index).value[0];
            flags & (CUT | DNAME) != 0 && flags & OCCLUDED == 0
        };
        if let Some(last) = (0..block.count()).rev().find(own) {
            let entry = block.entry(last);
            let mut key = Vec::new();
            entry.append_key(&mut key);
            self.occlusion = Occlusion::below(&key, entry.value[0] & (CUT | DNAME));
        }
        self.merged.owners += block.count();
        self.merged.tree.push_leaf(leaf.leaf);
    }

    /// Appends an owner that only one run has.
    fn push_owner(&mut self, cursor: &RunCursor<'_>) {
        let Some(value) = cursor.value() else { return self.push_joined(std::iter::once(cursor)) };
        let flags = value[0] & !ABOVE | self.occlusion.flags(&cursor.key, value[0] & (CUT | DNAME));
        self.merged.owners += 1;
        if flags == value[0] {
            return self.merged.tree.push(&cursor.key, value);
        }
        if flags & OCCLUDED != 0 {
            self.check_occluded(cursor, flags);
        }
        self.value.clear();
        self.value.extend_from_slice(value);
        self.value[0] = flags;
        self.merged.tree.push(&cursor.key, &self.value);
    }

    /// Reports an owner that no other record of its run occludes.
    #[cold]
    fn check_occluded(&mut self, cursor: &RunCursor<'_>, flags: u8) {
        let mut decoder = NodeDecoder::default();
        let apex = self.options.apex;
        let case = cursor.case();
        let mut room = [0; _];
        let owner = write_name(&cursor.key, case, apex, &mut room);
        let records = decode(&mut decoder, cursor, self.tables, apex);
        check_node(self.options, owner, &cursor.key, flags, &records, &mut self.merged.found);
    }

    /// Appends an owner that is staged, or that several runs have.
    fn push_joined<'q, 'r: 'q>(&mut self, cursors: impl Iterator<Item = &'q RunCursor<'r>> + Clone) {
        let Some(first) = cursors.clone().next() else { return };
        let (key, case, apex) = (&first.key, first.case(), self.options.apex);
        let mut room = [0; _];
        let owner = write_name(key, case, apex, &mut room);
        let mut decoders: Vec<_> = cursors.clone().map(|_| NodeDecoder::default()).collect();
        let mut records = Vec::new();
        for (decoder, cursor) in decoders.iter_mut().zip(cursors) {
            records.extend(decode(decoder, cursor, self.tables, apex));
        }
        let flags = self.occlusion.flags(key, own_flags(key, &records));
        check_node(self.options, owner, key, flags, &records, &mut self.merged.found);
        self.merged.tree.push(key, self.encoder.encode(&self.interner, owner, case, flags, &mut records));
        self.merged.owners += 1;
        self.merged.joined += usize::from(decoders.len() > 1);
    }
}

/// The records of an owner of a run.
fn decode<'d>(
    decoder: &'d mut NodeDecoder,
    cursor: &RunCursor<'d>,
    tables: &InternTables,
    apex: NameRef<'_>,
) -> Vec<StagedRecord<'d>> {
    let Some(value) = cursor.value() else {
        let mut records = Vec::new();
        cursor.staged.append_records(&cursor.staged_runs[cursor.at], &mut records);
        return records;
    };
    // Names in RDATA may point to the owner as this run has it.
    let mut room = [0; _];
    let owner = write_name(&cursor.key, cursor.case(), apex, &mut room);
    let (file, line) = cursor.leaf.as_ref().map_or((0, 0), |leaf| leaf.position(cursor.at));
    let mut records = decoder.decode(ZoneNode::new(value, tables, 0), owner, apex);
    records.iter_mut().for_each(|record| (record.file, record.line) = (file, line));
    records
}

//----------- RunCursor --------------------------------------------------------

/// A position in a run: in its leaves or in its staged owners.
struct RunCursor<'r> {
    leaves: std::vec::IntoIter<RunLeaf>,
    leaf: Option<RunLeaf>,
    staged: Staged<'r>,
    staged_runs: Vec<Run>,
    /// The index of the entry in the leaf or in `staged_runs`.
    at: usize,
    key: Vec<u8>,
    head: u128,
    order: usize,
}

impl<'r> RunCursor<'r> {
    /// The encoded owner; `None` if it is staged.
    fn value(&self) -> Option<&[u8]> {
        self.leaf.as_ref().map(|leaf| leaf.leaf.block().entry(self.at).value)
    }

    fn case(&self) -> OwnerCase<'_> {
        match self.value() {
            Some(value) => OwnerCase::read(value[0], &value[1..]).0,
            None => self.staged.case(&self.staged_runs[self.at]),
        }
    }

    /// Moves to the next entry; `false` at the end.
    #[inline]
    fn advance(&mut self, range: KeyRange<'_>) -> bool {
        self.at += 1;
        self.settle(range)
    }

    /// Reads the key at the position.
    #[inline]
    fn settle(&mut self, range: KeyRange<'_>) -> bool {
        self.key.clear();
        if let Some(leaf) = &self.leaf {
            if leaf.leaf.block().count() == self.at {
                (self.leaf, self.at) = (self.leaves.next(), 0);
            }
            let Some(leaf) = &self.leaf else { return false };
            leaf.leaf.block().entry(self.at).append_key(&mut self.key);
        } else {
            let Some(run) = self.staged_runs.get(self.at) else { return false };
            self.key.extend_from_slice(self.staged.key(run));
        }
        self.head = key_head(&self.key);
        !range.ends_before(&self.key)
    }

    #[inline]
    fn compare(&self, other: &RunCursor<'_>) -> Ordering {
        self.head.cmp(&other.head).then_with(|| self.key.cmp(&other.key)).then(self.order.cmp(&other.order))
    }
}

//----------- RunQueue ---------------------------------------------------------

/// The cursors of all runs; those that are not at their end are in a binary heap.
struct RunQueue<'r> {
    cursors: Vec<RunCursor<'r>>,
    /// Indexes of cursors, the least key first.
    heap: Vec<usize>,
}

impl<'r> RunQueue<'r> {
    fn new(parts: Vec<RunPart<'r>>, range: KeyRange<'_>) -> RunQueue<'r> {
        let mut queue = RunQueue { cursors: Vec::new(), heap: Vec::new() };
        for part in parts {
            let cursor = |leaves: Vec<RunLeaf>, staged_runs, order| {
                let mut leaves = leaves.into_iter();
                let leaf = leaves.next();
                let staged = Staged(part.staged);
                RunCursor { leaves, leaf, staged, staged_runs, at: 0, key: Vec::new(), head: 0, order }
            };
            for (leaves, staged_runs) in [(part.leaves, Vec::new()), (Vec::new(), part.staged_runs)] {
                let mut cursor = cursor(leaves, staged_runs, queue.cursors.len());
                let mut has_key = cursor.settle(range);
                while has_key && *cursor.key < *range.start {
                    has_key = cursor.advance(range);
                }
                queue.cursors.push(cursor);
                if has_key {
                    queue.push(queue.cursors.len() - 1);
                }
            }
        }
        queue
    }

    fn first(&self) -> Option<usize> {
        self.heap.first().copied()
    }

    fn first_cursor(&self) -> Option<&RunCursor<'r>> {
        self.first().map(|at| &self.cursors[at])
    }

    /// The least key of the other cursors.
    fn second_key(&self) -> Option<&[u8]> {
        self.second().map(|at| self.cursors[at].key.as_slice())
    }

    fn second(&self) -> Option<usize> {
        match (self.heap.get(1), self.heap.get(2)) {
            (Some(&left), Some(&right)) => Some(if self.is_less(right, left) { right } else { left }),
            (left, _) => left.copied(),
        }
    }

    /// Whether no other cursor has the key of the first one.
    #[inline]
    fn is_only(&self, first: usize) -> bool {
        let first = &self.cursors[first];
        let is_other = |&at: &usize| self.cursors[at].head != first.head || self.cursors[at].key != first.key;
        self.heap[1..].iter().take(2).all(is_other)
    }

    /// Removes all cursors with the least key and lists them in the order of their records.
    fn pop_same(&mut self, same: &mut Vec<usize>) {
        while let Some(first) = self.first() {
            if same.first().is_some_and(|&other: &usize| self.cursors[other].key != self.cursors[first].key) {
                return;
            }
            same.push(first);
            self.remove_first();
        }
    }

    /// The first cursor's leaf, to which it points; moves on to the next one.
    fn take_leaf(&mut self, range: KeyRange<'_>) -> Option<RunLeaf> {
        let cursor = &mut self.cursors[*self.heap.first()?];
        let next = cursor.leaves.next();
        let leaf = mem::replace(&mut cursor.leaf, next);
        let has_key = cursor.leaf.is_some() && cursor.settle(range);
        if has_key {
            self.sift_down()
        } else {
            self.remove_first()
        }
        leaf
    }

    #[inline]
    fn advance_first(&mut self, range: KeyRange<'_>) {
        let first = self.heap[0];
        if self.cursors[first].advance(range) { self.sift_down() } else { self.remove_first() }
    }

    /// Moves a cursor that is not in the heap to its next key.
    fn advance(&mut self, at: usize, range: KeyRange<'_>) {
        if self.cursors[at].advance(range) {
            self.push(at);
        }
    }

    fn push(&mut self, cursor: usize) {
        self.heap.push(cursor);
        let mut at = self.heap.len() - 1;
        while at > 0 && self.is_less(self.heap[at], self.heap[(at - 1) / 2]) {
            self.heap.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
    }

    fn remove_first(&mut self) {
        self.heap.swap_remove(0);
        self.sift_down();
    }

    /// Restores the order after a change of the first cursor.
    #[inline]
    fn sift_down(&mut self) {
        let mut at = 0;
        loop {
            let left = 2 * at + 1;
            let Some(&left_cursor) = self.heap.get(left) else { return };
            let right_is_less = self.heap.get(left + 1).is_some_and(|&right| self.is_less(right, left_cursor));
            let child = if right_is_less { left + 1 } else { left };
            if !self.is_less(self.heap[child], self.heap[at]) {
                return;
            }
            self.heap.swap(at, child);
            at = child;
        }
    }

    #[inline]
    fn is_less(&self, a: usize, b: usize) -> bool {
        self.cursors[a].compare(&self.cursors[b]).is_lt()
    }
}
