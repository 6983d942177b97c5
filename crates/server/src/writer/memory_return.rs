//! When to free replaced versions, and when to return their memory to the system.

use std::time::{Duration, Instant};

/// How long after a load memory is returned to the system: idle threads hold replaced versions for up to half a second.
/// Not after changes of records, which leave little and come often.
const RETURN_AFTER_LOAD: Duration = Duration::from_secs(2);

/// Returns free memory, and the pages of the program that only a load needs, to the system.
pub(super) fn return_memory() {
    netio::malloc::trim();
    netio::program_pages::unmap_unused();
}

/// Decides when memory is worth returning.
pub(super) struct MemoryReturn {
    /// Replaced versions that some thread still read at the last tick; `None` if versions were replaced since.
    unreclaimed: Option<usize>,
    /// When a zone was last loaded, a reload ended, or the map was compacted.
    loaded_at: Instant,
}

impl MemoryReturn {
    pub(super) fn new(now: Instant) -> MemoryReturn {
        MemoryReturn { unreclaimed: None, loaded_at: now }
    }

    /// Versions may have been replaced.
    pub(super) fn note_replaced(&mut self) {
        self.unreclaimed = None;
    }

    /// A load ended: replaced versions are soon to be freed, and their memory is worth returning.
    pub(super) fn note_load(&mut self, now: Instant) {
        *self = MemoryReturn::new(now);
    }

    /// Whether replaced versions may be left to free.
    pub(super) fn is_pending(&self) -> bool {
        self.unreclaimed != Some(0)
    }

    /// Notes how many replaced versions are still read; returns whether to return memory now. While zones are loaded or the map
    /// is compacted (`is_busy`) much more is about to be freed.
    pub(super) fn is_due(&mut self, unreclaimed: usize, is_busy: bool, now: Instant) -> bool {
        if is_busy {
            self.note_load(now);
            return false;
        }
        let is_fewer = self.unreclaimed.is_none_or(|before| unreclaimed < before);
        self.unreclaimed = Some(unreclaimed);
        is_fewer && now.saturating_duration_since(self.loaded_at) < RETURN_AFTER_LOAD
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_returned_after_the_last_part_of_the_map_is_compacted() {
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        let mut memory = MemoryReturn::new(begin);
        // No thread is idle, so that nothing stays unreclaimed between the parts.
        assert!(!memory.is_due(0, true, at(3000)));
        assert!(memory.is_pending(), "or no tick would come after the last part");
        assert!(memory.is_due(0, false, at(3100)));
        assert!(!memory.is_pending());
        assert!(!memory.is_due(0, false, at(3200)), "nothing was freed since");
    }

    #[test]
    fn memory_is_returned_when_idle_threads_let_go_but_not_after_changes() {
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        let mut memory = MemoryReturn::new(begin);
        assert!(memory.is_due(2, false, at(100)));
        assert!(!memory.is_due(2, false, at(200)));
        assert!(memory.is_due(0, false, at(600)));
        memory.note_replaced();
        assert!(!memory.is_due(0, false, at(5000)));
    }
}
