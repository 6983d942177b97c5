//! Builds a zone from the records of sorters: [runs](crate::encoded_run), which are merged on several threads; or staged records of a small zone.

#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};

use wire::{Name, NameRef};

use crate::build::{Difference, Summary, assemble, finish};
use crate::build_options::BuildOptions;
use crate::encoded_run::{EncodedRun, RunLeaf};
use crate::finding::Findings;
use crate::intern::{InternTables, Interner};
use crate::merge::{KeyRange, Merged, RunPart, merge};
use crate::node_decoder::NodeDecoder;
use crate::occlusion::Occlusion;
use crate::owner_case::{OwnerCase, apex_in_case};
use crate::record_sorter::{BatchSizes, RecordSorter, SorterContext};
use crate::rrset::DNAME;
use crate::stage::{OwnerRuns, Run, Staged, StagedChunk};
use crate::text::RecordSink;
use crate::tree::{Tree, TreeBuilder};
use crate::zone::Zone;

/// If several runs have more than 1/`JOINED_FRACTION` of the owners, the zone is built again: their RRsets are not interned.
const JOINED_FRACTION: usize = 8;
/// The fewest leaves worth a thread.
const RANGE_MIN: usize = 400;
/// How many keys are sampled to split a zone into ranges.
const SAMPLE: usize = 511;

/// Builds a zone from the records of all sorters, which are in the order of the records; `None` if the findings include errors. `apex`
/// is that of the [`SorterContext`]; the one in the options is in lower case. Only if nothing was encoded is the zone compared with the
/// previous version.
#[expect(clippy::vec_box, reason = "see `RecordSorter`")]
pub(crate) fn build(
    options: &BuildOptions<'_>,
    interner: Interner<'_>,
    apex: &OnceLock<Name>,
    sorters: Vec<Box<RecordSorter>>,
) -> (Option<(Zone, Option<Difference>)>, Findings) {
    if !sorters.iter().any(|sorter| sorter.has_encoded()) {
        return assemble(sorters.into_iter().map(|sorter| sorter.into_staged()), options);
    }
    let context = SorterContext { options, interner: &interner, apex };
    // The parser of zone text has a sorter for each chunk, and threads of its own.
    let is_from_threads = sorters.len() > 1;
    let sorted = sorters.into_iter().map(|sorter| sorter.finish(&context));
    let (names, nsec3): (Vec<_>, Vec<_>) = sorted.map(|sorted| (sorted.names, sorted.nsec3)).unzip();
    let [names, nsec3] = [names, nsec3].map(|runs| runs.into_iter().flatten().collect::<Vec<_>>());
    let mut tables = interner.finish();
    let apex_case = names.iter().find_map(EncodedRun::apex_case);
    let apex = apex_in_case(options.apex, apex_case.unwrap_or(OwnerCase::LOWER));
    let options = &BuildOptions { apex: apex.as_ref(), ..*options };
    if names.iter().chain(&nsec3).any(|run| run.apex.wire() != apex.wire()) {
        return assemble([names, nsec3].map(|runs| stage(&tables, options.apex, &runs)), options);
    }
    let mut found = Findings::default();
    let summary = Summary::of_records(names.iter().chain(&nsec3).any(|run| run.has_wildcards));
    let occlusion = apex_occlusion(&names);
    let mut counts = [0; 2];
    let [names, nsec3] = [(names, occlusion), (nsec3, Occlusion::default())].map(|(runs, occlusion)| {
        merge_runs(options, &tables, runs, is_from_threads, &occlusion, &mut counts, &mut found)
    });
    if let Some(tables) = Arc::get_mut(&mut tables) {
        tables.forget_index();
    }
    let zone = finish(options, names, nsec3, tables, summary, &mut found);
    let [owners, joined] = counts;
    let zone = zone.map(|zone| if joined > owners / JOINED_FRACTION { zone.rebuild(options.threads) } else { zone });
    (zone.map(|zone| (zone, None)), found)
}

/// Builds a zone from its own records, with new tables. They come in canonical order, so that none is staged.
pub(crate) fn rebuild(zone: &Zone, threads: usize) -> Zone {
    let apex = zone.owner(&zone.apex_entry());
    let options = BuildOptions { threads, ..BuildOptions::of_records(zone.apex()) };
    let (interner, original) = (Interner::new(), OnceLock::from(apex.clone()));
    let context = SorterContext { options: &options, interner: &interner, apex: &original };
    let mut sorter = RecordSorter::new(zone.apex(), BatchSizes::DEFAULT);
    let mut decoder = NodeDecoder::default();
    for (entry, node) in zone.nodes() {
        let owner = zone.owner(&entry);
        for record in decoder.decode(node, owner.as_ref(), apex.as_ref()) {
            sorter.push(&context, record.with_owner(owner.as_ref()));
        }
    }
    build(&options, interner, &original, vec![sorter]).0.expect("these records were a valid zone").0
}

/// A DNAME at the apex occludes names in all runs.
fn apex_occlusion(names: &[EncodedRun]) -> Occlusion {
    let has_dname = names.iter().any(EncodedRun::has_apex_dname);
    if has_dname { Occlusion::below(&[], DNAME) } else { Occlusion::default() }
}

/// Stages the records of runs: the apex turned out to have another case than that with which names were compressed.
fn stage(tables: &InternTables, apex: NameRef<'_>, runs: &[EncodedRun]) -> StagedChunk {
    let mut chunk = StagedChunk::new(apex);
    runs.iter().for_each(|run| run.for_each_record(tables, apex, &mut |record| chunk.record(record)));
    chunk
}

//----------- ranges -----------------------------------------------------------

/// Merges runs into a tree. `counts` are increased by the owners, and by those that several runs have.
///
/// The leaves of the runs are freed meanwhile, in the heaps of the threads that made them. For new leaves to take their place, this
/// thread merges if it has made the runs, and does not if other threads have (`is_from_threads`): new threads get the heaps of those,
/// which have ended, while this thread's would grow.
fn merge_runs(
    options: &BuildOptions<'_>,
    tables: &InternTables,
    runs: Vec<EncodedRun>,
    is_from_threads: bool,
    occlusion: &Occlusion,
    counts: &mut [usize; 2],
    found: &mut Findings,
) -> Tree {
    let bounds = range_bounds(&runs, options.threads);
    let (mut staged, mut leaves): (Vec<_>, Vec<_>) = runs.into_iter().map(|run| (run.staged, run.leaves)).unzip();
    let mut staged_runs: Vec<Vec<Run>> = staged.iter_mut().map(OwnerRuns::take_runs).collect();
    let starts: Vec<&[u8]> = std::iter::once(&[][..]).chain(bounds.iter().map(|bound| &**bound)).collect();
    let mut end = None;
    let mut ranges = Vec::new();
    for start in starts.into_iter().rev() {
        let parts = leaves.iter_mut().zip(&mut staged_runs).zip(&staged).map(|((leaves, runs), staged)| {
            let staged = std::slice::from_ref(staged);
            let at = runs.partition_point(|run| Staged(staged).key(run) < start);
            RunPart { leaves: split_leaves(leaves, start), staged, staged_runs: runs.split_off(at) }
        });
        ranges.push((KeyRange { start, end }, parts.collect::<Vec<_>>()));
        end = Some(start);
    }
    drop((leaves, staged_runs));
    let merged = std::thread::scope(|scope| {
        let work = |(range, parts)| merge(options, tables, range, parts, occlusion.clone());
        let first = if is_from_threads { None } else { ranges.pop() };
        let threads: Vec<_> = ranges.into_iter().rev().map(|range| scope.spawn(move || work(range))).collect();
        let first = first.map(work);
        let others = threads.into_iter().map(|thread| thread.join().expect("merging does not panic"));
        first.into_iter().chain(others).collect::<Vec<Merged>>()
    });
    let add = |merged: Merged| {
        counts[0] += merged.owners;
        counts[1] += merged.joined;
        found.append(merged.found);
        merged.tree
    };
    TreeBuilder::join(merged.into_iter().map(add))
}

/// Removes the leaves that have keys from `start` on; one that has lower keys as well stays, too.
fn split_leaves(leaves: &mut Vec<RunLeaf>, start: &[u8]) -> Vec<RunLeaf> {
    let at = leaves.partition_point(|leaf| leaf.leaf.block().entry(0).cmp_key(start).is_lt());
    let both = at.checked_sub(1).map(|before| leaves[before].clone());
    let both = both.filter(|leaf| {
        let block = leaf.leaf.block();
        block.entry(block.count() - 1).cmp_key(start).is_ge()
    });
    let tail = leaves.split_off(at);
    leaves.shrink_to_fit();
    if both.is_none() { tail } else { both.into_iter().chain(tail).collect() }
}

/// The starts of the ranges for the threads but the first. They are single labels, so that a zone cut is in the same range as the names
/// below it.
fn range_bounds(runs: &[EncodedRun], threads: usize) -> Vec<Vec<u8>> {
    let leaves = || runs.iter().flat_map(|run| &run.leaves);
    let count = leaves().count();
    let ranges = threads.min(count / RANGE_MIN);
    if ranges < 2 {
        return Vec::new();
    }
    let mut sample: Vec<Vec<u8>> = leaves().step_by(count.div_ceil(SAMPLE)).map(RunLeaf::first_label).collect();
    sample.sort_unstable();
    let mut bounds: Vec<_> = (1..ranges).map(|range| sample[range * sample.len() / ranges].clone()).collect();
    bounds.dedup();
    bounds.retain(|bound| !bound.is_empty());
    bounds
}
