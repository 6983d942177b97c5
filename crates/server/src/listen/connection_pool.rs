//! The TCP connections of one thread: a slab of slots in two linked lists, idle and active, each ordered by last progress.
//!
//! An idle connection takes one slot of 40 octets. The connection to be closed first is the head of a list. The memory of all
//! connections and the number per client are counted here and nowhere else.

use super::client_counts::ClientCounts;
use super::connection_limit::ConnectionLimit;
use super::limits::COUNTED_TRANSFERS;
use super::tcp_connection::TcpConnection;
use std::io;
use std::iter;
use std::net::{IpAddr, TcpStream};

const NONE: u32 = u32::MAX;

/// A connection, or a vacant slot, whose `next` is the next vacant one.
struct Slot {
    connection: Option<TcpConnection>,
    previous: u32,
    next: u32,
}

const _: () = assert!(size_of::<Slot>() <= 40);

/// The ends of a list of slots, least recent progress first.
#[derive(Clone, Copy)]
struct List {
    first: u32,
    last: u32,
}

const EMPTY: List = List { first: NONE, last: NONE };

/// The connections of a thread.
pub(super) struct ConnectionPool {
    slots: Vec<Slot>,
    vacant: u32,
    /// Indexed by [`TcpConnection::is_active`].
    lists: [List; 2],
    len: usize,
    limit: ConnectionLimit,
    memory: usize,
    clients: ClientCounts,
    transfers: ClientCounts,
}

/// What is counted over the pools of all threads. Clones share the counts.
#[derive(Clone)]
pub(super) struct SharedCounts {
    limit: ConnectionLimit,
    clients: ClientCounts,
}

impl SharedCounts {
    /// For at most this many connections of this many threads.
    pub(super) fn new(connections: usize, threads: usize) -> SharedCounts {
        let (limit, clients) = (ConnectionLimit::new(connections, threads), ClientCounts::new(connections));
        SharedCounts { limit, clients }
    }
}

impl ConnectionPool {
    pub(super) fn new(SharedCounts { limit, clients }: SharedCounts) -> ConnectionPool {
        ConnectionPool {
            slots: Vec::with_capacity(limit.max()),
            vacant: NONE,
            lists: [EMPTY; 2],
            len: 0,
            limit,
            memory: 0,
            clients,
            transfers: ClientCounts::new(COUNTED_TRANSFERS),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Whether one more connection has no place before another is closed.
    pub(super) fn is_full(&self) -> bool {
        self.limit.is_reached(self.len)
    }

    /// Whether connections must be closed because other threads need their places.
    pub(super) fn has_excess(&self) -> bool {
        self.limit.is_exceeded(self.len)
    }

    /// How full it is, as a number of connections and the number for which there are places.
    pub(super) fn occupancy(&self) -> (usize, usize) {
        self.limit.occupancy(self.len)
    }

    /// The memory of all connections besides their slots, in octets.
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

    /// Adds an idle connection and returns its index; `None` if the pool is full.
    pub(super) fn insert(&mut self, stream: TcpStream, peer: IpAddr, now_ms: u32) -> Option<u32> {
        self.adopt(TcpConnection::new(stream, peer, now_ms), now_ms)
    }

    /// Adds a connection that another pool had, without a transfer; `None` if the pool is full, which closes it.
    pub(super) fn adopt(&mut self, mut connection: TcpConnection, now_ms: u32) -> Option<u32> {
        if self.len == self.limit.max() {
            return None;
        }
        // The clock of its former thread may be ahead of this one's, which would look like an age of 49 days.
        connection.last_progress_ms = now_ms;
        let (peer, is_active) = (connection.peer(), connection.is_active());
        self.memory += connection.memory();
        let slot = Slot { connection: Some(connection), previous: NONE, next: NONE };
        let index = if self.vacant == NONE {
            self.slots.push(slot);
            self.slots.len() as u32 - 1
        } else {
            let index = self.vacant;
            self.vacant = self.slots[index as usize].next;
            self.slots[index as usize] = slot;
            index
        };
        self.len += 1;
        self.limit.add();
        self.clients.add(peer);
        self.link(index, is_active);
        Some(index)
    }

    /// Removes a connection; `None` if it is gone.
    pub(super) fn remove(&mut self, index: u32) -> Option<TcpConnection> {
        let connection = self.slots[index as usize].connection.take()?;
        self.unlink(index, connection.is_active());
        self.slots[index as usize].next = std::mem::replace(&mut self.vacant, index);
        self.len -= 1;
        self.limit.remove();
        self.memory -= connection.memory();
        self.clients.remove(connection.peer());
        if connection.transfer().is_some() {
            self.transfers.remove(connection.peer());
        }
        Some(connection)
    }

    /// Removes a connection for another pool with the same shared counts, in which it stays until [`ConnectionPool::receive`]: else a client
    /// could have more while the other thread is busy.
    pub(super) fn hand_over(&mut self, index: u32) -> Option<TcpConnection> {
        let connection = self.remove(index)?;
        self.limit.add();
        self.clients.add(connection.peer());
        Some(connection)
    }

    /// Takes a connection that was handed over out of the shared counts, before this pool makes room for it.
    pub(super) fn receive(&mut self, connection: &TcpConnection) {
        self.limit.remove();
        self.clients.remove(connection.peer());
    }

    /// Counts a connection for the client that its proxy has named.
    pub(super) fn set_peer(&mut self, index: u32, peer: IpAddr) {
        let Some(connection) = &mut self.slots[index as usize].connection else { return };
        self.clients.remove(connection.peer());
        connection.set_peer(peer);
        self.clients.add(peer);
    }

    /// The connection; `None` if it is gone.
    pub(super) fn get(&self, index: u32) -> Option<&TcpConnection> {
        self.slots[index as usize].connection.as_ref()
    }

    /// All connections with their indices.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &TcpConnection)> {
        (0..).zip(&self.slots).filter_map(|(index, slot)| Some((index, slot.connection.as_ref()?)))
    }

    /// Applies `change` to a connection, if it is not gone, and updates all counts. `change` returns whether there was progress,
    /// which moves the connection to the end of its list, as does becoming active or idle.
    pub(super) fn update(
        &mut self,
        index: u32,
        now_ms: u32,
        change: impl FnOnce(&mut TcpConnection) -> io::Result<bool>,
    ) -> io::Result<()> {
        let Some(connection) = &mut self.slots[index as usize].connection else { return Ok(()) };
        let (was_active, had_transfer) = (connection.is_active(), connection.transfer().is_some());
        let memory = connection.memory();
        let result = change(connection);
        self.memory = self.memory - memory + connection.memory();
        match (had_transfer, connection.transfer().is_some()) {
            (false, true) => self.transfers.add(connection.peer()),
            (true, false) => self.transfers.remove(connection.peer()),
            _ => {}
        }
        let is_active = connection.is_active();
        if is_active != was_active || matches!(result, Ok(true)) {
            connection.last_progress_ms = now_ms;
            self.unlink(index, was_active);
            self.link(index, is_active);
        }
        result.map(drop)
    }

    /// The idle connection with the least recent progress.
    pub(super) fn oldest_idle(&self) -> Option<u32> {
        Some(self.lists[0].first).filter(|index| *index != NONE)
    }

    /// The active connection with the least recent progress.
    pub(super) fn oldest_active(&self) -> Option<u32> {
        Some(self.lists[1].first).filter(|index| *index != NONE)
    }

    /// The active connections, least recent progress first.
    pub(super) fn active(&self) -> impl Iterator<Item = u32> {
        let next = |index: &u32| Some(self.slots[*index as usize].next).filter(|index| *index != NONE);
        iter::successors(self.oldest_active(), next)
    }

    /// A connection that made no progress for `timeout_ms`.
    pub(super) fn expired(&self, now_ms: u32, timeout_ms: u32) -> Option<u32> {
        self.oldest().find(|index| self.age_ms(*index, now_ms) >= timeout_ms)
    }

    /// How long until a connection expires.
    pub(super) fn until_expiry_ms(&self, now_ms: u32, timeout_ms: u32) -> Option<u32> {
        self.oldest().map(|index| timeout_ms.saturating_sub(self.age_ms(index, now_ms))).min()
    }

    /// The time since a connection made progress.
    pub(super) fn age_ms(&self, index: u32, now_ms: u32) -> u32 {
        self.get(index).map_or(0, |connection| now_ms.wrapping_sub(connection.last_progress_ms))
    }

    fn oldest(&self) -> impl Iterator<Item = u32> {
        self.oldest_idle().into_iter().chain(self.oldest_active())
    }

    fn link(&mut self, index: u32, active: bool) {
        let last = std::mem::replace(&mut self.lists[usize::from(active)].last, index);
        match last {
            NONE => self.lists[usize::from(active)].first = index,
            _ => self.slots[last as usize].next = index,
        }
        let slot = &mut self.slots[index as usize];
        (slot.previous, slot.next) = (last, NONE);
    }

    fn unlink(&mut self, index: u32, active: bool) {
        let Slot { previous, next, .. } = self.slots[index as usize];
        match previous {
            NONE => self.lists[usize::from(active)].first = next,
            _ => self.slots[previous as usize].next = next,
        }
        match next {
            NONE => self.lists[usize::from(active)].last = previous,
            _ => self.slots[next as usize].previous = previous,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listen::tcp_connection::testing::set_input;
    use std::net::TcpListener;

    /// A pool with `count` connections accepted at 0, 1, 2... ms, and the listener that keeps them open.
    fn pool(count: u32) -> (ConnectionPool, TcpListener) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let mut pool = ConnectionPool::new(SharedCounts::new(4, 1));
        for number in 0..count {
            let stream = TcpStream::connect(listener.local_addr().expect("bound")).expect("loopback");
            let peer = IpAddr::V4([192, 0, 2, number as u8].into());
            assert_eq!(pool.insert(stream, peer, number), Some(number));
        }
        (pool, listener)
    }

    /// A turn of a connection that leaves it with `input` octets of input.
    fn turn(pool: &mut ConnectionPool, index: u32, now_ms: u32, input: usize) {
        pool.update(index, now_ms, |connection| Ok(set_input(connection, input))).expect("no error");
    }

    fn oldest(pool: &ConnectionPool) -> (Option<u32>, Option<u32>) {
        (pool.oldest_idle(), pool.oldest_active())
    }

    #[test]
    fn lists_are_ordered_by_last_progress() {
        let (mut pool, _listener) = pool(3);
        assert_eq!(oldest(&pool), (Some(0), None));
        turn(&mut pool, 0, 10, 0);
        assert_eq!(oldest(&pool), (Some(1), None));
        turn(&mut pool, 1, 11, 7);
        assert_eq!((oldest(&pool), pool.memory()), ((Some(2), Some(1)), 7));
        turn(&mut pool, 2, 12, 8);
        assert_eq!((oldest(&pool), pool.memory()), ((Some(0), Some(1)), 15));
        turn(&mut pool, 1, 14, 9);
        assert_eq!((pool.active().collect::<Vec<_>>(), pool.memory()), (vec![2, 1], 17));
        pool.update(2, 15, |_| Ok(false)).expect("no error");
        assert_eq!((pool.oldest_active(), pool.age_ms(2, 20)), (Some(2), 8));
        pool.remove(2);
        assert_eq!((oldest(&pool), pool.memory()), ((Some(0), Some(1)), 9));
        turn(&mut pool, 1, 16, 0);
        assert_eq!((oldest(&pool), pool.memory()), ((Some(0), None), 0));
    }

    #[test]
    fn expiry_follows_progress_and_the_clock_may_wrap() {
        let (mut pool, _listener) = pool(2);
        assert_eq!((pool.expired(99, 100), pool.until_expiry_ms(99, 100)), (None, Some(1)));
        assert_eq!(pool.expired(100, 100), Some(0));
        turn(&mut pool, 0, u32::MAX - 10, 1);
        turn(&mut pool, 1, 50, 0);
        assert_eq!((pool.expired(88, 100), pool.expired(89, 100)), (None, Some(0)));
        assert_eq!(pool.until_expiry_ms(89, 100), Some(0));
    }

    #[test]
    fn a_connection_of_another_pool_is_new_whatever_the_clock_of_its_thread() {
        let (mut first, _listener) = pool(1);
        turn(&mut first, 0, 1001, 0);
        let mut second = ConnectionPool::new(SharedCounts::new(4, 1));
        assert_eq!(second.adopt(first.remove(0).expect("it was accepted"), 1000), Some(0));
        assert_eq!((second.age_ms(0, 1000), second.expired(1099, 100)), (0, None));
        assert_eq!(second.expired(1100, 100), Some(0));
    }

    #[test]
    fn a_connection_between_two_pools_counts_for_its_client() {
        let (mut first, _listener) = pool(1);
        let peer = first.get(0).expect("it was accepted").peer();
        let mut second =
            ConnectionPool::new(SharedCounts { limit: first.limit.clone(), clients: first.clients.clone() });
        let connection = first.hand_over(0).expect("it was accepted");
        // The count of a client may be too high.
        let counted = |pool: &ConnectionPool| (pool.connections_of(peer) > 0, pool.limit.occupancy(4).0);
        assert_eq!(counted(&first), (true, 1));
        second.receive(&connection);
        assert_eq!(counted(&first), (false, 0));
        assert_eq!((second.adopt(connection, 0), counted(&first)), (Some(0), (true, 1)));
    }

    #[test]
    fn slots_are_reused_and_limited() {
        let (mut pool, listener) = pool(4);
        let stream = || TcpStream::connect(listener.local_addr().expect("bound")).expect("loopback");
        let peer: IpAddr = "2001:db8::1".parse().expect("a literal");
        assert!(pool.is_full() && pool.insert(stream(), peer, 0).is_none());
        let second: IpAddr = [192, 0, 2, 2].into();
        assert!(pool.connections_of(second) >= 1);
        assert_eq!(pool.remove(2).map(|connection| connection.peer()), Some(second));
        assert!(pool.remove(2).is_none() && pool.get(2).is_none());
        assert_eq!((pool.len(), pool.insert(stream(), peer, 0)), (3, Some(2)));
        assert_eq!((pool.get(2).map(TcpConnection::peer), pool.iter().count()), (Some(peer), 4));
        (0..4).for_each(|index| drop(pool.remove(index)));
        assert_eq!((pool.len(), pool.oldest_idle(), pool.until_expiry_ms(0, 1)), (0, None, None));
        assert_eq!([second, peer].map(|peer| pool.connections_of(peer)), [0, 0]);
    }
}
