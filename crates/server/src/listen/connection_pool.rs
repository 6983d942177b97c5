//! The connections of one thread: a slab of small slots in two lists, each in the order of last progress.
//!
//! An idle connection is a slot of 40 octets and nothing else. ActiveState ones stand in the other list, so that the oldest of each
//! kind is found at once. What connections hold, and how many each client has, is counted here and nowhere else.

use super::client_counts::ClientCounts;
use super::tcp_connection::TcpConnection;
use std::io;
use std::iter;
use std::net::{IpAddr, TcpStream};

const NONE: u32 = u32::MAX;

/// For how many transfers at a time there is room to tell their clients apart.
const TRANSFERS: usize = 1024;

/// One connection, or a vacant slot, which `next` chains to further ones.
struct Slot {
    connection: Option<TcpConnection>,
    previous: u32,
    next: u32,
}

/// The ends of a list of slots, the oldest first.
#[derive(Clone, Copy)]
struct List {
    first: u32,
    last: u32,
}

const EMPTY: List = List { first: NONE, last: NONE };

/// The connections.
pub(super) struct ConnectionPool {
    slots: Vec<Slot>,
    vacant: u32,
    /// Idle and active ones: the index is [`TcpConnection::is_active`].
    lists: [List; 2],
    len: usize,
    capacity: usize,
    held: usize,
    clients: ClientCounts,
    transfers: ClientCounts,
}

impl ConnectionPool {
    /// Room for `capacity` connections; memory is taken as they come.
    pub(super) fn new(capacity: usize) -> ConnectionPool {
        let capacity = capacity.min(NONE as usize);
        ConnectionPool {
            slots: Vec::with_capacity(capacity),
            vacant: NONE,
            lists: [EMPTY; 2],
            len: 0,
            capacity,
            held: 0,
            clients: ClientCounts::new(capacity),
            transfers: ClientCounts::new(TRANSFERS),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_full(&self) -> bool {
        self.len == self.capacity
    }

    /// The memory that all connections hold, their slots aside, in octets.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// How many connections the client of `peer` has, or a few more.
    pub(super) fn connections_of(&self, peer: IpAddr) -> usize {
        self.clients.count(peer)
    }

    /// How many transfers the client of `peer` has under way, or a few more.
    pub(super) fn transfers_of(&self, peer: IpAddr) -> usize {
        self.transfers.count(peer)
    }

    /// Takes in a connection, idle; `None` when the pool is full.
    pub(super) fn insert(&mut self, stream: TcpStream, peer: IpAddr, now_ms: u32) -> Option<u32> {
        if self.is_full() {
            return None;
        }
        let connection = Some(TcpConnection::new(stream, peer, now_ms));
        let slot = Slot { connection, previous: NONE, next: NONE };
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
        self.clients.add(peer);
        self.link(index, false);
        Some(index)
    }

    /// Takes out a connection; `None` when it is gone already.
    pub(super) fn remove(&mut self, index: u32) -> Option<TcpConnection> {
        let connection = self.slots[index as usize].connection.take()?;
        self.unlink(index, connection.is_active());
        self.slots[index as usize].next = std::mem::replace(&mut self.vacant, index);
        self.len -= 1;
        self.held -= connection.held();
        self.clients.remove(connection.peer());
        if connection.transfer().is_some() {
            self.transfers.remove(connection.peer());
        }
        Some(connection)
    }

    /// The connection; `None` when it is gone.
    pub(super) fn get(&self, index: u32) -> Option<&TcpConnection> {
        self.slots[index as usize].connection.as_ref()
    }

    /// All connections with their indices.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &TcpConnection)> {
        (0..).zip(&self.slots).filter_map(|(index, slot)| Some((index, slot.connection.as_ref()?)))
    }

    /// Lets `change` change a connection, and counts what it holds then. `change` returns whether there was progress, which makes
    /// the connection the youngest of its list, as does becoming active or idle. Does nothing when the connection is gone.
    pub(super) fn update(
        &mut self,
        index: u32,
        now_ms: u32,
        change: impl FnOnce(&mut TcpConnection) -> io::Result<bool>,
    ) -> io::Result<()> {
        let Some(connection) = &mut self.slots[index as usize].connection else { return Ok(()) };
        let (was_active, had_transfer) = (connection.is_active(), connection.transfer().is_some());
        let held = connection.held();
        let result = change(connection);
        self.held = self.held - held + connection.held();
        match (had_transfer, connection.transfer().is_some()) {
            (false, true) => self.transfers.add(connection.peer()),
            (true, false) => self.transfers.remove(connection.peer()),
            _ => {}
        }
        let is_active = connection.is_active();
        if is_active != was_active || matches!(result, Ok(true)) {
            connection.since_ms = now_ms;
            self.unlink(index, was_active);
            self.link(index, is_active);
        }
        result.map(drop)
    }

    /// The idle connection that made no progress for the longest.
    pub(super) fn oldest_idle(&self) -> Option<u32> {
        Some(self.lists[0].first).filter(|index| *index != NONE)
    }

    /// The active connection that made no progress for the longest.
    pub(super) fn oldest_active(&self) -> Option<u32> {
        Some(self.lists[1].first).filter(|index| *index != NONE)
    }

    /// The active connections, the one without progress for the longest first.
    pub(super) fn active(&self) -> impl Iterator<Item = u32> {
        let next = |index: &u32| Some(self.slots[*index as usize].next).filter(|index| *index != NONE);
        iter::successors(self.oldest_active(), next)
    }

    /// The oldest connection of either kind that made no progress for `timeout_ms`.
    pub(super) fn expired(&self, now_ms: u32, timeout_ms: u32) -> Option<u32> {
        self.oldest().find(|index| self.age_ms(*index, now_ms) >= timeout_ms)
    }

    /// How long until one expires.
    pub(super) fn until_expiry_ms(&self, now_ms: u32, timeout_ms: u32) -> Option<u32> {
        self.oldest().map(|index| timeout_ms.saturating_sub(self.age_ms(index, now_ms))).min()
    }

    /// How long ago a connection made progress.
    pub(super) fn age_ms(&self, index: u32, now_ms: u32) -> u32 {
        self.get(index).map_or(0, |connection| now_ms.wrapping_sub(connection.since_ms))
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
    use crate::listen::tcp_connection::testing::hold;
    use std::net::TcpListener;

    /// A pool with `count` connections that came at 0, 1, 2... ms, and what keeps them open.
    fn pool(count: u32) -> (ConnectionPool, TcpListener) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let mut pool = ConnectionPool::new(4);
        for number in 0..count {
            let stream = TcpStream::connect(listener.local_addr().expect("bound")).expect("loopback");
            let peer = IpAddr::V4([192, 0, 2, number as u8].into());
            assert_eq!(pool.insert(stream, peer, number), Some(number));
        }
        (pool, listener)
    }

    #[test]
    fn an_idle_connection_takes_few_octets() {
        assert!(size_of::<Slot>() <= 40, "{}", size_of::<Slot>());
    }

    /// A turn of a connection that leaves it with `held` octets of input.
    fn turn(pool: &mut ConnectionPool, index: u32, now_ms: u32, held: usize) {
        pool.update(index, now_ms, |connection| Ok(hold(connection, held))).expect("no error");
    }

    fn oldest(pool: &ConnectionPool) -> (Option<u32>, Option<u32>) {
        (pool.oldest_idle(), pool.oldest_active())
    }

    #[test]
    fn progress_decides_who_is_oldest() {
        let (mut pool, _listener) = pool(3);
        assert_eq!(oldest(&pool), (Some(0), None));
        turn(&mut pool, 0, 10, 0);
        assert_eq!(oldest(&pool), (Some(1), None));
        turn(&mut pool, 1, 11, 7);
        assert_eq!((oldest(&pool), pool.held()), ((Some(2), Some(1)), 7));
        turn(&mut pool, 2, 12, 8);
        assert_eq!((oldest(&pool), pool.held()), ((Some(0), Some(1)), 15));
        turn(&mut pool, 1, 14, 9);
        assert_eq!((pool.active().collect::<Vec<_>>(), pool.held()), (vec![2, 1], 17));
        pool.update(2, 15, |_| Ok(false)).expect("no error");
        assert_eq!((pool.oldest_active(), pool.age_ms(2, 20)), (Some(2), 8));
        pool.remove(2);
        assert_eq!((oldest(&pool), pool.held()), ((Some(0), Some(1)), 9));
        turn(&mut pool, 1, 16, 0);
        assert_eq!((oldest(&pool), pool.held()), ((Some(0), None), 0));
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
    fn slots_are_used_again_and_the_pool_has_an_end() {
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
