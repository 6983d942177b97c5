//! The heads of stored RRsets, and those that most small zones have. The program knows the numbers of these, so that a zone without
//! tables of its own stores one octet for them instead of seven.

use wire::Rtype;

/// What the stored form of an RRset begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RrsetHead {
    pub(crate) ttl: u32,
    pub(crate) rtype: Rtype,
    /// How the rest is stored, and the number of records: see [`rrset`](crate::rrset).
    pub(crate) form: u8,
}

/// Types, and how many records the set has. Images contain numbers that depend on this list and on [`TTLS`]: a change of either needs
/// another format version.
const SHAPES: [(Rtype, u8); 17] = [
    (Rtype::SOA, 1),
    (Rtype::NS, 1),
    (Rtype::NS, 2),
    (Rtype::NS, 3),
    (Rtype::NS, 4),
    (Rtype::A, 1),
    (Rtype::A, 2),
    (Rtype::AAAA, 1),
    (Rtype::AAAA, 2),
    (Rtype::MX, 1),
    (Rtype::MX, 2),
    (Rtype::TXT, 1),
    (Rtype::TXT, 2),
    (Rtype::CNAME, 1),
    (Rtype::PTR, 1),
    (Rtype::SRV, 1),
    (Rtype::CAA, 1),
];
/// The usual TTLs, in seconds: from one minute to two days.
const TTLS: [u32; 15] =
    [60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 14_400, 21_600, 28_800, 43_200, 86_400, 172_800];

/// The heads of most small zones, by number.
pub(crate) fn standard_heads() -> impl Iterator<Item = RrsetHead> {
    SHAPES.iter().flat_map(|&(rtype, form)| TTLS.map(|ttl| RrsetHead { ttl, rtype, form }))
}

/// The number of a head, if it is one of these.
pub(crate) fn standard_number(head: RrsetHead) -> Option<u8> {
    let shape = SHAPES.iter().position(|&shape| shape == (head.rtype, head.form))?;
    let ttl = TTLS.iter().position(|&ttl| ttl == head.ttl)?;
    Some((shape * TTLS.len() + ttl) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intern::MAX_HEADS;

    #[test]
    fn each_head_has_its_number() {
        let heads: Vec<RrsetHead> = standard_heads().collect();
        assert!(heads.len() <= MAX_HEADS);
        assert!(heads.iter().enumerate().all(|(number, &head)| standard_number(head) == Some(number as u8)));
        let of = |ttl, rtype, form| standard_number(RrsetHead { ttl, rtype, form });
        assert_eq!(
            [of(61, Rtype::A, 1), of(60, Rtype::A, 3), of(60, Rtype::PTR, 2), of(60, Rtype::A, 0x41)],
            [None; 4]
        );
    }
}
