//! Reads zone lists: one zone per line, `NAME [TEMPLATE]`, with `#` comments.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use wire::{Name, NameRef};
use zone::FilePosition;

use super::keys::ZoneKeys;
use super::reader::{ConfigReader, PendingZone, SharedKeys};
use super::value::BoundedText;
use crate::printable::quoted;

impl ConfigReader {
    /// Adds the zones of a list that a configuration file in `config_folder` names.
    pub(super) fn read_zone_list(&mut self, path: &Path, config_folder: &Arc<Path>) {
        let Some((file, file_index, text)) = self.open(path) else { return };
        let mut templates = HashMap::new();
        for (index, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
            let number = index as u32 + 1;
            match parse_line(line) {
                Ok(None) => (),
                Ok(Some((name, template))) => {
                    let shared = *templates.entry(template).or_insert_with(|| {
                        let template = template.map(|name| BoundedText(name.to_owned()));
                        let keys = ZoneKeys { template, ..ZoneKeys::default() };
                        self.share(SharedKeys { keys, config_folder: Some(config_folder.clone()) })
                    });
                    self.zones.push(PendingZone { name, pattern: None, shared, file: file_index, line: number });
                }
                Err(LineError { word, message, help }) => {
                    let column = (word.as_ptr().addr() - line.as_ptr().addr()) as u32 + 1;
                    self.add_error(FilePosition { file: file.clone(), line: number, column }, message, help);
                }
            }
        }
    }
}

/// Why a line is not accepted; `word` is the part of it that is wrong.
pub struct LineError<'l> {
    word: &'l str,
    message: String,
    help: &'static str,
}

impl fmt::Display for LineError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (help: {})", self.message, self.help)
    }
}

/// The zone and the template of a line; none if it is blank or a comment.
pub fn parse_line(line: &str) -> Result<Option<(Name, Option<&str>)>, LineError<'_>> {
    let content = line.split('#').next().unwrap_or_default();
    let mut words = content.split_ascii_whitespace();
    let Some(word) = words.next() else { return Ok(None) };
    let (template, extra) = (words.next(), words.next());
    if let Some(word) = extra {
        return Err(LineError {
            word,
            message: format!("unexpected {}", quoted(word)),
            help: "write one `NAME [TEMPLATE]` per line",
        });
    }
    match Name::from_text(word.as_bytes(), Some(NameRef::ROOT)) {
        Ok(name) => Ok(Some((name.to_lowercase(), template))),
        Err(error) => {
            let message = format!("{} is not a domain name: {error}", quoted(word));
            Err(LineError { word, message, help: "write it like example.com" })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_a_name_and_perhaps_a_template() {
        for (line, expected) in [
            ("Example.COM", Some(("example.com.", None))),
            ("  example.com.\tsigned  # since 2020", Some(("example.com.", Some("signed")))),
            ("a\\035b.example#x", Some(("a#b.example.", None))),
            (".", Some((".", None))),
            ("", None),
            (" # example.com", None),
        ] {
            let zone = parse_line(line).unwrap_or_else(|error| panic!("{line}: {}", error.message));
            let expected = expected.map(|(name, template)| (name.parse::<Name>().expect("a name"), template));
            assert_eq!(zone, expected, "{line}");
        }
        for (line, wrong) in [("a..b x", "a..b"), (" example.com x y z", "y"), ("ä\\", "ä\\")] {
            assert_eq!(parse_line(line).err().map(|error| error.word), Some(wrong), "{line}");
        }
    }
}
