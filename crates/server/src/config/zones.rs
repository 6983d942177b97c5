//! What the configuration says of one zone, small enough to be kept for a million of them.

use std::collections::HashSet;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use wire::{Name, NameRef};
use zone::CheckMode;

use super::keys::Zone;
use super::section::{Section, Setting};
use super::value::{Endpoint, Prefix, Whole};

/// A zone to serve.
#[derive(Clone, Debug)]
pub struct ZoneConfig {
    /// The apex, in lower case.
    pub name: Name,
    /// Where it comes from and what is done with it.
    pub source: ZoneSource,
}

/// All that was said of a zone but its name. What zones have in common is shared: this has 24 octets.
#[derive(Clone, Debug, PartialEq)]
pub struct ZoneSource {
    /// The path of the zone file as a pattern (see [`ZoneSource::file`]).
    pub(super) pattern: Option<Arc<[u8]>>,
    /// What else was said of it, templates resolved.
    pub policy: Arc<ZonePolicy>,
}

/// What zones can have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ZonePolicy {
    /// Servers to transfer the zone from.
    pub primaries: Vec<Endpoint>,
    /// Who may transfer the zone from here.
    pub allow_transfer: Vec<Prefix>,
    /// Servers to tell of changes.
    pub notify: Vec<Endpoint>,
    /// The folder of the configuration file that names the zone; none where the command line does.
    pub config_folder: Option<PathBuf>,
    /// Other folders with files to include.
    pub include_paths: Vec<PathBuf>,
    /// How large and how dear the zone may be.
    pub limits: ZoneLimits,
    /// Whether odd records fail the zone.
    pub checks: CheckMode,
}

/// What a zone may cost; 0 records are any number of them.
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
    /// The zone file of the zone with this name, if it has one.
    pub fn file(&self, name: NameRef<'_>) -> Option<PathBuf> {
        self.pattern.as_ref().map(|pattern| expand(pattern, name))
    }

    /// Whether [`ZoneSource::file`] gives one.
    pub fn has_file(&self) -> bool {
        self.pattern.is_some()
    }

    /// Whether a zone has the same content by both: the same file, read by the same rules.
    pub fn is_read_like(&self, other: &ZoneSource) -> bool {
        fn rules(policy: &ZonePolicy) -> (&Option<PathBuf>, &[PathBuf], ZoneLimits, CheckMode) {
            (&policy.config_folder, &policy.include_paths, policy.limits, policy.checks)
        }
        self.pattern == other.pattern && rules(&self.policy) == rules(&other.policy)
    }
}

/// Keeps equal patterns and equal policies once.
#[derive(Default)]
pub struct Interner {
    patterns: HashSet<Arc<[u8]>>,
    policies: HashSet<Arc<ZonePolicy>>,
}

impl Interner {
    /// The pattern of a zone's file; `{name}` in it stands for the zone's name.
    pub(super) fn pattern(&mut self, file: &Path, zone: NameRef<'_>) -> Arc<[u8]> {
        let pattern = generalized(file.as_os_str().as_bytes(), zone);
        if let Some(known) = self.patterns.get(&pattern[..]) {
            return known.clone();
        }
        let pattern: Arc<[u8]> = pattern.into();
        self.patterns.insert(pattern.clone());
        pattern
    }

    pub(super) fn policy(&mut self, policy: ZonePolicy) -> Arc<ZonePolicy> {
        if let Some(known) = self.policies.get(&policy) {
            return known.clone();
        }
        let policy = Arc::new(policy);
        self.policies.insert(policy.clone());
        policy
    }
}

impl ZonePolicy {
    /// The policy of a zone with these keys, a key of `own` before one of `template`, named in a file of `config_folder`.
    pub fn of(own: &Zone, template: Option<&Zone>, config_folder: Option<PathBuf>) -> ZonePolicy {
        fn pick<T: Clone>(own: &Option<Vec<T>>, template: Option<&Option<Vec<T>>>) -> Vec<T> {
            own.as_ref().or(template.and_then(Option::as_ref)).cloned().unwrap_or_default()
        }
        ZonePolicy {
            primaries: pick(&own.primaries, template.map(|keys| &keys.primaries)),
            allow_transfer: pick(&own.allow_transfer, template.map(|keys| &keys.allow_transfer)),
            notify: pick(&own.notify, template.map(|keys| &keys.notify)),
            config_folder,
            include_paths: pick(&own.include_paths, template.map(|keys| &keys.include_paths)),
            limits: ZoneLimits::of(own, template),
            checks: own.checks.or(template.and_then(|keys| keys.checks)).unwrap_or_default(),
        }
    }
}

/// What the table of keys says.
static DEFAULT_LIMITS: LazyLock<ZoneLimits> = LazyLock::new(|| {
    fn default<const MIN: u32, const MAX: u32>(name: &str) -> u32 {
        let key = Zone::KEYS.iter().find(|key| key.name == name).expect("a key of the table");
        Whole::<MIN, MAX>::from_default(key.default).0
    }
    ZoneLimits {
        max_records: default::<0, { u32::MAX }>("max-records"),
        max_generated: default::<0, { u32::MAX }>("max-generated"),
        nsec3_max_iterations: default::<0, 65_535>("nsec3-max-iterations") as u16,
    }
});

impl Default for ZoneLimits {
    fn default() -> ZoneLimits {
        *DEFAULT_LIMITS
    }
}

impl ZoneLimits {
    fn of(own: &Zone, template: Option<&Zone>) -> ZoneLimits {
        let default = ZoneLimits::default();
        let max_records = own.max_records.or(template.and_then(|keys| keys.max_records));
        let max_generated = own.max_generated.or(template.and_then(|keys| keys.max_generated));
        let iterations = own.nsec3_max_iterations.or(template.and_then(|keys| keys.nsec3_max_iterations));
        ZoneLimits {
            max_records: max_records.map_or(default.max_records, |records| records.0),
            max_generated: max_generated.map_or(default.max_generated, |records| records.0),
            nsec3_max_iterations: iterations.map_or(default.nsec3_max_iterations, |iterations| iterations.0 as u16),
        }
    }
}

//----------- file names -------------------------------------------------------

/// What a zone's file is called by: its name without the final dot, `root` for the root; `/` is escaped.
pub fn stem(name: NameRef<'_>) -> String {
    if name.is_root() {
        return "root".into();
    }
    let mut text = name.to_string().replace('/', "\\047");
    text.pop();
    text
}

/// The name that a zone file `STEM.zone` is for: `root` and `@` are the root.
pub fn name_of_stem(stem: &[u8]) -> Option<Name> {
    match stem {
        b"root" | b"@" => Some(Name::root()),
        _ => Name::from_text(stem, Some(NameRef::ROOT)).ok().map(|name| name.to_lowercase()),
    }
}

/// What users write for the zone's name in a path.
const NAME: &str = "{name}";
/// What stands in a pattern for the zone's name and for its first label; no path can hold the octet zero.
const NAME_HOLE: &str = "\0n";
const LABEL_HOLE: &str = "\0l";

fn expand(pattern: &[u8], name: NameRef<'_>) -> PathBuf {
    let stem = stem(name);
    let path = replaced(pattern, NAME_HOLE, &stem, usize::MAX);
    OsString::from_vec(replaced(&path, LABEL_HOLE, first_label(&stem), usize::MAX)).into()
}

/// The pattern that stands for `file`, with the zone's name or its first label taken out of the last part of the path,
/// so that the zones of a folder share one pattern.
fn generalized(file: &[u8], name: NameRef<'_>) -> Vec<u8> {
    let pattern = replaced(file, NAME, NAME_HOLE, usize::MAX);
    if pattern != file {
        return pattern;
    }
    let (folder, base) = file.split_at(file.iter().rposition(|&octet| octet == b'/').map_or(0, |slash| slash + 1));
    let stem = stem(name);
    let holes = [(stem.as_str(), NAME_HOLE), (first_label(&stem), LABEL_HOLE)];
    let patterns = holes.map(|(part, hole)| replaced(base, part, hole, 1));
    let pattern = patterns.into_iter().find(|pattern| pattern != base);
    [folder, pattern.as_deref().unwrap_or(base)].concat()
}

/// `text` with the first `count` places of `part` replaced; a path need not be UTF-8, and so is no `str`.
fn replaced(text: &[u8], part: &str, with: &str, count: usize) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::with_capacity(text.len()), text);
    for _ in 0..count {
        let Some(at) = rest.windows(part.len()).position(|window| window == part.as_bytes()) else { break };
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(with.as_bytes());
        rest = &rest[at + part.len()..];
    }
    out.extend_from_slice(rest);
    out
}

fn first_label(stem: &str) -> &str {
    stem.split('.').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::printable::path_text;

    fn file(interner: &mut Interner, name: &str, file: &str) -> String {
        let name: Name = name.parse().expect("a name");
        let pattern = interner.pattern(Path::new(file), name.as_ref());
        path_text(&expand(&pattern, name.as_ref()))
    }

    #[test]
    fn zones_of_a_folder_share_one_pattern() {
        let mut interner = Interner::default();
        for (name, written, meant) in [
            ("a.example", "/zones/a.example.zone", "/zones/a.example.zone"),
            ("b.example", "/zones/{name}.zone", "/zones/b.example.zone"),
            (".", "/zones/root.zone", "/zones/root.zone"),
            ("z1.test", "/many/z1.zone", "/many/z1.zone"),
            ("z2.test", "/many/z2.zone", "/many/z2.zone"),
        ] {
            assert_eq!(file(&mut interner, name, written), meant);
        }
        assert_eq!(interner.patterns.len(), 2);
    }

    #[test]
    fn odd_files_stay_as_they_are() {
        let mut interner = Interner::default();
        for written in ["/zones/other", "db", "/a.example/a.example/db.a.example.signed", "/b.example.zone/x"] {
            assert_eq!(file(&mut interner, "a.example", written), written);
        }
    }

    #[test]
    fn stems_go_both_ways() {
        for (name, text) in [(".", "root"), ("example.com.", "example.com"), ("a/b.example.", "a\\047b.example")] {
            let name: Name = name.parse().expect("a name");
            assert_eq!(stem(name.as_ref()), text);
            assert_eq!(name_of_stem(text.as_bytes()), Some(name));
        }
        assert_eq!(name_of_stem(b"a..b"), None);
        assert_eq!(name_of_stem(b"\xff").map(|name| name.to_string()), Some("\\255.".into()));
    }
}
