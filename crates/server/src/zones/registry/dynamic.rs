//! Zones that come and go while the daemon runs: members of catalogs, and those of `zonda zone add`.
//!
//! The registry notes what concerns catalogs; the writer passes the notices on, so that the registry knows nothing of catalogs.

use std::sync::Arc;

use answer::ZoneExtras;
use wire::Name;

use super::ZoneRegistry;
use crate::config::value::CatalogRole;
use crate::config::{ZonePolicy, ZoneSource};
use crate::zone_id::ZoneId;
use crate::zones::template_set::TemplateSource;
use crate::zones::zone_entry::ZoneEntry;
use crate::zones::zone_origin::ZoneOrigin;

/// What happened to a zone.
#[derive(Debug, PartialEq, Eq)]
pub enum ZoneNotice {
    /// It was removed.
    Removed(ZoneId),
    /// A consumed catalog has another version.
    CatalogChanged(ZoneId),
    /// A produced catalog is to list it, perhaps in another group than before.
    Listed(ZoneId),
    /// A produced catalog is to list it no more.
    Unlisted {
        /// The catalog.
        catalog: Name,
        /// The zone.
        apex: Name,
    },
    /// It is configured now and had another origin before.
    TakenOver {
        /// The zone.
        apex: Name,
        /// What it was.
        origin: ZoneOrigin,
    },
}

impl ZoneRegistry {
    /// Adds a zone that is not configured, to be loaded at once. Returns `None` if there is one with this apex.
    pub fn add_dynamic(&mut self, apex: Name, template: &TemplateSource, origin: ZoneOrigin) -> Option<ZoneId> {
        self.add_shared(apex, template.source.clone(), template.extras.clone(), origin)
    }

    /// As [`ZoneRegistry::add_dynamic`], for a member that its catalog lists under this label.
    pub fn add_member(
        &mut self,
        apex: Name,
        template: &TemplateSource,
        origin: ZoneOrigin,
        label: &[u8],
    ) -> Option<ZoneId> {
        let id = self.add_dynamic(apex, template, origin)?;
        self.origins.set_label(id.index as usize, label);
        self.owner_changed(id);
        Some(id)
    }

    /// As [`ZoneRegistry::add_dynamic`], for a zone whose addition has this number.
    pub fn add_numbered(
        &mut self,
        apex: Name,
        template: &TemplateSource,
        origin: ZoneOrigin,
        number: u32,
    ) -> Option<ZoneId> {
        let id = self.add_dynamic(apex, template, origin)?;
        self.origins.set_addition(id.index as usize, number);
        Some(id)
    }

    /// The number of the addition of a zone; 0 if it was not added, or that is not known.
    pub fn addition(&self, id: ZoneId) -> u32 {
        self.zones.get(id).map_or(0, |_| self.origins.addition(id.index as usize))
    }

    pub(super) fn add_shared(
        &mut self,
        apex: Name,
        source: Arc<ZoneSource>,
        extras: Arc<ZoneExtras>,
        origin: ZoneOrigin,
    ) -> Option<ZoneId> {
        let id = self.insert_entry(ZoneEntry::new(apex, source, extras))?;
        self.origins.set(id.index as usize, origin);
        self.loads.zone_added(id);
        self.publisher.draft_insert(&self.zones, id);
        self.publisher.queue_change(id);
        self.announce_configuration(id);
        self.note_added(id);
        self.note_keys_of_changed(id);
        self.load_now(id);
        Some(id)
    }

    /// Gives a zone that is not configured another template or owner; it keeps its content.
    pub fn reassign(&mut self, id: ZoneId, template: &TemplateSource, origin: ZoneOrigin) {
        if self.zones.get(id).is_none() {
            return;
        }
        let before = self.origins.membership(id.index as usize);
        self.origins.set(id.index as usize, origin);
        if self.origins.membership(id.index as usize) != before {
            self.hooks.reassigned(id);
            self.owner_changed(id);
        }
        let Some(entry) = self.zones.get(id).filter(|entry| entry.source != template.source) else { return };
        let (apex, is_read_again) = (entry.served.apex().to_owned(), !template.source.is_read_like(&entry.source));
        self.reconfigure(id, apex, template.source.clone(), template.extras.clone(), &mut Vec::new());
        self.note_keys_of_changed(id);
        self.publisher.queue_change(id);
        if is_read_again {
            self.load_now(id);
        }
    }

    /// Why there is this zone.
    pub fn origin(&self, id: ZoneId) -> Option<&ZoneOrigin> {
        self.zones.get(id).map(|_| self.origins.of(id.index as usize))
    }

    /// The zone in this slot, if there is one that is not configured.
    pub fn dynamic_at(&self, slot: usize) -> Option<ZoneId> {
        if self.origins.is_configured(slot) { None } else { self.zones.id_at(slot) }
    }

    /// Whether more zones may be added now: neither a configuration nor many loads are in progress.
    pub fn accepts_zones(&self) -> bool {
        self.configuring.is_none() && self.loads.has_room()
    }

    /// What happened to zones since the last call.
    pub fn take_notices(&mut self) -> Vec<ZoneNotice> {
        std::mem::take(&mut self.notices)
    }

    /// Notes that a zone was added if a catalog is to list it.
    pub(super) fn note_added(&mut self, id: ZoneId) {
        if self.zones.get(id).is_some_and(|entry| entry.source.policy.catalog_member.is_some()) {
            self.notices.push(ZoneNotice::Listed(id));
        }
    }

    /// Notes that the catalog that is to list a zone may have changed.
    pub(super) fn note_listing(&mut self, id: ZoneId, old: Option<&ZonePolicy>, new: Option<&ZonePolicy>) {
        let catalog = |policy: Option<&ZonePolicy>| policy.and_then(|policy| policy.catalog_member.clone());
        let (old, new) = (catalog(old), catalog(new));
        let apex = || self.zones.get(id).map(|entry| entry.served.apex().to_owned());
        if let Some((catalog, apex)) = old.filter(|old| new.as_ref() != Some(old)).zip(apex()) {
            self.notices.push(ZoneNotice::Unlisted { catalog, apex });
        }
        if new.is_some() {
            self.notices.push(ZoneNotice::Listed(id));
        }
    }

    /// Notes that a zone has another version if it is a consumed catalog.
    pub(super) fn note_version(&mut self, id: ZoneId) {
        if self.zones.get(id).is_some_and(|entry| entry.source.policy.catalog == Some(CatalogRole::Consume)) {
            self.notices.push(ZoneNotice::CatalogChanged(id));
        }
    }
}
