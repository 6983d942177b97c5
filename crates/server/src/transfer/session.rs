//! One stream connection to a primary (TCP, or TLS below it) as a state machine: octets in, octets out.
//!
//! Several SOA, IXFR and AXFR queries are in flight with different IDs (RFC 7766 6.2.1.1, RFC 9103 6.3.1); their responses may be
//! interleaved. The session checks framing, IDs, questions, signatures and progress; what a transfer contains is checked by its
//! [`TransferSink`].

mod exchange;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use wire::NameRef;
use wire::framing::{PREFIX_LEN, frame, missing_len, split_message};
use wire::message::Rcode;
use wire::tsig::{TsigError, TsigKey};

use super::Now;
use super::notify_sender::NotifyId;
use super::query::{EdnsUse, OutgoingQuery, QueryKind, UselessAnswer};
use super::refresh::ProbeResult;
use crate::zone_id::ZoneId;
use exchange::{Exchange, Purpose};
use fastrand::Rng;

/// Takes the messages of one transfer.
pub trait TransferSink {
    /// Takes the next message, whose header, question and signature were checked; returns whether it was the last one.
    fn receive(&mut self, message: &[u8]) -> Result<bool, SinkError>;

    /// After the last message: the serial of the primary, if it has no later version than the one that was asked from.
    fn current_serial(&self) -> Option<u32>;

    /// The records received so far.
    fn records(&self) -> u64;
}

/// Why a sink takes no more messages.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SinkError {
    /// The primary has an earlier version than the one that changes were asked from.
    #[error("its serial {theirs} is earlier than {ours}, which is served; `zonda zone retransfer` accepts it")]
    EarlierSerial {
        /// The serial of the primary.
        theirs: u32,
        /// The serial that changes were asked from.
        ours: u32,
    },
    /// What is wrong with the zone or the changes.
    #[error("{0}")]
    Contents(String),
}

/// Why a transfer failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransferFailure {
    /// The response has this RCODE.
    #[error("the primary answers {0}")]
    Rcode(Rcode),
    /// The answer to a SOA query is of no use.
    #[error(transparent)]
    Soa(#[from] UselessAnswer),
    /// RFC 6891 7: it answers FORMERR to a query with OPT.
    #[error("the primary does not know EDNS")]
    NoEdns,
    /// A signature is missing or wrong.
    #[error("{0}")]
    Tsig(#[from] TsigError),
    /// The zone or the changes in the response are not acceptable.
    #[error(transparent)]
    Contents(#[from] SinkError),
    /// A response that belongs to no query, is truncated or too short.
    #[error("the primary sends messages that answer no query")]
    OutOfProtocol,
    /// A transfer that was given up goes on for too long.
    #[error("the primary keeps sending a transfer that was given up")]
    Unwanted,
    /// No octet arrived for [`SessionLimits::stall_ms`].
    #[error("the primary has sent nothing for {0} s")]
    Stalled(u64),
    /// It takes longer than [`SessionLimits::max_transfer_ms`].
    #[error("the transfer did not end within {0} minutes")]
    TooLong(u64),
    /// Fewer octets arrived than [`SessionLimits::min_rate`] demands.
    #[error("the primary sends fewer than {0} octets per second")]
    TooSlow(u64),
    /// The connection ended.
    #[error("the connection to the primary was closed: {0}")]
    Closed(String),
}

/// The counts of one transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExchangeCounts {
    /// Octets of its messages.
    pub octets: u64,
    /// Messages.
    pub messages: u64,
    /// From the query to the last message, in milliseconds.
    pub duration_ms: u64,
    /// The EXPIRE option of the first message (RFC 7314).
    pub expire_s: Option<u32>,
}

/// What is exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExchangeKind {
    /// A SOA query.
    Probe,
    /// AXFR or IXFR.
    Transfer,
    /// NOTIFY.
    Notify,
}

/// The end of an exchange.
pub enum SessionEvent<T> {
    /// A NOTIFY was answered, or not.
    Notified {
        /// The zone.
        zone: ZoneId,
        /// The message: a NOTIFY of a later version may be in flight.
        id: NotifyId,
        /// The RCODE, and what is wrong with the signature; none if there was no response.
        response: Option<(Rcode, Option<TsigError>)>,
    },
    /// A SOA query has its result.
    Probed {
        /// The zone.
        zone: ZoneId,
        /// The result.
        result: ProbeResult,
        /// Why there is no serial.
        failure: Option<TransferFailure>,
    },
    /// A transfer has ended.
    Transferred {
        /// The zone.
        zone: ZoneId,
        /// What received its messages, with the zone in it if there is no failure.
        sink: T,
        /// Why it failed.
        failure: Option<TransferFailure>,
        /// Its counts.
        counts: ExchangeCounts,
    },
}

impl<T> SessionEvent<T> {
    /// The zone, and what was exchanged.
    pub fn key(&self) -> (ZoneId, ExchangeKind) {
        match self {
            SessionEvent::Notified { zone, .. } => (*zone, ExchangeKind::Notify),
            SessionEvent::Probed { zone, .. } => (*zone, ExchangeKind::Probe),
            SessionEvent::Transferred { zone, .. } => (*zone, ExchangeKind::Transfer),
        }
    }
}

/// The limits of a session.
#[derive(Clone, Copy, Debug)]
pub struct SessionLimits {
    /// How long a primary may send nothing while it owes a response, in milliseconds.
    pub stall_ms: u64,
    /// The least octets per second over [`SessionLimits::rate_window_ms`] in which no exchange ends.
    pub min_rate: u64,
    /// The same while requests wait for a connection, and all connections are in use.
    pub min_rate_if_full: u64,
    /// The time over which the rate is measured, in milliseconds.
    pub rate_window_ms: u64,
    /// How long a transfer may take, in milliseconds.
    pub max_transfer_ms: u64,
}

impl Default for SessionLimits {
    fn default() -> SessionLimits {
        SessionLimits {
            stall_ms: 10_000,
            min_rate: 512,
            // With 256 connections, a line of 34 Mbit/s: whoever has so many busy ones has more.
            min_rate_if_full: 16 << 10,
            rate_window_ms: 20_000,
            // A gigabyte, which is a zone of 15 million records, over a line of 1.2 Mbit/s.
            max_transfer_ms: 7_200_000,
        }
    }
}

/// Messages of a transfer that was given up: 16 are a megabyte at most.
const MAX_DISCARDED_MESSAGES: u32 = 16;
/// Transfers given up on one connection, whose IDs are not used again. After so many, it gets no new exchanges.
const MAX_DISCARDED: usize = 1024;

/// An exchange that was passed over is given up after so many times [`SessionLimits::stall_ms`].
const PASSED_OVER_STALLS: u64 = 3;

/// A connection with its exchanges.
pub struct Session<T> {
    key: Option<Arc<TsigKey>>,
    /// Whether queries are padded.
    is_padded: bool,
    uses_edns: bool,
    exchanges: HashMap<u16, Exchange<T>>,
    /// The IDs of transfers that were given up, with the messages that came since.
    discarded: HashMap<u16, u32>,
    /// Of these, the IDs that [`Session::take_cancelled`] has not returned yet.
    cancelled: Vec<u16>,
    /// An incomplete message with its length prefix.
    input: Vec<u8>,
    output: Vec<u8>,
    /// Exchanges that ended with a response.
    answered: u64,
    /// When the latest exchange began that was answered.
    latest_answered_ms: u64,
    /// When it was last looked for exchanges that were passed over.
    looked_ms: u64,
    /// When the last octet arrived, or the first query since the session was idle was sent.
    progress_ms: u64,
    window_start_ms: u64,
    window_octets: u64,
    /// The octets per second of the last whole window, if no exchange has ended since it began.
    rate: Option<u64>,
    limits: SessionLimits,
    random: Rng,
}

impl<T: TransferSink> Session<T> {
    /// A session whose queries are signed with this key.
    pub fn new(key: Option<Arc<TsigKey>>, limits: SessionLimits, seed: u64, now: Now) -> Session<T> {
        Session {
            key,
            is_padded: false,
            uses_edns: true,
            exchanges: HashMap::new(),
            discarded: HashMap::new(),
            cancelled: Vec::new(),
            input: Vec::new(),
            output: Vec::new(),
            answered: 0,
            latest_answered_ms: 0,
            looked_ms: now.ms,
            progress_ms: now.ms,
            window_start_ms: now.ms,
            window_octets: 0,
            rate: None,
            limits,
            random: Rng::with_seed(seed),
        }
    }

    /// Pads the queries if the connection is encrypted (RFC 7830 6; RFC 9250 5.4 requires it).
    pub fn padded(self, is_encrypted: bool) -> Session<T> {
        Session { is_padded: is_encrypted, ..self }
    }

    /// Whether the next queries have an OPT record.
    pub fn set_edns(&mut self, uses_edns: bool) {
        self.uses_edns = uses_edns;
    }

    /// Asks for the SOA record.
    pub fn probe(&mut self, zone: ZoneId, apex: NameRef<'_>, now: Now) {
        self.begin(zone, apex, QueryKind::Soa, Purpose::Probe(apex.to_owned()), now);
    }

    /// Announces a version with this SOA RDATA.
    pub fn notify(&mut self, zone: ZoneId, id: NotifyId, apex: NameRef<'_>, soa: &[u8], now: Now) {
        self.begin(zone, apex, QueryKind::Notify(soa), Purpose::Notify(id), now);
    }

    /// Starts an IXFR from this serial, or an AXFR, whose messages `sink` takes.
    pub fn transfer(&mut self, zone: ZoneId, apex: NameRef<'_>, from_serial: Option<u32>, sink: T, now: Now) {
        let kind = from_serial.map_or(QueryKind::Axfr, QueryKind::Ixfr);
        self.begin(zone, apex, kind, Purpose::Transfer(sink), now);
    }

    fn begin(&mut self, zone: ZoneId, apex: NameRef<'_>, kind: QueryKind<'_>, purpose: Purpose<T>, now: Now) {
        if self.exchanges.is_empty() {
            self.progress(now);
            (self.progress_ms, self.looked_ms) = (now.ms, now.ms);
        }
        let mut id = self.random.u16(..);
        while self.exchanges.contains_key(&id) || self.discarded.contains_key(&id) {
            id = self.random.u16(..); // The caller has far fewer than 65,536 in flight.
        }
        let key = self.key.as_deref();
        let edns = match (self.uses_edns, self.is_padded) {
            (false, _) => EdnsUse::None,
            (true, false) => EdnsUse::Plain,
            (true, true) => EdnsUse::Padded,
        };
        let query = OutgoingQuery::with_edns(id, apex, kind, key, now.s.into(), edns);
        // RFC 1035 4.2.2: preceded by its length.
        self.output.extend(frame(query.octets()));
        let verifier = query.verifier(self.key.as_ref());
        self.exchanges.insert(id, Exchange::new(zone, query, verifier, purpose, now));
    }

    /// Octets to send.
    pub fn output(&self) -> &[u8] {
        &self.output
    }

    /// The first `len` octets of the output were sent.
    pub fn sent(&mut self, len: usize) {
        self.output.drain(..len);
    }

    /// Received octets; calls `event` for each exchange that ends. After an error the session must be closed.
    pub fn receive(
        &mut self,
        mut octets: &[u8],
        now: Now,
        mut event: impl FnMut(SessionEvent<T>),
    ) -> Result<(), TransferFailure> {
        self.progress_ms = now.ms;
        self.window_octets += octets.len() as u64;
        // A message that began earlier is completed first; all others are read where they are.
        while !self.input.is_empty() && !octets.is_empty() {
            let (more, rest) = octets.split_at(missing_len(&self.input).min(octets.len()));
            self.input.extend_from_slice(more);
            octets = rest;
            if missing_len(&self.input) == 0 {
                let complete = std::mem::take(&mut self.input);
                self.message(&complete[PREFIX_LEN..], now, &mut event)?;
            }
        }
        while let Some((message, rest)) = split_message(octets) {
            self.message(message, now, &mut event)?;
            octets = rest;
        }
        self.input.extend_from_slice(octets);
        Ok(())
    }

    /// Octets of a message have arrived that its stream keeps until it is complete.
    pub fn part_arrived(&mut self, id: u16, octets: usize, now: Now) {
        if let Some(exchange) = self.exchanges.get_mut(&id) {
            exchange.last_ms = now.ms;
            self.progress_ms = now.ms;
            self.window_octets += octets as u64;
        }
    }

    /// Whether the response to this query is not complete.
    pub fn awaits(&self, id: u16) -> bool {
        self.exchanges.contains_key(&id)
    }

    fn message(
        &mut self,
        message: &[u8],
        now: Now,
        event: &mut impl FnMut(SessionEvent<T>),
    ) -> Result<(), TransferFailure> {
        let id = message.first_chunk().map(|id| u16::from_be_bytes(*id)).ok_or(TransferFailure::OutOfProtocol)?;
        let exchange = self.exchanges.get_mut(&id).filter(|exchange| exchange.query.is_answered_by(message));
        let Some(exchange) = exchange else { return self.discard(id) };
        let Some(end) = exchange.receive(message, now).or_else(|| exchange.too_long(&self.limits, now)) else {
            return Ok(());
        };
        let exchange = self.exchanges.remove(&id).expect("it was just found");
        if exchange.is_cut_off(&end) {
            self.give_up(id);
        }
        self.answered += 1;
        self.latest_answered_ms = self.latest_answered_ms.max(exchange.began_ms);
        self.progress(now);
        event(exchange.into_event(end, now));
        Ok(())
    }

    fn give_up(&mut self, id: u16) {
        self.discarded.insert(id, 0);
        self.cancelled.push(id);
    }

    /// The IDs of the exchanges that were given up since the last call.
    pub fn take_cancelled(&mut self) -> Vec<u16> {
        std::mem::take(&mut self.cancelled)
    }

    /// A message of a transfer that was given up: a bad zone must not end the transfers of others, unless it goes on for long.
    fn discard(&mut self, id: u16) -> Result<(), TransferFailure> {
        let is_crowded = self.discarded.len() > MAX_DISCARDED;
        let messages = self.discarded.get_mut(&id).ok_or(TransferFailure::OutOfProtocol)?;
        *messages += 1;
        if *messages > MAX_DISCARDED_MESSAGES || is_crowded { Err(TransferFailure::Unwanted) } else { Ok(()) }
    }

    /// An exchange ended, or the first began: the rate is measured anew.
    fn progress(&mut self, now: Now) {
        (self.window_start_ms, self.window_octets, self.rate) = (now.ms, 0, None);
    }

    /// Fails if the primary stalls or trickles: the session must be closed.
    pub fn check_progress(&mut self, now: Now) -> Result<(), TransferFailure> {
        if self.exchanges.is_empty() {
            return Ok(());
        }
        if now.ms.saturating_sub(self.progress_ms) >= self.limits.stall_ms {
            return Err(TransferFailure::Stalled(self.limits.stall_ms / 1000));
        }
        let window_ms = now.ms.saturating_sub(self.window_start_ms);
        if window_ms >= self.limits.rate_window_ms {
            if self.window_octets < self.limits.min_rate * self.limits.rate_window_ms / 1000 {
                return Err(TransferFailure::TooSlow(self.limits.min_rate));
            }
            let rate = self.window_octets * 1000 / window_ms;
            self.progress(now);
            self.rate = Some(rate);
        }
        Ok(())
    }

    /// The octets per second of a connection on which no exchange ends.
    pub fn rate(&self) -> Option<u64> {
        self.rate
    }

    /// Ends the exchanges that the primary has passed over: it has answered a later query, and nothing has come for them for long. Others may
    /// keep the connection busy for ever.
    pub fn end_passed_over(&mut self, now: Now) -> Vec<SessionEvent<T>> {
        if now.ms.saturating_sub(self.looked_ms) < self.limits.stall_ms {
            return Vec::new();
        }
        self.looked_ms = now.ms;
        let (silence_ms, latest_ms) = (PASSED_OVER_STALLS * self.limits.stall_ms, self.latest_answered_ms);
        // RFC 7766 6.2.1.1: a primary that answers in order answers no later query; it may be in the middle of a long transfer.
        let is_passed_over = |exchange: &Exchange<T>| {
            exchange.last_ms < latest_ms && now.ms.saturating_sub(exchange.last_ms) >= silence_ms
        };
        let ended: Vec<_> = self.exchanges.extract_if(|_, exchange| is_passed_over(exchange)).collect();
        ended.iter().for_each(|(id, _)| self.give_up(*id));
        let failure = TransferFailure::Stalled(silence_ms / 1000);
        ended.into_iter().map(|(_, exchange)| exchange.into_failed(failure.clone(), now)).collect()
    }

    /// When [`Session::check_progress`] and [`Session::end_passed_over`] must be called, in milliseconds.
    pub fn next_time(&self) -> Option<u64> {
        let look_ms = self.looked_ms + self.limits.stall_ms;
        let (stall_ms, rate_ms) =
            (self.progress_ms + self.limits.stall_ms, self.window_start_ms + self.limits.rate_window_ms);
        (!self.exchanges.is_empty()).then_some(stall_ms.min(rate_ms).min(look_ms))
    }

    /// Ends all exchanges. Those of which nothing has arrived fail with `has_started` false.
    pub fn close(self, failure: &TransferFailure, now: Now, mut event: impl FnMut(SessionEvent<T>, bool)) {
        for exchange in self.exchanges.into_values() {
            let has_started = exchange.has_started();
            event(exchange.into_failed(failure.clone(), now), has_started);
        }
    }

    /// How many exchanges are in flight.
    pub fn in_flight(&self) -> usize {
        self.exchanges.len()
    }

    /// Whether there may be more exchanges: one without a free ID could not begin.
    pub fn has_free_ids(&self) -> bool {
        self.discarded.len() < MAX_DISCARDED
    }

    /// How many exchanges have ended with a response.
    pub fn answered(&self) -> u64 {
        self.answered
    }

    /// The octets of the largest transfer in flight.
    pub fn largest_transfer(&self) -> u64 {
        self.exchanges.values().map(|exchange| exchange.counts.octets).max().unwrap_or(0)
    }
}
