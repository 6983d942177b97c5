//! Escapes text from files, paths and other programs for terminals and for line-based logs.

use std::fmt::{self, Display, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Displays text with control characters escaped, which could control a terminal or forge a line of the log.
pub struct Printable<'t>(pub &'t str);

impl Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|char| match is_harmful(char) {
            true => write!(f, "{}", char.escape_unicode()),
            false => f.write_char(char),
        })
    }
}

/// The maximum length of a quoted word, in octets: any name of a key, and most mistakes, can be recognized.
const MAX_QUOTED_LEN: usize = 64;

/// A word of the input in backticks for a message: [`Printable`], and cut if it is long.
pub fn quoted(word: &str) -> String {
    let end = (0..=MAX_QUOTED_LEN).rev().find(|end| word.is_char_boundary(*end)).unwrap_or(0);
    match word.len() > MAX_QUOTED_LEN {
        true => format!("`{}…`", Printable(&word[..end])),
        false => format!("`{}`", Printable(word)),
    }
}

/// JSON with the characters that [`Printable`] escapes as JSON escapes.
pub fn printable_json(json: &str) -> String {
    let mut printable = String::with_capacity(json.len());
    for char in json.chars() {
        match is_harmful(char) && char != '\n' {
            // All harmful characters are in the basic multilingual plane.
            true => printable += &format!("\\u{:04x}", u32::from(char)),
            false => printable.push(char),
        }
    }
    printable
}

/// Control characters, line separators, and characters that change the direction of writing.
pub fn is_harmful(char: char) -> bool {
    char.is_control() || matches!(char, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A path as text: itself where it is UTF-8, else with `\xNN` for each octet that is not.
pub fn path_text(path: &Path) -> String {
    let mut text = String::new();
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        text.push_str(chunk.valid());
        chunk.invalid().iter().for_each(|octet| text += &format!("\\x{octet:02x}"));
    }
    text
}

/// A path for a message.
pub fn printable_path(path: &Path) -> String {
    Printable(&path_text(path)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        let text = "a\u{1b}[2J\nb\u{9b}\u{202e}\u{7f}ä\\";
        assert_eq!(Printable(text).to_string(), "a\\u{1b}[2J\\u{a}b\\u{9b}\\u{202e}\\u{7f}ä\\");
    }

    #[test]
    fn long_words_are_cut_between_characters() {
        for (word, expected) in [
            ("a".repeat(64), "a".repeat(64)),
            ("a".repeat(65), "a".repeat(64) + "…"),
            ("ä".repeat(32), "ä".repeat(32)),
            ("a".to_owned() + &"ä".repeat(1 << 20), "a".to_owned() + &"ä".repeat(31) + "…"),
            ("\u{1b}[2J".to_owned(), "\\u{1b}[2J".to_owned()),
            (String::new(), String::new()),
        ] {
            assert_eq!(quoted(&word), format!("`{expected}`"));
        }
    }

    #[test]
    fn json_stays_json() {
        let text = "a\u{1b}\n\u{9b}\u{202e}\u{7f}ä\\\"";
        let json = printable_json(&serde_json::to_string_pretty(&[text]).expect("text"));
        assert!(!json.chars().any(|char| is_harmful(char) && char != '\n'), "{json}");
        assert_eq!(serde_json::from_str::<[String; 1]>(&json).expect("JSON"), [text]);
    }

    #[test]
    fn only_octets_that_are_not_utf8_are_escaped_in_paths() {
        for (path, text) in [(&b"/a/\xc3\xa4.zone"[..], "/a/ä.zone"), (b"\xff/a\xc3", "\\xff/a\\xc3")] {
            assert_eq!(path_text(Path::new(std::ffi::OsStr::from_bytes(path))), text);
        }
    }
}
