//! The access lists of one zone.

use crate::acl::Acl;
use crate::update_acl::UpdateAcl;

/// Who may do what with a zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZoneAcls {
    /// Who may transfer it from here.
    pub transfer: Acl,
    /// Who may announce changes of it by NOTIFY.
    pub notify: Acl,
    /// Who may change it by dynamic update.
    pub update: UpdateAcl,
}
