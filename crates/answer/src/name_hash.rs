//! Hashing names.

/// The multiplier of Fibonacci hashing.
pub(crate) const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// A hash of a name in lower case. It has no key: who chooses the names can make them collide.
#[inline]
pub(crate) fn hash(name: &[u8]) -> u64 {
    let mut hash = name.len() as u64;
    let (chunks, rest) = name.as_chunks::<8>();
    for &chunk in chunks {
        hash = mix(hash ^ u64::from_le_bytes(chunk), MULTIPLIER);
    }
    let last = rest.iter().rev().fold(0, |last, &octet| last << 8 | u64::from(octet));
    mix(hash ^ last, MULTIPLIER)
}

#[inline]
pub(crate) fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product >> 64) as u64 ^ product as u64
}
