//! The zones of `zonda zone add`, kept in the state-dir: a text file that every addition and removal is appended to.
//!
//! The file is rewritten, without the zones that were removed, at each start and when it has doubled.

#[cfg(test)]
mod crash_tests;
mod line_format;
mod saver;

use std::io;

use tracing::warn;

use crate::replace_file::replace_in;
use crate::state_dir::{ADDED_ZONES, DAMAGED_ZONES};
use crate::storage::disk::{Disk, DiskFile, read_all};
use crate::write_help::write_help;
pub use line_format::{AddedZones, Addition, Contents, Edit, is_storable};
use line_format::{complete_len, replay, text_of};
#[cfg(test)]
pub use saver::RETRY;
pub use saver::{SaveQueue, SaveRequest, Saver};

/// The file, open for appending.
pub struct AddedZonesFile<D: Disk> {
    state_dir: D,
    file: D::File,
    /// The length of what counts.
    saved_len: u64,
    /// Whether that is on disk.
    is_synced: bool,
    /// The length after the last attempt to rewrite it.
    rewritten_len: u64,
}

/// A file that has not grown by this much is not rewritten.
const MIN_GROWTH: u64 = 64 << 10;

impl<D: Disk> AddedZonesFile<D> {
    /// Opens the file and returns the zones in it. It is written anew: a process that was killed, or whose last sync failed, may have left
    /// lines that can be read and are not on disk.
    pub fn open(state_dir: D) -> io::Result<(AddedZonesFile<D>, Contents)> {
        let text = read_all(&open_or_create(&state_dir)?)?;
        let contents = replay(&text)?;
        let rewritten = keep_and_rewrite(&state_dir, &text, &contents);
        if let Err(error) = &rewritten {
            let help = write_help(error, "the state-dir");
            warn!(help, "`{ADDED_ZONES}` in the state-dir cannot be rewritten, zonda tries again every 10 s: {error}");
        }
        // Whichever file is there now has all zones.
        let file = open_or_create(&state_dir)?;
        let saved_len = complete_len(&read_all(&file)?) as u64;
        let is_synced = rewritten.is_ok();
        Ok((AddedZonesFile { state_dir, file, saved_len, is_synced, rewritten_len: saved_len }, contents))
    }

    /// Appends text and waits until it is on disk. After an error none of it counts.
    fn append(&mut self, text: &str) -> io::Result<()> {
        if !self.is_in_place() {
            warn!(
                "`{ADDED_ZONES}` in the state-dir was removed or replaced while zonda was using it; it is written again"
            );
            // What is appended would be lost with this descriptor.
            return self.write_anew(text);
        }
        if !self.is_synced {
            // What is appended might be there without what precedes it.
            return self.write_anew(text);
        }
        self.file.truncate(self.saved_len)?;
        self.file.write_at(text.as_bytes(), self.saved_len)?;
        self.file.sync()?;
        self.saved_len += text.len() as u64;
        Ok(())
    }

    /// Whether the name still leads to the open file.
    fn is_in_place(&self) -> bool {
        self.state_dir.has(ADDED_ZONES, &self.file)
    }

    /// Replaces the file by one with its zones after more lines.
    fn write_anew(&mut self, lines: &str) -> io::Result<()> {
        let mut text = read_all(&self.file)?;
        text.truncate(self.saved_len as usize);
        text.extend_from_slice(lines.as_bytes());
        keep_and_rewrite(&self.state_dir, &text, &replay(&text)?)?;
        self.open_rewritten()
    }

    /// Rewrites the file if it has more than doubled: most of its zones may have been removed. After an error the old file counts.
    fn rewrite_if_grown(&mut self) -> io::Result<()> {
        if self.saved_len < 2 * self.rewritten_len + MIN_GROWTH {
            return Ok(());
        }
        // Not before it has doubled again, even if this fails.
        self.rewritten_len = self.saved_len;
        let text = read_all(&open_or_create(&self.state_dir)?)?;
        let contents = replay(&text)?;
        let rewritten = keep_and_rewrite(&self.state_dir, &text, &contents);
        // Either file has all zones, and only whole lines. After an error, a power failure may bring the other one back.
        self.open_rewritten()?;
        self.is_synced = rewritten.is_ok();
        rewritten
    }

    fn open_rewritten(&mut self) -> io::Result<()> {
        self.file = self.state_dir.open(ADDED_ZONES)?;
        self.saved_len = self.file.length()?;
        (self.is_synced, self.rewritten_len) = (true, self.saved_len);
        Ok(())
    }

    /// Opens the file anew: after a failed sync, what the old descriptor wrote may be lost without another error. A file that is gone
    /// from its place is kept open, as nothing else has the zones.
    fn reopen(&mut self) -> io::Result<()> {
        if self.is_in_place() {
            self.file = self.state_dir.open(ADDED_ZONES)?;
        }
        Ok(())
    }
}

fn open_or_create<D: Disk>(state_dir: &D) -> io::Result<D::File> {
    match state_dir.open(ADDED_ZONES) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => state_dir.create(ADDED_ZONES),
        opened => opened,
    }
}

/// Writes the file anew. One with damaged lines is kept under another name, or as it is if that fails.
fn keep_and_rewrite(state_dir: &impl Disk, text: &[u8], contents: &Contents) -> io::Result<()> {
    if contents.is_damaged {
        replace_in(state_dir, DAMAGED_ZONES, text)?;
    }
    replace_in(state_dir, ADDED_ZONES, text_of(&contents.zones).as_bytes())
}

fn warn_not_rewritten(error: &io::Error) {
    let help = write_help(error, "the state-dir");
    warn!(help, "`{ADDED_ZONES}` in the state-dir cannot be rewritten, it grows until that works: {error}");
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::path::Path;

    use wire::Name;

    use super::line_format::{HEADER, append_line};
    use super::*;
    use crate::simulated_disk::{Random, SimulatedDisk};
    use crate::storage::disk::StateFolder;

    /// Opens the file at this path.
    fn open(path: &Path) -> io::Result<(AddedZonesFile<StateFolder>, Contents)> {
        let folder = path.parent().expect("it has a folder");
        AddedZonesFile::open(StateFolder::new(File::open(folder)?, folder)?)
    }

    fn name(text: &str) -> Name {
        text.parse().expect("a name")
    }

    fn write(path: &Path, text: &[u8]) -> AddedZones {
        fs::write(path, text).expect("a file");
        zones(path)
    }

    fn zones(path: &Path) -> AddedZones {
        open(path).expect("it is ours").1.zones
    }

    fn lines(edits: &[Edit]) -> String {
        let mut text = String::new();
        edits.iter().for_each(|edit| edit.append(&mut text));
        text
    }

    fn add(zone: &str) -> Edit {
        Edit::Add(name(zone), "t".into())
    }

    fn remove(zone: &str) -> Edit {
        Edit::Remove(name(zone))
    }

    #[test]
    fn lines_are_replayed_and_the_file_is_rewritten() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(ADDED_ZONES);
        let (mut file, contents) = open(&path).expect("a new file");
        assert_eq!((contents.zones.len(), contents.is_damaged), (0, false));
        let odd = Name::from_wire(b"\x04a \nb\x01-\0").expect("a name");
        let numbered = Addition { template: "u".into(), number: 77 };
        let edits =
            [add("a."), Edit::Add(odd.clone(), "t".into()), remove("a."), Edit::Add(name("b."), numbered.clone())];
        file.append(&lines(&edits)).expect("space");
        let expected = AddedZones::from([(odd, "t".into()), (name("b."), numbered)]);
        assert_eq!(zones(&path), expected);
        assert_eq!(fs::read_to_string(&path).expect("text").lines().count(), 3);
        assert_eq!(zones(&path), expected);
    }

    /// A catalog of short-lived zones would fill the disk until the next start.
    #[test]
    fn the_file_is_rewritten_when_it_has_doubled() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(ADDED_ZONES);
        let (mut file, _) = open(&path).expect("a new file");
        file.append(&lines(&[add("kept.")])).expect("space");
        let mut longest = 0;
        for _ in 0..20_000 {
            file.append(&lines(&[add("a.example."), remove("a.example.")])).expect("space");
            file.rewrite_if_grown().expect("space");
            longest = longest.max(file.saved_len);
        }
        assert!(longest < MIN_GROWTH + 1000, "{longest}");
        file.append(&lines(&[add("last.")])).expect("space");
        assert_eq!(zones(&path), AddedZones::from([(name("kept."), "t".into()), (name("last."), "t".into())]));
    }

    #[test]
    fn a_file_that_was_removed_or_replaced_is_written_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(ADDED_ZONES);
        let (mut file, _) = open(&path).expect("a new file");
        file.append(&lines(&[add("a."), add("b.")])).expect("space");
        fs::remove_file(&path).expect("it is there");
        file.append(&lines(&[remove("b."), add("c.")])).expect("space");
        fs::rename(&path, folder.path().join("elsewhere")).expect("it is there again");
        fs::write(&path, "+ other. t\n").expect("space");
        file.reopen().expect("it stays open");
        file.append(&lines(&[add("d.")])).expect("space");
        let expected = ["a.", "c.", "d."].map(|zone| (name(zone), "t".into()));
        assert_eq!(zones(&path), AddedZones::from(expected));
    }

    /// A zone that was read at a start is served, and adding it again fails: it must survive as if it had been acknowledged.
    #[test]
    fn what_a_killed_process_has_written_is_synced_at_the_next_start() {
        for seed in 0..20 {
            let (disk, mut random) = (SimulatedDisk::default(), Random::new(seed));
            let open = || AddedZonesFile::open(disk.clone()).expect("it is ours");
            let (mut file, _) = open();
            file.append(&lines(&[add("a.")])).expect("space");
            // Killed before the sync.
            disk.crash_in(Some(3));
            file.append(&lines(&[add("b.")])).expect_err("the process has ended");
            disk.crash_in(None);
            if seed % 2 == 0 {
                disk.fail_next_sync();
            }
            let (mut file, contents) = open();
            assert_eq!((contents.zones.len(), file.is_synced), (2, seed % 2 == 1));
            if !file.is_synced {
                file.append("").expect("this sync succeeds");
            }
            disk.lose_power(&mut random);
            assert_eq!(open().1.zones.len(), 2, "seed {seed}");
        }
    }

    /// As on a full disk: the new file would need the name of a folder.
    #[test]
    fn a_file_that_cannot_be_rewritten_is_used_as_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(ADDED_ZONES);
        fs::create_dir(path.with_file_name(format!(".{ADDED_ZONES}.new"))).expect("a folder");
        fs::write(&path, "+ a. t\n+ b. t\n- a.\n+ cut of").expect("a file");
        let (mut file, contents) = open(&path).expect("it can be read");
        assert_eq!(contents.zones, AddedZones::from([(name("b."), "t".into())]));
        file.append(&lines(&[add("c.")])).expect_err("it must be rewritten first");
        fs::remove_dir(path.with_file_name(format!(".{ADDED_ZONES}.new"))).expect("it is there");
        file.append(&lines(&[add("c.")])).expect("space");
        let expected = AddedZones::from(["b.", "c."].map(|zone| (name(zone), "t".into())));
        assert_eq!(zones(&path), expected);
        assert!(fs::read(&path).expect("text").starts_with(b"= added-zones 3 "));
        // Format 2, which is rewritten, too.
        let mut text = String::new();
        ["= added-zones 2", "+ a. t"].into_iter().for_each(|words| append_line(&mut text, format_args!("{words}")));
        assert_eq!(write(&path, text.as_bytes()), AddedZones::from([(name("a."), "t".into())]));
        assert!(fs::read(&path).expect("text").starts_with(b"= added-zones 3 "));
    }

    #[test]
    fn a_line_counts_once_it_is_complete() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(ADDED_ZONES);
        let new = lines(&[add("a."), add("b.example."), remove("a.")]);
        for text in ["+ a. t\n+ b.example. t\n- a.\n", &new] {
            for len in 0..=text.len() {
                let complete = text.as_bytes()[..len].iter().filter(|octet| **octet == b'\n').count();
                let found = write(&path, &text.as_bytes()[..len]);
                assert_eq!(found.contains_key(&name("a.")), matches!(complete, 1 | 2), "{len}");
                assert_eq!(found.contains_key(&name("b.example.")), complete > 1, "{len}");
                assert_eq!(zones(&path), found, "{len}");
            }
        }
        for damage in [
            &b"\0\0\0\n"[..],
            b"+ a..b t\n",
            b"* a. t\n",
            b"+ a.\n",
            b"- a. t\n",
            b"+ a. t u\n",
            b"+ a. t 1 2\n",
            b"\n",
        ] {
            let zones = write(&path, &[b"+ x. t\n", damage, b"+ y. t\n"].concat());
            assert_eq!(zones.len(), 2, "{damage:?}");
        }
    }

    /// A zone is never served under another name or with another template, and a damaged line takes at most the next one with it.
    #[test]
    fn every_flipped_bit_is_noticed_and_the_other_lines_count() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(ADDED_ZONES);
        assert!(zones(&path).is_empty());
        let edits = [add("a.example."), add("b.example."), remove("a.example."), add("c.example."), add("d.example.")];
        let text = [fs::read(&path).expect("the first line"), lines(&edits).into()].concat();
        let all = write(&path, &text);
        assert_eq!(all.len(), 3);
        for at in 0..8 * (text.len() - 1) {
            let mut damaged = text.clone();
            damaged[at / 8] ^= 1 << (at % 8);
            let contents = replay(&damaged).expect("this version wrote it");
            assert!(contents.is_damaged, "bit {at}");
            let lost = all.keys().filter(|zone| !contents.zones.contains_key(*zone)).count();
            assert!(lost <= 2, "bit {at}: {:?}", contents.zones);
            let mut wrong = contents.zones.iter().filter(|(zone, addition)| all.get(*zone) != Some(addition));
            assert!(wrong.all(|(zone, addition)| *zone == name("a.example.") && *addition == "t".into()), "bit {at}");
        }
    }

    #[test]
    fn a_damaged_file_is_kept_under_another_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(ADDED_ZONES);
        let text = lines(&[add("a."), add("b."), add("c.")]).replace("+ b.", "+ B.");
        fs::write(&path, &text).expect("a file");
        let (_, contents) = open(&path).expect("it is ours");
        assert!(contents.is_damaged);
        assert_eq!(contents.zones, AddedZones::from(["a.", "c."].map(|zone| (name(zone), "t".into()))));
        assert_eq!(fs::read_to_string(path.with_file_name(DAMAGED_ZONES)).expect("the copy"), text);
        let (_, contents) = open(&path).expect("it is ours");
        assert_eq!((contents.is_damaged, contents.zones.len()), (false, 2), "it is rewritten without the damage");
    }

    #[test]
    fn a_file_of_another_format_is_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(ADDED_ZONES);
        let mut text = String::new();
        append_line(&mut text, format_args!("{HEADER}4"));
        text.push_str("@ something new\n");
        fs::write(&path, &text).expect("a file");
        let error = open(&path).err().expect("nobody knows what it means").to_string();
        assert!(error.contains("its format is `4`: use the version of zonda that wrote it"), "{error}");
        assert_eq!(fs::read_to_string(&path).expect("it is there"), text);
    }
}
