//! Responds to the clients of the control socket. Each of its threads has one [`ControlService`].

use std::sync::mpsc::{RecvError, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use answer::{OccasionalReader, Served};
use wire::Name;
use zone::export::TextExport;

use crate::added_zones::Edit;
use crate::control::{ControlRequest, ControlResponse, STATUS_PAGE, ZoneAction, ZoneFailure};
use crate::frozen_zones::FrozenZones;
use crate::listen::CounterReader;
use crate::metrics;
use crate::transfer::engine::TransferCommand;
use crate::transfer::network::TransferHandle;
use crate::transfer::refresh::RefreshStatus;
use crate::writer::{ControlEvent, ControlResults, EditRequest, StatusPage, StatusRequest, WriterHandle};
use crate::zone_id::ZoneId;
use crate::zone_status::{ZoneStatus, rfc3339};
use crate::zones::ControlRefused;

/// What one thread needs to respond.
pub struct ControlService {
    writer: WriterHandle,
    transfers: TransferHandle,
    /// What is served: reading it needs no writer.
    served: OccasionalReader<Served>,
    frozen_zones: FrozenZones,
    counters: CounterReader,
}

impl ControlService {
    /// A service for one thread.
    pub fn new(
        writer: WriterHandle,
        transfers: TransferHandle,
        served: OccasionalReader<Served>,
        frozen_zones: FrozenZones,
        counters: CounterReader,
    ) -> ControlService {
        ControlService { writer, transfers, served, frozen_zones, counters }
    }

    /// The response, and the text to send after it.
    pub fn respond(&mut self, request: ControlRequest) -> (ControlResponse, Option<TextExport>) {
        match request {
            ControlRequest::Reload => (reload(&self.writer), None),
            ControlRequest::ZoneStatus { zones, from } => (self.status(zones, from), None),
            ControlRequest::ZoneAction { action, zones } => (self.act(action, zones), None),
            ControlRequest::ZoneRollback { zones, to } => (self.roll_back(zones, to), None),
            ControlRequest::ZoneAdd { zones } => (self.edit(zones, parse_addition), None),
            ControlRequest::ZoneRemove { zones } => (self.edit(zones, parse_removal), None),
            ControlRequest::ZoneExport { zone } => self.export(&zone),
            ControlRequest::Metrics => (self.metrics(), None),
        }
    }

    //----------- status and actions -------------------------------------------

    /// One page of all zones, or all the named ones.
    fn status(&self, zones: Vec<String>, from: u32) -> ControlResponse {
        let read = if zones.is_empty() { self.page(zones, from) } else { self.named_zones(zones) };
        let Ok(StatusPage { mut zones, next, not_served, failures }) = read else { return writer_is_gone() };
        zones.chunks_mut(STATUS_PAGE).for_each(|page| self.add_journal(page));
        let zones = zones.into_iter().map(|(id, status)| self.with_refresh_status(id, status));
        let zones = zones.chain(not_served).collect();
        ControlResponse::ZoneStatus { zones, next, failures }
    }

    fn named_zones(&self, zones: Vec<String>) -> Result<StatusPage, WriterIsGone> {
        let mut all = StatusPage::default();
        for names in pages_of(zones) {
            all.append(self.page(names, 0)?);
        }
        Ok(all)
    }

    /// Passes the status of the named zones, or of all, to `visit` in pages. Between two pages the writer changes zones.
    fn visit_pages(
        &self,
        zones: Vec<String>,
        mut visit: impl FnMut(StatusPage) -> Result<(), WriterIsGone>,
    ) -> Result<(), WriterIsGone> {
        if !zones.is_empty() {
            return pages_of(zones).try_for_each(|names| visit(self.page(names, 0)?));
        }
        let mut next = Some(0);
        while let Some(from) = next {
            let page = self.page(Vec::new(), from)?;
            next = page.next;
            visit(page)?;
        }
        Ok(())
    }

    fn page(&self, zones: Vec<String>, from: u32) -> Result<StatusPage, WriterIsGone> {
        let (reply, page) = sync_channel(1);
        self.writer.request_status(StatusRequest { zones, from: from as usize, reply });
        Ok(page.recv()?)
    }

    /// Adds what the storage thread knows.
    fn add_journal(&self, zones: &mut [(ZoneId, ZoneStatus)]) {
        let ids = zones.iter().map(|(id, _)| *id).collect();
        let usage = self.writer.ask(|reply| ControlEvent::JournalOf { zones: ids, reply });
        let usage = usage.recv_timeout(MAX_DISK_WAIT).unwrap_or_default();
        for ((_, status), usage) in zones.iter_mut().zip(usage) {
            status.journal = usage;
        }
    }

    /// The metrics of the listeners, of zones, of NOTIFY and of the journal.
    fn metrics(&self) -> ControlResponse {
        let totals = self.writer.ask(|reply| ControlEvent::Totals { reply });
        let usage = self.writer.ask(|reply| ControlEvent::Journal { reply });
        let (totals, journal) = (totals.recv().ok(), usage.recv_timeout(MAX_DISK_WAIT).into());
        let notify = self.transfers.notify_counters().ok();
        ControlResponse::Metrics(metrics::render(&self.counters, totals, notify, journal))
    }

    /// Adds what the transfer thread knows.
    fn with_refresh_status(&self, id: ZoneId, status: ZoneStatus) -> ZoneStatus {
        let Ok(Some(refresh)) = self.transfers.status(id) else { return status };
        let RefreshStatus { primary_serial, expires_at_s, check_at_s, problem, .. } = refresh;
        let has_version = refresh.serial.is_some();
        ZoneStatus {
            primary_serial: (has_version || primary_serial != 0).then_some(primary_serial),
            expires_at: has_version.then(|| rfc3339(expires_at_s.into())),
            refresh_at: check_at_s.map(|at_s| rfc3339(at_s.into())),
            problem: status.problem.or(problem),
            ..status
        }
    }

    /// Does something about the named zones, or about all for which it can be done.
    fn act(&self, action: ZoneAction, zones: Vec<String>) -> ControlResponse {
        let is_all = zones.is_empty();
        let (mut done, mut failures) = (0, Vec::new());
        let visited = self.visit_pages(zones, |page| {
            failures.extend(page.failures);
            failures.extend(page.not_served.into_iter().filter(|_| !is_all).map(not_served));
            let results = match action {
                ZoneAction::Refresh => self.transfer(TransferCommand::Refresh, &page.zones),
                ZoneAction::Retransfer => self.transfer(TransferCommand::Retransfer, &page.zones),
                ZoneAction::Notify => {
                    self.control(&page.zones, |zones, reply| ControlEvent::Notify { zones, reply })?
                }
                ZoneAction::Freeze => self.freeze(true, &page.zones)?,
                ZoneAction::Thaw => self.freeze(false, &page.zones)?,
            };
            for ((_, ZoneStatus { name, .. }), result) in page.zones.into_iter().zip(results) {
                match result {
                    Ok(()) => done += 1,
                    Err(_) if is_all => (),
                    Err(reason) => failures.push(ZoneFailure { zone: name, reason }),
                }
            }
            Ok(())
        });
        if visited.is_err() {
            return writer_is_gone();
        }
        match action {
            ZoneAction::Refresh | ZoneAction::Retransfer | ZoneAction::Notify => {
                ControlResponse::ZoneAction { done, failures, unsaved: None }
            }
            ZoneAction::Freeze | ZoneAction::Thaw => self.frozen(done, failures),
        }
    }

    /// The response once zones are frozen or thawed. The list is stored even if that changed none of them: the last attempt may have failed.
    fn frozen(&self, done: usize, failures: Vec<ZoneFailure>) -> ControlResponse {
        let stored = self.frozen_zones.store(MAX_SAVE_WAIT);
        let unsaved = stored.err().map(|reason| {
            format!("{done} zones are frozen or thawed, but not after a restart: {reason}, then repeat the command")
        });
        ControlResponse::ZoneAction { done, failures, unsaved }
    }

    /// Sends commands to the transfer thread.
    fn transfer(
        &self,
        command: impl Fn(ZoneId) -> TransferCommand,
        zones: &[(ZoneId, ZoneStatus)],
    ) -> Vec<Result<(), String>> {
        let send = |(id, status): &(ZoneId, ZoneStatus)| match self.transfers.status(*id) {
            // Fails only if the thread has ended, which it has logged.
            Ok(Some(_)) => {
                _ = self.transfers.send(command(*id));
                Ok(())
            }
            _ if status.is_frozen => Err("the zone is frozen; `zonda zone thaw` ends that".into()),
            _ => Err("the zone has no `primaries`".into()),
        };
        zones.iter().map(send).collect()
    }

    /// Freezes or thaws zones.
    fn freeze(&self, is_frozen: bool, zones: &[(ZoneId, ZoneStatus)]) -> Result<Vec<Result<(), String>>, WriterIsGone> {
        self.control(zones, |zones, reply| ControlEvent::Freeze { zones, is_frozen, reply })
    }

    /// Has the writer do something about zones. The results are in the order of the zones.
    fn control(
        &self,
        zones: &[(ZoneId, ZoneStatus)],
        event: impl FnOnce(Vec<ZoneId>, SyncSender<ControlResults>) -> ControlEvent,
    ) -> Result<Vec<Result<(), String>>, WriterIsGone> {
        let ids = zones.iter().map(|(id, _)| *id).collect();
        let results = self.writer.ask(|reply| event(ids, reply)).recv()?;
        Ok(results.into_iter().map(|result| result.map_err(|reason| reason.to_string())).collect())
    }

    //----------- adding and removing ------------------------------------------

    /// Adds or removes zones, some at a time: meanwhile the writer changes other zones.
    fn edit<T>(&self, zones: Vec<T>, parse: impl Fn(T) -> Result<Edit, ZoneFailure>) -> ControlResponse {
        let (mut edits, mut failures) = (Vec::new(), Vec::new());
        zones.into_iter().for_each(|zone| match parse(zone) {
            Ok(edit) => edits.push(edit),
            Err(failure) => failures.push(failure),
        });
        let (mut done, mut unsaved, mut max_wait) = (0, None, MAX_SAVE_WAIT);
        while !edits.is_empty() {
            let rest = edits.split_off(edits.len().min(EDITS_AT_ONCE));
            let (count, (sender, failed), (saved, is_saved)) = (edits.len(), sync_channel(1), sync_channel(1));
            self.writer.request_edits(EditRequest { edits, failures: sender, saved });
            let Ok(failed) = failed.recv() else { return writer_is_gone() };
            let saved = match is_saved.recv_timeout(max_wait) {
                Err(RecvTimeoutError::Disconnected) => return writer_is_gone(),
                Err(RecvTimeoutError::Timeout) => {
                    // All that follow wait for the same disk.
                    max_wait = Duration::ZERO;
                    Err(format!("the disk of the state-dir has not answered for {} s", MAX_SAVE_WAIT.as_secs()))
                }
                Ok(saved) => saved,
            };
            done += count - failed.len();
            failures.extend(failed);
            unsaved = saved.err().or(unsaved);
            edits = rest;
        }
        let unsaved = unsaved.map(|reason| {
            format!(
                "{done} zones are changed but not saved, they may be lost with a restart; zonda goes on trying: {reason}"
            )
        });
        ControlResponse::ZoneAction { done, failures, unsaved }
    }

    //----------- rollback -----------------------------------------------------

    fn roll_back(&self, zones: Vec<String>, to: Option<u32>) -> ControlResponse {
        if zones.is_empty() {
            return ControlResponse::Refused("name the zones to roll back".into());
        }
        let Ok(page) = self.named_zones(zones) else { return writer_is_gone() };
        let StatusPage { zones, mut failures, .. } = page;
        failures.extend(page.not_served.into_iter().map(not_served));
        let (mut done, mut frozen) = (0, 0);
        for zone in zones {
            match self.roll_back_one(&zone, to) {
                Err(WriterIsGone) => return writer_is_gone(),
                Ok(Ok(is_frozen)) => {
                    done += 1;
                    frozen += usize::from(is_frozen);
                }
                Ok(Err(reason)) => failures.push(ZoneFailure { zone: zone.1.name, reason: reason.to_string() }),
            }
        }
        let stored = if frozen > 0 { self.frozen_zones.store(MAX_SAVE_WAIT) } else { Ok(()) };
        let unsaved = stored.err().map(|reason| {
            format!(
                "{done} zones are rolled back, but {frozen} of them are not frozen after a restart, when a later version may replace them: {reason}, then use `zonda zone freeze`"
            )
        });
        ControlResponse::ZoneAction { done, failures, unsaved }
    }

    /// Serves an earlier version again; returns whether the zone is frozen for that.
    fn roll_back_one(
        &self,
        zone: &(ZoneId, ZoneStatus),
        serial: Option<u32>,
    ) -> Result<Result<bool, ControlRefused>, WriterIsGone> {
        let (id, status) = zone;
        let (mut result, mut is_frozen) = (Err(ControlRefused::Changed), status.is_frozen);
        // Updates may come faster than the version can be made.
        for _ in 0..MAX_ROLLBACK_ATTEMPTS {
            let kept = self.writer.ask(|reply| ControlEvent::KeptVersion { zone: *id, serial, reply });
            let kept = match kept.recv()? {
                Ok(kept) => kept,
                Err(reason) => {
                    result = Err(reason);
                    break;
                }
            };
            let rollback = kept.rollback(netio::clock::real().as_secs());
            if rollback.change.is_none() && !is_frozen {
                self.freeze(true, std::slice::from_ref(zone))?;
                is_frozen = true;
            }
            let served = self.writer.ask(|reply| ControlEvent::RollBack { zone: *id, rollback, reply });
            result = served.recv()?;
            if result != Err(ControlRefused::Changed) {
                break;
            }
        }
        if result.is_err() && is_frozen && !status.is_frozen {
            self.freeze(false, std::slice::from_ref(zone))?;
        }
        Ok(result.map(|_| is_frozen))
    }

    //----------- export -------------------------------------------------------

    fn export(&mut self, zone: &str) -> (ControlResponse, Option<TextExport>) {
        let Ok(name) = zone.parse::<Name>() else {
            return (ControlResponse::Refused(format!("{zone} is not a domain name")), None);
        };
        let served = self.served.current();
        match served.zones.get(name.to_lowercase().wire()).map(|zone| zone.zone()) {
            Some(Some(version)) => {
                (ControlResponse::ZoneText { serial: version.serial() }, Some(TextExport::new(version.clone())))
            }
            Some(None) => {
                (ControlResponse::Refused(format!("{zone} is not loaded: `zonda zone status` shows why")), None)
            }
            None => (ControlResponse::Refused(format!("{zone} is not a zone of this server")), None),
        }
    }
}

/// How long to wait for figures of the storage thread, whose disk may hang.
const MAX_DISK_WAIT: Duration = Duration::from_secs(1);

/// How long a command waits until what it changed is on disk.
const MAX_SAVE_WAIT: Duration = Duration::from_secs(5);

/// Requests a reload and waits for its report.
fn reload(writer: &WriterHandle) -> ControlResponse {
    let (reply, report) = sync_channel(1);
    match writer.request_reload(Some(reply)) {
        Err(TrySendError::Full(())) => ControlResponse::Refused("too many reloads are waiting; try again later".into()),
        Err(TrySendError::Disconnected(())) => writer_is_gone(),
        Ok(()) => match report.recv() {
            Ok(report) => ControlResponse::Reloaded(report),
            Err(_) => ControlResponse::Refused("the reload was aborted; the log says why".into()),
        },
    }
}

/// Attempts to roll back a zone that changes meanwhile.
const MAX_ROLLBACK_ATTEMPTS: usize = 5;

/// Zones that the writer adds or removes at once: about a millisecond.
const EDITS_AT_ONCE: usize = 256;

fn parse_addition((zone, template): (String, String)) -> Result<Edit, ZoneFailure> {
    parse_name(zone).map(|name| Edit::Add(name, template.as_str().into()))
}

fn parse_removal(zone: String) -> Result<Edit, ZoneFailure> {
    parse_name(zone).map(Edit::Remove)
}

fn parse_name(zone: String) -> Result<Name, ZoneFailure> {
    let name = zone.parse::<Name>().map(|name| name.to_lowercase());
    name.map_err(|error| ZoneFailure { zone, reason: format!("this is not a domain name: {error}") })
}

fn not_served(status: ZoneStatus) -> ZoneFailure {
    ZoneFailure { zone: status.name, reason: "the zone is not served: `zonda zone status` shows why".into() }
}

/// There is no writer any more.
struct WriterIsGone;

/// The writer drops the requests that it has not answered.
impl From<RecvError> for WriterIsGone {
    fn from(_: RecvError) -> WriterIsGone {
        WriterIsGone
    }
}

/// The names in pages: the status of one page takes the writer about a millisecond.
fn pages_of(mut zones: Vec<String>) -> impl Iterator<Item = Vec<String>> {
    std::iter::from_fn(move || {
        let rest = zones.split_off(zones.len().min(STATUS_PAGE));
        Some(std::mem::replace(&mut zones, rest)).filter(|page| !page.is_empty())
    })
}

/// The writer ends only with the process, or by a panic.
fn writer_is_gone() -> ControlResponse {
    ControlResponse::Refused("this zonda can no longer change zones; restart it".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Other events of the writer would wait for the status of all.
    #[test]
    fn the_status_of_many_named_zones_is_requested_in_pages() {
        let names: Vec<String> = (0..95_000).map(|number| format!("zone{number}.example.")).collect();
        let pages: Vec<Vec<String>> = pages_of(names.clone()).collect();
        assert!(pages.iter().all(|page| page.len() <= STATUS_PAGE));
        assert_eq!((pages.len(), pages.concat()), (95, names));
    }
}
