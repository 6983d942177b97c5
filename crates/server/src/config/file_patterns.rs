//! The files that match a pattern of `include` or `zone-list`.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The files that match a path with `*` and `?` in its last part, ordered by name; a path without these must exist.
pub fn matching_files(pattern: &Path) -> std::io::Result<Vec<PathBuf>> {
    let Some(last) = pattern.file_name() else { return Ok(vec![pattern.to_owned()]) };
    if !last.as_bytes().iter().any(|octet| b"*?".contains(octet)) {
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
        if matches(last.as_bytes(), name.as_bytes()) {
            found.push(folder.join(name));
        }
    }
    found.sort();
    Ok(found)
}

/// Whether `name` matches a pattern with `*` and `?`. Only a leading dot matches one: such files are hidden.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    if name.first() == Some(&b'.') && pattern.first() != Some(&b'.') {
        return false;
    }
    let (mut in_pattern, mut in_name) = (0, 0);
    // The offset in the pattern after the last `*`, and the offset in the name where the rest was tried last. Only the last `*`
    // needs to be tried with more characters: it can match whatever an earlier one could.
    let mut last_star = None;
    loop {
        match (pattern.get(in_pattern), name.get(in_name)) {
            (Some(b'*'), _) => {
                in_pattern += 1;
                last_star = Some((in_pattern, in_name));
            }
            (None, None) => return true,
            (Some(b'?'), Some(_)) => (in_pattern, in_name) = (in_pattern + 1, after_character(name, in_name)),
            (Some(wanted), Some(octet)) if wanted == octet => (in_pattern, in_name) = (in_pattern + 1, in_name + 1),
            _ => match last_star {
                Some((rest, tried)) if tried < name.len() => {
                    (in_pattern, in_name) = (rest, tried + 1);
                    last_star = Some((rest, tried + 1));
                }
                _ => return false,
            },
        }
    }
}

/// The offset after the UTF-8 character that starts at `start`.
fn after_character(name: &[u8], start: usize) -> usize {
    start + 1 + name[start + 1..].iter().take_while(|&&octet| octet & 0b1100_0000 == 0b1000_0000).count()
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
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
    }

    /// Backtracking over every `*` would take exponential time.
    #[test]
    fn many_stars_take_linear_time() {
        let name = "a".repeat(255);
        assert!(matches("*a".repeat(100).as_bytes(), name.as_bytes()));
        assert!(!matches(("*a".repeat(100) + "*b").as_bytes(), name.as_bytes()));
    }
}
