//! What makes a zone be checked: NOTIFY, commands and timers.

use std::net::IpAddr;

use wire::serial::is_later;

use super::super::primary::{GroupId, PeerConfig, PrimaryId};
use super::RefreshScheduler;
use super::actions::RefreshAction;
use super::zone_slot::{Flags, RefreshLane, ZoneState};
use crate::zone_id::ZoneId;

/// Due timers handled per call, so that a million zones that are due at once do not stop everything else.
const MAX_DUE_TIMERS: usize = 4096;

impl RefreshScheduler {
    /// A NOTIFY arrived from this address, with the serial of its SOA record if it has one; returns whether it causes a check.
    ///
    /// RFC 1996 3.7: a serial that is not later causes none. RFC 1996 4.4: several NOTIFYs cause one.
    pub fn notify(&mut self, zone: ZoneId, serial: Option<u32>, from: IpAddr, now_s: u32) -> bool {
        let Some(slot) = self.slot(zone) else { return false };
        let group = slot.group;
        if slot.is_served() && serial.is_some_and(|serial| !is_later(serial, slot.serial)) {
            return false;
        }
        // A NOTIFY that was delayed must not hide a later version.
        if let Some(serial) = serial
            && (!slot.flags.has(Flags::ANNOUNCED) || is_later(serial, slot.primary_serial))
        {
            slot.primary_serial = serial;
        }
        if matches!(slot.state, ZoneState::Idle | ZoneState::Waiting) {
            if serial.is_some() {
                slot.flags.set(Flags::ANNOUNCED);
            }
            self.enqueue(zone.index, RefreshLane::Urgent);
        } else {
            slot.flags.set(if serial.is_some() { Flags::ANNOUNCED } else { Flags::CHECK_AGAIN });
        }
        self.quick_checks.announced(zone.index, serial);
        // A primary that sends NOTIFY is there.
        self.try_primaries(group, |config| config.address.ip() == from, now_s);
        self.notified_during_check(zone.index, group, from);
        self.ask_again(zone.index, now_s);
        true
    }

    /// Notes which of the primaries that are being asked have sent NOTIFY.
    fn notified_during_check(&mut self, index: u32, group: GroupId, from: IpAddr) {
        let (Some(check), Some(group)) = (self.checks.get_mut(&index), self.table.group(group)) else { return };
        for (position, primary) in group.primaries.iter().enumerate() {
            let is_sender = self.table.primary(*primary).is_some_and(|config| config.address.ip() == from);
            check.notified |= u16::from(is_sender) << position;
        }
    }

    /// These primaries of a group are tried at once, even if they were dead.
    fn try_primaries(&mut self, group: GroupId, are_meant: impl Fn(&PeerConfig) -> bool, now_s: u32) {
        let Some(group) = self.table.group(group).cloned() else { return };
        for primary in &group.primaries {
            if self.table.primary(*primary).is_some_and(&are_meant) {
                self.try_primary(*primary, now_s);
            }
        }
    }

    fn try_primary(&mut self, primary: PrimaryId, now_s: u32) {
        let state = &mut self.primaries[primary.0 as usize];
        state.may_transfer(now_s);
        if state.is_dead() {
            self.retries.remove(&(state.retry_at_s, primary));
            state.may_be_back(now_s);
            self.retries.insert((state.retry_at_s, primary));
        }
    }

    /// Certificates were replaced, for want of which primaries may have been dead.
    pub fn tls_replaced(&mut self, now_s: u32) {
        for primary in (0..self.primaries.len() as u32).map(PrimaryId) {
            if self.table.primary(primary).is_some_and(|config| config.tls > 0) {
                self.try_primary(primary, now_s);
            }
        }
    }

    /// Checks a zone now (`zonda zone refresh`): the operator may have repaired what made its primaries dead.
    pub fn refresh(&mut self, zone: ZoneId, now_s: u32) {
        let Some(group) = self.slot(zone).map(|slot| slot.group) else { return };
        self.try_primaries(group, |_| true, now_s);
        self.check_now(zone);
    }

    fn check_now(&mut self, zone: ZoneId) {
        let Some(slot) = self.slot(zone) else { return };
        if matches!(slot.state, ZoneState::Idle | ZoneState::Waiting) {
            self.enqueue(zone.index, RefreshLane::Urgent);
        } else {
            slot.flags.set(Flags::CHECK_AGAIN);
        }
    }

    /// Transfers the whole zone now, whatever its serial (`zonda zone retransfer`).
    pub fn retransfer(&mut self, zone: ZoneId, now_s: u32) {
        let Some(slot) = self.slot(zone) else { return };
        slot.flags.set(Flags::FORCED);
        let (state, group) = (slot.state, slot.group);
        self.try_primaries(group, |_| true, now_s);
        // A check in progress ends with this transfer.
        if !matches!(state, ZoneState::Probing | ZoneState::WaitingForTransfer) {
            self.check_now(zone);
        }
    }

    pub(super) fn expire_timers(&mut self, now_s: u32) {
        for _ in 0..MAX_DUE_TIMERS {
            let Some(due) = self.timers.take_due(now_s) else { return };
            let slot = &self.slots[due.zone as usize];
            if slot.is_served() && slot.expires_at_s <= now_s {
                self.expire(due.zone);
            } else if slot.state == ZoneState::Idle {
                self.enqueue(due.zone, if slot.is_served() { RefreshLane::Refresh } else { RefreshLane::NotServed });
            }
        }
    }

    /// RFC 1034 4.3.5: without contact for EXPIRE seconds, the zone is no longer served.
    pub(super) fn expire(&mut self, index: u32) {
        let zone = self.id_of(index);
        let slot = &mut self.slots[index as usize];
        slot.flags.set(Flags::EXPIRED);
        let is_free = matches!(slot.state, ZoneState::Idle | ZoneState::Waiting);
        self.actions.push_back(RefreshAction::Expire { zone });
        if is_free {
            self.enqueue(index, RefreshLane::NotServed);
        }
    }
}
