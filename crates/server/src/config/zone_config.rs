//! The configuration of one zone, small enough to be kept for a million of them.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use wire::{Name, NameRef};
use zone::CheckMode;
use zone::change::ChangeRules;
use zone::serial_policy::SerialPolicy;

use super::access_list::{AccessEntry, UpdateRight};
use super::keys::ZoneKeys;
use super::remote_server::RemoteServer;
use super::value::{
    Address, BoundedText, CatalogRole, CatalogTemplates, CheckSetting, DnssecCheck, DnssecScope, DomainName, FilePath,
    SerialSetting, ZonemdMode,
};
use super::zone_path::{expand, has_hole, template_pattern};
use crate::transfer::soa_timers::TimerLimits;

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
    pub primaries: Vec<RemoteServer>,
    /// Who may send NOTIFY besides the primaries.
    pub allow_notify: Vec<AccessEntry>,
    /// Who may transfer the zone from here.
    pub allow_transfer: Vec<AccessEntry>,
    /// Who may update the zone.
    pub allow_update: Vec<UpdateRight>,
    /// Whether updates are forwarded to the primaries.
    pub forward_updates: bool,
    /// Servers to notify of changes.
    pub notify: Vec<RemoteServer>,
    /// Whether to notify the servers of the NS records too.
    pub notify_ns: bool,
    /// The addresses to send from.
    pub source: Vec<Address>,
    /// The bounds of the timers of the SOA record.
    pub timers: TimerLimits,
    /// How many old versions to keep.
    pub keep_versions: u32,
    /// How many octets of earlier changes to keep for IXFR; 0 means no limit.
    pub max_journal_bytes: u32,
    /// When to check the digest of the zone.
    pub zonemd: ZonemdMode,
    /// When to check the signatures of the zone.
    pub dnssec: DnssecPolicy,
    /// The command that checks new versions, if it has a program.
    pub check_command: CheckCommand,
    /// Where to write the zone as text, with `{name}` for its name.
    pub write_file: Option<PathBuf>,
    /// The serials of changed zones.
    pub serial_policy: SerialPolicy,
    /// Whether the zone is a catalog.
    pub catalog: Option<CatalogRole>,
    /// The templates of the groups of a catalog.
    pub catalog_templates: CatalogTemplates,
    /// The catalog that lists the zone.
    pub catalog_member: Option<Name>,
    /// The group of the zone in that catalog.
    pub catalog_group: Option<String>,
    /// The folder of the configuration file that names the zone or its list; none for zones of the command line.
    pub config_folder: Option<PathBuf>,
    /// More folders with files that `$INCLUDE` may name.
    pub include_paths: Vec<PathBuf>,
    /// The largest zone to load.
    pub limits: ZoneLimits,
    /// Whether records that break a rule but can be served are errors.
    pub checks: CheckMode,
    /// A hash of the rules by which this version of the program reads the file.
    pub reading_rules_hash: u64,
}

impl ZonePolicy {
    /// What the content of a zone depends on besides its file.
    fn reading_rules(&self) -> impl PartialEq + Hash + '_ {
        let ZonePolicy { config_folder, include_paths, limits, checks, zonemd, dnssec, check_command, .. } = self;
        (config_folder, include_paths, limits, checks, zonemd, dnssec, check_command)
    }
}

/// Which signatures are checked, and what follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DnssecPolicy {
    /// What happens to a version with bad signatures.
    pub check: DnssecCheck,
    /// Which signatures are checked.
    pub scope: DnssecScope,
    /// How long they must still be valid, in seconds.
    pub min_validity_s: u32,
}

/// An external command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CheckCommand {
    /// The program and its arguments; without any, there is no command.
    pub arguments: Vec<String>,
    /// How long it may take.
    pub timeout_s: u32,
}

/// The largest zone to load and the largest change; 0 means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ZoneLimits {
    /// Records of the zone.
    pub max_records: u32,
    /// Octets in memory.
    pub max_bytes: u32,
    /// Percent of the names that one change may remove.
    pub max_shrink_percent: u8,
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

    /// Whether each zone of this source has a file of its own.
    pub fn has_file_per_zone(&self) -> bool {
        self.pattern.as_ref().is_some_and(|pattern| has_hole(pattern))
    }

    /// Whether the zone has changes, or serials, that are in no file.
    pub fn is_changed_here(&self) -> bool {
        let ZonePolicy { primaries, allow_update, serial_policy, .. } = &*self.policy;
        !primaries.is_empty() || !allow_update.is_empty() || *serial_policy != SerialPolicy::Keep
    }

    /// Whether both give a zone the same content: the same file, read by the same rules.
    pub fn is_read_like(&self, other: &ZoneSource) -> bool {
        self.has_same_file(other) && self.policy.reading_rules() == other.policy.reading_rules()
    }

    /// Whether both give a zone the same file.
    pub fn has_same_file(&self, other: &ZoneSource) -> bool {
        self.pattern == other.pattern
    }
}

/// A limit in octets, of which 0 means none.
pub fn octet_limit(limit: u32) -> u64 {
    if limit == 0 { u64::MAX } else { limit.into() }
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
    /// Whether the zone has its content from a file: not that of a secondary, nor of a catalog that this server makes.
    pub fn needs_file(&self) -> bool {
        self.primaries.is_empty() && self.catalog != Some(CatalogRole::Produce)
    }

    /// Whether the zone accepts updates, which must not be lost.
    pub fn is_updated(&self) -> bool {
        !self.allow_update.is_empty() && self.primaries.is_empty()
    }

    /// The configured address to send to another server from: the first one of its family.
    pub fn source_for(&self, server: IpAddr) -> Option<IpAddr> {
        let mut sources = self.source.iter().map(|Address(source)| *source);
        sources.find(|source| source.is_ipv4() == server.is_ipv4())
    }

    /// The most octets of earlier changes to keep for IXFR.
    pub fn max_history_len(&self) -> u64 {
        octet_limit(self.max_journal_bytes)
    }

    /// What changes of the zone are checked for, in this mode.
    pub fn change_rules(&self, check_mode: CheckMode) -> ChangeRules {
        ChangeRules { check_mode, nsec3_max_iterations: self.limits.nsec3_max_iterations }
    }

    /// Where to write the text of the zone with this name.
    pub fn text_file(&self, name: NameRef<'_>) -> Option<PathBuf> {
        self.write_file.as_ref().map(|path| expand(&template_pattern(path), name))
    }

    /// Whether the text of each zone is written to a file of its own.
    pub fn has_text_file_per_zone(&self) -> bool {
        self.write_file.as_ref().is_some_and(|path| has_hole(&template_pattern(path)))
    }

    /// The policy of a zone with these keys, which include those of the template and the defaults.
    pub(super) fn new(keys: ZoneKeys, config_folder: Option<&Path>) -> ZonePolicy {
        let number = |key: Option<u32>| key.unwrap_or_default();
        let mut policy = ZonePolicy {
            primaries: keys.primaries.unwrap_or_default(),
            allow_notify: keys.allow_notify.unwrap_or_default(),
            allow_transfer: keys.allow_transfer.unwrap_or_default(),
            allow_update: keys.allow_update.unwrap_or_default(),
            forward_updates: keys.forward_updates.unwrap_or_default(),
            notify: keys.notify.unwrap_or_default(),
            notify_ns: keys.notify_ns.unwrap_or_default(),
            source: keys.source.unwrap_or_default(),
            timers: TimerLimits {
                refresh_s: (number(keys.min_refresh_s.map(|s| s.0)), number(keys.max_refresh_s.map(|s| s.0))),
                retry_s: (number(keys.min_retry_s.map(|s| s.0)), number(keys.max_retry_s.map(|s| s.0))),
                expire_s: (number(keys.min_expire_s.map(|s| s.0)), number(keys.max_expire_s.map(|s| s.0))),
            },
            keep_versions: number(keys.keep_versions.map(|count| count.0)),
            max_journal_bytes: number(keys.max_journal_bytes.map(|limit| limit.0)),
            zonemd: keys.zonemd.unwrap_or(ZonemdMode::Off),
            dnssec: DnssecPolicy {
                check: keys.dnssec_check.unwrap_or(DnssecCheck::Off),
                scope: keys.dnssec_scope.unwrap_or(DnssecScope::Apex),
                min_validity_s: number(keys.dnssec_min_validity_s.map(|s| s.0)),
            },
            check_command: CheckCommand {
                arguments: keys.check_command.into_iter().flatten().map(|BoundedText(argument)| argument).collect(),
                timeout_s: number(keys.check_timeout_s.map(|s| s.0)),
            },
            write_file: keys.write_file.map(|FilePath(path)| path),
            serial_policy: keys.serial_policy.map_or(SerialPolicy::Keep, |SerialSetting(policy)| policy),
            catalog: keys.catalog,
            catalog_templates: keys.catalog_templates.unwrap_or_default(),
            catalog_member: keys.catalog_member.map(|DomainName(name)| name),
            catalog_group: keys.catalog_group.map(|BoundedText(group)| group),
            config_folder: config_folder.map(Path::to_owned),
            include_paths: keys.include_paths.into_iter().flatten().map(|FilePath(path)| path).collect(),
            limits: ZoneLimits {
                max_records: number(keys.max_records.map(|limit| limit.0)),
                max_bytes: number(keys.max_bytes.map(|limit| limit.0)),
                max_shrink_percent: number(keys.max_shrink_percent.map(|limit| limit.0)) as u8,
                max_generated: number(keys.max_generated.map(|limit| limit.0)),
                nsec3_max_iterations: number(keys.nsec3_max_iterations.map(|limit| limit.0)) as u16,
            },
            checks: keys.checks.map_or(CheckMode::default(), |CheckSetting(checks)| checks),
            reading_rules_hash: 0,
        };
        let mut hasher = DefaultHasher::new();
        (env!("CARGO_PKG_VERSION"), policy.reading_rules()).hash(&mut hasher);
        policy.reading_rules_hash = hasher.finish();
        policy
    }
}
