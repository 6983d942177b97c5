//! A change of a zone as it is requested, and its result.

use zone::change::ChangeRules;

use super::change_refusal::ChangeRefusal;
use super::proposed::ProposedChange;
use crate::zone_id::ZoneId;

/// A change of one zone.
pub struct ZoneChange {
    /// The zone.
    pub zone: ZoneId,
    /// What to remove and add.
    pub change: ProposedChange,
    /// What the result is checked for.
    pub rules: ChangeRules,
    /// When it is published.
    pub order: PublishOrder,
    /// Receives the result: once it is published, or refused.
    pub done: ChangeDone,
}

/// Receives the result of a change.
pub type ChangeDone = Box<dyn FnOnce(Result<ChangedZone, ChangeRefusal>) + Send>;

/// Whether a change is published before it is on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublishOrder {
    /// Journal, wait for the disk, publish: for updates, which are acknowledged then.
    AfterSync,
    /// Journal and publish: for transfers, which can be repeated.
    AtOnce,
}

/// A change that is published. Both serials are equal if there was nothing to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangedZone {
    /// The serial before.
    pub old_serial: u32,
    /// The serial published.
    pub serial: u32,
}
