//! A target of NOTIFY: its queue, and its messages in flight.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use super::super::primary::PeerConfig;
use super::super::query::OutgoingQuery;
use super::{MAX_PER_TARGET, NotifyId, NotifyTransport};
use crate::zone_id::ZoneId;

/// As many tries are over UDP; the others are over TCP, which may pass where datagrams are lost.
const UDP_TRIES: usize = 3;

/// A server that gets NOTIFY.
pub(super) struct Target {
    pub(super) config: PeerConfig,
    /// The zones in `queued` without a message in flight, in order; those that are not in it any more are skipped.
    pub(super) order: VecDeque<u32>,
    pub(super) queued: HashMap<u32, Notice>,
    pub(super) in_flight: HashMap<u16, InFlight>,
    pub(super) is_ready: bool,
    /// Set when a message was given up, until the target answers.
    pub(super) is_silent: bool,
}

/// A message that waits.
pub(super) struct Notice {
    pub(super) zone: ZoneId,
    /// The RDATA of the SOA record.
    pub(super) soa: Arc<[u8]>,
}

/// A message that is not answered yet.
pub(super) struct InFlight {
    pub(super) zone: ZoneId,
    pub(super) soa: Arc<[u8]>,
    pub(super) query: OutgoingQuery,
    pub(super) tries: usize,
    pub(super) at_ms: u64,
    /// A response that cannot be verified was reported.
    pub(super) has_unverified: bool,
}

impl Target {
    /// A target without messages.
    pub(super) fn new(config: PeerConfig) -> Target {
        Target {
            config,
            order: VecDeque::new(),
            queued: HashMap::new(),
            in_flight: HashMap::new(),
            is_ready: false,
            is_silent: false,
        }
    }

    /// Forgets zones that are not queued any more, once they are most: a target that does not answer may keep its queue for days, while
    /// zones come and go.
    pub(super) fn drop_old_order(&mut self) {
        if self.order.len() > 2 * self.queued.len() + MAX_PER_TARGET {
            let mut seen = HashSet::new();
            self.order.retain(|zone| self.queued.contains_key(zone) && seen.insert(*zone));
        }
    }

    /// As many tries a first message counts as: only some are over UDP. A handshake takes longer than a datagram.
    pub(super) fn first_tries(&self) -> usize {
        if self.config.tls == 0 { 1 } else { UDP_TRIES + 1 }
    }

    pub(super) fn is_in_flight(&self, zone: u32) -> bool {
        self.in_flight.values().any(|message| message.zone.index == zone)
    }

    /// A message is answered or given up: a newer one about its zone may follow.
    pub(super) fn end(&mut self, id: u16) -> Option<InFlight> {
        let message = self.in_flight.remove(&id)?;
        if self.queued.contains_key(&message.zone.index) {
            self.order.push_back(message.zone.index);
        }
        Some(message)
    }

    /// Takes the oldest message out of the queue, one that waits for another in flight at last; returns its zone.
    pub(super) fn pop_oldest(&mut self) -> Option<u32> {
        let waits = |zone: &u32| self.queued.contains_key(zone);
        let oldest = self.order.iter().position(waits);
        let ahead = self.order.drain(..oldest.map_or(self.order.len(), |at| at + 1)).next_back();
        let zone = oldest.and(ahead).or_else(|| self.queued.keys().next().copied())?;
        self.queued.remove(&zone);
        Some(zone)
    }

    /// Forgets what is in flight about a zone.
    pub(super) fn forget_in_flight(&mut self, zone: u32, index: usize, timeouts: &mut BTreeSet<(u64, usize, u16)>) {
        self.in_flight.retain(|id, message| {
            let is_other = message.zone.index != zone;
            if !is_other {
                timeouts.remove(&(message.at_ms, index, *id));
            }
            is_other
        });
    }
}

impl InFlight {
    pub(super) fn transport(&self, id: NotifyId) -> NotifyTransport<'_> {
        match self.tries > UDP_TRIES {
            true => NotifyTransport::Stream { zone: self.zone, id },
            false => NotifyTransport::Datagram(self.query.octets()),
        }
    }
}
