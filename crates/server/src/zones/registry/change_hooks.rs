//! Who learns what the registry configures and publishes.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;

use wire::{Name, NameRef};
use zone::Zone;

use crate::config::{ConfiguredKey, ZonePolicy};
use crate::storage::Timers;
use crate::zone_id::ZoneId;

/// Learns what is configured and published. The default does nothing.
pub trait ChangeHooks: Send {
    /// A version was published, and queries are answered from it: secondaries are to be notified.
    /// `name_servers` are the addresses of its NS records, if its policy wants them to be notified.
    fn published(&mut self, _zone: ZoneId, _version: &Zone, _policy: &Arc<ZonePolicy>, _name_servers: &[IpAddr]) {}

    /// A zone was added, or has another policy. It may have a version, and stored timers of it.
    fn configured(
        &mut self,
        _zone: ZoneId,
        _apex: NameRef<'_>,
        _policy: &Arc<ZonePolicy>,
        _version: Option<(&Zone, Option<Timers>)>,
    ) {
    }

    /// Another catalog owns a zone: its timers are to be stored again, with the new owner.
    fn reassigned(&mut self, _zone: ZoneId) {}

    /// A zone was frozen: its primaries are not to be asked until it is configured again.
    fn frozen(&mut self, _zone: ZoneId) {}

    /// A zone was removed.
    fn removed(&mut self, _zone: ZoneId) {}

    /// These keys are configured now; returns the names of those that are new or have another secret. The zones whose primaries
    /// have one of them must be configured again.
    fn set_keys(&mut self, _keys: &[ConfiguredKey]) -> HashSet<Name> {
        HashSet::new()
    }

    /// The zones have no other keys than the configured ones and these from now on.
    fn retain_keys(&mut self, _used: &HashSet<Name>) {}
}

/// No notifications.
pub struct NoHooks;

impl ChangeHooks for NoHooks {}
