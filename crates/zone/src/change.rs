//! Changes of a zone as records: the common form of what files, IXFR, dynamic update, catalogs and signing produce.
//!
//! [`Zone::apply`] costs what a change touches, not what the zone holds.

use std::sync::Arc;

use wire::{Name, NameRef, Rtype};

use crate::build::{Difference, Summary, finish, has_wildcard_label};
use crate::build_options::BuildOptions;
use crate::canonical_key::ancestor_lens;
use crate::check::check_node;
use crate::check_list;
use crate::encoded_change::{EncodedChange, EncodedRecord};
use crate::finding::{CheckMode, Finding, Findings, Severity};
use crate::intern::Interner;
use crate::node_decoder::NodeDecoder;
use crate::occlusion::{Occlusion, own_flags};
use crate::owner_case::OwnerCase;
use crate::owner_case::write_name;
use crate::owner_records::OwnerRecords;
use crate::rrset::{BELOW_DNAME, CUT, DNAME, NodeEncoder, OCCLUDED};
use crate::stage::{OwnerRuns, Run, Staged, StagedChunk, gather_runs};
use crate::text::{RecordSink, ZoneRecord};
use crate::tree::{TreeCursor, TreeEdit, TreeEntry, TreeRef};
use crate::zone::Zone;

/// Records to remove from a zone and records to add to it. Removals are applied first.
#[derive(Clone)]
pub struct ChangeSet {
    apex: Name,
    removed: StagedChunk,
    added: StagedChunk,
    len: usize,
}

/// A zone after a change.
pub struct Applied {
    /// The new version.
    pub zone: Zone,
    /// What differs between the versions, for the journal and for IXFR: the records that the old version really had.
    pub change: EncodedChange,
    /// The owners added, removed and changed.
    pub difference: Difference,
    /// Warnings about the changed owners, those below a new DNAME, and the apex.
    pub warnings: Vec<Finding>,
}

/// Why a change was not applied.
#[derive(Debug)]
pub enum ChangeError {
    /// A record to remove does not exist: the change is for another version.
    NoSuchRecord(Name, Rtype),
    /// The new version would be invalid. At least one finding is an error.
    Invalid(Vec<Finding>),
}

/// What a change is checked for.
#[derive(Clone, Copy, Debug)]
pub struct ChangeRules {
    /// Whether records that break a rule of their RFC make the change invalid.
    pub check_mode: CheckMode,
    /// More NSEC3 iterations than this make the change invalid.
    pub nsec3_max_iterations: u16,
}

impl ChangeRules {
    /// For records that were accepted before: lenient, with any number of NSEC3 iterations.
    pub const ACCEPTED_BEFORE: ChangeRules =
        ChangeRules { check_mode: CheckMode::Lenient, nsec3_max_iterations: u16::MAX };
}

/// The owner is not in the zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfZone;

impl ChangeSet {
    /// An empty change of the zone with this apex.
    pub fn new(apex: NameRef<'_>) -> ChangeSet {
        ChangeSet { apex: apex.to_owned(), removed: StagedChunk::new(apex), added: StagedChunk::new(apex), len: 0 }
    }

    /// Removes a record. The TTL is not compared, nor is the case of names in RDATA of the types of RFC 4034 6.2.
    pub fn remove(&mut self, owner: NameRef<'_>, rtype: Rtype, rdata: &[u8]) -> Result<(), OutOfZone> {
        self.check(owner)?;
        self.removed.record(ZoneRecord { owner, rtype, ttl: 0, rdata, file: 0, line: 0 });
        Ok(())
    }

    /// Adds a record, or sets the TTL (in seconds) of one that exists. `rdata` is uncompressed and well-formed.
    pub fn add(&mut self, owner: NameRef<'_>, rtype: Rtype, ttl: u32, rdata: &[u8]) -> Result<(), OutOfZone> {
        self.check(owner)?;
        self.added.record(ZoneRecord { owner, rtype, ttl, rdata, file: 0, line: 0 });
        Ok(())
    }

    /// The number of records to remove and to add.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no records.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many owners of `zone` are below those whose NS or DNAME records this changes: applying it may give each of them new flags.
    /// Counts up to `max + 1`, and visits no more.
    pub fn owners_below_cuts(&self, zone: &Zone, max: usize) -> usize {
        let mut count = 0;
        for part in [&self.removed.names, &self.added.names] {
            let (staged, mut records) = (Staged(std::slice::from_ref(part)), Vec::new());
            for run in part.runs() {
                records.clear();
                staged.append_records(run, &mut records);
                let key = staged.key(run);
                let mut cursor = (own_flags(key, &records) != 0).then(|| zone.seek(key));
                while count <= max
                    && cursor.as_mut().and_then(TreeCursor::next).is_some_and(|entry| entry.is_at_or_below(key))
                {
                    count += 1;
                }
            }
        }
        count
    }

    fn check(&mut self, owner: NameRef<'_>) -> Result<(), OutOfZone> {
        if !owner.is_at_or_below(self.apex.as_ref()) {
            return Err(OutOfZone);
        }
        self.len += 1;
        Ok(())
    }
}

impl EncodedChange {
    /// The change to apply to a zone. It replaces the SOA record, so that it fails for another version than the old one.
    pub fn to_change_set(&self) -> ChangeSet {
        self.to_change_set_removing(|_| true)
    }

    /// [`EncodedChange::to_change_set`], which removes only these of the removed records.
    pub fn to_change_set_removing(&self, is_removed: impl Fn(&EncodedRecord<'_>) -> bool) -> ChangeSet {
        const IN_ZONE: &str = "a change has records of its zone only";
        let mut change = ChangeSet::new(self.apex());
        for record in self.with_old_soa().filter(is_removed) {
            change.remove(record.owner, record.rtype, record.rdata).expect(IN_ZONE);
        }
        for record in self.with_new_soa() {
            change.add(record.owner, record.rtype, record.ttl, record.rdata).expect(IN_ZONE);
        }
        change
    }
}

impl Zone {
    /// The zone after a change. It shares everything that did not change.
    ///
    /// Cost: the changed owners, their paths in the tree, and all owners below a zone cut or DNAME that appears or vanishes. New
    /// RRsets are not interned, see [`Zone::needs_rebuild`].
    pub fn apply(&self, change: ChangeSet, rules: ChangeRules) -> Result<Applied, ChangeError> {
        let apex = self.owner(&self.apex_entry());
        let options = BuildOptions {
            check_mode: rules.check_mode,
            nsec3_max_iterations: rules.nsec3_max_iterations,
            ..BuildOptions::of_records(apex.as_ref())
        };
        let interner = Interner::existing(self.interned());
        let mut editor = Editor::new(self, &options, &interner);
        let ChangeSet { removed, added, .. } = change;
        let names = editor.edit(self.names(), [removed.names, added.names], true)?;
        let nsec3 = editor.edit(self.nsec3(), [removed.nsec3, added.nsec3], false)?;
        let Editor { mut found, difference, has_wildcards, .. } = editor;
        let edits = self.edits.saturating_add((names.len() + nsec3.len()) as u32);
        let (names, nsec3) = (self.names().apply(&names), self.nsec3().apply(&nsec3));
        let summary = Summary::of_change(self, has_wildcards, edits);
        let zone = finish(&options, names, nsec3, self.interned().clone(), summary, &mut found);
        match zone.filter(|_| !found.has_errors()) {
            Some(zone) => {
                let change = EncodedChange::between(self, &zone);
                Ok(Applied { zone, change, difference, warnings: found.finish(&Arc::from("")) })
            }
            None => Err(ChangeError::Invalid(found.finish(&Arc::from("")))),
        }
    }

    /// Whether [`Zone::rebuild`] would save memory: changed owners outnumber the interned RRsets.
    pub fn needs_rebuild(&self) -> bool {
        self.edits as usize > self.interned().rrset_count().max(MIN_EDITS)
    }

    /// The same zone, built from scratch with new tables. Costs as much as loading without parsing.
    pub fn rebuild(&self, threads: usize) -> Zone {
        crate::build_runs::rebuild(self, threads)
    }
}

/// Fewer edits than this are not worth a rebuild.
const MIN_EDITS: usize = 4096;

//----------- Editor -----------------------------------------------------------

/// Turns a change into edits of one tree.
struct Editor<'z, 'p> {
    zone: &'z Zone,
    options: &'p BuildOptions<'p>,
    interner: &'p Interner<'p>,
    encoder: NodeEncoder,
    edits: Vec<TreeEdit>,
    found: Findings,
    difference: Difference,
    has_wildcards: bool,
}

impl<'z, 'p> Editor<'z, 'p> {
    fn new(zone: &'z Zone, options: &'p BuildOptions<'p>, interner: &'p Interner<'p>) -> Editor<'z, 'p> {
        Editor {
            zone,
            options,
            interner,
            encoder: NodeEncoder::new(options.apex),
            edits: Vec::new(),
            found: Findings::default(),
            difference: Difference::default(),
            has_wildcards: zone.has_wildcards(),
        }
    }

    /// The edits of `tree`, sorted by key. `parts` are the removed and the added records. Names below a cut or DNAME are
    /// occluded, if the tree `has_cuts`.
    fn edit(
        &mut self,
        tree: TreeRef<'z>,
        mut parts: [OwnerRuns; 2],
        has_cuts: bool,
    ) -> Result<Vec<TreeEdit>, ChangeError> {
        let mut runs = gather_runs(&mut parts);
        let staged = Staged(&parts);
        runs.sort_unstable_by(|a, b| staged.compare(a, b));
        let mut below: Option<Below<'z>> = None;
        let mut decoder = NodeDecoder::default();
        for runs in runs.chunk_by(|a, b| staged.key(a) == staged.key(b)) {
            let key = staged.key(&runs[0]);
            if let Some(covered) = &mut below
                && !self.reflag(covered, Some(key))
            {
                below = None;
            }
            let mut occlusion = match &mut below {
                Some(below) => std::mem::take(&mut below.occlusion),
                None if has_cuts => self.occlusion_of(tree, key),
                None => Occlusion::default(),
            };
            let old = Some(tree.seek(key)).filter(TreeCursor::is_exact).and_then(|cursor| cursor.entry());
            let changed = self.edit_owner(&mut decoder, staged, runs, old, has_cuts.then_some(&mut occlusion))?;
            match &mut below {
                Some(below) => below.occlusion = occlusion,
                None if changed && has_cuts => below = Some(Below::new(tree, key, occlusion)),
                None => {}
            }
        }
        if let Some(mut below) = below {
            self.reflag(&mut below, None);
        }
        Ok(std::mem::take(&mut self.edits))
    }

    /// Edits one owner. Returns whether its zone cut or DNAME appeared or vanished.
    fn edit_owner(
        &mut self,
        decoder: &mut NodeDecoder,
        staged: Staged<'_>,
        runs: &[Run],
        old: Option<TreeEntry<'z>>,
        occlusion: Option<&mut Occlusion>,
    ) -> Result<bool, ChangeError> {
        let key = staged.key(&runs[0]);
        let mut case =
            old.map_or_else(|| staged.case(&runs[0]), |old| OwnerCase::read(old.value[0], &old.value[1..]).0);
        let (mut room, mut new_room) = ([0; _], [0; _]);
        let mut owner = write_name(key, case, self.options.apex, &mut room);
        let records = match old {
            Some(old) => decoder.decode(self.zone.node(&old), owner, self.options.apex),
            None => Vec::new(),
        };
        let removals = runs.partition_point(|run| run.is_in_first_part());
        let (removed, added) = runs.split_at(removals);
        let [gone, new] = [removed, added].map(|runs| {
            let mut list = Vec::new();
            runs.iter().for_each(|run| staged.append_records(run, &mut list));
            list
        });
        let mut records = OwnerRecords::new(records, gone.len() + new.len());
        if let Some(missing) = gone.iter().find(|gone| !records.remove(gone)) {
            return Err(ChangeError::NoSuchRecord(owner.to_owned(), missing.rtype));
        }
        // RFC 4343 4.2: an owner keeps its case until its last record is removed. The apex is part of every name.
        if records.is_empty() && !key.is_empty() && !added.is_empty() {
            case = staged.case(&added[0]);
            owner = write_name(key, case, self.options.apex, &mut new_room);
        }
        new.into_iter().for_each(|new| records.replace(new));
        let mut records = records.into_records();
        let own = own_flags(key, &records);
        let flags = occlusion.map_or(own, |occlusion| occlusion.flags(key, own));
        let own_before = old.map_or(0, |old| old.value[0] & (CUT | DNAME));
        if records.is_empty() {
            if old.is_some() {
                self.difference.removed += 1;
                self.edits.push(TreeEdit { key: key.into(), value: None });
            }
            return Ok(own_before != 0);
        }
        check_node(self.options, owner, key, flags, &records, &mut self.found);
        self.has_wildcards |= has_wildcard_label(key);
        let value = self.encoder.encode(self.interner, owner, case, flags, &mut records);
        if old.is_none_or(|old| *self.zone.node(&old).with_serial() != *value) {
            *if old.is_some() { &mut self.difference.changed } else { &mut self.difference.added } += 1;
            self.edits.push(TreeEdit { key: key.into(), value: Some(value.into()) });
        }
        Ok(own != own_before)
    }

    //----------- zone cuts ----------------------------------------------------

    /// The top-most cut or DNAME above `key`, edits included.
    fn occlusion_of(&self, tree: TreeRef<'_>, key: &[u8]) -> Occlusion {
        // The apex comes first; it has no ancestors itself.
        let apex = (!key.is_empty()).then_some(0);
        for len in apex.into_iter().chain(ancestor_lens(key)) {
            let ancestor = &key[..len];
            let value = match self.edits.binary_search_by(|edit| (*edit.key).cmp(ancestor)) {
                Ok(index) => self.edits[index].value.as_deref(),
                Err(_) => tree.get(ancestor),
            };
            let own = value.map_or(0, |value| value[0] & (CUT | DNAME));
            if own != 0 {
                return Occlusion::below(ancestor, own);
            }
        }
        Occlusion::default()
    }

    /// Gives the unchanged owners below a changed cut their new flags, up to `end`. Returns whether `end` is below it.
    fn reflag(&mut self, below: &mut Below<'z>, end: Option<&[u8]>) -> bool {
        let mut key = Vec::new();
        while let Some(entry) = below.next {
            key.clear();
            entry.append_key(&mut key);
            if !key.starts_with(&below.key) || end.is_some_and(|end| *key > *end) {
                break;
            }
            below.next = below.cursor.next();
            if end.is_some_and(|end| *key == *end) {
                break;
            }
            const COVERED: u8 = OCCLUDED | BELOW_DNAME;
            let before = entry.value[0];
            let flags = before & !COVERED | below.occlusion.flags(&key, before & (CUT | DNAME)) & COVERED;
            if flags & !before & BELOW_DNAME != 0 {
                self.report_below_dname(&key, entry.value);
            }
            if flags != before {
                let mut value: Box<[u8]> = entry.value.into();
                value[0] = flags;
                self.edits.push(TreeEdit { key: key.as_slice().into(), value: Some(value) });
            }
        }
        end.is_some_and(|end| end.starts_with(&below.key))
    }

    /// RFC 6672 2.4: reports an unchanged owner that is below a DNAME after the change, as a load does.
    fn report_below_dname(&mut self, key: &[u8], value: &[u8]) {
        let mut room = [0; _];
        let owner = write_name(key, OwnerCase::read(value[0], &value[1..]).0, self.options.apex, &mut room);
        self.options.report(&mut self.found, &check_list::BELOW_DNAME, (0, 0), owner);
    }
}

/// The owners below one whose zone cut or DNAME appeared or vanished.
struct Below<'z> {
    key: Vec<u8>,
    cursor: TreeCursor<'z>,
    next: Option<TreeEntry<'z>>,
    occlusion: Occlusion,
}

impl<'z> Below<'z> {
    fn new(tree: TreeRef<'z>, key: &[u8], occlusion: Occlusion) -> Below<'z> {
        let mut cursor = tree.seek(key);
        let next = cursor.next();
        Below { key: key.to_vec(), cursor, next, occlusion }
    }
}

impl std::fmt::Display for ChangeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ChangeError::NoSuchRecord(owner, rtype) => write!(f, "{owner} has no such {rtype} record to remove"),
            // Warnings are not why it is refused.
            ChangeError::Invalid(findings) => match findings.iter().find(|found| found.severity == Severity::Error) {
                Some(error) => write!(f, "{error}"),
                None => f.write_str("the zone would be invalid"),
            },
        }
    }
}

impl std::error::Error for ChangeError {}
