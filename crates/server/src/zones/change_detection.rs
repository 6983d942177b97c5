//! Detects whether the files of a zone have changed since they were read, by their metadata.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use crate::printable::path_text;

/// A 64-bit hash of device, inode, size, mtime and ctime of all files of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint(u64);

/// A younger file may be written again without its mtime changing: some file systems keep times in whole seconds.
const MIN_AGE: Duration = Duration::from_secs(1);

impl Fingerprint {
    /// Matches no files: the zone must be read.
    pub const NONE: Fingerprint = Fingerprint(0);

    /// As a number to be stored, 0 for [`Fingerprint::NONE`]. It is valid only with the same `rules` of reading the files.
    pub fn to_stored(self, rules: u64) -> u64 {
        if self == Fingerprint::NONE { 0 } else { self.0 ^ rules }
    }

    /// The fingerprint that was stored as this number.
    pub fn from_stored(stored: u64, rules: u64) -> Fingerprint {
        if stored == 0 { Fingerprint::NONE } else { Fingerprint(stored ^ rules) }
    }

    /// The fingerprint of these files now.
    pub fn current<'p>(paths: impl Iterator<Item = &'p Path>) -> Fingerprint {
        let files = FilesRead::default();
        paths.for_each(|path| _ = files.add(path));
        files.fingerprint()
    }
}

/// The files that a zone was read from. Several threads add to it, and some files are read twice.
#[derive(Default)]
pub struct FilesRead {
    /// A hash of the metadata of each file; [`CHANGED`] if it must be read again.
    seen: Mutex<BTreeMap<PathBuf, u64>>,
}

impl FilesRead {
    /// Adds a file, before it is opened so that a change while it is read is detected. Returns its metadata.
    pub fn add(&self, path: &Path) -> io::Result<Metadata> {
        let metadata = std::fs::metadata(path);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.entry(path.to_owned()).or_insert_with(|| metadata.as_ref().map_or(CHANGED, hash_of));
        metadata
    }

    /// The path of an added file, by its name in messages.
    pub fn path_of(&self, text: &str) -> PathBuf {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        // Only a path that is not UTF-8 differs from its text.
        let odd = || seen.keys().find(|path| path.to_str().is_none() && path_text(path) == text);
        if seen.contains_key(Path::new(text)) { text.into() } else { odd().cloned().unwrap_or_else(|| text.into()) }
    }

    /// The fingerprint of all added files.
    pub fn fingerprint(&self) -> Fingerprint {
        let mut hasher = DefaultHasher::new();
        for (path, fingerprint) in &*self.seen.lock().unwrap_or_else(PoisonError::into_inner) {
            if *fingerprint == CHANGED {
                return Fingerprint::NONE;
            }
            (path, fingerprint).hash(&mut hasher);
        }
        // 0 is `NONE`.
        Fingerprint(hasher.finish().max(1))
    }

    /// All added files except `main`, the zone file itself.
    pub fn includes(self, main: &Path) -> Box<[PathBuf]> {
        let seen = self.seen.into_inner().unwrap_or_else(PoisonError::into_inner);
        seen.into_keys().filter(|path| path != main).collect()
    }
}

/// Hash of a file that must be read again, as it is missing or too young.
const CHANGED: u64 = 0;

fn hash_of(metadata: &Metadata) -> u64 {
    let age = metadata.modified().ok().and_then(|time| SystemTime::now().duration_since(time).ok());
    if age.is_none_or(|age| age < MIN_AGE) {
        return CHANGED;
    }
    let mut hasher = DefaultHasher::new();
    (metadata.dev(), metadata.ino(), metadata.size(), metadata.mtime(), metadata.mtime_nsec()).hash(&mut hasher);
    // Unlike mtime, ctime cannot be set to that of another file, as `cp -p` does.
    (metadata.ctime(), metadata.ctime_nsec()).hash(&mut hasher);
    hasher.finish().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    /// Writes a file and sets its mtime.
    fn write(path: &Path, text: &str, age_s: u64) {
        std::fs::write(path, text).expect("a file");
        let time = SystemTime::now() - Duration::from_secs(age_s);
        File::options().append(true).open(path).and_then(|file| file.set_modified(time)).expect("its time is set");
    }

    #[test]
    fn a_change_of_any_file_is_detected() {
        let folder = tempfile::tempdir().expect("a folder");
        let (main, included) = (folder.path().join("main"), folder.path().join("included"));
        let fingerprint = || Fingerprint::current([main.as_path(), included.as_path()].into_iter());
        write(&main, "a", 100);
        write(&included, "b", 100);
        let first = fingerprint();
        assert_eq!(fingerprint(), first);
        assert_ne!(first, Fingerprint::NONE);
        write(&included, "c", 50);
        assert_ne!(fingerprint(), first);
        write(&included, "cd", 50);
        assert_ne!(fingerprint(), first);
        let time = std::fs::metadata(&main).and_then(|metadata| metadata.modified()).expect("it is there");
        let before = fingerprint();
        std::thread::sleep(Duration::from_millis(20));
        std::fs::write(&main, "z").expect("a file");
        File::options()
            .append(true)
            .open(&main)
            .and_then(|file| file.set_modified(time))
            .expect("its time is set back");
        assert_ne!(fingerprint(), before);
        std::fs::remove_file(&included).expect("it was there");
        assert_eq!(fingerprint(), Fingerprint::NONE);
    }

    #[test]
    fn a_file_written_just_now_is_read_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("main");
        write(&path, "a", 0);
        assert_eq!(Fingerprint::current([path.as_path()].into_iter()), Fingerprint::NONE);
    }
}
