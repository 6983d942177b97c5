//! TLS handshakes that wait for their turn. Each step of one may cost half a millisecond; all steps together get a share of a
//! processor, and a round has one step at most, so that new connections are accepted meanwhile.

use super::handshake_share::HandshakeShare;
use std::collections::VecDeque;
use std::time::Duration;

/// The handshakes of one thread that can go on.
pub(super) struct HandshakeQueue {
    /// Indices of connections. One that is gone since, or is not in its handshake any more, is skipped.
    waiting: VecDeque<u32>,
    share: HandshakeShare,
}

impl HandshakeQueue {
    /// `share` is in thousandths of a processor.
    pub(super) fn new(share: u32, now_ms: u32) -> HandshakeQueue {
        HandshakeQueue { waiting: VecDeque::new(), share: HandshakeShare::new(share, now_ms) }
    }

    /// Adds a connection that can go on. It is not polled for until its turn, so that it is here once.
    pub(super) fn push(&mut self, index: u32) {
        self.waiting.push_back(index);
    }

    /// The connection whose turn it is, unless the share is used up.
    pub(super) fn next(&mut self, now_ms: u32) -> Option<u32> {
        if self.share.is_left(now_ms) { self.waiting.pop_front() } else { None }
    }

    /// Counts what a turn cost.
    pub(super) fn charge(&mut self, cost: Duration) {
        self.share.charge(cost);
    }

    /// How long to wait for the next turn; `None` if no handshake waits.
    pub(super) fn until_next_ms(&self) -> Option<u32> {
        (!self.waiting.is_empty()).then(|| self.share.until_left_ms())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handshakes_get_their_share_of_the_processor() {
        let mut queue = HandshakeQueue::new(250, u32::MAX - 5);
        (0..20_000).for_each(|index| queue.push(index));
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
        queue.push(7);
        queue.push(8);
        assert_eq!(queue.until_next_ms(), Some(0));
        assert_eq!([queue.next(1), queue.next(1), queue.next(1)], [Some(7), Some(8), None]);
        // A long wait allows no more than the burst.
        queue.charge(Duration::from_millis(15));
        assert_eq!(queue.next(1_000_000), None);
        queue.push(9);
        queue.charge(Duration::from_millis(30));
        assert_eq!(queue.until_next_ms(), Some(21));
        assert_eq!((queue.next(1_000_010), queue.next(1_000_021)), (None, Some(9)));
    }
}
