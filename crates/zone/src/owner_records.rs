//! The records of one owner while a change edits them. For `change`.

use std::collections::HashMap;

use wire::Rtype;

use crate::canonical_form::{canonical_cmp, canonical_rdata};
use crate::stage::StagedRecord;

/// Records to remove from and to add to. A change of many records of one owner takes time in proportion to them.
pub(crate) struct OwnerRecords<'r> {
    /// `None` where a record was removed.
    records: Vec<Option<StagedRecord<'r>>>,
    /// The positions of records by type and canonical RDATA, if a search would take too long without.
    index: Option<HashMap<RecordKey, Vec<usize>>>,
}

/// The type and the canonical RDATA: equal for records that [`is_same`] holds equal.
type RecordKey = (Rtype, Box<[u8]>);

/// More comparisons than this are worth an index.
const MAX_COMPARISONS: usize = 4096;

impl<'r> OwnerRecords<'r> {
    /// These records, which are to be searched `edits` times.
    pub(crate) fn new(records: Vec<StagedRecord<'r>>, edits: usize) -> OwnerRecords<'r> {
        let needs_index = edits.saturating_mul(records.len() + edits) > MAX_COMPARISONS;
        let mut index = needs_index.then(HashMap::<RecordKey, Vec<usize>>::new);
        if let Some(index) = &mut index {
            records.iter().enumerate().for_each(|(at, record)| index.entry(key(record)).or_default().push(at));
        }
        OwnerRecords { records: records.into_iter().map(Some).collect(), index }
    }

    /// Removes a record; prefers one with the same case. False if there is none.
    pub(crate) fn remove(&mut self, gone: &StagedRecord<'_>) -> bool {
        let same = self.positions(gone);
        let is_exact = |at: &&usize| self.records[**at].is_some_and(|record| record.rdata == gone.rdata);
        let Some(at) = same.iter().find(is_exact).or(same.first()).copied() else { return false };
        self.take(gone, at);
        true
    }

    /// Adds a record in place of those that are the same.
    pub(crate) fn replace(&mut self, new: StagedRecord<'r>) {
        self.positions(&new).into_iter().for_each(|at| self.take(&new, at));
        if let Some(index) = &mut self.index {
            index.entry(key(&new)).or_default().push(self.records.len());
        }
        self.records.push(Some(new));
    }

    /// Whether no record is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.records.iter().all(Option::is_none)
    }

    /// The records that are left.
    pub(crate) fn into_records(self) -> Vec<StagedRecord<'r>> {
        self.records.into_iter().flatten().collect()
    }

    fn positions(&self, record: &StagedRecord<'_>) -> Vec<usize> {
        match &self.index {
            Some(index) => index.get(&key(record)).cloned().unwrap_or_default(),
            None => {
                let is_same = |held: &Option<StagedRecord<'_>>| held.is_some_and(|held| is_same(&held, record));
                (0..self.records.len()).filter(|&at| is_same(&self.records[at])).collect()
            }
        }
    }

    fn take(&mut self, record: &StagedRecord<'_>, at: usize) {
        self.records[at] = None;
        if let Some(positions) = self.index.as_mut().and_then(|index| index.get_mut(&key(record))) {
            positions.retain(|&position| position != at);
        }
    }
}

fn key(record: &StagedRecord<'_>) -> RecordKey {
    (record.rtype, canonical_rdata(record.rtype, record.rdata))
}

/// Whether two records are equal except for their TTL (RFC 2136 1.1.1, RFC 4034 6.3).
fn is_same(a: &StagedRecord<'_>, b: &StagedRecord<'_>) -> bool {
    // Records that differ in more than case are the most, and need no look at their names.
    let may_be_same = || a.rdata.eq_ignore_ascii_case(b.rdata);
    a.rtype == b.rtype && may_be_same() && canonical_cmp(a.rtype, a.rdata, b.rdata).is_eq()
}
