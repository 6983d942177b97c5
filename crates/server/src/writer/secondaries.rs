//! Secondary zones: serves what the transfer thread receives.
//!
//! A received zone is built and checked in a pool. Then the writer serves it, unless the zone has changed meanwhile, and reports
//! the result to the transfer thread.

use std::sync::mpsc::Sender;
use std::time::Duration;

use answer::ReceivedNotify;
use tracing::{debug, error, info, warn};
use wire::NameRef;
use zone::{Finding, Zone};

use super::last_transfers::LastTransfers;
use super::received_zone::{self, FinishedTransfer, ReceivedError, ZoneReceiver};
use super::unreachable_primaries::UnreachablePrimaries;
use super::{Writer, WriterEvent};
use crate::clock;
use crate::rate_limited_log::RateLimitedLog;
use crate::storage::Timers;
use crate::transfer::engine::{TransferCommand, TransferEvent, TransferReport};
use crate::transfer::network::TransferHandle;
use crate::transfer::refresh::CheckFailure;
use crate::transfer::session::ExchangeCounts;
use crate::transfer::soa_timers::{SoaTimers, StoredTimers};
use crate::zone_id::ZoneId;
use crate::zone_status;
use crate::zone_totals::ReceivedTotals;
use crate::zones::acceptance;
use crate::zones::zone_pools::ZonePools;

/// What the writer keeps for secondary zones.
pub(super) struct Secondaries {
    transfers: TransferHandle,
    /// Whether the transfer thread is still to look for commands.
    has_sent: bool,
    /// Build and check the received zones.
    pools: ZonePools<FinishedTransfer>,
    last: LastTransfers,
    totals: ReceivedTotals,
    unreachable: UnreachablePrimaries,
    /// Limits the lines about zones that are not refreshed.
    check_log: RateLimitedLog,
}

/// A primary that fails may fail for all of a million zones; `zonda zone status` tells them apart.
const CHECK_LOG: RateLimitedLog = RateLimitedLog::new(100, Duration::from_secs(60));
/// The most threads that build transferred zones without a command.
const BUILD_THREADS: usize = 2;

impl Secondaries {
    /// For the transfer thread with this handle, whose events go to the writer's queue.
    pub(super) fn new(events: Sender<WriterEvent>, transfers: TransferHandle) -> Secondaries {
        let done = move |_, finished: Option<FinishedTransfer>| match finished {
            Some(finished) => _ = events.send(WriterEvent::TransferFinished(Box::new(finished))),
            // Building catches panics, so that this is one after it.
            None => error!("zonda panicked after building a transferred zone; this is a bug, please report it"),
        };
        Secondaries {
            transfers,
            has_sent: false,
            pools: ZonePools::new(BUILD_THREADS, done),
            last: LastTransfers::default(),
            totals: ReceivedTotals::default(),
            unreachable: UnreachablePrimaries::default(),
            check_log: CHECK_LOG,
        }
    }

    /// Commands for the transfer thread.
    pub(super) fn handle(&self) -> &TransferHandle {
        &self.transfers
    }

    /// The last transfer of a zone, and why it is not current.
    pub(super) fn last(&self, zone: ZoneId) -> (Option<zone_status::LastTransfer>, Option<String>) {
        self.last.get(zone)
    }

    /// What was received since the start.
    pub(super) fn totals(&self) -> ReceivedTotals {
        self.totals
    }

    /// The zone was removed.
    pub(super) fn forget(&mut self, zone: ZoneId) {
        self.last.forget(zone);
    }

    /// Sends a command, which the transfer thread sees after [`Secondaries::wake_transfers`] at the latest: to wake it for each of
    /// thousands of small zones takes longer than to serve them.
    pub(super) fn send(&mut self, command: TransferCommand) {
        // Fails only if the thread has ended, which it has logged.
        _ = self.transfers.send_later(command);
        self.has_sent = true;
    }

    /// To be called after every batch of events.
    pub(super) fn wake_transfers(&mut self) {
        if std::mem::take(&mut self.has_sent) {
            self.transfers.wake();
        }
    }
}

impl Writer {
    pub(super) fn handle_transfer(&mut self, event: TransferEvent<ZoneReceiver>) {
        match event {
            TransferEvent::Received { zone, sink, report } => self.build_received(zone, sink, report),
            TransferEvent::Failed { zone, report } => {
                let reason = report.failure.as_ref().map(ToString::to_string).unwrap_or_default();
                match report.counts == ExchangeCounts::default() {
                    true => self.secondaries.unreachable.note(report.primary, &reason, clock::now()),
                    false => self.log_zone(zone, |apex| log_failed(apex, &report, &reason)),
                }
                let problem = format!("the last transfer failed: {reason}");
                self.note_failed(zone, &report, &reason, &problem);
            }
            TransferEvent::CheckFailed { reason: CheckFailure::Transfer, .. } => (),
            TransferEvent::Unreachable { primary, reason } => {
                self.secondaries.unreachable.note(primary, &reason, clock::now());
            }
            TransferEvent::CheckFailed { zone, reason, details } => {
                let reason = details.map_or_else(|| reason.to_string(), |details| format!("{reason}: {details}"));
                if let Some(left_out) = self.secondaries.check_log.permit() {
                    self.log_zone(zone, |apex| warn!(zone = %apex, left_out, "not refreshed: {reason}"));
                }
                if self.zones.served(zone).is_some() {
                    self.secondaries.last.set_problem(zone, &reason);
                }
            }
            // It was frozen, or has lost its primaries, after the transfer thread had sent this.
            TransferEvent::Refreshed { zone, .. } | TransferEvent::Expired { zone } if !self.has_timers(zone) => (),
            TransferEvent::Refreshed { zone, timers } => {
                self.zones.refreshed(zone, timers.expires_at_s);
                self.store_timers(zone, timers);
                self.secondaries.last.clear_problem(zone);
            }
            TransferEvent::Timers(zones) => {
                for (zone, timers) in zones {
                    self.set_timers(zone, timers);
                }
            }
            TransferEvent::Expired { zone } => {
                if let Some(left_out) = self.secondaries.check_log.permit() {
                    // Primaries may answer all the time, with versions that are refused.
                    let (_, problem) = self.secondaries.last(zone);
                    let reason = problem.as_deref();
                    self.log_zone(zone, |apex| {
                        error!(zone = %apex, left_out, reason, "expired: within the EXPIRE time no primary has confirmed its version or sent one that could be served");
                    });
                }
                self.zones.expire(zone);
            }
        }
    }

    /// Passes on a NOTIFY that the access list of its zone permits.
    pub(super) fn receive_notify(&mut self, notify: &ReceivedNotify) {
        let ReceivedNotify { apex, serial, from } = notify;
        debug!(zone = %apex, serial, %from, "NOTIFY received");
        let Some(zone) = self.zones.find(apex.as_ref()) else { return };
        // The sender has its answer and does not repeat it: where the queue is full, this waits.
        self.secondaries.send(TransferCommand::NotifyReceived { zone, serial: *serial, from: *from });
    }

    fn build_received(&mut self, zone: ZoneId, sink: ZoneReceiver, report: TransferReport) {
        let base = self.zones.version_or_expired(zone).cloned();
        let Some(policy) = self.zones.policy(zone).cloned() else { return };
        let (is_quick, command) = (sink.is_quick(base.as_ref(), &policy), acceptance::command_lane(&policy));
        let finish = move || {
            let result = received_zone::finish(sink, base.as_ref(), &policy);
            FinishedTransfer { zone, base, policy, result, report }
        };
        match is_quick {
            true => self.finish_transfer(finish()),
            false => _ = self.secondaries.pools.submit(command, finish),
        }
    }

    /// Serves a transferred zone that was built and checked.
    pub(super) fn finish_transfer(&mut self, finished: FinishedTransfer) {
        let FinishedTransfer { zone, base, policy, result, report } = finished;
        let version = match result {
            Ok(version) => version,
            Err(error) => return self.reject(zone, &report, &error),
        };
        let (serial, timers) =
            (version.zone.serial(), SoaTimers::of_soa(&version.zone.soa_rdata()).unwrap_or_default());
        // A check command may take minutes, and the primary may be one no more.
        let has_its_primaries = self.zones.policy(zone).is_some_and(|now| now.primaries == policy.primaries);
        if !has_its_primaries || !self.zones.serve_transferred(zone, base.as_ref(), version.zone, &version.changes) {
            // The zone was changed or removed meanwhile.
            return self.secondaries.send(TransferCommand::Outdated { zone });
        }
        self.log_findings(zone, &version.findings);
        for remark in &version.remarks {
            self.log_zone(zone, |apex| warn!(zone = %apex, serial, "{remark}"));
        }
        let is_ixfr = !version.changes.is_empty();
        self.log_zone(zone, |apex| log_received(apex, &report, is_ixfr, serial));
        self.transfer_burst.add(clock::now(), report.records);
        self.secondaries.last.succeeded(zone, &report, is_ixfr, serial, clock::real_s());
        let totals = &mut self.secondaries.totals;
        *(if is_ixfr { &mut totals.ixfr } else { &mut totals.axfr }) += 1;
        totals.octets += report.counts.octets;
        self.secondaries.unreachable.remove(report.primary);
        let expire_s = report.counts.expire_s;
        // With the image: without times, a restart would not serve it. Exact ones follow.
        let (check_at_s, lifetime_s) = (clock::real_s(), expire_s.unwrap_or(timers.expire_s));
        self.store_timers(zone, StoredTimers { check_at_s, expires_at_s: check_at_s.saturating_add(lifetime_s) });
        self.secondaries.send(TransferCommand::Published { zone, serial, timers, expire_s });
    }

    fn log_findings(&self, zone: ZoneId, findings: &[Finding]) {
        let (logged, left_out) = findings.split_at(findings.len().min(MAX_LOGGED_FINDINGS));
        for finding in logged {
            self.log_zone(zone, |apex| warn!(zone = %apex, "{finding}"));
        }
        if !left_out.is_empty() {
            let (left_out, help) = (left_out.len(), "`zonda check` lists all of the exported zone");
            self.log_zone(zone, |apex| warn!(zone = %apex, left_out, help, "the zone has more warnings"));
        }
    }

    /// The times of a zone by the clock have changed, or are to be stored again.
    fn set_timers(&mut self, zone: ZoneId, timers: StoredTimers) {
        if self.has_timers(zone) {
            self.zones.set_expiry(zone, timers.expires_at_s);
            self.store_timers(zone, timers);
        }
    }

    /// Whether a zone is refreshed and expires: a frozen zone is not, nor one without primaries.
    fn has_timers(&self, zone: ZoneId) -> bool {
        self.zones.is_secondary(zone) && !self.zones.is_frozen(zone)
    }

    /// Keeps the timers across restarts.
    fn store_timers(&mut self, zone: ZoneId, timers: StoredTimers) {
        let source_serial = self.zones.version_or_expired(zone).map_or(0, Zone::serial);
        let timers = Timers {
            stored_at_s: clock::real_s(),
            next_refresh_s: timers.check_at_s,
            expires_at_s: timers.expires_at_s,
            source_serial,
            ..Timers::default()
        };
        self.zones.store_timers(zone, timers);
    }

    fn reject(&mut self, zone: ZoneId, report: &TransferReport, error: &ReceivedError) {
        let reason = error.to_string();
        // A primary whose version stays as it is is asked again and again.
        if self.secondaries.last(zone).1.as_ref() != Some(&reason) {
            self.log_zone(zone, |apex| log_failed(apex, report, &reason));
        }
        self.note_failed(zone, report, &reason, &reason);
        self.secondaries.send(TransferCommand::Rejected { zone, needs_whole_zone: error.needs_whole_zone() });
    }

    /// Unless it was removed meanwhile: another zone may have its index.
    fn note_failed(&mut self, zone: ZoneId, report: &TransferReport, failure: &str, problem: &str) {
        self.secondaries.totals.failed += 1;
        if self.zones.served(zone).is_some() {
            self.secondaries.last.failed(zone, report, failure, problem, clock::real_s());
        }
    }

    fn log_zone(&self, zone: ZoneId, log: impl FnOnce(NameRef<'_>)) {
        if let Some(served) = self.zones.served(zone) {
            log(served.apex());
        }
    }
}

/// Findings about one transferred zone that are logged.
const MAX_LOGGED_FINDINGS: usize = 5;

/// One line per transfer. A whole zone in response to IXFR is an AXFR (RFC 1995 4).
fn log_received(apex: NameRef<'_>, report: &TransferReport, is_ixfr: bool, serial: u32) {
    let TransferReport { primary, from_serial, records, .. } = report;
    let ExchangeCounts { octets, messages, duration_ms, .. } = report.counts;
    let kind = kind(is_ixfr);
    info!(zone = %apex, %primary, kind, from_serial, serial, records, octets, messages, duration_ms, "zone received");
}

/// One line per transfer that failed, or whose version is not served.
fn log_failed(apex: NameRef<'_>, report: &TransferReport, failure: &str) {
    let TransferReport { primary, from_serial, records, .. } = report;
    let ExchangeCounts { octets, messages, duration_ms, .. } = report.counts;
    let kind = kind(from_serial.is_some());
    warn!(zone = %apex, %primary, kind, from_serial, records, octets, messages, duration_ms, failure, "zone transfer failed");
}

fn kind(is_ixfr: bool) -> &'static str {
    if is_ixfr { "ixfr" } else { "axfr" }
}
