//! Opens the store of a state-dir, and sets one aside whose images another version of zonda has written.
//!
//! A store has images of one format only, as a start with another one begins a new store. So to look at one of them is enough.

use tracing::error;
use zone::image;

use super::JournalError;
use crate::printable::printable_path;
use crate::state_dir::{JOURNAL, StateDir};
use crate::storage::disk::{Disk, StateFolder};
use crate::storage::{Recovery, Store, StoreLimits};

/// Opens the store, or creates it. One with images of another format is renamed first, as a whole: zones that are read and transferred
/// anew would replace what only the version of zonda that wrote it can read.
pub fn open_store(state_dir: &StateDir, limits: StoreLimits) -> Result<(Store<StateFolder>, Recovery), JournalError> {
    let opened = open(state_dir, limits)?;
    let Some(format) = other_format(&opened.0, &opened.1) else { return Ok(opened) };
    drop(opened);
    let in_state_dir = |name| state_dir.path().join(name);
    let kept = state_dir.set_journal_aside(format);
    let kept = kept.map_err(|error| JournalError::OtherFormat { path: in_state_dir(JOURNAL), format, error })?;
    let (journal, kept) = (in_state_dir(JOURNAL), in_state_dir(&kept));
    let (journal, kept) = (printable_path(&journal), printable_path(&kept));
    error!(
        "the journal was written by another version of zonda (image format {format} instead of {}): it is kept in {kept}, and a new one is \
         begun. Zones are read from their files or transferred again, without the changes by updates (help: if there were updates, stop zonda, \
         move {kept} to {journal} in place of the new one, start the version of zonda that wrote it, and save the zones with `zonda zone \
         export`; else remove {kept})",
        image::FORMAT_VERSION
    );
    open(state_dir, limits)
}

fn open(state_dir: &StateDir, limits: StoreLimits) -> Result<(Store<StateFolder>, Recovery), JournalError> {
    let path = || state_dir.path().join(JOURNAL);
    let folder = StateFolder::open(state_dir, JOURNAL).map_err(|error| JournalError::Folder { path: path(), error })?;
    Store::open(folder, limits).map_err(|error| JournalError::Unreadable { path: path(), error })
}

/// The format of the images, if it is not that of this program.
fn other_format(store: &Store<impl Disk>, recovery: &Recovery) -> Option<u16> {
    let mut chunk = Vec::new();
    // Of damaged images nothing is known.
    let mut format_of = |zone| match store.image(zone)?.and_then(|mut image| image.next_chunk(&mut chunk)) {
        Ok(true) => image::format_version(&chunk),
        Ok(false) | Err(_) => None,
    };
    let format = recovery.zones().find_map(|zone| format_of(zone.zone))?;
    (format != image::FORMAT_VERSION).then_some(format)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;
    use std::{fs, io};

    use wire::Name;
    use zone::Zone;
    use zone::load::load_text;

    use super::super::write_image;
    use super::*;
    use crate::storage::{ImageBase, Timers};

    fn names(count: u16) -> Vec<Name> {
        (0..count).map(|number| format!("zone{number}.").parse().expect("a name")).collect()
    }

    fn version(apex: &Name) -> Zone {
        let text = "@ 60 SOA ns.other. host 1 2 3 4 5\n@ 60 NS ns.other.\n";
        load_text(apex.as_ref(), text.as_bytes()).zone.expect("a valid zone")
    }

    /// Stores zones as a version of zonda with this format does, each image in its record or a file.
    fn store_zones(state_dir: &StateDir, zones: &[Name], format: u16) {
        let limits = StoreLimits { inline_image_len: 50, ..StoreLimits::default() };
        let (mut store, _) = open(state_dir, limits).expect("it can be read");
        // It has timers, and no image.
        let without_image = store.add_zone();
        store.append_timers(without_image, "other.".parse::<Name>().expect("a name").as_ref(), Timers::default());
        for apex in zones {
            let mut writer = store.image_writer();
            let push = |chunk: &[u8]| {
                let (is_first, mut chunk) = (image::format_version(chunk).is_some(), chunk.to_vec());
                if is_first {
                    chunk[5..7].copy_from_slice(&format.to_le_bytes());
                }
                writer.push(&chunk)
            };
            write_image(version(apex), push).expect("it can be written");
            let (number, image) = (store.add_zone(), writer.finish().expect("it can be written"));
            store.append_image(number, apex.as_ref(), 1, ImageBase::Replacement, &image);
        }
        store.sync().expect("it can be written");
    }

    fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
        let entries = fs::read_dir(folder).expect("it is there").map(|entry| entry.expect("it can be listed"));
        let contents = |path| fs::read(path).expect("it is readable");
        entries.map(|entry| (entry.file_name().to_string_lossy().into_owned(), contents(entry.path()))).collect()
    }

    fn zone_names(recovery: &Recovery) -> Vec<Name> {
        recovery.zones().filter(|zone| zone.serial.is_some()).map(|zone| zone.name.to_owned()).collect()
    }

    /// Otherwise an upgrade or a downgrade loses what updates have changed.
    #[test]
    fn what_another_version_can_read_is_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let state_dir = StateDir::open(folder.path()).expect("a fresh folder");
        let other = image::FORMAT_VERSION + 1;
        let kept: Vec<_> =
            [format!("journal.format-{other}"), format!("journal.format-{other}.2")].map(|name| path(&name)).into();
        for kept in &kept {
            store_zones(&state_dir, &names(2), other);
            let before = files(&path(JOURNAL));
            let (_, recovery) = open_store(&state_dir, StoreLimits::default()).expect("it can be read");
            assert_eq!((zone_names(&recovery), files(kept)), (Vec::new(), before));
        }
        // The other version is back, with its journal.
        fs::remove_dir_all(path(JOURNAL)).and_then(|()| fs::rename(&kept[0], path(JOURNAL))).expect("they are there");
        let (_, recovery) = open(&state_dir, StoreLimits::default()).expect("it can be read");
        assert_eq!(zone_names(&recovery), names(2));
    }

    #[test]
    fn the_error_of_a_journal_that_cannot_be_renamed_names_its_format() {
        let error = io::ErrorKind::ReadOnlyFilesystem.into();
        let error = JournalError::OtherFormat { path: "/state/journal".into(), format: 77, error }.to_string();
        let own = image::FORMAT_VERSION;
        assert!(error.contains(&format!("/state/journal has images of format 77 instead of {own}, ")), "{error}");
        assert!(error.contains("mount the file system of the state-dir read-write"), "{error}");
    }

    #[test]
    fn a_journal_of_this_version_is_opened() {
        let folder = tempfile::tempdir().expect("a folder");
        let state_dir = StateDir::open(folder.path()).expect("a fresh folder");
        for _ in 0..2 {
            let (_, recovery) = open_store(&state_dir, StoreLimits::default()).expect("it can be read");
            assert_eq!(zone_names(&recovery), []);
        }
        store_zones(&state_dir, &names(2), image::FORMAT_VERSION);
        // A damaged image says nothing about the others.
        let images = files(&folder.path().join(JOURNAL)).into_keys().filter(|name| name.starts_with("image-"));
        let damaged = images.min().expect("the images have files");
        fs::write(folder.path().join(JOURNAL).join(damaged), "").expect("it is ours");
        let (_, recovery) = open_store(&state_dir, StoreLimits::default()).expect("it can be read");
        assert_eq!(zone_names(&recovery), names(2));
    }
}
