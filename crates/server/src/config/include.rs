//! The files that an `include` pattern stands for.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The files that a path with `*` and `?` in its last part stands for, by name; a path without them must exist.
pub fn matches(pattern: &Path) -> std::io::Result<Vec<PathBuf>> {
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
        if fits(last.as_bytes(), name.as_bytes()) {
            found.push(folder.join(name));
        }
    }
    found.sort();
    Ok(found)
}

/// Whether `name` fits a pattern with `*` and `?`. A leading dot must be written (files that begin with one are hidden).
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    if name.first() == Some(&b'.') && pattern.first() != Some(&b'.') {
        return false;
    }
    let (mut in_pattern, mut in_name) = (0, 0);
    // The offset in the pattern after the last `*`, and that in the name from which the rest was tried last. Only the last `*`
    // is tried with more: what an earlier one could match, the last can match as well.
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

/// The offset after the character that starts here: an octet and those that continue it in UTF-8.
fn after_character(name: &[u8], start: usize) -> usize {
    start + 1 + name[start + 1..].iter().take_while(|&&octet| octet & 0b1100_0000 == 0b1000_0000).count()
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
            ("*a*b*", "xbxax", false),
            ("*ab", "aab", true),
            ("*ab*", "ba", false),
            ("a?c", "a\u{e4}c", true),
            ("**", "a", true),
            ("", "a", false),
            ("a*", "", false),
        ] {
            assert_eq!(fits(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
    }

    /// Would take longer than the universe if every `*` were tried with all that it could take.
    #[test]
    fn many_stars_take_no_exponential_time() {
        let name = "a".repeat(255);
        assert!(fits("*a".repeat(100).as_bytes(), name.as_bytes()));
        assert!(!fits(("*a".repeat(100) + "*b").as_bytes(), name.as_bytes()));
    }
}
