//! The zones of `zonda zone add`, kept in the state-dir: a text file that every addition and removal is appended to.
//!
//! A line is `+ NAME TEMPLATE` or `- NAME`. It counts once its newline is on disk: a line that a crash has cut off is dropped. The
//! file is rewritten without the zones that were removed at a start, and when it has doubled.

mod saver;

use std::collections::HashMap;
use std::fs::{self, File, Metadata};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use netio::file::open_no_link;
use tracing::{error, warn};
use wire::{Name, NameRef};

use crate::replace_file::{replace_file, sync_folder};
pub use saver::{SaveRequest, Saver};

/// The file in the state-dir.
pub const ADDED_ZONES: &str = "added-zones";

/// Added zones with their templates.
pub type AddedZones = HashMap<Name, String>;

/// An addition or a removal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// The zone was added with this template.
    Add(Name, String),
    /// The zone was removed.
    Remove(Name),
}

/// The file, open for appending.
pub struct AddedZonesFile {
    path: PathBuf,
    file: File,
    /// The length that is known to be on disk.
    synced_len: u64,
    /// The length after the last attempt to rewrite it.
    rewritten_len: u64,
}

/// A file that has not grown by this much is not rewritten.
const MIN_GROWTH: u64 = 64 << 10;

impl AddedZonesFile {
    /// Opens the file and returns the zones in it.
    pub fn open(path: &Path) -> io::Result<(AddedZonesFile, AddedZones)> {
        let mut text = Vec::new();
        open_no_link(path, true)?.read_to_end(&mut text)?;
        let (zones, is_compact) = replay(&text);
        if !is_compact && let Err(error) = rewrite(path, &zones) {
            // The disk may be full. Whichever file is there now has all zones, so its length is read anew.
            warn!("`{ADDED_ZONES}` in the state-dir cannot be rewritten, it grows until that works: {error}");
        }
        let mut file = open_no_link(path, false)?;
        text.clear();
        file.read_to_end(&mut text)?;
        let synced_len = complete_len(&text) as u64;
        // It may be new, and must survive a crash.
        sync_folder(path)?;
        let file = AddedZonesFile { path: path.to_owned(), file, synced_len, rewritten_len: synced_len };
        Ok((file, zones))
    }

    /// Appends text and waits until it is on disk. After an error none of it counts.
    fn append(&mut self, text: &str) -> io::Result<()> {
        self.file.set_len(self.synced_len)?;
        self.file.write_all_at(text.as_bytes(), self.synced_len)?;
        self.file.sync_data()?;
        if !self.is_in_place() {
            // It would be lost with this descriptor.
            self.put_back(self.synced_len + text.len() as u64)?;
        } else {
            self.synced_len += text.len() as u64;
        }
        Ok(())
    }

    /// Whether the path still leads to the open file.
    fn is_in_place(&self) -> bool {
        let id = |metadata: Metadata| (metadata.dev(), metadata.ino());
        let [open, there] = [self.file.metadata(), fs::symlink_metadata(&self.path)];
        open.ok().map(id) == there.ok().map(id)
    }

    /// Writes the zones in the first `len` octets of the open file to the path: somebody has removed or replaced that.
    fn put_back(&mut self, len: u64) -> io::Result<()> {
        warn!("`{ADDED_ZONES}` in the state-dir was removed or replaced while zonda uses it; it is written again");
        let mut text = vec![0; len as usize];
        self.file.read_exact_at(&mut text, 0)?;
        rewrite(&self.path, &replay(&text).0)?;
        self.open_rewritten()
    }

    /// Rewrites the file if it has more than doubled: most of its zones may have been removed. After an error the old file counts.
    fn rewrite_if_grown(&mut self) -> io::Result<()> {
        if self.synced_len < 2 * self.rewritten_len + MIN_GROWTH {
            return Ok(());
        }
        // Not before it has doubled again, even if this fails.
        self.rewritten_len = self.synced_len;
        let mut text = Vec::new();
        open_no_link(&self.path, true)?.read_to_end(&mut text)?;
        let rewritten = rewrite(&self.path, &replay(&text).0);
        // Either file has all zones, and only whole lines.
        self.open_rewritten()?;
        rewritten
    }

    fn open_rewritten(&mut self) -> io::Result<()> {
        self.file = open_no_link(&self.path, false)?;
        self.synced_len = self.file.metadata()?.len();
        self.rewritten_len = self.synced_len;
        Ok(())
    }

    /// Opens the file anew: after a failed sync, what the old descriptor wrote may be lost without another error. A file that is gone
    /// from its place is kept open, as nothing else has the zones.
    fn reopen(&mut self) -> io::Result<()> {
        if self.is_in_place() {
            self.file = open_no_link(&self.path, false)?;
        }
        Ok(())
    }
}

/// The zones after all lines, and whether there is nothing else in the file.
fn replay(text: &[u8]) -> (AddedZones, bool) {
    let (mut zones, mut lines, mut damaged) = (AddedZones::new(), 0, 0);
    let end = complete_len(text);
    for line in text[..end].split_inclusive(|&octet| octet == b'\n') {
        lines += 1;
        match parse(&line[..line.len() - 1]) {
            Some(Edit::Add(name, template)) => _ = zones.insert(name, template),
            Some(Edit::Remove(name)) => _ = zones.remove(&name),
            None => damaged += 1,
        }
    }
    if end < text.len() {
        warn!("the last line of `{ADDED_ZONES}` was cut off by a crash: it was not acknowledged");
    }
    if damaged > 0 {
        error!(
            "{damaged} lines of `{ADDED_ZONES}` are damaged and were left out: compare `zonda zone status` with the zones \
                that you added"
        );
    }
    let is_compact = lines == zones.len() && end == text.len();
    (zones, is_compact)
}

/// The length of the lines that are complete.
fn complete_len(text: &[u8]) -> usize {
    text.iter().rposition(|&octet| octet == b'\n').map_or(0, |newline| newline + 1)
}

fn parse(line: &[u8]) -> Option<Edit> {
    let mut words = line.split(|&octet| octet == b' ');
    let (kind, name) = (words.next()?, words.next()?);
    let name = Name::from_text(name, Some(NameRef::ROOT)).ok()?.to_lowercase();
    let template = words.next().map(|template| String::from_utf8(template.to_vec()));
    match (kind, template, words.next()) {
        (b"+", Some(template), None) => Some(Edit::Add(name, template.ok()?)),
        (b"-", None, None) => Some(Edit::Remove(name)),
        _ => None,
    }
}

/// Writes the file anew, with a line for each zone.
fn rewrite(path: &Path, zones: &AddedZones) -> io::Result<()> {
    let mut text = String::new();
    for (name, template) in zones {
        Edit::Add(name.clone(), template.clone()).append(&mut text);
    }
    replace_file(path, 0o600, |mut file| file.write_all(text.as_bytes()))
}

impl Edit {
    /// Appends the line.
    pub fn append(&self, text: &mut String) {
        use std::fmt::Write;
        // Writing to a string cannot fail.
        _ = match self {
            Edit::Add(name, template) => writeln!(text, "+ {name} {template}"),
            Edit::Remove(name) => writeln!(text, "- {name}"),
        };
    }
}

/// Whether a template can be written to the file.
pub fn is_storable(template: &str) -> bool {
    !template.is_empty() && !template.contains(|character: char| character.is_whitespace())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        text.parse().expect("a name")
    }

    fn write(path: &Path, text: &[u8]) -> AddedZones {
        fs::write(path, text).expect("a file");
        AddedZonesFile::open(path).expect("it is ours").1
    }

    #[test]
    fn lines_are_replayed_and_the_file_is_rewritten() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(ADDED_ZONES);
        let (mut file, zones) = AddedZonesFile::open(&path).expect("a new file");
        assert!(zones.is_empty());
        let mut text = String::new();
        let odd = Name::from_wire(b"\x04a \nb\x01-\0").expect("a name");
        for edit in [
            Edit::Add(name("a."), "t".into()),
            Edit::Add(odd.clone(), "t".into()),
            Edit::Remove(name("a.")),
            Edit::Add(name("b."), "u".into()),
        ] {
            edit.append(&mut text);
        }
        file.append(&text).expect("space");
        let expected = AddedZones::from([(odd, "t".into()), (name("b."), "u".into())]);
        let (_, zones) = AddedZonesFile::open(&path).expect("it is ours");
        assert_eq!(zones, expected);
        assert_eq!(fs::read_to_string(&path).expect("text").lines().count(), 2);
        assert_eq!(AddedZonesFile::open(&path).expect("it is ours").1, expected);
    }

    /// A catalog of short-lived zones would fill the disk until the next start.
    #[test]
    fn the_file_is_rewritten_when_it_has_doubled() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(ADDED_ZONES);
        let (mut file, _) = AddedZonesFile::open(&path).expect("a new file");
        file.append("+ kept. t\n").expect("space");
        let mut longest = 0;
        for _ in 0..20_000 {
            file.append("+ a.example. t\n- a.example.\n").expect("space");
            file.rewrite_if_grown().expect("space");
            longest = longest.max(file.synced_len);
        }
        assert!(longest < MIN_GROWTH + 1000, "{longest}");
        file.append("+ last. t\n").expect("space");
        let zones = AddedZonesFile::open(&path).expect("it is ours").1;
        assert_eq!(zones, AddedZones::from([(name("kept."), "t".into()), (name("last."), "t".into())]));
    }

    #[test]
    fn a_file_that_was_removed_or_replaced_is_written_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(ADDED_ZONES);
        let (mut file, _) = AddedZonesFile::open(&path).expect("a new file");
        file.append("+ a. t\n+ b. t\n").expect("space");
        fs::remove_file(&path).expect("it is there");
        file.append("- a. t\n- b.\n+ c. t\n").expect("space");
        fs::rename(&path, folder.path().join("elsewhere")).expect("it is there again");
        fs::write(&path, "+ other. t\n").expect("space");
        file.reopen().expect("it stays open");
        file.append("+ d. t\n").expect("space");
        let expected = ["a.", "c.", "d."].map(|zone| (name(zone), "t".into()));
        assert_eq!(AddedZonesFile::open(&path).expect("it is ours").1, AddedZones::from(expected));
    }

    /// As on a full disk: the new file would need the name of a folder.
    #[test]
    fn a_file_that_cannot_be_rewritten_is_used_as_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(ADDED_ZONES);
        fs::create_dir(path.with_file_name(format!(".{ADDED_ZONES}.new"))).expect("a folder");
        fs::write(&path, "+ a. t\n+ b. t\n- a.\n+ cut of").expect("a file");
        let (mut file, zones) = AddedZonesFile::open(&path).expect("it can be read");
        assert_eq!(zones, AddedZones::from([(name("b."), "t".into())]));
        file.append("+ c. t\n").expect("space");
        let expected = ["b.", "c."].map(|zone| (name(zone), "t".into()));
        assert_eq!(AddedZonesFile::open(&path).expect("it can be read").1, AddedZones::from(expected));
    }

    #[test]
    fn a_line_counts_once_it_is_complete() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(ADDED_ZONES);
        let text = b"+ a. t\n+ b.example. t\n- a.\n";
        for len in 0..=text.len() {
            let complete = text[..len].iter().filter(|octet| **octet == b'\n').count();
            let zones = write(&path, &text[..len]);
            assert_eq!(zones.contains_key(&name("a.")), matches!(complete, 1 | 2), "{len}");
            assert_eq!(zones.contains_key(&name("b.example.")), complete > 1, "{len}");
            assert_eq!(AddedZonesFile::open(&path).expect("it is ours").1, zones, "{len}");
        }
        for damage in [&b"\0\0\0\n"[..], b"+ a..b t\n", b"* a. t\n", b"+ a.\n", b"- a. t\n", b"+ a. t u\n", b"\n"] {
            let zones = write(&path, &[b"+ x. t\n", damage, b"+ y. t\n"].concat());
            assert_eq!(zones.len(), 2, "{damage:?}");
        }
    }
}
