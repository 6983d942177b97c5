//! The primaries of zones, each stored once however many zones it has.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use wire::tsig::TsigKey;

use super::soa_timers::TimerLimits;
use crate::interned::{Interned, SharedSlab};

/// A primary, as configured in `primaries`, or a target in `notify`.
#[derive(Clone)]
pub struct PeerConfig {
    /// Its address and port.
    pub address: SocketAddr,
    /// The key that signs messages to it.
    pub key: Option<Arc<TsigKey>>,
    /// The address to send from; the kernel chooses one by the route if there is none.
    pub source: Option<IpAddr>,
    /// How its connections are encrypted, as a number that the `Connector` knows; 0 is not encrypted.
    pub tls: u32,
}

impl PeerConfig {
    /// A peer without key, source and encryption.
    pub fn plain(address: SocketAddr) -> PeerConfig {
        PeerConfig { address, key: None, source: None, tls: 0 }
    }

    /// Two entries are one peer if their messages are the same and take the same way. Keys are compared by identity: a
    /// key with a new secret is another one.
    pub(super) fn identity(&self) -> PeerIdentity {
        let key = self.key.as_ref().map_or(0, |key| Arc::as_ptr(key) as usize);
        PeerIdentity { address: self.address, key, source: self.source, tls: self.tls }
    }
}

impl fmt::Debug for PeerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.address)
    }
}

/// What makes two peers one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PeerIdentity {
    address: SocketAddr,
    key: usize,
    source: Option<IpAddr>,
    tls: u32,
}

/// The number of a primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PrimaryId(pub u32);

/// The number of a combination of primaries and limits that zones share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u32);

/// What zones of one template have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Group {
    /// The primaries, without duplicates.
    pub primaries: Vec<PrimaryId>,
    /// The limits of the zones.
    pub limits: SecondaryLimits,
}

/// The limits of a secondary zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SecondaryLimits {
    /// Those of its SOA intervals.
    pub timers: TimerLimits,
    /// How large it may be.
    pub size: SizeLimits,
    /// The external command that checks each version, which may take long: a number for zones with the same one.
    pub command: Option<u64>,
}

/// How large a zone may be: `max-records` and `max-bytes`. 0 is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SizeLimits {
    /// Records.
    pub max_records: u32,
    /// Octets of memory.
    pub max_bytes: u32,
}

impl From<TimerLimits> for SecondaryLimits {
    fn from(timers: TimerLimits) -> SecondaryLimits {
        SecondaryLimits { timers, ..SecondaryLimits::default() }
    }
}

/// More primaries per zone are ignored: a check waits for all, and keeps one bit for each.
pub const MAX_PRIMARIES: usize = 16;

/// All primaries and groups. A group ends with its last zone, a primary with its last group.
#[derive(Default)]
pub struct PrimaryTable {
    primaries: SharedSlab<PeerConfig>,
    by_identity: HashMap<PeerIdentity, u32>,
    groups: Interned<Arc<Group>>,
}

impl PrimaryTable {
    /// The group of these primaries, for one more zone.
    pub fn acquire(&mut self, primaries: &[PeerConfig], limits: SecondaryLimits) -> GroupId {
        let mut ids: Vec<PrimaryId> = Vec::with_capacity(primaries.len().min(MAX_PRIMARIES));
        for config in primaries {
            let known = self.by_identity.get(&config.identity()).copied();
            let id = known.unwrap_or_else(|| self.primaries.insert(config.clone()));
            self.by_identity.insert(config.identity(), id);
            if ids.len() < MAX_PRIMARIES && !ids.contains(&PrimaryId(id)) {
                ids.push(PrimaryId(id));
            } else if known.is_none() {
                self.remove_primary(id);
            }
        }
        let group = Arc::new(Group { primaries: ids, limits });
        let (id, is_new) = self.groups.acquire(group.clone());
        if is_new {
            group.primaries.iter().for_each(|primary| self.primaries.count(primary.0));
        }
        GroupId(id)
    }

    /// Releases the group of a zone that is removed or gets another group; returns the primaries that nothing uses any more.
    pub fn release(&mut self, id: GroupId) -> Vec<PrimaryId> {
        let Some(group) = self.groups.release(id.0) else { return Vec::new() };
        let mut unused = Vec::new();
        for primary in &group.primaries {
            if let Some(config) = self.primaries.release(primary.0) {
                self.by_identity.remove(&config.identity());
                unused.push(*primary);
            }
        }
        unused
    }

    fn remove_primary(&mut self, id: u32) {
        if let Some(config) = self.primaries.remove(id) {
            self.by_identity.remove(&config.identity());
        }
    }

    /// A group in use.
    pub fn group(&self, id: GroupId) -> Option<&Arc<Group>> {
        self.groups.get(id.0)
    }

    /// A primary in use.
    pub fn primary(&self, id: PrimaryId) -> Option<&PeerConfig> {
        self.primaries.get(id.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(text: &str) -> PeerConfig {
        PeerConfig::plain(text.parse().expect("a literal"))
    }

    #[test]
    fn equal_primaries_are_stored_once_and_released_with_their_last_zone() {
        let mut table = PrimaryTable::default();
        let (a, b) = (peer("192.0.2.1:53"), peer("192.0.2.2:53"));
        let limits = SecondaryLimits::default();
        let both = table.acquire(&[a.clone(), b.clone(), a.clone()], limits);
        assert_eq!(table.acquire(&[a.clone(), b.clone()], limits), both);
        let one = table.acquire(std::slice::from_ref(&b), limits);
        assert_eq!(table.group(both).map(|group| group.primaries.clone()), Some(vec![PrimaryId(0), PrimaryId(1)]));
        assert_eq!(table.group(one).map(|group| group.primaries.clone()), Some(vec![PrimaryId(1)]));
        assert_eq!(table.release(both), []);
        assert_eq!(table.release(both), [PrimaryId(0)]);
        assert!(table.group(both).is_none() && table.primary(PrimaryId(0)).is_none());
        assert_eq!(table.primary(PrimaryId(1)).map(|primary| primary.address), Some(b.address));
        let sourced = PeerConfig { source: "192.0.2.9".parse().ok(), ..b };
        let other = table.acquire(&[sourced], limits);
        assert_eq!(table.group(other).map(|group| group.primaries.clone()), Some(vec![PrimaryId(0)]));
        assert_eq!(table.release(one), [PrimaryId(1)]);
    }

    #[test]
    fn primaries_over_the_limit_are_not_kept() {
        let mut table = PrimaryTable::default();
        let peers: Vec<PeerConfig> = (0..20).map(|last| peer(&format!("192.0.2.{last}:53"))).collect();
        let group = table.acquire(&peers, SecondaryLimits::default());
        assert_eq!(table.group(group).map(|group| group.primaries.len()), Some(MAX_PRIMARIES));
        assert!(table.primary(PrimaryId(16)).is_none() && table.by_identity.len() == MAX_PRIMARIES);
        assert_eq!(table.release(group).len(), MAX_PRIMARIES);
        assert!(table.by_identity.is_empty() && table.groups.len() == 0);
    }
}
