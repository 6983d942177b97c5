//! The memory that all running transfers take together: an endless stream of records ends when it would need too much.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The part of the available memory that transfers may take. Building the zones takes more, and what is served must stay.
const FRACTION: u64 = 2;
/// Memory is counted in such steps. A transfer that takes less is not counted: there may be a million of them.
const STEP: u64 = 1 << 20;

/// The memory of all transfers. The bound is set anew whenever a transfer begins to count: on a busy server there is always one.
pub struct ReceiveMemory {
    held: AtomicU64,
    limit: AtomicU64,
    available: fn() -> io::Result<u64>,
}

/// The memory of one transfer, until this is dropped.
pub struct MemoryShare {
    memory: Arc<ReceiveMemory>,
    held: u64,
}

/// A transfer takes too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the transfers in progress take more than {0} octets of memory, half of what was available (help: if the zone is as large as that, set max-bytes for it, or add memory)"
)]
pub struct TooMuchMemory(u64);

impl ReceiveMemory {
    /// No transfer is running. `available` returns the memory that the system has left, in octets.
    pub fn new(available: fn() -> io::Result<u64>) -> Arc<ReceiveMemory> {
        Arc::new(ReceiveMemory { held: AtomicU64::new(0), limit: AtomicU64::new(0), available })
    }

    /// The share of a transfer that begins.
    pub fn share(self: &Arc<Self>) -> MemoryShare {
        MemoryShare { memory: self.clone(), held: 0 }
    }
}

impl MemoryShare {
    /// The transfer takes this many octets now.
    pub fn grow_to(&mut self, octets: u64) -> Result<(), TooMuchMemory> {
        if octets <= self.held.max(STEP) {
            return Ok(());
        }
        let more = octets.next_multiple_of(STEP) - self.held;
        let before = self.memory.held.fetch_add(more, Relaxed);
        let begins = self.held == 0;
        self.held += more;
        if begins {
            // What the others hold is not available any more. Where the system does not say, nothing is bounded by this.
            let limit =
                (self.memory.available)().map_or(u64::MAX, |available| available.saturating_add(before) / FRACTION);
            self.memory.limit.store(limit, Relaxed);
        }
        let limit = self.memory.limit.load(Relaxed);
        if before + more > limit { Err(TooMuchMemory(limit)) } else { Ok(()) }
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        self.memory.held.fetch_sub(self.held, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_share_half_of_what_was_available() {
        // 6 steps are held when the second one begins.
        static AVAILABLE: AtomicU64 = AtomicU64::new(20 * STEP);
        let memory = ReceiveMemory::new(|| Ok(AVAILABLE.fetch_sub(6 * STEP, Relaxed)));
        let (mut first, mut second) = (memory.share(), memory.share());
        assert_eq!((first.grow_to(6 * STEP), second.grow_to(4 * STEP)), (Ok(()), Ok(())));
        assert_eq!(first.grow_to(6 * STEP + 1), Err(TooMuchMemory(10 * STEP)));
        drop(first);
        assert_eq!(second.grow_to(10 * STEP), Ok(()));
        drop(second);
        assert_eq!(memory.held.load(Relaxed), 0);
    }

    #[test]
    fn the_bound_follows_the_memory_while_transfers_overlap() {
        static AVAILABLE: AtomicU64 = AtomicU64::new(4 * STEP);
        let memory = ReceiveMemory::new(|| Ok(AVAILABLE.load(Relaxed)));
        let (mut first, mut second) = (memory.share(), memory.share());
        assert_eq!(first.grow_to(2 * STEP), Ok(()));
        AVAILABLE.store(20 * STEP, Relaxed);
        assert_eq!(second.grow_to(9 * STEP), Ok(()));
    }

    #[test]
    fn small_transfers_are_not_counted() {
        let memory = ReceiveMemory::new(|| Ok(0));
        let mut share = memory.share();
        assert_eq!(share.grow_to(STEP), Ok(()));
        assert_eq!(share.grow_to(STEP + 1), Err(TooMuchMemory(0)));
    }
}
