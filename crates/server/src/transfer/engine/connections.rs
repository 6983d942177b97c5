//! The connections of the engine: which exchange goes over which, and what it means when one ends.

use super::super::Now;
use super::super::link::{Connection, ConnectionId, Link, Request, RequestPurpose};
use super::super::primary::PrimaryId;
use super::super::refresh::{ProbeResult, TransferResult};
use super::super::session::{ExchangeCounts, ExchangeKind, Session, SessionEvent, TransferFailure, TransferSink};
use super::connection_end::{ConnectionEnd, EndedConnection, ExchangeOutcome};
use super::link_schedule::Attempt;
use super::{EndedTransfer, RequestedTransfer, TransferEngine, TransferEvent, TransferIo, TransferReport};

/// How often an exchange is tried again after a connection ended before its response.
const MAX_ATTEMPTS: u8 = 3;

impl<T: TransferSink> TransferEngine<T> {
    //---------- Events of the network

    /// A connection was established. Call [`TransferEngine::step`] after one or several of these events.
    pub fn connected(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connection(id) {
            connection.is_established = true;
        }
    }

    /// Octets to send on an established connection.
    pub fn output(&mut self, id: ConnectionId) -> &[u8] {
        self.untouched(id).map_or(&[], |connection| connection.session.output())
    }

    /// The IDs of the exchanges of a connection that were given up since the last call.
    pub fn take_cancelled(&mut self, id: ConnectionId) -> Vec<u16> {
        self.untouched(id).map(|connection| connection.session.take_cancelled()).unwrap_or_default()
    }

    /// Whether the response to a query on a connection is not complete.
    pub fn awaits(&mut self, id: ConnectionId, exchange: u16) -> bool {
        self.untouched(id).is_some_and(|connection| connection.session.awaits(exchange))
    }

    /// Octets of an incomplete message have arrived on a connection.
    pub fn part_arrived(&mut self, id: ConnectionId, exchange: u16, octets: usize, now: Now) {
        if let Some(connection) = self.connection(id) {
            connection.session.part_arrived(exchange, octets, now);
        }
    }

    /// The first `len` octets of the output were sent.
    pub fn sent(&mut self, id: ConnectionId, len: usize) {
        if let Some(connection) = self.connection(id) {
            connection.session.sent(len);
        }
    }

    /// Octets arrived.
    pub fn received(&mut self, id: ConnectionId, octets: &[u8], now: Now, io: &mut impl TransferIo<Sink = T>) {
        let Some(connection) = self.connection(id) else { return };
        let mut events = Vec::new();
        let result = connection.session.receive(octets, now, |event| events.push(event));
        connection.since_ms = now.ms;
        let Some(primary) = self.by_connection.get(&id).copied() else { return };
        let link = self.link(primary);
        link.is_unreachable = false;
        if !events.is_empty() {
            link.heard_ms = Some(now.ms);
        }
        for event in events {
            self.exchange_ended(primary, event, now, io);
        }
        match result {
            Err(failure) => self.end_connection(id, ConnectionEnd::Broken(failure), now, io),
            Ok(()) => {
                if self.links.get_mut(&primary).is_some_and(|link| link.is_spent(id, now)) {
                    self.close(id, io);
                }
            }
        }
    }

    /// The network reports the end of a connection.
    pub fn closed(&mut self, id: ConnectionId, reason: String, now: Now, io: &mut impl TransferIo<Sink = T>) {
        let Some(connection) = self.connection(id) else { return };
        let end = match connection.is_established {
            true => ConnectionEnd::ClosedByPeer(reason),
            false => ConnectionEnd::Unreachable(reason),
        };
        self.end_connection(id, end, now, io);
    }

    fn connection(&mut self, id: ConnectionId) -> Option<&mut Connection<T>> {
        let primary = *self.by_connection.get(&id)?;
        self.schedule.touch(primary);
        self.links.get_mut(&primary)?.connections.get_mut(&id)
    }

    /// A connection whose link stays as it is.
    fn untouched(&mut self, id: ConnectionId) -> Option<&mut Connection<T>> {
        self.links.get_mut(self.by_connection.get(&id)?)?.connections.get_mut(&id)
    }

    #[cfg(test)]
    pub(super) fn connection_is_established(&mut self, id: ConnectionId) -> bool {
        self.connection(id).is_some_and(|connection| connection.is_established)
    }

    //---------- Requests

    /// Gives waiting requests to connections, and opens connections.
    pub(super) fn assign_requests(&mut self, now: Now, io: &mut impl TransferIo<Sink = T>) {
        for primary in self.schedule.touched().collect::<Vec<_>>() {
            // Every turn begins an exchange or opens one of a bounded number of connections.
            while self.assign_next(primary, now, io) {}
        }
        self.end_slowest_if_full(now, io);
        // Those that wait for a connection.
        for attempt in [Attempt::First, Attempt::Again] {
            self.assign_waiting(attempt, now, io);
        }
    }

    /// Some primaries that trickle could hold all connections for hours. While requests wait for one, the slowest connection ends unless it has a
    /// higher rate than is demanded otherwise.
    fn end_slowest_if_full(&mut self, now: Now, io: &mut impl TransferIo<Sink = T>) {
        let are_waiting = [Attempt::First, Attempt::Again].iter().any(|of| self.schedule.waiting_count(*of) > 0);
        if !are_waiting || self.by_connection.len() < self.limits.connections || self.idle_connection().is_some() {
            return;
        }
        let rate = |(id, primary): (&ConnectionId, &PrimaryId)| {
            let connection = self.links.get(primary)?.connections.get(id)?;
            Some((connection.session.rate()?, *id))
        };
        let min_rate = self.limits.session.min_rate_if_full;
        let slowest = self.by_connection.iter().filter_map(rate).min();
        if let Some((_, id)) = slowest.filter(|(rate, _)| *rate < min_rate) {
            self.end_connection(id, ConnectionEnd::Broken(TransferFailure::TooSlow(min_rate)), now, io);
        }
    }

    fn assign_waiting(&mut self, attempt: Attempt, now: Now, io: &mut impl TransferIo<Sink = T>) {
        let mut last = None;
        for _ in 0..self.schedule.waiting_count(attempt) {
            // A connection that ends touches its link.
            if !self.may_open_any(attempt) {
                break;
            }
            let Some(primary) = self.schedule.waiting_after(attempt, last) else { break };
            last = Some(primary);
            while self.assign_next(primary, now, io) {
                self.schedule.touch(primary);
            }
        }
        if last.is_some() {
            self.schedule.end_round(attempt, last);
        }
    }

    /// What the next connection to a primary is.
    pub(super) fn attempt(&self, primary: PrimaryId) -> Attempt {
        let is_unreachable = self.links.get(&primary).is_some_and(|link| link.is_unreachable);
        if is_unreachable { Attempt::Again } else { Attempt::First }
    }

    /// Whether a connection may be opened, in place of an idle one if there are too many. Attempts to reach primaries again, which may
    /// hang for seconds, get half of the connections: others do not wait for them.
    fn may_open_any(&self, attempt: Attempt) -> bool {
        let to_unreachable = || self.by_connection.values().filter(|of| self.attempt(**of) == Attempt::Again).count();
        if attempt == Attempt::Again && to_unreachable() >= self.limits.connections.div_ceil(2) {
            return false;
        }
        self.by_connection.len() < self.limits.connections || self.idle_connection().is_some()
    }

    fn idle_connection(&self) -> Option<ConnectionId> {
        let is_idle = |link: &Link<T>, id: &ConnectionId| link.connections.get(id).is_some_and(Connection::is_idle);
        let mut connections = self.by_connection.iter();
        let idle = connections.find(|(id, of)| self.links.get(of).is_some_and(|link| is_idle(link, id)));
        idle.map(|(id, _)| *id)
    }

    fn assign_next(&mut self, primary: PrimaryId, now: Now, io: &mut impl TransferIo<Sink = T>) -> bool {
        let Some(link) = self.links.get_mut(&primary).filter(|link| !link.queue.is_empty()) else { return false };
        let Some(id) = link.connection_for_next(now) else {
            return link.may_open(now) && self.open(primary, now, io);
        };
        let uses_edns = link.uses_edns(now);
        let (Some(request), Some(connection)) = (link.queue.pop_front(), link.connections.get_mut(&id)) else {
            return false;
        };
        connection.session.set_edns(uses_edns);
        let zone = request.zone;
        let is_notify = matches!(request.purpose, RequestPurpose::Notify(_));
        let Some(apex) = self.apexes.get(zone.index).filter(|_| is_notify || self.scheduler.contains(zone)) else {
            self.not_started(primary, request, now);
            return true;
        };
        match request.purpose {
            RequestPurpose::Probe { .. } => connection.session.probe(zone, apex, now),
            RequestPurpose::Notify(id) => {
                // It may have been answered, or replaced by a later version, meanwhile.
                let Some(soa) = self.notify.soa_of(id) else { return true };
                connection.session.notify(zone, id, apex, soa, now);
            }
            RequestPurpose::Transfer { from_serial, not_before } => {
                let limits = self.scheduler.size_limits(zone);
                let sink = io.new_sink(RequestedTransfer { apex, from_serial, not_before, limits });
                connection.session.transfer(zone, apex, from_serial, sink, now);
            }
        }
        link.active.insert(request.key(), request);
        true
    }

    /// Opens a connection, in place of an idle one if there are too many.
    fn open(&mut self, primary: PrimaryId, now: Now, io: &mut impl TransferIo<Sink = T>) -> bool {
        if !self.may_open_any(self.attempt(primary)) {
            return false;
        }
        if self.by_connection.len() >= self.limits.connections {
            let Some(id) = self.idle_connection() else { return false };
            self.close(id, io);
        }
        let Some(config) = self.scheduler.primary(primary).cloned() else { return false };
        let id = ConnectionId(self.next_connection);
        self.next_connection += 1;
        let session = Session::new(config.key.clone(), self.limits.session, self.random.u64(..), now);
        let is_encrypted = config.tls > 0;
        let idle_ms = if is_encrypted { self.limits.idle_encrypted_ms } else { self.limits.idle_ms };
        let connection = Connection::new(session.padded(is_encrypted), idle_ms, is_encrypted, now);
        self.link(primary).connections.insert(id, connection);
        self.by_connection.insert(id, primary);
        io.connect(id, &config);
        true
    }

    /// The TLS settings were replaced, which may have revoked what open connections were authenticated with: what is in flight on them is the
    /// last.
    pub(super) fn retire_encrypted(&mut self) {
        for (id, primary) in &self.by_connection {
            let connection = self.links.get_mut(primary).and_then(|link| link.connections.get_mut(id));
            if let Some(connection) = connection.filter(|connection| connection.is_encrypted) {
                connection.is_retired = true;
                self.schedule.touch(*primary);
            }
        }
    }

    fn close(&mut self, id: ConnectionId, io: &mut impl TransferIo<Sink = T>) {
        if let Some(primary) = self.by_connection.remove(&id) {
            self.link(primary).connections.remove(&id);
        }
        io.close(id);
    }

    //---------- Ends

    fn exchange_ended(
        &mut self,
        primary: PrimaryId,
        event: SessionEvent<T>,
        now: Now,
        io: &mut impl TransferIo<Sink = T>,
    ) {
        let Some(link) = self.links.get_mut(&primary) else { return };
        match event {
            SessionEvent::Notified { zone, id, response } => {
                let key = (zone, ExchangeKind::Notify);
                // RFC 1996 3.6: that of a later version goes on until it is answered itself.
                let is_latest = |active: &Request| matches!(active.purpose, RequestPurpose::Notify(of) if of == id);
                if link.active.get(&key).is_some_and(is_latest) {
                    link.active.remove(&key);
                }
                if let Some((rcode, tsig_error)) = response {
                    let answer = self.notify.answered(id, rcode, tsig_error);
                    self.log_if_refused(answer);
                }
            }
            SessionEvent::Probed { zone, result, failure } => {
                let request = link.active.remove(&(zone, ExchangeKind::Probe));
                if let (Some(request), Some(TransferFailure::NoEdns)) = (request, &failure) {
                    link.avoid_edns(now);
                    return link.queue.push_front(request);
                }
                if let Some(request) = request {
                    self.stream_probe_answered(primary, request, now);
                }
                if let Some(TransferFailure::Tsig(error)) = &failure {
                    self.log_probe_signature(zone, primary, *error);
                }
                match failure {
                    Some(failure) => self.probe_failed(zone, primary, result, failure.to_string(), now),
                    None => self.probe_result(zone, primary, result, now),
                }
            }
            SessionEvent::Transferred { zone, sink, failure, counts } => {
                let Some(request) = link.active.remove(&(zone, ExchangeKind::Transfer)) else {
                    // Two transfers of the zone were in flight.
                    return self.scheduler.transfer_abandoned(primary);
                };
                self.transferred(primary, EndedTransfer { request, sink, failure, counts }, now, io);
            }
        }
    }

    /// Decides for each exchange of a connection that ended: tried again, or failed.
    fn end_connection(&mut self, id: ConnectionId, end: ConnectionEnd, now: Now, io: &mut impl TransferIo<Sink = T>) {
        let Some(primary) = self.by_connection.remove(&id) else { return };
        self.schedule.touch(primary);
        let Some(link) = self.links.get_mut(&primary) else { return };
        let Some(connection) = link.connections.remove(&id) else { return };
        if !matches!(end, ConnectionEnd::ClosedByPeer(_) | ConnectionEnd::Unreachable(_)) {
            io.close(id);
        }
        let ended = EndedConnection::new(end, &connection.session, link.was_heard_lately(now));
        link.is_unreachable |= ended.is_unreachable;
        if ended.should_degrade() {
            link.degrade(ended.answered, ended.in_flight, now);
        }
        let mut exchanges = Vec::new();
        connection.session.close(&ended.failure, now, |event, has_started| exchanges.push((event, has_started)));
        for (event, has_started) in exchanges {
            let key = event.key();
            let Some(mut request) = self.links.get_mut(&primary).and_then(|link| link.active.remove(&key)) else {
                // Two exchanges for the zone were in flight.
                match event {
                    SessionEvent::Notified { .. } => (),
                    SessionEvent::Probed { zone, result, .. } => self.probe_result(zone, primary, result, now),
                    SessionEvent::Transferred { .. } => self.scheduler.transfer_abandoned(primary),
                }
                continue;
            };
            if let RequestPurpose::Notify(_) = request.purpose {
                continue; // It is sent again after its timeout.
            }
            match ended.outcome_of(has_started) {
                ExchangeOutcome::Unreachable => self.unreachable(primary, request, &ended.failure, now, io),
                ExchangeOutcome::Failed => self.failed_on_connection(primary, request, event, now, io),
                ExchangeOutcome::TryAgain { is_counted } => {
                    request.attempts += u8::from(is_counted);
                    self.try_again(primary, request, event, &ended, now, io);
                }
            }
        }
    }

    fn try_again(
        &mut self,
        primary: PrimaryId,
        request: Request,
        event: SessionEvent<T>,
        ended: &EndedConnection,
        now: Now,
        io: &mut impl TransferIo<Sink = T>,
    ) {
        if request.attempts < MAX_ATTEMPTS {
            self.link(primary).queue.push_back(request);
        } else if ended.answered == 0 {
            // With its reason: a TLS primary refuses this side's certificate after the handshake.
            self.unreachable(primary, request, &ended.failure, now, io);
        } else {
            self.failed_on_connection(primary, request, event, now, io);
        }
    }

    fn failed_on_connection(
        &mut self,
        primary: PrimaryId,
        request: Request,
        event: SessionEvent<T>,
        now: Now,
        io: &mut impl TransferIo<Sink = T>,
    ) {
        match event {
            SessionEvent::Notified { .. } => (),
            SessionEvent::Probed { zone, failure, .. } => {
                let reason = failure.as_ref().map(TransferFailure::to_string).unwrap_or_default();
                self.probe_failed(zone, primary, ProbeResult::Refused, reason, now);
            }
            SessionEvent::Transferred { sink, failure, counts, .. } => {
                self.transferred(primary, EndedTransfer { request, sink, failure, counts }, now, io);
            }
        }
    }

    /// The primary cannot be reached: the scheduler keeps the zone in its queue.
    fn unreachable(
        &mut self,
        primary: PrimaryId,
        request: Request,
        failure: &TransferFailure,
        now: Now,
        io: &mut impl TransferIo<Sink = T>,
    ) {
        let Request { zone, purpose, .. } = request;
        let Some(address) = self.scheduler.primary(primary).map(|config| config.address) else { return };
        let reason = failure.to_string();
        self.link(primary).failure = Some(reason.as_str().into());
        let RequestPurpose::Transfer { from_serial, .. } = purpose else {
            self.probe_failed(zone, primary, ProbeResult::Timeout, reason.clone(), now);
            return io.event(TransferEvent::Unreachable { primary: address, reason });
        };
        if self.transfer_result(zone, primary, TransferResult::PrimaryFailed, now) {
            let (counts, failure) = (ExchangeCounts::default(), Some(failure.clone()));
            let report = TransferReport { primary: address, from_serial, counts, records: 0, failure };
            io.event(TransferEvent::Failed { zone, report });
        }
    }

    /// The zone of a waiting request was removed.
    fn not_started(&mut self, primary: PrimaryId, request: Request, now: Now) {
        match request.purpose {
            RequestPurpose::Notify(_) => (),
            RequestPurpose::Probe { .. } => self.probe_result(request.zone, primary, ProbeResult::NotSent, now),
            RequestPurpose::Transfer { .. } => {
                _ = self.transfer_result(request.zone, primary, TransferResult::NotStarted, now);
            }
        }
    }

    //---------- Time

    /// Ends connections that are not established in time, stall or trickle, and closes idle ones.
    pub(super) fn check_connections(&mut self, now: Now, io: &mut impl TransferIo<Sink = T>) {
        let (mut due, mut passed_over) = (Vec::new(), Vec::new());
        for primary in self.schedule.touched() {
            let Some(link) = self.links.get_mut(&primary) else { continue };
            for (id, connection) in &mut link.connections {
                passed_over.extend(connection.session.end_passed_over(now).into_iter().map(|event| (primary, event)));
                let age_ms = now.ms.saturating_sub(connection.since_ms);
                let end = if !connection.is_established {
                    let is_late = age_ms >= self.limits.connect_ms;
                    is_late.then(|| Some(ConnectionEnd::Unreachable("not established in time".into())))
                } else if connection.is_idle() {
                    (connection.is_retired || age_ms >= connection.idle_ms).then_some(None)
                } else {
                    let failure = connection.session.check_progress(now).err();
                    failure.map(|failure| Some(ConnectionEnd::Broken(failure)))
                };
                due.extend(end.map(|end| (*id, end)));
            }
        }
        for (primary, event) in passed_over {
            self.exchange_ended(primary, event, now, io);
        }
        for (id, end) in due {
            match end {
                Some(end) => {
                    if matches!(end, ConnectionEnd::Unreachable(_)) {
                        io.close(id);
                    }
                    self.end_connection(id, end, now, io);
                }
                None => self.close(id, io),
            }
        }
    }

    pub(super) fn connection_times(&self, link: &Link<T>) -> impl Iterator<Item = u64> {
        link.connections.values().filter_map(|connection| match (connection.is_established, connection.is_idle()) {
            (false, _) => Some(connection.since_ms + self.limits.connect_ms),
            (true, true) => Some(connection.since_ms + connection.idle_ms),
            (true, false) => connection.session.next_time(),
        })
    }
}
