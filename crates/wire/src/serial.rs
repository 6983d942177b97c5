//! Serial numbers of zones, which wrap around.

/// Whether serial `a` is of a later version than `b` (RFC 1982 3.2). Of two that are 2^31 apart neither is.
#[inline]
pub fn is_later(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() > 0
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
