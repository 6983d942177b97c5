//! Paths of zone files, as patterns that the zones of a folder share.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use wire::{Name, NameRef};

/// What users write for the zone's name in a path.
const NAME: &str = "{name}";
/// Begins what a pattern has for a part of the zone's name; no path can contain NUL.
const HOLE: u8 = 0;
/// What a pattern has for the zone's name, and for its first label.
const NAME_HOLE: &str = "\0n";
const LABEL_HOLE: &str = "\0l";

/// The pattern for the `file` of a template.
pub(super) fn template_pattern(file: &Path) -> Arc<[u8]> {
    replaced(file.as_os_str().as_bytes(), NAME, NAME_HOLE, usize::MAX).into()
}

/// The file of the zone with this name.
pub(super) fn expand(pattern: &[u8], name: NameRef<'_>) -> PathBuf {
    let stem = stem(name);
    let mut path = Vec::with_capacity(pattern.len() + stem.len());
    for (index, part) in pattern.split(|&octet| octet == HOLE).enumerate() {
        let (name, rest) = match part {
            [b'n', rest @ ..] if index > 0 => (stem.as_str(), rest),
            [b'l', rest @ ..] if index > 0 => (first_label(&stem), rest),
            _ => ("", part),
        };
        path.extend_from_slice(name.as_bytes());
        path.extend_from_slice(rest);
    }
    OsString::from_vec(path).into()
}

/// Whether the file of a pattern depends on the zone's name.
pub(super) fn has_hole(pattern: &[u8]) -> bool {
    pattern.contains(&HOLE)
}

/// The pattern for the file of one zone: the zone's name, or else its first label, is replaced in the last part of the path,
/// so that the zones of a folder share one pattern. `{name}` is replaced as in a template.
pub(super) fn file_pattern(file: &Path, name: NameRef<'_>) -> Vec<u8> {
    let file = file.as_os_str().as_bytes();
    if find(file, NAME).is_some() {
        return replaced(file, NAME, NAME_HOLE, usize::MAX);
    }
    let (folder, base) = file.split_at(file.iter().rposition(|&octet| octet == b'/').map_or(0, |slash| slash + 1));
    let stem = stem(name);
    let mut holes = [(stem.as_str(), NAME_HOLE), (first_label(&stem), LABEL_HOLE)].into_iter();
    let pattern = holes.find_map(|(part, hole)| find(base, part).map(|_| replaced(base, part, hole, 1)));
    [folder, pattern.as_deref().unwrap_or(base)].concat()
}

/// `text` with the first `count` occurrences of `part` replaced; not a `str`, as a path need not be UTF-8.
fn replaced(text: &[u8], part: &str, with: &str, count: usize) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::with_capacity(text.len()), text);
    for _ in 0..count {
        let Some(at) = find(rest, part) else { break };
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(with.as_bytes());
        rest = &rest[at + part.len()..];
    }
    out.extend_from_slice(rest);
    out
}

/// Where `part` is first.
fn find(text: &[u8], part: &str) -> Option<usize> {
    let is_part = |window: &[u8]| window.first() == part.as_bytes().first() && window == part.as_bytes();
    text.windows(part.len()).position(is_part)
}

fn first_label(stem: &str) -> &str {
    stem.split('.').next().unwrap_or_default()
}

/// The zone's name in a file name, different for all zones: without the final dot, with `/` escaped, `root` for the root, and
/// `\114oot` for the zone `root.`.
pub fn stem(name: NameRef<'_>) -> String {
    if name.is_root() {
        return "root".into();
    }
    let mut text = name.to_string();
    text.pop();
    match text.as_str() {
        "root" => "\\114oot".into(),
        _ if text.contains('/') => text.replace('/', "\\047"),
        _ => text,
    }
}

/// The zone of the file `STEM.zone`; `root` and `@` are the root.
pub fn name_of_stem(stem: &[u8]) -> Option<Name> {
    match stem {
        b"root" | b"@" => Some(Name::root()),
        _ => Name::from_text(stem, Some(NameRef::ROOT)).ok().map(|name| name.to_lowercase()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::super::zone_config::share;
    use super::*;
    use crate::printable::path_text;

    fn file(cache: &mut HashSet<Arc<[u8]>>, name: &str, file: &str) -> String {
        let name: Name = name.parse().expect("a name");
        let pattern = share(cache, file_pattern(Path::new(file), name.as_ref()));
        path_text(&expand(&pattern, name.as_ref()))
    }

    #[test]
    fn zones_of_a_folder_share_one_pattern() {
        let mut cache = HashSet::new();
        for (name, written, meant) in [
            ("a.example", "/zones/a.example.zone", "/zones/a.example.zone"),
            ("b.example", "/zones/{name}.zone", "/zones/b.example.zone"),
            (".", "/zones/root.zone", "/zones/root.zone"),
            ("z1.test", "/many/z1.zone", "/many/z1.zone"),
            ("z2.test", "/many/z2.zone", "/many/z2.zone"),
        ] {
            assert_eq!(file(&mut cache, name, written), meant);
        }
        assert_eq!(cache.len(), 2);
    }

    #[test]
    fn other_file_names_are_kept() {
        let mut cache = HashSet::new();
        for written in ["/zones/other", "db", "/a.example/a.example/db.a.example.signed", "/b.example.zone/x"] {
            assert_eq!(file(&mut cache, "a.example", written), written);
        }
    }

    #[test]
    fn stems_are_parsed_back_to_names() {
        let cases = [
            (".", "root"),
            ("root.", "\\114oot"),
            ("x.root.", "x.root"),
            ("example.com.", "example.com"),
            ("a/b.example.", "a\\047b.example"),
        ];
        for (name, text) in cases {
            let name: Name = name.parse().expect("a name");
            assert_eq!(stem(name.as_ref()), text);
            assert_eq!(name_of_stem(text.as_bytes()), Some(name));
        }
        assert_eq!(name_of_stem(b"a..b"), None);
        assert_eq!(name_of_stem(b"\xff").map(|name| name.to_string()), Some("\\255.".into()));
    }
}
