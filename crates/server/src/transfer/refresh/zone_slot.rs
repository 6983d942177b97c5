//! What the scheduler keeps of one zone.

use super::super::primary::GroupId;
use super::delivery::Delivery;

/// A zone, without its timers, which are in `ZoneTimers`, and without its generation.
#[derive(Clone, Copy, Debug)]
pub(super) struct RefreshSlot {
    /// The serial that is served.
    pub(super) serial: u32,
    /// The highest serial that a primary has reported or announced.
    pub(super) primary_serial: u32,
    /// The number of the intervals of the served SOA record, or [`NO_INTERVALS`]. Most zones have the same few as others.
    pub(super) intervals: u32,
    pub(super) expires_at_s: u32,
    pub(super) group: GroupId,
    /// The primaries of the group whose transfers have failed since the check began, one bit each: the others are tried at once.
    pub(super) failed: u16,
    /// Which primary of the group the current transfer is from; [`NO_PRIMARY`] if it is none of them.
    pub(super) primary: u8,
    pub(super) state: ZoneState,
    pub(super) lane: RefreshLane,
    /// Failed checks in a row.
    pub(super) failures: u8,
    pub(super) flags: Flags,
    /// What the zone waits for while it is with the writer, whatever is configured by now.
    pub(super) delivery: Delivery,
}

const _: () = assert!(size_of::<RefreshSlot>() <= 28, "a million zones take 28 MB");

/// The zone has no version.
pub(super) const NO_INTERVALS: u32 = u32::MAX;
/// A group has fewer primaries.
pub(super) const NO_PRIMARY: u8 = u8::MAX;

/// What is being done for a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ZoneState {
    /// The slot has no zone.
    Vacant,
    /// The refresh timer runs.
    Idle,
    /// Waits in its group for a primary.
    Waiting,
    /// Primaries are asked for their serials.
    Probing,
    /// Waits for one primary to have room for a transfer.
    WaitingForTransfer,
    Transferring,
    /// The transferred zone is with the writer.
    Delivered,
}

/// What a zone that waits needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// The serials of its primaries, and perhaps no transfer.
    Check,
    /// A transfer, whatever the serials are.
    Transfer,
}

impl Need {
    pub(super) const ALL: [Need; 2] = [Need::Check, Need::Transfer];
}

/// Which zones go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RefreshLane {
    /// A NOTIFY or a command: always before refreshes.
    Urgent,
    /// Nothing is served: the zone is new or expired.
    NotServed,
    /// The refresh timer ended.
    Refresh,
}

/// Conditions of a zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Flags(u8);

impl Flags {
    /// A version is there, served or expired.
    pub(super) const HAS_DATA: Flags = Flags(1);
    pub(super) const EXPIRED: Flags = Flags(2);
    /// The next transfer is a whole one, whatever the serial.
    pub(super) const FORCED: Flags = Flags(4);
    /// A NOTIFY announced `primary_serial` while the zone was busy.
    pub(super) const ANNOUNCED: Flags = Flags(8);
    /// Check again when the zone is no longer busy.
    pub(super) const CHECK_AGAIN: Flags = Flags(16);
    /// The changes did not fit the served version: the next transfer is a whole one, if the serial is later.
    pub(super) const WHOLE: Flags = Flags(32);
    /// The zone waits, or waited last, with [`Need::Transfer`].
    const NEEDS_TRANSFER: Flags = Flags(64);

    pub(super) fn has(self, flag: Flags) -> bool {
        self.0 & flag.0 != 0
    }

    pub(super) fn set(&mut self, flag: Flags) {
        self.0 |= flag.0;
    }

    pub(super) fn clear(&mut self, flag: Flags) {
        self.0 &= !flag.0;
    }

    /// Clears a flag; returns whether it was set.
    pub(super) fn take(&mut self, flag: Flags) -> bool {
        let was_set = self.has(flag);
        self.clear(flag);
        was_set
    }
}

impl RefreshSlot {
    pub(super) const VACANT: RefreshSlot = RefreshSlot {
        serial: 0,
        primary_serial: 0,
        intervals: NO_INTERVALS,
        expires_at_s: 0,
        group: GroupId(0),
        failed: 0,
        primary: NO_PRIMARY,
        state: ZoneState::Vacant,
        lane: RefreshLane::Refresh,
        failures: 0,
        flags: Flags(0),
        delivery: Delivery::TO_WRITER,
    };

    /// Whether clients get answers from the zone.
    pub(super) fn is_served(&self) -> bool {
        self.flags.has(Flags::HAS_DATA) && !self.flags.has(Flags::EXPIRED)
    }

    /// It waits from now on, with its need.
    pub(super) fn wait(&mut self, lane: RefreshLane) {
        (self.state, self.lane) = (ZoneState::Waiting, lane);
        match self.need() {
            Need::Check => self.flags.clear(Flags::NEEDS_TRANSFER),
            Need::Transfer => self.flags.set(Flags::NEEDS_TRANSFER),
        }
    }

    /// The need that it waits with, which may have changed since.
    pub(super) fn waits_with(&self) -> Need {
        if self.flags.has(Flags::NEEDS_TRANSFER) { Need::Transfer } else { Need::Check }
    }

    /// Whether its entry of this lane in the queue of this group counts.
    pub(super) fn is_waiting_in(&self, group: GroupId, need: Need, lane: RefreshLane) -> bool {
        self.state == ZoneState::Waiting && self.waits_with() == need && self.lane == lane && self.group == group
    }

    /// What it needs now.
    pub(super) fn need(&self) -> Need {
        if self.needs_no_serial() { Need::Transfer } else { Need::Check }
    }

    /// Whether a probe would not change what is done next.
    pub(super) fn needs_no_serial(&self) -> bool {
        !self.flags.has(Flags::HAS_DATA) || self.flags.has(Flags::FORCED)
    }
}
