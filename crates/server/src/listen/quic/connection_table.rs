//! The connections of a thread, with everything that is counted over all of them: clients, transfers, memory, handshakes; the
//! next timer, and the order of the last progress.

use super::super::client_counts::ClientCounts;
use super::connection::QuicConnection;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Size of the per-client count of transfers.
const TRANSFERS: usize = 1024;
/// Progress within this time of the last one does not change the order, or within this part of the idle timeout.
const PROGRESS_STEP: Duration = Duration::from_millis(100);
const PROGRESS_PART: u32 = 8;
/// How long a handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

struct Slot {
    connection: QuicConnection,
    /// The timer in [`ConnectionTable::timers`]. It may be too early, never too late.
    timer: Option<Instant>,
    /// When it last made progress, as in [`ConnectionTable::order`].
    progress: Instant,
    memory: usize,
    transfers: usize,
    is_handshaking: bool,
}

/// The connections by index, which is their handle in `quinn-proto`.
pub(super) struct ConnectionTable {
    slots: Vec<Option<Box<Slot>>>,
    len: usize,
    handshaking: usize,
    memory: usize,
    clients: ClientCounts,
    transfers: ClientCounts,
    timers: BTreeSet<(Instant, u32)>,
    order: BTreeSet<(Instant, u32)>,
    /// Before any connection: the progress of those that are closed.
    begin: Instant,
    idle_timeout: Duration,
}

impl ConnectionTable {
    pub(super) fn new(capacity: usize, idle_timeout: Duration, now: Instant) -> ConnectionTable {
        ConnectionTable {
            slots: Vec::new(),
            len: 0,
            handshaking: 0,
            memory: 0,
            clients: ClientCounts::new(capacity),
            transfers: ClientCounts::new(TRANSFERS),
            timers: BTreeSet::new(),
            order: BTreeSet::new(),
            begin: now,
            idle_timeout,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The number of connections in their handshake.
    pub(super) fn handshaking(&self) -> usize {
        self.handshaking
    }

    /// The memory of all connections besides what each has, in octets.
    pub(super) fn memory(&self) -> usize {
        self.memory
    }

    /// How many connections the client of `peer` has; rarely a higher number.
    pub(super) fn connections_of(&self, peer: IpAddr) -> usize {
        self.clients.count(peer)
    }

    /// How many transfers the client of `peer` has in progress; rarely a higher number.
    pub(super) fn transfers_of(&self, peer: IpAddr) -> usize {
        self.transfers.count(peer)
    }

    /// Adds a connection at its index, which is vacant.
    pub(super) fn insert(&mut self, index: u32, connection: QuicConnection, now: Instant) {
        let at = index as usize;
        if self.slots.len() <= at {
            self.slots.resize_with(at + 1, || None);
        }
        self.clients.add(connection.peer.ip());
        self.order.insert((now, index));
        self.len += 1;
        self.handshaking += 1;
        let slot = Slot { connection, timer: None, progress: now, memory: 0, transfers: 0, is_handshaking: true };
        self.slots[at] = Some(Box::new(slot));
    }

    /// Removes a connection.
    pub(super) fn remove(&mut self, index: u32) -> Option<QuicConnection> {
        let slot = *self.slots.get_mut(index as usize)?.take()?;
        let peer = slot.connection.peer.ip();
        self.len -= 1;
        self.handshaking -= usize::from(slot.is_handshaking);
        self.memory -= slot.memory;
        self.clients.remove(peer);
        (0..slot.transfers).for_each(|_| self.transfers.remove(peer));
        self.order.remove(&(slot.progress, index));
        slot.timer.map(|timer| self.timers.remove(&(timer, index)));
        Some(slot.connection)
    }

    pub(super) fn get(&self, index: u32) -> Option<&QuicConnection> {
        Some(&self.slots.get(index as usize)?.as_ref()?.connection)
    }

    /// All connections with their indices.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &QuicConnection)> {
        (0..).zip(&self.slots).filter_map(|(index, slot)| Some((index, &slot.as_ref()?.connection)))
    }

    /// Applies `change` to a connection, if it is there, and updates all counts. `change` returns a value, and whether there was
    /// progress.
    pub(super) fn update<T>(
        &mut self,
        index: u32,
        now: Instant,
        change: impl FnOnce(&mut QuicConnection) -> (T, bool),
    ) -> Option<T> {
        let slot = self.slots.get_mut(index as usize)?.as_mut()?;
        let (value, has_progress) = change(&mut slot.connection);
        let (connection, peer) = (&slot.connection, slot.connection.peer.ip());
        let (memory, transfers) = (connection.memory(), connection.transfers());
        self.memory = self.memory - std::mem::replace(&mut slot.memory, memory) + memory;
        for _ in slot.transfers..transfers {
            self.transfers.add(peer);
        }
        for _ in transfers..slot.transfers {
            self.transfers.remove(peer);
        }
        slot.transfers = transfers;
        let is_handshaking = connection.inner.is_handshaking();
        self.handshaking -= usize::from(slot.is_handshaking && !is_handshaking);
        slot.is_handshaking = is_handshaking;
        let step = PROGRESS_STEP.min(self.idle_timeout / PROGRESS_PART);
        let progress = match connection.inner.is_closed() {
            // Those that are closed wait for packets of the client, which is no reason to close another one.
            true => self.begin,
            false if has_progress && now > slot.progress + step => now,
            false => slot.progress,
        };
        if progress != slot.progress {
            self.order.remove(&(slot.progress, index));
            self.order.insert((progress, index));
            slot.progress = progress;
        }
        self.set_timer(index);
        Some(value)
    }

    /// Sets the timer of a connection if it is earlier than the one that is set.
    fn set_timer(&mut self, index: u32) {
        let Some(slot) = self.slots[index as usize].as_mut() else { return };
        let of_connection = slot.connection.inner.poll_timeout();
        let expiry = (!slot.connection.inner.is_closed()).then(|| slot.expiry(self.idle_timeout));
        let Some(wanted) = of_connection.into_iter().chain(expiry).min() else { return };
        if slot.timer.is_none_or(|set| wanted < set) {
            if let Some(set) = slot.timer.replace(wanted) {
                self.timers.remove(&(set, index));
            }
            self.timers.insert((wanted, index));
        }
    }

    /// When the next timer fires.
    pub(super) fn next_timer(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// A connection whose timer has fired, and whether it made no progress for too long.
    pub(super) fn fired(&mut self, now: Instant) -> Option<(u32, bool)> {
        let (at, index) = *self.timers.first()?;
        if at > now {
            return None;
        }
        self.timers.pop_first();
        let slot = self.slots[index as usize].as_mut()?;
        slot.timer = None;
        Some((index, !slot.connection.inner.is_closed() && slot.expiry(self.idle_timeout) <= now))
    }

    /// The connection with the least recent progress; closed ones first.
    pub(super) fn oldest(&self) -> Option<u32> {
        self.order.first().map(|(_, index)| *index)
    }

    /// Of the oldest connections, the one with the most memory.
    pub(super) fn largest_of_oldest(&self, candidates: usize) -> Option<u32> {
        let memory = |index: u32| self.slots[index as usize].as_ref().map_or(0, |slot| slot.memory);
        let order = self.order.iter().map(|(_, index)| *index).filter(|index| memory(*index) > 0);
        order.take(candidates).max_by_key(|index| memory(*index))
    }
}

impl Slot {
    /// When it will have made no progress for too long.
    fn expiry(&self, idle_timeout: Duration) -> Instant {
        self.progress + if self.is_handshaking { HANDSHAKE_TIMEOUT.min(idle_timeout) } else { idle_timeout }
    }
}
