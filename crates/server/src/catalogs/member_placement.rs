//! Where members of catalogs go: into the registry, out of it, to another catalog (`coo`), or onto the list of those that cannot be served.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use tracing::warn;
use wire::{Name, NameRef};
use zone::catalog::CatalogMember;

use crate::config::resolve::DEFAULT_TEMPLATE;
use crate::config::value::CatalogTemplates;
use crate::rate_limited_log::RateLimitedLog;
use crate::zone_status::CatalogListing;
use crate::zones::ZoneRegistry;
use crate::zones::template_set::TemplateSet;
use crate::zones::zone_origin::{ZoneOrigin, catalog_fingerprint};

/// What members are placed with.
pub struct Context<'c> {
    pub templates: &'c TemplateSet,
    pub placements: &'c mut Placements,
    pub zones: &'c mut ZoneRegistry,
}

/// The members that are not in the registry as such: few, unless a catalog is configured wrongly.
#[derive(Default)]
pub struct Placements {
    /// The templates of the groups of each catalog.
    pub groups: HashMap<Name, CatalogTemplates>,
    /// The members that are not served, by zone, in the order in which their catalogs named them.
    waiting: HashMap<Name, Vec<WaitingMember>>,
    /// The members with a `coo` property, by zone.
    leaving: HashMap<Name, LeavingMember>,
    /// The catalogs of which no version is placed yet, by fingerprint.
    expected: BTreeMap<u32, ExpectedCatalog>,
    /// Zones that were kept for a catalog, which is placed by now: see [`Context::place_freed`].
    freed: Vec<Name>,
    waiting_log: WaitingLog,
}

/// Limits the lines about members that are not served: a catalog may have a million of them. The status explains each.
struct WaitingLog(RateLimitedLog);

impl Default for WaitingLog {
    fn default() -> WaitingLog {
        WaitingLog(RateLimitedLog::new(100, Duration::from_secs(60)))
    }
}

/// A catalog that keeps the members that it had before the restart (RFC 9432 5.2: an existing member zone wins).
struct ExpectedCatalog {
    name: Name,
    /// Zones that other catalogs list, too, however often these are placed anew meanwhile.
    kept: BTreeSet<Name>,
}

/// A member that is not served.
struct WaitingMember {
    catalog: Name,
    member: CatalogMember,
    reason: String,
}

/// A member whose catalog lets another one take it over.
struct LeavingMember {
    from: Name,
    member: CatalogMember,
    to: Name,
}

/// The result of placing a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placed {
    /// It is served, as before or now.
    Served,
    /// It is not served; the status says why.
    Waiting,
}

impl Context<'_> {
    /// Serves a member of a catalog, or notes why not. Does nothing if it is served already as the configuration says.
    pub fn place(&mut self, catalog: &Name, member: CatalogMember) -> Placed {
        let zone = member.zone.clone();
        let (placed, next) = self.place_in(catalog, member);
        // RFC 9432 4.3.1: the catalog that is to take the zone over may list it already. One step only: catalogs may name each other.
        if let Some(next) = next
            && let Some(waiting) = self.waiting_in(&next, &zone)
        {
            self.place_in(&next, waiting);
        }
        placed
    }

    /// Places a member; returns the catalog that it is to go to from now on, if any.
    fn place_in(&mut self, catalog: &Name, member: CatalogMember) -> (Placed, Option<Name>) {
        match self.try_place(catalog, &member) {
            Ok(()) => {
                self.forget_waiting(catalog, &member.zone);
                self.keep_owner_of_contested(&member.zone);
                (Placed::Served, self.note_change_of_ownership(catalog, &member))
            }
            Err(reason) => {
                // Only the catalog that the zone is served for can pass it on.
                self.forget_leaving(catalog, &member.zone);
                self.note_waiting(catalog, member, reason);
                (Placed::Waiting, None)
            }
        }
    }

    fn try_place(&mut self, catalog: &Name, member: &CatalogMember) -> Result<(), String> {
        let (group, name) = self.placements.template_of(catalog, member);
        let template = self.templates.usable(&name);
        let origin = ZoneOrigin::Member { catalog: catalog.clone(), group, template: name.clone() };
        let existing = self.zones.find(member.zone.as_ref()).and_then(|id| Some((id, self.zones.origin(id)?.clone())));
        let Some((id, owner)) = existing else {
            if let Some(owner) = self.owner_before_restart(catalog, &member.zone) {
                owner.kept.insert(member.zone.clone());
                return Err(is_member_of(&owner.name));
            }
            self.zones.add_member(member.zone.clone(), template?, origin, &member.label);
            return Ok(());
        };
        match owner {
            // RFC 9432 5.2: an existing zone of the same name wins.
            ZoneOrigin::Configured => Err("the zone is configured itself".into()),
            ZoneOrigin::Added { .. } => Err("the zone was added with `zonda zone add`".into()),
            ZoneOrigin::Member { catalog: owner, .. } if owner == *catalog => {
                // Without its template it keeps its settings.
                if let Ok(template) = template {
                    self.zones.reassign(id, template, origin);
                }
                Ok(())
            }
            ZoneOrigin::Member { catalog: owner, .. } => {
                let leaving = self.placements.leaving.get(&member.zone);
                let Some(leaving) = leaving.filter(|leaving| leaving.from == owner && leaving.to == *catalog) else {
                    self.zones.keep_owner(id);
                    return Err(is_member_of(&owner));
                };
                let (template, old) = (template?, leaving.member.clone());
                // RFC 9432 4.3.1: the state is kept only if the label is the same.
                if old.label == member.label {
                    self.zones.reassign(id, template, origin);
                } else {
                    self.zones.remove(id);
                    self.zones.add_member(member.zone.clone(), template, origin, &member.label);
                }
                self.note_waiting(&owner, old, format!("the zone is now a member of the catalog {catalog}"));
                Ok(())
            }
        }
    }

    /// The catalog that a zone was a member of before the restart, if that is another one than `catalog` and may list the zone still.
    fn owner_before_restart(&mut self, catalog: &Name, zone: &Name) -> Option<&mut ExpectedCatalog> {
        if !self.placements.expected.values().any(|expected| expected.name != *catalog) {
            return None;
        }
        let owner = self.placements.expected.get_mut(&self.zones.stored_catalog(zone.as_ref()))?;
        Some(owner).filter(|owner| owner.name != *catalog)
    }

    /// Keeps across restarts which catalog has a zone that others list, too. The zone may be a new one, in the place of another with its owner.
    fn keep_owner_of_contested(&mut self, zone: &Name) {
        if self.placements.waiting.contains_key(zone)
            && let Some(id) = self.zones.find(zone.as_ref())
        {
            self.zones.keep_owner(id);
        }
    }

    /// All members of a version of this catalog are placed: zones that it does not list any more are free.
    pub fn note_placed(&mut self, catalog: &Name) {
        let placed = self.placements.expected.remove(&catalog_fingerprint(catalog.as_ref()));
        self.placements.freed.extend(placed.into_iter().flat_map(|placed| placed.kept));
    }

    /// Serves some of the zones that are free now. Returns whether there are more.
    pub fn place_freed(&mut self, max: usize) -> bool {
        let left = self.placements.freed.len().saturating_sub(max);
        for zone in self.placements.freed.split_off(left) {
            self.place_next(&zone);
        }
        left > 0
    }

    /// RFC 9432 5.3: removes a zone with its data if it is served as a member of this catalog.
    pub fn displace(&mut self, catalog: &Name, zone: &Name) {
        self.forget_waiting(catalog, zone);
        self.forget_leaving(catalog, zone);
        let Some(id) = self.zones.find(zone.as_ref()) else { return };
        if !matches!(self.zones.origin(id), Some(ZoneOrigin::Member { catalog: owner, .. }) if owner == catalog) {
            return;
        }
        self.zones.remove(id);
    }

    /// Serves a zone that is free as a member of the first catalog that lists it and can serve it: the template of another may be missing.
    pub fn place_next(&mut self, zone: &Name) {
        let waiting = self.placements.waiting.get(zone).into_iter().flatten();
        let waiting: Vec<_> = waiting.map(|waiting| (waiting.catalog.clone(), waiting.member.clone())).collect();
        // One entry per catalog.
        for (catalog, member) in waiting {
            if self.place(&catalog, member) == Placed::Served {
                return;
            }
        }
    }

    /// Whether this catalog lists the zone already.
    pub fn is_listed(&self, catalog: &Name, zone: &Name) -> bool {
        let owner = self.zones.find(zone.as_ref()).and_then(|id| self.zones.origin(id));
        let is_member = matches!(owner, Some(ZoneOrigin::Member { catalog: owner, .. }) if owner == catalog);
        let waiting = self.placements.waiting.get(zone);
        is_member || waiting.is_some_and(|waiting| waiting.iter().any(|waiting| waiting.catalog == *catalog))
    }

    /// The waiting members that another catalog lets this one take over.
    pub fn arriving(&self, catalog: &Name) -> Vec<CatalogMember> {
        let leaving = self.placements.leaving.iter().filter(|(_, leaving)| leaving.to == *catalog);
        let waiting = leaving.filter_map(|(zone, _)| self.placements.waiting.get(zone)).flatten();
        waiting.filter(|waiting| waiting.catalog == *catalog).map(|waiting| waiting.member.clone()).collect()
    }

    /// Notes which catalog a member that is served may go to; returns that one.
    fn note_change_of_ownership(&mut self, from: &Name, member: &CatalogMember) -> Option<Name> {
        let Some(to) = member.change_of_ownership.clone() else {
            self.placements.leaving.remove(&member.zone);
            return None;
        };
        let leaving = LeavingMember { from: from.clone(), member: member.clone(), to: to.clone() };
        self.placements.leaving.insert(member.zone.clone(), leaving);
        Some(to)
    }

    fn forget_leaving(&mut self, from: &Name, zone: &Name) {
        if self.placements.leaving.get(zone).is_some_and(|leaving| leaving.from == *from) {
            self.placements.leaving.remove(zone);
        }
    }

    /// The member of this catalog that has this zone and waits.
    fn waiting_in(&self, catalog: &Name, zone: &Name) -> Option<CatalogMember> {
        let waiting = self.placements.waiting.get(zone)?.iter().find(|waiting| waiting.catalog == *catalog);
        waiting.map(|waiting| waiting.member.clone())
    }

    fn note_waiting(&mut self, catalog: &Name, member: CatalogMember, reason: String) {
        let Placements { waiting, waiting_log: WaitingLog(log), .. } = &mut *self.placements;
        let waiting = waiting.entry(member.zone.clone()).or_default();
        match waiting.iter_mut().find(|waiting| waiting.catalog == *catalog) {
            Some(known) => (known.member, known.reason) = (member, reason),
            None => {
                if let Some(left_out) = log.permit() {
                    warn!(zone = %member.zone, %catalog, left_out, "a member of the catalog is not served: {reason}");
                }
                waiting.push(WaitingMember { catalog: catalog.clone(), member, reason });
            }
        }
    }

    fn forget_waiting(&mut self, catalog: &Name, zone: &Name) {
        let Some(waiting) = self.placements.waiting.get_mut(zone) else { return };
        waiting.retain(|waiting| waiting.catalog != *catalog);
        if waiting.is_empty() {
            self.placements.waiting.remove(zone);
        }
    }
}

impl Placements {
    /// A catalog is configured whose members are not placed yet.
    pub fn expect(&mut self, name: &Name) {
        let expected = ExpectedCatalog { name: name.clone(), kept: BTreeSet::new() };
        self.expected.insert(catalog_fingerprint(name.as_ref()), expected);
    }

    /// How many zones are kept for catalogs.
    #[cfg(test)]
    pub fn kept(&self) -> usize {
        self.expected.values().map(|expected| expected.kept.len()).sum()
    }

    /// Whether zones are free that a catalog may list.
    pub fn has_freed(&self) -> bool {
        !self.freed.is_empty()
    }

    /// The catalogs whose members include this zone and do not serve it.
    pub fn listings(&self, apex: NameRef<'_>) -> impl Iterator<Item = CatalogListing> {
        let waiting = self.waiting.get(&apex.to_owned()).into_iter().flatten();
        waiting.map(|waiting| CatalogListing {
            catalog: waiting.catalog.to_string(),
            groups: waiting.member.groups.iter().map(|group| String::from_utf8_lossy(group).into_owned()).collect(),
            problem: Some(waiting.reason.clone()),
        })
    }

    /// The zones with a member that is not served, in no order.
    pub fn waiting_zones(&self) -> impl Iterator<Item = &Name> {
        self.waiting.keys()
    }

    /// Whether a member waits for a template.
    pub fn lack_templates(&self, templates: &TemplateSet) -> bool {
        let mut waiting = self.waiting.values().flatten();
        waiting.any(|waiting| templates.usable(&self.template_of(&waiting.catalog, &waiting.member).1).is_err())
    }

    /// Forgets what catalogs that are gone have listed.
    pub fn retain_catalogs(&mut self, is_there: impl Fn(&Name) -> bool) {
        // Their members are free: all catalogs are placed anew.
        self.expected.retain(|_, expected| is_there(&expected.name));
        self.leaving.retain(|_, leaving| is_there(&leaving.from));
        self.waiting.retain(|_, waiting| {
            waiting.retain(|waiting| is_there(&waiting.catalog));
            !waiting.is_empty()
        });
    }

    /// The group that chooses the template of a member, if one does, and the template (RFC 9432 4.3.2: unknown groups are ignored).
    fn template_of(&self, catalog: &Name, member: &CatalogMember) -> (Option<String>, String) {
        let known = self.groups.get(catalog).and_then(|groups| {
            let mut names = member.groups.iter().filter_map(|group| std::str::from_utf8(group).ok());
            names.find_map(|group| groups.0.get_key_value(group))
        });
        match known {
            Some((group, template)) => (Some(group.clone()), template.clone()),
            None => (None, DEFAULT_TEMPLATE.to_owned()),
        }
    }
}

fn is_member_of(catalog: &Name) -> String {
    format!("the zone is a member of the catalog {catalog}")
}
