//! Why a change of a zone is refused.

use zone::change::ChangeError;
use zone::update::UpdateRefusal;

use crate::zones::acceptance::{ChangeRejection, Rejection};

/// Why a change was refused.
#[derive(Debug, thiserror::Error)]
pub enum ChangeRefusal {
    /// There is no such zone any more, or it has no content to change.
    #[error("the zone has no content")]
    NotServed,
    /// An operator has frozen the zone.
    #[error("the zone is frozen")]
    Frozen,
    /// The zone was replaced as a whole while the change was computed.
    #[error("the zone was replaced meanwhile")]
    Replaced,
    /// Too many changes of this zone wait for a large one.
    #[error("too many changes wait for a large one")]
    Busy,
    /// The journal cannot be written: nothing is changed.
    #[error("the journal cannot be written")]
    NotDurable,
    /// It waits for the disk for too long: it is published if the disk works again.
    #[error("the journal takes too long to write; it may be applied later")]
    Overdue,
    /// A bug: computing the change panicked.
    #[error("zonda panicked; this is a bug, please report it")]
    Panicked,
    /// It does not fit the zone.
    #[error("{0}")]
    Invalid(ChangeError),
    /// The new version may not be published.
    #[error("{0}")]
    Rejected(Rejection),
    /// A prerequisite of an update does not hold, or its client may not do this.
    #[error("{}", .0.reason)]
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
