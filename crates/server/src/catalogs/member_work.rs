//! What the pool computes for catalogs: a version may have a million members, of which it lists a part at a time.

use std::iter::Take;
use std::vec::IntoIter;

use zone::Zone;
use zone::catalog::{self, CatalogError, CatalogMember, MemberChange};
use zone::change::ChangeSet;

use crate::zones::work_pool::{WorkId, WorkPool};

/// What the pool computes.
pub enum MemberWork {
    /// The difference of two versions; `None` if all members are new.
    Compared(Result<Option<Vec<MemberChange>>, CatalogError>),
    /// A part of the members.
    Listed(MemberPart),
    /// The first version of a produced catalog.
    FirstVersion(Box<Zone>),
    /// The next change of a produced catalog, and of which of its zones it changes anything.
    Change(Box<ChangeSet>, Vec<bool>),
}

/// Members that one step adds, removes or checks: about a millisecond.
pub const STEP: usize = 256;
/// Members that the pool lists at once.
const PART: usize = 4096;

/// A part of the members of a version.
pub struct MemberPart {
    members: IntoIter<CatalogMember>,
    /// The label of the last member of the part, which the next part begins after; none if the part is empty, as there are no more.
    pub last: Option<Box<[u8]>>,
}

impl MemberPart {
    /// Has the pool list the members of a version after this label, or all. The version was checked.
    pub fn list(pool: &WorkPool<MemberWork>, version: Zone, after: Option<Box<[u8]>>) -> WorkId {
        pool.submit(move || {
            let members = catalog::members_after(&version, after.as_deref()).filter_map(Result::ok);
            let members: Vec<CatalogMember> = members.take(PART).collect();
            let last = members.last().map(|member| member.label.clone());
            MemberWork::Listed(MemberPart { members: members.into_iter(), last })
        })
    }

    /// Takes the members for one step.
    pub fn take_step(&mut self) -> Take<&mut IntoIter<CatalogMember>> {
        self.members.by_ref().take(STEP)
    }

    /// Whether all were taken.
    pub fn is_taken(&self) -> bool {
        self.members.len() == 0
    }
}
