//! Which turns of connections have the kernel's memory measured.

use std::hash::{BuildHasher, RandomState};

/// A turn that writes this much is always picked.
const SAMPLE_MAX: usize = 32 << 10;

/// Picks the turns after which the kernel's memory for a connection is measured: one per 16 KiB written on average, so that it
/// costs little, and at random, so that no client can avoid it.
pub(super) struct MemorySampler {
    key: RandomState,
    picks: u64,
    /// Octets to write before the next pick.
    left: usize,
}

impl MemorySampler {
    pub(super) fn new() -> MemorySampler {
        MemorySampler { key: RandomState::new(), picks: 0, left: 0 }
    }

    /// Whether a turn that wrote `len` octets is picked.
    pub(super) fn pick(&mut self, len: usize) -> bool {
        if len <= self.left {
            self.left -= len;
            return false;
        }
        self.picks += 1;
        self.left = self.key.hash_one(self.picks) as usize % SAMPLE_MAX;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_measured_about_every_16_kib() {
        let mut sampler = MemorySampler::new();
        let picked = (0..10_000).filter(|_| sampler.pick(1600)).count();
        assert!((800..1200).contains(&picked), "{picked} of 16 MB");
        assert!((0..100).all(|_| sampler.pick(SAMPLE_MAX)));
        assert!(!(0..100).any(|_| sampler.pick(0)));
    }
}
