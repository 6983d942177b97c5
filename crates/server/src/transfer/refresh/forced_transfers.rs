//! The end of forced transfers (`zonda zone retransfer`): what a primary has when it is back, hours later perhaps, may be an earlier version that
//! nobody wants by then.

use super::super::primary::PrimaryId;
use super::RefreshScheduler;
use super::zone_slot::Flags;

/// After so many failures in a row, forced transfers are given up.
const MAX_FAILURES: u32 = 3;

impl RefreshScheduler {
    /// A forced transfer has ended, or has failed with all primaries: the next checks of the zone are as usual, unless another one was requested
    /// meanwhile.
    pub(super) fn end_forced(&mut self, index: u32) {
        if !self.slots[index as usize].flags.has(Flags::CHECK_AGAIN) {
            self.clear_forced(index);
        }
    }

    fn clear_forced(&mut self, index: u32) {
        self.slots[index as usize].flags.clear(Flags::FORCED);
        if self.forced.remove(&index) && self.forced.is_empty() {
            self.forced.shrink_to_fit(); // It may have held a million zones.
        }
    }

    /// A primary could not be reached for the transfer of a zone. It may answer SOA queries all the same.
    pub(super) fn transfer_lost(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        if slot.flags.has(Flags::FORCED) {
            slot.failures = slot.failures.saturating_add(1);
            if u32::from(slot.failures) >= MAX_FAILURES {
                self.clear_forced(index);
            }
        }
    }

    /// This primary was found dead once more: gives up the forced transfers of all zones without another one, as most of them have no attempt of
    /// their own.
    pub(super) fn give_up_forced(&mut self, primary: PrimaryId) {
        if self.primaries[primary.0 as usize].failures < MAX_FAILURES {
            return;
        }
        let (slots, table, primaries) = (&mut self.slots, &self.table, &self.primaries);
        self.forced.retain(|index| {
            let slot = &mut slots[*index as usize];
            let is_given_up = |primary: &PrimaryId| primaries[primary.0 as usize].failures >= MAX_FAILURES;
            if table.group(slot.group).is_some_and(|group| group.primaries.iter().all(is_given_up)) {
                slot.flags.clear(Flags::FORCED);
            }
            slot.flags.has(Flags::FORCED)
        });
    }
}
