//! Opens zone files and included files, restricts where the latter may be, and detects changes while they are read.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use crate::printable::path_text;
use netio::file::{PathHandle, is_regular};
use zone::text::{ErrorText, IncludedFile, ReadAt};

/// A regular file, read in pieces.
pub struct ZoneFile {
    file: File,
    begin: Metadata,
}

/// Resolution of file times (kernel ticks): a second change within one does not alter the mtime.
const TICK: Duration = Duration::from_millis(10);

impl ZoneFile {
    /// Opens a zone file, which had this metadata just now; `None` if it is not a regular file, which may have no end. Others are not
    /// even opened, which has effects on some devices.
    pub fn open(path: &Path, metadata: &Metadata) -> io::Result<Option<ZoneFile>> {
        if metadata.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        if !metadata.is_file() {
            return Ok(None);
        }
        let opened = ZoneFile::new(File::open(path)?)?;
        // The path may lead to another file by now.
        Ok(is_regular(&opened.file, &opened.begin)?.then_some(opened))
    }

    /// It may have changed since its path was looked at: what counts is the state that reading begins with.
    fn new(file: File) -> io::Result<ZoneFile> {
        let begin = file.metadata()?;
        wait_for_tick(&begin);
        Ok(ZoneFile { begin, file })
    }
}

/// Waits until a further change of the file would alter its mtime. One wait is enough for all files that were written before.
fn wait_for_tick(metadata: &Metadata) {
    let age = metadata.modified().ok().and_then(|time| SystemTime::now().duration_since(time).ok());
    age.and_then(|age| TICK.checked_sub(age)).into_iter().for_each(std::thread::sleep);
}

impl ReadAt for ZoneFile {
    fn size(&self) -> usize {
        self.begin.size() as usize
    }

    fn read_at(&self, offset: usize, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset as u64).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => io::Error::other("the file was truncated while it was read"),
            _ => error,
        })
    }

    fn check_unchanged(&self) -> io::Result<()> {
        let (begin, now) = (&self.begin, &self.file.metadata()?);
        let written = |metadata: &Metadata| (metadata.size(), metadata.mtime(), metadata.mtime_nsec());
        let changed = |metadata: &Metadata| (metadata.ctime(), metadata.ctime_nsec());
        // Replacing the file by a rename unlinks this one, which alters its ctime, too.
        let is_replaced = now.nlink() != begin.nlink();
        match written(now) == written(begin) && (is_replaced || changed(now) == changed(begin)) {
            true => Ok(()),
            false => Err(io::Error::other("the file was modified while it was read")),
        }
    }
}

/// The folders that included files must be in or below.
pub struct IncludeFolders<'p> {
    named: Vec<&'p Path>,
    resolved: OnceLock<Vec<PathBuf>>,
}

const HELP_OUTSIDE: &str =
    "put it below the folder of the zone file or of the configuration, or add its folder to `include-paths`";

impl<'p> IncludeFolders<'p> {
    /// These folders; those that do not exist are ignored.
    pub fn new(named: impl Iterator<Item = &'p Path>) -> IncludeFolders<'p> {
        IncludeFolders { named: named.collect(), resolved: OnceLock::new() }
    }

    /// Opens an included file, after links and `..` are resolved. A file outside of the folders is not even opened: error
    /// messages quote what is read, and opening some devices has effects.
    pub fn open(&self, path: &Path) -> Result<IncludedFile, ErrorText> {
        let refused = |message: &str, help| ErrorText { message: message.into(), help };
        let unreadable = |error: io::Error| refused(&error.to_string(), "correct the path or the file");
        let found = PathHandle::at(path).map_err(unreadable)?;
        let real_path = found.real_path().map_err(unreadable)?;
        if !self.resolved().iter().any(|folder| real_path.starts_with(folder)) {
            return Err(refused("it is outside of the folders for zone files", HELP_OUTSIDE));
        }
        let metadata = found.metadata().map_err(unreadable)?;
        if !found.is_regular_file().map_err(unreadable)? {
            return Err(refused("it is not a regular file", "copy its content to a regular file"));
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
    use std::time::Instant;

    use super::*;

    fn open(path: &Path) -> io::Result<Option<ZoneFile>> {
        ZoneFile::open(path, &path.metadata()?)
    }

    #[test]
    fn a_change_while_reading_is_detected() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("zone");
        for change in ["longer text", "cut", "as long"] {
            std::fs::write(&path, "as long").expect("a file");
            let file = open(&path).expect("the file just written").expect("a regular file");
            assert!(file.check_unchanged().is_ok());
            std::fs::write(&path, change).expect("a file");
            assert!(file.check_unchanged().is_err(), "{change}");
        }
    }

    /// An editor truncates the file once its path was looked at, and writes it a moment later.
    #[test]
    fn a_file_that_is_being_written_when_it_is_opened_is_not_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("zone");
        std::fs::write(&path, "all of it").expect("a file");
        std::thread::sleep(2 * TICK);
        let metadata = path.metadata().expect("the file");
        // On a busy machine the editor may be later than the tick that is waited for.
        let is_in_time = (0..50).any(|_| {
            std::fs::write(&path, "all").expect("a file");
            let end = path.clone();
            let editor = std::thread::spawn(move || {
                std::thread::sleep(TICK / 4);
                std::fs::write(end, "all of it").expect("a file");
                Instant::now()
            });
            let file = ZoneFile::open(&path, &metadata).expect("the file").expect("a regular file");
            let opened = Instant::now();
            let read = file.check_unchanged();
            let is_in_time = editor.join().expect("it does not panic") < opened;
            assert!(!is_in_time || read.is_err() || file.size() == 9);
            is_in_time
        });
        assert!(is_in_time, "the editor was always late");
    }

    /// Their size is 0, and some have no end.
    #[test]
    fn files_that_the_kernel_generates_are_not_regular() {
        for path in ["/proc/self/maps", "/proc/version", "/sys/kernel/mm/transparent_hugepage/enabled"] {
            let Ok(file) = open(Path::new(path)) else {
                assert!(!Path::new(path).exists(), "{path}");
                continue;
            };
            assert!(file.is_none(), "{path}");
        }
    }

    #[test]
    fn replacing_the_file_by_a_rename_is_not_a_change() {
        let folder = tempfile::tempdir().expect("a folder");
        let [path, new] = ["zone", "new"].map(|name| folder.path().join(name));
        std::fs::write(&path, "old").expect("a file");
        std::fs::write(&new, "new").expect("a file");
        let file = open(&path).expect("the file just written").expect("a regular file");
        let mut text = [0; 3];
        std::fs::rename(&new, &path).expect("both exist");
        file.read_at(0, &mut text).expect("the file is open");
        assert_eq!(&text, b"old");
        assert!(file.check_unchanged().is_ok());
    }
}
