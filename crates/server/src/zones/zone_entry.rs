//! A zone of the registry, and the reports of its changes.

use std::collections::HashMap;
use std::sync::Arc;

use answer::{
    Acl, AclEntry, HistoryLimits, ServedZone, TlsRule, UpdateAcl, UpdateEntry, UpdateRole, ZoneAcls, ZoneExtras,
    ZoneHistory, ZoneState,
};
use wire::{AddressPrefix, Name, NameRef};
use zone::Zone;
use zone::encoded_change::EncodedChange;

use super::load::LoadedZone;
use crate::config::{AccessEntry, RemoteServer, TlsRequirement, UpdateRight, ZonePolicy, ZoneSource};
use crate::report::{Change, FindingReport, ZoneReport};

/// A configured zone.
pub struct ZoneEntry {
    /// What is published, or will be with the next batch.
    pub served: Arc<ServedZone>,
    /// Its file and policy, shared with the zones that have the same ones.
    pub source: Arc<ZoneSource>,
}

impl ZoneEntry {
    /// A zone that is not loaded yet.
    pub fn new(apex: Name, source: Arc<ZoneSource>, extras: Arc<ZoneExtras>) -> ZoneEntry {
        let served = Arc::new(ServedZone::new(ZoneState::Unavailable(apex), extras));
        ZoneEntry { served, source }
    }

    /// Replaces the version to serve by one that these changes lead to; none if they are not known. The histories of all zones have
    /// `max_history_octets` at most.
    pub fn serve(&mut self, zone: Zone, changes: &[EncodedChange], max_history_octets: u64) {
        let limits = HistoryLimits { zone: self.source.policy.max_history_len(), total: max_history_octets };
        self.served = Arc::new(self.served.with_version(zone, changes, limits));
    }

    /// Replaces the version by one with the same content.
    pub fn serve_rebuilt(&mut self, zone: Zone) {
        self.served = Arc::new(self.served.with_rebuilt(zone));
    }

    /// Stops serving the zone: it has expired.
    pub fn expire(&mut self) {
        self.served = Arc::new(self.served.expired());
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
        addresses: entry.address,
        key: entry.key.clone(),
        tls: match &entry.tls {
            None => TlsRule::Any,
            Some(TlsRequirement::Encrypted) => TlsRule::Encrypted,
            Some(TlsRequirement::ClientName(name)) => TlsRule::ClientName(name.clone()),
        },
    }
}

/// RFC 1996 3.10: the primaries of a zone may announce its changes, signed with their key if they have one. Many of them do so over
/// UDP even if transfers are over TLS.
fn primary_entry(primary: &RemoteServer) -> AclEntry {
    let address = AddressPrefix::single(primary.address.ip().to_canonical());
    AclEntry { key: primary.key.clone(), ..AclEntry::of_addresses(address) }
}

fn update_entry(right: &UpdateRight) -> UpdateEntry {
    let UpdateRight { access, names, types, signed } = right;
    UpdateEntry { client: acl_entry(access), names: names.clone(), types: types.clone(), signed: *signed }
}

fn update_acl(policy: &ZonePolicy) -> UpdateAcl {
    let role = match (policy.primaries.is_empty(), policy.forward_updates) {
        (true, _) => UpdateRole::Apply,
        (false, true) => UpdateRole::Forward,
        (false, false) => UpdateRole::Ignore,
    };
    UpdateAcl { entries: policy.allow_update.iter().map(update_entry).collect(), role }
}

/// The access lists, as what the zones with the same policy share.
#[derive(Default)]
pub struct Acls(HashMap<Arc<ZonePolicy>, Arc<ZoneExtras>>);

impl Acls {
    /// The lists of this policy.
    pub fn of(&mut self, policy: &Arc<ZonePolicy>) -> Arc<ZoneExtras> {
        if let Some(extras) = self.0.get(policy) {
            return extras.clone();
        }
        let primaries = policy.primaries.iter().map(primary_entry);
        let acls = ZoneAcls {
            transfer: Acl(policy.allow_transfer.iter().map(acl_entry).collect()),
            notify: Acl(policy.allow_notify.iter().map(acl_entry).chain(primaries).collect()),
            update: update_acl(policy),
        };
        let extras = ZoneExtras::new(acls, ZoneHistory::new());
        self.0.insert(policy.clone(), extras.clone());
        extras
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::reader::ConfigReader;

    #[test]
    fn primaries_and_allow_notify_may_announce_changes() {
        let mut reader = ConfigReader::default();
        reader.add_argument("z.".parse().expect("a name"), std::path::Path::new("file"));
        let zone = reader.finish().expect("no mistakes").zones.remove(0);
        let key: Name = "k.".parse().expect("a name");
        let primary = |address: &str, key| {
            let address = std::net::SocketAddr::new(address.parse().expect("an address"), 53);
            RemoteServer { address, key, tls: None, source: None }
        };
        let access = |address: &str, len| {
            let address = AddressPrefix { address: address.parse().expect("an address"), len };
            AccessEntry { address: Some(address), key: None, tls: None }
        };
        let policy = ZonePolicy {
            primaries: vec![primary("192.0.2.1", None), primary("2001:db8::1", Some(key.clone()))],
            allow_notify: vec![access("198.51.100.0", 24)],
            allow_transfer: vec![access("203.0.113.1", 32)],
            ..(*zone.source.policy).clone()
        };
        let extras = Acls::default().of(&Arc::new(policy));
        for (address, is_signed, allowed) in [
            ("192.0.2.1", false, true),
            ("192.0.2.2", false, false),
            ("2001:db8::1", true, true),
            ("2001:db8::1", false, false),
            ("2001:db8::2", true, false),
            ("198.51.100.9", false, true),
            ("203.0.113.1", false, false),
        ] {
            let address = address.parse().expect("an address");
            let client = answer::Client { address, key: is_signed.then_some(key.as_ref()), tls: None };
            assert_eq!(extras.acls().notify.allows(&client), allowed, "{address} {is_signed}");
        }
    }
}
