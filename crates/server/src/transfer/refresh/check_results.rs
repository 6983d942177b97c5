//! What the results of probes and transfers mean for a zone (RFC 1034 4.3.5, RFC 7314 4).

use wire::serial::is_later;

use super::super::primary::PrimaryId;
use super::super::soa_timers::{SoaTimers, StoredTimers, jittered};
use super::actions::{CheckFailure, ProbeResult, RefreshAction, TransferResult};
use super::zone_slot::{Flags, NO_PRIMARY, RefreshLane, RefreshSlot, ZoneState};
use super::{Check, RefreshScheduler, TransferCandidate};
use crate::zone_id::ZoneId;

/// The longest time between attempts to get the first version of a zone: 2^10 s, about 17 minutes.
const MAX_FIRST_RETRY_SHIFT: u8 = 10;

impl RefreshScheduler {
    /// A primary was asked for the serial of a zone.
    pub fn probe_result(&mut self, zone: ZoneId, primary: PrimaryId, result: ProbeResult, now_s: u32) {
        let state = &mut self.primaries[primary.0 as usize];
        state.probes_in_flight = state.probes_in_flight.saturating_sub(1);
        match result {
            ProbeResult::Timeout => self.primary_timed_out(primary, now_s),
            ProbeResult::NotSent => self.primaries[primary.0 as usize].not_tried(),
            _ => self.primary_answered(primary),
        }
        self.primary_has_room(primary);
        let Some((slot, bit)) = self.probed_zone(zone, primary) else { return };
        let Some(check) = self.checks.get_mut(&zone.index).filter(|check| check.pending & bit != 0) else { return };
        check.pending &= !bit;
        let mut is_decided = false;
        if let ProbeResult::Answer { serial, expire_s } = result {
            let has_failed = slot.failed & bit != 0;
            check.add(
                serial,
                expire_s.map(|s| now_s.saturating_add(s.max(1))),
                TransferCandidate { primary, has_failed },
                slot,
            );
            let is_announced = slot.flags.has(Flags::ANNOUNCED) && !is_later(slot.primary_serial, serial);
            is_decided = is_announced && !has_failed;
        }
        if !is_decided {
            self.ask_again(zone.index, now_s);
        }
        let awaits_none = |check: &Check| check.pending & check.awaited == 0;
        if is_decided || self.checks.get(&zone.index).is_some_and(awaits_none) {
            self.decide(zone.index, now_s);
        }
    }

    /// A primary has not answered two of three queries. If another one has a later version than the one served, the zone does not wait
    /// for this primary any longer.
    pub fn probe_is_slow(&mut self, zone: ZoneId, primary: PrimaryId, now_s: u32) {
        let Some((slot, bit)) = self.probed_zone(zone, primary) else { return };
        let Some(check) = self.checks.get_mut(&zone.index) else { return };
        check.awaited &= !bit;
        let has_news = check.best.is_some_and(|(serial, _)| !slot.is_served() || is_later(serial, slot.serial));
        if has_news && check.pending & check.awaited == 0 {
            self.decide(zone.index, now_s);
        }
    }

    /// The zone, if its primaries are being asked, and the bit of this primary in the sets of its check.
    fn probed_zone(&mut self, zone: ZoneId, primary: PrimaryId) -> Option<(RefreshSlot, u16)> {
        let slot = *self.slot(zone).filter(|slot| slot.state == ZoneState::Probing)?;
        let position = self.position(slot.group, primary)?;
        Some((slot, 1 << position))
    }

    /// The primaries that are waited for have answered: the highest serial wins.
    fn decide(&mut self, index: u32, now_s: u32) {
        let Some(check) = self.checks.remove(&index) else { return };
        let Some((serial, TransferCandidate { primary, has_failed })) = check.best else {
            return self.check_failed(index, CheckFailure::NoAnswer, now_s);
        };
        let slot = &mut self.slots[index as usize];
        slot.flags.clear(Flags::ANNOUNCED);
        slot.primary_serial = serial;
        let accepts_any = !slot.is_served() || slot.flags.has(Flags::FORCED);
        let is_current = slot.flags.has(Flags::HAS_DATA) && serial == slot.serial && !slot.flags.has(Flags::FORCED);
        if is_current {
            let expires_at_s = check.expires_at_s.filter(|_| !check.is_confirmed_in_full);
            if !slot.is_served() && expires_at_s.is_some_and(|at_s| at_s <= now_s) {
                // Meanwhile, this primary's own version has expired, too.
                return self.check_failed(index, CheckFailure::NoAnswer, now_s);
            }
            self.refreshed(index, expires_at_s, now_s);
        } else if (accepts_any || is_later(serial, slot.serial)) && has_failed {
            self.check_failed(index, CheckFailure::Transfer, now_s);
        } else if accepts_any || is_later(serial, slot.serial) {
            self.request_transfer_unless_lost(index, primary, now_s);
        } else {
            self.check_failed(index, CheckFailure::OlderSerial, now_s);
        }
    }

    /// RFC 1035 3.3.13: while transfers cannot reach a primary that answers queries, its zones wait for RETRY.
    fn request_transfer_unless_lost(&mut self, index: u32, primary: PrimaryId, now_s: u32) {
        if self.primaries[primary.0 as usize].loses_transfers(now_s) {
            let position = self.position(self.slots[index as usize].group, primary);
            self.slots[index as usize].primary = position.unwrap_or(NO_PRIMARY);
            self.transfer_failed(index, CheckFailure::Unreachable, now_s);
        } else {
            self.request_transfer(index, primary);
        }
    }

    /// A transfer ended; returns whether the zone still wants it. If not, the caller drops what was received.
    pub fn transfer_result(&mut self, zone: ZoneId, primary: PrimaryId, result: TransferResult, now_s: u32) -> bool {
        let state = &mut self.primaries[primary.0 as usize];
        state.transfers_in_flight = state.transfers_in_flight.saturating_sub(1);
        match result {
            TransferResult::PrimaryFailed => self.transfer_did_not_arrive(primary, now_s),
            TransferResult::NotStarted => self.primaries[primary.0 as usize].not_tried(),
            _ => {
                self.primaries[primary.0 as usize].transfer_arrived();
                self.primary_answered(primary);
            }
        }
        self.primary_has_room(primary);
        let loses_transfers = self.primaries[primary.0 as usize].loses_transfers(now_s);
        let is_expected = self.contains(zone) && self.transfer_primary(zone.index) == Some(primary);
        let Some(slot) = self.slot(zone).filter(|slot| is_expected && slot.state == ZoneState::Transferring) else {
            return false;
        };
        match result {
            TransferResult::Delivered => {
                slot.state = ZoneState::Delivered;
                self.delivery_begins(zone.index);
            }
            TransferResult::Current { serial, expire_s } if serial == slot.serial => {
                self.refreshed(zone.index, expire_s.map(|s| now_s.saturating_add(s.max(1))), now_s);
            }
            // RFC 1995 2: it has no later version. Several servers may have its address: another one has answered the SOA query.
            TransferResult::Current { .. } => self.transfer_failed(zone.index, CheckFailure::OlderSerial, now_s),
            TransferResult::ZoneFailed => self.transfer_failed(zone.index, CheckFailure::Transfer, now_s),
            TransferResult::PrimaryFailed if loses_transfers => {
                self.transfer_failed(zone.index, CheckFailure::Unreachable, now_s);
            }
            TransferResult::PrimaryFailed | TransferResult::NotStarted => {
                slot.state = ZoneState::Idle;
                let lane = slot.lane;
                if result == TransferResult::PrimaryFailed {
                    self.transfer_lost(zone.index);
                }
                self.enqueue(zone.index, lane);
            }
        }
        true
    }

    /// A transfer ended whose zone has started another one from this primary, after it was configured anew.
    pub fn transfer_abandoned(&mut self, primary: PrimaryId) {
        let state = &mut self.primaries[primary.0 as usize];
        state.transfers_in_flight = state.transfers_in_flight.saturating_sub(1);
        state.not_tried();
        self.primary_has_room(primary);
    }

    /// The writer has published a version of the zone; returns the times to store. RFC 7314: `expire_s` is the EXPIRE option
    /// of the transfer.
    pub fn published(
        &mut self,
        zone: ZoneId,
        serial: u32,
        timers: SoaTimers,
        expire_s: Option<u32>,
        now_s: u32,
    ) -> Option<StoredTimers> {
        let slot = self.slot(zone)?;
        let was_delivered = slot.state == ZoneState::Delivered;
        (slot.serial, slot.failures) = (serial, 0);
        if !is_later(slot.primary_serial, serial) || !slot.flags.has(Flags::ANNOUNCED) {
            slot.primary_serial = serial;
        }
        slot.flags.set(Flags::HAS_DATA);
        slot.failed = 0;
        for flag in [Flags::EXPIRED, Flags::WHOLE] {
            slot.flags.clear(flag);
        }
        if was_delivered {
            slot.state = ZoneState::Idle;
            let delivery = slot.delivery;
            self.delivery_ended(delivery);
            self.end_forced(zone.index);
        }
        self.set_intervals(zone.index, timers);
        let limited = self.limited_timers(zone.index);
        // RFC 7314 4: the zone expires with the version that it was copied from.
        let lifetime_s = expire_s.map_or(limited.expire_s, |expire_s| limited.expire_s.min(expire_s.max(1)));
        self.slots[zone.index as usize].expires_at_s = now_s.saturating_add(lifetime_s);
        let stored = self.set_timers(zone.index, now_s);
        self.check_soon_if_announced(zone.index, Some(serial), now_s);
        self.check_again_if_wanted(zone.index);
        Some(stored)
    }

    /// The writer does not publish the received version. With `needs_whole_zone`, its changes did not fit: the whole zone is
    /// transferred at once.
    pub fn rejected(&mut self, zone: ZoneId, needs_whole_zone: bool, now_s: u32) {
        let Some(slot) = self.slot(zone).filter(|slot| slot.state == ZoneState::Delivered) else { return };
        slot.state = ZoneState::Idle;
        let (delivery, is_first_time) = (slot.delivery, !slot.flags.has(Flags::WHOLE));
        self.delivery_ended(delivery);
        if needs_whole_zone && is_first_time {
            self.slots[zone.index as usize].flags.set(Flags::WHOLE);
            self.enqueue(zone.index, RefreshLane::Urgent);
        } else if !self.try_another_primary(zone.index) {
            self.check_failed(zone.index, CheckFailure::Transfer, now_s);
        }
    }

    /// The zone was changed while a received version was built. It is checked again; no primary is to blame.
    pub fn outdated(&mut self, zone: ZoneId) {
        let Some(slot) = self.slot(zone).filter(|slot| slot.state == ZoneState::Delivered) else { return };
        slot.state = ZoneState::Idle;
        let delivery = slot.delivery;
        self.delivery_ended(delivery);
        self.enqueue(zone.index, RefreshLane::Urgent);
    }

    /// A primary has the version that is served, which expires there at this time.
    fn refreshed(&mut self, index: u32, expires_at_s: Option<u32>, now_s: u32) {
        let latest_s = now_s.saturating_add(self.limited_timers(index).expire_s);
        let slot = &mut self.slots[index as usize];
        let was_expired = slot.flags.take(Flags::EXPIRED);
        slot.flags.clear(Flags::WHOLE);
        slot.failed = 0;
        (slot.state, slot.failures) = (ZoneState::Idle, 0);
        slot.expires_at_s = match expires_at_s.map(|at_s| at_s.min(latest_s)) {
            Some(offered_s) if was_expired => offered_s,
            // RFC 7314 4: the later of both times, so that secondaries of each other do not keep a zone alive.
            Some(offered_s) => slot.expires_at_s.max(offered_s),
            None => latest_s,
        };
        let serial = slot.serial;
        let timers = self.set_timers(index, now_s);
        self.check_soon_if_announced(index, Some(serial), now_s);
        self.actions.push_back(RefreshAction::Refreshed { zone: self.id_of(index), timers });
        self.check_again_if_wanted(index);
    }

    fn set_timers(&mut self, index: u32, now_s: u32) -> StoredTimers {
        let SoaTimers { refresh_s, .. } = self.limited_timers(index);
        let (min_s, _) = self.timer_limits(index).refresh_s;
        let slot = &self.slots[index as usize];
        let check_at_s = now_s.saturating_add(self.random.u32(jittered(refresh_s, min_s)));
        let timers = StoredTimers { check_at_s, expires_at_s: slot.expires_at_s };
        let is_idle = slot.state == ZoneState::Idle;
        self.set_timer(index, is_idle.then_some(check_at_s));
        timers
    }

    pub(super) fn transfer_failed(&mut self, index: u32, reason: CheckFailure, now_s: u32) {
        if !self.try_another_primary(index) {
            self.check_failed(index, reason, now_s);
        }
    }

    /// A transfer failed. Checks the zone again at once if a primary is left whose transfer has not failed for this check, and
    /// returns whether there is one.
    fn try_another_primary(&mut self, index: u32) -> bool {
        let slot = &mut self.slots[index as usize];
        let Some(group) = self.table.group(slot.group) else { return false };
        if slot.primary != NO_PRIMARY {
            slot.failed |= 1 << slot.primary;
        }
        let is_left = |(position, primary): (usize, &PrimaryId)| {
            slot.failed & 1 << position == 0 && !self.primaries[primary.0 as usize].is_dead()
        };
        let has_other = group.primaries.iter().enumerate().any(is_left);
        if has_other {
            slot.state = ZoneState::Idle;
            self.enqueue(index, RefreshLane::Urgent);
        }
        has_other
    }

    /// RFC 1034 4.3.5: a failed check is repeated after RETRY seconds; each further one later, up to REFRESH.
    fn check_failed(&mut self, index: u32, reason: CheckFailure, now_s: u32) {
        self.end_forced(index);
        let zone = self.id_of(index);
        let (SoaTimers { refresh_s, retry_s, .. }, limits) = (self.limited_timers(index), self.timer_limits(index));
        let slot = &mut self.slots[index as usize];
        slot.state = ZoneState::Idle;
        slot.failures = slot.failures.saturating_add(1);
        slot.failed = 0;
        let was_announced = slot.flags.take(Flags::ANNOUNCED);
        let interval_s = if slot.flags.has(Flags::HAS_DATA) {
            // An expired zone is needed: it does not wait for longer than RETRY.
            let factor = if slot.is_served() { 1u32 << (slot.failures - 1).min(16) } else { 1 };
            retry_s.saturating_mul(factor).min(refresh_s).max(1)
        } else {
            1 << slot.failures.min(MAX_FIRST_RETRY_SHIFT)
        };
        // REFRESH may be shorter than the shortest RETRY, and zones without data have neither.
        let interval_s = limits.apply_to_retry(interval_s);
        let at_s = now_s.saturating_add(self.random.u32(jittered(interval_s, limits.retry_s.0)));
        self.set_timer(index, Some(at_s));
        match reason {
            // It would be received again for nothing, unless another version was announced meanwhile.
            CheckFailure::Transfer if !was_announced => self.quick_checks.forget(index),
            _ => self.check_soon_if_announced(index, None, now_s),
        }
        self.actions.push_back(RefreshAction::CheckFailed { zone, reason });
        self.check_again_if_wanted(index);
    }

    /// Advances the next check if a NOTIFY announced a version that was not found.
    fn check_soon_if_announced(&mut self, index: u32, found: Option<u32>, now_s: u32) {
        let Some(wait_s) = self.quick_checks.next_s(index, found) else { return };
        let at_s = now_s.saturating_add(wait_s);
        if self.check_at_s(index).is_some_and(|due_s| at_s < due_s) {
            self.set_timer(index, Some(at_s));
        }
    }

    /// Something happened while the zone was busy.
    fn check_again_if_wanted(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        let is_announced = slot.flags.has(Flags::ANNOUNCED) && is_later(slot.primary_serial, slot.serial);
        if slot.state != ZoneState::Idle {
            return;
        }
        if slot.flags.take(Flags::CHECK_AGAIN) || is_announced {
            self.enqueue(index, RefreshLane::Urgent);
        } else {
            slot.flags.clear(Flags::ANNOUNCED);
        }
    }
}

impl Check {
    /// Adds the serial of a primary: the highest wins; among equals the first, but not one whose transfer just failed.
    fn add(&mut self, serial: u32, expires_at_s: Option<u32>, candidate: TransferCandidate, slot: RefreshSlot) {
        let is_newer_than_served = !slot.is_served() || is_later(serial, slot.serial);
        let is_better = self.best.is_none_or(|(best, of)| match (candidate.has_failed, of.has_failed) {
            (false, true) => is_newer_than_served,
            (true, false) => !is_later(best, slot.serial) && slot.is_served() && is_later(serial, best),
            _ => is_later(serial, best),
        });
        if serial == slot.serial {
            self.expires_at_s = self.expires_at_s.max(expires_at_s);
            self.is_confirmed_in_full |= expires_at_s.is_none();
        }
        if is_better {
            self.best = Some((serial, candidate));
        }
    }
}
