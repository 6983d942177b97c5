//! Starting checks and transfers of waiting zones, as far as primaries have room.

use std::cmp::Reverse;
use std::sync::Arc;

use super::super::primary::{Group, GroupId, PrimaryId};
use super::actions::{CheckFailure, RefreshAction};
use super::delivery::Delivery;
use super::primary_state::{QueueEntry, TransferQueue};
use super::zone_slot::{Flags, NO_PRIMARY, Need, ZoneState};
use super::{Check, RefreshScheduler, WaitingZones};
use crate::zone_id::ZoneId;

impl RefreshScheduler {
    /// Starts what can be started. Each turn of the loops starts something or takes an entry from a queue.
    pub(super) fn dispatch(&mut self, now_s: u32) {
        while let Some((at_s, primary)) = self.retries.first().copied().filter(|(at_s, _)| *at_s <= now_s) {
            self.retries.remove(&(at_s, primary));
            self.wake_all(primary);
        }
        loop {
            while let Some((group, need)) = self.active.pop_front() {
                self.waiting(group, need).is_active = false;
                if self.start_check(group, need, now_s) {
                    self.activate(group, need); // At the end, so that all groups have their turn.
                }
            }
            self.start_transfers(now_s);
            if self.active.is_empty() {
                return;
            }
        }
    }

    /// Whether a group or a primary has its turn: not after [`RefreshScheduler::dispatch`].
    pub(super) fn may_dispatch(&self) -> bool {
        let may_transfer =
            |delivery: &Delivery| self.may_deliver(*delivery) && !self.ready[delivery.index()].is_empty();
        !self.active.is_empty() || Delivery::ALL.iter().any(may_transfer)
    }

    fn waiting(&mut self, group: GroupId, need: Need) -> &mut WaitingZones {
        &mut self.groups[group.0 as usize].queues[need as usize]
    }

    pub(super) fn activate(&mut self, group: GroupId, need: Need) {
        let waiting = self.waiting(group, need);
        if !waiting.is_active && !waiting.entries.is_empty() {
            waiting.is_active = true;
            self.active.push_back((group, need));
        }
    }

    /// Starts the check of the first waiting zone of a group with this need; returns whether the group can go on.
    fn start_check(&mut self, id: GroupId, need: Need, now_s: u32) -> bool {
        // If it has ended, that has woken another one.
        let Some(group) = self.table.group(id).cloned() else { return false };
        let Some(Reverse((lane, _, _, index))) = self.waiting(id, need).entries.peek().copied() else {
            // All its zones that waited have left the queue since it was woken.
            group.primaries.iter().for_each(|primary| self.wake_next(*primary, need));
            return false;
        };
        let is_stale = !self.slots[index as usize].is_waiting_in(id, need, lane);
        if !is_stale && !self.start_zone(index, &group, now_s) {
            self.block(id, need, &group);
            return false;
        }
        let WaitingZones { entries, stale, .. } = self.waiting(id, need);
        entries.pop();
        *stale = stale.saturating_sub(usize::from(is_stale));
        if !entries.is_empty() {
            return true;
        }
        entries.shrink_to_fit(); // It may have held a million zones.
        if is_stale {
            // The room that it was woken for is for another group.
            group.primaries.iter().for_each(|primary| self.wake_next(*primary, need));
        }
        true
    }

    /// Starts the check of a zone, if a primary has room.
    fn start_zone(&mut self, index: u32, group: &Arc<Group>, now_s: u32) -> bool {
        let slot = self.slots[index as usize];
        // With one primary there is no serial to compare: a transfer that is needed anyway saves the probe.
        if let ([primary], true) = (&group.primaries[..], slot.needs_no_serial()) {
            let delivery = self.delivery(index);
            let can_start = self.primaries[primary.0 as usize].can_transfer(now_s, delivery, &self.limits);
            if can_start {
                self.request_transfer(index, *primary);
            }
            return can_start;
        }
        if !group.primaries.iter().any(|primary| self.primaries[primary.0 as usize].can_probe(now_s)) {
            return false;
        }
        let zone = self.id_of(index);
        let mut check = Check::default();
        for (position, primary) in group.primaries.iter().enumerate() {
            let state = &self.primaries[primary.0 as usize];
            if state.can_join_check(now_s, &self.limits) {
                check.pending |= 1 << position;
                // A dead primary must not delay the zone, unless there is no other.
                check.awaited |= u16::from(!state.is_dead()) << position;
                self.start_probe(zone, *primary);
            }
        }
        if check.awaited == 0 {
            check.awaited = check.pending;
        }
        self.checks.insert(index, check);
        self.slots[index as usize].state = ZoneState::Probing;
        true
    }

    fn start_probe(&mut self, zone: ZoneId, primary: PrimaryId) {
        let state = &mut self.primaries[primary.0 as usize];
        state.sent();
        state.probes_in_flight += 1;
        self.actions.push_back(RefreshAction::Probe { zone, primary });
    }

    /// Primaries that have sent NOTIFY since they were asked for the serial of this zone, and have answered, are asked again at once: the
    /// check may wait for the time-outs of others. Each is asked again once per check, however many NOTIFY messages it sends.
    pub(super) fn ask_again(&mut self, index: u32, now_s: u32) {
        let Some(group) = self.table.group(self.slots[index as usize].group).cloned() else { return };
        let zone = self.id_of(index);
        for (position, primary) in group.primaries.iter().enumerate() {
            let Some(check) = self.checks.get_mut(&index) else { return };
            let bit = 1 << position;
            let is_wanted = check.notified & !check.pending & !check.asked_again & bit != 0;
            if is_wanted && self.primaries[primary.0 as usize].can_join_check(now_s, &self.limits) {
                check.asked_again |= bit;
                check.pending |= bit;
                check.awaited |= bit;
                self.start_probe(zone, *primary);
            }
        }
    }

    /// A group that can start nothing is tried again when one of its primaries has room.
    fn block(&mut self, id: GroupId, need: Need, group: &Arc<Group>) {
        for (position, primary) in group.primaries.iter().enumerate() {
            let waiting = self.waiting(id, need);
            if waiting.blocked_on & 1 << position == 0 {
                waiting.blocked_on |= 1 << position;
                self.primaries[primary.0 as usize].blocked[need as usize].push_back(id);
            }
        }
    }

    /// A primary has room for one more, perhaps a probe, perhaps a transfer: for each need, a group with a zone that waits for it is tried.
    fn wake_one(&mut self, primary: PrimaryId) {
        Need::ALL.into_iter().for_each(|need| self.wake_next(primary, need));
    }

    /// The next group with a zone that has this need and waits for this primary is tried.
    pub(super) fn wake_next(&mut self, primary: PrimaryId, need: Need) {
        while let Some(id) = self.primaries[primary.0 as usize].blocked[need as usize].pop_front() {
            let Some(position) = self.position(id, primary) else { continue };
            let waiting = self.waiting(id, need);
            waiting.blocked_on &= !(1 << position);
            if !waiting.entries.is_empty() {
                return self.activate(id, need);
            }
        }
    }

    /// A probe or transfer at this primary has ended.
    pub(super) fn primary_has_room(&mut self, primary: PrimaryId) {
        self.make_ready(primary);
        self.wake_one(primary);
    }

    pub(super) fn wake_all(&mut self, primary: PrimaryId) {
        self.make_ready(primary);
        for need in Need::ALL {
            for _ in 0..self.primaries[primary.0 as usize].blocked[need as usize].len() {
                self.wake_next(primary, need);
            }
        }
    }

    //---------- Transfers

    /// Queues the transfer of a zone at a primary.
    pub(super) fn request_transfer(&mut self, index: u32, primary: PrimaryId) {
        let position = self.position(self.slots[index as usize].group, primary);
        let entry = self.next_entry(index, self.slots[index as usize].lane);
        let slot = &mut self.slots[index as usize];
        (slot.state, slot.primary) = (ZoneState::WaitingForTransfer, position.unwrap_or(NO_PRIMARY));
        let is_served = slot.is_served();
        let delivery = self.delivery(index);
        self.primaries[primary.0 as usize].transfers[delivery.index()].push(entry, is_served);
        self.make_ready(primary);
    }

    /// The primary may have room for a transfer.
    pub(super) fn make_ready(&mut self, primary: PrimaryId) {
        for delivery in Delivery::ALL {
            let queue = &mut self.primaries[primary.0 as usize].transfers[delivery.index()];
            if !queue.is_ready && queue.len() > 0 {
                queue.is_ready = true;
                self.ready[delivery.index()].push_back(primary);
            }
        }
    }

    /// Zones that wait for each of the external commands and others have their turn by turns. Each turn takes a primary or an entry from a queue.
    fn start_transfers(&mut self, now_s: u32) {
        while Delivery::ALL.map(|delivery| self.start_next_transfer(delivery, now_s)).contains(&true) {}
    }

    /// Whether the writer, or the external command, takes another zone.
    fn may_deliver(&self, delivery: Delivery) -> bool {
        let max = match delivery {
            Delivery::TO_WRITER => self.limits.delivered,
            _ => self.limits.delivered_to_command,
        };
        self.delivered[delivery.index()] < max
    }

    /// Starts the transfer of the next zone at the next primary. Returns whether there may be another one.
    fn start_next_transfer(&mut self, delivery: Delivery, now_s: u32) -> bool {
        if !self.may_deliver(delivery) {
            return false;
        }
        let Some(primary) = self.ready[delivery.index()].pop_front() else { return false };
        let state = &mut self.primaries[primary.0 as usize];
        state.transfers[delivery.index()].is_ready = false;
        let has_room = state.transfers_in_flight < self.limits.transfers_per_primary && state.is_available(now_s);
        // Without room, the next result or the end of the back-off makes it ready again.
        if has_room && let Some(Reverse((.., index))) = state.transfers[delivery.index()].pop() {
            self.make_ready(primary);
            self.start_transfer(index, primary);
        }
        true
    }

    fn start_transfer(&mut self, index: u32, primary: PrimaryId) {
        let zone = self.id_of(index);
        let is_current = self.transfer_primary(index) == Some(primary);
        let slot = &mut self.slots[index as usize];
        if slot.state != ZoneState::WaitingForTransfer || !is_current {
            return self.wake_one(primary); // The zone was removed or reconfigured, which makes room for another one.
        }
        slot.state = ZoneState::Transferring;
        let accepts_any_serial = !slot.is_served() || slot.flags.has(Flags::FORCED);
        let not_before = (!accepts_any_serial).then_some(slot.serial);
        let from_serial = not_before.filter(|_| !slot.flags.has(Flags::WHOLE));
        let state = &mut self.primaries[primary.0 as usize];
        state.sent();
        state.transfers_in_flight += 1;
        self.actions.push_back(RefreshAction::Transfer { zone, primary, from_serial, not_before });
    }

    pub(super) fn delivery_begins(&mut self, index: u32) {
        let delivery = self.delivery(index);
        self.slots[index as usize].delivery = delivery;
        self.delivered[delivery.index()] += 1;
    }

    /// The writer has published or rejected a zone.
    pub(super) fn delivery_ended(&mut self, delivery: Delivery) {
        let delivered = &mut self.delivered[delivery.index()];
        *delivered = delivered.saturating_sub(1);
    }

    //---------- Primaries

    pub(super) fn primary_answered(&mut self, primary: PrimaryId) {
        let state = &mut self.primaries[primary.0 as usize];
        let retry_at_s = state.retry_at_s;
        if state.answered(&self.limits) {
            self.retries.remove(&(retry_at_s, primary));
            self.wake_all(primary);
        }
    }

    pub(super) fn primary_timed_out(&mut self, primary: PrimaryId, now_s: u32) {
        let state = &mut self.primaries[primary.0 as usize];
        let before = state.retry_at_s;
        if state.timed_out(now_s, &mut self.random) {
            self.back_off(primary, before, now_s);
        }
    }

    pub(super) fn transfer_did_not_arrive(&mut self, primary: PrimaryId, now_s: u32) {
        let state = &mut self.primaries[primary.0 as usize];
        let before = state.retry_at_s;
        if state.transfer_lost(now_s, &mut self.random) {
            self.back_off(primary, before, now_s);
        }
    }

    /// A primary is dead: it is tried again later, and the zones that wait for it may find another one.
    fn back_off(&mut self, primary: PrimaryId, before_s: u32, now_s: u32) {
        self.retries.remove(&(before_s, primary));
        let state = &mut self.primaries[primary.0 as usize];
        self.retries.insert((state.retry_at_s, primary));
        let loses_transfers = state.loses_transfers(now_s);
        let waiting: Vec<QueueEntry> = state.transfers.iter_mut().flat_map(TransferQueue::take_all).collect();
        self.give_up_forced(primary);
        for Reverse((.., index)) in waiting {
            let is_current = self.transfer_primary(index) == Some(primary);
            let slot = &mut self.slots[index as usize];
            if slot.state != ZoneState::WaitingForTransfer || !is_current {
                continue;
            }
            slot.state = ZoneState::Idle;
            let lane = slot.lane;
            match loses_transfers {
                true => self.transfer_failed(index, CheckFailure::Unreachable, now_s),
                false => self.enqueue(index, lane),
            }
        }
    }
}
