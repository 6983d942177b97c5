//! Runs: sorted parts of a zone whose owners are encoded as in the final tree, so that they take about the same memory.
//!
//! A run knows only its own records. [`crate::merge`] joins runs into a zone; it decides about what depends on other runs.

use wire::{Name, NameRef, Rtype};

use crate::build::has_wildcard_label;
use crate::build_options::BuildOptions;
use crate::check::check_node;
use crate::finding::Findings;
use crate::intern::{InternTables, Interner};
use crate::node_decoder::NodeDecoder;
use crate::occlusion::{Occlusion, own_flags};
use crate::owner_case::OwnerCase;
use crate::owner_case::write_name;
use crate::rrset::{DNAME, NodeEncoder, ZoneNode};
use crate::stage::{OwnerRuns, Run, Staged, StagedOwner, StagedRecord};
use crate::text::ZoneRecord;
use crate::tree::{Leaf, TreeBuilder};

/// A sorted part of a zone.
pub(crate) struct EncodedRun {
    /// The owners whose records pass all checks of one owner.
    pub(crate) leaves: Vec<RunLeaf>,
    /// The other owners, in key order: findings need the positions of their records.
    pub(crate) staged: OwnerRuns,
    /// The apex in the case that names were compressed with.
    pub(crate) apex: Name,
    pub(crate) has_wildcards: bool,
}

impl EncodedRun {
    /// The owner case of the apex, if the run has it.
    pub(crate) fn apex_case(&self) -> Option<OwnerCase<'_>> {
        let staged = Staged(std::slice::from_ref(&self.staged));
        if let Some(run) = self.staged.first_run().filter(|run| run.is_apex()) {
            return Some(staged.case(&run));
        }
        let first = self.leaves.first()?.leaf.block().entry(0);
        (first.key_len() == 0).then(|| OwnerCase::read(first.value[0], &first.value[1..]).0)
    }

    /// Whether the run has a DNAME at the apex.
    pub(crate) fn has_apex_dname(&self) -> bool {
        let first = self.leaves.first().map(|leaf| leaf.leaf.block().entry(0));
        let staged = Staged(std::slice::from_ref(&self.staged));
        let mut records = Vec::new();
        self.staged.first_run().filter(Run::is_apex).iter().for_each(|run| staged.append_records(run, &mut records));
        first.is_some_and(|first| first.key_len() == 0 && first.value[0] & DNAME != 0)
            || records.iter().any(|record| record.rtype == Rtype::DNAME)
    }

    /// Passes on all records; those of the apex with `apex` as their owner.
    pub(crate) fn for_each_record(
        &self,
        tables: &InternTables,
        apex: NameRef<'_>,
        take: &mut impl FnMut(ZoneRecord<'_>),
    ) {
        let staged = Staged(std::slice::from_ref(&self.staged));
        let mut room = [0; _];
        for run in self.staged.runs() {
            let owner = write_name(staged.key(run), staged.case(run), self.apex.as_ref(), &mut room);
            let owner = if run.is_apex() { apex } else { owner };
            let mut records = Vec::new();
            staged.append_records(run, &mut records);
            records.iter().for_each(|record| take(record.with_owner(owner)));
        }
        let (mut decoder, mut key) = (NodeDecoder::default(), Vec::new());
        for leaf in &self.leaves {
            let block = leaf.leaf.block();
            for index in 0..block.count() {
                let entry = block.entry(index);
                key.clear();
                entry.append_key(&mut key);
                let case = OwnerCase::read(entry.value[0], &entry.value[1..]).0;
                let owner = write_name(&key, case, self.apex.as_ref(), &mut room);
                let (file, line) = leaf.position(index);
                for record in decoder.decode(ZoneNode::new(entry.value, tables, 0), owner, self.apex.as_ref()) {
                    let owner = if key.is_empty() { apex } else { owner };
                    take(StagedRecord { file, line, ..record }.with_owner(owner));
                }
            }
        }
    }
}

/// A leaf of the final tree, unless another run has keys in its range.
#[derive(Clone)]
pub(crate) struct RunLeaf {
    pub(crate) leaf: Leaf,
    /// The line of the first record of each entry, then the numbers of their files unless all are 0. Empty if the records have no lines.
    positions: Box<[u32]>,
    /// The length of the key of the cut or DNAME above the first entry; [`NOT_OCCLUDED`] if there is none in this run.
    pub(crate) above_len: u16,
}

/// See [`RunLeaf::above_len`]: no key is so long.
pub(crate) const NOT_OCCLUDED: u16 = u16::MAX;

impl RunLeaf {
    /// The key of the top-most label of the first entry.
    pub(crate) fn first_label(&self) -> Vec<u8> {
        let mut key = Vec::new();
        self.leaf.block().entry(0).append_key(&mut key);
        key.truncate(key.iter().position(|&octet| octet == 0).map_or(0, |at| at + 1));
        key
    }

    /// File and line of the first record of an entry.
    pub(crate) fn position(&self, index: usize) -> (u16, u32) {
        let file = self.positions.get(self.leaf.block().count() + index).map_or(0, |&file| file as u16);
        (file, self.positions.get(index).map_or(0, |&line| line))
    }
}

/// Encodes owners that arrive in key order.
pub(crate) struct RunEncoder {
    apex: Name,
    encoder: NodeEncoder,
    tree: TreeBuilder,
    leaves: Vec<(Box<[u32]>, u16)>,
    /// The positions of the entries of the open leaf.
    positions: Vec<(u16, u32)>,
    above_len: u16,
    staged: OwnerRuns,
    occlusion: Occlusion,
    last_key: Vec<u8>,
    has_wildcards: bool,
}

impl RunEncoder {
    /// An empty run. `apex` is in its original case.
    pub(crate) fn new(apex: NameRef<'_>) -> RunEncoder {
        RunEncoder {
            apex: apex.to_owned(),
            encoder: NodeEncoder::new(apex),
            tree: TreeBuilder::default(),
            leaves: Vec::new(),
            positions: Vec::new(),
            above_len: NOT_OCCLUDED,
            staged: OwnerRuns::default(),
            occlusion: Occlusion::default(),
            last_key: Vec::new(),
            has_wildcards: false,
        }
    }

    /// Whether owners from `key` on may be appended.
    pub(crate) fn accepts(&self, key: &[u8], apex: NameRef<'_>) -> bool {
        (*self.last_key < *key || self.is_empty()) && self.apex.wire() == apex.wire()
    }

    /// About the octets of memory that it takes.
    pub(crate) fn octets(&self) -> usize {
        self.tree.octets() + self.staged.octets()
    }

    fn is_empty(&self) -> bool {
        self.positions.is_empty() && self.staged.count() == 0
    }

    /// Checks and encodes the owners of sorted runs. `interner` is the same in each call.
    pub(crate) fn append(
        &mut self,
        options: &BuildOptions<'_>,
        interner: &Interner<'_>,
        staged: Staged<'_>,
        runs: &[Run],
    ) {
        let apex = self.apex.clone();
        let options = &BuildOptions { apex: apex.as_ref(), ..*options };
        staged.for_each_owner(runs, options.apex, |owner, records| self.push(options, interner, owner, records));
        if let Some(last) = runs.last() {
            self.last_key.clear();
            self.last_key.extend_from_slice(staged.key(last));
        }
    }

    fn push(
        &mut self,
        options: &BuildOptions<'_>,
        interner: &Interner<'_>,
        StagedOwner { key, case, name }: StagedOwner<'_>,
        records: &mut [StagedRecord<'_>],
    ) {
        self.has_wildcards |= has_wildcard_label(key);
        let above = self.occlusion.above(key);
        let flags = self.occlusion.flags(key, own_flags(key, records));
        let mut found = Findings::new(0);
        check_node(options, name, key, flags, records, &mut found);
        if !found.is_empty() {
            return self.staged.append(key, case, records);
        }
        let position = (records[0].file, records[0].line);
        let leaves = self.tree.leaf_count();
        self.tree.push(key, self.encoder.encode(interner, name, case, flags, records));
        if self.tree.leaf_count() > leaves {
            self.close_leaf();
        }
        if self.positions.is_empty() {
            self.above_len = above.map_or(NOT_OCCLUDED, |(len, _)| len as u16);
        }
        self.positions.push(position);
    }

    /// Stores the positions of a complete leaf.
    fn close_leaf(&mut self) {
        let has_lines = self.positions.iter().any(|&(_, line)| line > 0);
        let has_files = self.positions.iter().any(|&(file, _)| file > 0);
        let lines = self.positions.iter().map(|&(_, line)| line).filter(|_| has_lines);
        let files = self.positions.iter().map(|&(file, _)| file.into()).filter(|_| has_files);
        self.leaves.push((lines.chain(files).collect(), self.above_len));
        self.positions.clear();
    }

    /// The run.
    pub(crate) fn finish(mut self) -> EncodedRun {
        if !self.positions.is_empty() {
            self.close_leaf();
        }
        let leaves = self.tree.finish_leaves().zip(self.leaves);
        EncodedRun {
            leaves: leaves.map(|(leaf, (positions, above_len))| RunLeaf { leaf, positions, above_len }).collect(),
            staged: self.staged,
            apex: self.apex,
            has_wildcards: self.has_wildcards,
        }
    }
}
