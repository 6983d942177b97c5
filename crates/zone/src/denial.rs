//! How a zone denies existence: NSEC, or NSEC3 with the parameters of its chain.

use crate::tree::Tree;

/// How a zone proves that a name or type does not exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Denial {
    /// Not at all: the zone is unsigned.
    #[default]
    None,
    /// By NSEC records (RFC 4034 4).
    Nsec,
    /// By NSEC3 records (RFC 5155) with these parameters (NSEC3PARAM, 4); the hash algorithm is SHA-1.
    Nsec3 {
        /// Additional iterations.
        iterations: u16,
        /// The salt.
        salt: Box<[u8]>,
    },
}

/// The denial of a signed zone.
pub(crate) struct DenialData {
    pub(crate) denial: Denial,
    /// The owners of NSEC3 records, by their hash label.
    pub(crate) nsec3: Tree,
}
