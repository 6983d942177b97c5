//! Zone serial number arithmetic (RFC 1982).

use crate::soa;

/// Whether serial `a` is greater than `b` (RFC 1982 3.2). If they differ by 2^31, neither is.
#[inline]
pub fn is_later(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() > 0
}

/// The serial of SOA RDATA; `None` if it is too short.
pub fn of_soa(rdata: &[u8]) -> Option<u32> {
    soa::numbers(rdata).map(|[serial, ..]| serial)
}

#[cfg(test)]
mod tests {
    use super::is_later;

    #[test]
    fn rfc_1982_3_2_serials_wrap_around() {
        assert!(is_later(2, 1) && !is_later(1, 2) && !is_later(1, 1));
        assert!(is_later(0, u32::MAX) && !is_later(u32::MAX, 0));
        assert!(!is_later(0, 1 << 31) && !is_later(1 << 31, 0), "undefined, so nothing is done");
    }
}
