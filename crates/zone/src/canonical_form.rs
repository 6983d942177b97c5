//! The canonical form of RDATA (RFC 4034 6.2): what digests and signatures are made of.

use wire::{Rtype, rdata};

/// RFC 4034 6.2, RFC 6840 5.1: names in the RDATA of some types are in lower case.
pub(crate) fn canonical_rdata(rtype: Rtype, data: &[u8]) -> Vec<u8> {
    let mut canonical = data.to_vec();
    if rdata::is_canonicalized(rtype) {
        for name in rdata::names(rtype, data) {
            canonical[name].make_ascii_lowercase();
        }
    }
    canonical
}
