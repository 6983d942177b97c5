//! What the scheduler keeps of one primary: whether it answers, and how much may be in flight to it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::super::primary::GroupId;
use super::RefreshLimits;
use super::delivery::Delivery;
use super::zone_slot::{Need, RefreshLane};
use fastrand::Rng;

/// A zone in a queue: its lane, the high and the low part of its order, its index. See [`queue_entry`].
pub(super) type QueueEntry = Reverse<(RefreshLane, u16, u32, u32)>;

const _: () = assert!(size_of::<QueueEntry>() <= 12, "a million zones may wait");

/// The entry of a zone: more urgent ones first, then the lower `order`, which is the arrival or the expiry. It has 48 bits: a million arrivals
/// per second for nine years.
pub(super) fn queue_entry(lane: RefreshLane, order: u64, index: u32) -> QueueEntry {
    Reverse((lane, (order >> 32) as u16, order as u32, index))
}

/// Zones that wait for a transfer.
#[derive(Default)]
pub(super) struct TransferQueue {
    /// Zones that are not served, and those that are. They take turns: a first load of a million zones takes long, and those that came first
    /// must not expire meanwhile.
    entries: [BinaryHeap<QueueEntry>; 2],
    /// Whether a served zone has the next turn.
    is_turn_of_served: bool,
    /// Whether the primary is in the list of those whose transfers may start.
    pub(super) is_ready: bool,
}

impl TransferQueue {
    pub(super) fn push(&mut self, entry: QueueEntry, is_served: bool) {
        self.entries[usize::from(is_served)].push(entry);
    }

    /// Takes the next zone from the queue.
    pub(super) fn pop(&mut self) -> Option<QueueEntry> {
        let turn = usize::from(self.is_turn_of_served);
        self.is_turn_of_served = !self.is_turn_of_served;
        self.entries[turn].pop().or_else(|| self.entries[1 - turn].pop())
    }

    pub(super) fn len(&self) -> usize {
        self.entries.iter().map(BinaryHeap::len).sum()
    }

    /// Takes all zones from the queue.
    pub(super) fn take_all(&mut self) -> Vec<QueueEntry> {
        std::mem::take(&mut self.entries).into_iter().flatten().collect()
    }
}

/// The state of a primary.
pub(super) struct PrimaryState {
    pub(super) probes_in_flight: u32,
    pub(super) transfers_in_flight: u32,
    /// The most probes in flight: grows with answers, is halved by losses.
    window: u32,
    /// When the window was last halved.
    halved_at_s: u32,
    /// Probes without an answer since the last answer.
    timeouts: u32,
    /// How often in a row it was found dead; 0 while it answers.
    pub(super) failures: u32,
    /// While it is dead: when it is tried again.
    pub(super) retry_at_s: u32,
    /// Whether the one probe or transfer is in flight that tries it again.
    is_trying: bool,
    /// How often in a row transfers could not reach it, although it answered queries in between: its TCP port may be filtered.
    lost_transfers: u32,
    /// While only transfers cannot reach it: when they are tried again.
    transfers_from_s: u32,
    /// By [`Delivery`].
    pub(super) transfers: [TransferQueue; Delivery::ALL.len()],
    /// Groups that could start nothing because of this primary, by [`Need`].
    pub(super) blocked: [VecDeque<GroupId>; Need::ALL.len()],
}

/// The first number of probes in flight, and the least after losses: 16 fit into any socket buffer.
const MIN_WINDOW: u32 = 16;
/// A primary is dead after this many unanswered probes without one answer: one lost probe, retransmissions included, is a chance.
const MAX_TIMEOUTS: u32 = 3;
/// The longest back-off: 2^8 seconds.
const MAX_BACKOFF_SHIFT: u32 = 8;

impl PrimaryState {
    pub(super) fn new() -> PrimaryState {
        PrimaryState {
            probes_in_flight: 0,
            transfers_in_flight: 0,
            window: MIN_WINDOW,
            halved_at_s: 0,
            timeouts: 0,
            failures: 0,
            retry_at_s: 0,
            is_trying: false,
            lost_transfers: 0,
            transfers_from_s: 0,
            transfers: Default::default(),
            blocked: Default::default(),
        }
    }

    pub(super) fn is_dead(&self) -> bool {
        self.failures > 0
    }

    /// Whether anything may be sent to it: a dead one is tried with one message at a time, after its back-off.
    pub(super) fn is_available(&self, now_s: u32) -> bool {
        let is_idle = self.probes_in_flight == 0 && self.transfers_in_flight == 0;
        !self.is_dead() || (now_s >= self.retry_at_s && !self.is_trying && is_idle)
    }

    pub(super) fn can_probe(&self, now_s: u32) -> bool {
        self.is_available(now_s) && self.probes_in_flight < self.window
    }

    /// Whether a further probe is possible for a check that another primary made room for.
    pub(super) fn can_join_check(&self, now_s: u32, limits: &RefreshLimits) -> bool {
        self.is_available(now_s) && self.probes_in_flight < 2 * limits.probes_per_primary
    }

    pub(super) fn can_transfer(&self, now_s: u32, delivery: Delivery, limits: &RefreshLimits) -> bool {
        let waiting = self.transfers[delivery.index()].len() as u32;
        self.is_available(now_s) && self.transfers_in_flight + waiting < limits.transfers_per_primary
    }

    /// A probe or transfer begins.
    pub(super) fn sent(&mut self) {
        self.is_trying = self.is_dead();
    }

    /// What was sent says nothing about it.
    pub(super) fn not_tried(&mut self) {
        self.is_trying = false;
    }

    /// It has answered; returns whether it was dead.
    pub(super) fn answered(&mut self, limits: &RefreshLimits) -> bool {
        self.window = (self.window + 1).min(limits.probes_per_primary);
        (self.timeouts, self.is_trying) = (0, false);
        std::mem::take(&mut self.failures) > 0
    }

    /// A probe was not answered; returns whether the primary is dead from now on.
    pub(super) fn timed_out(&mut self, now_s: u32, random: &mut Rng) -> bool {
        if self.halved_at_s != now_s {
            self.window = (self.window / 2).max(MIN_WINDOW);
            self.halved_at_s = now_s;
        }
        self.timeouts += 1;
        (self.is_trying || self.timeouts >= MAX_TIMEOUTS) && self.failed(now_s, random)
    }

    /// A connection failed, or an attempt to reach it again; returns whether it is dead from now on for longer.
    pub(super) fn failed(&mut self, now_s: u32, random: &mut Rng) -> bool {
        if self.is_dead() && !self.is_trying {
            return false; // Sent before it was found dead.
        }
        (self.timeouts, self.is_trying, self.window) = (0, false, MIN_WINDOW);
        self.failures += 1;
        self.retry_at_s = after_backoff(self.failures, now_s, random);
        true
    }

    /// A transfer could not reach it: as [`PrimaryState::failed`].
    pub(super) fn transfer_lost(&mut self, now_s: u32, random: &mut Rng) -> bool {
        if !self.is_dead() && now_s >= self.transfers_from_s {
            self.lost_transfers += 1;
            self.transfers_from_s = after_backoff(self.lost_transfers, now_s, random);
        }
        self.failed(now_s, random)
    }

    /// A transfer has reached it.
    pub(super) fn transfer_arrived(&mut self) {
        (self.lost_transfers, self.transfers_from_s) = (0, 0);
    }

    /// Transfers may reach it again: they are tried at once.
    pub(super) fn may_transfer(&mut self, now_s: u32) {
        self.transfers_from_s = self.transfers_from_s.min(now_s);
    }

    /// Whether it answers queries, but transfers cannot reach it: zones do not wait for it, but for RETRY. Its other zones are checked as usual.
    pub(super) fn loses_transfers(&self, now_s: u32) -> bool {
        self.lost_transfers > 1 && now_s < self.transfers_from_s
    }

    /// It shows a sign of life, such as a NOTIFY: it is tried at once.
    pub(super) fn may_be_back(&mut self, now_s: u32) {
        self.retry_at_s = self.retry_at_s.min(now_s);
    }
}

/// The end of the back-off after so many failures in a row.
fn after_backoff(failures: u32, now_s: u32, random: &mut Rng) -> u32 {
    let backoff_s = 1 << failures.min(MAX_BACKOFF_SHIFT);
    now_s.saturating_add(random.u32(backoff_s / 2 + 1..=backoff_s))
}
