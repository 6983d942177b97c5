//! Tells whether the files of a zone have changed since they were read, without reading them.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use crate::printable::path_text;

/// Device, inode, size and times of change of all files of a zone, in eight octets: two that differ are equal once in
/// 2^64 times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint(u64);

/// A file written this shortly before it was read may be written again without its time changing: file systems keep
/// times in steps of up to a second or so.
const UNSURE_FOR: Duration = Duration::from_secs(1);

impl Fingerprint {
    /// Equal to no fingerprint of files: the zone has to be read.
    pub const NONE: Fingerprint = Fingerprint(0);

    /// The fingerprint that these files have now.
    pub fn of_now<'p>(paths: impl Iterator<Item = &'p Path>) -> Fingerprint {
        let files = FilesRead::default();
        for path in paths {
            files.note(path);
        }
        files.fingerprint()
    }
}

/// The files of a zone as they are being read, by several threads and some of them twice.
#[derive(Default)]
pub struct FilesRead {
    /// Zero is "to be read again in any case".
    seen: Mutex<BTreeMap<PathBuf, u64>>,
}

impl FilesRead {
    /// Call before the file is opened, so that a change while it is read shows. Returns its length in octets, 0 where
    /// there is no such file.
    pub fn note(&self, path: &Path) -> u64 {
        let metadata = std::fs::metadata(path).ok();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.entry(path.to_owned()).or_insert_with(|| metadata.as_ref().map_or(0, of_file));
        metadata.map_or(0, |metadata| metadata.len())
    }

    /// The path of the file noted that is called by this text in messages.
    pub fn named(&self, text: &str) -> PathBuf {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        // Only a path that is not UTF-8 differs from its text.
        let odd = || seen.keys().find(|path| path.to_str().is_none() && path_text(path) == text);
        if seen.contains_key(Path::new(text)) { text.into() } else { odd().cloned().unwrap_or_else(|| text.into()) }
    }

    /// The fingerprint of all files noted.
    pub fn fingerprint(&self) -> Fingerprint {
        let mut hasher = DefaultHasher::new();
        for (path, fingerprint) in &*self.seen.lock().unwrap_or_else(PoisonError::into_inner) {
            if *fingerprint == 0 {
                return Fingerprint::NONE;
            }
            (path, fingerprint).hash(&mut hasher);
        }
        // Zero has a meaning of its own.
        Fingerprint(hasher.finish().max(1))
    }

    /// All files noted but `first`.
    pub fn others(self, first: &Path) -> Box<[PathBuf]> {
        let seen = self.seen.into_inner().unwrap_or_else(PoisonError::into_inner);
        seen.into_keys().filter(|path| path != first).collect()
    }
}

/// Zero where the file was written too short a time ago to tell the next change.
fn of_file(metadata: &Metadata) -> u64 {
    let age = metadata.modified().ok().and_then(|time| SystemTime::now().duration_since(time).ok());
    if age.is_none_or(|age| age < UNSURE_FOR) {
        return 0;
    }
    let mut hasher = DefaultHasher::new();
    (metadata.dev(), metadata.ino(), metadata.size(), metadata.mtime(), metadata.mtime_nsec()).hash(&mut hasher);
    // The time above can be set, as `cp -p` does to that of another file; this one cannot.
    (metadata.ctime(), metadata.ctime_nsec()).hash(&mut hasher);
    hasher.finish().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    /// Sets a time of change that is out of doubt.
    fn write(path: &Path, text: &str, age_s: u64) {
        std::fs::write(path, text).expect("a file");
        let time = SystemTime::now() - Duration::from_secs(age_s);
        File::options().append(true).open(path).and_then(|file| file.set_modified(time)).expect("its time is set");
    }

    #[test]
    fn a_change_of_any_file_shows() {
        let folder = tempfile::tempdir().expect("a folder");
        let (main, included) = (folder.path().join("main"), folder.path().join("included"));
        let fingerprint = || Fingerprint::of_now([main.as_path(), included.as_path()].into_iter());
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
        assert_eq!(Fingerprint::of_now([path.as_path()].into_iter()), Fingerprint::NONE);
    }
}
