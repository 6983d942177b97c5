//! Builds a version of a zone from staged records: sorts, checks and encodes them, on several threads.
//!
//! A reload compares with the previous version and applies only the differences to its trees.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::build_options::BuildOptions;
use crate::check::{TargetName, check_apex, check_node, check_targets, collect_targets, denial};
use crate::check::{check_child_keys, check_records};
use crate::denial::Denial;
use crate::finding::Findings;
use crate::intern::{InternTables, Interner};
use crate::occlusion::{Occlusion, own_flags};
use crate::owner_case::{OwnerCase, apex_in_case};
use crate::rrset::NodeEncoder;
use crate::stage::{OwnerRuns, Run, Staged, StagedChunk, StagedOwner, gather_runs};
use crate::tree::{Tree, TreeBuilder, TreeCursor, TreeEdit, TreeEntry, TreeRef};
use crate::zone::{Zone, ZoneContent, ZoneVersion};

/// How a version differs from the previous one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Owners that are new.
    pub added: u64,
    /// Owners that were removed.
    pub removed: u64,
    /// Owners whose records differ.
    pub changed: u64,
}

/// A zone with fewer runs is built without interning and on one thread: both would cost more than they save.
const SMALL_ZONE: usize = 256;
/// Rebuild the zone once edits exceed 1/`REBUILD_FRACTION` of the owners: edits do not intern new values, and leave unused ones in the
/// tables.
const REBUILD_FRACTION: usize = 4;

/// Builds a zone from staged records; `None` if the findings include errors. A zone that shares its unchanged parts with the previous
/// version comes with the [`Difference`].
pub(crate) fn assemble(
    chunks: impl IntoIterator<Item = StagedChunk>,
    plan: &BuildOptions<'_>,
) -> (Option<(Zone, Option<Difference>)>, Findings) {
    let (mut names, mut nsec3): (Vec<OwnerRuns>, Vec<OwnerRuns>) =
        chunks.into_iter().map(|chunk| (chunk.names, chunk.nsec3)).unzip();
    let mut name_runs = gather_runs(&mut names);
    let mut nsec3_runs = gather_runs(&mut nsec3);
    let (names, nsec3) = (Staged(&names), Staged(&nsec3));
    let apex_run = name_runs.iter().find(|run| run.is_apex());
    let apex = apex_in_case(plan.apex, apex_run.map_or(OwnerCase::LOWER, |run| names.case(run)));
    let plan = &BuildOptions { apex: apex.as_ref(), ..*plan };
    let mut found = Findings::default();
    let mut zone = None;
    if let Some(previous) = plan.previous {
        let updated = update(previous, plan, (names, &mut name_runs), (nsec3, &mut nsec3_runs), &mut found);
        if found.has_errors() {
            return (None, found);
        }
        zone = updated.map(|(zone, difference)| (zone, Some(difference)));
    }
    if zone.is_none() {
        found = Findings::default();
        zone = construct(plan, (names, &mut name_runs), (nsec3, &mut nsec3_runs), &mut found).map(|zone| (zone, None));
    }
    (zone, found)
}

/// Builds all nodes.
fn construct(
    plan: &BuildOptions<'_>,
    (names, name_runs): (Staged<'_>, &mut [Run]),
    (nsec3, nsec3_runs): (Staged<'_>, &mut [Run]),
    found: &mut Findings,
) -> Option<Zone> {
    let small = name_runs.len() + nsec3_runs.len() < SMALL_ZONE;
    let interner = if small { Interner::Disabled } else { Interner::new() };
    let threads = if small { 1 } else { plan.threads };
    let build = |staged: Staged<'_>, runs: &mut [Run], occlusion: Occlusion| {
        let mut builder = TreeBuilder::default();
        let result = encode_range(plan, &interner, staged, runs, occlusion, |key, value| builder.push(key, value));
        (builder, result)
    };
    let mut summary = Summary::default();
    let apex_occlusion = Occlusion::at_apex(names, name_runs);
    let parts = [(names, name_runs, apex_occlusion), (nsec3, nsec3_runs, Occlusion::default())];
    let [names, nsec3] = parts.map(|(staged, runs, occlusion)| {
        let results = in_ranges(staged, runs, threads, &|runs| build(staged, runs, occlusion.clone()));
        let (builders, result): (Vec<_>, Vec<_>) = results.into_iter().unzip();
        result.into_iter().for_each(|result| summary.add(result, found));
        TreeBuilder::join(builders)
    });
    let tables = interner.finish();
    finish(plan, names, nsec3, tables, summary, found)
}

/// Applies the differences to the previous version; `None` if a rebuild is better.
fn update(
    previous: &Zone,
    plan: &BuildOptions<'_>,
    (names, name_runs): (Staged<'_>, &mut [Run]),
    (nsec3, nsec3_runs): (Staged<'_>, &mut [Run]),
    found: &mut Findings,
) -> Option<(Zone, Difference)> {
    let interner = Interner::existing(previous.interned());
    let mut summary = Summary { base_serial: previous.serial(), ..Summary::default() };
    let mut difference = Difference::default();
    let [name_edits, nsec3_edits] =
        [(names, name_runs, previous.names()), (nsec3, nsec3_runs, previous.nsec3())].map(|(staged, runs, old)| {
            runs.sort_unstable_by(|a, b| staged.compare(a, b));
            let mut diff = TreeDiff::new(previous, old);
            let result =
                encode_range(plan, &interner, staged, runs, Occlusion::default(), |key, value| diff.push(key, value));
            summary.add(result, found);
            diff.finish(&mut difference)
        });
    let edits = previous.edits as usize + name_edits.len() + nsec3_edits.len();
    summary.edits = u32::try_from(edits).ok().filter(|_| edits <= summary.names / REBUILD_FRACTION)?;
    let (names, nsec3) = (previous.names().apply(&name_edits), previous.nsec3().apply(&nsec3_edits));
    let zone = finish(plan, names, nsec3, previous.interned().clone(), summary, found)?;
    Some((zone, difference))
}

/// Makes a zone of its trees and checks it as a whole. `None` if there are errors among the findings.
pub(crate) fn finish(
    plan: &BuildOptions<'_>,
    names: Tree,
    nsec3: Tree,
    interned: Arc<InternTables>,
    summary: Summary,
    found: &mut Findings,
) -> Option<Zone> {
    let apex = plan.apex.to_owned().to_lowercase();
    let version = ZoneVersion::next(plan.apex, apex.wire() != plan.apex.wire(), summary.has_wildcards);
    let edits = if names.only_leaf().is_some() { 0 } else { summary.edits };
    let content = ZoneContent::new(names.clone(), Tree::empty(), interned.clone(), Denial::None);
    let mut zone = Zone { apex, content, version, serial: summary.base_serial, edits };
    check_apex(&zone, plan, found);
    if found.has_errors() || !plan.is_whole {
        return None;
    }
    let denial = denial(&zone, nsec3.as_ref(), plan, found);
    if found.has_errors() {
        return None;
    }
    if denial != Denial::None || !nsec3.as_ref().is_empty() {
        zone.content = ZoneContent::new(names, nsec3, interned, denial);
    }
    check_targets(&zone, plan, &summary.targets, found);
    if plan.thorough {
        check_child_keys(&zone, plan, found);
    }
    Some(zone.with_serial_apart())
}

//----------- ranges -----------------------------------------------------------

/// The fewest runs worth a thread.
const RANGE_MIN: usize = 20_000;
/// How many keys are sampled to estimate the median.
const SAMPLE: usize = 255;

/// Splits the runs into key ranges, and sorts and processes each on its own thread; results in key order.
fn in_ranges<T: Send>(
    staged: Staged<'_>,
    runs: &mut [Run],
    threads: usize,
    work: &(impl Fn(&mut [Run]) -> T + Sync),
) -> Vec<T> {
    if threads > 1 && runs.len() > RANGE_MIN {
        let middle = middle_label(staged, runs);
        let low_count = partition(runs, |run| staged.key(run) < middle);
        let (low, high) = runs.split_at_mut(low_count);
        let low_threads = threads / 2;
        let (mut results, more) = std::thread::scope(|scope| {
            let low = scope.spawn(move || in_ranges(staged, low, low_threads, work));
            let high = in_ranges(staged, high, threads - low_threads, work);
            (low.join().expect("building does not panic"), high)
        });
        results.extend(more);
        return results;
    }
    if runs.is_empty() {
        return Vec::new();
    }
    runs.sort_unstable_by(|a, b| staged.compare(a, b));
    vec![work(runs)]
}

/// The top-most label of the median key. Ranges start there, so that a zone cut is in the same range as the names below it.
fn middle_label<'s>(staged: Staged<'s>, runs: &[Run]) -> &'s [u8] {
    let step = runs.len().div_ceil(SAMPLE);
    let mut sample: Vec<_> = runs.iter().step_by(step).map(|run| staged.key(run)).collect();
    sample.sort_unstable();
    let key = sample[sample.len() / 2];
    let end = key.iter().position(|&octet| octet == 0).map_or(0, |at| at + 1);
    &key[..end]
}

fn partition(runs: &mut [Run], is_low: impl Fn(&Run) -> bool) -> usize {
    let mut low = 0;
    for at in 0..runs.len() {
        if is_low(&runs[at]) {
            runs.swap(at, low);
            low += 1;
        }
    }
    low
}

//----------- encoding ---------------------------------------------------------

/// The result of encoding a range of runs.
#[derive(Default)]
struct RangeResult {
    summary: Summary,
    found: Findings,
}

/// Totals of a zone.
#[derive(Default)]
pub(crate) struct Summary {
    /// Owners, including those of NSEC3 records.
    names: usize,
    has_wildcards: bool,
    /// The serial of the version that this one is made from: its own one if the apex stays as it is.
    base_serial: u32,
    /// Entries edited since the intern tables were built.
    edits: u32,
    targets: Vec<TargetName>,
}

impl Summary {
    /// The summary of a change of `base`: targets are not checked.
    pub(crate) fn of_change(base: &Zone, has_wildcards: bool, edits: u32) -> Summary {
        Summary { base_serial: base.serial(), edits, ..Summary::of_records(has_wildcards) }
    }

    /// The summary of records that are checked already.
    pub(crate) fn of_records(has_wildcards: bool) -> Summary {
        Summary { has_wildcards, ..Summary::default() }
    }

    fn add(&mut self, result: RangeResult, found: &mut Findings) {
        let RangeResult { summary, found: more } = result;
        self.names += summary.names;
        self.has_wildcards |= summary.has_wildcards;
        self.targets.extend(summary.targets);
        found.append(more);
    }
}

/// Checks and encodes the nodes of sorted runs, and passes each to `take`, in key order.
fn encode_range(
    plan: &BuildOptions<'_>,
    interner: &Interner<'_>,
    staged: Staged<'_>,
    runs: &[Run],
    mut occlusion: Occlusion,
    mut take: impl FnMut(&[u8], &[u8]),
) -> RangeResult {
    let mut encoder = NodeEncoder::new(plan.apex);
    let mut result = RangeResult::default();
    staged.for_each_owner(runs, plan.apex, |StagedOwner { key, case, name }, records| {
        let flags = occlusion.flags(key, own_flags(key, records));
        check_node(plan, name, key, flags, records, &mut result.found);
        if plan.thorough {
            collect_targets(plan, key, flags, records, &mut result.summary.targets);
            check_records(plan, name, records, &mut result.found);
        }
        take(key, encoder.encode(interner, name, case, flags, records));
        result.summary.names += 1;
        result.summary.has_wildcards |= has_wildcard_label(key);
    });
    result
}

/// RFC 4592 2.2.3: whether an owner has a label `*`, so that it or an empty non-terminal above it is a wildcard.
pub(crate) fn has_wildcard_label(key: &[u8]) -> bool {
    key.contains(&b'*') && key.split(|&octet| octet == 0).any(|label| label == b"*")
}

//----------- comparing --------------------------------------------------------

/// Compares encoded nodes, in key order, with a tree, and collects the edits.
struct TreeDiff<'t> {
    zone: &'t Zone,
    old: TreeCursor<'t>,
    at: Option<TreeEntry<'t>>,
    edits: Vec<TreeEdit>,
    difference: Difference,
}

impl<'t> TreeDiff<'t> {
    /// For a tree of this version of the zone.
    fn new(zone: &'t Zone, tree: TreeRef<'t>) -> TreeDiff<'t> {
        let mut old = tree.front();
        let at = old.next();
        TreeDiff { zone, old, at, edits: Vec::new(), difference: Difference::default() }
    }

    fn push(&mut self, key: &[u8], value: &[u8]) {
        loop {
            match self.at.map_or(Ordering::Greater, |old| old.cmp_key(key)) {
                Ordering::Less => self.remove_old(),
                Ordering::Greater => {
                    self.difference.added += 1;
                    return self.edits.push(TreeEdit { key: key.into(), value: Some(value.into()) });
                }
                Ordering::Equal => break,
            }
        }
        if self.at.is_some_and(|old| *self.zone.node(&old).with_serial() != *value) {
            self.difference.changed += 1;
            self.edits.push(TreeEdit { key: key.into(), value: Some(value.into()) });
        }
        self.at = self.old.next();
    }

    fn remove_old(&mut self) {
        if let Some(old) = self.at {
            let mut key = Vec::with_capacity(old.key_len());
            old.append_key(&mut key);
            self.difference.removed += 1;
            self.edits.push(TreeEdit { key: key.into(), value: None });
        }
        self.at = self.old.next();
    }

    fn finish(mut self, difference: &mut Difference) -> Vec<TreeEdit> {
        while self.at.is_some() {
            self.remove_old();
        }
        difference.added += self.difference.added;
        difference.removed += self.difference.removed;
        difference.changed += self.difference.changed;
        self.edits
    }
}
