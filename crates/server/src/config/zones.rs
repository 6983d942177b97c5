//! What the configuration says of one zone, small enough to be kept for a million of them.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use wire::{Name, NameRef};
use zone::Checks;

use super::keys::Zone;
use super::value::{Endpoint, Prefix};

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
    pub(super) pattern: Option<Arc<str>>,
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
    /// Whether odd records fail the zone.
    pub checks: Checks,
}

impl ZoneSource {
    /// The zone file of the zone with this name, if it has one.
    pub fn file(&self, name: NameRef<'_>) -> Option<PathBuf> {
        self.pattern.as_ref().map(|pattern| expand(pattern, name).into())
    }

    /// Whether [`ZoneSource::file`] gives one.
    pub fn has_file(&self) -> bool {
        self.pattern.is_some()
    }

    /// Whether a zone has the same file by both.
    pub fn has_file_of(&self, other: &ZoneSource) -> bool {
        self.pattern == other.pattern
    }
}

/// Keeps equal patterns and equal policies once.
#[derive(Default)]
pub struct Interner {
    patterns: HashSet<Arc<str>>,
    policies: HashSet<Arc<ZonePolicy>>,
}

impl Interner {
    /// The pattern of a zone's file; `{name}` in it stands for the zone's name.
    pub(super) fn pattern(&mut self, file: &Path, zone: NameRef<'_>) -> Arc<str> {
        let pattern = generalized(&file.to_string_lossy(), zone);
        if let Some(known) = self.patterns.get(pattern.as_str()) {
            return known.clone();
        }
        let pattern: Arc<str> = pattern.into();
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
    /// The policy of a zone with these keys, a key of `own` before one of `template`.
    pub fn of(own: &Zone, template: Option<&Zone>) -> ZonePolicy {
        fn pick<T: Clone>(own: &Option<Vec<T>>, template: Option<&Option<Vec<T>>>) -> Vec<T> {
            own.as_ref().or(template.and_then(Option::as_ref)).cloned().unwrap_or_default()
        }
        ZonePolicy {
            primaries: pick(&own.primaries, template.map(|keys| &keys.primaries)),
            allow_transfer: pick(&own.allow_transfer, template.map(|keys| &keys.allow_transfer)),
            notify: pick(&own.notify, template.map(|keys| &keys.notify)),
            checks: own.checks.or(template.and_then(|keys| keys.checks)).unwrap_or_default(),
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
pub fn name_of_stem(stem: &str) -> Option<Name> {
    match stem {
        "root" | "@" => Some(Name::root()),
        _ => stem.parse::<Name>().ok().map(|name| name.to_lowercase()),
    }
}

/// What users write for the zone's name in a path.
const NAME: &str = "{name}";
/// What stands in a pattern for the zone's name and for its first label; no path can hold the octet zero.
const NAME_HOLE: &str = "\0n";
const LABEL_HOLE: &str = "\0l";

fn expand(pattern: &str, name: NameRef<'_>) -> String {
    let stem = stem(name);
    pattern.replace(NAME_HOLE, &stem).replace(LABEL_HOLE, first_label(&stem))
}

/// The pattern that stands for `file`, with the zone's name or its first label taken out of the last part of the path,
/// so that the zones of a folder share one pattern.
fn generalized(file: &str, name: NameRef<'_>) -> String {
    if file.contains(NAME) {
        return file.replace(NAME, NAME_HOLE);
    }
    let (folder, base) = file.split_at(file.rfind('/').map_or(0, |slash| slash + 1));
    let stem = stem(name);
    for (part, hole) in [(stem.as_str(), NAME_HOLE), (first_label(&stem), LABEL_HOLE)] {
        if base.contains(part) {
            return format!("{folder}{}", base.replacen(part, hole, 1));
        }
    }
    file.to_owned()
}

fn first_label(stem: &str) -> &str {
    stem.split('.').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(interner: &mut Interner, name: &str, file: &str) -> String {
        let name: Name = name.parse().expect("a name");
        let pattern = interner.pattern(Path::new(file), name.as_ref());
        expand(&pattern, name.as_ref())
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
            assert_eq!(name_of_stem(text), Some(name));
        }
        assert_eq!(name_of_stem("a..b"), None);
    }
}
