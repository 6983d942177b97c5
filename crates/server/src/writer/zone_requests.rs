//! The status of zones, for clients of the control socket.

use std::sync::mpsc::SyncSender;

use wire::{Name, NameRef};

use super::Writer;
use crate::control::{STATUS_PAGE, ZoneFailure};
use crate::zone_id::ZoneId;
use crate::zone_status::{ZoneServingState, ZoneStatus};

/// A request for the status of zones.
pub struct StatusRequest {
    /// The zones by name, at most [`STATUS_PAGE`]; all if it is empty.
    pub zones: Vec<String>,
    /// Of all zones, those from this slot on. After the slots are the members of catalogs that are not served.
    pub from: usize,
    /// Receives the status.
    pub reply: SyncSender<StatusPage>,
}

/// The status of some zones, without what the transfer thread knows.
#[derive(Default)]
pub struct StatusPage {
    /// The zones.
    pub zones: Vec<(ZoneId, ZoneStatus)>,
    /// Where the others begin, if there are more.
    pub next: Option<u32>,
    /// The zones that catalogs list and that are not served.
    pub not_served: Vec<ZoneStatus>,
    /// The zones that do not exist.
    pub failures: Vec<ZoneFailure>,
}

impl StatusPage {
    /// Adds another page, which is the last one so far.
    pub fn append(&mut self, page: StatusPage) {
        self.zones.extend(page.zones);
        self.not_served.extend(page.not_served);
        self.failures.extend(page.failures);
        self.next = page.next;
    }
}

impl Writer {
    /// Replies with the status of zones; takes short.
    pub(super) fn report_status(&self, StatusRequest { zones, from, reply }: StatusRequest) {
        let page = if zones.is_empty() { self.status_page(from) } else { self.status_of(&zones) };
        // A client that has left gets no reply.
        _ = reply.send(page);
    }

    fn status_page(&self, from: usize) -> StatusPage {
        let slots = self.zones.slot_count();
        if from >= slots {
            return self.page_of_not_served(from - slots);
        }
        let end = slots.min(from.saturating_add(STATUS_PAGE));
        let zones = (from..end).filter_map(|index| self.status_at(index)).collect();
        let has_more = end < slots || self.catalogs.waiting_zones().next().is_some();
        StatusPage { zones, next: has_more.then_some(end as u32), ..StatusPage::default() }
    }

    /// The members of catalogs that are not served, without as many as `from`.
    fn page_of_not_served(&self, from: usize) -> StatusPage {
        let mut waiting = self.catalogs.waiting_zones().skip(from);
        let names = waiting.by_ref().take(STATUS_PAGE).filter(|zone| self.zones.find(zone.as_ref()).is_none());
        let not_served = names.filter_map(|zone| self.not_served(zone.as_ref())).collect();
        let next = waiting.next().map(|_| (self.zones.slot_count() + from + STATUS_PAGE) as u32);
        StatusPage { not_served, next, ..StatusPage::default() }
    }

    fn status_of(&self, names: &[String]) -> StatusPage {
        debug_assert!(names.len() <= STATUS_PAGE, "other events would wait");
        let mut page = StatusPage::default();
        for name in names {
            match self.find(name) {
                Ok(id) => page.zones.extend(self.status_at(id.index as usize)),
                Err(failure) => {
                    let apex = name.parse::<Name>().ok().map(|apex| apex.to_lowercase());
                    match apex.and_then(|apex| self.not_served(apex.as_ref())) {
                        Some(status) => page.not_served.push(status),
                        None => page.failures.push(failure),
                    }
                }
            }
        }
        page
    }

    /// The status of a zone that a catalog lists and that is not served.
    fn not_served(&self, apex: NameRef<'_>) -> Option<ZoneStatus> {
        let catalogs = self.catalogs.listings(apex, None);
        (!catalogs.is_empty()).then(|| ZoneStatus::not_served(apex, catalogs))
    }

    fn status_at(&self, index: usize) -> Option<(ZoneId, ZoneStatus)> {
        let (id, status) = self.zones.status_at(index)?;
        let (last_transfer, problem) = self.secondaries.last(id);
        let problem = problem.or_else(|| status.problem.clone());
        let is_secondary = self.zones.is_secondary(id);
        let state = match status.state {
            ZoneServingState::Failed if is_secondary && problem.is_none() => ZoneServingState::Loading,
            state => state,
        };
        Some((id, self.with_catalogs(id, ZoneStatus { state, last_transfer, problem, ..status })))
    }

    /// The zone of this name.
    fn find(&self, name: &str) -> Result<ZoneId, ZoneFailure> {
        let failure = |reason: &str| ZoneFailure { zone: name.into(), reason: reason.into() };
        let apex: Name = name.parse().map_err(|_| failure("this is not a domain name"))?;
        self.zones.find(apex.to_lowercase().as_ref()).ok_or_else(|| failure("this is not a zone of this server"))
    }
}
