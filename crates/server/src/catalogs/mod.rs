//! Catalog zones (RFC 9432) in the daemon: serves the members of consumed catalogs, and lists zones in produced ones.
//!
//! The writer owns [`Catalogs`] and calls [`Catalogs::step`], which does about a millisecond of work: a catalog of a million members
//! delays no other zone. Versions are compared and listed in a pool.

mod consumed_catalog;
mod member_placement;
mod member_work;
mod produced_catalog;
mod removed_zones;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use wire::{Name, NameRef};

use crate::config::Templates;
use crate::config::value::CatalogRole;
use crate::zone_id::ZoneId;
use crate::zone_status::CatalogListing;
use crate::zones::template_set::TemplateSet;
use crate::zones::work_pool::{WorkId, WorkPool};
use crate::zones::zone_origin::ZoneOrigin;
use crate::zones::{ZoneNotice, ZoneRegistry};
use consumed_catalog::ConsumedCatalog;
use member_placement::{Context, Placements};
pub use member_work::MemberWork;
use member_work::STEP;
use produced_catalog::ProducedCatalog;

/// The catalogs of this server.
pub struct Catalogs {
    consumed: BTreeMap<Name, ConsumedCatalog>,
    produced: BTreeMap<Name, ProducedCatalog>,
    templates: TemplateSet,
    placements: Placements,
    pool: WorkPool<MemberWork>,
    events: EventSink,
    /// The next slot to look at for zones whose catalog or template is gone or has changed.
    sweep: Option<usize>,
    /// Zones that are not configured and lost what they came from; see [`Catalogs::take_over`].
    taken_over: Vec<Name>,
}

/// What the writer passes back to [`Catalogs::handle`].
pub enum CatalogEvent {
    /// A result of the pool; `None` if zonda panicked.
    Worked(WorkId, Option<MemberWork>),
    /// A produced catalog was changed, or could not be for this reason.
    Changed(Name, Result<(), String>),
}

/// Receives events.
type EventSink = Arc<dyn Fn(CatalogEvent) + Send + Sync>;

/// Slots that one step looks at.
const SLOTS_PER_STEP: usize = 8192;

impl Catalogs {
    /// No catalogs. Other threads pass their results to `events`.
    pub fn new(events: impl Fn(CatalogEvent) + Send + Sync + 'static) -> Catalogs {
        let events: EventSink = Arc::new(events);
        let done = events.clone();
        Catalogs {
            consumed: BTreeMap::new(),
            produced: BTreeMap::new(),
            templates: TemplateSet::default(),
            placements: Placements::default(),
            pool: WorkPool::new(1, move |id, result| done(CatalogEvent::Worked(id, result))),
            events,
            sweep: None,
            taken_over: Vec::new(),
        }
    }

    /// Takes the templates and catalogs of a configuration that the registry has applied.
    pub fn configure(&mut self, templates: &Templates, catalogs: &[Name], zones: &ZoneRegistry) {
        self.templates.update(templates);
        let (mut consumed, mut produced) = (std::mem::take(&mut self.consumed), std::mem::take(&mut self.produced));
        for name in catalogs {
            let Some(policy) = zones.find(name.as_ref()).and_then(|id| zones.policy(id)) else { continue };
            match policy.catalog {
                Some(CatalogRole::Consume) => {
                    let mut catalog = consumed.remove(name).unwrap_or_else(|| {
                        self.placements.expect(name);
                        ConsumedCatalog::default()
                    });
                    catalog.relist();
                    self.consumed.insert(name.clone(), catalog);
                    self.placements.groups.insert(name.clone(), policy.catalog_templates.clone());
                }
                Some(CatalogRole::Produce) => {
                    let catalog = produced.remove(name).unwrap_or_default();
                    self.produced.insert(name.clone(), catalog);
                }
                None => (),
            }
        }
        self.placements.groups.retain(|catalog, _| self.consumed.contains_key(catalog));
        self.placements.retain_catalogs(|catalog| self.consumed.contains_key(catalog));
        self.produced.values_mut().for_each(ProducedCatalog::relist);
        self.sweep = Some(0);
    }

    /// The templates, for a zone that is added.
    pub fn templates(&self) -> &TemplateSet {
        &self.templates
    }

    /// Whether a member is not served because its template is missing or cannot be used.
    pub fn lack_templates(&self) -> bool {
        self.placements.lack_templates(&self.templates)
    }

    /// Takes what happened in the registry.
    pub fn notice(&mut self, notice: ZoneNotice, zones: &ZoneRegistry) {
        match notice {
            ZoneNotice::Removed(_) => (),
            ZoneNotice::CatalogChanged(id) => {
                let name = zones.served(id).map(|served| served.apex().to_owned());
                if let Some(catalog) = name.and_then(|name| self.consumed.get_mut(&name)) {
                    catalog.note_version();
                }
            }
            ZoneNotice::Listed(id) => {
                let Some((policy, served)) = zones.policy(id).zip(zones.served(id)) else { return };
                let catalog = policy.catalog_member.as_ref();
                if let Some(catalog) = catalog.map(|name| self.produced.entry(name.clone()).or_default()) {
                    catalog.list(served.apex().to_owned(), policy.catalog_group.clone(), zones.addition(id));
                }
            }
            ZoneNotice::Unlisted { catalog: name, apex } => {
                if let Some(catalog) = self.produced.get_mut(&name) {
                    catalog.unlist_removed(&name, apex, zones);
                }
            }
            ZoneNotice::TakenOver { apex, origin } => {
                if matches!(origin, ZoneOrigin::Added { .. }) {
                    self.taken_over.push(apex);
                }
            }
        }
    }

    /// The zones of `zonda zone add` that the configuration has taken over since the last call.
    pub fn take_over(&mut self) -> Vec<Name> {
        std::mem::take(&mut self.taken_over)
    }

    /// A zone that was not a member is gone: the first catalog that lists it serves it now.
    pub fn zone_freed(&mut self, zone: &Name, zones: &mut ZoneRegistry) {
        Context { templates: &self.templates, placements: &mut self.placements, zones }.place_next(zone);
    }

    /// Whether all members of all consumed catalogs are in the registry.
    pub fn are_settled(&self) -> bool {
        let are_placed = self.sweep.is_none() && !self.placements.has_freed();
        are_placed && self.consumed.values().all(ConsumedCatalog::is_settled)
    }

    /// Takes what another thread has done.
    pub fn handle(&mut self, event: CatalogEvent) {
        match event {
            CatalogEvent::Worked(id, result) => self.finish_work(id, result),
            CatalogEvent::Changed(name, result) => {
                if let Some(catalog) = self.produced.get_mut(&name) {
                    catalog.finish_change(&name, result);
                }
            }
        }
    }

    fn finish_work(&mut self, id: WorkId, result: Option<MemberWork>) {
        for (name, catalog) in &mut self.consumed {
            if catalog.is_waiting_for(id) {
                return catalog.finish_work(name.as_ref(), result);
            }
        }
        for catalog in self.produced.values_mut() {
            if catalog.is_waiting_for(id) {
                return catalog.finish_work(result);
            }
        }
    }

    /// When [`Catalogs::step`] may have something to do, if it has not now.
    pub fn due(&self, now: Instant) -> Option<Instant> {
        self.produced.values().filter_map(|catalog| catalog.due(now)).min()
    }

    /// Does a little of what is to be done. Returns whether there is more to do at once.
    pub fn step(&mut self, zones: &mut ZoneRegistry, now: Instant) -> bool {
        if !zones.accepts_zones() {
            return false;
        }
        if let Some(slot) = self.sweep {
            self.sweep_slots(slot, zones);
            return true;
        }
        let mut context = Context { templates: &self.templates, placements: &mut self.placements, zones };
        let mut has_more = context.place_freed(STEP);
        for (name, catalog) in &mut self.consumed {
            has_more |= catalog.step(name, &mut context, &self.pool);
        }
        // Members of consumed catalogs may be listed in produced ones.
        let are_settled = self.consumed.values().all(ConsumedCatalog::is_settled);
        for (name, catalog) in &mut self.produced {
            let is_complete = !self.templates.any_is_listed_in(name) || are_settled;
            has_more |= catalog.step(name, zones, &self.pool, &self.events, is_complete, now);
        }
        has_more
    }

    /// Looks at some zones that are not configured: those of a catalog that is gone are removed, and those of a changed template are
    /// configured again.
    fn sweep_slots(&mut self, start: usize, zones: &mut ZoneRegistry) {
        let end = zones.slot_count().min(start + SLOTS_PER_STEP);
        for id in (start..end).filter_map(|slot| zones.dynamic_at(slot)).collect::<Vec<ZoneId>>() {
            let Some(origin) = zones.origin(id).cloned() else { continue };
            match &origin {
                ZoneOrigin::Member { catalog, .. } if !self.consumed.contains_key(catalog) => {
                    zones.remove(id);
                }
                ZoneOrigin::Member { template, .. } | ZoneOrigin::Added { template } => {
                    // Without its template it keeps its settings.
                    if let Ok(template) = self.templates.usable(template) {
                        zones.reassign(id, template, origin.clone());
                    }
                }
                ZoneOrigin::Configured => (),
            }
        }
        self.sweep = (end < zones.slot_count()).then_some(end);
    }

    //----------- status -------------------------------------------------------

    /// Which catalogs list this zone, and why it is not a member of those that it is not a member of.
    pub fn listings(&self, apex: NameRef<'_>, origin: Option<&ZoneOrigin>) -> Vec<CatalogListing> {
        let member = match origin {
            Some(ZoneOrigin::Member { catalog, group, .. }) => Some(CatalogListing {
                catalog: catalog.to_string(),
                groups: group.iter().cloned().collect(),
                problem: None,
            }),
            _ => None,
        };
        member.into_iter().chain(self.placements.listings(apex)).collect()
    }

    /// The zones with a member that is not served; another catalog or the configuration may have them served nevertheless.
    pub fn waiting_zones(&self) -> impl Iterator<Item = &Name> {
        self.placements.waiting_zones()
    }

    /// The template of a zone that is not configured, and why the zone does not have its settings.
    pub fn template_of<'o>(&self, origin: Option<&'o ZoneOrigin>) -> Option<(&'o str, Option<String>)> {
        let (ZoneOrigin::Added { template } | ZoneOrigin::Member { template, .. }) = origin? else { return None };
        let problem = self.templates.usable(template).err();
        Some((template, problem.map(|problem| format!("{problem}; the zone keeps its settings"))))
    }

    /// The serial of a consumed catalog whose members are all placed; none while there is something to do.
    pub fn processed_serial(&self, catalog: NameRef<'_>) -> Option<u32> {
        self.consumed.get(&catalog.to_owned())?.processed_serial()
    }

    /// Why a consumed catalog is not processed, or a produced one not changed.
    pub fn problem(&self, catalog: NameRef<'_>) -> Option<String> {
        // Most zones are no catalogs.
        if self.consumed.is_empty() && self.produced.is_empty() {
            return None;
        }
        let name = catalog.to_owned();
        let consumed = self.consumed.get(&name).and_then(ConsumedCatalog::problem);
        consumed.or_else(|| self.produced.get(&name)?.problem()).map(str::to_owned)
    }
}
