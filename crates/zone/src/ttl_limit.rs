//! The largest TTL, for all ways on which records come in: zone text, transfers, updates, and producers of zones.

/// The largest TTL, in seconds (RFC 2181 8).
pub(crate) const MAX_TTL: u32 = i32::MAX as u32;

/// RFC 2181 8: a larger TTL is treated as 0.
pub(crate) fn limited_ttl(ttl: u32) -> u32 {
    if ttl > MAX_TTL { 0 } else { ttl }
}
