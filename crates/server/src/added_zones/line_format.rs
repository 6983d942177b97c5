//! The lines of the file of added zones.
//!
//! The first line is `= added-zones 3`, with the version of the format; the others are `+ NAME TEMPLATE NUMBER` or `- NAME`. Each ends with a
//! space and its checksum: the CRC-32C of what precedes that, in hexadecimal. A line counts once its newline is on disk: one that a crash has
//! cut off is dropped.
//!
//! Format 2 had no numbers, format 1 no first line and no checksums either. They are read, and rewritten in format 3 at the next start.

use std::collections::HashMap;
use std::fmt::{Arguments, Write as _};
use std::io;

use tracing::{error, warn};
use wire::{Name, NameRef};

use crate::printable::quoted;
use crate::state_dir::{ADDED_ZONES, DAMAGED_ZONES};

/// Added zones.
pub type AddedZones = HashMap<Name, Addition>;

/// How a zone was added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addition {
    /// The template.
    pub template: String,
    /// Another one each time that this zone is added: produced catalogs show by it that it is another zone. 0 if it is not known.
    pub number: u32,
}

impl From<&str> for Addition {
    fn from(template: &str) -> Addition {
        Addition { template: template.to_owned(), number: 0 }
    }
}

/// An addition or a removal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// The zone was added.
    Add(Name, Addition),
    /// The zone was removed.
    Remove(Name),
}

/// What the file has.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// The zones after all lines.
    pub zones: AddedZones,
    /// Lines were left out: there may have been more zones, and some may have been removed.
    pub is_damaged: bool,
}

/// The first line of a file, without its checksum.
pub(super) const HEADER: &str = "= added-zones ";
/// The format that is written.
const FORMAT_VERSION: &str = "3";
/// The other formats that have a first line.
const EARLIER_VERSION: &str = "2";
/// The length of a checksum, and of the space before it.
const CHECKSUM_LEN: usize = 9;

/// Reads all lines. Fails only if another version of zonda has written them.
pub(super) fn replay(text: &[u8]) -> io::Result<Contents> {
    let (mut zones, mut lines, mut damage) = (AddedZones::new(), 0, Damage::default());
    // No line after the first one with a checksum is of format 1.
    let mut has_checksums = false;
    let end = complete_len(text);
    for line in text[..end].split_inclusive(|&octet| octet == b'\n') {
        lines += 1;
        let line = &line[..line.len() - 1];
        let checked = checked(line);
        has_checksums |= checked.is_some();
        let words = checked.or_else(|| Some(line).filter(|_| !has_checksums));
        if let Some(version) = checked.and_then(|words| words.strip_prefix(HEADER.as_bytes())) {
            check_version(version)?;
            continue;
        }
        match words.and_then(parse) {
            Some(Edit::Add(name, addition)) => _ = zones.insert(name, addition),
            Some(Edit::Remove(name)) => _ = zones.remove(&name),
            None => damage.note(lines, line),
        }
    }
    if end < text.len() {
        warn!("the last line of `{ADDED_ZONES}` was cut off by a crash: it was not acknowledged");
    }
    damage.report();
    Ok(Contents { zones, is_damaged: damage.lines > 0 })
}

/// The octets before the checksum, if that is right.
fn checked(line: &[u8]) -> Option<&[u8]> {
    let (words, checksum) = line.split_at_checked(line.len().checked_sub(CHECKSUM_LEN)?)?;
    (*checksum == *checksum_of(words).as_bytes()).then_some(words)
}

/// What follows the words of a line.
fn checksum_of(words: &[u8]) -> String {
    format!(" {:08x}", crc32c::crc32c(words))
}

/// Fails if this version is not known.
fn check_version(version: &[u8]) -> io::Result<()> {
    if [FORMAT_VERSION, EARLIER_VERSION].map(str::as_bytes).contains(&version) {
        return Ok(());
    }
    let version = String::from_utf8_lossy(version);
    Err(io::Error::other(format!("its format is {}: use the version of zonda that wrote it", quoted(&version))))
}

/// Lines that are left out.
#[derive(Default)]
struct Damage {
    lines: usize,
    /// The number of the first one, and its text.
    first: Option<(usize, String)>,
}

impl Damage {
    fn note(&mut self, number: usize, line: &[u8]) {
        self.lines += 1;
        self.first.get_or_insert_with(|| (number, quoted(&String::from_utf8_lossy(line))));
    }

    fn report(&self) {
        if let Some((line, text)) = &self.first {
            error!(
                damaged_lines = self.lines,
                help = format!(
                    "compare `zonda zone status` with the zones that you added, and repeat `zonda zone add` or `zonda zone remove` for \
                     those that differ; the damaged file is kept as `{DAMAGED_ZONES}`"
                ),
                "`{ADDED_ZONES}` in the state-dir is damaged at line {line}, which is left out: {text}"
            );
        }
    }
}

/// The length of the lines that are complete.
pub(super) fn complete_len(text: &[u8]) -> usize {
    text.iter().rposition(|&octet| octet == b'\n').map_or(0, |newline| newline + 1)
}

fn parse(words: &[u8]) -> Option<Edit> {
    let mut words = words.split(|&octet| octet == b' ');
    let (kind, name) = (words.next()?, words.next()?);
    let name = Name::from_text(name, Some(NameRef::ROOT)).ok()?.to_lowercase();
    let [template, number] = [words.next(), words.next()].map(|word| word.map(str::from_utf8));
    match (kind, template, number, words.next()) {
        (b"+", Some(template), number, None) => {
            let number = number.map_or(Some(0), |number| number.ok()?.parse().ok())?;
            Some(Edit::Add(name, Addition { template: template.ok()?.to_owned(), number }))
        }
        (b"-", None, None, None) => Some(Edit::Remove(name)),
        _ => None,
    }
}

/// The text of a file with a line for each zone.
pub(super) fn text_of(zones: &AddedZones) -> String {
    let mut text = String::new();
    append_line(&mut text, format_args!("{HEADER}{FORMAT_VERSION}"));
    for (name, addition) in zones {
        Edit::Add(name.clone(), addition.clone()).append(&mut text);
    }
    text
}

/// Appends words and their checksum.
pub(super) fn append_line(text: &mut String, words: Arguments<'_>) {
    let start = text.len();
    // Writing to a string cannot fail.
    _ = text.write_fmt(words);
    let checksum = checksum_of(&text.as_bytes()[start..]);
    text.push_str(&checksum);
    text.push('\n');
}

impl Edit {
    /// Appends the line.
    pub fn append(&self, text: &mut String) {
        match self {
            Edit::Add(name, Addition { template, number }) => {
                append_line(text, format_args!("+ {name} {template} {number}"))
            }
            Edit::Remove(name) => append_line(text, format_args!("- {name}")),
        }
    }
}

/// Whether a template can be written to the file.
pub fn is_storable(template: &str) -> bool {
    !template.is_empty() && !template.contains(|character: char| character.is_whitespace())
}
