//! Datagrams that may begin connections. Before anything in one can be checked, keys are derived for it (RFC 9001 5.2), and for a Retry once
//! more: all together get a part of the share of handshakes. What exceeds it waits here, and networks take turns.

use super::super::handshake_share::HandshakeShare;
use super::super::network_lanes::NetworkLanes;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The part of the share. The rest stays for key exchanges, whatever a flood of these datagrams uses.
const PART: u32 = 4;
/// Datagrams that may wait. Networks share the places; clients repeat what is dropped.
const MAX_WAITING: usize = 256;

/// Whether the keys of first packets are derived, and whether any were asked for. The thread's alone.
#[derive(Default)]
pub(super) struct InitialKeys {
    are_held_back: AtomicBool,
    were_asked_for: AtomicBool,
}

impl InitialKeys {
    /// Notes that keys are asked for; returns whether they are derived.
    pub(super) fn ask(&self) -> bool {
        self.were_asked_for.store(true, Ordering::Relaxed);
        !self.are_held_back.load(Ordering::Relaxed)
    }
}

/// The queue of a thread, of datagrams `D`.
pub(super) struct InitialQueue<D> {
    waiting: NetworkLanes<D>,
    share: HandshakeShare,
    began: Instant,
    keys: Arc<InitialKeys>,
}

impl<D> InitialQueue<D> {
    /// `share` is that of all steps of handshakes, in thousandths of a processor.
    pub(super) fn new(share: u32, now: Instant, keys: Arc<InitialKeys>) -> InitialQueue<D> {
        InitialQueue { waiting: NetworkLanes::new(), share: HandshakeShare::new(share / PART, 0), began: now, keys }
    }

    /// How many wait.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// A datagram is to be handled; returns whether it may begin a connection without waiting.
    pub(super) fn begin(&mut self, now: Instant) -> bool {
        let may_begin = self.waiting.is_empty() && self.is_left(now);
        self.hold_back(!may_begin);
        may_begin
    }

    /// A datagram is handled; returns whether keys were asked for.
    pub(super) fn end(&self) -> bool {
        self.keys.were_asked_for.swap(false, Ordering::Relaxed)
    }

    /// Lets a datagram of `peer` wait. Where too many wait, the newest of the network with most is dropped, or this one; returns whether one was.
    pub(super) fn push(&mut self, datagram: D, peer: IpAddr) -> bool {
        let is_full = self.waiting.len() >= MAX_WAITING;
        if !is_full || self.waiting.make_room_for(peer).is_some() {
            self.waiting.push(datagram, peer);
        }
        is_full
    }

    /// The next one that has waited and may begin a connection, unless the share is used up.
    pub(super) fn next(&mut self, now: Instant) -> Option<D> {
        if self.waiting.is_empty() || !self.is_left(now) {
            return None;
        }
        self.hold_back(false);
        self.waiting.pop()
    }

    /// Counts what one cost.
    pub(super) fn charge(&mut self, cost: Duration) {
        self.share.charge(cost);
    }

    /// When the next turn is; `None` if nothing waits.
    pub(super) fn next_turn(&self, now: Instant) -> Option<Instant> {
        (!self.waiting.is_empty()).then(|| now + Duration::from_millis(self.share.until_left_ms().into()))
    }

    /// Drops all that wait.
    pub(super) fn clear(&mut self) {
        while self.waiting.pop().is_some() {}
    }

    fn is_left(&mut self, now: Instant) -> bool {
        self.share.is_left(now.saturating_duration_since(self.began).as_millis() as u32)
    }

    fn hold_back(&self, are_held_back: bool) {
        self.keys.are_held_back.store(are_held_back, Ordering::Relaxed);
    }
}
