//! Which names are occluded: those below a zone cut or a DNAME (RFC 2136 7.18, RFC 6672 2.4).

use wire::Rtype;

use crate::rrset::{BELOW_DNAME, CUT, DNAME, OCCLUDED};
use crate::stage::{Run, Staged, StagedRecord};

/// The zone cut or DNAME above the current names.
#[derive(Clone, Default)]
pub(crate) struct Occlusion {
    key: Option<Vec<u8>>,
    is_dname: bool,
}

impl Occlusion {
    /// The occlusion of the names below an owner with these [`own_flags`].
    pub(crate) fn below(key: &[u8], own: u8) -> Occlusion {
        let mut occlusion = Occlusion::default();
        occlusion.set(key, own);
        occlusion
    }

    fn set(&mut self, key: &[u8], own: u8) {
        // Most owners of a TLD are zone cuts: no allocation for each.
        let top = self.key.get_or_insert_default();
        top.clear();
        top.extend_from_slice(key);
        // RFC 6672 2.3: below the apex DNAME and NS exclude each other; if both exist, the delegation wins.
        self.is_dname = own & CUT == 0;
    }

    /// The length of the key of the cut or DNAME above `key`, and whether it is a DNAME.
    pub(crate) fn above(&self, key: &[u8]) -> Option<(usize, bool)> {
        let top = self.key.as_ref().filter(|top| key.len() > top.len() && key.starts_with(top))?;
        Some((top.len(), self.is_dname))
    }

    /// A DNAME at the apex, if any: the only record that occludes names in every range.
    pub(crate) fn at_apex(staged: Staged<'_>, runs: &[Run]) -> Occlusion {
        let mut records = Vec::new();
        let apex_runs = runs.iter().filter(|run| run.is_apex());
        apex_runs.for_each(|run| staged.append_records(run, &mut records));
        let is_dname = records.iter().any(|record| record.rtype == Rtype::DNAME);
        Occlusion { key: is_dname.then(Vec::new), is_dname }
    }

    /// All flags of the next node in key order, which has these [`own_flags`].
    pub(crate) fn flags(&mut self, key: &[u8], own: u8) -> u8 {
        match &self.key {
            // RFC 6672 2.4: the top-most cut or DNAME decides.
            Some(top) if key.len() > top.len() && key.starts_with(top) => {
                own | OCCLUDED | if self.is_dname { BELOW_DNAME } else { 0 }
            }
            _ => {
                if own != 0 {
                    self.set(key, own);
                }
                own
            }
        }
    }
}

/// [`CUT`] and [`DNAME`], if the records of an owner make it a zone cut or have a DNAME.
pub(crate) fn own_flags(key: &[u8], records: &[StagedRecord<'_>]) -> u8 {
    let has = |rtype| records.iter().any(|record| record.rtype == rtype);
    let cut = if !key.is_empty() && has(Rtype::NS) { CUT } else { 0 };
    cut | if has(Rtype::DNAME) { DNAME } else { 0 }
}
