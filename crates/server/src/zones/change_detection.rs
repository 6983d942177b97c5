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

/// A hash of device, inode, size, mtime and ctime of all files of a zone, in the bits of `HASH`. The last bit is set if it is final:
/// none of the files was so young that it could be written again without a new time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint(u64);

/// A younger file may be written again without its mtime changing: some file systems keep times in whole seconds.
const MIN_AGE: Duration = Duration::from_secs(1);

impl Fingerprint {
    /// Matches no files: the zone must be read.
    pub const NONE: Fingerprint = Fingerprint(0);

    /// Whether files with this fingerprint need not be read: they were read before, when they had the fingerprint `self`.
    pub fn is_unchanged(self, now: Fingerprint) -> bool {
        self.0 & FINAL != 0 && self == now
    }

    /// The fingerprint of the same files, not final: they are read again.
    pub fn not_final(self) -> Fingerprint {
        Fingerprint(self.0 & !FINAL)
    }

    /// Whether both are of the same files, as far as their times show it. An edit of a young file may be missed, so this decides
    /// nothing but what else could be an edit: whether a file was changed that does not fit the updates since it was read.
    pub fn is_of_same_files(self, other: Fingerprint) -> bool {
        self != Fingerprint::NONE && self.0 | FINAL == other.0 | FINAL
    }

    /// As a number to be stored, 0 for [`Fingerprint::NONE`]: with a hash of the rules by which the files were read.
    pub fn to_stored(self, rules: u64) -> u64 {
        if self == Fingerprint::NONE { 0 } else { self.0 | rules & RULES }
    }

    /// The fingerprint that was stored as this number, and whether the files were read by these rules.
    pub fn from_stored(stored: u64, rules: u64) -> (Fingerprint, bool) {
        (Fingerprint(stored & (HASH | FINAL)), stored & RULES == rules & RULES)
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
        let (mut hasher, mut is_final) = (DefaultHasher::new(), true);
        for (path, fingerprint) in &*self.seen.lock().unwrap_or_else(PoisonError::into_inner) {
            if *fingerprint == CHANGED {
                return Fingerprint::NONE;
            }
            is_final &= fingerprint & FINAL != 0;
            (path, fingerprint | FINAL).hash(&mut hasher);
        }
        let hash = hasher.finish() & HASH;
        // 0 is `NONE`.
        Fingerprint(if is_final { hash | FINAL } else { hash.max(HASH & !(HASH << 1)) })
    }

    /// All added files except `main`, the zone file itself.
    pub fn includes(self, main: &Path) -> Box<[PathBuf]> {
        let seen = self.seen.into_inner().unwrap_or_else(PoisonError::into_inner);
        seen.into_keys().filter(|path| path != main).collect()
    }
}

/// The bit of a final hash.
const FINAL: u64 = 1;
/// The bits of the hash of the rules, in what is stored: by chance, one of eight million changes of them is missed.
const RULES: u64 = (1 << 24) - 2;
/// The bits of the hash of the files.
const HASH: u64 = !(RULES | FINAL);

/// Hash of a file that is missing, or so young that its time says nothing.
const CHANGED: u64 = 0;

fn hash_of(metadata: &Metadata) -> u64 {
    let age = metadata.modified().ok().and_then(|time| SystemTime::now().duration_since(time).ok());
    let is_final = age.is_some_and(|age| age >= MIN_AGE);
    // The file system keeps whole seconds.
    if !is_final && metadata.ctime_nsec() == 0 {
        return CHANGED;
    }
    let mut hasher = DefaultHasher::new();
    (metadata.dev(), metadata.ino(), metadata.size(), metadata.mtime(), metadata.mtime_nsec()).hash(&mut hasher);
    // Unlike mtime, ctime cannot be set to that of another file, as `cp -p` does.
    (metadata.ctime(), metadata.ctime_nsec()).hash(&mut hasher);
    if is_final { hasher.finish() | FINAL } else { (hasher.finish() & !FINAL).max(2) }
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
    fn what_is_stored_tells_other_files_from_other_rules() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("main");
        for age_s in [0, 100] {
            write(&path, "a", age_s);
            let files = Fingerprint::current([path.as_path()].into_iter());
            let stored = files.to_stored(u64::MAX / 3);
            assert_eq!(Fingerprint::from_stored(stored, u64::MAX / 3), (files, true));
            assert_eq!(Fingerprint::from_stored(stored, u64::MAX / 5), (files, false));
            write(&path, "ab", 100);
            let (former, _) = Fingerprint::from_stored(stored, u64::MAX / 3);
            assert!(!former.is_of_same_files(Fingerprint::current([path.as_path()].into_iter())));
        }
        assert_eq!(Fingerprint::NONE.to_stored(u64::MAX), 0);
        assert_eq!(Fingerprint::from_stored(0, u64::MAX).0, Fingerprint::NONE);
    }

    #[test]
    fn a_file_written_just_now_is_read_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("main");
        write(&path, "a", 0);
        let fingerprint = || Fingerprint::current([path.as_path()].into_iter());
        let young = fingerprint();
        assert!(!young.is_unchanged(fingerprint()));
        assert!(young.is_of_same_files(fingerprint()));
        // The hash of a final fingerprint is that of a young one.
        std::thread::sleep(MIN_AGE);
        let last = fingerprint();
        assert!(last.is_unchanged(fingerprint()) && !young.is_unchanged(last) && young.is_of_same_files(last));
        write(&path, "ab", 0);
        assert!(!young.is_of_same_files(fingerprint()));
        std::fs::remove_file(&path).expect("it was there");
        assert!(!fingerprint().is_of_same_files(fingerprint()));
    }
}
