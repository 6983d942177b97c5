//! Passes what happens in the registry to the catalogs, and has them do their work a little at a time.

use std::time::Instant;

use super::Writer;
use crate::zone_id::ZoneId;
use crate::zone_status::ZoneStatus;
use crate::zones::ZoneNotice;

impl Writer {
    /// Does some of what catalogs have to do. Returns whether the registry may have changed: then there is more to do at once.
    pub(super) fn step_catalogs(&mut self, now: Instant) -> bool {
        for notice in self.zones.take_notices() {
            if let ZoneNotice::Removed(id) = notice {
                self.secondaries.forget(id);
            }
            self.catalogs.notice(notice, &self.zones);
        }
        let taken_over = self.catalogs.take_over();
        self.forget_taken_over(taken_over);
        let is_busy = self.catalogs.step(&mut self.zones, now);
        // A catalog that cannot be read may still list zones that are stored.
        if self.has_started && !is_busy && self.catalogs.are_settled() {
            self.has_started = false;
            // Members that lack their template are kept as well: it may come back.
            if !self.additions.keeps_stored && !self.catalogs.lack_templates() {
                self.zones.forget_stored_zones();
            }
        }
        is_busy
    }

    /// Takes the templates and catalogs of a configuration that is applied.
    pub(super) fn configure_catalogs(&mut self) {
        if let Some((templates, catalogs)) = self.reloads.new_catalogs.take() {
            self.catalogs.configure(&templates, &catalogs, &self.zones);
            self.restore_again();
        }
    }

    /// Adds to the status of a zone which catalogs list it, and why it may not be served as they say.
    pub(super) fn with_catalogs(&self, id: ZoneId, status: ZoneStatus) -> ZoneStatus {
        let Some(served) = self.zones.served(id) else { return status };
        let origin = self.zones.origin(id);
        let (template, template_problem) = self.catalogs.template_of(origin).unzip();
        let problem = self.catalogs.problem(served.apex()).or(template_problem.flatten());
        ZoneStatus {
            template: template.map(str::to_owned),
            catalogs: self.catalogs.listings(served.apex(), origin),
            problem: status.problem.or(problem),
            ..status
        }
    }
}
