//! The canonical form of RDATA (RFC 4034 6.2): what digests and signatures are made of, and what decides whether two records are equal.

use std::cmp::Ordering;

use wire::{Rtype, rdata};

/// RFC 4034 6.2, RFC 6840 5.1: names in the RDATA of some types are in lower case. Two records of an RRset are the same record if this
/// is equal (RFC 4034 6.3): names in older types compare without case (RFC 4343 3), those in newer types with case (RFC 3597 6).
pub(crate) fn canonical_rdata(rtype: Rtype, data: &[u8]) -> Box<[u8]> {
    let mut canonical: Box<[u8]> = data.into();
    if rdata::is_canonicalized(rtype) {
        for name in rdata::names(rtype, data) {
            canonical[name].make_ascii_lowercase();
        }
    }
    canonical
}

/// Compares the canonical forms of RDATA (RFC 4034 6.3) without making them.
pub(crate) fn canonical_cmp(rtype: Rtype, a: &[u8], b: &[u8]) -> Ordering {
    match rdata::is_canonicalized(rtype) {
        true => canonical_octets(rtype, a).cmp(canonical_octets(rtype, b)),
        false => a.cmp(b),
    }
}

/// The octets of [`canonical_rdata`] of a canonicalized type.
fn canonical_octets(rtype: Rtype, data: &[u8]) -> impl Iterator<Item = u8> {
    let mut names = rdata::names(rtype, data).peekable();
    data.iter().enumerate().map(move |(at, octet)| {
        names.next_if(|name| name.end <= at);
        if names.peek().is_some_and(|name| name.start <= at) { octet.to_ascii_lowercase() } else { *octet }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4034 6.2, RFC 6840 5.1: SRV is in the list, NSEC no longer; SVCB is newer (RFC 3597 6).
    #[test]
    fn rfc_4034_6_3_canonical_forms_are_compared_without_being_made() {
        let datas: [&[u8]; 8] = [
            b"\0\x01\0\x02\0A\x01h\x01z\0",
            b"\0\x01\0\x02\0A\x01H\x01Z\0",
            b"\0\x01\0\x02\0a\x01h\x01z\0",
            b"\0\x01\0\x02\0A\x01i\0",
            b"\x01h\x01Z\0\x01X\0",
            b"\x01H\x01z\0\x01x\0",
            b"\x01h\x01z\0",
            b"",
        ];
        let rtypes =
            [Rtype::SRV, Rtype::RP, Rtype::NAPTR, Rtype::NS, Rtype::SOA, Rtype::NSEC, Rtype::SVCB, Rtype(65_280)];
        for rtype in rtypes {
            for (a, b) in datas.iter().flat_map(|a| datas.map(|b| (a, b))) {
                let expected = canonical_rdata(rtype, a).cmp(&canonical_rdata(rtype, b));
                assert_eq!(canonical_cmp(rtype, a, b), expected, "{rtype} {a:?} {b:?}");
            }
        }
        assert_eq!(canonical_cmp(Rtype::SRV, datas[0], datas[1]), Ordering::Equal);
        assert_eq!(canonical_cmp(Rtype::SRV, datas[0], datas[2]), Ordering::Less, "a port is not a name");
        assert_eq!(canonical_cmp(Rtype::RP, datas[4], datas[5]), Ordering::Equal, "both names");
        assert_eq!(canonical_cmp(Rtype::NSEC, datas[6], b"\x01H\x01z\0"), Ordering::Greater);
    }
}
