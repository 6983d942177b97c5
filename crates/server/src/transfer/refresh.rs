//! The refresh scheduler: decides when which primary is asked for which zone (RFC 1034 4.3.5, RFC 1996), from events and the time.
//!
//! A zone is idle until its refresh timer ends or a NOTIFY or a command arrives. Then it waits in its group (the zones with the
//! same primaries) until a primary has room, all primaries are asked for their serials, and the zone is transferred from the
//! one with the highest. A primary that does not answer is backed off for all its zones, which stay in their queues meanwhile
//! and cost nothing. One message at a time finds out whether it is back.
//!
//! All times are seconds since 1970. Nothing is allocated per zone but its 28 octets here, its timers and its queue entries.

mod actions;
mod check_results;
mod delivery;
mod dispatch;
mod forced_transfers;
mod primary_state;
mod quick_checks;
mod restored_checks;
mod status;
#[cfg(test)]
mod tests;
mod triggers;
mod zone_slot;

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap, HashSet, VecDeque};

use super::primary::{GroupId, PeerConfig, PrimaryId, PrimaryTable, SecondaryLimits, SizeLimits};
use super::soa_timers::{SoaTimers, StoredTimers, TimerLimits};
use crate::interned::Interned;
use crate::zone_id::{SlotGenerations, ZoneId};
use crate::zone_timers::ZoneTimers;
pub use actions::{CheckFailure, ProbeResult, RefreshAction, RefreshStatus, TransferResult, ZoneVersion};
use delivery::{Delivery, KnownCommands};
use fastrand::Rng;
use primary_state::{PrimaryState, QueueEntry, queue_entry};
use quick_checks::QuickChecks;
use restored_checks::RestoredChecks;
use zone_slot::{Flags, NO_PRIMARY, Need, RefreshLane, RefreshSlot, ZoneState};

/// How much may be in flight.
#[derive(Clone, Copy, Debug)]
pub struct RefreshLimits {
    /// Probes per primary; the window grows up to this while answers arrive. More would overflow the socket buffer of many a server:
    /// Linux gives it 212,992 octets by default, and counts 768 for a short datagram.
    pub probes_per_primary: u32,
    /// Transfers per primary.
    pub transfers_per_primary: u32,
    /// Received zones that the writer has not published or rejected yet.
    pub delivered: u32,
    /// As `delivered`, for zones that one external command checks. They count apart, as a command may take minutes: a few more than run at
    /// once, so that there is always a next one.
    pub delivered_to_command: u32,
}

impl Default for RefreshLimits {
    fn default() -> RefreshLimits {
        RefreshLimits { probes_per_primary: 256, transfers_per_primary: 512, delivered: 1024, delivered_to_command: 32 }
    }
}

/// The zones that share their primaries.
#[derive(Default)]
struct GroupState {
    /// By [`Need`]: zones that wait for room for a transfer do not delay checks.
    queues: [WaitingZones; Need::ALL.len()],
}

/// The zones of a group that wait and need the same.
#[derive(Default)]
struct WaitingZones {
    entries: BinaryHeap<QueueEntry>,
    /// How many of these entries are of zones that have left the queue, or have a more urgent entry.
    stale: usize,
    is_active: bool,
    /// By which of the primaries they are blocked, one bit each.
    blocked_on: u16,
}

/// The check of one zone that is in progress.
#[derive(Clone, Copy, Default)]
struct Check {
    /// The primaries that have not answered, one bit each.
    pending: u16,
    /// Those whose answers the decision waits for.
    awaited: u16,
    best: Option<(u32, TransferCandidate)>,
    /// When the zone expires by the EXPIRE options of the answers with the serial that is served: they count from their arrival.
    expires_at_s: Option<u32>,
    /// One of them had no such option: the zone lives for as long as its SOA record says (RFC 1034 4.3.5).
    is_confirmed_in_full: bool,
    /// Those that have sent NOTIFY since they were asked first, and those of them that were asked again.
    notified: u16,
    asked_again: u16,
}

/// A primary that a zone may be transferred from.
#[derive(Clone, Copy)]
struct TransferCandidate {
    primary: PrimaryId,
    /// Whether a transfer from it has failed since the check began.
    has_failed: bool,
}

/// The scheduler of all secondary zones.
pub struct RefreshScheduler {
    slots: Vec<RefreshSlot>,
    generations: SlotGenerations,
    /// When each zone is checked or expires: whichever comes first, as a zone that expires is checked as well.
    timers: ZoneTimers,
    /// The intervals of served SOA records, as they are there: their limits may change.
    intervals: Interned<SoaTimers>,
    table: PrimaryTable,
    groups: Vec<GroupState>,
    primaries: Vec<PrimaryState>,
    checks: HashMap<u32, Check>,
    quick_checks: QuickChecks,
    restored_checks: RestoredChecks,
    /// Groups with zones that wait and have this need, and a primary that has room, perhaps.
    active: VecDeque<(GroupId, Need)>,
    /// Primaries with waiting transfers and room for one, perhaps, by [`Delivery`].
    ready: [VecDeque<PrimaryId>; Delivery::ALL.len()],
    /// Dead primaries by the time when they are tried again.
    retries: BTreeSet<(u32, PrimaryId)>,
    actions: VecDeque<RefreshAction>,
    /// Zones that are with the writer, by [`Delivery`].
    delivered: [u32; Delivery::ALL.len()],
    commands: KnownCommands,
    /// How often a zone has entered a queue.
    arrivals: u64,
    /// The zones whose next transfer is forced, once they have waited for it.
    forced: HashSet<u32>,
    random: Rng,
    limits: RefreshLimits,
}

impl RefreshScheduler {
    /// A scheduler without zones.
    pub fn new(limits: RefreshLimits, seed: u64) -> RefreshScheduler {
        RefreshScheduler {
            slots: Vec::new(),
            generations: SlotGenerations::default(),
            timers: ZoneTimers::default(),
            intervals: Interned::default(),
            table: PrimaryTable::default(),
            groups: Vec::new(),
            primaries: Vec::new(),
            checks: HashMap::new(),
            quick_checks: QuickChecks::default(),
            restored_checks: RestoredChecks::default(),
            active: VecDeque::new(),
            ready: Default::default(),
            retries: BTreeSet::new(),
            actions: VecDeque::new(),
            delivered: Default::default(),
            commands: KnownCommands::default(),
            arrivals: 0,
            forced: HashSet::new(),
            random: Rng::with_seed(seed),
            limits,
        }
    }

    /// The configuration of a primary that an action names.
    pub fn primary(&self, id: PrimaryId) -> Option<&PeerConfig> {
        self.table.primary(id)
    }

    /// The next action; `None` if there is nothing to do until [`RefreshScheduler::next_time`] or the next event.
    pub fn next_action(&mut self, now_s: u32) -> Option<RefreshAction> {
        if self.actions.is_empty() {
            self.expire_timers(now_s);
            self.dispatch(now_s);
        }
        self.actions.pop_front()
    }

    /// When [`RefreshScheduler::next_action`] must be called even if no event comes; 0 if an event since the last action may have caused one.
    pub fn next_time(&self) -> Option<u32> {
        if !self.actions.is_empty() || self.may_dispatch() {
            return Some(0);
        }
        let retry = self.retries.first().map(|(at_s, _)| *at_s);
        self.timers.next_time().into_iter().chain(retry).min()
    }

    //---------- Zones

    /// Adds a zone, or replaces its configuration. Without a version the zone is transferred; with one whose check is overdue, it
    /// waits for its turn by expiry.
    pub fn add(
        &mut self,
        zone: ZoneId,
        primaries: &[PeerConfig],
        limits: impl Into<SecondaryLimits>,
        version: Option<ZoneVersion>,
        now_s: u32,
    ) {
        let limits = limits.into();
        let group = self.acquire(primaries, limits);
        self.remove_index(zone.index);
        let index = zone.index as usize;
        if self.slots.len() <= index {
            self.slots.resize(index + 1, RefreshSlot::VACANT);
        }
        self.slots[index] = RefreshSlot { group, state: ZoneState::Idle, ..RefreshSlot::VACANT };
        self.generations.begin(zone);
        match version {
            Some(version) => self.restore(zone, version, limits.timers, now_s),
            None => self.enqueue(zone.index, RefreshLane::NotServed),
        }
    }

    /// Continues from the stored times. RFC 1034 4.3.5: the time during which the server was down counts. NOTIFY that came meanwhile is lost, so
    /// the zone is checked soon in any case; after a long time most zones are overdue, and have their turn as well.
    fn restore(&mut self, zone: ZoneId, version: ZoneVersion, limits: TimerLimits, now_s: u32) {
        let timers = limits.apply(version.timers);
        let latest = StoredTimers {
            check_at_s: now_s.saturating_add(timers.refresh_s),
            expires_at_s: now_s.saturating_add(timers.expire_s),
        };
        let stored = version.stored.unwrap_or(StoredTimers { check_at_s: now_s, ..latest });
        let soon_s = self.restored_checks.next_s(now_s);
        self.set_intervals(zone.index, version.timers);
        let slot = &mut self.slots[zone.index as usize];
        (slot.serial, slot.primary_serial) = (version.serial, version.serial);
        slot.flags.set(Flags::HAS_DATA);
        // The clock or the configuration may have changed.
        slot.expires_at_s = stored.expires_at_s.min(latest.expires_at_s);
        if slot.expires_at_s <= now_s {
            return self.expire(zone.index);
        }
        let due_s = stored.check_at_s.min(latest.check_at_s);
        let may_wait = soon_s < slot.expires_at_s.saturating_sub(timers.retry_s);
        let check_at_s = if due_s <= now_s && may_wait { soon_s } else { due_s.min(soon_s) };
        if check_at_s <= now_s {
            self.enqueue(zone.index, RefreshLane::Refresh);
        } else {
            self.set_timer(zone.index, Some(check_at_s));
        }
    }

    /// Gives a zone other primaries or limits, and checks it. With the same ones nothing happens.
    pub fn reconfigure(&mut self, zone: ZoneId, primaries: &[PeerConfig], limits: impl Into<SecondaryLimits>) {
        if self.slot(zone).is_none() {
            return;
        }
        let limits = limits.into();
        let group = self.acquire(primaries, limits);
        let slot = self.slots[zone.index as usize];
        let primary = self.transfer_primary(zone.index).and_then(|primary| self.position(group, primary));
        self.release(slot.group);
        if group == slot.group {
            return; // Another setting changed: what is in progress goes on.
        }
        self.checks.remove(&zone.index);
        let former = slot;
        let slot = &mut self.slots[zone.index as usize];
        (slot.group, slot.primary) = (group, primary.unwrap_or(NO_PRIMARY));
        slot.failed = 0; // The positions are those of the former group.
        if slot.state != ZoneState::Delivered {
            // Results of the former primaries are ignored.
            slot.state = ZoneState::Idle;
            self.leave_queue(former);
            self.enqueue(zone.index, RefreshLane::Urgent);
        } else {
            slot.flags.set(Flags::CHECK_AGAIN);
        }
    }

    /// How large a zone may be.
    pub fn size_limits(&mut self, zone: ZoneId) -> SizeLimits {
        let group = self.slot(zone).map(|slot| slot.group).and_then(|group| self.table.group(group));
        group.map_or_else(SizeLimits::default, |group| group.limits.size)
    }

    /// Removes a zone. Results that are on their way are ignored.
    pub fn remove(&mut self, zone: ZoneId) {
        if self.slot(zone).is_some() {
            self.remove_index(zone.index);
        }
    }

    fn remove_index(&mut self, index: u32) {
        let Some(slot) = self.slots.get_mut(index as usize).filter(|slot| slot.state != ZoneState::Vacant) else {
            return;
        };
        let former = std::mem::replace(slot, RefreshSlot::VACANT);
        self.intervals.release(former.intervals);
        self.timers.clear(index);
        self.checks.remove(&index);
        self.quick_checks.forget(index);
        self.forced.remove(&index);
        if former.state == ZoneState::Delivered {
            self.delivery_ended(former.delivery);
        }
        self.leave_queue(former);
        self.release(former.group);
    }

    /// A zone was as this slot. If it waited, its entry in the queue is stale from now on. A group whose primaries are dead takes
    /// none of its entries: so those that are stale are dropped once they are the majority, which costs little per entry.
    fn leave_queue(&mut self, former: RefreshSlot) {
        if former.state != ZoneState::Waiting {
            return;
        }
        let (id, need) = (former.group, former.waits_with());
        let queue = &mut self.groups[id.0 as usize].queues[need as usize];
        queue.stale += 1;
        if 2 * queue.stale <= queue.entries.len() {
            return;
        }
        let mut seen = HashSet::new();
        let mut entries = std::mem::take(&mut queue.entries).into_sorted_vec();
        // The first entry in the order of the queue is last here. A zone that was removed and added again may have several.
        entries.reverse();
        entries.retain(|Reverse((lane, _, _, index))| {
            let slot = &self.slots[*index as usize];
            slot.is_waiting_in(id, need, *lane) && seen.insert(*index)
        });
        entries.shrink_to_fit();
        let queue = &mut self.groups[id.0 as usize].queues[need as usize];
        (queue.entries, queue.stale) = (entries.into(), 0);
    }

    /// Sets the timer of a zone for its next check, if that is known, and its expiry; clears it if neither is to come.
    fn set_timer(&mut self, index: u32, check_at_s: Option<u32>) {
        let slot = &self.slots[index as usize];
        let expires_at_s = slot.is_served().then_some(slot.expires_at_s);
        match check_at_s.into_iter().chain(expires_at_s).min() {
            Some(at_s) => self.timers.set(index, at_s),
            None => self.timers.clear(index),
        }
    }

    /// When an idle zone is checked next.
    fn check_at_s(&self, index: u32) -> Option<u32> {
        self.timers.get(index).filter(|_| self.slots[index as usize].state == ZoneState::Idle)
    }

    /// The intervals of a zone within its limits.
    fn limited_timers(&self, index: u32) -> SoaTimers {
        let intervals = self.intervals.get(self.slots[index as usize].intervals);
        self.timer_limits(index).apply(intervals.copied().unwrap_or_default())
    }

    fn timer_limits(&self, index: u32) -> TimerLimits {
        let group = self.table.group(self.slots[index as usize].group);
        group.map_or_else(TimerLimits::default, |group| group.limits.timers)
    }

    fn set_intervals(&mut self, index: u32, intervals: SoaTimers) {
        let (new, _) = self.intervals.acquire(intervals);
        let old = std::mem::replace(&mut self.slots[index as usize].intervals, new);
        self.intervals.release(old);
    }

    /// How the writer takes the next version of a zone.
    fn delivery(&self, index: u32) -> Delivery {
        let group = self.table.group(self.slots[index as usize].group);
        let command = group.and_then(|group| group.limits.command);
        command.map_or(Delivery::TO_WRITER, |command| self.commands.delivery(command))
    }

    /// The primary of the current transfer of a zone.
    fn transfer_primary(&self, index: u32) -> Option<PrimaryId> {
        let slot = &self.slots[index as usize];
        self.table.group(slot.group)?.primaries.get(usize::from(slot.primary)).copied()
    }

    /// Which of the primaries of a group this is.
    fn position(&self, group: GroupId, primary: PrimaryId) -> Option<u8> {
        let position = self.table.group(group)?.primaries.iter().position(|member| *member == primary)?;
        Some(position as u8)
    }

    fn acquire(&mut self, primaries: &[PeerConfig], limits: SecondaryLimits) -> GroupId {
        let group = self.table.acquire(primaries, limits);
        limits.command.into_iter().for_each(|command| self.commands.add(command));
        while self.groups.len() <= group.0 as usize {
            self.groups.push(GroupState::default());
        }
        let last =
            self.table.group(group).into_iter().flat_map(|group| &group.primaries).map(|primary| primary.0).max();
        while last.is_some_and(|last| self.primaries.len() <= last as usize) {
            self.primaries.push(PrimaryState::new());
        }
        group
    }

    /// A peer that no zone is transferred from but messages are sent to, until [`RefreshScheduler::release_peer`].
    pub fn acquire_peer(&mut self, config: &PeerConfig) -> Option<(GroupId, PrimaryId)> {
        let group = self.acquire(std::slice::from_ref(config), SecondaryLimits::default());
        let primary = *self.table.group(group)?.primaries.first()?;
        Some((group, primary))
    }

    /// Ends the use of a peer.
    pub fn release_peer(&mut self, group: GroupId) {
        self.release(group);
    }

    fn release(&mut self, id: GroupId) {
        let Some(group) = self.table.group(id).cloned() else { return };
        let unused = self.table.release(id);
        if self.table.group(id).is_none() {
            let former = std::mem::take(&mut self.groups[id.0 as usize]);
            for need in Need::ALL.into_iter().filter(|need| former.queues[*need as usize].is_active) {
                self.groups[id.0 as usize].queues[need as usize].is_active = true;
                // The room that it was woken for is for another group.
                let used = group.primaries.iter().filter(|primary| !unused.contains(primary));
                used.for_each(|primary| self.wake_next(*primary, need));
            }
        }
        for primary in unused {
            let state = std::mem::replace(&mut self.primaries[primary.0 as usize], PrimaryState::new());
            for delivery in Delivery::ALL {
                let is_ready = state.transfers[delivery.index()].is_ready;
                self.primaries[primary.0 as usize].transfers[delivery.index()].is_ready = is_ready;
            }
            self.retries.remove(&(state.retry_at_s, primary));
            self.actions.push_back(RefreshAction::PrimaryUnused(primary));
        }
    }

    fn slot(&mut self, zone: ZoneId) -> Option<&mut RefreshSlot> {
        let is_current = self.generations.is_current(zone);
        self.slots.get_mut(zone.index as usize).filter(|slot| is_current && slot.state != ZoneState::Vacant)
    }

    /// Whether the zone was added and not removed.
    pub fn contains(&self, zone: ZoneId) -> bool {
        let slot = self.slots.get(zone.index as usize);
        slot.is_some_and(|slot| slot.state != ZoneState::Vacant && self.generations.is_current(zone))
    }

    fn id_of(&self, index: u32) -> ZoneId {
        self.generations.current(index)
    }

    //---------- The queue

    fn enqueue(&mut self, index: u32, lane: RefreshLane) {
        let former = self.slots[index as usize];
        let (group, need) = (former.group, former.need());
        if former.flags.has(Flags::FORCED) {
            self.forced.insert(index);
        }
        if former.state == ZoneState::Waiting && former.lane <= lane && former.waits_with() == need {
            return self.activate(group, need);
        }
        self.slots[index as usize].wait(lane);
        self.leave_queue(former);
        self.set_timer(index, None);
        let entry = self.next_entry(index, lane);
        self.groups[group.0 as usize].queues[need as usize].entries.push(entry);
        self.activate(group, need);
    }

    /// The entry of a zone in the queue for its check or its transfer. The order among urgent and unserved zones is that of arrival; served
    /// zones go by expiry, the earliest first.
    fn next_entry(&mut self, index: u32, lane: RefreshLane) -> QueueEntry {
        let expires_at_s = self.slots[index as usize].expires_at_s;
        let order = if lane == RefreshLane::Refresh { expires_at_s.into() } else { self.arrivals };
        self.arrivals += 1;
        queue_entry(lane, order, index)
    }
}
