//! The files that an `include` pattern stands for.

use std::path::{Path, PathBuf};

/// The files that a path with `*` and `?` in its last part stands for, by name; a path without them must exist.
pub fn matches(pattern: &Path) -> std::io::Result<Vec<PathBuf>> {
    let Some(last) = pattern.file_name().map(|last| last.to_string_lossy().into_owned()) else {
        return Ok(vec![pattern.to_owned()]);
    };
    if !last.contains(['*', '?']) {
        return std::fs::metadata(pattern).map(|_| vec![pattern.to_owned()]);
    }
    let folder = pattern.parent().unwrap_or(Path::new(""));
    let entries = match std::fs::read_dir(if folder.as_os_str().is_empty() { Path::new(".") } else { folder }) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        if fits(last.as_bytes(), name.to_string_lossy().as_bytes()) {
            found.push(folder.join(name));
        }
    }
    found.sort();
    Ok(found)
}

/// Whether `name` fits a pattern with `*` and `?`. A leading dot must be written (files that begin with one are hidden).
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    fn rest_fits(pattern: &[u8], name: &[u8]) -> bool {
        match (pattern, name) {
            ([], []) => true,
            ([b'*', rest @ ..], _) => (0..=name.len()).any(|taken| rest_fits(rest, &name[taken..])),
            ([b'?', pattern @ ..], [_, name @ ..]) => rest_fits(pattern, name),
            ([first, pattern @ ..], [same, name @ ..]) if first == same => rest_fits(pattern, name),
            _ => false,
        }
    }
    (name.first() != Some(&b'.') || pattern.first() == Some(&b'.')) && rest_fits(pattern, name)
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn patterns_fit() {
        for (pattern, name, expected) in [
            ("*.toml", "a.toml", true),
            ("*.toml", ".a.toml", false),
            (".*", ".a", true),
            ("a?c*", "abc", true),
            ("a?c", "ac", false),
            ("*", "", true),
            ("*a*b*", "xaxbx", true),
        ] {
            assert_eq!(fits(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
    }
}
