//! The connections of a thread, with everything that is counted over all of them: clients, transfers, memory, handshakes; the
//! next timer, the order of the last progress, and the idle timeout.

use super::super::client_counts::ClientCounts;
use super::super::idle_timeout::shortened_ms;
use super::super::limits::{COUNTED_TRANSFERS, EVICTION_CANDIDATES, HANDSHAKE_TIMEOUT};
use super::connection::QuicConnection;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::Bound;
use std::time::{Duration, Instant};

/// Progress within this time of the last one does not change the order, or within this part of the idle timeout, which is less than the
/// shortest one.
const PROGRESS_STEP: Duration = Duration::from_millis(100);
const PROGRESS_PART: u32 = 16;

struct Slot {
    connection: QuicConnection,
    /// The timer in [`ConnectionTable::timers`]. It may be too early, never too late.
    timer: Option<Instant>,
    /// When it last made progress, as in [`ConnectionTable::orders`].
    progress: Instant,
    memory: usize,
    transfers: usize,
    is_handshaking: bool,
    is_closed: bool,
}

/// The connections by index, which is their handle in `quinn-proto`.
pub(super) struct ConnectionTable {
    slots: Vec<Option<Box<Slot>>>,
    capacity: usize,
    len: usize,
    handshaking: usize,
    /// Those that are closed, and wait for packets of their clients.
    closed: usize,
    memory: usize,
    clients: ClientCounts,
    transfers: ClientCounts,
    timers: BTreeSet<(Instant, u32)>,
    /// By their last progress; indexed by whether they have memory besides what each has.
    orders: [BTreeSet<(Instant, u32)>; 2],
    /// Before any connection: the progress of those that are closed.
    begin: Instant,
    idle_timeout: Duration,
}

impl ConnectionTable {
    /// A table for `capacity` connections; `clients` are those of all threads.
    pub(super) fn new(capacity: usize, clients: ClientCounts, idle_timeout: Duration, now: Instant) -> ConnectionTable {
        ConnectionTable {
            slots: Vec::new(),
            capacity,
            len: 0,
            handshaking: 0,
            closed: 0,
            memory: 0,
            clients,
            transfers: ClientCounts::new(COUNTED_TRANSFERS),
            timers: BTreeSet::new(),
            orders: Default::default(),
            begin: now.checked_sub(Duration::from_millis(1)).unwrap_or(now),
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

    /// How many connections the client of `peer` has, over all threads; rarely a higher number.
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
        self.orders[0].insert((now, index));
        self.len += 1;
        self.handshaking += 1;
        self.slots[at] = Some(Box::new(Slot {
            connection,
            timer: None,
            progress: now,
            memory: 0,
            transfers: 0,
            is_handshaking: true,
            is_closed: false,
        }));
    }

    /// Removes a connection.
    pub(super) fn remove(&mut self, index: u32) -> Option<QuicConnection> {
        let slot = *self.slots.get_mut(index as usize)?.take()?;
        let peer = slot.connection.peer.ip();
        self.len -= 1;
        self.handshaking -= usize::from(slot.is_handshaking);
        self.closed -= usize::from(slot.is_closed);
        self.memory -= slot.memory;
        self.clients.remove(peer);
        (0..slot.transfers).for_each(|_| self.transfers.remove(peer));
        self.orders[slot.order()].remove(&(slot.progress, index));
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
        let before = (slot.progress, slot.order());
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
        let is_closed = connection.inner.is_closed();
        self.closed += usize::from(is_closed && !slot.is_closed);
        slot.is_closed = is_closed;
        let step = PROGRESS_STEP.min(self.idle_timeout / PROGRESS_PART);
        slot.progress = match is_closed {
            // Those that are closed wait for packets of the client, which is no reason to close another one.
            true => self.begin,
            false if has_progress && !is_handshaking && now > slot.progress + step => now,
            false => slot.progress,
        };
        let after = (slot.progress, slot.order());
        if before != after {
            self.orders[before.1].remove(&(before.0, index));
            self.orders[after.1].insert((after.0, index));
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
        let first = self.timers.first().map(|(at, _)| *at);
        first.into_iter().chain(self.next_expiry().map(|(at, _)| at)).min()
    }

    /// A connection whose timer has fired, and whether it made no progress for too long.
    pub(super) fn fired(&mut self, now: Instant) -> Option<(u32, bool)> {
        let Some((_, index)) = self.timers.first().copied().filter(|(at, _)| *at <= now) else {
            // The timers are for the configured idle timeout.
            return self.next_expiry().filter(|(at, _)| *at <= now).map(|(_, index)| (index, true));
        };
        self.timers.pop_first();
        let slot = self.slots[index as usize].as_mut()?;
        slot.timer = None;
        Some((index, !slot.is_closed && slot.expiry(self.idle_timeout) <= now))
    }

    /// When an open connection will have made no progress for as long as the idle timeout is now, and which is the first.
    fn next_expiry(&self) -> Option<(Instant, u32)> {
        let open: (Bound<(Instant, u32)>, Bound<_>) = (Bound::Excluded((self.begin, u32::MAX)), Bound::Unbounded);
        let (progress, index) = *self.orders.iter().filter_map(|order| order.range(open).next()).min()?;
        Some((progress + self.current_idle_timeout(), index))
    }

    /// The idle timeout: as configured, or less if more than half of the table is in use.
    fn current_idle_timeout(&self) -> Duration {
        let configured_ms = u32::try_from(self.idle_timeout.as_millis()).unwrap_or(u32::MAX);
        Duration::from_millis(shortened_ms(configured_ms, self.len - self.closed, self.capacity).into())
    }

    /// Connections with their last progress: of those without memory besides what each has, and of those with, the first
    /// [`EVICTION_CANDIDATES`] by that time. Closed ones come first.
    pub(super) fn oldest(&self) -> impl Iterator<Item = (Instant, u32)> {
        self.orders.iter().flat_map(|order| order.iter().take(EVICTION_CANDIDATES)).copied()
    }

    /// The second half of [`ConnectionTable::oldest`], with their memory.
    pub(super) fn oldest_with_memory(&self) -> impl Iterator<Item = (usize, u32)> {
        let memory = |index: u32| self.slots[index as usize].as_ref().map_or(0, |slot| slot.memory);
        self.orders[1].iter().take(EVICTION_CANDIDATES).map(move |(_, index)| (memory(*index), *index))
    }
}

impl Slot {
    /// The index of its order.
    fn order(&self) -> usize {
        usize::from(self.memory > 0)
    }

    /// When it will have made no progress for too long.
    fn expiry(&self, idle_timeout: Duration) -> Instant {
        self.progress + if self.is_handshaking { HANDSHAKE_TIMEOUT.min(idle_timeout) } else { idle_timeout }
    }
}
