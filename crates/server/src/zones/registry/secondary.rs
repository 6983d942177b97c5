//! Secondary zones: versions that were transferred, and expiry.

use std::sync::Arc;

use zone::Zone;
use zone::encoded_change::EncodedChange;

use super::{ChangeRefusal, ZoneRegistry};
use crate::config::ZonePolicy;
use crate::zone_id::ZoneId;

impl ZoneRegistry {
    /// The settings of a zone.
    pub fn policy(&self, id: ZoneId) -> Option<&Arc<ZonePolicy>> {
        self.zones.get(id).map(|entry| &entry.source.policy)
    }

    /// Serves a version that was transferred; `changes` lead to it, none if they are not known. Returns false if the zone has
    /// changed since `base` was its version, or is frozen.
    pub fn serve_transferred(
        &mut self,
        id: ZoneId,
        base: Option<&Zone>,
        version: Zone,
        changes: &[EncodedChange],
    ) -> bool {
        if self.is_frozen(id) || self.version_or_expired(id).map(Zone::version) != base.map(Zone::version) {
            return false;
        }
        // What is wrong with its file does not matter any more.
        self.note_problem(id, None);
        self.seeded.remove(&id);
        self.replace(id, version, changes)
    }

    /// Whether the zone has primaries.
    pub fn is_secondary(&self, id: ZoneId) -> bool {
        self.policy(id).is_some_and(|policy| !policy.primaries.is_empty())
    }

    /// Whether the file of a zone may change it. A secondary only starts with its file: what it has from a primary is newer, and expires
    /// (RFC 1034 4.3.5); and its primaries are asked from the serial of that.
    pub(super) fn reads_file(&self, id: ZoneId) -> bool {
        let starts = || self.version_or_expired(id).is_none() || self.seeded.contains(&id);
        !self.is_frozen(id) && (!self.is_secondary(id) || starts())
    }

    /// The latest version of a zone, or the one that has expired: what a transfer continues from.
    pub fn version_or_expired(&self, id: ZoneId) -> Option<&Zone> {
        self.latest(id).or_else(|| self.expired.get(&id))
    }

    /// RFC 1034 4.3.5: stops serving a zone whose primaries could not be reached for too long. Its data is kept: a primary may
    /// confirm it.
    pub fn expire(&mut self, id: ZoneId) {
        // A rebuild that ends later would serve the zone again.
        self.discard_changes(id, || ChangeRefusal::NotServed);
        let Some(entry) = self.zones.get_mut(id) else { return };
        if let Some(version) = entry.served.zone().cloned() {
            self.expired.insert(id, version);
            self.served -= 1;
        }
        entry.expire();
        self.publisher.queue_change(id);
    }

    /// A primary confirmed the version of a zone, which expires at this time. Serves it again if it had expired.
    pub fn refreshed(&mut self, id: ZoneId, expires_at_s: u32) {
        if let Some(version) = self.expired.remove(&id) {
            self.install(id, version, &[]);
        }
        self.set_expiry(id, expires_at_s);
    }

    /// How many zones have expired.
    pub fn expired_count(&self) -> usize {
        self.expired.len()
    }

    /// Sets when a zone expires, for the EXPIRE option (RFC 7314 3.2).
    pub fn set_expiry(&self, id: ZoneId, expires_at_s: u32) {
        if let Some(entry) = self.zones.get(id) {
            entry.served.set_expiry(expires_at_s);
        }
    }
}
