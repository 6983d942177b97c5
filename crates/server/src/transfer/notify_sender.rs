//! Outgoing NOTIFY (RFC 1996): sent again with back-off until answered or given up, in queues of its own, one per target. Over UDP first,
//! then over TCP; over TLS only to a target with TLS settings.
//!
//! A target that does not answer has one message in flight, and delays no other. About each zone there is at most one message in flight to a
//! target: a newer version waits until that is answered, or takes its place when it would be sent again. So a zone that changes all the
//! time floods no target, and one that answers over TCP only is found.

mod target;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use wire::NameRef;
use wire::message::{Rcode, header_rcode};
use wire::tsig::TsigError;

use super::Now;
use super::primary::{PeerConfig, PeerIdentity};
use super::query::{Authenticity, OutgoingQuery, QueryKind};
use crate::rate_limited_log::RateLimitedLog;
use crate::zone_id::ZoneId;
use fastrand::Rng;
use target::{InFlight, Notice, Target};

/// RFC 1996 3.6: the time until a NOTIFY is sent again, and at the end given up. The first ones are short, since most losses are
/// single packets; all together 2 minutes.
const TIMEOUTS_MS: [u64; 6] = [2000, 4000, 8000, 16_000, 32_000, 60_000];
/// The most messages in flight to one target, so that a small secondary is not flooded.
const MAX_PER_TARGET: usize = 64;
/// The most messages in flight to all.
const MAX_IN_FLIGHT: usize = 4096;
/// The most queued messages. For more, the oldest of the target with most of them is dropped and counted: one that does not answer takes
/// no room from others. It finds the changes by its refresh timers, as a warning says.
const MAX_QUEUED: usize = 1 << 18;
/// How often a warning says that messages are dropped.
const DROP_LOG_INTERVAL: Duration = Duration::from_secs(60);

/// All outgoing NOTIFY messages.
pub struct NotifySender {
    targets: Vec<Option<Target>>,
    by_peer: HashMap<PeerIdentity, usize>,
    /// The targets by address.
    by_address: BTreeSet<(SocketAddr, usize)>,
    free: Vec<usize>,
    /// Targets with queued messages and room, in turns.
    ready: VecDeque<usize>,
    /// Messages in flight by the time of their next step: time, target, ID.
    timeouts: BTreeSet<(u64, usize, u16)>,
    /// The targets with queued messages, by how many they have.
    by_queue_len: BTreeSet<(usize, usize)>,
    queued: usize,
    max_queued: usize,
    unanswered: Unanswered,
    random: Rng,
    counters: NotifyCounters,
    drop_log: RateLimitedLog,
}

/// The answer to a NOTIFY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotifyAnswer {
    /// The zone.
    pub zone: ZoneId,
    /// Who answered.
    pub target: SocketAddr,
    /// What it says.
    pub rcode: Rcode,
    /// What is wrong with its signature.
    pub tsig_error: Option<TsigError>,
    /// Whether a better answer may still come.
    pub is_ignored: bool,
}

impl NotifyAnswer {
    /// Whether it is an error, or has a wrong signature.
    pub fn is_refusal(&self) -> bool {
        self.rcode != Rcode::NOERROR || self.tsig_error.is_some()
    }
}

/// What happened to messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NotifyCounters {
    /// Messages sent, with those sent again.
    pub sent: u64,
    /// Messages that were answered.
    pub answered: u64,
    /// Of these, those whose answer is an error, or has a wrong signature.
    pub refused: u64,
    /// Messages that no answer came to.
    pub given_up: u64,
    /// Messages that were not sent because the queue was full.
    pub dropped: u64,
}

/// How many messages about each zone are queued or in flight; zones without any have no entry.
#[derive(Default)]
struct Unanswered(HashMap<u32, u32>);

impl Unanswered {
    fn add(&mut self, zone: u32) {
        *self.0.entry(zone).or_insert(0) += 1;
    }

    fn subtract(&mut self, zone: u32, count: usize) {
        if let Some(left) = self.0.get_mut(&zone) {
            *left = left.saturating_sub(count as u32);
            if *left == 0 {
                self.0.remove(&zone);
            }
        }
    }
}

/// The number of a message in flight: the target, the ID of its datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NotifyId(usize, u16);

#[cfg(test)]
impl NotifyId {
    /// The number of some message.
    pub fn for_test() -> NotifyId {
        NotifyId(0, 0)
    }
}

/// A message to send.
pub struct NotifyMessage<'a> {
    /// The target.
    pub target: &'a PeerConfig,
    /// How to send it.
    pub transport: NotifyTransport<'a>,
}

/// How to send a message.
pub enum NotifyTransport<'a> {
    /// This datagram.
    Datagram(&'a [u8]),
    /// Over a stream; an answer is reported by [`NotifySender::answered`].
    Stream {
        /// The zone.
        zone: ZoneId,
        /// The message.
        id: NotifyId,
    },
}

impl NotifySender {
    /// A sender with nothing to send.
    pub fn new(seed: u64) -> NotifySender {
        NotifySender {
            targets: Vec::new(),
            by_peer: HashMap::new(),
            by_address: BTreeSet::new(),
            free: Vec::new(),
            ready: VecDeque::new(),
            timeouts: BTreeSet::new(),
            by_queue_len: BTreeSet::new(),
            queued: 0,
            max_queued: MAX_QUEUED,
            unanswered: Unanswered::default(),
            random: Rng::with_seed(seed),
            counters: NotifyCounters::default(),
            drop_log: RateLimitedLog::new(1, DROP_LOG_INTERVAL),
        }
    }

    /// Queues a NOTIFY about a new version of a zone for each target. `soa` is the RDATA of its SOA record.
    pub fn publish(&mut self, zone: ZoneId, soa: &Arc<[u8]>, targets: &[PeerConfig]) {
        for config in targets {
            let index = self.target(config);
            let Some(target) = &mut self.targets[index] else { continue };
            let notice = Notice { zone, soa: soa.clone() };
            if let Some(queued) = target.queued.get_mut(&zone.index) {
                *queued = notice;
            } else {
                target.queued.insert(zone.index, notice);
                if !target.is_in_flight(zone.index) {
                    target.order.push_back(zone.index);
                }
                self.queue_changed(index, 1);
                self.unanswered.add(zone.index);
            }
            self.make_ready(index);
            if self.queued > self.max_queued {
                self.drop_oldest();
            }
        }
    }

    /// A message was added to the queue of a target, or one was taken from it.
    fn queue_changed(&mut self, index: usize, by: isize) {
        let len = self.targets[index].as_ref().map_or(0, |target| target.queued.len());
        self.by_queue_len.remove(&(len.wrapping_add_signed(-by), index));
        if len > 0 {
            self.by_queue_len.insert((len, index));
        }
        self.queued = self.queued.wrapping_add_signed(by);
    }

    /// Drops the oldest message of the target with the longest queue.
    fn drop_oldest(&mut self) {
        let Some(index) = self.by_queue_len.last().map(|(_, index)| *index) else { return };
        let Some(target) = &mut self.targets[index] else { return };
        let Some(zone) = target.pop_oldest() else { return };
        if let Some(left_out) = self.drop_log.permit() {
            let target_address = target.config.address;
            tracing::warn!(%target_address, left_out, "NOTIFY is not sent for want of room: the target answers too slowly");
        }
        self.queue_changed(index, -1);
        self.unanswered.subtract(zone, 1);
        self.counters.dropped += 1;
    }

    /// The zone was removed: nothing is sent about it any more.
    pub fn remove(&mut self, zone: ZoneId) {
        if self.unanswered.0.remove(&zone.index).is_none() {
            return;
        }
        for index in 0..self.targets.len() {
            let Some(target) = &mut self.targets[index] else { continue };
            target.forget_in_flight(zone.index, index, &mut self.timeouts);
            if target.queued.remove(&zone.index).is_some() {
                target.drop_old_order();
                self.queue_changed(index, -1);
            }
            self.make_ready(index);
        }
    }

    /// Sends what is due: first messages and repetitions.
    pub fn send_due<'a>(
        &mut self,
        now: Now,
        apex_of: impl Fn(ZoneId) -> Option<NameRef<'a>>,
        mut send: impl FnMut(NotifyMessage<'_>),
    ) {
        while let Some((at_ms, index, id)) = self.timeouts.first().copied().filter(|(at_ms, ..)| *at_ms <= now.ms) {
            self.timeouts.remove(&(at_ms, index, id));
            self.repeat(index, id, now, &apex_of, &mut send);
        }
        // Every turn sends or drops a queued message, or takes a target from the list.
        while self.timeouts.len() < MAX_IN_FLIGHT {
            let Some(index) = self.ready.pop_front() else { return };
            let Some(target) = &mut self.targets[index] else { continue };
            target.is_ready = false;
            let tries = target.first_tries();
            let Some(zone_index) = target.order.pop_front() else {
                self.make_ready(index); // It may be forgotten.
                continue;
            };
            if let Some(notice) = target.queued.remove(&zone_index) {
                self.queue_changed(index, -1);
                match apex_of(notice.zone) {
                    Some(apex) => self.begin(index, notice, apex, tries, now, &mut send),
                    None => self.unanswered.subtract(zone_index, 1),
                }
            }
            self.make_ready(index);
        }
    }

    /// Sends a message, which counts as this many tries.
    fn begin(
        &mut self,
        index: usize,
        Notice { zone, soa }: Notice,
        apex: NameRef<'_>,
        tries: usize,
        now: Now,
        send: &mut impl FnMut(NotifyMessage<'_>),
    ) {
        let Some(target) = &mut self.targets[index] else { return };
        let mut id = self.random.u16(..);
        while target.in_flight.contains_key(&id) {
            id = self.random.u16(..); // At most `MAX_PER_TARGET` are in use.
        }
        let key = target.config.key.as_deref();
        let query = OutgoingQuery::new(id, apex, QueryKind::Notify(&soa), key, now.s.into());
        let at_ms = now.ms + TIMEOUTS_MS[tries - 1];
        let message = InFlight { zone, soa, query, tries, at_ms, has_unverified: false };
        send(NotifyMessage { target: &target.config, transport: message.transport(NotifyId(index, id)) });
        self.counters.sent += 1;
        target.in_flight.insert(id, message);
        self.timeouts.insert((at_ms, index, id));
    }

    /// RFC 1996 3.6: sends a message again, or a newer one about its zone, or gives it up.
    fn repeat<'a>(
        &mut self,
        index: usize,
        id: u16,
        now: Now,
        apex_of: impl Fn(ZoneId) -> Option<NameRef<'a>>,
        send: &mut impl FnMut(NotifyMessage<'_>),
    ) {
        let Some(target) = &mut self.targets[index] else { return };
        let Some(message) = target.in_flight.get_mut(&id) else { return };
        let (zone, tries) = (message.zone, message.tries + 1);
        let Some(timeout_ms) = TIMEOUTS_MS.get(message.tries) else {
            return self.give_up(index, id, apex_of(zone));
        };
        if let Some((apex, newer)) = apex_of(zone).and_then(|apex| Some((apex, target.queued.remove(&zone.index)?))) {
            target.in_flight.remove(&id);
            self.queue_changed(index, -1);
            self.unanswered.subtract(zone.index, 1);
            return self.begin(index, newer, apex, tries, now, send);
        }
        message.tries = tries;
        send(NotifyMessage { target: &target.config, transport: message.transport(NotifyId(index, id)) });
        self.counters.sent += 1;
        message.at_ms = now.ms + timeout_ms;
        self.timeouts.insert((message.at_ms, index, id));
    }

    fn give_up(&mut self, index: usize, id: u16, apex: Option<NameRef<'_>>) {
        let Some(target) = &mut self.targets[index] else { return };
        let Some(message) = target.end(id) else { return };
        self.unanswered.subtract(message.zone.index, 1);
        if !target.is_silent {
            let zone = apex.map(tracing::field::display);
            tracing::warn!(target_address = %target.config.address, zone, "no answer to NOTIFY; the target is tried with one message at a time");
        }
        target.is_silent = true;
        self.counters.given_up += 1;
        self.make_ready(index);
    }

    /// Receives a datagram. Any answer ends a NOTIFY (RFC 1996 4.8), also one that refuses its signature. What does not match by
    /// address, ID and question is ignored. RFC 8945 5.4: so is what cannot be verified, which is reported once for each message.
    pub fn receive(&mut self, from: SocketAddr, datagram: &[u8], now: Now) -> Option<NotifyAnswer> {
        let (id, rcode) = (u16::from_be_bytes(*datagram.first_chunk()?), header_rcode(datagram));
        let indices: Vec<usize> =
            self.by_address.range((from, 0)..=(from, usize::MAX)).map(|(_, index)| *index).collect();
        let mut ignored = None;
        for index in indices {
            let Some(Target { config, in_flight, .. }) = &mut self.targets[index] else { continue };
            let message = in_flight.get_mut(&id).filter(|message| message.query.is_answered_by(datagram));
            let Some(message) = message else { continue };
            let error = match message.query.authenticity(config.key.as_deref(), datagram, now.s.into()) {
                Authenticity::Authentic => return self.answered(NotifyId(index, id), rcode, None),
                Authenticity::SignedError(error) => return self.answered(NotifyId(index, id), rcode, Some(error)),
                Authenticity::Unverified(error) => error,
            };
            if !std::mem::replace(&mut message.has_unverified, true) {
                let (zone, target) = (message.zone, config.address);
                ignored = Some(NotifyAnswer { zone, target, rcode, tsig_error: Some(error), is_ignored: true });
            }
        }
        ignored
    }

    /// A message in flight was answered: over UDP, or on a stream, where the signature of the answer may be wrong.
    pub fn answered(
        &mut self,
        NotifyId(index, id): NotifyId,
        rcode: Rcode,
        tsig_error: Option<TsigError>,
    ) -> Option<NotifyAnswer> {
        let target = self.targets.get_mut(index)?.as_mut()?;
        let message = target.end(id)?;
        target.is_silent = false;
        let (zone, address) = (message.zone, target.config.address);
        self.timeouts.remove(&(message.at_ms, index, id));
        self.unanswered.subtract(zone.index, 1);
        let answer = NotifyAnswer { zone, target: address, rcode, tsig_error, is_ignored: false };
        self.counters.answered += 1;
        self.counters.refused += u64::from(answer.is_refusal());
        self.make_ready(index);
        Some(answer)
    }

    /// The SOA RDATA of a message that is in flight still.
    pub fn soa_of(&self, NotifyId(index, id): NotifyId) -> Option<&Arc<[u8]>> {
        Some(&self.targets.get(index)?.as_ref()?.in_flight.get(&id)?.soa)
    }

    /// When [`NotifySender::send_due`] must be called, in milliseconds; 0 for at once.
    pub fn next_time(&self) -> Option<u64> {
        let can_send = !self.ready.is_empty() && self.timeouts.len() < MAX_IN_FLIGHT;
        if can_send { Some(0) } else { self.timeouts.first().map(|(at_ms, ..)| *at_ms) }
    }

    /// What happened so far.
    pub fn counters(&self) -> NotifyCounters {
        self.counters
    }

    fn target(&mut self, config: &PeerConfig) -> usize {
        let peer = config.identity();
        if let Some(index) = self.by_peer.get(&peer) {
            return *index;
        }
        let index = self.free.pop().unwrap_or(self.targets.len());
        if index == self.targets.len() {
            self.targets.push(None);
        }
        self.targets[index] = Some(Target::new(config.clone()));
        self.by_peer.insert(peer, index);
        self.by_address.insert((config.address, index));
        index
    }

    /// Lists a target that can send; forgets one that has nothing to send and nothing in flight.
    fn make_ready(&mut self, index: usize) {
        let Some(target) = &mut self.targets[index] else { return };
        let limit = if target.is_silent { 1 } else { MAX_PER_TARGET };
        if !target.order.is_empty() && target.in_flight.len() < limit && !target.is_ready {
            target.is_ready = true;
            self.ready.push_back(index);
        }
        if target.order.is_empty() && target.in_flight.is_empty() && !target.is_ready {
            self.by_peer.remove(&target.config.identity());
            self.by_address.remove(&(target.config.address, index));
            self.targets[index] = None;
            self.free.push(index);
        }
    }
}
