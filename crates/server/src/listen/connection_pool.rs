//! The connections of one thread: a slab of small entries in two lists, each in the order of last activity.
//!
//! A connection at rest is an entry of 40 octets and nothing else. One that is in the middle of something holds [`Work`]
//! and stands in the other list, so that the oldest of each kind is found at once.

use netio::stream::Interest;
use std::net::{IpAddr, Ipv6Addr, TcpStream};
use zone::transfer::Transfer;

const NONE: u32 = u32::MAX;

/// What a connection holds while it is in the middle of something.
pub(super) struct Work {
    /// Received and not answered yet: at most one read.
    pub(super) input: Vec<u8>,
    /// Answers that the kernel would not take yet.
    pub(super) output: Vec<u8>,
    /// The transfer under way.
    pub(super) transfer: Option<Box<Transfer>>,
    /// What the connection waits for.
    pub(super) interest: Interest,
}

impl Work {
    /// The memory that it holds, in octets, the transfer's version of the zone aside.
    pub(super) fn held(&self) -> usize {
        self.input.capacity() + self.output.capacity()
    }
}

/// One connection, or a vacant place (`stream` is `None`), which `next` chains to further ones.
struct Entry {
    stream: Option<TcpStream>,
    previous: u32,
    next: u32,
    /// When it last did something complete, in milliseconds of the thread's clock, which may wrap.
    since_ms: u32,
    /// IPv4 addresses are mapped; they cannot be mistaken, as IPv6 sockets here have IPv6 peers only.
    peer: [u8; 16],
    work: Option<Box<Work>>,
}

/// The ends of a list of entries, the oldest first.
struct List {
    first: u32,
    last: u32,
}

/// The connections.
pub(super) struct Table {
    entries: Vec<Entry>,
    vacant: u32,
    resting: List,
    working: List,
    len: usize,
    capacity: usize,
}

impl Table {
    /// Room for `capacity` connections; memory is taken as they come.
    pub(super) fn new(capacity: usize) -> Table {
        let empty = || List { first: NONE, last: NONE };
        let capacity = capacity.min(NONE as usize);
        let entries = Vec::with_capacity(capacity);
        Table { entries, vacant: NONE, resting: empty(), working: empty(), len: 0, capacity }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// How many places there are, vacant ones among them: all indices are below.
    pub(super) fn places(&self) -> u32 {
        self.entries.len() as u32
    }

    pub(super) fn is_full(&self) -> bool {
        self.len == self.capacity
    }

    /// Takes in a connection, at rest; `None` when the table is full.
    pub(super) fn insert(&mut self, stream: TcpStream, peer: IpAddr, now_ms: u32) -> Option<u32> {
        if self.is_full() {
            return None;
        }
        let peer = match peer {
            IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
            IpAddr::V6(ip) => ip.octets(),
        };
        let entry = Entry { stream: Some(stream), previous: NONE, next: NONE, since_ms: now_ms, peer, work: None };
        let index = if self.vacant == NONE {
            self.entries.push(entry);
            self.entries.len() as u32 - 1
        } else {
            let index = self.vacant;
            self.vacant = self.at(index).next;
            self.entries[index as usize] = entry;
            index
        };
        self.len += 1;
        self.link(index);
        Some(index)
    }

    /// Takes out a connection with what it holds; `None` when it is gone already.
    pub(super) fn remove(&mut self, index: u32) -> Option<(TcpStream, IpAddr, Option<Box<Work>>)> {
        let peer = self.peer(index);
        self.entries[index as usize].stream.as_ref()?;
        self.unlink(index);
        self.len -= 1;
        let vacant = self.vacant;
        self.vacant = index;
        let entry = &mut self.entries[index as usize];
        entry.next = vacant;
        entry.stream.take().map(|stream| (stream, peer, entry.work.take()))
    }

    /// The connection's stream, its peer and what it is in the middle of; `None` when it is gone.
    pub(super) fn parts(&mut self, index: u32) -> Option<(&TcpStream, IpAddr, Option<&mut Work>)> {
        let peer = self.peer(index);
        let entry = &mut self.entries[index as usize];
        entry.stream.as_ref().map(|stream| (stream, peer, entry.work.as_deref_mut()))
    }

    fn peer(&self, index: u32) -> IpAddr {
        IpAddr::V6(Ipv6Addr::from(self.at(index).peer)).to_canonical()
    }

    /// The connection did something complete: it is the youngest of its list now.
    pub(super) fn touch(&mut self, index: u32, now_ms: u32) {
        self.unlink(index);
        self.entries[index as usize].since_ms = now_ms;
        self.link(index);
    }

    /// The connection begins something (`Some`) or rests again (`None`), which counts as activity.
    pub(super) fn set_work(&mut self, index: u32, work: Option<Box<Work>>, now_ms: u32) {
        self.unlink(index);
        let entry = &mut self.entries[index as usize];
        (entry.work, entry.since_ms) = (work, now_ms);
        self.link(index);
    }

    /// The connection at rest the longest.
    pub(super) fn oldest_resting(&self) -> Option<u32> {
        Some(self.resting.first).filter(|index| *index != NONE)
    }

    /// The connection in the middle of something the longest.
    pub(super) fn oldest_working(&self) -> Option<u32> {
        Some(self.working.first).filter(|index| *index != NONE)
    }

    /// The oldest connection of either kind that did nothing complete for `timeout_ms`.
    pub(super) fn expired(&self, now_ms: u32, timeout_ms: u32) -> Option<u32> {
        let expired = |index: &u32| self.age_ms(*index, now_ms) >= timeout_ms;
        self.oldest_resting().filter(expired).or_else(|| self.oldest_working().filter(expired))
    }

    /// How long until one expires.
    pub(super) fn until_expiry_ms(&self, now_ms: u32, timeout_ms: u32) -> Option<u32> {
        let oldest = self.oldest_resting().into_iter().chain(self.oldest_working());
        oldest.map(|index| timeout_ms.saturating_sub(self.age_ms(index, now_ms))).min()
    }

    fn age_ms(&self, index: u32, now_ms: u32) -> u32 {
        now_ms.wrapping_sub(self.at(index).since_ms)
    }

    fn at(&self, index: u32) -> &Entry {
        &self.entries[index as usize]
    }

    fn list_of(&mut self, index: u32) -> &mut List {
        if self.at(index).work.is_some() { &mut self.working } else { &mut self.resting }
    }

    fn link(&mut self, index: u32) {
        let list = self.list_of(index);
        let last = std::mem::replace(&mut list.last, index);
        if last == NONE {
            list.first = index;
        } else {
            self.entries[last as usize].next = index;
        }
        let entry = &mut self.entries[index as usize];
        (entry.previous, entry.next) = (last, NONE);
    }

    fn unlink(&mut self, index: u32) {
        let &Entry { previous, next, .. } = self.at(index);
        match previous {
            NONE => self.list_of(index).first = next,
            _ => self.entries[previous as usize].next = next,
        }
        match next {
            NONE => self.list_of(index).last = previous,
            _ => self.entries[next as usize].previous = previous,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// A table with `count` connections that came at 0, 1, 2... ms, and what keeps them open.
    fn table(count: u32) -> (Table, TcpListener) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let mut table = Table::new(4);
        for number in 0..count {
            let stream = TcpStream::connect(listener.local_addr().expect("bound")).expect("loopback");
            let peer = IpAddr::V4([192, 0, 2, number as u8].into());
            assert_eq!(table.insert(stream, peer, number), Some(number));
        }
        (table, listener)
    }

    #[test]
    fn a_connection_at_rest_takes_few_octets() {
        assert!(size_of::<Entry>() <= 40, "{}", size_of::<Entry>());
    }

    fn work() -> Option<Box<Work>> {
        let interest = Interest::Readable;
        Some(Box::new(Work { input: Vec::new(), output: Vec::new(), transfer: None, interest }))
    }

    #[test]
    fn activity_decides_who_is_oldest() {
        let (mut table, _listener) = table(3);
        assert_eq!(table.oldest_resting(), Some(0));
        table.touch(0, 10);
        assert_eq!(table.oldest_resting(), Some(1));
        table.set_work(1, work(), 11);
        assert_eq!((table.oldest_resting(), table.oldest_working()), (Some(2), Some(1)));
        table.set_work(2, work(), 12);
        assert_eq!((table.oldest_resting(), table.oldest_working()), (Some(0), Some(1)));
        table.touch(1, 14);
        assert_eq!(table.oldest_working(), Some(2));
        table.remove(2);
        assert_eq!((table.oldest_resting(), table.oldest_working()), (Some(0), Some(1)));
        table.set_work(1, None, 15);
        assert_eq!((table.oldest_resting(), table.oldest_working()), (Some(0), None));
    }

    #[test]
    fn expiry_follows_activity_and_the_clock_may_wrap() {
        let (mut table, _listener) = table(2);
        assert_eq!((table.expired(99, 100), table.until_expiry_ms(99, 100)), (None, Some(1)));
        assert_eq!(table.expired(100, 100), Some(0));
        table.set_work(0, work(), u32::MAX - 10);
        table.touch(1, 50);
        assert_eq!((table.expired(88, 100), table.expired(89, 100)), (None, Some(0)));
        assert_eq!(table.until_expiry_ms(89, 100), Some(0));
    }

    #[test]
    fn places_are_used_again_and_the_table_has_an_end() {
        let (mut table, listener) = table(4);
        let stream = || TcpStream::connect(listener.local_addr().expect("bound")).expect("loopback");
        let peer: IpAddr = "2001:db8::1".parse().expect("a literal");
        assert!(table.is_full() && table.insert(stream(), peer, 0).is_none());
        let (_, address, work) = table.remove(2).expect("it was there");
        assert_eq!((address, work.is_none()), (IpAddr::V4([192, 0, 2, 2].into()), true));
        assert!(table.remove(2).is_none() && table.parts(2).is_none());
        assert_eq!((table.len(), table.insert(stream(), peer, 0), table.peer(2)), (3, Some(2), peer));
        (0..4).for_each(|index| drop(table.remove(index)));
        assert_eq!((table.len(), table.oldest_resting(), table.until_expiry_ms(0, 1)), (0, None, None));
    }
}
