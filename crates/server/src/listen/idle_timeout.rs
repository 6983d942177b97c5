//! The idle timeout of connections, which is shortened while there are many (RFC 7766 6.2.3, RFC 7858 3.4, RFC 9210 4.2).

/// The idle timeout where all connections are in use, in thousandths of the configured one.
const SHORTEST: u64 = 100;

/// The idle timeout with `len` of `capacity` connections: as configured while half of them are vacant, then less and less, down to a
/// tenth when none is.
pub(super) fn shortened_ms(configured_ms: u32, len: usize, capacity: usize) -> u32 {
    let vacant = capacity.saturating_sub(len) as u64;
    let thousandths = (2000 * vacant / capacity.max(1) as u64).clamp(SHORTEST, 1000);
    (u64::from(configured_ms) * thousandths / 1000) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_idle_timeout_is_shortened_as_connections_become_many() {
        let shortened = |len| shortened_ms(10_000, len, 1000);
        assert_eq!(
            [0, 500, 501, 750, 900, 950, 999, 1000].map(shortened),
            [10_000, 10_000, 9980, 5000, 2000, 1000, 1000, 1000]
        );
        assert_eq!((shortened_ms(u32::MAX, 0, 1), shortened_ms(10_000, 1, 1)), (u32::MAX, 1000));
    }
}
