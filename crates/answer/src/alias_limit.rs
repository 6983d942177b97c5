//! How many aliases one answer follows, for the lookup and for the proofs that it may need.

/// The most CNAME records that one answer follows. RFC 1034 3.6.2 wants a bound and names none; BIND stops at 11 to 16.
pub(crate) const MAX_CNAMES: usize = 16;
