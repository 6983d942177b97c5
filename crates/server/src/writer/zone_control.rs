//! Freezing, thawing and rolling back zones, and what the journal has of them, for clients of the control socket. What takes long is done on the client's thread.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use tracing::warn;
use wire::Name;
use zone::Zone;

use super::Writer;
use crate::config::ZonePolicy;
use crate::storage::{StoreUsage, ZoneUsage};
use crate::zone_id::ZoneId;
use crate::zone_totals::ZoneTotals;
use crate::zones::acceptance::Remark;
use crate::zones::{ControlRefused, Rollback};

/// A request about zones, or about all of them together.
pub enum ControlEvent {
    /// Freezes or thaws zones.
    Freeze {
        /// The zones.
        zones: Vec<ZoneId>,
        /// Whether they are frozen from now on.
        is_frozen: bool,
        /// Receives the results.
        reply: SyncSender<ControlResults>,
    },
    /// Notifies the secondaries of zones.
    Notify {
        /// The zones.
        zones: Vec<ZoneId>,
        /// Receives the results.
        reply: SyncSender<ControlResults>,
    },
    /// Asks which version a rollback returns to.
    KeptVersion {
        /// The zone.
        zone: ZoneId,
        /// The serial wanted; none for the version before the current one.
        serial: Option<u32>,
        /// Receives the version.
        reply: SyncSender<Result<KeptVersion, ControlRefused>>,
    },
    /// Asks for the names of the frozen zones.
    FrozenZones {
        /// Receives them.
        reply: SyncSender<Vec<Name>>,
    },
    /// Asks what the journal has of zones.
    JournalOf {
        /// The zones.
        zones: Vec<ZoneId>,
        /// Receives that, in the order of the zones; is dropped if it cannot be known.
        reply: SyncSender<Vec<Option<ZoneUsage>>>,
    },
    /// Asks for the totals of all zones.
    Totals {
        /// Receives them.
        reply: SyncSender<ZoneTotals>,
    },
    /// Asks what the journal has of all zones.
    Journal {
        /// Receives that; is dropped if it cannot be known.
        reply: SyncSender<StoreUsage>,
    },
    /// Serves an earlier version.
    RollBack {
        /// The zone.
        zone: ZoneId,
        /// What to serve.
        rollback: Rollback,
        /// Receives the serial that is served.
        reply: SyncSender<Result<u32, ControlRefused>>,
    },
}

/// The results for some zones, in their order.
pub type ControlResults = Vec<Result<(), ControlRefused>>;

/// A version that can be served again.
pub struct KeptVersion {
    /// The version served now.
    pub current: Zone,
    /// The earlier one.
    pub kept: Zone,
    /// The settings of the zone.
    pub policy: Arc<ZonePolicy>,
}

impl Writer {
    /// Freezes zones as soon as they have a version. `removed` is called whenever frozen zones were removed.
    pub fn freeze_later(&mut self, zones: HashSet<Name>, removed: impl Fn() + Send + 'static) {
        self.zones.freeze_later(zones);
        self.frozen_removed = Box::new(removed);
    }

    /// Reports that frozen zones were removed.
    pub(super) fn report_frozen(&mut self) {
        if self.zones.take_removed_frozen() {
            (self.frozen_removed)();
        }
    }

    pub(super) fn control(&mut self, event: ControlEvent) {
        // A client that has left gets no reply.
        match event {
            ControlEvent::Freeze { zones, is_frozen, reply } => {
                let freeze = |id| if is_frozen { self.zones.freeze(id) } else { self.zones.thaw(id) };
                _ = reply.send(zones.into_iter().map(freeze).collect());
            }
            ControlEvent::Notify { zones, reply } => {
                _ = reply.send(zones.into_iter().map(|id| self.zones.notify_again(id)).collect());
            }
            ControlEvent::KeptVersion { zone, serial, reply } => _ = reply.send(self.kept_version(zone, serial)),
            ControlEvent::FrozenZones { reply } => _ = reply.send(self.zones.frozen_zones()),
            ControlEvent::JournalOf { zones, reply } => self.zones.report_journal_of(&zones, reply),
            ControlEvent::Totals { reply } => _ = reply.send(self.zone_totals()),
            ControlEvent::Journal { reply } => self.zones.report_journal(reply),
            ControlEvent::RollBack { zone, rollback, reply } => {
                self.zones.roll_back(zone, rollback, Box::new(move |result| _ = reply.send(result)));
            }
        }
    }

    fn zone_totals(&self) -> ZoneTotals {
        let ((served, others), expired) = (self.zones.counts(), self.zones.expired_count());
        ZoneTotals {
            serving: served as u64,
            expired: expired as u64,
            unavailable: others.saturating_sub(expired) as u64,
            received: self.secondaries.totals(),
        }
    }

    fn kept_version(&self, zone: ZoneId, serial: Option<u32>) -> Result<KeptVersion, ControlRefused> {
        let state = self.zones.latest(zone).zip(self.zones.policy(zone));
        let (current, policy) = state.ok_or(ControlRefused::NoSuchZone)?;
        let kept = self.zones.kept_version(zone, serial)?;
        Ok(KeptVersion { current: current.clone(), kept: kept.clone(), policy: policy.clone() })
    }
}

impl KeptVersion {
    /// How the version is served again. A primary publishes its content with the next serial, so that secondaries follow. A signed
    /// zone, whose SOA record only its signer can change, and a secondary serve it as it was and must be frozen: otherwise the
    /// version that it replaces would return at once.
    pub fn rollback(self, now_s: u64) -> Rollback {
        let KeptVersion { current, kept, policy } = self;
        let base = current.version();
        if !policy.primaries.is_empty() || kept.is_signed() || current.is_signed() {
            return Rollback { base, version: kept, change: None };
        }
        let serial = policy.serial_policy.next(current.serial(), now_s);
        let version = kept.with_serial(serial);
        if kept.has_digest() && !version.has_digest() {
            warn!(zone = %version.apex(), serial, "{}", Remark::StaleDigest);
        }
        let change = zone::encoded_change::EncodedChange::between(&current, &version);
        Rollback { base, version, change: Some(change) }
    }
}
