//! A configured zone: its data if it is loaded, and who may transfer it.

use std::sync::Arc;

use wire::{Name, NameRef};
use zone::Zone;

use crate::acl::Acl;

/// A configured zone.
pub struct ServedZone {
    /// Its data, if loaded.
    pub state: ZoneState,
    /// Who may transfer it.
    pub allow_transfer: Arc<Acl>,
}

/// Whether a configured zone has data.
pub enum ZoneState {
    /// It is served.
    Loaded(Zone),
    /// The zone with this apex is not loaded: queries get SERVFAIL.
    Unavailable(Name),
}

impl ServedZone {
    /// The apex.
    pub fn apex(&self) -> NameRef<'_> {
        match &self.state {
            ZoneState::Loaded(zone) => zone.apex(),
            ZoneState::Unavailable(apex) => apex.as_ref(),
        }
    }

    /// The zone, if loaded.
    pub fn zone(&self) -> Option<&Zone> {
        match &self.state {
            ZoneState::Loaded(zone) => Some(zone),
            ZoneState::Unavailable(_) => None,
        }
    }
}
