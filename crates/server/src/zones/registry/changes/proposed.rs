//! What a change removes and adds: known before, or computed from the version that it is applied to.

use zone::change::ChangeSet;
use zone::encoded_change::EncodedChange;
use zone::update::UpdateRefusal;
use zone::{Zone, ZoneVersion};

use super::MAX_INLINE_RECORDS;
use super::change_refusal::ChangeRefusal;

/// What a change removes and adds.
pub enum ProposedChange {
    /// These records.
    Records(Box<ChangeSet>),
    /// What this computes from the version that it is applied to.
    Computed {
        /// Called once, by the writer or in the pool.
        compute: ComputeChange,
        /// Whether that may take long.
        is_large: bool,
    },
    /// The version that an operator returns to, as it is.
    Rollback(Box<RollbackVersion>),
}

/// An earlier version, with another serial.
pub struct RollbackVersion {
    /// The version that it replaces: it is refused if the zone has changed since.
    pub base: ZoneVersion,
    /// The version to serve.
    pub version: Zone,
    /// The change that leads to it.
    pub change: EncodedChange,
}

/// Computes a change of a version; nothing is changed if it is empty.
pub type ComputeChange = Box<dyn FnOnce(&Zone) -> Result<ChangeSet, UpdateRefusal> + Send>;

impl ProposedChange {
    /// Whether it is for the pool.
    pub(super) fn is_large(&self) -> bool {
        match self {
            ProposedChange::Records(change) => change.len() > MAX_INLINE_RECORDS,
            ProposedChange::Computed { is_large, .. } => *is_large,
            ProposedChange::Rollback(_) => false,
        }
    }

    pub(super) fn compute(self, base: &Zone) -> Result<ChangeSet, ChangeRefusal> {
        match self {
            ProposedChange::Records(change) => Ok(*change),
            ProposedChange::Computed { compute, .. } => compute(base).map_err(ChangeRefusal::Refused),
            ProposedChange::Rollback(rollback) => Ok(rollback.change.to_change_set()),
        }
    }
}
