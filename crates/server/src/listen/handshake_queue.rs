//! TLS handshakes that wait for their turn. Each step of one may cost half a millisecond; all steps together get a share of a
//! processor, and a round has one at most, besides those that fail, so that new connections are accepted meanwhile. Networks take turns, so that a
//! flood from one of them delays the others little.

use super::handshake_share::HandshakeShare;
use super::network_lanes::NetworkLanes;
use std::net::IpAddr;
use std::time::Duration;

/// Turns in a row for handshakes that await their end, so that clients which send it octet by octet delay others little.
const FINISHING_TURNS: u8 = 4;

/// Entries of connections that are gone which a turn skips, so that it ends.
const MAX_SKIPPED: usize = 256;

/// The handshakes of one thread that can go on.
pub(super) struct HandshakeQueue {
    /// Their costly step is to come.
    starting: NetworkLanes<Entry>,
    /// They await their end. They go first: the costly step is done, and wasted if the client gives up.
    finishing: NetworkLanes<Entry>,
    finishing_turns: u8,
    /// By index of a connection, the ticket of its entry, if it waits.
    tickets: Vec<Option<u32>>,
    next_ticket: u32,
    share: HandshakeShare,
}

/// The place of a connection, which may be gone since, and another one may have its index.
#[derive(Clone, Copy)]
struct Entry {
    index: u32,
    ticket: u32,
}

impl HandshakeQueue {
    /// `share` is in thousandths of a processor.
    pub(super) fn new(share: u32, now_ms: u32) -> HandshakeQueue {
        let share = HandshakeShare::new(share, now_ms);
        let (starting, finishing) = (NetworkLanes::new(), NetworkLanes::new());
        HandshakeQueue { starting, finishing, finishing_turns: 0, tickets: Vec::new(), next_ticket: 0, share }
    }

    /// Adds a connection of `peer` that can go on, if it is not here already.
    pub(super) fn push(&mut self, index: u32, peer: IpAddr, awaits_finished: bool) {
        let at = index as usize;
        if at >= self.tickets.len() {
            self.tickets.resize(at + 1, None);
        }
        if self.tickets[at].is_some() {
            return;
        }
        let entry = Entry { index, ticket: self.next_ticket };
        self.tickets[at] = Some(entry.ticket);
        self.next_ticket = self.next_ticket.wrapping_add(1);
        let queue = if awaits_finished { &mut self.finishing } else { &mut self.starting };
        queue.push(entry, peer);
    }

    /// A connection is gone: the next one with its index must not wait in its place, which may be behind a flood of its network.
    pub(super) fn forget(&mut self, index: u32) {
        if let Some(ticket) = self.tickets.get_mut(index as usize) {
            *ticket = None;
        }
    }

    /// The connection whose turn it is, unless the share is used up.
    pub(super) fn next(&mut self, now_ms: u32) -> Option<u32> {
        if !self.share.is_left(now_ms) {
            return None;
        }
        for _ in 0..MAX_SKIPPED {
            let Entry { index, ticket } = self.pop()?;
            if self.tickets[index as usize].take_if(|current| *current == ticket).is_some() {
                return Some(index);
            }
        }
        None
    }

    fn pop(&mut self) -> Option<Entry> {
        if (self.finishing.is_empty() || self.finishing_turns == FINISHING_TURNS)
            && let Some(entry) = self.starting.pop()
        {
            self.finishing_turns = 0;
            return Some(entry);
        }
        let entry = self.finishing.pop()?;
        self.finishing_turns = (self.finishing_turns + 1).min(FINISHING_TURNS);
        Some(entry)
    }

    /// Counts what a turn cost.
    pub(super) fn charge(&mut self, cost: Duration) {
        self.share.charge(cost);
    }

    /// How long to wait for the next turn; `None` if no handshake waits.
    pub(super) fn until_next_ms(&self) -> Option<u32> {
        (!self.starting.is_empty() || !self.finishing.is_empty()).then(|| self.share.until_left_ms())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    #[test]
    fn handshakes_get_their_share_of_the_processor() {
        let mut queue = HandshakeQueue::new(250, u32::MAX - 5);
        (0..20_000).for_each(|index| queue.push(index, PEER, false));
        let (mut now_ms, mut turns) = (u32::MAX - 5, 0);
        for _ in 0..10_000 {
            now_ms = now_ms.wrapping_add(1);
            while queue.next(now_ms).is_some() {
                queue.charge(Duration::from_micros(500));
                turns += 1;
            }
            assert!(queue.until_next_ms().is_some_and(|wait_ms| (1..=4).contains(&wait_ms)), "no spinning");
        }
        // 10 seconds, a quarter of a processor, half a millisecond each, and the burst.
        assert!((5000..=5042).contains(&turns), "{turns}");
    }

    #[test]
    fn handshakes_in_order_and_at_once_where_there_are_few() {
        let mut queue = HandshakeQueue::new(500, 0);
        assert_eq!((queue.next(1), queue.until_next_ms()), (None, None));
        queue.push(7, PEER, false);
        queue.push(8, PEER, false);
        assert_eq!(queue.until_next_ms(), Some(0));
        assert_eq!([queue.next(1), queue.next(1), queue.next(1)], [Some(7), Some(8), None]);
        // A long wait allows no more than the burst.
        queue.charge(Duration::from_millis(15));
        assert_eq!(queue.next(1_000_000), None);
        queue.push(9, PEER, false);
        queue.charge(Duration::from_millis(30));
        assert_eq!(queue.until_next_ms(), Some(21));
        assert_eq!((queue.next(1_000_010), queue.next(1_000_021)), (None, Some(9)));
    }

    #[test]
    fn a_connection_is_queued_once_at_a_time() {
        let mut queue = HandshakeQueue::new(500, 0);
        for awaits_finished in [false, true, false] {
            queue.push(3, PEER, awaits_finished);
        }
        assert_eq!([queue.next(1), queue.next(1)], [Some(3), None]);
        queue.push(3, PEER, true);
        assert_eq!([queue.next(1), queue.next(1)], [Some(3), None]);
    }

    /// The connection that had the index was in the lane of a flood.
    #[test]
    fn a_connection_does_not_wait_in_the_place_of_one_that_is_gone() {
        let mut queue = HandshakeQueue::new(500, 0);
        (0..1000).for_each(|index| queue.push(index, PEER, false));
        (900..916).for_each(|index| queue.forget(index));
        (900..916).for_each(|index| queue.push(index, IpAddr::V4((index << 8).into()), false));
        let first: Vec<u32> = std::iter::from_fn(|| queue.next(1)).take(40).collect();
        // Rarely one has the lane of the flood.
        let others = first.iter().filter(|index| (900..916).contains(*index)).count();
        assert!(others >= 12, "{others} of 16");
        assert_eq!(std::iter::from_fn(|| queue.next(1)).count(), 1000 - 40, "each has one turn");
    }

    #[test]
    fn connections_that_are_gone_are_skipped_a_few_at_a_time() {
        let mut queue = HandshakeQueue::new(500, 0);
        (0..300).for_each(|index| queue.push(index, PEER, index % 2 == 0));
        (0..299).for_each(|index| queue.forget(index));
        assert_eq!((queue.next(1), queue.until_next_ms()), (None, Some(0)));
        assert_eq!((queue.next(1), queue.until_next_ms()), (Some(299), None));
    }

    #[test]
    fn handshakes_that_await_their_end_go_first_but_do_not_stop_the_others() {
        let mut queue = HandshakeQueue::new(500, 0);
        [1, 2].into_iter().for_each(|index| queue.push(index, PEER, false));
        (11..=16).for_each(|index| queue.push(index, PEER, true));
        let order: Vec<u32> = std::iter::from_fn(|| queue.next(1)).collect();
        assert_eq!(order, [11, 12, 13, 14, 1, 15, 16, 2]);
        (21..=26).for_each(|index| queue.push(index, PEER, true));
        (21..=26).for_each(|index| assert_eq!(queue.next(1), Some(index)));
        assert_eq!(queue.next(1), None);
    }

    #[test]
    fn a_flood_from_one_network_delays_others_little() {
        for awaits_finished in [false, true] {
            let mut queue = HandshakeQueue::new(500, 0);
            let mut push = |index, peer| queue.push(index, peer, awaits_finished);
            let site = |number: u32| IpAddr::V6((0x2001_0db8_u128 << 96 | u128::from(number) << 64).into());
            (0..1000).for_each(|index| push(index, IpAddr::V4((0xc000_0200 + index % 256).into())));
            (1000..2000).for_each(|index| push(index, site(index % 0x1_0000)));
            (2000..2016).for_each(|index| push(index, IpAddr::V4((index << 8).into())));
            let first: Vec<u32> = std::iter::from_fn(|| queue.next(1)).take(100).collect();
            // Rarely one has the lane of a flood.
            let others = first.iter().filter(|index| **index >= 2000).count();
            assert!(others >= 10, "{others} of 16, {awaits_finished}");
            assert_eq!(std::iter::from_fn(|| queue.next(1)).count(), 2016 - 100, "none is lost");
        }
    }
}
