//! The configuration of one zone, small enough to be kept for a million of them.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::hash::Hash;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use wire::{Name, NameRef};
use zone::CheckMode;

use super::keys::ZoneKeys;
use super::value::{CheckSetting, Endpoint, FilePath, Prefix};
use super::zone_path::expand;

/// A zone to serve.
#[derive(Clone, Debug)]
pub struct ZoneConfig {
    /// The apex, in lower case.
    pub name: Name,
    /// Where its content comes from, and its settings.
    pub source: ZoneSource,
}

/// All keys of a zone but its name. Zones share what they have in common, so that this takes 24 octets.
#[derive(Clone, Debug, PartialEq)]
pub struct ZoneSource {
    /// The path of the zone file as a pattern (see [`ZoneSource::file`]).
    pub(super) pattern: Option<Arc<[u8]>>,
    /// The other keys, with those of the template and the defaults.
    pub policy: Arc<ZonePolicy>,
}

/// The settings that zones can share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ZonePolicy {
    /// Servers to transfer the zone from.
    pub primaries: Vec<Endpoint>,
    /// Who may transfer the zone from here.
    pub allow_transfer: Vec<Prefix>,
    /// Servers to notify of changes.
    pub notify: Vec<Endpoint>,
    /// The folder of the configuration file that names the zone or its list; none for zones of the command line.
    pub config_folder: Option<PathBuf>,
    /// More folders with files that `$INCLUDE` may name.
    pub include_paths: Vec<PathBuf>,
    /// The largest zone to load.
    pub limits: ZoneLimits,
    /// Whether records that break a rule but can be served are errors.
    pub checks: CheckMode,
}

/// The largest zone to load; 0 records mean no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ZoneLimits {
    /// Records of the zone.
    pub max_records: u32,
    /// Records by `$GENERATE` and by repeated `$INCLUDE`.
    pub max_generated: u32,
    /// NSEC3 iterations.
    pub nsec3_max_iterations: u16,
}

impl ZoneSource {
    /// The file of the zone with this name, if it has one.
    pub fn file(&self, name: NameRef<'_>) -> Option<PathBuf> {
        self.pattern.as_ref().map(|pattern| expand(pattern, name))
    }

    /// Whether [`ZoneSource::file`] gives one.
    pub fn has_file(&self) -> bool {
        self.pattern.is_some()
    }

    /// Whether both give a zone the same content: the same file, read by the same rules.
    pub fn is_read_like(&self, other: &ZoneSource) -> bool {
        fn rules(policy: &ZonePolicy) -> (&Option<PathBuf>, &[PathBuf], ZoneLimits, CheckMode) {
            (&policy.config_folder, &policy.include_paths, policy.limits, policy.checks)
        }
        self.pattern == other.pattern && rules(&self.policy) == rules(&other.policy)
    }
}

/// The known value that equals this one; a new value becomes known.
pub(super) fn share<T: ?Sized + Eq + Hash>(
    known: &mut HashSet<Arc<T>>,
    value: impl Into<Arc<T>> + Borrow<T>,
) -> Arc<T> {
    if let Some(known) = known.get(value.borrow()) {
        return known.clone();
    }
    let value = value.into();
    known.insert(value.clone());
    value
}

impl ZonePolicy {
    /// The policy of a zone with these keys, which include those of the template and the defaults.
    pub(super) fn new(keys: ZoneKeys, config_folder: Option<&Path>) -> ZonePolicy {
        ZonePolicy {
            primaries: keys.primaries.unwrap_or_default(),
            allow_transfer: keys.allow_transfer.unwrap_or_default(),
            notify: keys.notify.unwrap_or_default(),
            config_folder: config_folder.map(Path::to_owned),
            include_paths: keys.include_paths.into_iter().flatten().map(|FilePath(path)| path).collect(),
            limits: ZoneLimits {
                max_records: keys.max_records.map_or(0, |limit| limit.0),
                max_generated: keys.max_generated.map_or(0, |limit| limit.0),
                nsec3_max_iterations: keys.nsec3_max_iterations.map_or(0, |limit| limit.0 as u16),
            },
            checks: keys.checks.map_or(CheckMode::default(), |CheckSetting(checks)| checks),
        }
    }
}
