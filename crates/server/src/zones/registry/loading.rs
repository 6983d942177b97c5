//! Loading zones: what is read for them, and what is served of that.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use wire::{NameRef, serial};
use zone::{FilePosition, Finding, Severity, Zone, ZoneVersion};

use super::ZoneRegistry;
use super::changes::ZoneWorkResult;
use crate::config::ZoneSource;
use crate::printable::path_text;
use crate::report::{Change, ZoneReport};
use crate::zone_id::ZoneId;
use crate::zones::acceptance::{self, Rejection};
use crate::zones::change_detection::Fingerprint;
use crate::zones::load::{LoadedZone, refusal};
use crate::zones::load_progress::LoadProgress;
use crate::zones::read_pool::ReadTask;
use crate::zones::zone_entry::{change_of, zone_report};
use crate::zones::zone_loads::{FinishedRead, LoadJob, LoadResult};

impl ZoneRegistry {
    /// Starts the loads that are due, as many as may be in progress.
    pub(super) fn start_due_loads(&mut self) {
        while let Some(id) = self.loads.next_due(|slot| self.zones.id_at(slot)) {
            self.load_now(id);
        }
    }

    /// Loads a zone for the latest reload.
    pub(super) fn load_now(&mut self, id: ZoneId) {
        self.start_load(id, self.loads.latest_reload());
    }

    /// Loads a zone for this reload: its stored version if there is one, else its file.
    pub(super) fn start_load(&mut self, id: ZoneId, reload: u64) {
        if self.begin_restore(id, reload) || !self.reads_file(id) {
            return;
        }
        if let Some(entry) = self.zones.get(id) {
            self.loads.begin_read(id, entry, self.zones.fingerprint(id), reload);
        }
    }

    /// Takes the result of a load, to be published soon. Returns the change of the zone, if any.
    pub fn apply(&mut self, (task, result): FinishedRead) -> Option<ZoneReport> {
        self.loads.task_returned(&task);
        match result {
            LoadResult::Loaded(loaded) if self.needs_command(&task, &loaded) => {
                self.submit_check(task, loaded);
                None
            }
            result => self.end_load(&task, result),
        }
    }

    /// Whether an external command decides about a zone that was read.
    fn needs_command(&self, task: &Arc<ReadTask<LoadJob>>, loaded: &LoadedZone) -> bool {
        let is_new = loaded.zone.is_some() && (loaded.is_changed || task.job.served.zone().is_none());
        self.loads.is_current(task) && is_new && acceptance::has_command(&task.job.policy)
    }

    /// Asks the external command in a pool. The load goes on until it answers.
    fn submit_check(&self, task: Arc<ReadTask<LoadJob>>, loaded: LoadedZone) {
        self.pools.submit(acceptance::command_lane(&task.job.policy), move || {
            let run_command = |zone: &Zone| acceptance::run_command(zone, &task.job.policy);
            let loaded = checked(loaded, &task.file, run_command);
            ZoneWorkResult::Checked(task, Box::new(loaded))
        });
    }

    /// Serves the result of a task, unless it is stale. Returns the change of the zone, if any.
    pub(super) fn end_load(&mut self, task: &Arc<ReadTask<LoadJob>>, result: LoadResult) -> Option<ZoneReport> {
        if !self.loads.is_current(task) {
            return None;
        }
        let id = task.job.zone;
        let again_for = self.loads.end_read(id);
        let report = match result {
            _ if !self.reads_file(id) => None,
            LoadResult::Unchanged => None,
            LoadResult::Loaded(loaded) => self.serve(id, loaded, task.job.served.zone().map(Zone::version)),
        };
        if let Some(reload) = again_for {
            self.start_load(id, reload);
        }
        report
    }

    /// Serves a zone that was read when `base` was served.
    fn serve(&mut self, id: ZoneId, mut loaded: LoadedZone, base: Option<ZoneVersion>) -> Option<ZoneReport> {
        let file_serial = loaded.zone.as_ref().and(loaded.file_serial);
        // The serial of the policy is always later: it says nothing about which content is.
        if let Some((old, file_serial)) = self.latest(id).zip(file_serial)
            && (Some(old.version()) != base || loaded.is_changed && self.updated.contains_key(&id))
            && !serial::is_later(file_serial, old.serial())
        {
            if loaded.fingerprint.is_of_same_files(self.zones.fingerprint(id)) {
                // It was young when it was read, and so had to be read again.
                self.note_files(id, loaded.fingerprint, loaded.includes);
                self.store_file_state(id);
                return None;
            }
            let (entry, serials) = (self.zones.get(id)?, [old.serial(), file_serial]);
            loaded = rejected_as_stale(loaded, &entry.source, entry.served.apex(), serials);
        }
        self.note_problem(id, loaded.zone.is_none().then(|| first_error(&loaded.findings)));
        let is_accepted = loaded.zone.is_some();
        let report = change_of(&self.zones.get(id)?.served, &loaded);
        if let Some(zone) = loaded.zone.filter(|_| report.is_some()) {
            // The change is from the version that was served when the file was read.
            let is_base_served = self.latest(id).map(Zone::version) == base;
            let change = loaded.change.filter(|change| is_base_served && change.increases_serial());
            self.replace(id, zone, change.as_slice());
            if self.is_secondary(id) {
                self.seeded.insert(id);
            }
        }
        self.note_files(id, loaded.fingerprint, loaded.includes);
        if is_accepted {
            self.updated.remove(&id);
            self.store_file_state(id);
        }
        report
    }

    /// Notes which files a zone was read from, the included ones apart.
    fn note_files(&mut self, id: ZoneId, fingerprint: Fingerprint, includes: Box<[PathBuf]>) {
        self.zones.set_fingerprint(id, fingerprint);
        self.loads.set_includes(id, includes);
    }

    //----------- progress -----------------------------------------------------

    /// The number of the latest reload.
    pub fn latest_reload(&self) -> u64 {
        self.loads.latest_reload()
    }

    /// Whether every zone was loaded since this reload began, or is stuck.
    pub fn is_complete(&self, reload: u64) -> bool {
        self.loads.is_complete(reload)
    }

    /// The zones whose loads keep this reload incomplete because they are stuck.
    pub fn stuck_zones(&self, reload: u64) -> impl Iterator<Item = ZoneReport> {
        self.loads.stuck(reload).map(|LoadJob { served, .. }| ZoneReport {
            serial: served.zone().map(Zone::serial),
            ..zone_report(served.apex(), Change::Stuck)
        })
    }

    /// Whether the configuration is applied, and all loads are done or stuck.
    pub fn is_settled(&self) -> bool {
        self.configuring.is_none() && self.loads.is_settled()
    }

    /// Whether the configuration is applied, and all loads are done.
    pub fn is_idle(&self) -> bool {
        self.configuring.is_none() && self.loads.is_idle()
    }

    /// How far the loads are.
    pub fn progress(&self) -> LoadProgress {
        self.loads.progress(self.zones.len())
    }

    /// Looks for reads without progress; returns those that are stuck since this call. To be called several times a second
    /// until [`ZoneRegistry::is_idle`].
    pub fn check_progress(&mut self, now: Instant) -> Vec<Arc<ReadTask<LoadJob>>> {
        self.loads.check_progress(now)
    }
}

/// A zone that was read, refused if `check` does not accept it. A bug in a check must not leave the zone loading for ever.
fn checked(mut loaded: LoadedZone, file: &Path, check: impl FnOnce(&Zone) -> Result<(), Rejection>) -> LoadedZone {
    let Some(zone) = &loaded.zone else { return loaded };
    let result = catch_unwind(AssertUnwindSafe(|| check(zone))).unwrap_or(Err(Rejection::Panicked));
    if let Err(rejection) = result {
        loaded.findings.insert(0, refusal(path_text(file).into(), &rejection));
        (loaded.zone, loaded.fingerprint) = (None, Fingerprint::NONE);
    }
    loaded
}

/// Why a zone was not loaded.
fn first_error(findings: &[Finding]) -> String {
    let error = findings.iter().find(|finding| finding.severity == Severity::Error).or(findings.first());
    error.map_or_else(|| "the zone could not be loaded".into(), Finding::to_string)
}

/// A zone whose content was changed since its file was last read, and whose file is not newer: the changes are kept.
fn rejected_as_stale(loaded: LoadedZone, source: &ZoneSource, apex: NameRef<'_>, [old, new]: [u32; 2]) -> LoadedZone {
    let file = source.file(apex).map_or_else(String::new, |file| path_text(&file));
    let finding = Finding {
        severity: Severity::Error,
        position: FilePosition { file: file.as_str().into(), line: 0, column: 0 },
        message: format!(
            "the zone was changed since this file was last read, and serial {new} of the file is not later than {old}, which is served"
        ),
        help: "take over the changes from `zonda zone export`, set a later serial, and reload".into(),
    };
    LoadedZone { zone: None, findings: vec![finding], fingerprint: Fingerprint::NONE, ..loaded }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_that_panics_refuses_the_zone() {
        let apex: wire::Name = "a.".parse().expect("a name");
        let text = "@ 60 SOA ns.invalid. host.invalid. 1 1 1 1 1\n@ 60 NS ns.invalid.\n";
        let loaded = || LoadedZone {
            zone: zone::load::load_text(apex.as_ref(), text.as_bytes()).zone,
            is_changed: true,
            file_serial: Some(1),
            change: None,
            findings: Vec::new(),
            fingerprint: Fingerprint::NONE,
            includes: Box::default(),
        };
        assert!(checked(loaded(), Path::new("file"), |_| Ok(())).zone.is_some());
        let refused = checked(loaded(), Path::new("file"), |_| panic!("a test"));
        assert!(refused.zone.is_none());
        let error = first_error(&refused.findings);
        assert!(error.starts_with("file") && error.contains("zonda panicked"), "{error}");
    }
}
