//! Why a change of a zone is refused.

use zone::change::ChangeError;
use zone::update::UpdateRefusal;

use crate::zones::acceptance::{ChangeRejection, Rejection};

/// Why a change was refused.
#[derive(Debug)]
pub enum ChangeRefusal {
    /// There is no such zone any more, or it has no content to change.
    NotServed,
    /// An operator has frozen the zone.
    Frozen,
    /// The zone was replaced as a whole while the change was computed.
    Replaced,
    /// Too many changes of this zone wait for a large one.
    Busy,
    /// The journal cannot be written: nothing is changed.
    NotDurable,
    /// It waits for the disk for too long: it is published if the disk works again.
    Overdue,
    /// A bug: computing the change panicked.
    Panicked,
    /// It does not fit the zone.
    Invalid(ChangeError),
    /// The new version may not be published.
    Rejected(Rejection),
    /// A prerequisite of an update does not hold, or its client may not do this.
    Refused(UpdateRefusal),
}

impl From<ChangeRejection> for ChangeRefusal {
    fn from(rejection: ChangeRejection) -> ChangeRefusal {
        match rejection {
            ChangeRejection::Invalid(error) => ChangeRefusal::Invalid(error),
            ChangeRejection::Rejected(rejection) => ChangeRefusal::Rejected(rejection),
        }
    }
}
