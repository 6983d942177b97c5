//! The five numbers that SOA RDATA ends in (RFC 1035 3.3.13).

/// The octets of the numbers, which follow two names.
pub const NUMBERS_LEN: usize = 20;

/// SERIAL, REFRESH, RETRY, EXPIRE and MINIMUM of SOA RDATA; `None` if it is too short.
///
/// ```
/// let rdata = [&[0u8, 0][..], &[7, 3600, 900, 604_800, 300].map(u32::to_be_bytes).concat()].concat();
/// assert_eq!(wire::soa::numbers(&rdata), Some([7, 3600, 900, 604_800, 300]));
/// ```
#[inline]
pub fn numbers(rdata: &[u8]) -> Option<[u32; 5]> {
    let numbers = rdata.last_chunk::<NUMBERS_LEN>()?.as_chunks::<4>().0;
    Some(std::array::from_fn(|index| u32::from_be_bytes(numbers[index])))
}

/// Sets the serial in octets that end in SOA RDATA. Octets that are too short for one stay as they are.
pub fn set_serial(rdata: &mut [u8], serial: u32) {
    if let Some(numbers) = rdata.last_chunk_mut::<NUMBERS_LEN>() {
        numbers[..4].copy_from_slice(&serial.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc_1035_3_3_13_the_numbers_follow_two_names() {
        let mut rdata = [&[0u8, 0][..], &[1, 2, 3, 4, 5].map(u32::to_be_bytes).concat()].concat();
        assert_eq!(numbers(&rdata), Some([1, 2, 3, 4, 5]));
        set_serial(&mut rdata, 0x0102_0304);
        assert_eq!(numbers(&rdata), Some([0x0102_0304, 2, 3, 4, 5]));
        assert_eq!(rdata[..6], [0, 0, 1, 2, 3, 4]);
    }

    #[test]
    fn octets_that_are_too_short_have_no_serial() {
        let mut short = [9; NUMBERS_LEN - 1];
        assert_eq!(numbers(&short), None);
        set_serial(&mut short, 1);
        assert_eq!(short, [9; NUMBERS_LEN - 1]);
    }
}
