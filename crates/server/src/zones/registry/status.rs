//! The status of zones, for `zonda zone status`.

use zone::Zone;

use super::ZoneRegistry;
use crate::zone_id::ZoneId;
use crate::zone_status::{ZoneServingState, ZoneStatus};

impl ZoneRegistry {
    /// How many slots there are, with and without a zone.
    pub fn slot_count(&self) -> usize {
        self.zones.slot_count()
    }

    /// The status of the zone in this slot, if there is one.
    pub fn status_at(&self, index: usize) -> Option<(ZoneId, ZoneStatus)> {
        let id = self.zones.id_at(index)?;
        let entry = self.zones.get(id)?;
        let version = entry.served.zone();
        // A zone whose file was never read to the end has no fingerprint.
        let is_loading = self.loads.is_loading(id);
        let state = match version {
            Some(_) => ZoneServingState::Serving,
            None if self.expired.contains_key(&id) => ZoneServingState::Expired,
            None if is_loading => ZoneServingState::Loading,
            None => ZoneServingState::Failed,
        };
        let status = ZoneStatus {
            serial: version.map(Zone::serial),
            is_frozen: self.is_frozen(id),
            kept_versions: self.kept_versions(id).map(Zone::serial).collect(),
            problem: self.problem(id).map(str::to_owned),
            ..ZoneStatus::new(entry.served.apex(), state)
        };
        Some((id, status))
    }
}
