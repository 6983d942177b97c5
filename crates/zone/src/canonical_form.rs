//! The canonical form of RDATA (RFC 4034 6.2): what digests and signatures are made of.

use wire::{Rtype, rdata};

/// RFC 4034 6.2, RFC 6840 5.1: names in the RDATA of some types are in lower case.
pub(crate) fn canonical_rdata(rtype: Rtype, data: &[u8]) -> Vec<u8> {
    let mut canonical = data.to_vec();
    if is_canonicalized(rtype) {
        for name in rdata::names(rtype, data) {
            canonical[name].make_ascii_lowercase();
        }
    }
    canonical
}

/// The types of RFC 4034 6.2, without NSEC (RFC 6840 5.1).
fn is_canonicalized(rtype: Rtype) -> bool {
    matches!(
        rtype,
        Rtype::NS
            | Rtype::MD
            | Rtype::MF
            | Rtype::CNAME
            | Rtype::SOA
            | Rtype::MB
            | Rtype::MG
            | Rtype::MR
            | Rtype::PTR
            | Rtype::MINFO
            | Rtype::MX
            | Rtype::RP
            | Rtype::AFSDB
            | Rtype::RT
            | Rtype::SIG
            | Rtype::PX
            | Rtype::NXT
            | Rtype::NAPTR
            | Rtype::KX
            | Rtype::SRV
            | Rtype::DNAME
            | Rtype::A6
            | Rtype::RRSIG
    )
}
