//! The secondary without its sockets: ties the scheduler, the probes, the sessions and the NOTIFY sender together.
//!
//! The daemon's network thread and the simulation drive it: they call it with what arrived and the time, and carry out what it
//! asks of its [`TransferIo`].

mod check_failures;
mod clock_steps;
mod commands;
mod connection_end;
mod connections;
mod events;
mod link_schedule;
mod notify_streams;
mod probes;
mod refusal_log;
#[cfg(test)]
mod simulation;

use std::collections::HashMap;

use wire::message::Rcode;

use super::Now;
use super::apex_table::ApexTable;
use super::link::{ConnectionId, Link, Request, RequestPurpose};
use super::notify_sender::{NotifyCounters, NotifySender};
use super::primary::PrimaryId;
use super::refresh::{
    CheckFailure, ProbeResult, RefreshAction, RefreshLimits, RefreshScheduler, RefreshStatus, TransferResult,
    ZoneVersion,
};
use super::session::{ExchangeCounts, SessionLimits, SinkError, TransferFailure, TransferSink};
use super::soa_probe::SoaProber;
use super::soa_timers::StoredTimers;
use crate::zone_id::ZoneId;
use check_failures::CheckFailures;
use clock_steps::ClockSteps;
pub use commands::TransferCommand;
pub use events::{RequestedTransfer, TransferEvent, TransferIo, TransferReport};
use fastrand::Rng;
use link_schedule::LinkSchedule;
use notify_streams::StreamTarget;
use refusal_log::PeerRefusalLog;

/// The limits of the engine.
#[derive(Clone, Copy, Debug)]
pub struct EngineLimits {
    /// Those of the scheduler.
    pub refresh: RefreshLimits,
    /// Those of sessions.
    pub session: SessionLimits,
    /// How long a connection may take to be established, in milliseconds.
    pub connect_ms: u64,
    /// How long an idle connection is kept, in milliseconds (RFC 7766 6.2.3: the client closes it as soon as possible).
    pub idle_ms: u64,
    /// The same for an encrypted one, which costs a handshake.
    pub idle_encrypted_ms: u64,
    /// Connections to all primaries. At most half of them are to primaries that could not be reached the last time.
    pub connections: usize,
}

impl Default for EngineLimits {
    fn default() -> EngineLimits {
        EngineLimits {
            refresh: RefreshLimits::default(),
            session: SessionLimits::default(),
            connect_ms: 5000,
            // NSD 4.15 finishes a reload, and announces what it brought, when the connections to its old processes have ended, or
            // after 3 seconds: an idle connection delays its next change. Work for the same primary comes in bursts, within which
            // no connection is idle for so long.
            idle_ms: 10,
            idle_encrypted_ms: 200,
            connections: 256,
        }
    }
}

/// A transfer that has ended on its connection.
struct EndedTransfer<T> {
    request: Request,
    sink: T,
    failure: Option<TransferFailure>,
    counts: ExchangeCounts,
}

/// The state of the secondary.
pub struct TransferEngine<T> {
    scheduler: RefreshScheduler,
    notify: NotifySender,
    apexes: ApexTable,
    links: HashMap<PrimaryId, Link<T>>,
    schedule: LinkSchedule,
    /// The primary of each connection.
    by_connection: HashMap<ConnectionId, PrimaryId>,
    next_connection: u64,
    stream_targets: HashMap<PrimaryId, StreamTarget>,
    refusal_log: PeerRefusalLog,
    check_failures: CheckFailures,
    clock_steps: ClockSteps,
    /// The zone whose times by the new clock are reported next, after the clock was set.
    next_reported: Option<u32>,
    /// Published versions whose times, as the scheduler counts, the writer does not know yet.
    published: Vec<(ZoneId, StoredTimers)>,
    /// Times that the writer asked for, as the scheduler counts.
    asked_for: Vec<(ZoneId, StoredTimers)>,
    random: Rng,
    limits: EngineLimits,
}

impl<T: TransferSink> TransferEngine<T> {
    /// An engine without zones.
    pub fn new(limits: EngineLimits, seed: u64) -> TransferEngine<T> {
        let mut random = Rng::with_seed(seed);
        TransferEngine {
            scheduler: RefreshScheduler::new(limits.refresh, random.u64(..)),
            notify: NotifySender::new(random.u64(..)),
            apexes: ApexTable::default(),
            links: HashMap::new(),
            schedule: LinkSchedule::default(),
            by_connection: HashMap::new(),
            next_connection: 0,
            stream_targets: HashMap::new(),
            refusal_log: PeerRefusalLog::default(),
            check_failures: CheckFailures::default(),
            clock_steps: ClockSteps::default(),
            next_reported: None,
            published: Vec::new(),
            asked_for: Vec::new(),
            random,
            limits,
        }
    }

    /// Carries out a command. Call [`TransferEngine::step`] after one or several.
    pub fn command(&mut self, command: TransferCommand, now: Now) {
        let now_s = self.clock_steps.steady_s(now);
        match command {
            TransferCommand::Add { zone, apex, primaries, limits, version } => {
                self.apexes.insert(zone.index, apex.as_ref());
                let stored =
                    |version: &ZoneVersion| version.stored.map(|timers| self.clock_steps.for_scheduler(timers));
                let version = version.map(|version| ZoneVersion { stored: stored(&version), ..version });
                self.scheduler.add(zone, &primaries, limits, version, now_s);
            }
            TransferCommand::Reconfigure { zone, primaries, limits } => {
                self.check_failures.forget(zone);
                self.scheduler.reconfigure(zone, &primaries, limits);
            }
            TransferCommand::EndRefresh(zone) => self.end_refresh(zone),
            TransferCommand::Remove(zone) => {
                self.end_refresh(zone);
                self.notify.remove(zone);
                self.apexes.remove(zone.index);
            }
            TransferCommand::NotifyReceived { zone, serial, from } => {
                self.scheduler.notify(zone, serial, from, now_s);
            }
            TransferCommand::Refresh(zone) => self.scheduler.refresh(zone, now_s),
            TransferCommand::Retransfer(zone) => self.scheduler.retransfer(zone, now_s),
            TransferCommand::Published { zone, serial, timers, expire_s } => {
                let stored = self.scheduler.published(zone, serial, timers, expire_s, now_s);
                self.published.extend(stored.map(|timers| (zone, timers)));
            }
            TransferCommand::Rejected { zone, needs_whole_zone } => {
                self.scheduler.rejected(zone, needs_whole_zone, now_s);
            }
            TransferCommand::Outdated { zone } => self.scheduler.outdated(zone),
            TransferCommand::ReportTimers { zone } => {
                let timers = self.scheduler.timers_of(zone, now_s);
                self.asked_for.extend(timers.map(|timers| (zone, timers)));
            }
            TransferCommand::TlsReplaced => {
                self.retire_encrypted();
                self.scheduler.tls_replaced(now_s);
            }
            TransferCommand::SendNotify { zone, apex, soa, targets } => {
                self.apexes.insert(zone.index, apex.as_ref());
                self.notify.publish(zone, &soa, &targets);
            }
        }
    }

    fn end_refresh(&mut self, zone: ZoneId) {
        self.scheduler.remove(zone);
        self.check_failures.forget(zone);
    }

    /// What `zonda zone status` shows of a zone.
    pub fn status(&self, zone: ZoneId) -> Option<RefreshStatus> {
        let status = self.scheduler.status(zone)?;
        Some(self.clock_steps.status_by_clock(RefreshStatus { problem: self.unreachable_primaries(zone), ..status }))
    }

    /// What happened to NOTIFY messages.
    pub fn notify_counters(&self) -> NotifyCounters {
        self.notify.counters()
    }

    /// Does what is due. Call it after every batch of events, and at [`TransferEngine::next_time`].
    pub fn step(&mut self, now: Now, io: &mut impl TransferIo<Sink = T>) {
        let now_s = self.clock_steps.steady_s(now);
        self.report_clock_step(now_s, io);
        for (zone, timers) in self.published.drain(..) {
            io.event(TransferEvent::Refreshed { zone, timers: self.clock_steps.by_clock(timers) });
        }
        if !self.asked_for.is_empty() {
            let by_clock = |(zone, timers)| (zone, self.clock_steps.by_clock(timers));
            io.event(TransferEvent::Timers(self.asked_for.drain(..).map(by_clock).collect()));
        }
        self.schedule.touch_due(now.ms);
        self.time_out_probes(now, io);
        self.check_connections(now, io);
        while let Some(action) = self.scheduler.next_action(now_s) {
            self.act(action, now, io);
        }
        self.send_notifies(now, io);
        self.assign_requests(now, io);
        for primary in self.schedule.take_touched() {
            let at_ms = self.link_time(primary);
            let is_waiting = self.links.get(&primary).is_some_and(|link| !link.queue.is_empty());
            let waits_for = is_waiting.then(|| self.attempt(primary));
            self.schedule.set(primary, at_ms, waits_for);
        }
    }

    /// When [`TransferEngine::step`] must be called next, in milliseconds; `None` if only after an event.
    pub fn next_time(&self, now: Now) -> Option<u64> {
        let now_s = self.clock_steps.latest_s(now);
        let scheduled = self.scheduler.next_time().map(|at_s| now.ms + u64::from(at_s.saturating_sub(now_s)) * 1000);
        let touched = self.schedule.touched().filter_map(|primary| self.link_time(primary));
        let links = touched.chain(self.schedule.next_time()).chain(self.next_reported.map(|_| now.ms));
        let notify = self.notify.next_time().into_iter().chain(self.stream_target_times());
        links.chain(scheduled).chain(notify).min()
    }

    /// After the clock was set, reports the times of some zones.
    fn report_clock_step(&mut self, now_s: u32, io: &mut impl TransferIo<Sink = T>) {
        if self.clock_steps.take_step() {
            self.next_reported = Some(0);
        }
        let Some(first) = self.next_reported else { return };
        let (mut zones, next) = self.scheduler.stored_timers(first, now_s);
        zones.iter_mut().for_each(|(_, timers)| *timers = self.clock_steps.by_clock(*timers));
        self.next_reported = next;
        io.event(TransferEvent::Timers(zones));
    }

    /// When a link has something to do, in milliseconds.
    fn link_time(&self, primary: PrimaryId) -> Option<u64> {
        let link = self.links.get(&primary)?;
        self.connection_times(link).chain(link.prober.next_time()).chain(link.slow_probe_time()).min()
    }

    fn act(&mut self, action: RefreshAction, now: Now, io: &mut impl TransferIo<Sink = T>) {
        match action {
            RefreshAction::Probe { zone, primary } => self.probe(zone, primary, now, io),
            RefreshAction::Transfer { zone, primary, from_serial, not_before } => {
                self.check_failures.forget(zone);
                let purpose = RequestPurpose::Transfer { from_serial, not_before };
                self.link(primary).queue.push_back(Request { zone, purpose, attempts: 0 });
            }
            RefreshAction::Expire { zone } => io.event(TransferEvent::Expired { zone }),
            RefreshAction::Refreshed { zone, timers } => {
                self.check_failures.forget(zone);
                io.event(TransferEvent::Refreshed { zone, timers: self.clock_steps.by_clock(timers) });
            }
            RefreshAction::CheckFailed { zone, reason } => {
                let details = self.check_failures.take(zone).filter(|_| reason == CheckFailure::NoAnswer);
                io.event(TransferEvent::CheckFailed { zone, reason, details });
            }
            RefreshAction::PrimaryUnused(primary) => self.forget(primary, io),
        }
    }

    /// A link that something is about to happen to.
    fn link(&mut self, primary: PrimaryId) -> &mut Link<T> {
        self.schedule.touch(primary);
        let (scheduler, random) = (&self.scheduler, &mut self.random);
        self.links.entry(primary).or_insert_with(|| {
            let key = scheduler.primary(primary).and_then(|config| config.key.clone());
            Link::new(SoaProber::new(key, random.u64(..)))
        })
    }

    fn forget(&mut self, primary: PrimaryId, io: &mut impl TransferIo<Sink = T>) {
        let Some(link) = self.links.remove(&primary) else { return };
        self.schedule.remove(primary);
        for connection in link.connections.into_keys() {
            self.by_connection.remove(&connection);
            io.close(connection);
        }
        io.forget(primary);
    }

    //---------- Results

    /// Passes the result of a probe on to the scheduler.
    fn probe_result(&mut self, zone: ZoneId, primary: PrimaryId, result: ProbeResult, now: Now) {
        self.scheduler.probe_result(zone, primary, result, self.clock_steps.steady_s(now));
    }

    /// As [`TransferEngine::probe_result`], of a transfer. Returns whether the zone still wants it.
    fn transfer_result(&mut self, zone: ZoneId, primary: PrimaryId, result: TransferResult, now: Now) -> bool {
        self.scheduler.transfer_result(zone, primary, result, self.clock_steps.steady_s(now))
    }

    fn transferred(
        &mut self,
        primary: PrimaryId,
        ended: EndedTransfer<T>,
        now: Now,
        io: &mut impl TransferIo<Sink = T>,
    ) {
        let EndedTransfer { request, sink, failure, counts } = ended;
        let Request { zone, purpose, .. } = request;
        let RequestPurpose::Transfer { from_serial, not_before } = purpose else { return };
        if failure == Some(TransferFailure::NoEdns) {
            let link = self.link(primary);
            link.avoid_edns(now);
            return link.queue.push_front(request);
        }
        if let Some(failure) =
            failure.as_ref().filter(|failure| from_serial.is_some() && may_support_axfr_only(failure))
        {
            self.log_ixfr_failure(zone, primary, failure);
            let purpose = RequestPurpose::Transfer { from_serial: None, not_before };
            return self.link(primary).queue.push_front(Request { purpose, ..request });
        }
        let current = sink.current_serial().filter(|_| failure.is_none());
        let result = match (&failure, current) {
            // RFC 1995 2: it has no later version.
            (Some(TransferFailure::Contents(SinkError::EarlierSerial { theirs, .. })), _) => {
                TransferResult::Current { serial: *theirs, expire_s: None }
            }
            (Some(_), _) => TransferResult::ZoneFailed,
            (None, Some(serial)) => TransferResult::Current { serial, expire_s: counts.expire_s },
            (None, None) => TransferResult::Delivered,
        };
        let Some(address) = self.scheduler.primary(primary).map(|config| config.address) else { return };
        let records = sink.records();
        let report = TransferReport { primary: address, from_serial, counts, records, failure };
        if !self.transfer_result(zone, primary, result, now) || current.is_some() {
            return;
        }
        io.event(match report.failure {
            Some(_) => TransferEvent::Failed { zone, report },
            None => TransferEvent::Received { zone, sink, report },
        });
    }
}

/// RFC 1995 4: a primary without IXFR may refuse it in several ways; and changes that make no sense may be in a sound zone.
fn may_support_axfr_only(failure: &TransferFailure) -> bool {
    match failure {
        TransferFailure::Rcode(rcode) => {
            matches!(*rcode, Rcode::FORMERR | Rcode::NOTIMP | Rcode::REFUSED | Rcode::SERVFAIL)
        }
        TransferFailure::Contents(error) => matches!(error, SinkError::Contents(_)),
        _ => false,
    }
}
