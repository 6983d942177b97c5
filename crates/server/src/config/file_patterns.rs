//! The files that match a pattern of `include` or `zone-list`.

use std::path::{Path, PathBuf};

/// The files that match a path with `*` and `?` in its last part, ordered by name; a path without these must exist.
pub fn matching_files(pattern: &Path) -> std::io::Result<Vec<PathBuf>> {
    let Some(last) = pattern.file_name() else { return Ok(vec![pattern.to_owned()]) };
    let last = last.to_string_lossy();
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
        if matches(&last, &name.to_string_lossy()) {
            found.push(folder.join(name));
        }
    }
    found.sort();
    Ok(found)
}

/// Whether `name` matches a pattern with `*` and `?`. Only a leading dot matches one: such files are hidden.
fn matches(pattern: &str, name: &str) -> bool {
    if name.starts_with('.') && !pattern.starts_with('.') {
        return false;
    }
    let pattern: Vec<char> = pattern.chars().collect();
    // matched[n]: the first n characters of the pattern match all of the name so far.
    let mut matched: Vec<bool> =
        (0..=pattern.len()).map(|len| pattern[..len].iter().all(|&char| char == '*')).collect();
    for char in name.chars() {
        let before = std::mem::replace(&mut matched, vec![false; pattern.len() + 1]);
        for (at, &wanted) in pattern.iter().enumerate() {
            matched[at + 1] = match wanted {
                '*' => before[at + 1] || matched[at],
                wanted => before[at] && (wanted == '?' || wanted == char),
            };
        }
    }
    matched[pattern.len()]
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match() {
        for (pattern, name, expected) in [
            ("*.toml", "a.toml", true),
            ("*.toml", ".a.toml", false),
            (".*", ".a", true),
            ("a?c*", "abc", true),
            ("a?c", "ac", false),
            ("*", "", true),
            ("*a*b*", "xaxbx", true),
            ("*a*b*", "xbxax", false),
            ("*ab", "aab", true),
            ("*ab*", "ba", false),
            ("a?c", "a\u{e4}c", true),
            ("**", "a", true),
            ("", "a", false),
            ("a*", "", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    /// Backtracking over every `*` would take exponential time.
    #[test]
    fn many_stars_take_polynomial_time() {
        let name = "a".repeat(255);
        assert!(matches(&"*a".repeat(100), &name));
        assert!(!matches(&("*a".repeat(100) + "*b"), &name));
    }
}
