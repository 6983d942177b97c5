//! A change of a zone as it is requested, and what becomes of it.

use zone::change::{ChangeError, ChangeRules};
use zone::update::UpdateRefusal;

use super::ProposedChange;
use crate::zone_id::ZoneId;
use crate::zones::acceptance::{ChangeRejection, Rejection};

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
pub type ChangeDone = Box<dyn FnOnce(Result<ChangedZone, ChangeRefused>) + Send>;

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

/// Why a change was refused.
#[derive(Debug)]
pub enum ChangeRefused {
    /// There is no such zone any more, or it has no content to change.
    NotServed,
    /// An operator has frozen the zone.
    Frozen,
    /// The zone was replaced as a whole while the change was computed.
    Replaced,
    /// Too many changes of this zone wait for a large one.
    Busy,
    /// The journal cannot be written. A change that waited for the disk may still be published later.
    NotDurable,
    /// A bug: computing the change panicked.
    Panicked,
    /// It does not fit the zone.
    Invalid(ChangeError),
    /// The new version may not be published.
    Rejected(Rejection),
    /// A prerequisite of an update does not hold, or its client may not do this.
    Refused(UpdateRefusal),
}

impl From<ChangeRejection> for ChangeRefused {
    fn from(rejection: ChangeRejection) -> ChangeRefused {
        match rejection {
            ChangeRejection::Invalid(error) => ChangeRefused::Invalid(error),
            ChangeRejection::Rejected(rejection) => ChangeRefused::Rejected(rejection),
        }
    }
}
