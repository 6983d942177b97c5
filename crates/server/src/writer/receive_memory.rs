//! The memory that all running transfers take together: an endless stream of records ends when it would need too much.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The part of the available memory that transfers may take. Building the zones takes more, and what is served must stay.
const FRACTION: u64 = 2;
/// Memory is counted in such steps. A transfer that takes less is not counted: there may be a million of them.
const STEP: u64 = 1 << 20;
/// By this part of the limit others may exceed it until the largest transfer has ended: with its next message, or when it stalls.
const EXCESS_FRACTION: u64 = 4;

/// The memory of all transfers. The bound is set anew whenever a transfer begins to count: on a busy server there is always one.
pub struct ReceiveMemory {
    holders: Mutex<Holders>,
    available: fn() -> io::Result<u64>,
}

/// The transfers that count.
#[derive(Default)]
struct Holders {
    /// The octets of each, by number.
    octets: HashMap<u64, u64>,
    total: u64,
    limit: u64,
    begun: u64,
}

/// The memory of one transfer, until this is dropped.
pub struct MemoryShare {
    memory: Arc<ReceiveMemory>,
    /// Its number, once it counts.
    number: Option<u64>,
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
        Arc::new(ReceiveMemory { holders: Mutex::default(), available })
    }

    /// The share of a transfer that begins.
    pub fn share(self: &Arc<Self>) -> MemoryShare {
        MemoryShare { memory: self.clone(), number: None, held: 0 }
    }

    fn holders(&self) -> MutexGuard<'_, Holders> {
        self.holders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one more transfer; returns its number.
    fn begin(&self) -> u64 {
        let available = (self.available)();
        let mut holders = self.holders();
        // What the others hold is not available any more. Where the system does not say, nothing is bounded by this.
        holders.limit = available.map_or(u64::MAX, |available| available.saturating_add(holders.total) / FRACTION);
        holders.begun += 1;
        holders.begun
    }
}

impl MemoryShare {
    /// The transfer takes this many octets now. To be called with every message: where all transfers take too much, the largest one ends, not
    /// the one that happens to grow.
    pub fn grow_to(&mut self, octets: u64) -> Result<(), TooMuchMemory> {
        if octets <= STEP && self.number.is_none() {
            return Ok(());
        }
        let number = *self.number.get_or_insert_with(|| self.memory.begin());
        let mut holders = self.memory.holders();
        if octets > self.held {
            let more = octets.next_multiple_of(STEP) - self.held;
            self.held += more;
            holders.total += more;
            holders.octets.insert(number, self.held);
        }
        holders.check(self.held)
    }
}

impl Holders {
    /// Whether a transfer that holds this many octets may go on.
    fn check(&self, held: u64) -> Result<(), TooMuchMemory> {
        let excess = self.total.saturating_sub(self.limit);
        let is_largest = || self.octets.values().all(|octets| *octets <= held);
        let is_too_much = excess > 0 && (excess > self.limit / EXCESS_FRACTION || is_largest());
        if is_too_much { Err(TooMuchMemory(self.limit)) } else { Ok(()) }
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        let mut holders = self.memory.holders();
        holders.octets.remove(&number);
        holders.total -= self.held;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

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
        let holders = memory.holders();
        assert_eq!((holders.total, holders.octets.len()), (0, 0));
    }

    /// Otherwise one transfer without an end makes all others fail.
    #[test]
    fn the_largest_transfer_ends_where_all_take_too_much() {
        static AVAILABLE: AtomicU64 = AtomicU64::new(20 * STEP);
        // 9 steps are held when the second one begins.
        let memory = ReceiveMemory::new(|| Ok(AVAILABLE.fetch_sub(9 * STEP, Relaxed)));
        let (mut first, mut second) = (memory.share(), memory.share());
        assert_eq!((first.grow_to(9 * STEP), second.grow_to(3 * STEP)), (Ok(()), Ok(())));
        assert_eq!(first.grow_to(9 * STEP), Err(TooMuchMemory(10 * STEP)), "with its next message");
        // It may stall before that.
        assert_eq!(second.grow_to(4 * STEP), Err(TooMuchMemory(10 * STEP)));
        drop(first);
        assert_eq!(second.grow_to(9 * STEP), Ok(()));
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
