//! Seeded random numbers for jitter and message IDs, so that a simulation is reproducible.

use std::ops::RangeInclusive;

/// SplitMix64 (Steele, Lea, Flood 2014): eight octets of state, and every seed is good.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator; the daemon seeds it from the system's random numbers.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A uniform number in the range.
    pub fn within(&mut self, range: RangeInclusive<u32>) -> u32 {
        let count = u64::from(range.end() - range.start()) + 1;
        range.start() + ((u128::from(self.bits()) * u128::from(count)) >> 64) as u32
    }
}
