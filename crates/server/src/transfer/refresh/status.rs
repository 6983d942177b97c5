//! What the scheduler reports of zones: their state, their times to store, and primaries that do not answer.

use super::zone_slot::{Flags, ZoneState};
use super::{RefreshScheduler, RefreshStatus};
use crate::transfer::primary::PrimaryId;
use crate::transfer::soa_timers::StoredTimers;
use crate::zone_id::ZoneId;

/// Zones whose times are reported at once: they take the writer some milliseconds.
const MAX_STORED: usize = 4096;

impl RefreshScheduler {
    /// The state of a zone.
    pub fn status(&self, zone: ZoneId) -> Option<RefreshStatus> {
        let slot = self.slots.get(zone.index as usize).filter(|_| self.contains(zone))?;
        Some(RefreshStatus {
            serial: slot.flags.has(Flags::HAS_DATA).then_some(slot.serial),
            primary_serial: slot.primary_serial,
            expires_at_s: slot.expires_at_s,
            check_at_s: self.check_at_s(zone.index),
            is_expired: slot.flags.has(Flags::EXPIRED),
            failures: slot.failures,
            problem: None,
        })
    }

    /// The primaries of a zone that is due to be checked and waits, because none of them answers; none otherwise.
    pub fn silent_primaries(&self, zone: ZoneId) -> &[PrimaryId] {
        let slot = self.slots.get(zone.index as usize).filter(|_| self.contains(zone));
        let group = slot.filter(|slot| slot.state == ZoneState::Waiting).and_then(|slot| self.table.group(slot.group));
        let primaries = group.map_or(&[][..], |group| &group.primaries[..]);
        let are_dead = primaries.iter().all(|primary| self.primaries[primary.0 as usize].is_dead());
        if are_dead { primaries } else { &[] }
    }

    /// The times to store of the next zones with a version, from this index on, and the index after them if there are more.
    pub fn stored_timers(&self, first: u32, now_s: u32) -> (Vec<(ZoneId, StoredTimers)>, Option<u32>) {
        let end = self.slots.len().min(first as usize + MAX_STORED);
        let timers = (first..end as u32).filter_map(|index| {
            let zone = self.id_of(index);
            Some((zone, self.timers_of(zone, now_s)?))
        });
        (timers.collect(), (end < self.slots.len()).then_some(end as u32))
    }

    /// The times to store of a zone, if it has a version.
    pub fn timers_of(&self, zone: ZoneId, now_s: u32) -> Option<StoredTimers> {
        let slot = self.slots.get(zone.index as usize).filter(|_| self.contains(zone))?;
        let check_at_s = self.check_at_s(zone.index).unwrap_or(now_s);
        slot.flags.has(Flags::HAS_DATA).then_some(StoredTimers { check_at_s, expires_at_s: slot.expires_at_s })
    }
}
