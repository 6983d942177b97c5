//! Zone serial number arithmetic (RFC 1982).

/// Whether serial `a` is greater than `b` (RFC 1982 3.2). If they differ by 2^31, neither is.
#[inline]
pub fn is_later(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() > 0
}

/// The serial of SOA RDATA: the first of the five numbers at its end (RFC 1035 3.3.13).
pub fn of_soa(rdata: &[u8]) -> Option<u32> {
    let numbers = rdata.last_chunk::<20>()?;
    numbers.first_chunk().map(|serial| u32::from_be_bytes(*serial))
}

#[cfg(test)]
mod tests {
    use super::{is_later, of_soa};

    #[test]
    fn rfc_1982_3_2_serials_wrap_around() {
        assert!(is_later(2, 1) && !is_later(1, 2) && !is_later(1, 1));
        assert!(is_later(0, u32::MAX) && !is_later(u32::MAX, 0));
        assert!(!is_later(0, 1 << 31) && !is_later(1 << 31, 0), "undefined, so nothing is done");
    }

    #[test]
    fn rfc_1035_3_3_13_the_serial_comes_before_four_other_numbers() {
        let rdata = [&[0, 0, 1, 2, 3, 4][..], &[9; 16]].concat();
        assert_eq!(of_soa(&rdata), Some(0x0102_0304));
        assert_eq!(of_soa(&rdata[3..]), None);
    }
}
