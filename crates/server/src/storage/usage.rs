//! How much the store holds.

use serde::{Deserialize, Serialize};

use super::disk::Disk;
use super::store::{Store, StoredZone};

/// What the store holds of a zone, in octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ZoneUsage {
    /// The stored version.
    pub image_octets: u64,
    /// The changes after it, which lead to the current version.
    pub change_octets: u64,
    /// The changes before it, which are kept for IXFR.
    pub history_octets: u64,
}

/// What the store holds of all zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreUsage {
    /// Octets of the log, with what is not needed any more.
    pub log_octets: u64,
    /// Octets of the log that are needed.
    pub live_octets: u64,
    /// Octets of the images that have files of their own.
    pub image_octets: u64,
    /// Octets of changes that are kept for IXFR only.
    pub history_octets: u64,
    /// Changes dropped since the start because their zone, or all zones together, had too many octets of them.
    pub dropped_changes: u64,
    /// Their octets.
    pub dropped_octets: u64,
    /// Whether the last attempt to write has failed.
    pub is_failing: bool,
}

impl<D: Disk> Store<D> {
    /// What is held of a zone; `None` if it has no image.
    pub fn zone_usage(&self, zone: StoredZone) -> Option<ZoneUsage> {
        self.index.zones.get(zone.0 as usize).filter(|slot| slot.image.is_some())?;
        let changes = self.index.changes(zone.0);
        Some(ZoneUsage {
            image_octets: self.index.image_len(zone.0).into(),
            change_octets: changes.map_or(0, |changes| changes.required_len),
            history_octets: changes.map_or(0, |changes| changes.history_len),
        })
    }

    /// What is held of all zones.
    pub fn usage(&self) -> StoreUsage {
        StoreUsage {
            log_octets: self.segments.values().map(|segment| u64::from(segment.len)).sum(),
            live_octets: self.index.live.values().sum(),
            image_octets: self.index.image_files().map(|(_, len)| u64::from(len)).sum(),
            history_octets: self.index.history_total,
            dropped_changes: self.index.dropped.0,
            dropped_octets: self.index.dropped.1,
            is_failing: self.is_failing,
        }
    }
}
