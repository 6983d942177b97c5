//! A zone of the registry, and the reports of its changes.

use std::collections::HashMap;
use std::sync::Arc;

use answer::{Acl, AclEntry, AddressPrefix, ServedZone, TlsRule, ZoneState};
use wire::{Name, NameRef};
use zone::Zone;

use super::change_detection::Fingerprint;
use super::load::LoadedZone;
use crate::config::{AccessEntry, Prefix, TlsRequirement, ZonePolicy, ZoneSource};
use crate::report::{Change, FindingReport, ZoneReport};

/// A configured zone.
pub struct ZoneEntry {
    /// What is published, or will be with the next batch.
    pub served: Arc<ServedZone>,
    /// Its file and policy, shared with the zones that have the same ones.
    pub source: Arc<ZoneSource>,
    /// Detects changes of its files since they were read.
    pub fingerprint: Fingerprint,
}

impl ZoneEntry {
    /// A zone that is not loaded yet.
    pub fn new(apex: Name, source: Arc<ZoneSource>, allow_transfer: Arc<Acl>) -> ZoneEntry {
        let served = Arc::new(ServedZone::new(ZoneState::Unavailable(apex), allow_transfer));
        ZoneEntry { served, source, fingerprint: Fingerprint::NONE }
    }

    /// Replaces the version to serve.
    pub fn serve(&mut self, zone: Zone) {
        let allow_transfer = self.served.allow_transfer.clone();
        self.served = Arc::new(ServedZone::new(ZoneState::Loaded(zone), allow_transfer));
    }
}

/// The change from the version served so far to the loaded one, if any.
pub fn change_of(old: &ServedZone, loaded: &LoadedZone) -> Option<ZoneReport> {
    let change = match (old.zone(), &loaded.zone) {
        (None, None) => Change::Failed,
        (Some(_), None) => Change::Kept,
        (None, Some(_)) => Change::Added,
        (Some(_), Some(_)) if loaded.is_changed => Change::Changed,
        _ => return None,
    };
    let findings = loaded.findings.iter().map(|finding| FindingReport::new(finding, Some(old.apex())));
    Some(ZoneReport {
        old_serial: old.zone().map(Zone::serial),
        serial: loaded.zone.as_ref().or(old.zone()).map(Zone::serial),
        findings: findings.collect(),
        ..zone_report(old.apex(), change)
    })
}

/// A report without serials and findings.
pub fn zone_report(apex: NameRef<'_>, change: Change) -> ZoneReport {
    ZoneReport { zone: apex.to_string(), change, old_serial: None, serial: None, findings: Vec::new() }
}

fn acl_entry(entry: &AccessEntry) -> AclEntry {
    AclEntry {
        addresses: entry.address.map(|Prefix { address, length }| AddressPrefix { address, len: length }),
        key: entry.key.clone(),
        tls: match &entry.tls {
            None => TlsRule::Any,
            Some(TlsRequirement::Encrypted) => TlsRule::Encrypted,
            Some(TlsRequirement::ClientName(name)) => TlsRule::ClientName(name.clone()),
        },
    }
}

/// The `allow-transfer` lists, shared by the zones with the same policy.
#[derive(Default)]
pub struct Acls(HashMap<Arc<ZonePolicy>, Arc<Acl>>);

impl Acls {
    /// The list of this policy.
    pub fn of(&mut self, policy: &Arc<ZonePolicy>) -> Arc<Acl> {
        if let Some(acl) = self.0.get(policy) {
            return acl.clone();
        }
        let acl = Arc::new(Acl(policy.allow_transfer.iter().map(acl_entry).collect()));
        self.0.insert(policy.clone(), acl.clone());
        acl
    }
}
