//! What the transfer thread must know of zones: their primaries, and whom to notify of new versions.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use tracing::error;
use wire::tsig::TsigKey;
use wire::{Name, NameRef};
use zone::Zone;

use super::own_addresses::OwnAddresses;
use crate::config::value::DNS_PORT;
use crate::config::{ConfiguredKey, RemoteServer, ZoneLimits, ZonePolicy};
use crate::storage::Timers;
use crate::tls::TlsPeers;
use crate::transfer::engine::TransferCommand;
use crate::transfer::network::TransferHandle;
use crate::transfer::primary::{PeerConfig, SecondaryLimits, SizeLimits};
use crate::transfer::refresh::ZoneVersion;
use crate::transfer::soa_timers::{SoaTimers, StoredTimers};
use crate::zone_id::{ZoneBitSet, ZoneId};
use crate::zones::{ChangeHooks, acceptance};

/// Passes configured zones and published versions on to the transfer thread.
pub struct TransferHooks {
    transfers: TransferHandle,
    tls: TlsPeers,
    own: OwnAddresses,
    keys: HashMap<Name, Arc<TsigKey>>,
    /// Keys that are configured no more. Zones whose template is gone keep their settings, and while a configuration is applied, some zones
    /// have those of the one before: their messages must not be unsigned from now on.
    former_keys: HashMap<Name, Arc<TsigKey>>,
    /// The servers of the policy that was used last: many zones share one.
    last: Option<(Arc<ZonePolicy>, Arc<PolicyPeers>)>,
    /// The zones that have primaries.
    secondaries: ZoneBitSet,
    /// The zones of which a version was announced, or that had primaries: the transfer thread may still know them.
    known: ZoneBitSet,
}

/// The other servers of the zones with one policy.
struct PolicyPeers {
    primaries: Arc<[PeerConfig]>,
    notify: Arc<[PeerConfig]>,
}

impl TransferHooks {
    /// Hooks without keys, for a server with these addresses.
    pub fn new(transfers: TransferHandle, tls: TlsPeers, own: OwnAddresses) -> TransferHooks {
        let (secondaries, known) = (ZoneBitSet::default(), ZoneBitSet::default());
        let (keys, former_keys) = (HashMap::new(), HashMap::new());
        TransferHooks { transfers, tls, own, keys, former_keys, last: None, secondaries, known }
    }

    fn peers(&mut self, policy: &Arc<ZonePolicy>) -> Arc<PolicyPeers> {
        if let Some((_, peers)) = self.last.as_ref().filter(|(last, _)| Arc::ptr_eq(last, policy)) {
            return peers.clone();
        }
        let peer = |server: &RemoteServer| self.peer(server, policy);
        let primaries = policy.primaries.iter().filter_map(peer).collect();
        let notify = policy.notify.iter().filter_map(peer).collect();
        let peers = Arc::new(PolicyPeers { primaries, notify });
        self.last = Some((policy.clone(), peers.clone()));
        peers
    }

    /// `None` if its key is not known, as its messages must not be unsigned. The configuration guarantees that the key exists, or did.
    fn peer(&self, server: &RemoteServer, policy: &ZonePolicy) -> Option<PeerConfig> {
        let key = match &server.key {
            None => None,
            Some(name) => {
                let key = self.keys.get(name).or(self.former_keys.get(name));
                if key.is_none() {
                    error!(server = %server.address, key = %name, "its key is not configured: it gets no messages");
                }
                Some(key?.clone())
            }
        };
        let (tls, read) = self.tls.number(server.tls.as_ref());
        if let Err(error) = read {
            error!(server = %server.address, "zones cannot be transferred from this server: {error}");
        }
        let source = server.source.or_else(|| policy.source_for(server.address.ip()));
        Some(PeerConfig { address: server.address, key, source, tls })
    }

    /// The zone is not transferred any more.
    fn remove_secondary(&mut self, zone: ZoneId) {
        if self.secondaries.remove(zone) {
            self.known.insert(zone);
            self.send(TransferCommand::EndRefresh(zone));
        }
    }

    /// Sends a command. Fails only if the thread has ended, which is reported where it ends.
    fn send(&self, command: TransferCommand) {
        _ = self.transfers.send(command);
    }
}

impl ChangeHooks for TransferHooks {
    /// RFC 1996 3.11: secondaries are notified of a new version.
    fn published(&mut self, zone: ZoneId, version: &Zone, policy: &Arc<ZonePolicy>, name_servers: &[IpAddr]) {
        // A server is no secondary of itself, whatever name the zone gives it.
        let own = &mut self.own;
        let name_servers: Vec<IpAddr> = name_servers.iter().copied().filter(|ip| !own.contain(*ip)).collect();
        if policy.notify.is_empty() && name_servers.is_empty() {
            return;
        }
        let configured = self.peers(policy).notify.clone();
        let targets =
            if name_servers.is_empty() { configured } else { with_name_servers(&configured, &name_servers, policy) };
        let (apex, soa) = (version.apex().to_owned(), version.soa_rdata().into());
        self.known.insert(zone);
        self.send(TransferCommand::SendNotify { zone, apex, soa, targets });
    }

    fn configured(
        &mut self,
        zone: ZoneId,
        apex: NameRef<'_>,
        policy: &Arc<ZonePolicy>,
        version: Option<(&Zone, Option<Timers>)>,
    ) {
        if policy.primaries.is_empty() {
            return self.remove_secondary(zone);
        }
        let (primaries, limits) = (self.peers(policy).primaries.clone(), limits(policy));
        if !self.secondaries.insert(zone) {
            return self.send(TransferCommand::Reconfigure { zone, primaries, limits });
        }
        let version = version.map(|(version, stored)| ZoneVersion {
            serial: version.serial(),
            timers: SoaTimers::of_soa(&version.soa_rdata()).unwrap_or_default(),
            stored: stored
                .filter(Timers::is_of_secondary)
                .map(|timers| StoredTimers { check_at_s: timers.next_refresh_s, expires_at_s: timers.expires_at_s }),
        });
        self.send(TransferCommand::Add { zone, apex: apex.to_owned(), primaries, limits, version });
    }

    fn reassigned(&mut self, zone: ZoneId) {
        if self.secondaries.contains(zone) {
            self.send(TransferCommand::ReportTimers { zone });
        }
    }

    fn frozen(&mut self, zone: ZoneId) {
        self.remove_secondary(zone);
    }

    /// Another zone may get its number: what is still to be announced of this one must not go out under that name.
    fn removed(&mut self, zone: ZoneId) {
        if self.secondaries.remove(zone) | self.known.remove(zone) {
            self.send(TransferCommand::Remove(zone));
        }
    }

    /// Keys that did not change stay the same objects: servers are told apart by them.
    fn set_keys(&mut self, keys: &[ConfiguredKey]) -> HashSet<Name> {
        let kept = |key: &ConfiguredKey| {
            let old = self.keys.get(&key.name().to_owned()).filter(|old| ***old == *key.key);
            (key.name().to_owned(), old.unwrap_or(&key.key).clone())
        };
        let keys: HashMap<Name, Arc<TsigKey>> = keys.iter().map(kept).collect();
        let is_same =
            |(name, key): &(&Name, &Arc<TsigKey>)| self.keys.get(name).is_some_and(|old| Arc::ptr_eq(old, key));
        let changed = keys.iter().filter(|key| !is_same(key)).map(|(name, _)| name.clone()).collect();
        self.former_keys.extend(std::mem::take(&mut self.keys));
        self.former_keys.retain(|name, _| !keys.contains_key(name));
        (self.keys, self.last) = (keys, None);
        changed
    }

    fn retain_keys(&mut self, used: &HashSet<Name>) {
        self.former_keys.retain(|name, _| used.contains(name));
    }
}

/// The configured targets, and those name servers that are not in `notify`: these are notified without a key.
fn with_name_servers(configured: &[PeerConfig], name_servers: &[IpAddr], policy: &ZonePolicy) -> Arc<[PeerConfig]> {
    let is_new = |ip: &&IpAddr| !policy.notify.iter().any(|server| server.address.ip() == **ip);
    let peer = |ip: &IpAddr| PeerConfig {
        source: policy.source_for(*ip),
        ..PeerConfig::plain(SocketAddr::new(*ip, DNS_PORT))
    };
    configured.iter().cloned().chain(name_servers.iter().filter(is_new).map(peer)).collect()
}

/// The limits of a secondary.
fn limits(policy: &ZonePolicy) -> SecondaryLimits {
    let ZoneLimits { max_records, max_bytes, .. } = policy.limits;
    let command = acceptance::command_lane(policy);
    SecondaryLimits { timers: policy.timers, size: SizeLimits { max_records, max_bytes }, command }
}

#[cfg(test)]
mod tests {
    use zone::load::load_text;

    use super::*;
    use crate::config::reader::ConfigReader;
    use crate::transfer::network::{NetworkCommand, command_queue};

    fn policy(apex: &Name) -> Arc<ZonePolicy> {
        let mut reader = ConfigReader::default();
        reader.add_argument(apex.clone(), std::path::Path::new("file"));
        reader.finish().expect("no mistakes").zones.remove(0).source.policy
    }

    fn version(apex: &Name) -> Zone {
        let text = b"@ 60 SOA ns host 1 1 1 1 1\n@ 60 NS ns\nns 60 A 192.0.2.1\n";
        load_text(apex.as_ref(), text).zone.expect("a good zone")
    }

    #[test]
    fn nothing_is_announced_of_a_removed_zone_though_it_has_no_primaries() {
        let (handle, commands) = command_queue().expect("a descriptor");
        let own = OwnAddresses::of(std::iter::empty());
        let mut hooks = TransferHooks::new(handle, TlsPeers::default(), own);
        let apex: Name = "a.example".parse().expect("a literal");
        let version = version(&apex);
        let (zone, never_announced) = (ZoneId { index: 70, generation: 1 }, ZoneId { index: 1, generation: 1 });
        let policy = policy(&apex);
        hooks.configured(zone, apex.as_ref(), &policy, Some((&version, None)));
        hooks.published(zone, &version, &policy, &[IpAddr::from([192, 0, 2, 1])]);
        hooks.configured(zone, apex.as_ref(), &policy, Some((&version, None)));
        (0..2).for_each(|_| hooks.removed(zone));
        hooks.removed(never_announced);
        let sent: Vec<NetworkCommand> = commands.try_iter().collect();
        let [
            NetworkCommand::Engine(TransferCommand::SendNotify { .. }),
            NetworkCommand::Engine(TransferCommand::Remove(removed)),
        ] = &sent[..]
        else {
            panic!("{} commands", sent.len())
        };
        assert_eq!(*removed, zone);
    }

    /// What is announced of it goes on until it is removed.
    #[test]
    fn a_frozen_secondary_is_not_removed() {
        let (handle, commands) = command_queue().expect("a descriptor");
        let mut hooks = TransferHooks::new(handle, TlsPeers::default(), OwnAddresses::of(std::iter::empty()));
        let apex: Name = "a.example".parse().expect("a literal");
        let zone = ZoneId { index: 3, generation: 1 };
        let address = ([192, 0, 2, 1], DNS_PORT).into();
        let primaries = vec![RemoteServer { address, key: None, tls: None, source: None }];
        let policy = Arc::new(ZonePolicy { primaries, ..ZonePolicy::clone(&policy(&apex)) });
        hooks.configured(zone, apex.as_ref(), &policy, None);
        (0..2).for_each(|_| hooks.frozen(zone));
        hooks.removed(zone);
        let sent: Vec<NetworkCommand> = commands.try_iter().collect();
        let [
            NetworkCommand::Engine(TransferCommand::Add { .. }),
            NetworkCommand::Engine(TransferCommand::EndRefresh(frozen)),
            NetworkCommand::Engine(TransferCommand::Remove(removed)),
        ] = &sent[..]
        else {
            panic!("{} commands", sent.len())
        };
        assert_eq!((*frozen, *removed), (zone, zone));
    }

    /// Neither as a primary, nor as a target of NOTIFY, though it is a name server of the zone as well.
    #[test]
    fn a_server_whose_key_is_not_known_is_left_out() {
        let (handle, commands) = command_queue().expect("a descriptor");
        let mut hooks = TransferHooks::new(handle, TlsPeers::default(), OwnAddresses::of(std::iter::empty()));
        let [apex, key]: [Name; 2] = ["a.example.", "k."].map(|name| name.parse().expect("a literal"));
        let zone = ZoneId { index: 3, generation: 1 };
        let address = |last: u8| SocketAddr::from(([192, 0, 2, last], DNS_PORT));
        let server = |last, key| RemoteServer { address: address(last), key, tls: None, source: None };
        let servers = vec![server(1, Some(key)), server(2, None)];
        let (primaries, notify) = (servers.clone(), servers);
        let policy = Arc::new(ZonePolicy { primaries, notify, ..ZonePolicy::clone(&policy(&apex)) });
        hooks.configured(zone, apex.as_ref(), &policy, None);
        hooks.published(zone, &version(&apex), &policy, &[1, 3].map(|last| address(last).ip()));
        let peers = commands.try_iter().flat_map(|command| match command {
            NetworkCommand::Engine(TransferCommand::Add { primaries, .. }) => primaries.to_vec(),
            NetworkCommand::Engine(TransferCommand::SendNotify { targets, .. }) => targets.to_vec(),
            _ => panic!("another command"),
        });
        let peers: Vec<SocketAddr> = peers.map(|peer| peer.address).collect();
        assert_eq!(peers, [2, 2, 3].map(address));
    }

    /// A primary that must sign could otherwise be anybody: the zone of a template that is gone keeps its settings, as it is thawed for example.
    #[test]
    fn transfers_stay_signed_though_their_key_is_configured_no_more() {
        let (handle, commands) = command_queue().expect("a descriptor");
        let mut hooks = TransferHooks::new(handle, TlsPeers::default(), OwnAddresses::of(std::iter::empty()));
        let [apex, key]: [Name; 2] = ["a.example.", "k."].map(|name| name.parse().expect("a literal"));
        let zone = ZoneId { index: 3, generation: 1 };
        let address = ([192, 0, 2, 1], DNS_PORT).into();
        let primaries = vec![RemoteServer { address, key: Some(key.clone()), tls: None, source: None }];
        let policy = Arc::new(ZonePolicy { primaries, ..ZonePolicy::clone(&policy(&apex)) });
        let configured = |secret: &str| ConfiguredKey {
            key: Arc::new(format!("hmac-sha256:k.:{secret}").parse().expect("a key")),
            algorithm: "hmac-sha256",
            secret_file: None,
        };
        let key_of_next = |hooks: &mut TransferHooks| {
            hooks.configured(zone, apex.as_ref(), &policy, None);
            hooks.frozen(zone);
            commands.try_iter().find_map(|command| match command {
                NetworkCommand::Engine(TransferCommand::Add { primaries, .. }) => primaries[0].key.clone(),
                _ => None,
            })
        };
        hooks.set_keys(&[configured("AQID")]);
        let first = key_of_next(&mut hooks);
        assert!(first.is_some());
        hooks.set_keys(&[]);
        assert_eq!(key_of_next(&mut hooks), first);
        assert_eq!(hooks.set_keys(&[configured("BAUG")]), HashSet::from([key]), "a key of that name is another one");
        let second = key_of_next(&mut hooks);
        assert!(second.is_some() && second != first);
        hooks.set_keys(&[]);
        hooks.retain_keys(&HashSet::from(["k.".parse().expect("a literal")]));
        assert_eq!(key_of_next(&mut hooks), second);
        // Each rotation of keys leaves one behind.
        hooks.retain_keys(&HashSet::new());
        assert!(hooks.former_keys.is_empty());
    }
}
