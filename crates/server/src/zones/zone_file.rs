//! The files that a zone is read from: where they may be, and whether they change while they are read.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use crate::printable::path_text;
use netio::file::PathHandle;
use zone::text::{ErrorText, IncludedFile, ReadAt};

/// A regular file, read in parts.
pub struct ZoneFile {
    file: File,
    begin: Metadata,
}

/// Times of files are as coarse as the kernel's ticks: within one, a second change does not show.
const TICK: Duration = Duration::from_millis(10);

impl ZoneFile {
    /// Opens a zone file; `None` where it is no regular file, which may have no end.
    pub fn open(path: &Path) -> io::Result<Option<ZoneFile>> {
        let found = PathHandle::at(path)?;
        let metadata = found.metadata()?;
        if metadata.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        if !metadata.is_file() {
            return Ok(None);
        }
        wait_for_tick(&metadata);
        found.open().and_then(ZoneFile::new).map(Some)
    }

    fn new(file: File) -> io::Result<ZoneFile> {
        Ok(ZoneFile { begin: file.metadata()?, file })
    }
}

/// Waits until the next change of a file has another time than the last; whether that took time.
fn wait_for_tick(metadata: &Metadata) -> bool {
    let age = metadata.modified().ok().and_then(|time| SystemTime::now().duration_since(time).ok());
    let rest = age.and_then(|age| TICK.checked_sub(age));
    rest.inspect(|rest| std::thread::sleep(*rest)).is_some()
}

impl ReadAt for ZoneFile {
    fn size(&self) -> usize {
        self.begin.size() as usize
    }

    fn read_at(&self, offset: usize, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset as u64).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => io::Error::other("it became shorter while it was read"),
            _ => error,
        })
    }

    fn check_unchanged(&self) -> io::Result<()> {
        let (begin, now) = (&self.begin, &self.file.metadata()?);
        let written = |metadata: &Metadata| (metadata.size(), metadata.mtime(), metadata.mtime_nsec());
        let changed = |metadata: &Metadata| (metadata.ctime(), metadata.ctime_nsec());
        // Its ctime also changes when another file is put in its place, which takes away its name.
        let is_renamed = now.nlink() != begin.nlink();
        match written(now) == written(begin) && (is_renamed || changed(now) == changed(begin)) {
            true => Ok(()),
            false => Err(io::Error::other("it was written to while it was read")),
        }
    }
}

/// The folders that included files must be in, or below.
pub struct IncludeFolders<'p> {
    named: Vec<&'p Path>,
    resolved: OnceLock<Vec<PathBuf>>,
    /// Whether all files written before the load are old enough; one wait is enough for that.
    has_waited: AtomicBool,
}

/// What to do about a file elsewhere.
const ELSEWHERE: &str =
    "put it below the folder of the zone file or of the configuration, or add its folder to `include-paths`";

impl<'p> IncludeFolders<'p> {
    /// These folders, if they are there.
    pub fn new(named: impl Iterator<Item = &'p Path>) -> IncludeFolders<'p> {
        IncludeFolders { named: named.collect(), resolved: OnceLock::new(), has_waited: AtomicBool::new(false) }
    }

    /// Opens an included file, wherever links and `..` lead to.
    ///
    /// A file elsewhere is not opened: messages quote words of what is read, and some devices act when they are opened.
    pub fn open(&self, path: &Path) -> Result<IncludedFile, ErrorText> {
        let unreadable =
            |error: io::Error| ErrorText { message: error.to_string(), help: "correct the path or the file" };
        let found = PathHandle::at(path).map_err(unreadable)?;
        let real_path = found.real_path().map_err(unreadable)?;
        if !self.resolved().iter().any(|folder| real_path.starts_with(folder)) {
            return Err(ErrorText { message: "it is outside of the folders for zone files".into(), help: ELSEWHERE });
        }
        let metadata = found.metadata().map_err(unreadable)?;
        if !metadata.is_file() {
            return Err(ErrorText { message: "it is no regular file".into(), help: "write what it says to a file" });
        }
        if !self.has_waited.load(Ordering::Relaxed) {
            self.has_waited.store(wait_for_tick(&metadata), Ordering::Relaxed);
        }
        let file = found.open().and_then(ZoneFile::new).map_err(unreadable)?;
        let id = (metadata.dev(), metadata.ino());
        Ok(IncludedFile { name: path_text(path).into(), id, text: Box::new(file) })
    }

    fn resolved(&self) -> &[PathBuf] {
        let resolve = |folder: &&Path| match folder.as_os_str().is_empty() {
            true => Path::new(".").canonicalize().ok(),
            false => folder.canonicalize().ok(),
        };
        self.resolved.get_or_init(|| self.named.iter().filter_map(resolve).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_while_reading_shows() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("zone");
        for change in ["longer text", "cut", "as long"] {
            std::fs::write(&path, "as long").expect("a file");
            let file = ZoneFile::open(&path).expect("the file just written").expect("a regular file");
            assert!(file.check_unchanged().is_ok());
            std::fs::write(&path, change).expect("a file");
            assert!(file.check_unchanged().is_err(), "{change}");
        }
    }

    #[test]
    fn a_file_put_in_its_place_is_no_change() {
        let folder = tempfile::tempdir().expect("a folder");
        let [path, new] = ["zone", "new"].map(|name| folder.path().join(name));
        std::fs::write(&path, "old").expect("a file");
        std::fs::write(&new, "new").expect("a file");
        let file = ZoneFile::open(&path).expect("the file just written").expect("a regular file");
        let mut text = [0; 3];
        std::fs::rename(&new, &path).expect("both are there");
        file.read_at(0, &mut text).expect("the file is held");
        assert_eq!(&text, b"old");
        assert!(file.check_unchanged().is_ok());
    }
}
