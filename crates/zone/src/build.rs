//! From records in any order to a version of a zone: staged, sorted, checked and encoded, on as many threads as given.
//!
//! With a version before it, only what differs is built anew.

use std::cmp::Ordering;
use std::sync::Arc;

use wire::{Name, NameRef, Rtype};

use crate::build_options::BuildOptions;
use crate::check::{Wanted, check_apex, check_node, check_wanted, collect_wanted, denial};
use crate::check::{check_child_keys, check_records};
use crate::encode::{NodeEncoder, Raw};
use crate::finding::Findings;
use crate::rrset::{BELOW_DNAME, CUT, DNAME, OCCLUDED};
use crate::stage::{Part, Run, Stage, Staged, gather};
use crate::tables::{Numbering, Tables};
use crate::tree::{Tree, TreeBuilder, TreeCursor, TreeEdit, TreeEntry};
use crate::zone::{Denial, Proofs, Zone, write_name};

/// How a version differs from the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Owners that are new.
    pub added: u64,
    /// Owners that are gone.
    pub removed: u64,
    /// Owners whose records differ.
    pub changed: u64,
}

/// With fewer runs than this a zone is written in full: tables and threads would cost more than they save.
const SMALL_ZONE: usize = 256;
/// With more edits than one in so many owners since its tables were made, the zone is built anew, with fresh ones: edits
/// write in full what the tables lack, and leave in them what nobody needs any more.
const REBUILD_SHARE: usize = 4;

/// Makes a zone of what was staged. `None` where there are errors among the findings.
pub(crate) fn assemble(stages: Vec<Stage>, plan: &BuildOptions<'_>) -> (Option<(Zone, Option<Difference>)>, Findings) {
    let (mut names, mut nsec3): (Vec<Part>, Vec<Part>) =
        stages.into_iter().map(|stage| (stage.names, stage.nsec3)).unzip();
    let mut name_runs = gather(&mut names);
    let mut nsec3_runs = gather(&mut nsec3);
    let (names, nsec3) = (Staged(&names), Staged(&nsec3));
    let apex = apex_as_written(plan.apex, names, &name_runs);
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

/// The apex as its first record has it.
fn apex_as_written(apex: NameRef<'_>, names: Staged<'_>, runs: &[Run]) -> Name {
    let mut wire = apex.wire().to_ascii_lowercase();
    if let Some(run) = runs.iter().find(|run| run.is_apex()) {
        names.case(run).apply(&mut wire);
    }
    NameRef::from_wire(&wire).expect("the case of a name does not matter").to_owned()
}

/// Builds everything.
fn construct(
    plan: &BuildOptions<'_>,
    (names, name_runs): (Staged<'_>, &mut [Run]),
    (nsec3, nsec3_runs): (Staged<'_>, &mut [Run]),
    found: &mut Findings,
) -> Option<Zone> {
    let small = name_runs.len() + nsec3_runs.len() < SMALL_ZONE;
    let numbering = if small { Numbering::None } else { Numbering::new() };
    let threads = if small { 1 } else { plan.threads };
    let build = |staged: Staged<'_>, runs: &mut [Run], cover: Cover| {
        let mut builder = TreeBuilder::default();
        let walked = walk(plan, &numbering, staged, runs, cover, |key, value| builder.push(key, value));
        (builder, walked)
    };
    let mut summary = Summary::default();
    let apex_cover = Cover::at_apex(names, name_runs);
    let parts = [(names, name_runs, apex_cover), (nsec3, nsec3_runs, Cover::default())];
    let [names, nsec3] = parts.map(|(staged, runs, cover)| {
        let results = in_ranges(staged, runs, threads, &|runs| build(staged, runs, cover.clone()));
        let (builders, walked): (Vec<_>, Vec<_>) = results.into_iter().unzip();
        walked.into_iter().for_each(|walked| summary.add(walked, found));
        TreeBuilder::join(builders)
    });
    let tables = numbering.finish();
    finish(plan, names, nsec3, tables, summary, found)
}

/// Changes the version before where it differs; `None` where building anew is the better way.
fn update(
    previous: &Zone,
    plan: &BuildOptions<'_>,
    (names, name_runs): (Staged<'_>, &mut [Run]),
    (nsec3, nsec3_runs): (Staged<'_>, &mut [Run]),
    found: &mut Findings,
) -> Option<(Zone, Difference)> {
    let numbering = Numbering::of(&previous.tables);
    let mut summary = Summary::default();
    let mut difference = Difference::default();
    let [name_edits, nsec3_edits] =
        [(names, name_runs, &previous.names), (nsec3, nsec3_runs, previous.nsec3())].map(|(staged, runs, old)| {
            runs.sort_unstable_by(|a, b| staged.compare(a, b));
            let mut compare = Compare::new(old);
            let walked = walk(plan, &numbering, staged, runs, Cover::default(), |key, value| compare.push(key, value));
            summary.add(walked, found);
            compare.finish(&mut difference)
        });
    let edits = previous.edits as usize + name_edits.len() + nsec3_edits.len();
    let edits = u32::try_from(edits).ok().filter(|_| edits <= summary.names / REBUILD_SHARE)?;
    let (names, nsec3) = (previous.names.apply(&name_edits), previous.nsec3().apply(&nsec3_edits));
    let zone = finish(plan, names, nsec3, previous.tables.clone(), summary, found)?;
    Some((Zone { edits, ..zone }, difference))
}

fn finish(
    plan: &BuildOptions<'_>,
    names: Tree,
    nsec3: Tree,
    tables: Arc<Tables>,
    summary: Summary,
    found: &mut Findings,
) -> Option<Zone> {
    let apex = plan.apex.to_owned().to_lowercase();
    let apex_labels = apex.as_ref().label_count() as u8;
    let apex_has_upper_case = apex.wire() != plan.apex.wire();
    let has_wildcards = summary.has_wildcards;
    let mut zone =
        Zone { apex, names, tables, proofs: None, has_wildcards, apex_has_upper_case, apex_labels, edits: 0 };
    check_apex(&zone, plan, found);
    if found.has_errors() || !plan.is_whole {
        return None;
    }
    let denial = denial(&zone, &nsec3, plan, found);
    if found.has_errors() {
        return None;
    }
    if denial != Denial::None || !nsec3.is_empty() {
        zone.proofs = Some(Arc::new(Proofs { denial, nsec3 }));
    }
    check_wanted(&zone, plan, &summary.wanted, found);
    if plan.thorough {
        check_child_keys(&zone, plan, found);
    }
    Some(zone)
}

//----------- ranges -----------------------------------------------------------

/// A range of fewer runs is not worth a thread.
const RANGE_MIN: usize = 20_000;
/// How many keys are looked at to find the middle.
const SAMPLE: usize = 255;

/// Splits the runs into ranges of keys, sorts each and hands it to `work`, a thread a range; results in key order.
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
    runs.sort_unstable_by(|a, b| staged.compare(a, b));
    vec![work(runs)]
}

/// The first label of the key in the middle: with it a range begins, so that no cut lies in another range than
/// what it covers.
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

//----------- walking ----------------------------------------------------------

/// What a walk over sorted runs found out.
#[derive(Default)]
struct Walked {
    summary: Summary,
    found: Findings,
}

/// What is known of a zone when all its nodes were seen.
#[derive(Default)]
struct Summary {
    /// Owners, with those of NSEC3 records.
    names: usize,
    has_wildcards: bool,
    wanted: Vec<Wanted>,
}

impl Summary {
    fn add(&mut self, walked: Walked, found: &mut Findings) {
        let Walked { summary, found: more } = walked;
        self.names += summary.names;
        self.has_wildcards |= summary.has_wildcards;
        self.wanted.extend(summary.wanted);
        found.append(more);
    }
}

/// Encodes node after node and hands each to `take`, in the order of keys.
fn walk(
    plan: &BuildOptions<'_>,
    numbering: &Numbering<'_>,
    staged: Staged<'_>,
    runs: &[Run],
    mut cover: Cover,
    mut take: impl FnMut(&[u8], &[u8]),
) -> Walked {
    let mut encoder = NodeEncoder::new(numbering, plan.apex);
    let mut walked = Walked::default();
    let (mut records, mut room) = (Vec::new(), [0; _]);
    for same in runs.chunk_by(|a, b| staged.key(a) == staged.key(b)) {
        let key = staged.key(&same[0]);
        records.clear();
        same.iter().for_each(|run| staged.append_records(run, &mut records));
        // RFC 4343 4.2: of an owner that is written in several ways the first one counts.
        let case = staged.case(&same[0]);
        let owner = write_name(key, case, plan.apex, &mut room);
        let flags = cover.flags(key, &records);
        check_node(plan, owner, key, flags, &records, &mut walked.found);
        if plan.thorough {
            collect_wanted(plan, key, flags, &records, &mut walked.summary.wanted);
            check_records(plan, owner, &records, &mut walked.found);
        }
        take(key, encoder.encode(owner, case, flags, &mut records));
        walked.summary.names += 1;
        walked.summary.has_wildcards |=
            key.contains(&b'*') && key.split(|&octet| octet == 0).any(|label| label == b"*");
    }
    walked
}

/// The cut or DNAME that the names at hand stand below.
#[derive(Clone, Default)]
struct Cover {
    key: Option<Vec<u8>>,
    is_dname: bool,
}

impl Cover {
    /// A DNAME at the apex, if there is one: it alone covers names of every range.
    fn at_apex(staged: Staged<'_>, runs: &[Run]) -> Cover {
        let mut records = Vec::new();
        let apex_runs = runs.iter().filter(|run| run.is_apex());
        apex_runs.for_each(|run| staged.append_records(run, &mut records));
        let is_dname = records.iter().any(|raw| raw.rtype == Rtype::DNAME);
        Cover { key: is_dname.then(Vec::new), is_dname }
    }

    /// The flags of the next node.
    fn flags(&mut self, key: &[u8], records: &[Raw<'_>]) -> u8 {
        let has = |rtype| records.iter().any(|raw| raw.rtype == rtype);
        let mut flags = 0;
        if has(Rtype::NS) && !key.is_empty() {
            flags |= CUT;
        }
        if has(Rtype::DNAME) {
            flags |= DNAME;
        }
        match &self.key {
            Some(cover) if key.len() > cover.len() && key.starts_with(cover) => {
                // RFC 6672 2.4: the topmost cut or DNAME decides.
                flags |= OCCLUDED | if self.is_dname { BELOW_DNAME } else { 0 };
            }
            _ if flags != 0 => {
                self.key = Some(key.to_vec());
                // RFC 6672 2.3: DNAME and NS exclude each other below the apex; where both stand, the delegation wins.
                self.is_dname = flags & CUT == 0;
            }
            _ => {}
        }
        flags
    }
}

//----------- comparing --------------------------------------------------------

/// Compares nodes that come in order with those of a tree and collects what differs.
struct Compare<'t> {
    old: TreeCursor<'t>,
    at: Option<TreeEntry<'t>>,
    edits: Vec<TreeEdit>,
    difference: Difference,
}

impl<'t> Compare<'t> {
    fn new(tree: &'t Tree) -> Compare<'t> {
        let mut old = tree.front();
        let at = old.next();
        Compare { old, at, edits: Vec::new(), difference: Difference::default() }
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
        if self.at.is_some_and(|old| old.value != value) {
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
