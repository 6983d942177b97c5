//! Timers of transferred zones that are not stored yet: they are written with the first image, which may be one of a million that wait.

use std::collections::HashMap;

use crate::storage::Timers;
use crate::zone_id::ZoneId;

/// Zones per page: 6 KiB of timers.
const PAGE_LEN: u32 = 256;

/// Timers of secondary zones by slot of the registry, in pages that are freed when they are empty: a hash table would take twice as
/// much while it grows, and keep it.
#[derive(Default)]
pub struct WaitingTimers {
    pages: HashMap<u32, Page>,
}

struct Page {
    /// Those that are not of a secondary zone are unused.
    timers: Box<[Timers; PAGE_LEN as usize]>,
    used: u32,
}

impl WaitingTimers {
    /// Adds the timers of a secondary zone, in place of earlier ones.
    pub fn put(&mut self, zone: ZoneId, timers: Timers) {
        debug_assert!(timers.is_of_secondary(), "others would count as unused");
        let empty = || Page { timers: Box::new([Timers::default(); PAGE_LEN as usize]), used: 0 };
        let page = self.pages.entry(zone.index / PAGE_LEN).or_insert_with(empty);
        let old = std::mem::replace(page.slot(zone), timers);
        page.used += u32::from(!old.is_of_secondary());
    }

    /// Takes the timers of a zone.
    pub fn take(&mut self, zone: ZoneId) -> Option<Timers> {
        let page = self.pages.get_mut(&(zone.index / PAGE_LEN))?;
        let timers = std::mem::take(page.slot(zone));
        if !timers.is_of_secondary() {
            return None;
        }
        page.used -= 1;
        if page.used == 0 {
            self.pages.remove(&(zone.index / PAGE_LEN));
        }
        Some(timers)
    }
}

impl Page {
    fn slot(&mut self, zone: ZoneId) -> &mut Timers {
        &mut self.timers[(zone.index % PAGE_LEN) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_that_were_taken_leave_no_memory() {
        let mut waiting = WaitingTimers::default();
        let zone = |index| ZoneId { index, generation: 0 };
        let timers = |expires_at_s| Timers { expires_at_s, ..Timers::default() };
        for index in (0..1000).chain([999_999, 999_999]) {
            waiting.put(zone(index), timers(index + 1));
        }
        assert_eq!((waiting.pages.len(), waiting.take(zone(1000)), waiting.take(zone(5000))), (5, None, None));
        for index in (0..1000).chain([999_999]) {
            assert_eq!((waiting.take(zone(index)), waiting.take(zone(index))), (Some(timers(index + 1)), None));
        }
        assert!(waiting.pages.is_empty());
    }
}
